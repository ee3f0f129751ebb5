"""The ports of the chain, as payments need it."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
from solders.hash import Hash
from solders.pubkey import Pubkey

from mintscope.base.primitives import Mint, Signature, Wallet
from mintscope.core.payments.payment import Sighting
from mintscope.core.payments.protocol.envelope import Envelope, Signed
from mintscope.core.payments.protocol.requirement import RecentBlockhash


class ChainUnavailable(Exception):
    """No node answered in time, or none answered sensibly."""


class Unintelligible(ChainUnavailable):
    """A node has answered this very question, with what cannot be understood."""


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction would succeed now.

    balance_after        atoms left in the payer's account
    last_valid_height    above this block height it can never land: its blockhash was known where
                         it was simulated, so it is at most BLOCKHASH_BLOCKS good from there on
    """

    balance_after: int
    last_valid_height: int


class Rejected(msgspec.Struct, frozen=True):
    """The transaction would fail now.

    error          the chain's own word for why
    is_unfunded    the payer's token account does not exist, or holds too little
    """

    error: str
    is_unfunded: bool = False


class TreasuryUnusable(msgspec.Struct, frozen=True):
    """Every payment would fail now, through no fault of its payer; *why* is for the operator."""

    why: str


class UnknownBlockhash(msgspec.Struct, frozen=True):
    """The node does not know the transaction's blockhash.

    is_node_behind    the node is short of a slot that was known when the payment came, or has
                      named this blockhash itself: it may be good.  False: it has expired, or no
                      block ever had it
    """

    is_node_behind: bool = False


Failing = Rejected | UnknownBlockhash | TreasuryUnusable
Trial = Simulated | Failing


class Settlement(Protocol):
    """Raises ChainUnavailable from every verb; every verb ends within its own time limit."""

    def offer(self) -> RecentBlockhash | None:
        """Return a young blockhash for a 402; None if none is known.  Asks nothing."""

    async def recent_blockhash(self) -> Hash:
        """Return a blockhash that a payment may name from now on, as confirmed."""

    async def simulate(self, envelope: Envelope, source: Pubkey) -> Trial:
        """Try the transaction, not signed by us yet, against the chain as confirmed."""

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction; when this raises, it may have been sent all the same."""

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait for a freshly broadcast transaction to be confirmed, for *patience_s* at most."""

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history for *signatures*, in their order."""


class PaymentChain(Protocol):
    """The facts of the chain that selling needs before any payment.

    Raises ChainUnavailable from every verb; every verb ends within its own time limit.
    """

    async def refresh_offer(self) -> None:
        """Ask for a newer blockhash to offer with 402s."""

    async def expect_usable(self, asset: Mint | None = None) -> None:
        """Compare a token that payments are taken in, and its treasury, with the terms.

        asset    its mint; None: the payment token.  Raises UnusablePaymentToken.
        """

    async def genesis_hash(self) -> str:
        """Return the name of the chain that payments settle on."""

    async def block_time_s(self) -> int:
        """Return the time of the newest confirmed block, in Unix seconds."""

    async def lamports(self, wallet: Wallet) -> int:
        """Return what *wallet* has to pay network fees with."""
