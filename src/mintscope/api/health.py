"""Health of the service: liveness and readiness."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mintscope import __version__
from mintscope.api.discovery.operation import Operation
from mintscope.api.wire import Alive, Health, health_coverage, success
from mintscope.kit.checks import OK, Check, result_of
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode, ServiceUnavailable
from mintscope.kit.http.rate_limit import AddressLimit
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.market.coverage import Coverage

REMEMBERED_S: Final = 1.0  # seconds that a result is reused, so that frequent requests cost little


ReadCoverage: TypeAlias = Callable[[], Coverage | None]


def no_coverage() -> Coverage | None:
    """Return None: coverage is unknown, because this service does not measure it."""
    return None


@dataclass(slots=True, kw_only=True)
class HealthRoutes:
    """/v1/health for clients, /healthz and /readyz for operators.

    limit         the rate limit of /v1/health
    probe_limit   the rate limit of /healthz and /readyz
    coverage      returns the coverage of recent blocks; None before the first one was measured
    """

    checks: Sequence[Check]
    limit: AddressLimit
    probe_limit: AddressLimit
    clock: Clock
    coverage: ReadCoverage = no_coverage
    _results: dict[str, str] = field(default_factory=dict)
    _fresh_until_s: float = float("-inf")
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @Operation("GET", "/v1/health", Health, refusals=(ErrorCode.RATE_LIMITED,))
    async def get_health(self, request: Request) -> Response:
        """The health of the service.

        Returns ok or degraded, and each part of the service with ok or its problem.
        The status is 200 in both cases; costs nothing.
        """
        await self.limit.pass_through(request)
        results = await self._checked()
        return self._response(request, self._health(results))

    @Operation("GET", "/healthz", Alive, refusals=(ErrorCode.RATE_LIMITED,))
    async def get_liveness(self, request: Request) -> Response:
        """Whether the process answers.

        Returns 200 while the process answers, for operators. Costs nothing.
        """
        await self.probe_limit.pass_through(request)
        return self._response(request, Alive(status="alive"))

    @Operation(
        "GET", "/readyz", Health, refusals=(ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE)
    )
    async def get_readiness(self, request: Request) -> Response:
        """Whether the service can do its work.

        Returns 200 while the service can do its work, and otherwise 503 with the failing parts: for
        load balancers. Costs nothing.
        """
        await self.probe_limit.pass_through(request)
        results = await self._checked()
        vital = {check.name for check in self.checks if check.is_vital}
        failing = [
            f"{name}: {result}"
            for name, result in results.items()
            if result != OK and name in vital
        ]
        if failing:
            raise ServiceUnavailable("not ready; " + "; ".join(failing))
        return self._response(request, self._health(results))

    def _response(self, request: Request, data: Health | Alive) -> Response:
        return success(request, data, at=self.clock.now(), names_request=True)

    async def _checked(self) -> dict[str, str]:
        """Return the results of the checks; repeat the checks first if the results are outdated."""
        # Requests that arrive during the checks wait for the results, and do not repeat the checks.
        async with self._checking:
            if self.clock.monotonic_s() >= self._fresh_until_s:
                results = await asyncio.gather(*(result_of(check) for check in self.checks))
                self._results = {
                    check.name: result for check, result in zip(self.checks, results, strict=True)
                }
                self._fresh_until_s = self.clock.monotonic_s() + REMEMBERED_S
            return self._results

    def _health(self, results: dict[str, str]) -> Health:
        status = OK if set(results.values()) <= {OK} else "degraded"
        return Health(
            status=status,
            version=__version__,
            checks=results,
            coverage=health_coverage(self.coverage()),
        )
