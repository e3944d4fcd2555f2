"""Train nano. Resumable: state goes to OUT/state as files of at most 15 MB, the log to OUT/log.jsonl.

    python train.py --tokenizer DIR/tokenizer.json --out OUT --steps 4500 [--stop-after 540] [--resume OLD_OUT]

The schedule is a function of step / steps alone:
    0    .. 0.50  dense attention; from 0.10 the indexers learn what attention looks at
    0.50 .. 1     attention sees the index lists only, and is asked to stay within them; later drafts are trained
    0.80 .. 1     weights are seen as their FP8 or NVFP4 forms
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

import loader
import model
import nano_config
import store
from optimizer import Optimizer

PROMPT_WEIGHT = {"plain": 0.1, "taught": 0.05, "sparse": 0.03, "rounded": 0.03}  # against 1 for what the model writes


def flags_of(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--steps", type=int, required=True, help="length of the whole training")
    parser.add_argument("--fresh", action="store_true", help="with --resume: the schedule starts again")
    parser.add_argument("--by-time", action="store_true", help="the rate falls to 0 with --stop-after, not with --steps")
    parser.add_argument("--length-max", type=int, default=4032, help="longest documents")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds from the start of this process")
    parser.add_argument("--stop-step", type=int, default=10 ** 9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", default="nano-train")
    parser.add_argument("--lr-matrix", type=float, default=0.012)
    parser.add_argument("--lr-small", type=float, default=0.003)
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--sparse-from", type=float, default=0.50)
    parser.add_argument("--round-from", type=float, default=0.80)
    parser.add_argument("--teach-from", type=float, default=0.10)
    parser.add_argument("--log-every", type=int, default=50)
    return parser.parse_args(argv)


def mode_of(flags, step: int) -> tuple[str, int]:
    """Phase, and place in the cycle of four."""
    done = step / flags.steps
    if done < flags.teach_from:
        return "plain", step % 2
    return ("taught" if done < flags.sparse_from else "sparse" if done < flags.round_from else "rounded"), step % 4


def meaning(key: tuple[str, int], segments: int) -> tuple[model.Mode, str]:
    """What the forward pass does, and how it sees the weights."""
    phase, turn = key
    if phase == "plain":
        return model.Mode(drafts=1 + turn), "none"
    taught = (1 + turn, min(5 + turn, segments - 1)) if segments > 5 else (turn % segments,)
    if phase == "taught":
        return model.Mode(drafts=1 + turn % 2, taught=taught), "none"
    mode = model.Mode(sparse=True, drafts=5 if turn == 1 else 2, taught=taught, hold=True)
    return mode, "none" if phase == "sparse" else "nvfp4" if turn == 2 else "fp8"


def rate(flags, step: int, since_start: int, time_done: float) -> float:
    """Multiplies every learning rate: a short rise, then constant, then straight down over the last 60 %."""
    done = time_done if flags.by_time else step / flags.steps
    return min(1.0, (since_start + 1) / flags.warm) * min(1.0, max(0.0, (1 - done) / 0.6))


METRICS = ("loss", "right", "index", "outside", "mass", "mass_least", "load_least", "load_most", "draft1", "draft2", "draft3", "draft4", "draft5")


class Trainer:
    def __init__(self, flags):
        self.flags = flags
        self.c = nano_config.tiny() if flags.tiny else nano_config.config()
        self.step = 0
        p = model.init(self.c, 1)
        if flags.resume:
            p = store.load(flags.resume / "state")
            self.step = 0 if flags.fresh else json.loads((flags.resume / "state/step.json").read_text())["step"]
        self.store = store.Store(self.c, {n: t.to(flags.device) for n, t in p.items()})
        self.first = self.step
        self.optimizer = Optimizer(self.store, flags.lr_matrix, flags.lr_small)
        self.dtype = torch.float32 if flags.device == "cpu" else torch.bfloat16
        self.forward = model.Forward(self.c, model.Functions(flags.device != "cpu"), flags.device)
        self.routers = list(self.store.bias)
        self.graphs: dict[tuple, tuple] = {}
        self.started, self.begun = time.time(), None
        self.fixed: model.Batch | None = None
        self.pool = None

    def compute(self, b: model.Batch, key: tuple[str, int]) -> torch.Tensor:
        """One whole step; returns METRICS, NaN where a mode has no such thing."""
        mode, rounding = meaning(key, len(b.segments))
        weight = torch.where(b.weight == 1, PROMPT_WEIGHT[key[0]], b.weight.clamp(max=1))
        written = (b.weight == 2).sum().clamp(min=1)
        w = model.prepare(self.c, self.store.tensors(self.dtype, rounding), self.dtype)
        r = self.forward(w, model.Batch(b.ids, b.positions, weight, b.segments, b.rows), mode)
        loss = r.loss / written + 0.2 * torch.stack(r.draft_loss).mean() / written + r.index_loss + 0.03 * r.outside
        grads = torch.autograd.grad(loss, self.optimizer.leaves(), allow_unused=True)
        self.optimizer.step(list(grads), dict(zip(self.routers, r.chosen)))
        shares = [n / n.sum() * len(n) for n in r.chosen]
        nothing = torch.full((), float("nan"), device=b.ids.device)
        mass = (r.mass.mean(), r.mass.min()) if len(r.mass) else (nothing, nothing)
        drafts = [n / written for n in r.draft_right] + [nothing] * (5 - len(r.draft_right))
        values = [r.loss / written, r.right / written, r.index_loss if mode.taught else nothing, r.outside if len(r.mass) else nothing, *mass,
                  torch.stack([n.min() for n in shares]).min(), torch.stack([n.max() for n in shares]).max(), *drafts]
        return torch.stack([v.detach().float() for v in values])

    def captured(self, key: tuple[str, int]):
        """The step as a CUDA graph over the fixed batch."""
        if key not in self.graphs:
            if self.graphs and next(iter(self.graphs))[0] != key[0]:
                self.graphs.clear()
                self.pool = None  # it goes with its graphs
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.compute(self.fixed, key)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                out = self.compute(self.fixed, key)
            self.pool = graph.pool()
            self.graphs[key] = (graph, out)
        return self.graphs[key]

    def train_step(self, b: model.Batch) -> torch.Tensor:
        if self.step == self.first + 4:  # the graphs of the first phase are there
            self.begun = time.time()
        done = (time.time() - self.begun) / (self.started + self.flags.stop_after - self.begun) if self.begun else 0.0
        factor = rate(self.flags, self.step, self.step - self.first, done)
        self.optimizer.factor.fill_(factor)
        self.optimizer.bias_rate.fill_(0.01 * max(0.05, factor))
        key = mode_of(self.flags, self.step)
        if self.flags.device == "cpu":
            return self.compute(b, key)
        if self.fixed is None:
            self.fixed = b
        else:
            for mine, theirs in zip((self.fixed.ids, self.fixed.positions, self.fixed.weight, *self.fixed.rows), (b.ids, b.positions, b.weight, *b.rows)):
                mine.copy_(theirs)
        graph, out = self.captured(key)
        graph.replay()
        if self.flags.by_time and self.step % 4 == 3:
            torch.cuda.synchronize()  # or the clock would run behind the steps
        return out.clone()

    def save(self) -> None:
        folder = self.flags.out / "state"
        store.save(folder, self.store.plain())
        (folder / "step.json").write_text(json.dumps({"step": self.step, "steps": self.flags.steps}) + "\n")


def main(argv=None) -> Trainer:
    start = time.time()
    flags = flags_of(argv)
    flags.out.mkdir(parents=True, exist_ok=True)
    # Every resumed part draws examples of its own.
    first = json.loads((flags.resume / "state/step.json").read_text())["step"] if flags.resume else 0
    buckets = loader.SMALL_BUCKETS if flags.tiny else tuple(b for b in loader.BUCKETS if b.length <= flags.length_max)
    batches = loader.Loader(flags.tokenizer, flags.seed, flags.workers, buckets, first=10000 * first)
    trainer = Trainer(flags)
    trainer.started = start
    batches.start(flags.device)
    log = (flags.out / "log.jsonl").open("a")
    seen: list[torch.Tensor] = []
    mark = time.time()
    tokens = sum(b.length * b.documents for b in buckets)
    try:
        while trainer.step < min(flags.steps, flags.stop_step) and time.time() - start < flags.stop_after:
            seen.append(trainer.train_step(batches.next()))
            trainer.step += 1
            if trainer.step % flags.log_every == 0 or trainer.step == trainer.first + 5:
                means = torch.stack(seen).nanmean(0).tolist()
                line = {"step": trainer.step, "seconds": round(time.time() - start, 1)} | {k: round(v, 4) for k, v in zip(METRICS, means) if v == v}
                line["ms"] = round((time.time() - mark) / len(seen) * 1e3, 1)
                line["ktokens_per_s"] = round(tokens * len(seen) / (time.time() - mark) / 1e3)
                line["waiting"] = batches.waiting()
                print(json.dumps(line), flush=True)
                log.write(json.dumps(line) + "\n")
                log.flush()
                seen, mark = [], time.time()
    finally:
        batches.stop()
        trainer.save()
    return trainer


if __name__ == "__main__":
    main()
