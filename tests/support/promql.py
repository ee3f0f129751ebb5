"""Evaluates PromQL over made-up samples: only the parts that the tested alerts use.

`increase` extrapolates as Prometheus does: to the ends of the range, or, if the series begins or
ends far from them, by half of the usual distance between two samples.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import promql_parser

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Samples = Sequence[tuple[float, float]]  # seconds and value, oldest first

STALE_S: Final = 300.0
ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
SETS: Final[Mapping[str, Callable[[bool], bool]]] = {"and": bool, "unless": operator.not_}


class Series:
    """Samples by the name of their metric and their labels."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, Labels], list[tuple[float, float]]] = {}

    def add(self, name: str, at_s: float, value: float, **labels: str) -> None:
        """Add a sample that is newer than all samples before it."""
        self._samples.setdefault((name, frozenset(labels.items())), []).append((at_s, value))

    def value(self, expression: str, at_s: float) -> Vector:
        """Return the value of *expression*, a vector, at *at_s*.

        Raises ValueError for an expression that this module does not know.
        """
        found = self._value(promql_parser.parse(expression), at_s)
        assert isinstance(found, dict), f"expected a vector; was {found}"
        return found

    def _value(self, node: Any, at_s: float) -> Vector | float:
        match node:
            case promql_parser.NumberLiteral():
                return float(node.val)
            case promql_parser.ParenExpr():
                return self._value(node.expr, at_s)
            case promql_parser.VectorSelector():
                return self._newest(node, at_s)
            case promql_parser.Call() if node.func.name == "increase":
                return self._increase(node.args[0], at_s)
            case promql_parser.AggregateExpr() if str(node.op) == "sum":
                return _summed(node, self._value(node.expr, at_s))
            case promql_parser.BinaryExpr():
                sides = self._value(node.lhs, at_s), self._value(node.rhs, at_s)
                return _binary(str(node.op), *sides)
            case _:
                raise ValueError(f"expected what is known here; was {node}")

    def _matching(self, selector: Any) -> Mapping[Labels, Samples]:
        wanted = [(each.name, str(each.op), each.value) for each in selector.matchers.matchers]
        assert all("Equal" in op for _, op, _ in wanted), "expected = and != alone"
        found = {}
        for (name, labels), samples in self._samples.items():
            has = dict(labels)
            if name == selector.name and all(
                (has.get(label, "") == value) == ("NotEqual" not in op)
                for label, op, value in wanted
            ):
                found[labels] = samples
        return found

    def _newest(self, selector: Any, at_s: float) -> Vector:
        at_s -= _seconds(selector.offset)
        found = {}
        for labels, samples in self._matching(selector).items():
            seen = [value for at, value in samples if at_s - STALE_S < at <= at_s]
            if seen:
                found[labels] = seen[-1]
        return found

    def _increase(self, matrix: Any, at_s: float) -> Vector:
        selector = matrix.vector_selector
        end = at_s - _seconds(selector.offset)
        start = end - matrix.range.total_seconds()
        found = {}
        for labels, samples in self._matching(selector).items():
            seen = [(at, value) for at, value in samples if start < at <= end]
            if len(seen) > 1:
                found[labels] = _increased(seen, start, end)
        return found


def _seconds(offset: Any) -> float:
    return 0.0 if offset is None else float(offset.total_seconds())


def _increased(samples: Samples, start: float, end: float) -> float:
    (first_at, first), (last_at, last) = samples[0], samples[-1]
    rise = last - first
    for (_, before), (_, value) in pairwise(samples):
        if value < before:  # the counter was reset
            rise += before
    sampled, apart = last_at - first_at, (last_at - first_at) / (len(samples) - 1)
    before, after = first_at - start, end - last_at
    if before >= apart * 1.1:
        before = apart / 2
    if rise > 0 and first >= 0:
        before = min(before, sampled * first / rise)  # counters are never negative
    if after >= apart * 1.1:
        after = apart / 2
    return rise * (sampled + before + after) / sampled


def _summed(node: Any, vector: Vector | float) -> Vector:
    assert isinstance(vector, dict)
    by = [] if node.modifier is None else node.modifier.labels
    found: Vector = {}
    for labels, value in vector.items():
        key = frozenset((name, each) for name, each in labels if name in by)
        found[key] = found.get(key, 0.0) + value
    return found


def _binary(op: str, left: Vector | float, right: Vector | float) -> Vector | float:
    if isinstance(left, float):
        if isinstance(right, float):
            return ARITHMETIC[op](left, right)
        return _each(op, {labels: (left, value) for labels, value in right.items()}, kept=1)
    if isinstance(right, float):
        return _each(op, {labels: (value, right) for labels, value in left.items()}, kept=0)
    if op in SETS:
        return {labels: value for labels, value in left.items() if SETS[op](labels in right)}
    both = {labels: (value, right[labels]) for labels, value in left.items() if labels in right}
    return _each(op, both, kept=0)


def _each(op: str, pairs: Mapping[Labels, tuple[float, float]], *, kept: int) -> Vector:
    """Return *op* of each pair; a comparison returns side *kept* of pairs for which it is true."""
    if op in ARITHMETIC:
        return {labels: ARITHMETIC[op](*pair) for labels, pair in pairs.items()}
    return {labels: pair[kept] for labels, pair in pairs.items() if COMPARISONS[op](*pair)}
