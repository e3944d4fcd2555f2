"""The glm_moe_dsa forward pass for training, in plain PyTorch functions over flat lists of tokens.

transformers' GlmMoeDsaForCausalLM defines the mathematics; test_model.py proves this equal to it. What differs is shape:
a batch is T tokens made of segments, each B documents of S tokens, and everything but attention sees [T, ...]. The routed
experts and the shared one are one wide gated layer whose hidden values are scaled by the expert's weight (0 where the
router did not choose it): the same sums, as three large matrix products.

Parameters carry the checkpoint's names, with the routed experts of a layer stacked: `...mlp.experts.gate_proj.weight` is
[n_routed_experts, moe_intermediate_size, hidden_size].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Segment:
    start: int      # first token
    documents: int  # B
    length: int     # S
    tokens: int     # tokens of the segment, at least B * S; what is left over is padding

    @property
    def used(self) -> int:
        return self.documents * self.length


def shapes(c: dict) -> dict[str, tuple[int, ...]]:
    """Every parameter, MTP layer included."""
    h, v, heads, e = c["hidden_size"], c["vocab_size"], c["num_attention_heads"], c["n_routed_experts"]
    qk, rank = c["qk_nope_head_dim"] + c["qk_rope_head_dim"], c["kv_lora_rank"]
    out: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (v, h)}
    for n in range(c["num_hidden_layers"] + 1):
        p = f"model.layers.{n}."
        a, m = p + "self_attn.", p + "mlp."
        mtp = n == c["num_hidden_layers"]
        out |= {p + "input_layernorm.weight": (h,), p + "post_attention_layernorm.weight": (h,),
                a + "q_a_proj.weight": (c["q_lora_rank"], h), a + "q_a_layernorm.weight": (c["q_lora_rank"],),
                a + "q_b_proj.weight": (heads * qk, c["q_lora_rank"]),
                a + "kv_a_proj_with_mqa.weight": (rank + c["qk_rope_head_dim"], h), a + "kv_a_layernorm.weight": (rank,),
                a + "kv_b_proj.weight": (heads * (c["qk_nope_head_dim"] + c["v_head_dim"]), rank),
                a + "o_proj.weight": (h, heads * c["v_head_dim"])}
        if is_full(c, n):
            i, d = a + "indexer.", c["index_head_dim"]
            out |= {i + "wq_b.weight": (c["index_n_heads"] * d, c["q_lora_rank"]), i + "wk.weight": (d, h), i + "k_norm.weight": (d,),
                    i + "k_norm.bias": (d,), i + "weights_proj.weight": (c["index_n_heads"], h)}
        if is_sparse(c, n):
            w = c["moe_intermediate_size"]
            out |= {m + "gate.weight": (e, h), m + "gate.e_score_correction_bias": (e,)}
            for kind, shape in (("gate_proj", (w, h)), ("up_proj", (w, h)), ("down_proj", (h, w))):
                out |= {f"{m}experts.{kind}.weight": (e, *shape), f"{m}shared_experts.{kind}.weight": shape}
        else:
            w = c["intermediate_size"]
            out |= {m + "gate_proj.weight": (w, h), m + "up_proj.weight": (w, h), m + "down_proj.weight": (h, w)}
        if mtp:
            out |= {p + "enorm.weight": (h,), p + "hnorm.weight": (h,), p + "eh_proj.weight": (h, 2 * h), p + "shared_head.norm.weight": (h,)}
    return out | {"model.norm.weight": (h,), "lm_head.weight": (v, h)}


def is_full(c: dict, layer: int) -> bool:
    return layer == c["num_hidden_layers"] or c["indexer_types"][layer] == "full"


def is_sparse(c: dict, layer: int) -> bool:
    return layer == c["num_hidden_layers"] or c["mlp_layer_types"][layer] == "sparse"


def init(c: dict, seed: int, device: str = "cpu") -> Tensors:
    """Fresh parameters: residual branches start at nothing."""
    g = torch.Generator().manual_seed(seed)
    out = {}
    for name, shape in shapes(c).items():
        if name.endswith(("norm.weight",)):
            t = torch.ones(shape)
        elif name.endswith(("bias", "o_proj.weight", "down_proj.weight")):
            t = torch.zeros(shape)
        elif name.endswith("embed_tokens.weight"):
            t = torch.randn(shape, generator=g) * 0.5
        elif name.endswith("lm_head.weight"):
            t = torch.randn(shape, generator=g) * 0.02
        else:
            t = torch.randn(shape, generator=g) * (0.7 / math.sqrt(shape[-1]))
        out[name] = t.to(device)
    return out


def prepare(c: dict, p: Tensors, dtype: torch.dtype) -> Tensors:
    """The parameters as the forward pass reads them: in its dtype, the experts side by side. Router and bias stay float32."""
    w: Tensors = {}
    for name, t in p.items():
        if ".mlp.experts." in name or ".shared_experts." in name:
            continue
        keep = name.endswith(("mlp.gate.weight", "e_score_correction_bias", "embed_tokens.weight")) or "norm" in name.split(".")[-2]
        w[name] = t if keep else t.to(dtype)
    for n in range(c["num_hidden_layers"] + 1):
        m = f"model.layers.{n}.mlp."
        if is_sparse(c, n):
            gate, up, down = (torch.cat([p[f"{m}experts.{k}.weight"], p[f"{m}shared_experts.{k}.weight"][None]]).to(dtype)
                              for k in ("gate_proj", "up_proj", "down_proj"))
            w[m + "gate_up"] = torch.cat([gate.flatten(0, 1), up.flatten(0, 1)])
            w[m + "down"] = down.permute(1, 0, 2).flatten(1)
        else:
            w[m + "gate_up"] = torch.cat([w.pop(m + "gate_proj.weight"), w.pop(m + "up_proj.weight")])
            w[m + "down"] = w.pop(m + "down_proj.weight")
    return w


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    y = x.float() if x.dtype == torch.bfloat16 else x
    return (weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps))).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Adjacent pairs of the last dimension; cos and sin are [T, dims / 2] and x is [T, (heads,) dims]."""
    if x.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)


def angles(c: dict, length: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    dims = c["qk_rope_head_dim"]
    inv = 1.0 / (c["rope_parameters"]["rope_theta"] ** (torch.arange(0, dims, 2, dtype=torch.float32, device=device) / dims))
    angle = torch.arange(length, dtype=torch.float32, device=device)[:, None] * inv
    return angle.cos(), angle.sin()


# ---- what happens to each token alone; train.py compiles these ----

def queries(x, norm, qa, qa_norm, qb, cos, sin, heads: int, rope: int, eps: float):
    """x [T, H] -> (q [T, heads, d], normed x, normed query latent)"""
    n = rms(x, norm, eps)
    latent = rms(n @ qa.T, qa_norm, eps)
    q = (latent @ qb.T).unflatten(-1, (heads, -1))
    q = torch.cat([q[..., :-rope], rotate(q[..., -rope:], cos, sin)], -1)
    return q, n, latent


def attention_inputs(x, norm, qa, qa_norm, qb, kva, kva_norm, kvb, cos, sin, heads: int, rope: int, nope: int, eps: float):
    """x [T, H] -> (q, k, v [T, heads, d], normed x, normed query latent)"""
    q, n, latent = queries(x, norm, qa, qa_norm, qb, cos, sin, heads, rope, eps)
    row = n @ kva.T
    key = rotate(row[:, -rope:], cos, sin)
    kv = (rms(row[:, :-rope], kva_norm, eps) @ kvb.T).unflatten(-1, (heads, -1))
    k = torch.cat([kv[..., :nope], key[:, None].expand(-1, heads, -1)], -1)
    return q, k, kv[..., nope:].contiguous(), n, latent


def index_keys(n, wk, k_norm, k_bias, cos, sin, rope: int):
    k = n @ wk.T
    k = F.layer_norm(k.float() if k.dtype == torch.bfloat16 else k, k.shape[-1:], k_norm, k_bias, 1e-6).to(n.dtype)
    return torch.cat([rotate(k[:, :rope], cos, sin), k[:, rope:]], -1)


def index_queries(n, latent, wq, weights, cos, sin, heads: int, rope: int):
    """-> (q [T, heads, d], weight of each head [T, heads] with both scales in it)"""
    q = (latent @ wq.T).unflatten(-1, (heads, -1))
    q = torch.cat([rotate(q[..., :rope], cos, sin), q[..., rope:]], -1)
    weight = (n @ weights.T).float() if n.dtype == torch.bfloat16 else n @ weights.T
    return q, weight * (q.shape[-1] ** -0.5 * heads ** -0.5)


def after_attention(x, o, o_proj, norm, eps: float):
    x = x + o.flatten(1) @ o_proj.T
    return x, rms(x, norm, eps)


def dense_end(x, o, o_proj, norm, gate_up, down, eps: float):
    x, n = after_attention(x, o, o_proj, norm, eps)
    gate, up = (n @ gate_up.T).chunk(2, -1)
    return x + (F.silu(gate) * up) @ down.T


def route(n, router, bias, top: int, scale: float):
    """-> (weight of each expert [T, E], 0 for those not chosen)"""
    s = torch.sigmoid((n.float() if n.dtype == torch.bfloat16 else n) @ router.T)
    biased = (s + bias).detach()
    a, b = biased[:, :, None], biased[:, None, :]
    order = torch.arange(s.shape[1], device=s.device)
    ahead = (b > a) | ((b == a) & (order[None, None, :] < order[None, :, None]))
    s = s * (ahead.sum(-1) < top)
    return s / (s.sum(-1, keepdim=True) + 1e-20) * scale


def sparse_end(x, o, o_proj, norm, router, bias, gate_up, down, top: int, scale: float, eps: float):
    """-> (x, chosen [T, E])"""
    x, n = after_attention(x, o, o_proj, norm, eps)
    weight = route(n, router, bias, top, scale)
    every = torch.cat([weight, torch.ones_like(weight[:, :1])], 1).to(x.dtype)  # the shared expert counts as it is
    gate, up = (n @ gate_up.T).chunk(2, -1)
    hidden = (F.silu(gate) * up).unflatten(-1, (every.shape[1], -1)) * every[:, :, None]
    return x + hidden.flatten(1) @ down.T, (weight.detach() > 0)


def draft_input(embedded, hidden, enorm, hnorm, eh_proj, eps: float):
    return torch.cat([rms(embedded, enorm, eps), rms(hidden, hnorm, eps)], -1) @ eh_proj.T


def head_loss(x, norm, head, target, weight, eps: float):
    """-> (weighted sum of losses, number of right tokens among those of weight 1, hidden after the norm)"""
    h = rms(x, norm, eps)
    logits = (h @ head.T).float()
    loss = F.cross_entropy(logits, target, reduction="none")
    right = (logits.argmax(-1) == target) & (weight >= 1)
    return (loss * weight).sum(), right.sum(), h


# ---- attention over the segments ----

def by_segment(t: torch.Tensor, segments: list[Segment]) -> list[torch.Tensor]:
    """[T, ...] -> one [B, S, ...] a segment."""
    parts = t.split([s.tokens for s in segments])
    return [(part if s.tokens == s.used else part[: s.used]).unflatten(0, (s.documents, s.length)) for part, s in zip(parts, segments)]


def attend(q, k, v, segments: list[Segment], bias: list[torch.Tensor | None] | None, scale: float):
    out = []
    for n, (qs, ks, vs, s) in enumerate(zip(by_segment(q, segments), by_segment(k, segments), by_segment(v, segments), segments)):
        mask = bias[n] if bias is not None else None
        o = F.scaled_dot_product_attention(qs.transpose(1, 2), ks.transpose(1, 2), vs.transpose(1, 2), scale=scale, is_causal=mask is None,
                                           attn_mask=None if mask is None else mask.expand(-1, qs.shape[2], -1, -1))
        o = o.transpose(1, 2).flatten(0, 1)
        out.append(o if s.tokens == s.used else F.pad(o, (0, 0, 0, 0, 0, s.tokens - s.used)))
    return torch.cat(out)


def index_scores(q, weight, k):
    """q [B, R, heads, d], weight [B, R, heads], k [B, S, d] -> [B, R, S] float32"""
    dots = torch.matmul(q.transpose(1, 2), k.transpose(1, 2)[:, None])
    return (torch.relu(dots).to(weight.dtype) * weight.transpose(1, 2)[..., None]).sum(1)


def causal_scores(q, weight, k):
    """index_scores of every row, -inf where a key lies in the future."""
    place = torch.arange(k.shape[1], device=k.device)
    return index_scores(q, weight, k).masked_fill(place[None] > place[:, None], -math.inf)


def list_mask(score, least, dtype: torch.dtype):
    """[B, 1, S, S]: 0 at the selected keys, -inf elsewhere."""
    hidden = (score < least) | (score == -math.inf)
    return torch.where(hidden, -math.inf, 0.0).to(dtype)[:, None]


@torch.no_grad()
def selection(q, weight, k, segments: list[Segment], topk: int, f: "Functions") -> list[torch.Tensor | None]:
    """The index list of every token as an additive mask [B, 1, S, S] in q's dtype; None where everything fits."""
    out: list[torch.Tensor | None] = []
    for qs, ws, ks, s in zip(by_segment(q, segments), by_segment(weight, segments), by_segment(k, segments), segments):
        if s.length <= topk:
            out.append(None)
            continue
        score = f.causal_scores(qs, ws, ks)
        least = score.topk(topk, dim=-1, sorted=False).values.amin(-1, keepdim=True)
        out.append(f.list_mask(score, least, q.dtype))
    return out


def causal_probability(q_rows, k, rows, scale: float):
    """What full attention would give: q_rows [B, R, heads, d], k [B, S, heads, d], rows [B, R] -> [B, heads, R, S] float32"""
    logits = torch.einsum("brhd,bshd->bhrs", q_rows, k).float() * scale
    future = torch.arange(k.shape[1], device=k.device)[None, None] > rows[:, :, None]
    return torch.softmax(logits.masked_fill(future[:, None], -math.inf), -1)


def take_rows(t: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """[B, S, ...], [B, R] -> [B, R, ...]"""
    return t[torch.arange(t.shape[0], device=t.device)[:, None], rows]


class Functions:
    """The functions worth compiling, compiled or plain."""

    def __init__(self, compiled: bool):
        if compiled:
            torch._dynamo.config.recompile_limit = 64  # one for each bucket of lengths
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self.queries, self.attention_inputs = wrap(queries), wrap(attention_inputs)
        self.index_keys, self.index_queries = wrap(index_keys), wrap(index_queries)
        self.dense_end, self.sparse_end = wrap(dense_end), wrap(sparse_end)
        self.draft_input, self.head_loss = wrap(draft_input), wrap(head_loss)
        self.causal_scores, self.list_mask = wrap(causal_scores), wrap(list_mask)


@dataclass
class Batch:
    ids: torch.Tensor        # [T]
    positions: torch.Tensor  # [T]
    weight: torch.Tensor     # [T] what predicting this token counts: 1 written by the model, less in prompts, 0 padding
    segments: list[Segment]
    rows: list[torch.Tensor]  # a segment's rows [B, R] on which the indexer is taught


@dataclass
class Mode:
    sparse: bool = False       # attention sees the index lists only
    drafts: int = 1            # steps of the MTP layer
    taught: tuple[int, ...] = ()  # segments on which the indexer is taught
    hold: bool = False         # whether attention is asked to stay within the lists


@dataclass
class Result:
    loss: torch.Tensor          # weighted sum over tokens
    right: torch.Tensor
    draft_loss: list[torch.Tensor]
    draft_right: list[torch.Tensor]
    index_loss: torch.Tensor    # mean KL of the taught rows
    outside: torch.Tensor       # mean of -log(mass inside)
    mass: torch.Tensor          # [groups] mean mass of full attention that the lists hold
    chosen: list[torch.Tensor]  # [E] tokens a layer's experts got


class Forward:
    """One pass over a batch."""

    def __init__(self, c: dict, functions: Functions, device, length_max: int = 4096):
        self.c, self.f = c, functions
        self.cos, self.sin = angles(c, length_max + 8, device)
        self.scale = (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]) ** -0.5
        self.eps = c["rms_norm_eps"]

    def inputs(self, w: Tensors, layer: int, x, cos, sin):
        a, c = f"model.layers.{layer}.self_attn.", self.c
        return self.f.attention_inputs(x, w[f"model.layers.{layer}.input_layernorm.weight"], w[a + "q_a_proj.weight"], w[a + "q_a_layernorm.weight"],
                                       w[a + "q_b_proj.weight"], w[a + "kv_a_proj_with_mqa.weight"], w[a + "kv_a_layernorm.weight"],
                                       w[a + "kv_b_proj.weight"], cos, sin, c["num_attention_heads"], c["qk_rope_head_dim"], c["qk_nope_head_dim"], self.eps)

    def later_queries(self, w: Tensors, layer: int, x, cos, sin):
        a, c = f"model.layers.{layer}.self_attn.", self.c
        return self.f.queries(x, w[f"model.layers.{layer}.input_layernorm.weight"], w[a + "q_a_proj.weight"], w[a + "q_a_layernorm.weight"],
                              w[a + "q_b_proj.weight"], cos, sin, c["num_attention_heads"], c["qk_rope_head_dim"], self.eps)[0]

    def end(self, w: Tensors, layer: int, x, o, chosen: list):
        p, c = f"model.layers.{layer}.", self.c
        common = (x, o, w[p + "self_attn.o_proj.weight"], w[p + "post_attention_layernorm.weight"])
        if not is_sparse(c, layer):
            return self.f.dense_end(*common, w[p + "mlp.gate_up"], w[p + "mlp.down"], self.eps)
        x, picked = self.f.sparse_end(*common, w[p + "mlp.gate.weight"], w[p + "mlp.gate.e_score_correction_bias"], w[p + "mlp.gate_up"], w[p + "mlp.down"],
                                      c["num_experts_per_tok"], c["routed_scaling_factor"], self.eps)
        chosen.append(picked)
        return x

    def keys_of_index(self, w: Tensors, layer: int, n, cos, sin):
        i = f"model.layers.{layer}.self_attn.indexer."
        return self.f.index_keys(n, w[i + "wk.weight"], w[i + "k_norm.weight"], w[i + "k_norm.bias"], cos, sin, self.c["qk_rope_head_dim"])

    def queries_of_index(self, w: Tensors, layer: int, n, latent, cos, sin, plain: bool = False):
        i, f = f"model.layers.{layer}.self_attn.indexer.", index_queries if plain else self.f.index_queries
        return f(n, latent, w[i + "wq_b.weight"], w[i + "weights_proj.weight"], cos, sin, self.c["index_n_heads"], self.c["qk_rope_head_dim"])

    def lists(self, w: Tensors, layer: int, n, latent, cos, sin, segments):
        """Additive masks of the index lists of a layer that owns an indexer."""
        with torch.no_grad():
            k = self.keys_of_index(w, layer, n.detach(), cos, sin)
            q, weight = self.queries_of_index(w, layer, n.detach(), latent.detach(), cos, sin)
            return selection(q, weight, k, segments, self.c["index_topk"], self.f)

    def __call__(self, w: Tensors, b: Batch, mode: Mode) -> Result:
        c, layers = self.c, self.c["num_hidden_layers"]
        cos, sin = self.cos[b.positions], self.sin[b.positions]
        dtype = w["lm_head.weight"].dtype
        embed = w["model.embed_tokens.weight"]
        x = F.embedding(b.ids, embed).to(dtype)
        teacher, chosen, bias = Teacher(self, w, b, mode), [], None
        for layer in range(layers):
            q, k, v, n, latent = self.inputs(w, layer, x, cos, sin)
            if is_full(c, layer):
                teacher.close()
                bias = self.lists(w, layer, n, latent, cos, sin, b.segments) if mode.sparse else None
                teacher.open(layer, n, latent, bias)
            teacher.see(q, k)
            x = self.end(w, layer, x, attend(q, k, v, b.segments, bias, self.scale), chosen)
        teacher.close()
        target, weight = shifted(b, 1)
        loss, right, h = self.f.head_loss(x, w["model.norm.weight"], w["lm_head.weight"], target, weight, self.eps)
        draft_loss, draft_right = self.draft(w, b, mode, h, embed, teacher, chosen)
        valid = (b.weight > 0)
        return Result(loss, right, draft_loss, draft_right, teacher.index_loss(), teacher.outside(), teacher.mass(),
                      [(p & valid[:, None]).sum(0) for p in chosen])

    def draft(self, w: Tensors, b: Batch, mode: Mode, h, embed, teacher: "Teacher", chosen: list):
        """Step j of the token at p reads token p + 1 + j at position p + j and predicts token p + 2 + j; steps after the
        first see the first step's keys and list."""
        if mode.drafts == 0:
            return [], []
        layer = self.c["num_hidden_layers"]
        p = f"model.layers.{layer}."
        extras = (w[p + "enorm.weight"], w[p + "hnorm.weight"], w[p + "eh_proj.weight"])
        losses, rights, kept = [], [], []
        for j in range(mode.drafts):
            cos, sin = self.cos[b.positions + j], self.sin[b.positions + j]
            x = self.f.draft_input(F.embedding(shifted(b, 1 + j)[0], embed).to(h.dtype), h, *extras, self.eps)
            if j == 0:
                q, k, v, n, latent = self.inputs(w, layer, x, cos, sin)
                bias = self.lists(w, layer, n, latent, cos, sin, b.segments) if mode.sparse else None
                teacher.open(layer, n, latent, bias)
                teacher.see(q, k)
                teacher.close()
            else:
                q = self.later_queries(w, layer, x, cos, sin)
            x = self.end(w, layer, x, attend(q, k, v, b.segments, bias, self.scale), kept)
            target, weight = shifted(b, 2 + j)
            loss, right, h = self.f.head_loss(x, w[p + "shared_head.norm.weight"], w["lm_head.weight"], target, (weight >= 1).float(), self.eps)
            losses.append(loss)
            rights.append(right)
        chosen.append(kept[0])
        return losses, rights


def shifted(b: Batch, by: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For every token the one `by` further on, and its weight. The first tokens of a document have weight 0, so that
    nothing is predicted across a border."""
    return torch.roll(b.ids, -by), torch.roll(b.weight, -by)


class Teacher:
    """Collects what full attention looks at on some rows, and how well a group's index scores and lists agree.

    A group is a layer that owns an indexer and those that share its lists; the target is the mean over the group's heads.
    """

    def __init__(self, forward: Forward, w: Tensors, b: Batch, mode: Mode):
        self.forward, self.w, self.b, self.mode = forward, w, b, mode
        self.group = None
        self.losses, self.logs, self.masses = [], [], []

    def open(self, layer, n, latent, bias):
        if self.mode.taught:
            self.group = (layer, n.detach(), latent.detach(), bias)
            self.sums: dict[int, torch.Tensor] = {}
            self.layers = 0
            self.inside: list[torch.Tensor] = []

    def see(self, q, k):
        if self.group is None:
            return
        b, bias = self.b, self.group[3]
        self.layers += 1
        qs, ks = by_segment(q, b.segments), by_segment(k, b.segments)
        for s in self.mode.taught:
            q_rows, keys = take_rows(qs[s], b.rows[s]), ks[s]
            if not self.mode.hold:
                q_rows, keys = q_rows.detach(), keys.detach()
            p = causal_probability(q_rows, keys, b.rows[s], self.forward.scale)
            mean = p.mean(1)
            self.sums[s] = self.sums.get(s, 0) + mean.detach()
            if bias is not None and bias[s] is not None:
                seen = take_rows(bias[s][:, 0], b.rows[s]) == 0
                inside = (p * seen[:, None]).sum(-1)
                self.logs.append(-torch.log(inside + 1e-6).mean())
                self.inside.append(inside.detach().mean())

    def close(self):
        if self.group is None:
            return
        layer, n, latent, _ = self.group
        f, b = self.forward, self.b
        cos, sin = f.cos[b.positions], f.sin[b.positions]
        k = by_segment(f.keys_of_index(self.w, layer, n, cos, sin), b.segments)
        ns, ls = by_segment(n, b.segments), by_segment(latent, b.segments)
        for s, target in self.sums.items():
            rows = b.rows[s]
            flat = rows.flatten()
            q, weight = f.queries_of_index(self.w, layer, take_rows(ns[s], rows).flatten(0, 1), take_rows(ls[s], rows).flatten(0, 1),
                                           f.cos[flat], f.sin[flat], plain=True)
            score = index_scores(q.unflatten(0, rows.shape), weight.unflatten(0, rows.shape), k[s])
            future = torch.arange(score.shape[-1], device=score.device)[None, None] > rows[:, :, None]
            guess = torch.log_softmax(score.masked_fill(future, -1e30), -1)
            target = target / self.layers
            self.losses.append((target * (torch.log(target + 1e-9) - guess)).masked_fill(future, 0).sum(-1).mean())
        if self.inside:
            self.masses.append(torch.stack(self.inside).mean())
        self.group = None

    def _mean(self, values):
        return torch.stack(values).mean() if values else torch.zeros((), device=self.b.ids.device)

    def index_loss(self):
        return self._mean(self.losses)

    def outside(self):
        return self._mean(self.logs)

    def mass(self):
        return torch.stack(self.masses) if self.masses else torch.zeros(0, device=self.b.ids.device)
