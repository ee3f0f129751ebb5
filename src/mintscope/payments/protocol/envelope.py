"""The bytes of an x402 payment, the resource that it buys, and the reasons to refuse it.

Source    x402 v2, specs/x402-specification-v2.md, section 9; its packages for `exact` on Solana
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, NewType

import msgspec
from solders.keypair import Keypair
from solders.message import Message, MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from mintscope.kit.errors import Undecodable, parsed_by_others
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.solana.pace import BLOCKHASH_BLOCKS


class RefusalReason(StrEnum):
    """The reasons for refusal, one for each rule; they show a client how to correct its payment."""

    # reasons that the header shows
    NO_MATCHING_REQUIREMENT = "no_matching_requirement"
    DEMO = "demo_sells_nothing"
    # reasons that the transaction shows, compared with the demand and with earlier quotes
    VERSION = "transaction_version_not_supported"
    UNDECODABLE = "transaction_undecodable"
    TOO_LONG = "transaction_too_long"
    NOT_CANONICAL = "transaction_not_canonical"
    SIGNERS = "signers"
    FEE_PAYER = "fee_payer"
    FEE_PAYER_NOT_ISOLATED = "fee_payer_not_isolated"
    LOOKUP_TABLES = "lookup_tables_not_allowed"
    ACCOUNTS = "accounts"
    INSTRUCTION_COUNT = "instruction_count"
    COMPUTE_BUDGET = "compute_budget"
    COMPUTE_LIMIT_TOO_HIGH = "compute_limit_too_high"
    PRIORITY_FEE_TOO_HIGH = "priority_fee_too_high"
    NO_TRANSFER = "transfer_checked_expected"
    TOKEN_PROGRAM = "token_program_mismatch"  # noqa: S105  a token, not a password
    MINT = "mint_mismatch"
    DECIMALS = "decimals_mismatch"
    RECIPIENT = "recipient_mismatch"
    SOURCE = "source_not_payers_token_account"
    AUTHORITY = "authority_not_payer"
    AMOUNT = "amount_mismatch"
    UNKNOWN_PROGRAM = "unknown_program"
    MEMO_COUNT = "one_memo_expected"
    QUOTE_FORGED = "quote_invalid"
    QUOTE_EXPIRED = "quote_expired"
    QUOTE_USED = "quote_used"
    SIGNATURE = "invalid_signature"
    # reasons that the chain, the price of SOL or other payments show
    INSUFFICIENT_FUNDS = "insufficient_funds"
    SIMULATION = "simulation_failed"
    BLOCKHASH = "blockhash_not_found"
    NETWORK_FEE = "network_fee_too_high"
    FUNDS = "insufficient_funds_for_pending_payments"
    TOO_MANY_FAILURES = "too_many_failed_payments"
    TOO_MANY_PENDING = "too_many_pending_payments"
    REVERTED = "transaction_failed"
    EXPIRED = "transaction_expired"
    VANISHED = "transaction_vanished"
    UNDERPAID = "amount_received_too_small"

    @property
    def official(self) -> str:
        """The x402 error code of this reason, or the service's own if x402 has none."""
        return _OFFICIAL.get(self, self.value)


_OF_SOLANA: Final = "invalid_exact_svm_payload"
_OF_TRANSACTION: Final = f"{_OF_SOLANA}_transaction"
_OFFICIAL: Final = {
    RefusalReason.NO_MATCHING_REQUIREMENT: "invalid_payment_requirements",
    RefusalReason.UNDECODABLE: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.TOO_LONG: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.NOT_CANONICAL: f"{_OF_TRANSACTION}_could_not_be_decoded",
    RefusalReason.SIGNERS: _OF_SOLANA,
    RefusalReason.FEE_PAYER: "fee_payer_not_managed_by_facilitator",
    RefusalReason.FEE_PAYER_NOT_ISOLATED: f"{_OF_TRANSACTION}_fee_payer_transferring_funds",
    RefusalReason.LOOKUP_TABLES: _OF_SOLANA,
    RefusalReason.ACCOUNTS: _OF_SOLANA,
    RefusalReason.INSTRUCTION_COUNT: f"{_OF_TRANSACTION}_instructions_length",
    RefusalReason.COMPUTE_BUDGET: f"{_OF_TRANSACTION}_instructions_compute_limit_instruction",
    RefusalReason.COMPUTE_LIMIT_TOO_HIGH: (
        f"{_OF_TRANSACTION}_instructions_compute_limit_instruction"
    ),
    RefusalReason.PRIORITY_FEE_TOO_HIGH: (
        f"{_OF_TRANSACTION}_instructions_compute_price_instruction_too_high"
    ),
    RefusalReason.NO_TRANSFER: f"{_OF_SOLANA}_no_transfer_instruction",
    RefusalReason.TOKEN_PROGRAM: f"{_OF_SOLANA}_no_transfer_instruction",
    RefusalReason.MINT: f"{_OF_SOLANA}_mint_mismatch",
    RefusalReason.DECIMALS: f"{_OF_SOLANA}_mint_mismatch",
    RefusalReason.RECIPIENT: f"{_OF_SOLANA}_recipient_mismatch",
    RefusalReason.SOURCE: _OF_SOLANA,
    RefusalReason.AUTHORITY: _OF_SOLANA,
    RefusalReason.AMOUNT: f"{_OF_SOLANA}_amount_mismatch",
    RefusalReason.UNKNOWN_PROGRAM: f"{_OF_SOLANA}_unknown_optional_instruction",
    RefusalReason.MEMO_COUNT: f"{_OF_SOLANA}_memo_count",
    RefusalReason.QUOTE_FORGED: f"{_OF_SOLANA}_memo_mismatch",
    RefusalReason.QUOTE_USED: "duplicate_settlement",
    RefusalReason.SIMULATION: "transaction_simulation_failed",
    RefusalReason.BLOCKHASH: "transaction_simulation_failed",
    RefusalReason.FUNDS: "insufficient_funds",
}


class Refused(msgspec.Struct, frozen=True):
    """The payment is refused, and the payer was not charged.

    signature    the signature of the transaction; "": it was not broadcast
    values       the expected and the actual value, as sentences; "": the reason says all
    """

    reason: RefusalReason
    signature: str = ""
    values: str = ""


Resource = NewType("Resource", str)  # path and query, as in "/v1/credits/purchase?bundle=50"

_KIND_PARTS: Final = 3  # parts of the path of a kind, and the empty part before the first slash
MAINNET: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
# The largest integer of the database; amounts on the chain go up to 2**64 - 1.
AMOUNT_MAX: Final = 2**63 - 1
SCHEME: Final = "exact"
TOKEN_PROGRAM: Final = Wallet("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM: Final = Wallet("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
HELD_OPEN_S: Final = 60  # longest time that a response waits for the chain, in seconds
TRANSACTION_VERSIONS: Final = (0,)  # accepted versions, besides transactions without a version


class ResourceKind(msgspec.Struct, frozen=True):
    """Resources whose paths begin with the same two parts, such as "/v1/token".

    A quote shows the kind of its resource, even if the resource is no longer known.
    """

    path: str


def kind_of(resource: Resource) -> ResourceKind:
    """Return the kind of *resource*: the first two parts of its path."""
    path, _, _ = resource.partition("?")
    return ResourceKind("/".join(path.split("/")[:_KIND_PARTS]))


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of every payment in one token, from the configuration.

    network        the CAIP-2 name of the chain
    asset          the mint of the token, which is configured and never looked up by name
    token_program  the program that owns the mint, which is configured, too
    pay_to         the wallet that owns the treasury account; its key is not on this machine
    fee_payer      the wallet that pays the network fee: our hot wallet, never pay_to
    """

    network: str = MAINNET
    asset: Mint
    decimals: int
    token_program: Wallet = TOKEN_PROGRAM
    pay_to: Wallet
    fee_payer: Wallet

    def __post_init__(self) -> None:
        if self.fee_payer == self.pay_to:
            raise ValueError("expected a fee payer that is not paid: its key is on this machine")

    @cached_property
    def asset_key(self) -> Pubkey:
        """The mint as a Pubkey."""
        return Pubkey.from_string(self.asset)

    @cached_property
    def pay_to_key(self) -> Pubkey:
        """The payee as a Pubkey."""
        return Pubkey.from_string(self.pay_to)

    @cached_property
    def treasury(self) -> Pubkey:
        """The token account that receives payments."""
        return self.token_account(self.pay_to_key)

    def token_account(self, owner: Pubkey) -> Pubkey:
        """Return the token account of *owner* for the mint in these terms."""
        program = Pubkey.from_string(self.token_program)
        return get_associated_token_address(owner, self.asset_key, program)


class RecentBlockhash(msgspec.Struct, frozen=True, kw_only=True):
    """A recent blockhash for signing a payment.

    blockhash            in base58
    slot                 the slot of the node's newest confirmed block when it answered
    last_valid_height    above this block height no payment with this blockhash can land
    blocks_left          number of blocks left until that height when the blockhash is offered
    """

    blockhash: str
    slot: int
    last_valid_height: int
    blocks_left: int = BLOCKHASH_BLOCKS


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A payment requirement: the terms on which a client may pay for a resource.

    amount           the atoms to pay, neither more nor fewer
    memo             the signed quote that must come with the payment; see the module `memo`
    max_timeout_s    seconds within which a payment signed now can still land, at most HELD_OPEN_S
    recent           a blockhash for signing; None: the buyer requests one from a node
    """

    terms: Terms
    resource: Resource
    amount: int
    memo: str
    max_timeout_s: int = HELD_OPEN_S
    recent: RecentBlockhash | None = None


MessageHash = NewType("MessageHash", bytes)  # SHA-256

TRANSACTION_BYTES_MAX: Final = 1232  # the size of one network packet
SIGNATURE_BYTES: Final = 64
VERSIONED: Final = b"\x80"  # bytes from this value on are versions; lower ones count signatures
SIGNER_COUNT: Final = 2
FEE_PAYER_AT: Final = 0
PAYER_AT: Final = 1


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction ready to be sent, with its signature."""

    signature: Signature
    wire: bytes


@dataclass(frozen=True)
class Envelope:
    """A transaction in canonical form, with two signatures and distinct accounts.

    The place of the first signature is reserved for ours, and anyone can change its bytes.  So
    a payment is identified by its message alone, not by the whole transaction.
    """

    message: Message | MessageV0
    payer_signature: Ed25519

    @cached_property
    def signed_bytes(self) -> bytes:
        """The message that both signatures sign."""
        return to_bytes_versioned(self.message)

    @cached_property
    def message_hash(self) -> MessageHash:
        """The identifier of this payment throughout the service."""
        return MessageHash(hashlib.sha256(self.signed_bytes).digest())

    @cached_property
    def accounts(self) -> list[Pubkey]:
        """Every account in the message."""
        return list(self.message.account_keys)

    @property
    def payer(self) -> Wallet:
        """The wallet that pays."""
        return Wallet(str(self.accounts[PAYER_AT]))

    def is_signed_by_payer(self) -> bool:
        """Return whether the payer's signature is valid; asks no node."""
        return self.payer_signature.verify(self.accounts[PAYER_AT], self.signed_bytes)

    @property
    def unsigned(self) -> bytes:
        """The transaction without our signature; it cannot be sent in this form."""
        return self._wire(Ed25519.default())

    def is_sponsored_by(self, fee_payer: Pubkey) -> bool:
        """Return whether *fee_payer* would pay the fee."""
        return self.accounts[FEE_PAYER_AT] == fee_payer

    def lacks_only(self, fee_payer: Pubkey) -> bool:
        """Return whether the transaction lacks nothing but the signature of *fee_payer*."""
        return self.is_signed_by_payer() and self.is_sponsored_by(fee_payer)

    def sign(self, fee_payer: Keypair) -> Signed:
        """Return the transaction with our signature, which is always the same for the same message.

        Raises    ValueError if another wallet would pay the fee
        """
        if not self.is_sponsored_by(fee_payer.pubkey()):
            theirs = self.accounts[FEE_PAYER_AT]
            raise ValueError(f"expected fee payer {fee_payer.pubkey()}; was {theirs}")
        ours = fee_payer.sign_message(self.signed_bytes)
        return Signed(signature=Signature(str(ours)), wire=self._wire(ours))

    def _wire(self, ours: Ed25519) -> bytes:
        return bytes(VersionedTransaction.populate(self.message, [ours, self.payer_signature]))


def find_version(transaction: bytes) -> int | None:
    """Return the version of *transaction*; None if the transaction has no version.

    If the bytes are not a transaction, nothing is raised, and the result has no meaning.

    A transaction of version 0, or without a version, begins with the number of its signatures; one
    of a later version begins with its message (SIMD-0385).  The first byte of a message with a
    version is 0x80 plus the version.  A first byte of 0x80 or more is not a number of signatures,
    because no packet has room for 128.
    """
    # A slice, because *transaction* may be empty; an empty slice is below VERSIONED.
    if transaction[:1] >= VERSIONED:
        return transaction[0] - VERSIONED[0]
    message_at = 1 + SIGNATURE_BYTES * transaction[0] if transaction else 0
    prefix = transaction[message_at : message_at + 1]
    return prefix[0] - VERSIONED[0] if prefix >= VERSIONED else None


def open_envelope(transaction: bytes) -> Envelope | Refused:
    """Return *transaction*, which may be any bytes, as an Envelope, or the reason to refuse it."""
    # Before the length is checked and the bytes are parsed: a transaction of version 1 may be
    # longer, and solders cannot parse it.
    version = find_version(transaction)
    if version is not None and version not in TRANSACTION_VERSIONS:
        return Refused(RefusalReason.VERSION, values=f"It was of version {version}.")
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
    # The parser ignores trailing bytes, for example.
    if written != transaction:
        return Refused(RefusalReason.NOT_CANONICAL)
    message = parsed.message
    signer_count = message.header.num_required_signatures
    if not len(parsed.signatures) == signer_count == SIGNER_COUNT:
        values = f"The number of signatures was {signer_count}."
        return Refused(RefusalReason.SIGNERS, values=values)
    if getattr(message, "address_table_lookups", ()):
        return Refused(RefusalReason.LOOKUP_TABLES)  # the accounts of tables are not in the bytes
    envelope = Envelope(message, parsed.signatures[PAYER_AT])
    return envelope if _is_sound(envelope) else Refused(RefusalReason.ACCOUNTS)


def _is_sound(envelope: Envelope) -> bool:
    """Return whether every index and count fits the accounts, and no account occurs twice."""
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
