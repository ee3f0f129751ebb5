"""The minutes of one stream: each is paid for when it starts, or given back.

A minute that has started stays paid once anything of it was sent, save that a stream which we end
gives it back if no report was sent in it: `end` says how many credits that are.  One of a process
that dies is given back by another, unless it was noted that something was sent in it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mintscope.base.errors import ErrorCode, ServiceError
from mintscope.core.credits.debit import Debited
from mintscope.core.market.updates.server_sent import encode_event
from mintscope.edges.api.streams.wire import MinuteEvent
from mintscope.edges.server.streams.stream import EndReason, EventStream

Take = Callable[[], Awaitable[Debited]]
GiveBack = Callable[[Debited, int], Awaitable[None]]
NoteSent = Callable[[Debited], None]
REASONS: Final = {
    ErrorCode.INSUFFICIENT_CREDITS: EndReason.INSUFFICIENT_CREDITS,
    ErrorCode.KEY_CAP_REACHED: EndReason.KEY_CAP_REACHED,
    ErrorCode.INVALID_TOKEN: EndReason.CREDENTIAL_REFUSED,
    ErrorCode.INSUFFICIENT_SCOPE: EndReason.CREDENTIAL_REFUSED,
}
# The text of the refusal says that nothing was charged, which is true of the minute that did not
# begin alone.
MESSAGES: Final = {
    EndReason.INSUFFICIENT_CREDITS: "Too few credits are left for another minute of the stream.",
    EndReason.KEY_CAP_REACHED: "The cap of the API key allows no other minute of the stream.",
    EndReason.CREDENTIAL_REFUSED: "The credential is not accepted any more.",
    EndReason.UNAVAILABLE: "Another minute of the stream cannot be paid for now: connect again.",
}
RETRY_MS: Final = 2_000  # how long a browser waits before it comes back, unless `end` says more


class PaidMinutes:
    """Pays for a stream, of which *debited* is the first minute.

    take        takes the credits of a minute; raises ServiceError where it cannot
    give_back   gives credits back, once for each
    note_sent   notes that a minute is not given back, whatever becomes of this process
    """

    def __init__(
        self, debited: Debited, take: Take, give_back: GiveBack, note_sent: NoteSent
    ) -> None:
        self._take = take
        self._give_back = give_back
        self._note_sent = note_sent
        self._paid: Debited | None = debited  # the minute under way
        self._owed: Debited | None = None
        self._is_noted = False  # of the minute under way
        self._retry_ms: int | None = RETRY_MS  # sent once

    def begin(self, stream: EventStream) -> None:
        """Send *stream* the minute that was paid."""
        assert self._paid is not None
        stream.begin_period()
        minute = MinuteEvent(
            credits=self._paid.debit.credit_count, credits_remaining=self._paid.balance
        )
        retry_ms = self._retry_ms
        self._retry_ms = None
        stream.say(encode_event(b"minute", msgspec.json.encode(minute), retry_ms=retry_ms))

    async def renew(self, stream: EventStream) -> None:
        """Pay for the next minute of *stream*, or end it."""
        if stream.is_gone():  # it ended since this was due: what is owed for it stays owed
            return
        self.note_told()  # if nothing was: a quiet minute that is over
        self._paid = None
        try:
            paid = await self._take()
        except ServiceError as failure:
            reason = REASONS.get(failure.code, EndReason.UNAVAILABLE)
            stream.close(reason, MESSAGES[reason])
            return
        if stream.is_gone():
            self._owed = paid
            return
        self._paid = paid
        self._is_noted = False
        self.begin(stream)

    def note_told(self) -> None:
        """Note that a report was sent in the minute under way."""
        if self._paid is not None and not self._is_noted:
            self._is_noted = True
            self._note_sent(self._paid)

    def returned_count(self, stream: EventStream) -> int:
        """Return how many credits are given back of *stream*, which we end."""
        paid = self._paid
        if paid is None or stream.has_told:
            return 0
        self._paid = None
        self._owed = paid
        return paid.debit.credit_count

    async def settle(self, stream: EventStream) -> None:
        """Give back what is owed, *stream* having ended."""
        owed = self._owed
        if owed is None and self._paid is not None and not stream.has_written:
            owed = self._paid
        if owed is None:
            self.note_told()  # if nothing was: the client has left
        self._paid = self._owed = None
        if owed is not None:
            await self._give_back(owed, owed.debit.credit_count)
