"""Functions that numba compiles to machine code at their first call.

The first call of any of these functions loads numba, which takes 0.2 s; most commands call none of
them.  Until then, a stand-in takes the place of each function in every module that has imported it.
"""

import sys
from collections.abc import Callable
from threading import RLock
from typing import Any, Final, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LOADING: Final = RLock()  # reentrant: `_real` holds it while it calls `_make_all`
_waiting: Final[list["StandIn[..., Any]"]] = []


class StandIn(Generic[P, R]):
    """Stands in for a function until it is compiled; *make* compiles it and returns the result.

    The first call of any stand-in compiles the functions of all stand-ins.
    """

    def __init__(self, make: Callable[[], Callable[P, R]]) -> None:
        self._make = make
        self.made: Callable[P, R] | None = None
        _waiting.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Compile all functions if necessary, and call the function of this stand-in."""
        return self._real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute *name* of the compiled function."""
        if name.startswith("__"):  # Python itself looks up some, such as __wrapped__
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> Callable[P, R]:
        with _LOADING:  # another thread may be making the functions
            if self.made is None:
                _make_all()
        assert self.made is not None
        return self.made

    def make(self) -> None:
        """Compile the function that replaces this stand-in, and store it in `made`."""
        self.made = self._make()


def _make_all() -> None:
    """Compile all functions that have a stand-in, and put them in place of their stand-ins."""
    with _LOADING:
        while _waiting:
            _waiting[-1].make()  # if this fails, the next call tries again
            _waiting.pop()
        # Copies, because another thread may import a module meanwhile.
        for path, module in [*sys.modules.items()]:
            names = vars(module) if path.partition(".")[0] == "mintscope" else {}
            for name, value in [*names.items()]:
                if isinstance(value, StandIn) and value.made is not None:
                    names[name] = value.made


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return a stand-in for *function*; numba compiles *function* at its first call.

    The machine code is cached on disk if possible.
    """
    return StandIn(lambda: _compiled(function))


def bulk_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Return a stand-in for *function*; numba compiles it to code that runs without the GIL."""
    return StandIn(lambda: _compiled(function, nogil=True))


def _compiled(function: Callable[P, R], *, nogil: bool = False) -> Callable[P, R]:
    from numba import njit  # noqa: PLC0415 - loads in 0.2 s

    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=nogil)(function)
    except RuntimeError:  # a read-only installation has no cache
        compiled = njit(nogil=nogil)(function)
    return compiled
