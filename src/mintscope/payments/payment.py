"""One payment from the moment it is pending: its states, and the evidence that changes them.

    pending -> issued    the transaction landed and paid enough
    pending -> failed    it landed and reverted, or the chain shows that it can never land
    failed  -> issued    it landed after all: a transaction that landed always counts
    issued  -> frozen    it vanished after it was confirmed, and was missed twice; or it reverted in
                         another fork
    frozen  -> issued    it was found again, and paid enough
    any     -> frozen    it landed, but paid less than its quote demands

Only evidence from the chain changes the state of a payment, never the time.  A state is `final` if
no fork can change it: the transaction is finalized, or its blockhash had expired at a finalized
height and its signature was not found.  Only a transaction that has landed overturns a final state:
at once if it is finalized; otherwise, if the payment is not issued, its state only ceases to be
final, and the payment is checked again.  A missing transaction takes back an issued purchase only
if it was missing at two finalized heights, MISSED_BLOCKS or more apart, because one node may have
lost its history.
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

MISSED_BLOCKS: Final = 32  # the fewest blocks between the two lookups that miss an issued payment


class State(StrEnum):
    """The state of a payment: outcome unknown, purchase delivered, failed, purchase taken back."""

    PENDING = "pending"
    ISSUED = "issued"
    FAILED = "failed"
    FROZEN = "frozen"


class PaidReport(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that was bought by a single request; *body* is empty once it is deleted."""

    body: bytes


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A purchase of credits on a new credit token, whose text is derived and never stored."""

    credits: int
    token_hash: CredentialHash
    hint: str


class TopUp(msgspec.Struct, frozen=True, kw_only=True):
    """A purchase of credits for an existing credit token, or for the account of a user."""

    credits: int
    account: CreditAccount


PaidItem = PaidReport | NewToken | TopUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """One payment, its purchase, and its state.

    message_hash       the identifier of the payment
    signature          the signature of the transaction, known before its broadcast
    address            the client's IP address; failures are limited by address and by payer
    amount             atoms that the quote demands
    key_hash           the hash of the redelivery key
    fee_lamports       the highest network fee that the service can be charged for the payment
    last_valid_height  the payment cannot land above this block height
    asset              the mint of its atoms; None: it began before several tokens were accepted
    paid               atoms that reached the treasury; 0 until the payment lands
    reason             the reason why it failed or is frozen; None in other states
    final              whether no fork can change the state
    touched            whether the new credit token that was bought has lost its credits to another
                       account, or its balance is no longer the number that was bought
    missed_height      finalized height at which an issued payment was first missed; 0: it was not
                       missed since it was last found
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
    """The transaction is in a block and failed: its fee was charged, nothing was paid."""

    final: bool


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction was not found.

    height    the finalized block height, read before a search of the whole history; 0: there was no
              such search, or it proves nothing, so the payment may have landed
    """

    height: int = 0


class UnreadablePayment(msgspec.Struct, frozen=True, kw_only=True):
    """The transaction is in a block but cannot be read; *why* is the reason, for the operator."""

    why: str


class Dead(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence that a payment has failed: it can no longer land.

    height   the finalized block height at which it was not found, above its last valid height
    """

    height: int


Sighting = Landed | Reverted | Unseen | UnreadablePayment
Evidence = Landed | Reverted | Dead


def weigh(payment: Payment, sighting: Sighting) -> Evidence | None:
    """Return the evidence about *payment* in *sighting*, the result of a look at the chain.

    Return None if it proves nothing.
    """
    match sighting:
        case Landed() | Reverted():
            return sighting
        # A height of 0, which proves nothing, is never above `last_valid_height`.
        case Unseen(height=height) if height > payment.last_valid_height:
            return Dead(height=height)
        case _:
            return None


def apply(payment: Payment, evidence: Evidence) -> Payment:
    """Return *payment* in the state that follows from *evidence*.

    No other code changes the state of a payment.
    """
    match evidence:
        case Landed():
            return _land(payment, evidence)
        case Reverted(final=final):
            return _disprove(payment, RefusalReason.REVERTED, final=final)
        case Dead(height=height):
            return _miss(payment, height)


def _land(payment: Payment, landed: Landed) -> Payment:
    if payment.final and not landed.final:
        # The evidence is old, or a node was wrong about finality: keep the state, but if the
        # payment is not issued, check it again.
        return payment if payment.state is State.ISSUED else replace(payment, final=False)
    landed_payment = replace(payment, paid=landed.paid, final=landed.final, missed_height=0)
    if landed.paid < payment.amount:
        return replace(landed_payment, state=State.FROZEN, reason=RefusalReason.UNDERPAID)
    return replace(landed_payment, state=State.ISSUED, reason=None)


def _miss(payment: Payment, height: int) -> Payment:
    """Return *payment* after it was not found at finalized *height*.

    A pending payment fails at once.  An issued payment is frozen only if it is missed twice.
    """
    if payment.state is State.ISSUED and not payment.final:
        if payment.missed_height == 0:
            return replace(payment, missed_height=height)
        if height < payment.missed_height + MISSED_BLOCKS:
            return payment
    return _disprove(payment, RefusalReason.EXPIRED, final=True)


def _disprove(payment: Payment, reason: RefusalReason, *, final: bool) -> Payment:
    """Return the payment as failed or frozen; if its state is final, return it unchanged."""
    if payment.final:
        return payment
    # Neither state has delivered anything; only FROZEN makes the store take credits back.
    if payment.state in {State.PENDING, State.FAILED}:
        return replace(payment, state=State.FAILED, reason=reason, final=final)
    return replace(
        payment, state=State.FROZEN, reason=RefusalReason.VANISHED, final=final, missed_height=0
    )


# Payments as customers and administrators see them: lists, a search, and daily income.

BUNDLE_USD: Final[Mapping[int, Decimal]] = {each.credits: each.usd for each in BUNDLES}
Place = tuple[UnixMs, Signature]


class Coin(NamedTuple):
    """A token: its symbol, and the number of its decimal places."""

    symbol: str
    decimals: int


class Assets(NamedTuple):
    """The tokens in which payments are accepted.

    own      the token of payments that were stored without a token: those from before the service
             accepted several tokens
    others   all accepted tokens by mint, including *own*
    """

    own: Coin
    others: Mapping[Mint, Coin]

    def coin(self, asset: Mint | None) -> Coin | None:
        """Return the token *asset*, or None if it is no longer accepted."""
        return self.own if asset is None else self.others.get(asset)

    def amount(self, atoms: int, asset: Mint | None) -> str:
        """Return *atoms* as text, such as 1.25 USDC; in atoms if *asset* is no longer accepted."""
        coin = self.coin(asset)
        if coin is None:
            return f"{atoms:,} atoms of {asset}"
        whole, rest = divmod(atoms, 10**coin.decimals)
        digits = f"{rest:0{coin.decimals}d}".rstrip("0") if coin.decimals else ""
        return f"{whole:,}.{digits} {coin.symbol}" if digits else f"{whole:,} {coin.symbol}"

    def symbol(self, asset: Mint | None) -> str:
        """Return the symbol of *asset*, or its mint if it is no longer accepted."""
        coin = self.coin(asset)
        return coin.symbol if coin is not None else str(asset)


NO_ASSETS: Final = Assets(Coin("", 0), {})


class Takings(NamedTuple):
    """The income of one day in one asset from one bundle.

    day       UTC days since 1970-01-01
    asset     the mint, as in Payment
    credits   the size of the bundle; 0: answers that were paid one by one
    paid      atoms of *asset* that arrived
    valued    the number of payments whose value in USD is known
    worth     the total value of these *valued* payments in micro-USD, at the price when each began
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
        """The value in USD when the payments were made; the list price of those without a value."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


class WalletSum(NamedTuple):
    """The sum that one wallet paid in one asset for one bundle.

    last_at    the time when the newest payment began

    The other fields are those of Takings.
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
        """The value in USD when the payments were made; the list price of those without a value."""
        return sum_usd(self.credits, self.payments - self.valued, self.worth)


def sum_usd(credit_count: int, unvalued: int, worth: int) -> Decimal:
    """Return *worth*, in micro-USD, as USD, plus the list price of payments of unknown value.

    credit_count    credits that each payment bought; 0: one answer
    unvalued        number of payments of unknown value
    """
    return price_usd(credit_count) * unvalued + Decimal(worth) / MICRO


def worth_usd(credit_count: int, worth: int | None) -> Decimal:
    """Return the value of a payment in USD: *worth*, in micro-USD, or the list price if None.

    credit_count    credits that the payment bought; 0: one answer
    """
    return sum_usd(credit_count, 1, 0) if worth is None else sum_usd(credit_count, 0, worth)


def price_usd(credit_count: int) -> Decimal:
    """Return the list price of *credit_count* credits in USD; for 0, the price of one answer."""
    if credit_count == 0:
        return REQUEST_USD
    return BUNDLE_USD.get(credit_count, REQUEST_USD * credit_count)


def usd_words(usd: Decimal) -> str:
    """Return *usd* as text, such as $1,234.50; below one dollar, with fractions of a cent."""
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}"
    digits = f"{usd:f}".rstrip("0").partition(".")[2]
    return f"$0.{digits.ljust(2, '0')}"
