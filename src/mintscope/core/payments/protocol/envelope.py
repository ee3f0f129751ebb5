"""A payment's bytes, taken apart; what identifies it, and what it takes to send it."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NewType

import msgspec
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.base.foreign import Undecodable, parsed_by_others
from mintscope.base.primitives import Signature, Wallet
from mintscope.core.payments.protocol.refusal import RefusalReason, Refused
from mintscope.core.payments.protocol.requirement import TRANSACTION_VERSIONS

MessageHash = NewType("MessageHash", bytes)  # SHA-256

TRANSACTION_BYTES_MAX: Final = 1232  # what fits one packet: the network carries no more
SIGNATURE_BYTES: Final = 64
VERSIONED: Final = b"\x80"  # the bit that sets a version apart from a count
SIGNER_COUNT: Final = 2
FEE_PAYER_AT: Final = 0
PAYER_AT: Final = 1


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction ready to be sent, its signature known before it is."""

    signature: Signature
    wire: bytes


@dataclass(frozen=True)
class Envelope:
    """A transaction in its only spelling, with two signatures and unlike accounts.

    The first signature's slot is ours to fill, and anyone can change it, so
    the message alone, not the whole transaction, identifies a payment.
    """

    message: Message | MessageV0
    payer_signature: Ed25519

    @cached_property
    def signed_bytes(self) -> bytes:
        """The message that both signatures sign."""
        return to_bytes_versioned(self.message)

    @cached_property
    def message_hash(self) -> MessageHash:
        """The name of this payment, everywhere."""
        return MessageHash(hashlib.sha256(self.signed_bytes).digest())

    @cached_property
    def accounts(self) -> list[Pubkey]:
        """Every account that the message names."""
        return list(self.message.account_keys)

    @property
    def payer(self) -> Wallet:
        """The wallet whose funds move."""
        return Wallet(str(self.accounts[PAYER_AT]))

    def is_signed_by_payer(self) -> bool:
        """Check the payer's signature, here and now, without asking any node."""
        return self.payer_signature.verify(self.accounts[PAYER_AT], self.signed_bytes)

    @property
    def unsigned(self) -> bytes:
        """The transaction without our signature: it cannot be sent like this."""
        return self._wire(Ed25519.default())

    def is_sponsored_by(self, fee_payer: Pubkey) -> bool:
        """Say whether it is *fee_payer* that would pay for landing it."""
        return self.accounts[FEE_PAYER_AT] == fee_payer

    def lacks_only(self, fee_payer: Pubkey) -> bool:
        """Say whether the signature of *fee_payer*, whose key may be new, makes it complete."""
        return self.is_signed_by_payer() and self.is_sponsored_by(fee_payer)

    def sign(self, fee_payer: Keypair) -> Signed:
        """Add our signature; the same message always gets the same one.

        Raises    ValueError where another wallet would pay the fee
        """
        if not self.is_sponsored_by(fee_payer.pubkey()):
            theirs = self.accounts[FEE_PAYER_AT]
            raise ValueError(f"expected fee payer {fee_payer.pubkey()}; was {theirs}")
        ours = fee_payer.sign_message(self.signed_bytes)
        return Signed(signature=Signature(str(ours)), wire=self._wire(ours))

    def _wire(self, ours: Ed25519) -> bytes:
        return bytes(VersionedTransaction.populate(self.message, [ours, self.payer_signature]))


def find_version(transaction: bytes) -> int | None:
    """Return which version *transaction* says it is of; None for one without a version, or none.

    Version 0 begins with its signatures, later ones begin with their message (SIMD-0385); a
    message begins with 0x80 and its version.  No packet has room for 128 signatures.
    """
    if transaction[:1] >= VERSIONED:
        return transaction[0] - VERSIONED[0]
    message_at = 1 + SIGNATURE_BYTES * transaction[0] if transaction else 0
    prefix = transaction[message_at : message_at + 1]
    return prefix[0] - VERSIONED[0] if prefix >= VERSIONED else None


def open_envelope(transaction: bytes) -> Envelope | Refused:
    """Take any bytes apart."""
    version = find_version(transaction)
    if version is not None and version not in TRANSACTION_VERSIONS:
        return Refused(RefusalReason.VERSION, version=version)
    return _open(transaction)


def _open(transaction: bytes) -> Envelope | Refused:
    if len(transaction) > TRANSACTION_BYTES_MAX:
        return Refused(RefusalReason.TOO_LONG)
    try:
        with parsed_by_others():
            parsed = VersionedTransaction.from_bytes(transaction)
            written = bytes(parsed)
    except Undecodable:
        return Refused(RefusalReason.UNDECODABLE)
    if written != transaction:
        return Refused(RefusalReason.NOT_CANONICAL)
    message = parsed.message
    if not len(parsed.signatures) == message.header.num_required_signatures == SIGNER_COUNT:
        return Refused(RefusalReason.SIGNERS)
    if getattr(message, "address_table_lookups", ()):
        return Refused(RefusalReason.LOOKUP_TABLES)  # accounts that the bytes do not name
    envelope = Envelope(message, parsed.signatures[PAYER_AT])
    return envelope if _is_sound(envelope) else Refused(RefusalReason.ACCOUNTS)


def _is_sound(envelope: Envelope) -> bool:
    """Say whether every index points at an account and no account is named twice."""
    header = envelope.message.header
    accounts = envelope.accounts
    return (
        header.num_readonly_signed_accounts < SIGNER_COUNT
        and SIGNER_COUNT + header.num_readonly_unsigned_accounts <= len(accounts)
        and len(set(accounts)) == len(accounts)
        and all(
            index < len(accounts)
            for instruction in envelope.message.instructions
            for index in (instruction.program_id_index, *bytes(instruction.accounts))
        )
    )
