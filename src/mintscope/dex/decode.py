"""Transactions to swaps.  Total: for any bytes, the result is swaps or a reason.

A failed transaction is no swap.  Neither are liquidity changes, token
creations, tips and commissions: a swap is a call of a DEX, with an instruction
that swaps, after which a pool has received one mint and paid another.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mintscope.dex import base58, batch, trace
from mintscope.dex.outcome import (
    NO_EXCHANGES,
    Decoded,
    Quarantined,
    QuarantineReason,
    Swap,
    Unreadable,
)
from mintscope.dex.program import Call
from mintscope.dex.programs import UNLISTED
from mintscope.dex.readers import unread as unlisted
from mintscope.dex.readers.progress import PARTS, progress_of
from mintscope.dex.recognition import described, recognise
from mintscope.dex.token_accounts import TokenAccounts, signature_of
from mintscope.dex.trace import KNOWN, TOKEN, TOKEN_2022, Role, Roles
from mintscope.dex.transfers import exchange_in, is_of_one_piece
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import WSOL
from mintscope.solana.transaction import Transaction, UnreadableTransaction

NO_PROGRAM: Final = "unknown"


def decode_block(
    transactions: Iterable[Transaction | UnreadableTransaction], roles: Roles = KNOWN
) -> Decoded:
    """Return the swaps of *transactions*, in order; *roles* say which programs are DEXes.

    Never raises for the content of a transaction: unreadable ones are quarantined.
    """
    migrations: list[Swap] = []
    decoded = Decoded([], [], [], migrations)
    for transaction in transactions:
        if isinstance(transaction, Transaction):
            _decode(transaction, roles, decoded, migrations)
        else:
            index = transaction.index
            signature = transaction.signature
            reason = QuarantineReason(transaction.reason)
            decoded.quarantined.append(Quarantined(signature, index, NO_PROGRAM, reason))
        # Freed before the next is parsed, so that it takes the same memory: 4 % of the time.
        del transaction
    return decoded


def _decode(transaction: Transaction, known: Roles, into: Decoded, migrations: list[Swap]) -> None:
    """Add the swaps of *transaction* to *into*, and its moves from curves to *migrations*."""
    try:
        traced = _trace(transaction, known)
    except Unreadable as unreadable:
        into.quarantined.append(_quarantined(transaction, NO_PROGRAM, unreadable))
        return
    if traced is None:
        return
    calls, token_accounts = traced
    found: list[list[Swap] | None] = []
    has_unlisted = False
    for call in calls:
        if call.program is UNLISTED:
            if call.tokens or call.below_router:  # else it called others, and moved nothing itself
                has_unlisted = True
            found.append([])
            continue
        try:
            migrations += _migrated(call, token_accounts)
            found.append(_read(call, token_accounts))
        except Unreadable as unreadable:
            found.append(None)
            into.quarantined.append(_missed(transaction, call, token_accounts, unreadable))
    if has_unlisted:
        _recognise(transaction, calls, found, token_accounts, into)
    for swaps in found:
        if swaps:
            into.swaps.extend(swaps)


def _recognise(
    transaction: Transaction,
    calls: list[Call],
    found: list[list[Swap] | None],
    token_accounts: TokenAccounts,
    into: Decoded,
) -> None:
    """Enter into *found* the swaps of unlisted programs, and record them in *into*."""
    for call, refused in recognise(calls, found, token_accounts):
        address = token_accounts.key(call.instruction.program_id_index)
        missed = _missed(transaction, call, token_accounts, refused)
        into.quarantined.append(missed._replace(program=address))
    for call, swaps in zip(calls, found, strict=True):
        if call.program is UNLISTED and swaps:
            into.unlisted.extend(described(call, swaps, token_accounts))


def _quarantined(transaction: Transaction, program: str, unreadable: Unreadable) -> Quarantined:
    signature = signature_of(transaction)
    reason = unreadable.reason
    said = unreadable.head, unreadable.moved
    return Quarantined(signature, transaction.index, program, reason, *said)


def _missed(
    transaction: Transaction, call: Call, token_accounts: TokenAccounts, unreadable: Unreadable
) -> Quarantined:
    """Return *call* as quarantined, with the facts that are known of it."""
    return _quarantined(transaction, call.program.name, unreadable)._replace(
        moved=unreadable.moved or unlisted.moved_by(call, token_accounts),
        mints=token_accounts.mints_of(call.instruction.accounts),
    )


def _trace(transaction: Transaction, known: Roles) -> tuple[list[Call], TokenAccounts] | None:
    """Return the calls of *transaction*, None if it cannot have exchanged tokens.

    Raises Unreadable if the outcome was not recorded.
    """
    roles = known.of(transaction.keys)
    if known.dexes.isdisjoint(roles) and not _may_exchange(transaction, roles):
        return None
    if transaction.inner is None:
        raise Unreadable(QuarantineReason.NO_INNER_INSTRUCTIONS)
    if not transaction.inner and known.logged.isdisjoint(roles):
        return None
    token_accounts = TokenAccounts(transaction)
    return trace.calls(transaction.instructions, token_accounts.inner, roles), token_accounts


def _may_exchange(transaction: Transaction, roles: Sequence[Role]) -> bool:
    """Return whether an unlisted program may have exchanged two mints.

    Or one mint for lamports.
    """
    if not transaction.inner or not (TOKEN in roles or TOKEN_2022 in roles):
        return False
    balances = transaction.balances
    if any(balance.mint != balances[0].mint for balance in balances):
        return True
    return bool(balances) and balances[0].mint != WSOL and _calls_unlisted(transaction, roles)


def _calls_unlisted(transaction: Transaction, roles: Sequence[Role]) -> bool:
    """Return whether an unknown program called a token program, so may have exchanged lamports.

    Also True if an index is beyond the accounts: the trace says so.
    """
    try:
        for called in transaction.inner or ():
            caller = transaction.instructions[called.index]
            if roles[caller.program_id_index] is None:
                for one in called.instructions:
                    role = roles[one.program_id_index]
                    if role is TOKEN or role is TOKEN_2022:
                        return True
    except IndexError:
        return True
    return False


def _migrated(call: Call, token_accounts: TokenAccounts) -> Iterator[Swap]:
    """Yield the move of *call* from a curve to a pool, if it is one."""
    if not call.program.migrations:
        return
    names = call.program.migrations.get(base58.head(call.instruction.data))
    accounts = call.instruction.accounts
    if names is None or len(accounts) <= max(*names.mints, names.curve, names.pool):
        return
    key = token_accounts.key
    mints = [mint for at in names.mints if (mint := key(accounts[at])) != WSOL]
    if len(mints) == 1:
        yield Swap(
            token_accounts.signature,
            token_accounts.index,
            call.outer,
            call.inner,
            0,
            call.program.name,
            key(accounts[names.pool]),
            Mint(mints[0]),
            0,
            None,
            WSOL,
            0,
            None,
            token_accounts.signers[0],
            succeeds=key(accounts[names.curve]),
        )


def _read(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*, an empty list if it did not swap."""
    swaps = call.program.swaps
    read = call.program.read
    legs = None
    if call.program.head_size:
        head = base58.head(call.instruction.data, call.program.head_size)
        legs = swaps.get(head)
        if legs is None:
            legs = swaps.get(head[:1])
        if legs is None and b"" not in swaps:
            others = call.program.no_swaps
            if others and (head in others or head[:1] in others):
                return []
    if legs is None:
        return _read_other(call, token_accounts)
    call.tokens = batch.expand(call.tokens, token_accounts.opened)
    if read is None:
        return []
    found = read(call, legs, token_accounts)
    if len(found) == 1 and call.program.name in PARTS:
        found = [found[0]._replace(progress=progress_of(call))]
    if not found and b"" in swaps:
        unlisted.expect_no_exchange(call, token_accounts)
    return found


def _read_other(call: Call, token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*, an instruction whose head is not in the table."""
    program = call.program
    if base58.head(call.instruction.data) in NO_EXCHANGES:
        return []
    call.tokens = batch.expand(call.tokens, token_accounts.opened)
    legs = program.swaps.get(b"")
    if legs is None:
        return unlisted.read(call, token_accounts)
    if program.read is None:
        return []
    found = program.read(call, legs, token_accounts)
    for swap in found:
        if swap.in_amount == 1 or swap.out_amount == 1:  # seldom: each swap passes here
            found = [one for one in found if not is_of_one_piece(exchange_in(one), token_accounts)]
            break
    if not found:
        unlisted.expect_no_exchange(call, token_accounts)
    return found
