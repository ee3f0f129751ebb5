"""Steps of bench.age in their own process: `python -m bench.age.steps audit|statement`."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from mintscope.app.cli.config import configured
from mintscope.app.stores.stores import Money, open_money
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import CreditAccount

A_FOLD: Final = 20_000  # the number of journal entries in one transaction
LATE_MAX: Final = 20
FIRST: Final = CreditAccount(1)  # the account with half of all entries


async def audit(money: Money) -> None:
    """Audit all payments and credits once; print the duration of the longest part.

    A part that timed out is repeated from its beginning, as in the service, because other processes
    can have delayed it.
    """
    clock = SystemClock()
    longest_s = 0.0
    count = 0
    late_count = 0
    is_finished = False
    begins = True
    while not is_finished:
        begun_s = time.monotonic()
        try:
            part = await money.books.prove(now=clock.now(), begins=begins)
        except ServiceUnavailable:
            late_count += 1
            if late_count > LATE_MAX:
                raise
            begins = False
            continue
        if part.violations:
            raise RuntimeError(f"expected sound books; {part.violations[:3]}")
        is_finished = part.is_finished
        begins = False
        count += 1
        longest_s = max(longest_s, time.monotonic() - begun_s)
    late = f"; {late_count} timed out" if late_count else ""
    print(f"{longest_s:.3f} s the longest of {count} parts{late}")


async def statement(money: Money) -> None:
    """Read the credit statement with the most entries, and print the seconds that this took.

    Before that, add up all whole days of the journal, as an api process does after an upgrade.
    """
    before = SystemClock().now()
    while await money.accounts.transact(lambda rows: rows.credits.fold_days(before, A_FOLD)):
        pass
    await money.ledger.statement(FIRST)
    begun_s = time.monotonic()
    found = await money.ledger.statement(FIRST)
    print(f"{time.monotonic() - begun_s:.3f} s a statement; {len(found.entries)} lines")


STEPS: Final[dict[str, Callable[[Money], Awaitable[None]]]] = {
    "audit": audit,
    "statement": statement,
}


async def main(name: str) -> None:
    """Run the step *name*, "audit" or "statement", on the store that the environment names."""
    async with open_money(configured(None).config, SystemClock()) as money:
        await STEPS[name](money)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
