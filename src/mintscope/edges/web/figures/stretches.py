"""A line in stretches: those in which something was traded, and those without a trade."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple


class Stretch(NamedTuple):
    """Consecutive points as SVG has them; *is_quiet*: nothing was traded between them."""

    is_quiet: bool
    points: Sequence[str]


def stretches(points: Sequence[str], is_quiet: Callable[[int], bool]) -> Iterator[Stretch]:
    """Yield *points* in stretches, each from the last point of the one before.

    is_quiet   whether nothing was traded from the point before up to this one
    """
    if len(points) == 1:
        yield Stretch(is_quiet=False, points=points)
    for quiet, group in groupby(range(1, len(points)), is_quiet):
        places = list(group)
        yield Stretch(quiet, points[places[0] - 1 : places[-1] + 1])
