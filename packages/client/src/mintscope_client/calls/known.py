"""Checks the keyword arguments of requests, whose types are only known to type checkers."""

from collections.abc import Iterable
from typing import Any


def expect_known(given: Iterable[str], shape: Any) -> None:
    """Raise TypeError if *given* has a name that is not a field of *shape*, a TypedDict."""
    known = shape.__annotations__
    for name in given:
        if name not in known:
            raise TypeError(f"expected arguments among {', '.join(known)}; was {name!r}")
