"""The values of a report that a rule may look at, by their names on the wire."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, NewType, get_args, get_origin

import msgspec

from mintscope.core.market.report import TokenReport

Field = NewType("Field", str)  # as `indicators.h1.rsi`

PARTS: Final = ("price", "indicators")  # of a report; its span is no value of the market


def _inner(kind: Any) -> Any:
    """Return the type behind annotations and `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    inner = [each for each in get_args(kind) if each is not type(None)]
    return _inner(inner[0]) if inner else kind


def _numbers(shape: type[msgspec.Struct]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield each number in *shape*: its names on the wire, and the attributes that lead to it."""
    for each in msgspec.structs.fields(shape):
        kind = _inner(each.type)
        if kind is float:
            yield (each.encode_name,), (each.name,)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for names, attributes in _numbers(kind):
                yield (each.encode_name, *names), (each.name, *attributes)


FIELDS: Final[Mapping[Field, tuple[str, ...]]] = {
    Field(".".join(names)): attributes
    for names, attributes in _numbers(TokenReport)
    if names[0] in PARTS
}

OF_CONFIDENCE: Final = {Field("price.liquidityUsd"), Field("price.rejectedShareH1")}
"""Fields that say how good a price is, whatever its confidence."""


def read_field(report: TokenReport, field: Field) -> float | None:
    """Return the value of *field*, one of FIELDS; None where history is too short for it."""
    found: Any = report
    for attribute in FIELDS[field]:
        if found is None:
            return None
        found = getattr(found, attribute)
    return None if found is None else float(found)
