"""Rows of years, made by the engines themselves: what a store of an age holds.

Every second entry of the journal is of the first account, a tenth of them received; the others are
spread over a thousandth as many accounts.  All continue their balances, over twelve months.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from based58 import b58encode

from mintscope.base.time import DAY_MS, DAY_S, MINUTE_S, SECOND_MS

MONTHS_MS: Final = 360 * DAY_MS
A_PART: Final = 1_000_000  # rows of one statement
FIRST_MINT: Final = 1


@dataclass(frozen=True)
class Age:
    """How much a store holds: mints ever seen, those followed, candles, entries of the journal."""

    seen: int
    followed: int
    candles: int
    entries: int

    @property
    def accounts(self) -> int:
        """Accounts that share every second entry."""
        return max(10, self.entries // 1_000)

    @property
    def rounds(self) -> int:
        """Entries of each of them, the first of which brings the credits of the others."""
        return -(-(self.entries // 2) // self.accounts)

    @property
    def candles_each(self) -> int:
        """Minutes of each followed mint."""
        return max(1, self.candles // self.followed)

    def times(self, share: float) -> "Age":
        """Return a younger one."""
        return Age(*(max(100, int(each * share)) for each in self.sizes))

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """All of its numbers."""
        return self.seen, self.followed, self.candles, self.entries


def address(number: int) -> str:
    """Return the address of the mint *number*."""
    return b58encode(sha256(b"mint %d" % number).digest()).decode()


def parts(count: int, size: int = A_PART) -> Iterator[tuple[int, int]]:
    """Yield where each part of 0 .. *count* - 1 begins, and where it ends."""
    for begin in range(0, count, size):
        yield begin, min(begin + size, count)


def accounts(age: Age, series: str, digest: str, hint: str) -> str:
    """Return the statement that makes all accounts but the first.

    series         a table n of their numbers from 0
    digest, hint   what makes 32 bytes, and eight characters, of n
    """
    last = age.entries // 2 - 1
    return f"""
INSERT INTO credit_account (id, token_hash, hint, note, issued_at, balance)
SELECT n + 2, {digest}, {hint}, '', 0, {age.rounds} - ({last} - n) / {age.accounts}
  FROM {series} AS numbers
"""


def first_account(age: Age) -> tuple[int, int]:
    """Return the number of the first account, and its balance."""
    last = (age.entries + 1) // 2 - 1
    return 1, last // 10 + 10 - last % 10


def entries(age: Age, series: str, now_ms: int) -> str:
    """Return the statement that makes the entries *series*, a table n of numbers from 0."""
    begin = now_ms - MONTHS_MS
    accounts_, rounds = age.accounts, age.rounds
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
       {begin} + n * {MONTHS_MS // age.entries}
  FROM {series} AS numbers
"""


def days(age: Age) -> tuple[str, str]:
    """Return the statements that add the journal up by day, as the older version has."""
    added_up = (
        f"INSERT INTO credit_day (account, day, credits) SELECT account, at / {DAY_MS}, -sum(delta)"
        f" FROM credit_entry WHERE kind = 'spend' GROUP BY account, at / {DAY_MS}"
    )
    return added_up, f"UPDATE credit_day_mark SET entry = {age.entries}"


def states(age: Age, mark: str) -> str:
    """Return the statement that gives each followed mint a state: of one that trades."""
    return f"""
INSERT INTO state (mint, state, last_swap, in_sol)
SELECT id, {mark}1, {mark}2, {mark}3 FROM mint WHERE id <= {age.followed}
"""


def activities(now_ms: int) -> str:
    """Return the statement by which every mint trades tomorrow, so that none is forgotten."""
    day = now_ms // DAY_MS + 1
    return f"INSERT INTO activity (mint, day, swaps, volume) SELECT id, {day}, 1, 1 FROM mint"


def candles(age: Age, mints: str, minutes: str, now_ms: int) -> str:
    """Return the statement that makes all minutes of the *mints*, two tables n."""
    minute = now_ms // SECOND_MS // MINUTE_S * MINUTE_S
    begin = minute - min(age.candles_each * MINUTE_S, 30 * DAY_S)
    return f"""
INSERT INTO candle (mint, timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count)
SELECT m.n + {FIRST_MINT}, 'm1', {begin} + {MINUTE_S} * c.n, 1.0, 1.1, 0.9, 1.0, 1000000, 900000, 3
  FROM {mints} AS m CROSS JOIN {minutes} AS c
"""
