"""The transaction of a payment, as `verify` wants it: for a client, or a wallet that only signs."""

from typing import Final, Protocol

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.base.primitives import Mint, Wallet
from mintscope.core.payments.protocol.requirement import Requirement
from mintscope.core.payments.protocol.verify import COMPUTE_BUDGET, MEMO

COMPUTE_UNITS: Final = 60_000  # the transfer and a memo of 32 bytes, with room for either program
MICRO_LAMPORTS: Final = 1
TRANSFER_CHECKED: Final = 12


class Payable(Protocol):
    """In what is paid and to whom: our terms, or what a buyer has pinned."""

    @property
    def asset(self) -> Mint:
        """The mint of the token."""

    @property
    def decimals(self) -> int:
        """Its decimals."""

    @property
    def token_program(self) -> Wallet:
        """The program that owns the mint."""

    @property
    def pay_to(self) -> Wallet:
        """The wallet that is paid."""

    def token_account(self, owner: Pubkey) -> Pubkey:
        """Return the account in which *owner* keeps the token."""


def instructions(payable: Payable, payer: Pubkey, *, amount: int, memo: str) -> list[Instruction]:
    """Return what a payment of *amount* atoms consists of, in the order in which it is checked."""
    treasury = payable.token_account(Pubkey.from_string(payable.pay_to))
    asset = Pubkey.from_string(payable.asset)
    return [
        Instruction(COMPUTE_BUDGET, b"\x02" + COMPUTE_UNITS.to_bytes(4, "little"), []),
        Instruction(COMPUTE_BUDGET, b"\x03" + MICRO_LAMPORTS.to_bytes(8, "little"), []),
        Instruction(
            Pubkey.from_string(payable.token_program),
            bytes([TRANSFER_CHECKED]) + amount.to_bytes(8, "little") + bytes([payable.decimals]),
            [
                AccountMeta(payable.token_account(payer), is_signer=False, is_writable=True),
                AccountMeta(asset, is_signer=False, is_writable=False),
                AccountMeta(treasury, is_signer=False, is_writable=True),
                AccountMeta(payer, is_signer=True, is_writable=False),
            ],
        ),
        Instruction(MEMO, memo.encode(), []),
    ]


def build(requirement: Requirement, payer: Pubkey, recent: Hash) -> bytes:
    """Return the transaction by which *payer* meets *requirement*, both signatures left open.

    recent    a blockhash of the last minute
    """
    parts = instructions(requirement.terms, payer, amount=requirement.amount, memo=requirement.memo)
    sponsor = Pubkey.from_string(requirement.terms.fee_payer)
    message = MessageV0.try_compile(sponsor, parts, [], recent)
    unsigned = [Ed25519.default()] * message.header.num_required_signatures
    return bytes(VersionedTransaction.populate(message, unsigned))
