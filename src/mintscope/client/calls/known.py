"""Arguments by name are checked before anything is sent."""

from collections.abc import Iterable
from typing import Any


def expect_known(given: Iterable[str], shape: Any) -> None:
    """Raise TypeError for a name in *given* that *shape*, a TypedDict, has not."""
    known = shape.__annotations__
    for name in given:
        if name not in known:
            raise TypeError(f"expected arguments among {', '.join(known)}; was {name!r}")
