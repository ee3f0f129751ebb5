"""What must work for the service to be ready."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must work: *probe* returns, or raises ServiceUnavailable with the reason.

    is_vital    without it the service is not ready; else it is degraded, and spending goes on
    """

    name: str
    probe: Callable[[], Awaitable[None]]
    is_vital: bool = True
