"""Runs two audits of the books: one of new entries, and one of all entries."""

from collections.abc import Sequence
from typing import Final

from mintscope.credits.invariants import Violation
from mintscope.kit.primitives import UnixMs
from mintscope.payments.audit import AuditBooks

PARTS_MAX: Final = 10_000
LATER: Final = UnixMs(2**52)  # a time at which every entry is settled


async def violations_of(books: AuditBooks, *, now: UnixMs = LATER) -> Sequence[Violation]:
    """Audit the new entries of *books*, then all entries; return the contradictions of both.

    now   the time of the second audit
    """
    found = [*(await books.check(after_entry=None)).violations]
    while not (await books.prove(now=now, begins=False)).is_finished:
        pass
    part = await books.prove(now=now, begins=True)
    for _ in range(PARTS_MAX):
        found += part.violations
        if part.is_finished:
            return found
        part = await books.prove(now=now, begins=False)
    raise AssertionError(f"expected a walk to end within {PARTS_MAX} parts")
