"""The port of whoever speaks to the chain on behalf of payments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from solders.pubkey import Pubkey

from mintscope.payments.envelope import Signed
from mintscope.payments.payment import Sighting
from mintscope.primitives import Signature, UnixMs


class ChainUnavailable(Exception):
    """No node answered in time, or none answered sensibly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The transaction would succeed now.

    balance_after    atoms left in the payer's account
    block_height     of the chain, no lower than that of the state it was simulated on
    """

    balance_after: int
    block_height: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The transaction would fail now; *error* is the chain's own word for why."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A transaction that touched the treasury, newest knowledge of it."""

    signature: Signature
    sighting: Sighting
    at: UnixMs


class PaymentChain(Protocol):
    """Raises ChainUnavailable from every verb; every verb ends within its own time limit."""

    async def simulate(self, signed: Signed, source: Pubkey) -> Simulated | Rejected:
        """Try the transaction, both signatures checked, against the chain as confirmed."""
        ...

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction; when this raises, it may have been sent all the same."""
        ...

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait for a freshly broadcast transaction to be confirmed, for *patience_s* at most."""
        ...

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history for *signatures*, in their order."""
        ...

    async def arrivals(self, after: Signature | None) -> Sequence[Signature]:
        """Return what landed on the treasury after *after*, oldest first."""
        ...
