"""Functions that numba compiles to machine code at their first call."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile *function*, and cache the machine code if its folder is writable."""
    try:
        compiled: Callable[P, R] = njit(cache=True)(function)
    except RuntimeError:  # a read-only installation compiles again in every process
        compiled = njit()(function)
    return compiled


def bulk_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile *function* as `kernel` does; it releases the GIL while it runs."""
    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        compiled = njit(nogil=True)(function)
    return compiled
