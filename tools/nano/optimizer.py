"""Muon for the matrices, Adam for the rest, and the router's bias. Everything is a tensor, so that a CUDA graph can hold a step."""

from __future__ import annotations

import torch

from store import Store


def orthogonal(g: torch.Tensor) -> torch.Tensor:
    """Nearest semi-orthogonal matrix of each [r, c] of [N, r, c], roughly: five steps of a quintic iteration (BF16 on a GPU)."""
    x = g.bfloat16() if g.is_cuda else g
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x if wide else x.mT


class Optimizer:
    BETAS = (0.9, 0.98)

    def __init__(self, store: Store, lr_matrix: float, lr_small: float, decay: float = 0.1, momentum: float = 0.95):
        self.store, self.lr, self.decay, self.momentum = store, lr_matrix, decay, momentum
        self.buffers = {k: torch.zeros_like(t) for k, t in store.stacked.items()}
        self.small = list(store.small.values())
        scale = {"embed_tokens.weight": 2.0, "mlp.gate.weight": 0.3}
        self.rates = [lr_small * next((x for end, x in scale.items() if n.endswith(end)), 1.0) for n in store.small]
        self.mean = [torch.zeros_like(t) for t in self.small]
        self.square = [torch.zeros_like(t) for t in self.small]
        device = self.small[0].device
        self.factor = torch.zeros((), device=device)     # multiplies every rate
        self.bias_rate = torch.zeros((), device=device)
        self.steps = torch.zeros((), device=device)      # of Adam, since its averages are empty

    def leaves(self) -> list[torch.Tensor]:
        return [*self.store.stacked.values(), *self.small]

    @torch.no_grad()
    def step(self, grads: list[torch.Tensor | None], chosen: dict[str, torch.Tensor]) -> None:
        """`grads` in the order of leaves(); `chosen` holds each router's tokens per expert."""
        self.steps += 1
        for (key, t), g in zip(self.store.stacked.items(), grads):
            if g is None:  # an indexer's, before it is taught
                continue
            buffer = self.buffers[key]
            buffer.lerp_(g, 1 - self.momentum)
            update = orthogonal(g.lerp(buffer, self.momentum))
            lr = self.lr * self.factor
            t.mul_(1 - lr * self.decay).sub_(update * (lr * max(1.0, key[0] / key[1]) ** 0.5))
        b1, b2 = self.BETAS
        correction = torch.sqrt(1 - b2 ** self.steps) / (1 - b1 ** self.steps) * self.factor
        given = [(t, g, m, s, r) for t, g, m, s, r in zip(self.small, grads[len(self.buffers):], self.mean, self.square, self.rates) if g is not None]
        small, g, mean, square, rates = (list(x) for x in zip(*given))
        torch._foreach_lerp_(mean, g, 1 - b1)
        torch._foreach_mul_(square, b2)
        torch._foreach_addcmul_(square, g, g, 1 - b2)
        root = torch._foreach_sqrt(square)
        torch._foreach_add_(root, 1e-10)
        update = torch._foreach_div(mean, root)
        torch._foreach_mul_(update, rates)
        torch._foreach_mul_(update, correction)
        torch._foreach_sub_(small, update)
        for name, count in chosen.items():
            share = count.float() / count.sum().clamp(min=1)
            bias = self.store.bias[name]
            bias.add_(self.bias_rate * (1 - share / share.mean()).clamp(-1, 1))
            bias.sub_(bias.mean())
