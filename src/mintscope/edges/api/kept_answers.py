"""Answers that were paid for and have a name: the same one is given again for ten minutes.

The store knows their names, and takes no second credit for one.  The answers themselves are kept
here, in memory: another replica, or one that was started again, reads its answer again for nothing.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.core.checkout.checkout import Delivered
from mintscope.core.credits.debit import KEPT_MS
from mintscope.core.market.report import ReadReport
from mintscope.edges.server.request import Request

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
ENTRY_BYTES: Final = 512  # of an answer beside its body, roughly


class _Kept(NamedTuple):
    at: UnixMs
    report: ReadReport
    credit_count: int
    is_bought: bool


class KeptAnswers:
    """The newest answers, of KEPT_BYTES_MAX together; the oldest are dropped first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def find(self, name: str, *, is_bought: bool = False) -> Delivered | None:
        """Return the answer kept as *name*, with its age of now, and its cost.

        is_bought    only an answer that its purchase has kept: the store has its name for as long
        """
        kept = self._answers.get(name)
        if kept is None or (is_bought and not kept.is_bought):
            return None
        age_ms = max(0, self._clock.now() - kept.at)
        if age_ms > KEPT_MS:
            return None
        report = msgspec.structs.replace(kept.report, age_ms=kept.report.age_ms + age_ms)
        return Delivered(report, kept.credit_count)

    def now(self) -> UnixMs:
        """Return the time from which an answer that is made now is kept.

        The time is before its debit: so no answer is kept for longer than its name in the store.
        """
        return self._clock.now()

    def keep(
        self, name: str, report: ReadReport, credit_count: int, *, at: UnixMs, is_bought: bool
    ) -> None:
        """Keep *report* as *name* from *at* on; it cost *credit_count*.

        is_bought    False: it was read again, for a payment whose time is not known here
        """
        self.forget(name)
        self._answers[name] = _Kept(at, report, credit_count, is_bought)
        self._bytes += _size(report)
        while self._bytes > KEPT_BYTES_MAX:
            self.forget(next(iter(self._answers)))

    def forget(self, name: str) -> None:
        """Keep what is called *name* no longer."""
        kept = self._answers.pop(name, None)
        if kept is not None:
            self._bytes -= _size(kept.report)


def _size(report: ReadReport) -> int:
    return ENTRY_BYTES + len(report.body)


async def name_of(request: Request, account: CreditAccount, key: str) -> str:
    """Return the name of the answer to *request*, which *account* pays for under *key*.

    Another request, or another account, has another name under the same key.
    Raises PayloadTooLarge, ClientDisconnected
    """
    digest = sha256(b"%d %b %b\n" % (account, key.encode(), request.method.encode()))
    digest.update(b"%b\n%b\n" % (request.path.encode(errors="replace"), request.query))
    digest.update(await request.body() if request.method == "POST" else b"")
    return digest.hexdigest()
