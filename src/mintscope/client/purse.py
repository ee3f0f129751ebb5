"""What a buyer is willing to pay: to whom, in what, and how much at most."""

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from x402.http.utils import encode_payment_signature_header
from x402.schemas import PaymentPayload, PaymentRequired, PaymentRequirements

from mintscope.payments.headers import AMOUNT_MAX
from mintscope.payments.requirement import SCHEME, TOKEN_PROGRAM
from mintscope.payments.verify import COMPUTE_BUDGET, MEMO
from mintscope.primitives import Mint, Wallet

COMPUTE_UNITS: Final = 60_000  # the transfer and a memo of 32 bytes, with room for either program
MICRO_LAMPORTS: Final = 1
TRANSFER_CHECKED: Final = 12
MEMO_BYTES_MAX: Final = 256


class WillNotPay(Exception):
    """The demand is not one this purse pays; the message says which rule it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The only asset and payee that are ever paid, as learned out of band.

    token_program    that owns the mint
    """

    network: str
    asset: Mint
    decimals: int
    pay_to: Wallet
    token_program: Wallet = TOKEN_PROGRAM

    def token_account(self, owner: Pubkey) -> Pubkey:
        """Return the account in which *owner* keeps the asset."""
        program = Pubkey.from_string(self.token_program)
        return get_associated_token_address(owner, Pubkey.from_string(self.asset), program)


@dataclass(slots=True, kw_only=True)
class Purse:
    """A wallet that pays small amounts, to one payee, up to a limit.

    atoms_per_payment   the most one payment may be
    atoms_in_all        the most they may be together, over the life of this object
    """

    wallet: Keypair = field(repr=False)
    pin: Pin
    atoms_per_payment: int
    atoms_in_all: int
    spent: int = 0

    def choose(self, header: str) -> tuple[PaymentRequired, PaymentRequirements]:
        """Return the demand that *header* makes and this purse would pay.

        Raises    WillNotPay
        """
        required = _read(header)
        offers = [offer for offer in required.accepts if self._is_pinned(offer)]
        if not offers:
            raise WillNotPay(
                f"expected a demand for {self.pin.asset} to {self.pin.pay_to}"
                f" on {self.pin.network}; there was none"
            )
        amount = _amount(offers[0])
        if amount > self.atoms_per_payment:
            raise WillNotPay(
                f"expected at most {self.atoms_per_payment} atoms a payment; was {amount}"
            )
        if self.spent + amount > self.atoms_in_all:
            raise WillNotPay(
                f"expected at most {self.atoms_in_all} atoms in all; {self.spent} are spent,"
                f" {amount} more are asked for"
            )
        return required, offers[0]

    def pay(self, required: PaymentRequired, offer: PaymentRequirements, blockhash: str) -> str:
        """Return the PAYMENT-SIGNATURE that pays *offer*; the amount counts as spent."""
        self.spent += _amount(offer)
        return encode_payment_signature_header(
            PaymentPayload(
                payload={"transaction": _as_text(self._transaction(offer, blockhash))},
                accepted=offer,
                resource=required.resource,
            )
        )

    def give_back(self, offer: PaymentRequirements) -> None:
        """Count *offer* as unspent: its payment was refused or failed."""
        self.spent -= _amount(offer)

    def _is_pinned(self, offer: PaymentRequirements) -> bool:
        return (offer.scheme, offer.network, offer.asset, offer.pay_to) == (
            SCHEME,
            self.pin.network,
            self.pin.asset,
            self.pin.pay_to,
        )

    def _transaction(self, offer: PaymentRequirements, blockhash: str) -> bytes:
        """Return the payment, signed by the wallet, the fee payer's signature left open."""
        fee_payer, memo = offer.extra.get("feePayer"), offer.extra.get("memo", "")
        if not isinstance(fee_payer, str) or not isinstance(memo, str):
            raise WillNotPay("expected a fee payer and a memo in the demand")
        if len(memo.encode()) > MEMO_BYTES_MAX:
            raise WillNotPay(f"expected a memo of at most {MEMO_BYTES_MAX} bytes")
        try:
            sponsor, recent = Pubkey.from_string(fee_payer), Hash.from_string(blockhash)
        except ValueError as cause:
            raise WillNotPay("expected a fee payer and a blockhash in base58") from cause
        if sponsor == self.wallet.pubkey():
            raise WillNotPay("expected the seller to pay the network fee; it asks us to")
        message = MessageV0.try_compile(sponsor, self._instructions(offer, memo), [], recent)
        ours = self.wallet.sign_message(to_bytes_versioned(message))
        return bytes(VersionedTransaction.populate(message, [Ed25519.default(), ours]))

    def _instructions(self, offer: PaymentRequirements, memo: str) -> list[Instruction]:
        owner, pin = self.wallet.pubkey(), self.pin
        treasury = pin.token_account(Pubkey.from_string(pin.pay_to))
        amount = _amount(offer).to_bytes(8, "little")
        return [
            Instruction(COMPUTE_BUDGET, b"\x02" + COMPUTE_UNITS.to_bytes(4, "little"), []),
            Instruction(COMPUTE_BUDGET, b"\x03" + MICRO_LAMPORTS.to_bytes(8, "little"), []),
            Instruction(
                Pubkey.from_string(pin.token_program),
                bytes([TRANSFER_CHECKED]) + amount + bytes([pin.decimals]),
                [
                    AccountMeta(pin.token_account(owner), is_signer=False, is_writable=True),
                    AccountMeta(Pubkey.from_string(pin.asset), is_signer=False, is_writable=False),
                    AccountMeta(treasury, is_signer=False, is_writable=True),
                    AccountMeta(owner, is_signer=True, is_writable=False),
                ],
            ),
            Instruction(MEMO, memo.encode(), []),
        ]


def _read(header: str) -> PaymentRequired:
    try:
        return PaymentRequired.model_validate_json(
            b64decode(header, validate=True), by_alias=True, by_name=False
        )
    except (ValidationError, ValueError) as cause:
        raise WillNotPay("expected PAYMENT-REQUIRED of x402 version 2") from cause


def _amount(offer: PaymentRequirements) -> int:
    if not (offer.amount.isascii() and offer.amount.isdecimal()):
        raise WillNotPay("expected an amount in atoms")
    amount = int(offer.amount)
    if not 0 < amount <= AMOUNT_MAX:
        raise WillNotPay(f"expected an amount between 1 and {AMOUNT_MAX}")
    return amount


def _as_text(transaction: bytes) -> str:
    return b64encode(transaction).decode()
