"""Greedy generation with a cache, and what speculation, selection and routing look like on the answers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import model


class Generator:
    def __init__(self, c: dict, p: model.Tensors, dtype: torch.dtype, device: str):
        self.c, self.device, self.dtype = c, device, dtype
        self.w = model.prepare(c, {n: t.to(device) for n, t in p.items()}, dtype)
        self.f = model.Forward(c, model.Functions(False), device)

    @torch.no_grad()
    def __call__(self, prompts: list[list[int]], tokens_max: int, end: set[int]) -> list[list[int]]:
        """Answers in the order of the prompts, the end token included."""
        b, longest = len(prompts), max(map(len, prompts))
        lengths = torch.tensor([len(p) for p in prompts], device=self.device)
        ids = torch.zeros(b, longest, dtype=torch.long, device=self.device)
        for n, p in enumerate(prompts):
            ids[n, : len(p)] = torch.tensor(p, device=self.device)
        self.size = longest + tokens_max
        self.keys, self.values, self.index = {}, {}, {}
        places = torch.arange(longest, device=self.device).expand(b, -1)
        h = self._step(ids, places)
        logits = self._logits(h[torch.arange(b), lengths - 1])
        ends = torch.tensor(sorted(end), device=self.device)
        out, done = [], torch.zeros(b, dtype=torch.bool, device=self.device)
        for n in range(tokens_max):
            token = logits.argmax(-1)
            out.append(torch.where(done, -1, token))
            done |= torch.isin(token, ends)
            if n % 8 == 7 and bool(done.all()) or n + 1 == tokens_max:
                break
            logits = self._logits(self._step(token[:, None], (lengths + n)[:, None])[:, 0])
        made = torch.stack(out, 1).tolist()
        return [[t for t in row if t >= 0] for row in made]

    def _logits(self, h):
        return (model.rms(h, self.w["model.norm.weight"], self.f.eps) @ self.w["lm_head.weight"].T).float()

    def _step(self, ids, places):
        """ids, places [B, R] -> hidden states before the last norm [B, R, H]; keys go to their places in the cache."""
        b, rows = ids.shape
        flat = places.flatten()
        cos, sin = self.f.cos[flat], self.f.sin[flat]
        x = F.embedding(ids.flatten(), self.w["model.embed_tokens.weight"]).to(self.dtype)
        seen = torch.arange(self.size, device=self.device)[None, None] <= places[:, :, None]
        allowed = seen
        for layer in range(self.c["num_hidden_layers"]):
            q, k, v, n, latent = self.f.inputs(self.w, layer, x, cos, sin)
            keys, values = self._put(self.keys, layer, k, places), self._put(self.values, layer, v, places)
            if model.is_full(self.c, layer):
                index = self._put(self.index, layer, self.f.keys_of_index(self.w, layer, n, cos, sin), places)
                iq, weight = self.f.queries_of_index(self.w, layer, n, latent, cos, sin)
                allowed = self._select(iq.unflatten(0, (b, rows)), weight.unflatten(0, (b, rows)), index, seen)
            o = F.scaled_dot_product_attention(q.unflatten(0, (b, rows)).transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2),
                                               attn_mask=allowed[:, None], scale=self.f.scale)
            x = self.f.end(self.w, layer, x, o.transpose(1, 2).flatten(0, 1), [])
        return x.unflatten(0, (b, rows))

    def _put(self, cache, layer, t, places):
        b = places.shape[0]
        if layer not in cache:
            cache[layer] = torch.zeros(b, self.size, *t.shape[1:], dtype=t.dtype, device=t.device)
        cache[layer][torch.arange(b, device=t.device)[:, None], places] = t.unflatten(0, places.shape)
        return cache[layer]

    def _select(self, q, weight, k, seen):
        topk = self.c["index_topk"]
        if self.size <= topk:
            return seen
        out = []
        for part in range(0, q.shape[0], 32):  # bounds the memory of the scores
            s = slice(part, part + 32)
            score = model.index_scores(q[s], weight[s], k[s]).masked_fill(~seen[s], -torch.inf)
            out.append((score >= score.topk(topk, -1).values[..., -1:]) & seen[s])
        return torch.cat(out)


class Watch(model.Functions):
    """Keeps what each head call would have said."""

    def __init__(self):
        super().__init__(compiled=False)
        self.guesses: list[torch.Tensor] = []

        def head_loss(x, norm, head, target, weight, eps):
            h = model.rms(x, norm, eps)
            logits = (h @ head.T).float()
            self.guesses.append(logits.argmax(-1))
            zero = torch.zeros((), device=x.device)
            return zero, zero, h
        self.head_loss = head_loss


@torch.no_grad()
def study(c: dict, p: model.Tensors, dtype, device: str, texts: list[tuple[list[int], int]], drafts: int = 5, batch: int = 32) -> dict:
    """texts: (ids, tokens of the prompt). Simulated greedy speculation, mass of full attention inside the lists, expert load."""
    w = model.prepare(c, {n: t.to(device) for n, t in p.items()}, dtype)
    steps = accepted = 0
    by_place = [0] * drafts
    masses, loads = [], None
    for start in range(0, len(texts), batch):
        part = texts[start: start + batch]
        size = -(-max(len(ids) for ids, _ in part) // 64) * 64
        ids = torch.zeros(len(part), size, dtype=torch.long)
        weight = torch.zeros(len(part), size)
        for n, (t, _) in enumerate(part):
            ids[n, : len(t)] = torch.tensor(t)
            weight[n, 6: len(t)] = 1
        first = [min(max(prompt - 1, c["index_topk"]), len(t) - 2) for t, prompt in part]  # where a list cannot hold everything, if anywhere
        rows = torch.stack([torch.linspace(n, len(t) - 2, 24).long() for n, (t, _) in zip(first, part)])
        watch = Watch()
        b = model.Batch(ids.flatten().to(device), torch.arange(size).repeat(len(part)).to(device), weight.flatten().to(device),
                        [model.Segment(0, len(part), size, ids.numel())], [rows.to(device)])
        r = model.Forward(c, watch, device)(w, b, model.Mode(sparse=True, drafts=drafts, taught=(0,), hold=True))
        if len(r.mass):
            masses.append(r.mass.cpu())
        chosen = torch.stack([x.float().cpu() for x in r.chosen])
        loads = chosen if loads is None else loads + chosen
        guess = torch.stack([g.view(len(part), size).cpu() for g in watch.guesses[1:]])  # [drafts, B, S]
        for n, (t, prompt) in enumerate(part):
            at = prompt  # the newest known token
            while at < len(t) - 1:
                right = 0
                while right < drafts and at + 1 + right < len(t) and guess[right, n, at - 1] == t[at + 1 + right]:
                    by_place[right] += 1
                    right += 1
                steps += 1
                accepted += right + 1
                at += right + 1
    share = loads / loads.sum(-1, keepdim=True) * loads.shape[1]
    return {"steps": steps,
            "acceptance_length": round(accepted / steps, 3), "accepted_by_place": [round(n / steps, 3) for n in by_place],
            "mass_inside_lists": [round(x, 4) for x in torch.stack(masses).mean(0).tolist()] if masses else [],
            "expert_share_least": round(share.min().item(), 4), "expert_share_most": round(share.max().item(), 4),
            "expert_share_by_layer": [[round(x, 2) for x in row] for row in share.tolist()]}
