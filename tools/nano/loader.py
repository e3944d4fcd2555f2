"""Training batches made by worker processes: every batch has the same segments, one of each bucket of document lengths."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import threading
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

import data
import model

FIRST = 6  # tokens of a document that are not predicted (model.shifted relies on it)


@dataclass(frozen=True)
class Bucket:
    length: int     # documents of up to this many tokens
    documents: int  # of them in a batch

    @property
    def rows(self) -> int:
        """Rows of a document on which an indexer can be taught."""
        return max(4, self.length // 16)


# So many of each as the data has, roughly.
BUCKETS = (Bucket(96, 32), Bucket(192, 46), Bucket(320, 42), Bucket(448, 34), Bucket(704, 18), Bucket(1088, 6), Bucket(1984, 4), Bucket(4032, 1))
SMALL_BUCKETS = (Bucket(96, 2), Bucket(192, 1), Bucket(320, 1))


def segment(documents: list[tuple[list[int], list[int]]], bucket: Bucket, r: random.Random) -> tuple:
    """-> (ids [B, S], code [B, S]: 0 padding, 1 prompt, 2 written; rows [B, R])"""
    ids = np.zeros((len(documents), bucket.length), np.uint16)
    code = np.zeros((len(documents), bucket.length), np.uint8)
    rows = np.zeros((len(documents), bucket.rows), np.uint16)
    for n, (document, written) in enumerate(documents):
        ids[n, : len(document)] = document
        code[n, FIRST: len(document)] = 1 + np.array(written[FIRST:], np.uint8)
        said = [i - 1 for i, w in enumerate(written) if w]
        rows[n] = [r.choice(said) if k % 4 else r.randrange(len(document)) for k in range(bucket.rows)]
    return ids, code, rows


def work(tokenizer_file: str, seed: str, first: int, stride: int, buckets: tuple[Bucket, ...], out: list) -> None:
    """Examples first, first + stride, ... into their buckets; what a full queue cannot take is dropped."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(tokenizer_file)
    waiting: list[list] = [[] for _ in buckets]
    number = first
    while True:
        document = data.tokens(tokenizer, data.one(seed, number))
        place = next((n for n, b in enumerate(buckets) if len(document[0]) <= b.length), None)
        if place is not None:
            waiting[place].append(document)
            if len(waiting[place]) == buckets[place].documents:
                try:
                    out[place].put(segment(waiting[place], buckets[place], random.Random(number)), timeout=0.02)
                except queue.Full:
                    pass
                waiting[place] = []
        number += stride


class Loader:
    """Start it before CUDA is touched."""

    def __init__(self, tokenizer_file: str, seed: str, workers: int, buckets: tuple[Bucket, ...] = BUCKETS, first: int = 0):
        context = multiprocessing.get_context("fork")
        self.buckets = buckets
        self.made = [context.Queue(maxsize=48) for _ in buckets]
        self.processes = [context.Process(target=work, args=(tokenizer_file, seed, first + n, workers, buckets, self.made), daemon=True) for n in range(workers)]
        for p in self.processes:
            p.start()
        self.ready: queue.Queue = queue.Queue(maxsize=8)

    def start(self, device: str) -> None:
        threading.Thread(target=self._collect, args=(device,), daemon=True).start()

    def _collect(self, device: str) -> None:
        while True:
            self.ready.put(batch([q.get() for q in self.made], device))

    def next(self) -> model.Batch:
        return self.ready.get()

    def waiting(self) -> list[int]:
        return [q.qsize() for q in self.made]

    def stop(self) -> None:
        for p in self.processes:
            p.terminate()


def batch(made: list[tuple], device: str) -> model.Batch:
    """`weight` of the result holds the codes 0, 1, 2 (train.py turns them into weights)."""
    parts, at = [], 0
    for ids, _, _ in made:
        parts.append(model.Segment(at, *ids.shape, ids.size))
        at += ids.size

    def move(arrays: list[np.ndarray], kind) -> torch.Tensor:
        t = torch.from_numpy(np.concatenate([a.ravel() for a in arrays]).astype(kind))
        return t.pin_memory().to(device, non_blocking=True) if device != "cpu" else t
    positions = [np.broadcast_to(np.arange(ids.shape[1]), ids.shape) for ids, _, _ in made]
    return model.Batch(move([m[0] for m in made], np.int64), move(positions, np.int64), move([m[1] for m in made], np.float32), parts,
                       [move([m[2]], np.int64).view(m[2].shape) for m in made])
