"""The wallet of a buyer: it checks a payment against the buyer's limits, and signs it."""

import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from threading import Lock
from typing import Final

from solders.hash import Hash, ParseHashError
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from typing_extensions import Self
from x402.http.utils import encode_payment_signature_header
from x402.schemas import PaymentPayload, PaymentRequired, PaymentRequirements

from mintscope_client.calls.conversation import NotPaid
from mintscope_client.wire import AMOUNT_MAX, SCHEME, TOKEN_PROGRAM

COMPUTE_BUDGET: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
# Enough for the transfer, by either token program, and a memo of 32 bytes
COMPUTE_UNITS: Final = 60_000
MICRO_LAMPORTS: Final = 1  # the price of a compute unit
TRANSFER_CHECKED: Final = 12  # the number of this instruction of the token programs
MEMO_CHARACTERS_MAX: Final = 256
RANDOM_MEMO_BYTES: Final = 16


class WillNotPay(NotPaid):
    """The wallet does not sign or pay; the message has the reason."""


class OverSpendLimit(WillNotPay):
    """Too little of the wallet's limit is left; payments that can still land count as spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The only asset and payee of a wallet's payments, from a trusted source.

    network          the identifier of the network, CAIP-2
    asset            the mint of the asset; decimals: its decimals; token_program: its program
    pay_to           the address of the payee's wallet
    usd_per_token    the most that a whole token is worth, in USD: 1 for USDC. A limit in USD needs
                     this value; a price from the seller is never used. None: no limits in USD
    """

    network: str
    asset: str
    decimals: int
    pay_to: str
    token_program: str = TOKEN_PROGRAM
    usd_per_token: Decimal | None = None

    def token_account(self, owner: Pubkey) -> Pubkey:
        """Return the address of *owner*'s token account for the asset."""
        program = Pubkey.from_string(self.token_program)
        return get_associated_token_address(owner, Pubkey.from_string(self.asset), program)

    def atoms_of(self, usd: Decimal) -> int:
        """Return the atoms that are worth *usd*, at usd_per_token, rounded down.

        Raises ValueError if usd_per_token is None or not positive, or if *usd* is negative.
        """
        if self.usd_per_token is None or not self.usd_per_token > 0 or not usd >= 0:
            raise ValueError("expected an amount in USD, and usd_per_token of the asset")
        atoms = (usd / self.usd_per_token).scaleb(self.decimals)
        return int(atoms.to_integral_value(ROUND_DOWN))


@dataclass(slots=True, kw_only=True)
class SpendLimit:
    """The most that a wallet may pay, at once and in all; thread-safe.

    atoms_per_payment   the most atoms of one payment
    atoms_in_all        the most atoms of all payments with this object together
    spent               the atoms of all signed payments, less those that `give_back` has returned
    """

    atoms_per_payment: int
    atoms_in_all: int
    spent: int = 0
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @classmethod
    def in_usd(cls, pin: Pin, *, per_payment: Decimal, in_all: Decimal) -> Self:
        """Return limits given in USD as limits in atoms, at the price of the token in *pin*.

        Raises ValueError if *pin* has no positive price, or if a limit is negative.
        """
        return cls(atoms_per_payment=pin.atoms_of(per_payment), atoms_in_all=pin.atoms_of(in_all))

    def expect_room(self, amount: int) -> None:
        """Raise WillNotPay or OverSpendLimit if the limits do not allow a payment of *amount*."""
        if amount > self.atoms_per_payment:
            raise WillNotPay(
                f"expected at most {self.atoms_per_payment} atoms a payment; was {amount}"
            )
        if self.spent + amount > self.atoms_in_all:
            raise OverSpendLimit(
                f"expected at most {self.atoms_in_all} atoms in all; {self.spent} are spent,"
                f" {amount} more are requested"
            )

    def spend(self, amount: int) -> None:
        """Count *amount* as spent.  Raises WillNotPay or OverSpendLimit if it is not allowed."""
        with self._lock:  # another thread may have spent since `expect_room`
            self.expect_room(amount)
            self.spent += amount

    def count(self, amount: int) -> None:
        """Count *amount* as spent without a check, for a payment of an earlier process."""
        with self._lock:
            self.spent += amount

    def give_back(self, amount: int) -> None:
        """Count *amount* as unspent: its payment was not sent, or provably cannot land."""
        with self._lock:
            self.spent -= amount


@dataclass(frozen=True, slots=True, kw_only=True)
class PayerWallet:
    """A wallet that pays in one token to one payee, at most what *limit* allows."""

    keypair: Keypair = field(repr=False)
    pin: Pin
    limit: SpendLimit

    @property
    def account(self) -> str:
        """The address of the token account from which the wallet pays."""
        return str(self.pin.token_account(self.keypair.pubkey()))

    def choose(self, header: str) -> tuple[PaymentRequired, PaymentRequirements]:
        """Return the demand in *header*, and its first offer to pay the pinned asset to the payee.

        Raises WillNotPay if *header* cannot be read, if there is no such offer, or if the amount of
        the offer is invalid or too large; OverSpendLimit if too little of the limit is left.
        """
        required = _read(header)
        offers = [offer for offer in required.accepts if self._is_pinned(offer)]
        if not offers:
            raise WillNotPay(
                f"expected a demand for {self.pin.asset} to {self.pin.pay_to}"
                f" on {self.pin.network}; there was none"
            )
        self.limit.expect_room(amount_of(offers[0]))
        return required, offers[0]

    def pay(
        self,
        required: PaymentRequired,
        offer: PaymentRequirements,
        blockhash: str,
        *,
        memo: str | None = None,
    ) -> str:
        """Return the PAYMENT-SIGNATURE header that pays *offer*; its amount counts as spent.

        memo      the memo of the transaction; None: the memo that *offer* demands, or a random one
        Raises    WillNotPay or OverSpendLimit
        """
        signed = self._transaction(offer, memo or memo_of(offer), blockhash)
        # After signing, so that a payment that cannot be signed is not counted.
        self.limit.spend(amount_of(offer))
        payload = {"transaction": b64encode(signed).decode()}
        return encode_payment_signature_header(
            PaymentPayload(payload=payload, accepted=offer, resource=required.resource)
        )

    def _is_pinned(self, offer: PaymentRequirements) -> bool:
        pin = self.pin
        found = (offer.scheme, offer.network, offer.asset, offer.pay_to)
        return found == (SCHEME, pin.network, pin.asset, pin.pay_to)

    def _transaction(self, offer: PaymentRequirements, memo: str, blockhash: str) -> bytes:
        """Return the transaction of the payment, signed by the wallet but not by the fee payer.

        Raises WillNotPay if the fee payer, *blockhash* or amount is invalid, or if the wallet would
        pay the network fee.
        """
        fee_payer = offer.extra.get("feePayer")
        if not isinstance(fee_payer, str):
            raise WillNotPay("expected a fee payer in the demand")
        try:
            sponsor = Pubkey.from_string(fee_payer)
            recent = Hash.from_string(blockhash)
        except (ValueError, ParseHashError) as cause:
            raise WillNotPay("expected a fee payer and a blockhash in base58") from cause
        payer = self.keypair.pubkey()
        amount = amount_of(offer)
        if sponsor == payer:
            raise WillNotPay("expected the seller to pay the network fee; it asks us to")
        parts = _instructions(self.pin, payer, amount=amount, memo=memo)
        message = MessageV0.try_compile(sponsor, parts, [], recent)
        ours = self.keypair.sign_message(to_bytes_versioned(message))
        # The first signature is that of the fee payer, which the seller adds.
        return bytes(VersionedTransaction.populate(message, [Ed25519.default(), ours]))


def _instructions(pin: Pin, payer: Pubkey, *, amount: int, memo: str) -> list[Instruction]:
    """Return the instructions of a payment of *amount* atoms, in the order that x402 demands.

    Source    x402, specs/schemes/exact/scheme_exact_svm.md
    """
    payee = pin.token_account(Pubkey.from_string(pin.pay_to))
    return [
        Instruction(COMPUTE_BUDGET, b"\x02" + COMPUTE_UNITS.to_bytes(4, "little"), []),
        Instruction(COMPUTE_BUDGET, b"\x03" + MICRO_LAMPORTS.to_bytes(8, "little"), []),
        Instruction(
            Pubkey.from_string(pin.token_program),
            bytes([TRANSFER_CHECKED]) + amount.to_bytes(8, "little") + bytes([pin.decimals]),
            [
                AccountMeta(pin.token_account(payer), is_signer=False, is_writable=True),
                AccountMeta(Pubkey.from_string(pin.asset), is_signer=False, is_writable=False),
                AccountMeta(payee, is_signer=False, is_writable=True),
                AccountMeta(payer, is_signer=True, is_writable=False),
            ],
        ),
        Instruction(MEMO, memo.encode(), []),
    ]


def _read(header: str) -> PaymentRequired:
    try:
        text = b64decode(header, validate=True)
        return PaymentRequired.model_validate_json(text, by_alias=True, by_name=False)
    except ValueError as cause:  # the ValidationError of pydantic is a ValueError
        raise WillNotPay("expected PAYMENT-REQUIRED of x402 version 2") from cause


def blockhash_of(offer: PaymentRequirements) -> str | None:
    """Return the blockhash in *offer*; None if it is missing or invalid."""
    blockhash = (offer.extra or {}).get("recentBlockhash")
    try:
        return None if not isinstance(blockhash, str) else str(Hash.from_string(blockhash))
    except ParseHashError:
        return None


def amount_of(offer: PaymentRequirements) -> int:
    """Return the amount that *offer* demands, in atoms, from 1 to AMOUNT_MAX.

    Raises WillNotPay for any other amount.
    """
    text = offer.amount
    # The length first: int() raises ValueError for a text of thousands of digits.
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(AMOUNT_MAX))):
        raise WillNotPay("expected an amount in atoms")
    amount = int(text)
    if not 0 < amount <= AMOUNT_MAX:
        raise WillNotPay(f"expected an amount between 1 and {AMOUNT_MAX}")
    return amount


def memo_of(offer: PaymentRequirements) -> str:
    """Return the memo that *offer* demands, or a random memo if it demands none.

    The memo identifies the payment on chain, so it must be plain text.  Raises WillNotPay unless it
    is printable ASCII of at most MEMO_CHARACTERS_MAX characters.
    """
    memo = offer.extra.get("memo") or secrets.token_hex(RANDOM_MEMO_BYTES)
    if not isinstance(memo, str) or not (memo.isascii() and memo.isprintable()):
        raise WillNotPay("expected a memo in printable ASCII in the demand")
    if len(memo) > MEMO_CHARACTERS_MAX:
        raise WillNotPay(f"expected a memo of at most {MEMO_CHARACTERS_MAX} characters")
    return memo
