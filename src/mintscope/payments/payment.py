"""One payment from the moment it is pending: its states, and the evidence that moves it.

    pending -> issued    it landed and paid enough
    pending -> failed    it landed and reverted, or the chain says that it never can land
    failed  -> issued    it landed after all: landing always wins
    issued  -> frozen    it vanished after it was confirmed, and was missed twice
    frozen  -> issued    and came back
    any     -> frozen    it landed with less than was agreed

Only evidence from the chain changes the state of a payment, never the time.  A state is `final` if
no fork can change it: the transaction is finalized, or its blockhash had expired at a finalized
height and its signature was not found.  Only final evidence overturns a final state.  An issued
purchase is taken back only if its transaction was missing at two finalized heights, some blocks
apart, because one node may have lost its history.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.payments.pricing import BUNDLES, MICRO, REQUEST_USD
from mintscope.payments.protocol.envelope import MessageHash, RefusalReason, Resource

MISSED_BLOCKS: Final = 32  # finalized between two looks in vain


class State(StrEnum):
    """The states of a payment."""

    PENDING = "pending"
    ISSUED = "issued"
    FAILED = "failed"
    FROZEN = "frozen"


class PaidReport(msgspec.Struct, frozen=True, kw_only=True):
    """A finished answer, bought by a single request."""

    body: bytes


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """Credits on a new token, whose plain text is derived and never stored."""

    credits: int
    token_hash: CredentialHash
    hint: str


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    """Credits on an existing token."""

    credits: int
    account: CreditAccount


PaidItem = PaidReport | NewToken | TopUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """The facts of one payment.

    message_hash       identifies the payment
    signature          of the transaction, known before it was broadcast
    address            of the client, whose failures are limited like those of the payer
    key_hash           of the redelivery key
    fee_lamports       upper bound for our network fee
    last_valid_height  above this finalized block height the payment can never land
    asset              the token of its atoms; None: begun before two tokens were accepted
    paid               atoms that arrived; 0 before that
    reason             why it failed or is frozen
    final              its block is finalized
    touched            the balance of the new token that it bought has changed
    missed_height      finalized height at which it was first missed since it was issued; 0: never
    """

    message_hash: MessageHash
    signature: Signature
    payer: Wallet
    address: str
    resource: Resource
    amount: int
    purchase: PaidItem
    key_hash: CredentialHash
    fee_lamports: int
    last_valid_height: int
    begun_at: UnixMs
    asset: Mint | None
    state: State = State.PENDING
    paid: int = 0
    reason: RefusalReason | None = None
    final: bool = False
    touched: bool = False
    missed_height: int = 0


class Landed(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block and succeeded; *paid* atoms reached the treasury."""

    paid: int
    final: bool


class Reverted(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block and failed: the fee is gone, nothing was paid."""

    final: bool


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction was not found.

    height    finalized block height read *before* looking, with the whole history
              searched; 0 if only recent blocks were, which proves nothing
    """

    height: int = 0


class UnreadablePayment(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block but cannot be read; *why* is for the operator."""

    why: str


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction was not found at finalized *height*, where it could no longer land."""

    height: int


Sighting = Landed | Reverted | Unseen | UnreadablePayment
Evidence = Landed | Reverted | Dead


def weigh(payment: Payment, sighting: Sighting) -> Evidence | None:
    """Return the evidence of *sighting* about *payment*; None if it proves nothing."""
    match sighting:
        case Landed() | Reverted():
            return sighting
        case Unseen(height=height) if height > payment.last_valid_height:
            return Dead(height=height)
        case _:
            return None


def apply(payment: Payment, evidence: Evidence) -> Payment:
    """Return *payment* in the state that *evidence* puts it in; the only transition function."""
    match evidence:
        case Landed():
            return _land(payment, evidence)
        case Reverted(final=final):
            return _disprove(payment, RefusalReason.REVERTED, final=final)
        case Dead(height=height):
            return _miss(payment, height)


def _land(payment: Payment, landed: Landed) -> Payment:
    if payment.final and not landed.final:
        # Either this is old, or a node was wrong about finality: check again, and change nothing.
        return payment if payment.state is State.ISSUED else replace(payment, final=False)
    landed_payment = replace(payment, paid=landed.paid, final=landed.final, missed_height=0)
    if landed.paid < payment.amount:
        return replace(landed_payment, state=State.FROZEN, reason=RefusalReason.UNDERPAID)
    return replace(landed_payment, state=State.ISSUED, reason=None)


def _miss(payment: Payment, height: int) -> Payment:
    """Void an unsold payment at once, but an issued one only when it is missing twice."""
    if payment.state is State.ISSUED and not payment.final:
        if payment.missed_height == 0:
            return replace(payment, missed_height=height)
        if height < payment.missed_height + MISSED_BLOCKS:
            return payment
    return _disprove(payment, RefusalReason.EXPIRED, final=True)


def _disprove(payment: Payment, reason: RefusalReason, *, final: bool) -> Payment:
    """Fail or freeze the payment, unless it is final."""
    if payment.final:
        return payment
    if payment.state in {State.PENDING, State.FAILED}:
        return replace(payment, state=State.FAILED, reason=reason, final=final)
    return replace(
        payment, state=State.FROZEN, reason=RefusalReason.VANISHED, final=final, missed_height=0
    )


# Payments as customers and administrators see them: lists, a search, and daily income.

BUNDLE_USD: Final[Mapping[int, Decimal]] = {each.credits: each.usd for each in BUNDLES}
Place = tuple[UnixMs, Signature]


class Coin(NamedTuple):
    """The name of an asset, and the decimals of one whole token."""

    symbol: str
    decimals: int


class Assets(NamedTuple):
    """The accepted tokens.

    own      of payments that were begun before two tokens were accepted at once
    others   by their mints, including *own*
    """

    own: Coin
    others: Mapping[Mint, Coin]

    def coin(self, asset: Mint | None) -> Coin | None:
        """Return the token *asset*, or None if it is no longer accepted."""
        return self.own if asset is None else self.others.get(asset)

    def amount(self, atoms: int, asset: Mint | None) -> str:
        """Return *atoms* in whole tokens: 1.25 USDC."""
        coin = self.coin(asset)
        if coin is None:
            return f"{atoms:,} atoms of {asset}"
        whole, rest = divmod(atoms, 10**coin.decimals)
        digits = f"{rest:0{coin.decimals}d}".rstrip("0") if coin.decimals else ""
        return f"{whole:,}.{digits} {coin.symbol}" if digits else f"{whole:,} {coin.symbol}"

    def symbol(self, asset: Mint | None) -> str:
        """Return the symbol of *asset*."""
        coin = self.coin(asset)
        return coin.symbol if coin is not None else str(asset)


NO_ASSETS: Final = Assets(Coin("", 0), {})


class Takings(NamedTuple):
    """The sum paid on one day in one asset for one bundle.

    day       since 1970-01-01, UTC
    credits   of the bundle; 0: answers that were paid one by one
    paid      atoms of *asset* that arrived
    valued    payments of which the worth is known
    worth     their sum in micro-USD, at the price of the asset when each began
    """

    day: int
    asset: Mint | None
    credits: int
    payments: int
    paid: int
    valued: int = 0
    worth: int = 0

    @property
    def usd(self) -> Decimal:
        """The total worth in USD when it was paid."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


class WalletSum(NamedTuple):
    """The sum that one wallet has paid in one asset for one bundle; fields are as in Takings.

    last_at    the beginning of the newest payment
    """

    wallet: Wallet
    asset: Mint | None
    credits: int
    payments: int
    paid: int
    valued: int
    worth: int
    last_at: UnixMs

    @property
    def usd(self) -> Decimal:
        """The total worth in USD when it was paid."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


def sum_usd(credit_count: int, unvalued: int, worth: int) -> Decimal:
    """Return micro-USD *worth* as USD, plus the list price of payments without a known worth.

    credit_count    that each payment bought
    unvalued        payments without a known worth
    """
    return price_usd(credit_count) * unvalued + Decimal(worth) / MICRO


def worth_usd(credit_count: int, worth: int | None) -> Decimal:
    """Return the worth of one payment in USD; the list price if *worth*, in micro-USD, is None."""
    return sum_usd(credit_count, 1, 0) if worth is None else sum_usd(credit_count, 0, worth)


def price_usd(credit_count: int) -> Decimal:
    """Return the price of *credit_count* credits in US dollars; 0 means one answer."""
    if credit_count == 0:
        return REQUEST_USD
    return BUNDLE_USD.get(credit_count, REQUEST_USD * credit_count)


def usd_words(usd: Decimal) -> str:
    """Return *usd* as text: $1,234.50; below one dollar, with fractions of a cent."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    digits = f"{usd:f}".rstrip("0").partition(".")[2]
    return f"$0.{digits.ljust(2, '0')}"
