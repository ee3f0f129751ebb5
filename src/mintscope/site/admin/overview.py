"""Administrator pages for service load, users and the audit log."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.sessions import NotPossible
from mintscope.accounts.signups.reviews import Reviews
from mintscope.dex.recognition import named
from mintscope.kit.audit import (
    EventFilter,
    HourSeries,
    Series,
    UserId,
    hour_of,
    requests_of,
    status_of,
)
from mintscope.kit.errors import NotFound
from mintscope.kit.http.request import parse_id
from mintscope.kit.metrics import DISCONNECTED_STATUS
from mintscope.kit.primitives import MICRO_USD, UnixMs
from mintscope.kit.time import SECOND_MS
from mintscope.market.coverage import (
    READ,
    UNLISTED,
    WEEK_HOURS,
    Coverage,
    ProgramHour,
    Tally,
    percent,
    summed,
    totals,
    unlisted_programs,
    window_start,
)
from mintscope.site.admin.operations import OperationParts
from mintscope.site.figures import HOURS, hour_plot
from mintscope.site.page import END_SESSION, Page, PageResponse, Redirect
from mintscope.site.routes import Access, PageRequest, PageRoute, get, parse_place, post, sentence

OVERVIEW: Final = "/admin/overview"
PROGRAMS_SHOWN: Final = 8
UNLISTED_SHOWN: Final = 20
DAYS: Final = HOURS // 24
LAMPORTS_PER_SOL: Final = 10**9
UNPAID_STATUS: Final = 402
LAG_HEARD: Final = "Age of the newest block, the highest of each hour"
SALES_PLOTS: Final = (
    (HourSeries.PAID, "Payments settled"),
    (HourSeries.CREDITS_SOLD, "Credits sold"),
    (HourSeries.CREDITS_USED, "Credits used"),
)


class OverviewPages:
    """The start page for administrators."""

    def __init__(self, parts: OperationParts, review: Reviews) -> None:
        self._parts = parts
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the start page for administrators."""
        yield get(OVERVIEW, self.show, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show requests, sales, fees, data age and coverage, mostly of the last seven days."""
        hour = hour_of(request.now)
        numbers = await self._review.store.read(lambda rows: rows.hours.since(hour - HOURS + 1))
        lag_s = {at: lag / SECOND_MS for at, lag in numbers.get(HourSeries.LAG_MS, {}).items()}
        facts = {
            "codes": _codes(numbers, hour),
            "sales": [_plot(label, numbers.get(each, {}), hour) for each, label in SALES_PLOTS],
            "unpaid": sum(numbers.get(requests_of(UNPAID_STATUS), {}).values()),
            "fund": _fund(numbers.get(HourSeries.FUND, {}), hour),
            "lag": {
                "most": max(lag_s.values(), default=None),
                "last": lag_s[max(lag_s)] if lag_s else None,
                "svg": hour_plot(lag_s, hour, LAG_HEARD, is_level=True),
            },
            "age_s": await self._age_s(request),
            **_coverage(await self._parts.coverage.coverage(WEEK_HOURS), hour),
            "days": DAYS,
            "waiting": (await self._review.counts()),
        }
        return Page("admin/overview.html", facts | await self._money())

    async def _age_s(self, request: PageRequest) -> float | None:
        """Return the age of the newest block in the store in seconds; None if unknown."""
        tip = await self._parts.market.tip()
        return None if tip.time is None else max(0.0, request.now / SECOND_MS - tip.time)

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


def _coverage(coverage: Coverage | None, hour: int) -> dict[str, Any]:
    """Return the coverage as template values: shares, plots and daily sums of programs."""
    if coverage is None:
        return {"read": None, "programs": [], "unlisted": []}
    window = totals(coverage.after(window_start(coverage.time)))
    read = {
        "since": UnixMs(window_start(coverage.time) * SECOND_MS),
        "calls": _percent(window.shares.by_calls),
        "volume": _percent(window.shares.by_volume),
        "week": _percent(totals(coverage.rows).shares.by_volume),
    }
    missed = [row for row in coverage.rows if row.outcome not in {READ, UNLISTED}]
    return {
        "read": read,
        "programs": _missed(missed, hour),
        "unlisted": _unlisted(coverage.rows, hour - HOURS + 1),
    }


def _percent(share: float | None) -> str | None:
    return None if share is None else percent(share)


def _missed(rows: Iterable[ProgramHour], hour: int) -> list[dict[str, Any]]:
    """Return a plot and the daily sums of each of the programs with the most missed calls.

    All other programs are combined into one entry.
    """
    by_program: dict[str, Counter[int]] = {}
    for row in rows:
        by_program.setdefault(row.program, Counter())[row.hour] += row.tally.calls
    sums = Counter({program: of.total() for program, of in by_program.items()})
    shown = [program for program, _ in sums.most_common(PROGRAMS_SHOWN)]
    rest: Counter[int] = Counter()
    for program in by_program.keys() - set(shown):
        rest.update(by_program[program])
    lines = [(program, by_program[program]) for program in shown]
    if rest:
        lines.append(("all others", rest))
    since = hour - HOURS + 1
    return [_plot(program, of, hour) | {"days": _days(of, since)} for program, of in lines]


def _unlisted(rows: Sequence[ProgramHour], since: int) -> list[dict[str, Any]]:
    """Return up to UNLISTED_SHOWN unlisted exchange programs, with their daily calls and USD."""
    found = []
    for program, total in unlisted_programs(rows)[:UNLISTED_SHOWN]:
        days: list[list[Tally]] = [[] for _ in range(DAYS)]
        for row in rows:
            if row.program == program and row.outcome == UNLISTED:
                days[min(DAYS - 1, max(0, (row.hour - since) // 24))].append(row.tally)
        sums = [_reported(summed(day)) for day in reversed(days)]
        found.append({"program": named(program), "days": sums, "total": _reported(total)})
    return found


def _reported(tally: Tally) -> dict[str, int]:
    return {"calls": tally.calls, "usd": tally.volume // MICRO_USD}


def _plot(
    label: str, values: Mapping[int, int], hour: int, *, is_bad: bool = False
) -> dict[str, Any]:
    total = sum(values.values())
    most = max(values.values(), default=0)
    heard = f"{label}, by hour over seven days: {total} in all, {most} in an hour at most"
    svg = hour_plot(values, hour, heard)
    return {"label": label, "total": total, "most": most, "svg": svg, "is_bad": is_bad}


def _days(values: Mapping[int, int], since: int) -> list[int]:
    """Return the sums of the hourly *values* by 24 hours from the hour *since*, newest first."""
    sums = [0] * DAYS
    for at, value in values.items():
        sums[min(DAYS - 1, max(0, (at - since) // 24))] += value
    return sums[::-1]


def _codes(numbers: Mapping[Series, Mapping[int, int]], hour: int) -> list[dict[str, Any]]:
    """Return a plot for each response status code, in ascending order."""
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
    """Return a plot of the fee payer's balance in SOL, with its lowest and its last value."""
    sol = {at: value / LAMPORTS_PER_SOL for at, value in lamports.items()}
    least = min(sol.values(), default=None)
    last = sol[max(sol)] if sol else None
    heard = "SOL left for network fees, by hour over seven days"
    if least is not None:
        heard += f": {last:.4f} now, {least:.4f} at least"
    return {"least": least, "last": last, "svg": hour_plot(sol, hour, heard, is_level=True)}


USERS: Final = "/admin/users"
AUDIT: Final = "/admin/audit"
PAGE_LENGTH: Final = 50
FILTER_LENGTH_MAX: Final = 254
SUBJECT_PAGES: Final = {"application": "/admin/applications/"}


class UserPages:
    """Administrator pages for accounts and the audit log."""

    def __init__(self, review: Reviews) -> None:
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of accounts, and of the page of the audit log."""
        removal = f"{USERS}/{{user}}/remove"
        yield get(USERS, self.list, Access.SIGNED_IN)
        yield get(removal, self.ask_remove, Access.FRESH)
        yield post(removal, self.remove, Access.FRESH)
        yield get(AUDIT, self.audit, Access.SIGNED_IN)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show the accounts, newest first."""
        before = parse_place(request.query_params.line("before"))
        rows = await self._review.users(
            before=None if before is None else UserId(before), limit=PAGE_LENGTH + 1
        )
        return Page("admin/users.html", {"users": rows[:PAGE_LENGTH]} | _place(rows, before))

    async def ask_remove(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the account is removed."""
        return _removal(await self._user(request), request)

    async def remove(self, request: PageRequest) -> PageResponse:
        """Remove the account if its user name was entered as confirmation."""
        user = await self._user(request)
        typed = request.form.line("username")
        if typed != user.username:
            return _removal(user, request, field="username", error=f"Type {user.username} here.")
        try:
            await self._review.remove_user(user.user_id, actor=request.signed_in)
        except NotPossible as error:
            return _removal(user, request, field="", error=sentence(error))
        if user.user_id == request.user_id:
            return Redirect("/sign-in", notice="account-removed", cookie=END_SESSION)
        return Redirect(USERS, notice="account-removed")

    async def audit(self, request: PageRequest) -> PageResponse:
        """Show the audit log, newest first."""
        before = parse_place(request.query_params.line("before"))
        who = request.query_params.line("who")[:FILTER_LENGTH_MAX]
        action = request.query_params.line("action")[:FILTER_LENGTH_MAX]
        wanted = EventFilter(await self._subject(who), action.lower())
        rows = await self._review.events(before=before, limit=PAGE_LENGTH + 1, wanted=wanted)
        shown = rows[:PAGE_LENGTH]
        named = {name for _, event in shown for name in (event.actor, event.subject)}
        facts = {
            "events": shown,
            "subject_pages": SUBJECT_PAGES,
            "names": await self._review.names(named),
            "query": {name: text for name, text in (("who", who), ("action", action)) if text},
        }
        values = {"who": who, "action": action}
        return Page("admin/audit.html", facts | _place(rows, before), values=values)

    async def _subject(self, who: str) -> str:
        """Return *who* as the audit log names it; a known e-mail address stands for its owner."""
        if "@" not in who:
            return who
        return await self._review.subject_of(EmailAddress(who.lower())) or who

    async def _user(self, request: PageRequest) -> User:
        user = await self._review.user(UserId(parse_id(request.path_params["user"])))
        if user is None:
            raise NotFound
        return user


def _place(rows: Sequence[object], before: int | None) -> dict[str, bool]:
    return {"has_more": len(rows) > PAGE_LENGTH, "is_first": before is None}


def _removal(user: User, request: PageRequest, *, field: str = "", error: str = "") -> Page:
    return Page(
        "admin/remove.html",
        {"user": user, "is_own": user.user_id == request.user_id},
        values={"username": request.form.line("username")},
        errors={field: error} if error else {},
    )
