"""The transaction of a payment, as `verify` wants it: built here for a wallet that only signs."""

from typing import Final

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.core.payments.protocol.requirement import Requirement
from mintscope.core.payments.protocol.verify import COMPUTE_BUDGET, MEMO

COMPUTE_UNITS: Final = 60_000  # the transfer and a memo of 32 bytes, with room for either program
MICRO_LAMPORTS: Final = 1
TRANSFER_CHECKED: Final = 12


def build(requirement: Requirement, payer: Pubkey, recent: Hash) -> bytes:
    """Return the transaction by which *payer* meets *requirement*, both signatures left open.

    recent    a blockhash of the last minute
    """
    terms = requirement.terms
    sponsor = Pubkey.from_string(terms.fee_payer)
    message = MessageV0.try_compile(sponsor, _instructions(requirement, payer), [], recent)
    unsigned = [Ed25519.default()] * message.header.num_required_signatures
    return bytes(VersionedTransaction.populate(message, unsigned))


def _instructions(requirement: Requirement, payer: Pubkey) -> list[Instruction]:
    terms, amount = requirement.terms, requirement.amount.to_bytes(8, "little")
    return [
        Instruction(COMPUTE_BUDGET, b"\x02" + COMPUTE_UNITS.to_bytes(4, "little"), []),
        Instruction(COMPUTE_BUDGET, b"\x03" + MICRO_LAMPORTS.to_bytes(8, "little"), []),
        Instruction(
            Pubkey.from_string(terms.token_program),
            bytes([TRANSFER_CHECKED]) + amount + bytes([terms.decimals]),
            [
                AccountMeta(terms.token_account(payer), is_signer=False, is_writable=True),
                AccountMeta(terms.asset_key, is_signer=False, is_writable=False),
                AccountMeta(terms.treasury, is_signer=False, is_writable=True),
                AccountMeta(payer, is_signer=True, is_writable=False),
            ],
        ),
        Instruction(MEMO, requirement.memo.encode(), []),
    ]
