"""Checks that must pass for the service to be ready."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mintscope.kit.errors import ServiceUnavailable

CHECK_TIMEOUT_S: Final = 2.0
OK: Final = "ok"


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement: *probe* returns, or raises ServiceUnavailable with the reason.

    is_vital    without it the service is not ready; else it is degraded, and spending goes on
    """

    name: str
    probe: Callable[[], Awaitable[None]]
    is_vital: bool = True


async def result_of(check: Check) -> str:
    """Return OK, or the problem."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check.probe()
    except ServiceUnavailable as failure:
        return str(failure)
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    return OK
