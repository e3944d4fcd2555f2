"""Generation with a cache says what a pass over the whole text would say."""

import torch

import infer
import model
import nano_config
from test_model import Kept, spread


def test_cache_equals_whole_pass():
    c = nano_config.tiny()
    p = spread(c, 6)
    g = torch.Generator().manual_seed(4)
    prompts = [torch.randint(0, 1400, (n,), generator=g).tolist() for n in (70, 41, 23)]
    made = infer.Generator(c, p, torch.float32, "cpu")(prompts, 12, {1500})
    for prompt, answer in zip(prompts, made):
        ids = torch.tensor(prompt + answer)
        kept = Kept()
        b = model.Batch(ids, torch.arange(len(ids)), torch.ones(len(ids)), [model.Segment(0, 1, len(ids), len(ids))], [torch.tensor([[1]])])
        model.Forward(c, kept, "cpu")(model.prepare(c, p, torch.float32), b, model.Mode(sparse=True, drafts=0))
        logits = kept.logits[0][len(prompt) - 1: -1]
        top = logits.topk(2).values
        for n, token in enumerate(answer):
            if top[n, 0] - top[n, 1] > 1e-3:
                assert token == logits[n].argmax(), (n, token)
