"""Draws: number for number those of NumPy and of Python's random module."""

import random

import numpy as np
import pytest

SEEDS = [0, 1, 42, 12345, 2**31, 2**32 - 1]
BOUNDS = [
    [0, 1, 3],
    [8000, 8001, 2],
    [0, 154820, 1001],
    [7200, 8801, 33],
    [0, 2**32, 5],
    [0, 2**32 - 1, 5],
    [0, 2**40, 7],
    [-5, 6, 50],
    [-(2**63), 2**63 - 1, 3],
    [0, 3 * 2**30, 40],
]


@pytest.mark.parametrize("seed", [*SEEDS, 2**32, 2**63 + 11])
def test_generator(ask, seed):
    rng = np.random.default_rng(seed)
    # The legacy generator of the tool takes 32 bits; its draws are not asked for here.
    drawn = ask("draws", kind="integers", seed=seed, calls=BOUNDS)
    assert drawn == [rng.integers(low, high, size=count).tolist() for low, high, count in BOUNDS]


@pytest.mark.parametrize("seed", SEEDS)
def test_legacy_integers(ask, seed):
    np.random.seed(seed)
    drawn = ask("draws", kind="randint", seed=seed, calls=BOUNDS)
    assert drawn == [np.random.randint(low, high, size=count).tolist() for low, high, count in BOUNDS]


@pytest.mark.parametrize("seed", SEEDS)
def test_gamma(ask, seed):
    shapes = [[1.0, 0.1, 50], [0.3, 0.5, 50], [2.5, 0.04, 51], [100.0, 1e-3, 20], [0.01, 1.0, 10], [1.0, 2.0, 3]]
    np.random.seed(seed)
    expected = [[np.random.gamma(shape=a, scale=b) for _ in range(n)] for a, b, n in shapes]
    drawn = ask("draws", kind="gamma", seed=seed, calls=shapes)
    for mine, theirs in zip(drawn, expected):
        # Equal but for the last bit of log and pow, which are libm's.
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)


@pytest.mark.parametrize("seed", [*SEEDS, 2**32, 2**63 + 11])
def test_python_random(ask, seed):
    rng = random.Random(seed)
    counts = [1, 2, 3, 7, 8, 9, 1000, 1024, 1025, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40]
    expected = [rng._randbelow(count) for count in counts]
    assert ask("draws", kind="below", seed=seed, calls=counts) == expected
    rng = random.Random(seed)
    lists = [list(range(count)) for count in (0, 1, 2, 10, 257)]
    for items in lists:
        rng.shuffle(items)
    assert ask("draws", kind="shuffle", seed=seed, calls=[0, 1, 2, 10, 257]) == lists


def arrival_times(seed, rate, burstiness, count, strategy=None, start=0, end=0):
    """serving.md 2.3 in Python."""
    np.random.seed(seed)
    times, total = [], 0.0
    for i in range(count):
        progress = i / max(count - 1, 1)
        if strategy == "linear":
            rate = start + (end - start) * progress
        elif strategy == "exponential":
            rate = start * (end / start) ** progress
        if rate is None:
            gap = 0.0
        elif burstiness is None:
            gap = 1.0 / rate
        else:
            gap = np.random.gamma(shape=burstiness, scale=1.0 / (rate * burstiness))
        total += gap
        times.append(total)
    if strategy is None and total:
        times = [time * (count / rate) / total for time in times]
    return times


@pytest.mark.parametrize("rate", [None, 10.0, 0.7])
@pytest.mark.parametrize("burstiness", [1.0, 0.4, 3.0, None])
def test_arrivals(ask, rate, burstiness):
    mine = ask("arrivals", seed=7, request_rate=rate, burstiness=burstiness, count=32)
    np.testing.assert_allclose(mine, arrival_times(7, rate, burstiness, 32), rtol=1e-13)
    if rate:
        assert mine[-1] == pytest.approx(32 / rate, rel=1e-12)


@pytest.mark.parametrize("strategy", ["linear", "exponential"])
def test_ramp(ask, strategy):
    mine = ask("arrivals", seed=3, request_rate=None, burstiness=1.0, count=40, strategy=strategy, start=2, end=9)
    np.testing.assert_allclose(mine, arrival_times(3, None, 1.0, 40, strategy, 2, 9), rtol=1e-13)
