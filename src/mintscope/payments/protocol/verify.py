"""The strict check of a payment, and the construction of a transaction that passes it.

The check reads any bytes, and needs no node.  It expects these instructions:

    0, 1   ComputeBudget SetComputeUnitLimit and SetComputeUnitPrice; clients of MPP write them the
           other way round
    2      TransferChecked of the payment token, from the payer's account to the treasury
    3..6   at most one Memo, the quote or a text of the client's own; and the assertions that
           wallets add to protect their user

Nothing else may need the fee payer's signature: the fee payer appears in no instruction, there are
two signatures, and the fee is bounded.  The first instruction cannot be of another kind, so that no
payment uses a durable nonce and stays valid for ever.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519
from solders.transaction import VersionedTransaction

from mintscope.kit.primitives import Mint, UnixMs
from mintscope.payments.protocol.envelope import (
    FEE_PAYER_AT,
    PAYER_AT,
    Envelope,
    RefusalReason,
    Refused,
    Requirement,
    Resource,
    ResourceKind,
    Terms,
)
from mintscope.payments.protocol.memo import Flaw, find_flaw, has_form_of_ours, nonce_of, quoted_at

COMPUTE_BUDGET: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
# Lighthouse: Phantom adds one to three of its assertions, Solflare two.
WALLET_GUARDS: Final = frozenset(
    {Pubkey.from_string("L2TExMFKdjpN9kozasaurPirfHy9P8sbXoAN1qA3S95")}
)
INSTRUCTION_COUNT_MIN: Final = 3
INSTRUCTION_COUNT_MAX: Final = 7
COMPUTE_UNITS_MAX: Final = 400_000
PRIORITY_LAMPORTS_MAX: Final = 10_000
LAMPORTS_PER_SIGNATURE: Final = 5_000
FEE_LAMPORTS_MIN: Final = 2 * LAMPORTS_PER_SIGNATURE  # two signatures: no fee is lower
FEE_LAMPORTS_USUAL: Final = FEE_LAMPORTS_MIN + 1  # official clients add one lamport of priority fee
OWN_MEMO_BYTES: Final = range(16, 65)  # official clients before 2.10 write 32 hex digits
MICRO: Final = 1_000_000
_LIMIT_KIND: Final = b"\x02"
_PRICE_KIND: Final = b"\x03"
_LIMIT_BYTES: Final = 5
_PRICE_BYTES: Final = 9
_TRANSFER_BYTES: Final = 10
_TRANSFER_ACCOUNTS: Final = 4


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that would pay exactly the amount that was asked for, if it landed.

    source           the payer's token account
    fee_lamports     upper bound for our network fee
    quote            the memo, or the quote that the client sent outside the transaction
    is_bound         whether the quote is the memo of the transaction
    """

    envelope: Envelope
    asset: Mint
    amount: int
    source: Pubkey
    fee_lamports: int
    quoted_at: UnixMs
    nonce: bytes
    quote: bytes
    is_bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The purchase that a payment must pay for, and the time at which it is checked.

    resource    if it is a kind, the payment may be for any resource of that kind
    now         the time of the check; None: a quote of any age counts
    offered     the quote that the client sent outside the transaction; it counts if the transaction
                has no memo, or only a memo of the client's own
    """

    terms: Terms
    resource: Resource | ResourceKind
    amount: int
    quote_key: bytes
    now: UnixMs | None
    offered: bytes | None = None


class _Wrong(Exception):
    """A rule refuses the payment; `verify` catches this and returns the reason."""

    def __init__(self, reason: RefusalReason, values: str = "") -> None:
        self.reason = reason
        self.values = values


def verify(envelope: Envelope, asked: Asked) -> Verified | Refused:
    """Return the verified payment, or the reason to refuse it; check the signature last."""
    try:
        fee_lamports = _check_fee(envelope, asked.terms)
        source = _check_transfer(envelope, asked)
        memo = _check_rest(envelope)
        quote = _check_quote(memo, asked)
    except _Wrong as wrong:
        return Refused(wrong.reason, values=wrong.values)
    # Last, because this is the costliest check.
    if not envelope.is_signed_by_payer():
        return Refused(RefusalReason.SIGNATURE)
    return Verified(
        envelope=envelope,
        asset=asked.terms.asset,
        amount=asked.amount,
        source=source,
        fee_lamports=fee_lamports,
        quoted_at=quoted_at(quote),
        nonce=nonce_of(quote),
        quote=quote,
        is_bound=quote == memo,
    )


def find_memo(envelope: Envelope) -> bytes | None:
    """Return the text of the only memo of *envelope*; None if it has no memo or several."""
    instructions = envelope.message.instructions
    memos = [bytes(each.data) for each in instructions if _program(envelope, each) == MEMO]
    return memos[0] if len(memos) == 1 else None


def transferred(envelope: Envelope) -> int | None:
    """Return the amount of the third instruction, in atoms.

    Return None if there is no third instruction, or if it does not have the length of a transfer.
    """
    instructions = envelope.message.instructions
    data = bytes(instructions[2].data) if len(instructions) >= INSTRUCTION_COUNT_MIN else b""
    return int.from_bytes(data[1:9], "little") if len(data) == _TRANSFER_BYTES else None


def _check_fee(envelope: Envelope, terms: Terms) -> int:
    """Refuse a transaction that could cost the fee payer more than a small fee; return the fee."""
    instructions = envelope.message.instructions
    fee_payer = envelope.accounts[FEE_PAYER_AT]
    if str(fee_payer) != terms.fee_payer:
        raise _Wrong(RefusalReason.FEE_PAYER, _differing(terms.fee_payer, fee_payer))
    if not INSTRUCTION_COUNT_MIN <= len(instructions) <= INSTRUCTION_COUNT_MAX:
        values = f"The number of instructions was {len(instructions)}."
        raise _Wrong(RefusalReason.INSTRUCTION_COUNT, values)
    for instruction in instructions:
        if FEE_PAYER_AT in (instruction.program_id_index, *bytes(instruction.accounts)):
            raise _Wrong(RefusalReason.FEE_PAYER_NOT_ISOLATED)
    limit, price = instructions[:2]
    # The official client of MPP writes the price first.
    if bytes(limit.data)[:1] == _PRICE_KIND:
        limit, price = price, limit
    units = _budget(envelope, limit, kind=_LIMIT_KIND, length=_LIMIT_BYTES)
    micro_lamports = _budget(envelope, price, kind=_PRICE_KIND, length=_PRICE_BYTES)
    if units > COMPUTE_UNITS_MAX:
        raise _Wrong(RefusalReason.COMPUTE_LIMIT_TOO_HIGH, f"The limit was {units}.")
    # Rounded up, as the chain rounds the fee.
    priority = -(-units * micro_lamports // MICRO)
    if priority > PRIORITY_LAMPORTS_MAX:
        raise _Wrong(RefusalReason.PRIORITY_FEE_TOO_HIGH, f"The priority fee was {priority}.")
    return FEE_LAMPORTS_MIN + priority


def _budget(
    envelope: Envelope, instruction: CompiledInstruction, *, kind: bytes, length: int
) -> int:
    """Return the number that a compute-budget instruction of *kind* sets."""
    data = bytes(instruction.data)
    if _program(envelope, instruction) != COMPUTE_BUDGET or data[:1] != kind:
        raise _Wrong(RefusalReason.COMPUTE_BUDGET)
    if len(data) != length or bytes(instruction.accounts):
        raise _Wrong(RefusalReason.COMPUTE_BUDGET)
    return int.from_bytes(data[1:], "little")


def _check_transfer(envelope: Envelope, asked: Asked) -> Pubkey:
    """Return the token account that pays, if the transfer is exactly the one that was asked for."""
    instruction = envelope.message.instructions[2]
    terms = asked.terms
    data = bytes(instruction.data)
    accounts = bytes(instruction.accounts)
    program = _program(envelope, instruction)
    if str(program) != terms.token_program:
        raise _Wrong(RefusalReason.TOKEN_PROGRAM, _differing(terms.token_program, program))
    if (len(data), data[:1], len(accounts)) != (_TRANSFER_BYTES, b"\x0c", _TRANSFER_ACCOUNTS):
        raise _Wrong(RefusalReason.NO_TRANSFER)
    source, mint, destination, _ = (envelope.accounts[index] for index in accounts)
    if str(mint) != terms.asset:
        raise _Wrong(RefusalReason.MINT, _differing(terms.asset, mint))
    if data[9] != terms.decimals:
        raise _Wrong(RefusalReason.DECIMALS, _differing(terms.decimals, data[9]))
    if destination != terms.treasury:
        raise _Wrong(RefusalReason.RECIPIENT, _differing(terms.treasury, destination))
    if accounts[3] != PAYER_AT:
        raise _Wrong(RefusalReason.AUTHORITY)
    # Each payer has one token account, so that its balance covers all pending payments.
    expected = terms.token_account(envelope.accounts[PAYER_AT])
    if source != expected:
        raise _Wrong(RefusalReason.SOURCE, _differing(expected, source))
    if source == destination:  # if the treasury paid itself, nothing would arrive
        raise _Wrong(RefusalReason.RECIPIENT)
    amount = int.from_bytes(data[1:9], "little")
    if amount != asked.amount:
        values = f"Expected {asked.amount} atoms; there were {amount}."
        raise _Wrong(RefusalReason.AMOUNT, values)
    return source


def _differing(expected: object, actual: object) -> str:
    return f"Expected {expected}; was {actual}."


def _check_rest(envelope: Envelope) -> bytes | None:
    """Return the memo of the transaction; None if it has none.

    Refuse the payment if there are two memos, or if an instruction after the transfer is neither a
    memo nor an assertion that wallets add.
    """
    rest = [
        (_program(envelope, instruction), bytes(instruction.data))
        for instruction in envelope.message.instructions[3:]
    ]
    if any(program != MEMO and program not in WALLET_GUARDS for program, _ in rest):
        raise _Wrong(RefusalReason.UNKNOWN_PROGRAM)
    memos = [data for program, data in rest if program == MEMO]
    if len(memos) > 1:
        raise _Wrong(RefusalReason.MEMO_COUNT)
    return memos[0] if memos else None


def _check_quote(memo: bytes | None, asked: Asked) -> bytes:
    """Return the quote, in *memo* or sent beside it, if it is valid for the purchase *asked*."""
    is_beside = memo is None or _is_clients_own(memo)
    quote = asked.offered if asked.offered is not None and is_beside else memo
    if quote is None:
        raise _Wrong(RefusalReason.MEMO_COUNT)
    flaw = find_flaw(
        asked.quote_key,
        quote,
        terms=asked.terms,
        resource=asked.resource,
        amount=asked.amount,
        now=asked.now,
    )
    if flaw is not None:
        raise _Wrong(
            RefusalReason.QUOTE_FORGED if flaw is Flaw.FORGED else RefusalReason.QUOTE_EXPIRED
        )
    return quote


def _is_clients_own(memo: bytes) -> bool:
    """Return whether *memo* may be a client's own text: of usual length, and no quote."""
    try:
        memo.decode()
    except UnicodeDecodeError:
        return False
    return len(memo) in OWN_MEMO_BYTES and not has_form_of_ours(memo)


def _program(envelope: Envelope, instruction: CompiledInstruction) -> Pubkey:
    return envelope.accounts[instruction.program_id_index]


COMPUTE_UNITS: Final = 60_000  # enough for a transfer by either token program, and a 32-byte memo
MICRO_LAMPORTS: Final = 1
TRANSFER_CHECKED: Final = 12


def build(requirement: Requirement, payer: Pubkey, recent: Hash) -> bytes:
    """Return the transaction with which *payer* meets *requirement*; it lacks both signatures.

    recent    a blockhash that has not expired
    """
    terms = requirement.terms
    amount = requirement.amount.to_bytes(8, "little")
    parts = [  # in the order of the checks
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
    message = MessageV0.try_compile(Pubkey.from_string(terms.fee_payer), parts, [], recent)
    unsigned = [Ed25519.default()] * message.header.num_required_signatures
    return bytes(VersionedTransaction.populate(message, unsigned))
