"""Finishing what a crash, a timeout or a fork left.

No payment is ever broadcast here: its buyer may have given up and paid otherwise.  It only looks at
what has landed; a payment is broadcast again only while its buyer sends it again.

It may run in any number of processes and beside the handler of the very payment it looks at.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.primitives import Signature, UnixMs
from mintscope.base.time import HOUR_MS
from mintscope.core.payments.payment import Payment, Sighting, State, UnreadablePayment, weigh
from mintscope.core.payments.settlement import ChainUnavailable, Settlement
from mintscope.core.payments.store import Inconsistent, PaymentStore, final_after_ms

LEASE_SLOTS: Final = 25  # between two looks at one payment
APART_MS_MAX: Final = HOUR_MS  # between two looks at one that cannot be read
BATCH: Final = 256  # signatures that one status request takes
PAUSE_SLOTS: Final = 2.5

Pause = Callable[[float], Awaitable[None]]
Alarm = Callable[[Payment, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """Brings every payment to an end that the chain agrees with.

    slot_s           returns how long a slot takes now, as measured
    on_unreadable    is called at each look at a payment that is there and cannot be understood,
                     or that the store refuses to move
    """

    store: PaymentStore
    chain: Settlement
    clock: Clock
    slot_s: Callable[[], float]
    on_unreadable: Alarm

    async def run(self, pause: Pause, on_trouble: Callable[[Exception], None]) -> None:
        """Reconcile until cancelled; *pause* waits for so many seconds."""
        while True:
            try:
                while await self.once() == BATCH:
                    pass
            except (ChainUnavailable, ServiceUnavailable) as trouble:
                on_trouble(trouble)
            await pause(PAUSE_SLOTS * self.slot_s())

    async def once(self) -> int:
        """Look at the payments whose lease has ended; return how many there were."""
        now = self.clock.now()
        until = UnixMs(now + self._lease_ms())
        payments = await self.store.lease(now=now, until=until, count_max=BATCH)
        await self._examine(payments)
        return len(payments)

    async def issue_arrived(self, arrived: Sequence[Signature]) -> Sequence[Payment]:
        """Issue whatever has *arrived* (<= BATCH) without being issued; return our payments of it.

        This finds what every other way has missed: a payment that a node once
        said could never land.
        """
        ours = await self.store.find_signatures(arrived)
        late = [each for each in ours if each.state is not State.ISSUED]
        if not late:
            return ours
        await self._examine(late)
        return await self.store.find_signatures(arrived)

    async def look_at(self, signatures: Sequence[Signature]) -> None:
        """Look at these payments (<= BATCH) now, leased or not."""
        await self._examine(await self.store.find_signatures(signatures))

    async def _examine(self, payments: Sequence[Payment]) -> None:
        if not payments:
            return
        sightings = await self.chain.look([payment.signature for payment in payments])
        for payment, sighting in zip(payments, sightings, strict=True):
            await self._apply(payment, sighting)

    async def _apply(self, payment: Payment, sighting: Sighting) -> None:
        """Move *payment* by what was seen; one that cannot be moved keeps none of the others."""
        if isinstance(sighting, UnreadablePayment):
            await self._set_aside(payment, sighting.why)
            return
        evidence = weigh(payment, sighting)
        if evidence is None:
            return
        now = self.clock.now()
        again_ms = final_after_ms(self.slot_s())
        try:
            await self.store.resolve(payment.message_hash, evidence, now=now, again_ms=again_ms)
        except Inconsistent as refusal:
            await self._set_aside(payment, str(refusal))

    async def _set_aside(self, payment: Payment, why: str) -> None:
        """Raise the alarm, and look again after as long as this has lasted."""
        self.on_unreadable(payment, why)
        now = self.clock.now()
        apart_ms = min(max(now - payment.begun_at, self._lease_ms()), APART_MS_MAX)
        await self.store.postpone(payment.message_hash, until=UnixMs(now + apart_ms))

    def _lease_ms(self) -> int:
        return int(LEASE_SLOTS * self.slot_s() * 1000)
