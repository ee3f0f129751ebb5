"""Measures mintscope and its peers in alternation, so that a busy machine affects all equally."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median, quantiles
from typing import Final

ROUNDS: Final = 15


@dataclass(slots=True)
class Turns:
    """The processor seconds and elapsed seconds of one implementation, in each round."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def times_as_long(self, other: "Turns") -> float:
        """Return the median ratio of the processor time of a round to that of *other*."""
        ratios = [mine / theirs for mine, theirs in zip(self.cpu_s, other.cpu_s, strict=True)]
        return median(ratios)


def take_turns(
    works: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS
) -> dict[str, Turns]:
    """Run each of *works* once in each round, in random order; return the times that each took.

    An additional round at the beginning is not counted.
    """
    taken = {name: Turns() for name in works}
    random, names = Random(1), list(works)
    for number in range(rounds + 1):
        random.shuffle(names)
        for name in names:
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            works[name]()
            if number > 0:
                taken[name].cpu_s.append(time.process_time() - cpu_s)
                taken[name].wall_s.append(time.perf_counter() - wall_s)
    return taken


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the quartiles of *values*, as a share of their median."""
    low, middle, high = quantiles(values, n=4)
    return (high - low) / 2 / middle
