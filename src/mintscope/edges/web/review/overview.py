"""How the service is doing: plots of a week, and what stands in the store now."""

from collections import Counter
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from mintscope.base.metrics import DISCONNECTED_STATUS
from mintscope.base.time import SECOND_MS
from mintscope.core.accounts.hours import HourSeries, Series, hour_of, requests_of, status_of
from mintscope.core.accounts.reviews import Reviews
from mintscope.edges.web.figures.hour_plot import HOURS, hour_plot
from mintscope.edges.web.pages.page import Page, PageResponse
from mintscope.edges.web.review.operations import OperationParts
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get

OVERVIEW: Final = "/admin/overview"
KINDS_MAX: Final = 500
PROGRAMS_SHOWN: Final = 8
LAMPORTS_PER_SOL: Final = 10**9
UNPAID_STATUS: Final = 402
SALES_PLOTS: Final = (
    (HourSeries.PAID, "Payments settled"),
    (HourSeries.CREDITS_SOLD, "Credits sold"),
    (HourSeries.CREDITS_USED, "Credits used"),
)


class OverviewPages:
    """The first page of administrators."""

    def __init__(self, parts: OperationParts, review: Reviews) -> None:
        self._parts = parts
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(OVERVIEW, self.show, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show how the service is doing."""
        hour = hour_of(request.now)
        numbers = await self._review.numbers(since=hour - HOURS + 1)
        lag_s = {at: lag / SECOND_MS for at, lag in numbers.get(HourSeries.LAG_MS, {}).items()}
        facts = {
            "codes": _codes(numbers, hour),
            "sales": [_plot(label, numbers.get(each, {}), hour) for each, label in SALES_PLOTS],
            "unpaid": sum(numbers.get(requests_of(UNPAID_STATUS), {}).values()),
            "fund": _fund(numbers.get(HourSeries.FUND, {}), hour),
            "lag": {
                "most": max(lag_s.values(), default=None),
                "svg": hour_plot(lag_s, hour, "Age of the newest block, the highest of each hour"),
            },
            "age_s": await self._age_s(request),
            "programs": await self._programs(),
            "waiting": (await self._review.counts()),
        }
        return Page("admin/overview.html", facts | await self._money())

    async def _age_s(self, request: PageRequest) -> float | None:
        """Return how old the newest block in the store is."""
        tip = await self._parts.market.tip()
        return None if tip.time is None else max(0.0, request.now / SECOND_MS - tip.time)

    async def _programs(self) -> list[tuple[str, int, float]]:
        """Return the programs of whose calls most were not read within a day.

        With how many, and which part of the first one's that is.
        """
        counts: Counter[str] = Counter()
        for each in await self._parts.market.not_read(KINDS_MAX):
            counts[each.program] += each.count
        shown = counts.most_common(PROGRAMS_SHOWN)
        return [(program, count, count / shown[0][1]) for program, count in shown]

    async def _money(self) -> dict[str, Any]:
        books = self._parts.sales
        if books is None:
            return {"is_sold": False, "why": None, "fund_sol": None, "pending": 0}
        fund, (pending, _) = await books.fund(), await books.pending()
        return {
            "is_sold": True,
            "why": await books.why_stopped(),
            "fund_sol": None if fund is None else fund / LAMPORTS_PER_SOL,
            "pending": pending,
        }


def _plot(
    label: str, values: Mapping[int, int], hour: int, *, is_bad: bool = False
) -> dict[str, Any]:
    total, most = sum(values.values()), max(values.values(), default=0)
    heard = f"{label}, by hour over seven days: {total} in all, {most} in an hour at most"
    svg = hour_plot(values, hour, heard)
    return {"label": label, "total": total, "most": most, "svg": svg, "is_bad": is_bad}


def _codes(numbers: Mapping[Series, Mapping[int, int]], hour: int) -> list[dict[str, Any]]:
    """Return a plot for each code that requests were answered by, in order."""
    found = {status_of(series): values for series, values in numbers.items()}
    return [
        _plot(_named(status), values, hour, is_bad=status >= HTTPStatus.INTERNAL_SERVER_ERROR)
        for status, values in sorted((code, of) for code, of in found.items() if code is not None)
    ]


def _named(status: int) -> str:
    if status == DISCONNECTED_STATUS:
        return f"{status} Client had left"
    known = {each.value: each.phrase for each in HTTPStatus}
    return f"{status} {known.get(status, '')}".rstrip()


def _fund(lamports: Mapping[int, int], hour: int) -> dict[str, Any]:
    """Return the plot of what the fee payer had left, in SOL."""
    sol = {at: value / LAMPORTS_PER_SOL for at, value in lamports.items()}
    least, last = min(sol.values(), default=None), sol[max(sol)] if sol else None
    heard = "SOL left for network fees, by hour over seven days"
    if least is not None:
        heard += f": {last:.4f} now, {least:.4f} at least"
    return {"least": least, "last": last, "svg": hour_plot(sol, hour, heard, is_level=True)}
