"""Usage of an account: requests and credits by day, API key and endpoint."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from typing import Final, NamedTuple

from mintscope.accounts.keys.key import KeyLine
from mintscope.accounts.wallets.credits import USAGE_LINES_MAX, AccountCredits, Usage
from mintscope.accounts.wallets.wallets import UsedLine
from mintscope.credits.endpoints import NAMES
from mintscope.kit.audit import KeyId
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, iso_time
from mintscope.site.figures import day_text, spreadsheet_text
from mintscope.site.page import Page, PageResponse, TextFile
from mintscope.site.routes import Access, PageRequest, PageRoute, get

PAGE: Final = "/credits/usage"
PERIODS: Final = (7, 30, 90, 365)
USUAL_DAYS: Final = 30
VIEWS: Final = "Token pages: views and tests"
UNNOTED: Final = "Endpoint not noted"


class UsageSum(NamedTuple):
    """The sum over some days, for one key and one endpoint.

    key   None: views and tests on pages, or a key that does not exist any more
    """

    key: KeyLine | None
    endpoint: str
    requests: int
    credits: int


def sums_of(usage: Usage) -> Sequence[UsageSum]:
    """Return the sums by key and endpoint, the largest first."""
    requests: Counter[tuple[KeyId | None, int]] = Counter()
    spent: Counter[tuple[KeyId | None, int]] = Counter()
    for line in usage.lines:
        requests[line.key_id, line.endpoint] += line.requests
        spent[line.key_id, line.endpoint] += line.credits
    sums = [
        UsageSum(_key(usage.keys, of[0]), endpoint_name(*of), count, spent[of])
        for of, count in requests.items()
    ]
    return sorted(sums, key=lambda each: (-each.credits, each.endpoint))


def endpoint_name(key_id: KeyId | None, endpoint: int) -> str:
    """Return the name of an endpoint on pages and in tables."""
    return NAMES.get(endpoint, VIEWS if key_id is None else UNNOTED)


class UsagePages:
    """The pages under `/credits/usage`."""

    def __init__(self, credits_: AccountCredits) -> None:
        self._credits = credits_

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PAGE, self.show, Access.SIGNED_IN)
        yield get(f"{PAGE}.csv", self.download, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what each key used of each endpoint in a number of days."""
        days = _days(request)
        usage = await self._usage(request, days)
        sums = sums_of(usage)
        facts = {
            "sums": sums,
            "requests": sum(each.requests for each in sums),
            "used": sum(each.credits for each in sums),
            "days": days,
            "periods": PERIODS,
            "first_day": day_text(_first_day(request.now, days)),
            "is_cut": len(usage.lines) == USAGE_LINES_MAX,
            "lines_max": USAGE_LINES_MAX,
        }
        return Page("sales/usage.html", facts)

    async def download(self, request: PageRequest) -> PageResponse:
        """Return the usage by day, key and endpoint as a table for other programs."""
        usage = await self._usage(request, _days(request))
        return TextFile("mintscope-usage.csv", "text/csv", _table(usage))

    async def _usage(self, request: PageRequest, days: int) -> Usage:
        since = _first_day(request.now, days)
        return await self._credits.usage(request.signed_in.user.user_id, since)


def _days(request: PageRequest) -> int:
    text = request.query_params.text("days")
    return next((days for days in PERIODS if str(days) == text), USUAL_DAYS)


def _first_day(now: UnixMs, days: int) -> int:
    return now // DAY_MS - days + 1


def _key(keys: Mapping[KeyId, KeyLine], key_id: KeyId | None) -> KeyLine | None:
    return None if key_id is None else keys.get(key_id)


def _table(usage: Usage) -> str:
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("day", "key", "key_id", "endpoint", "requests", "credits"))
    for line in usage.lines:
        table.writerow(_row(line, _key(usage.keys, line.key_id)))
    return text.getvalue()


def _row(line: UsedLine, key: KeyLine | None) -> Sequence[object]:
    return (
        iso_time(UnixMs(line.day * DAY_MS)).partition("T")[0],
        "" if key is None else spreadsheet_text(key.name),
        "" if line.key_id is None else line.key_id,
        endpoint_name(line.key_id, line.endpoint),
        line.requests,
        line.credits,
    )
