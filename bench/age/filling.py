"""SQL statements that generate rows of several years in the database engine.

Every second entry of the journal belongs to the first credit token, and a tenth of these entries
add credits.  The other entries belong to further credit tokens, one for each thousand entries.  The
balances continue from entry to entry, over twelve months.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Final

from based58 import b58encode

from mintscope.kit.time import DAY_MS, DAY_S, MINUTE_S, SECOND_MS

MONTHS_MS: Final = 360 * DAY_MS
A_PART: Final = 1_000_000  # the most rows that one statement creates
FIRST_MINT: Final = 1
AHEAD_DAYS: Final = 30  # a stored store must be measured within this time


@dataclass(frozen=True)
class Age:
    """The size of a store: the numbers of mints, tracked mints, candles and journal entries."""

    seen: int
    followed: int
    candles: int
    entries: int

    @property
    def accounts(self) -> int:
        """The number of credit tokens; together they have half of the journal entries."""
        return max(10, self.entries // 1_000)

    @property
    def rounds(self) -> int:
        """The number of journal entries of each credit token except the first.

        The first of them adds the credits.
        """
        return -(-(self.entries // 2) // self.accounts)

    @property
    def pause_ms(self) -> int:
        """The time between two journal entries, in milliseconds."""
        return MONTHS_MS // self.entries

    @property
    def candles_each(self) -> int:
        """The number of one-minute candles of each tracked mint."""
        return max(1, self.candles // self.followed)

    def times(self, share: float) -> "Age":
        """Return this size multiplied by *share*, but with at least 100 of everything."""
        return Age(*(max(100, int(each * share)) for each in self.sizes))

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The fields of this object, in their order."""
        return self.seen, self.followed, self.candles, self.entries


def address(number: int) -> str:
    """Return the address of the mint *number*."""
    return b58encode(sha256(b"mint %d" % number).digest()).decode()


def parts(count: int, size: int = A_PART) -> Iterator[tuple[int, int]]:
    """Split the numbers below *count* into parts of *size*; yield (begin, end), *end* excluded."""
    for begin in range(0, count, size):
        yield begin, min(begin + size, count)


def accounts(age: Age, series: str, digest: str, hint: str) -> str:
    """Return the SQL statement that inserts all credit tokens except the first.

    series         a table of the numbers n of these tokens, from 0
    digest, hint   SQL expressions of n, for 32 bytes and for eight characters
    """
    last = age.entries // 2 - 1
    return f"""
INSERT INTO credit_account (id, token_hash, hint, note, issued_at, balance)
SELECT n + 2, {digest}, {hint}, '', 0, {age.rounds} - ({last} - n) / {age.accounts}
  FROM {series} AS numbers
"""


def first_account(age: Age) -> tuple[int, int]:
    """Return the number of the first credit token, and its balance."""
    last = (age.entries + 1) // 2 - 1
    return 1, last // 10 + 10 - last % 10


def entries(age: Age, series: str, now_ms: int) -> str:
    """Return the SQL statement that inserts a journal entry for each number n of *series*.

    series   a table of consecutive numbers n from 0
    """
    begin = now_ms - MONTHS_MS
    accounts_ = age.accounts
    rounds = age.rounds
    return f"""
INSERT INTO credit_entry (id, account, kind, delta, balance, at)
SELECT n + 1,
       CASE WHEN n % 2 = 0 THEN 1 ELSE 2 + (n / 2) % {accounts_} END,
       CASE WHEN n % 2 = 0 THEN CASE WHEN n / 2 % 10 = 0 THEN 'grant' ELSE 'spend' END
            WHEN n / 2 < {accounts_} THEN 'grant' ELSE 'spend' END,
       CASE WHEN n % 2 = 0 THEN CASE WHEN n / 2 % 10 = 0 THEN 10 ELSE -1 END
            WHEN n / 2 < {accounts_} THEN {rounds} ELSE -1 END,
       CASE WHEN n % 2 = 0 THEN n / 2 / 10 + 10 - n / 2 % 10
            ELSE {rounds} - n / 2 / {accounts_} END,
       {begin} + n * {age.pause_ms}
  FROM {series} AS numbers
"""


def days(age: Age, series: str, now_ms: int) -> Iterator[str]:
    """Yield the SQL statements that insert the journal's totals by day, as an older version does.

    series   a table of the numbers n, from 0, of all credit tokens except the first

    Sorting a hundred million entries by token would take longer than everything else, so the
    spends of a day are computed from the numbers of the entries.
    """
    ends = list(_entries_by_day(age, now_ms))
    # Credits are added by every tenth entry of the first account, and by the first entry of each
    # other account.
    firsts = [(day, (end + 1) // 2) for day, end in ends]
    spent = [(day, count - -(-count // 10)) for day, count in firsts]
    rows = [(1, day, now - before) for (_, before), (day, now) in pairwise(spent) if now > before]
    yield f"INSERT INTO credit_day (account, day, credits) VALUES {_listed(rows)}"
    others = [(day, before // 2, end // 2) for (_, before), (day, end) in pairwise(ends)]
    of_account = (
        f"CASE WHEN {{end}} > numbers.n THEN ({{end}} - 1 - numbers.n) / {age.accounts} ELSE 0 END"
    )
    yield f"""
INSERT INTO credit_day (account, day, credits)
WITH others (day, begun, ended) AS (VALUES {_listed(others)})
SELECT account, day, credits FROM (
    SELECT numbers.n + 2 AS account, day,
           {of_account.format(end="ended")} - {of_account.format(end="begun")} AS credits
      FROM {series} AS numbers CROSS JOIN others) AS used
 WHERE credits > 0
"""
    yield f"UPDATE credit_day_mark SET entry = {age.entries}"


def _entries_by_day(age: Age, now_ms: int) -> Iterator[tuple[int, int]]:
    """Yield (day, number of journal entries until its end), from the day before the first entry."""
    begin = now_ms - MONTHS_MS
    for day in range(begin // DAY_MS - 1, now_ms // DAY_MS + 1):
        passed_ms = max(0, (day + 1) * DAY_MS - begin)
        yield day, min(age.entries, -(-passed_ms // age.pause_ms))


def _listed(rows: Iterable[tuple[int, ...]]) -> str:
    return ", ".join(f"({', '.join(map(str, row))})" for row in rows)


def states(age: Age, mark: str) -> str:
    """Return the SQL statement that stores the same indicator state for each tracked mint.

    The placeholders are for the state, the time of its last swap, and the state in SOL.

    mark   the first character of a placeholder: "?" or "$"
    """
    return f"""
INSERT INTO state (mint, state, last_swap, in_sol)
SELECT id, {mark}1, {mark}2, {mark}3 FROM mint WHERE id <= {age.followed}
"""


def activities(now_ms: int) -> str:
    """Return the SQL statement that dates the last trade of each mint in the future.

    Inactive mints are deleted; these must stay.
    """
    day = now_ms // DAY_MS + AHEAD_DAYS
    return f"INSERT INTO activity (mint, day, swaps, volume) SELECT id, {day}, 1, 1 FROM mint"


def candles(age: Age, mints: str, minutes: str, now_ms: int) -> str:
    """Return the SQL statement that inserts one-minute candles, the same prices in each.

    mints     a table of the numbers n of the mints, from 0
    minutes   a table of the numbers n of the candles of a mint, from 0: the oldest first
    """
    minute = now_ms // SECOND_MS // MINUTE_S * MINUTE_S
    begin = minute - min(age.candles_each * MINUTE_S, 30 * DAY_S)
    return f"""
INSERT INTO candle (mint, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count)
SELECT m.n + {FIRST_MINT}, 'm1', {begin} + {MINUTE_S} * c.n, 1.0, 1.1, 0.9, 1.0, 1000000, 900000, 3
  FROM {mints} AS m CROSS JOIN {minutes} AS c
"""
