"""Functions that are compiled to machine code, by numba, at their first call."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile *function*, and keep the machine code where a folder can be written."""
    try:
        compiled: Callable[P, R] = njit(cache=True)(function)
    except RuntimeError:  # a read-only installation compiles again in every process
        compiled = njit()(function)
    return compiled


def bulk_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile *function* as `kernel` does; other threads run while it does."""
    try:
        compiled: Callable[P, R] = njit(cache=True, nogil=True)(function)
    except RuntimeError:
        compiled = njit(nogil=True)(function)
    return compiled
