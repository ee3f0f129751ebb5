"""The port of whoever remembers payments.  Five verbs, each one atomic and durable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mintscope.payments.envelope import MessageHash
from mintscope.payments.payment import Evidence, Payment
from mintscope.payments.refusal import Reason
from mintscope.primitives import Signature, UnixMs

HOUR_MS: Final = 3_600_000
FINAL_AFTER_MS: Final = 15_000  # how long after a resolution its finality is looked for


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup saw.

    mark    orders the resolutions of payments: those after it may be missing from a
            balance that is read from now on
    """

    payment: Payment | None
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be lost in any hour, to bad luck or to somebody who means it.

    failures        payments that landed and reverted, per payer and per address
    fee_lamports    network fees that no sale has earned back: of reverted and pending payments
    """

    failures: int = 3
    fee_lamports: int = 20_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A payment about to be made, and what must hold for it to be.

    mark           of the lookup that preceded the simulation
    balance_after  of the payer's token account, by that simulation
    lease_until    who made it looks after it until then
    """

    payment: Payment
    mark: int
    balance_after: int
    budget: Budget
    lease_until: UnixMs


class Begun:
    """The payment is pending, durably: it may be broadcast now."""


@dataclass(frozen=True, slots=True)
class Known:
    """The very same payment exists already."""

    payment: Payment


class KeyTaken:
    """The redelivery key belongs to another payment of this payer that may still be good."""


@dataclass(frozen=True, slots=True)
class Overdrawn:
    """The payer or the address has used up what it may risk."""

    reason: Reason


class SalesClosed:
    """No payment may begin: an invariant is violated, or the hour's fees are spent."""


class PaymentStore(Protocol):
    """Raises ServiceUnavailable from every verb when the store does not answer."""

    async def find(self, message_hash: MessageHash) -> Found:
        """Return the payment of that name, if there is one."""
        ...

    async def begin(self, promise: Promise) -> Begun | Known | KeyTaken | Overdrawn | SalesClosed:
        """Make the payment pending unless it exists or something speaks against it.

        One payer's payments are decided one by one: *balance_after* must cover
        every other payment of that payer that is pending or was resolved after
        *mark*, because the simulation cannot have seen those.
        """
        ...

    async def resolve(
        self, message_hash: MessageHash, evidence: Evidence, *, now: UnixMs
    ) -> Payment:
        """Apply *evidence*, hand out or freeze the goods; return the payment as it then is."""
        ...

    async def lease(self, *, now: UnixMs, until: UnixMs, count_max: int) -> Sequence[Payment]:
        """Take over payments that are not final and that nobody looks after at *now*."""
        ...

    async def find_signatures(self, signatures: Sequence[Signature]) -> Sequence[Payment]:
        """Return those payments among *signatures* that are ours, in any order."""
        ...
