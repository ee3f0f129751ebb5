"""Decodes transactions to swaps; if a transaction or a call cannot be read, gives the reason.

A swap is an exchange in a pool of a DEX: the pool received one mint and paid another.
Failed transactions, liquidity changes, token creations, tips and commissions are not swaps.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mintscope.dex import base58, batch
from mintscope.dex import unread as unlisted
from mintscope.dex.events import REPORTS, reported
from mintscope.dex.outcome import (
    NO_EXCHANGES,
    Decoded,
    Quarantined,
    QuarantineReason,
    Swap,
    Unreadable,
    new_swap,
)
from mintscope.dex.program import EVENT_ACCOUNTS_MAX, Call, Program
from mintscope.dex.programs import TABLE, UNLISTED
from mintscope.dex.recognition import described, recognise
from mintscope.dex.token_accounts import (
    ASSOCIATED,
    SPL,
    SPL_2022,
    SPL_PROGRAMS,
    SYSTEM,
    TokenAccounts,
    signature_of,
)
from mintscope.dex.transfers import exchange_in, is_of_one_piece
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import LOGGED_PROGRAMS, WSOL
from mintscope.solana.transaction import Instruction, Transaction, UnreadableTransaction

# The trace: the calls of DEX programs, each with the transfers below it.
#
# A transfer belongs to the innermost DEX above it.  Directly below a router it belongs to no call,
# because it is a commission, a tip or a deposit of the user.  Calls of programs that are not in the
# table are traced too, unless a listed DEX made them: `recognition` decides whether they exchanged.
# A transfer of Token-2022 may call the hook of its mint; transfers of the hook belong to no call.


class Native:
    """A program that is not a DEX, but whose instructions the decoder needs to find swaps."""

    __slots__ = ()


TOKEN = Native()
TOKEN_2022 = Native()
LAMPORTS = Native()
IGNORED = Native()
NATIVES: Final = {SPL: TOKEN, SPL_2022: TOKEN_2022, SYSTEM: LAMPORTS, ASSOCIATED: IGNORED}

# Heights (depths of calls) for data without them: a DEX counts as called by the top-level
# instruction, and every other instruction as called by the DEX.
TOP = 1
CALLED = 2
MOVING = 3

Role: TypeAlias = Program | Native | None
"""The role of an account; None for most accounts."""

Frame: TypeAlias = tuple[int, Role, Call | None]
"""An instruction that may call others: its height and role, and its call if it has a `Call`."""


class Roles:
    """The role of each program address; *programs* are the DEXes and routers."""

    def __init__(self, programs: Iterable[Program]) -> None:
        dexes = {program.address: program for program in programs}
        self._of_text: Mapping[str, Program | Native] = {**dexes, **NATIVES}
        # A separate dict, because mixed keys would slow down the look-up of text.
        self._of_bytes = {base58.decode(key): role for key, role in self._of_text.items()}
        self.dexes = _in_both_forms(dexes.keys() - NATIVES.keys())
        self.logged = self.dexes & _in_both_forms(LOGGED_PROGRAMS)

    def of(self, keys: Sequence[str] | Sequence[bytes]) -> Sequence[Role]:
        """Return the role of each of *keys*, the accounts of a transaction, as text or bytes."""
        is_text = bool(keys) and isinstance(keys[0], str)
        by_key: Mapping[Any, Program | Native] = self._of_text if is_text else self._of_bytes
        return list(map(by_key.get, keys))


def _in_both_forms(addresses: Iterable[str]) -> frozenset[str | bytes]:
    return frozenset(form for one in addresses for form in (one, base58.decode(one)))


KNOWN: Final = Roles(TABLE)


def calls(
    outer: Sequence[Instruction],
    inner: Mapping[int, Sequence[Instruction]],
    roles: Sequence[Role],
) -> list[Call]:
    """Return the calls of DEXes and of unlisted programs, in order of execution.

    outer    the top-level instructions of a transaction
    inner    the instructions below each of *outer*, by the position of the top-level instruction
    roles    the roles of the accounts of the transaction

    A call to an unlisted program is left out if a DEX or a token transfer made it, if it is a
    top-level instruction that calls no program, or if the data have no stack heights.

    Raises Unreadable if the program of an instruction is not among the accounts, or if the stack
    heights contradict each other.
    """
    found: list[Call] = []
    try:
        for position, instruction in enumerate(outer):
            role = roles[instruction.program_id_index]
            below = inner.get(position)
            call = None
            if role is None:
                if below and has_heights(below):
                    call = Call(UNLISTED, instruction, position, -1)
                    found.append(call)
            elif type(role) is Program and role.read is not None:
                call = Call(role, instruction, position, -1)
                found.append(call)
            if below and role is not IGNORED:  # an ignored program calls no DEX
                _descend(below, position, (TOP, role, call), roles, found)
    except IndexError:
        raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT) from None
    return found


def has_heights(instructions: Sequence[Instruction]) -> bool:
    """Return whether *instructions* have stack heights, which nodes have recorded since 2023.

    There must be at least one instruction.
    """
    return instructions[0].stack_height is not None


def _descend(  # noqa: C901, PLR0912 - the hottest loop, all in locals
    instructions: Sequence[Instruction],
    outer: int,
    top: Frame,
    roles: Sequence[Role],
    found: list[Call],
) -> None:
    """Add to *found* the calls of DEXes and unlisted programs inside instruction *outer*."""
    height, program, call = top
    frames = [top]
    for position, instruction in enumerate(instructions):
        role = roles[instruction.program_id_index]
        at = instruction.stack_height
        if at is None:
            is_event = role is program and len(instruction.accounts) <= EVENT_ACCOUNTS_MAX
            # Without heights, it is unknown whether the DEX was called by the one before it.
            at = CALLED if type(role) is Program and not is_event else MOVING
        while at <= height:
            frames.pop()
            if not frames:
                raise Unreadable(QuarantineReason.MALFORMED)
            height, program, call = frames[-1]
        if role is TOKEN:
            if call is not None:
                call.tokens.append(instruction)
        elif role is None:
            # A call by a listed DEX is a part of that DEX's call; a call by a transfer is a hook.
            is_free = call is None or call.program is UNLISTED
            if is_free and program is not TOKEN_2022 and instruction.stack_height is not None:
                below_router = isinstance(program, Program) and program.read is None
                program = None
                call = Call(UNLISTED, instruction, outer, position, below_router=below_router)
                found.append(call)
                height = at
                frames.append((height, program, call))
        elif type(role) is Program:  # `isinstance` takes twice as long
            if role is program and len(instruction.accounts) <= EVENT_ACCOUNTS_MAX:
                if call is not None:
                    call.events.append(instruction)
                continue
            program = role
            call = None
            if role.read is not None:
                call = Call(role, instruction, outer, position)
                found.append(call)
            height = at
            frames.append((height, program, call))
        elif role is TOKEN_2022:
            if call is not None:
                call.tokens.append(instruction)
                call.token_2022 = True
            if instruction.stack_height is not None:
                # The hook of the mint runs below; the hook's transfers are no part of the call.
                height = at
                program = role
                call = None
                frames.append((height, program, call))
        elif role is LAMPORTS and call is not None:
            call.lamports.append(instruction)


NO_PROGRAM: Final = "unknown"


def decode_block(
    transactions: Iterable[Transaction | UnreadableTransaction], roles: Roles = KNOWN
) -> Decoded:
    """Return the swaps of *transactions*, in order, and the transactions and calls left unread.

    A transaction or a call that cannot be read is quarantined, and no error is raised.

    roles   the DEX programs, with their layouts
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
        # Frees the memory for the next transaction, which saves 4 % of the time.
        del transaction
    return decoded


def _decode(transaction: Transaction, known: Roles, into: Decoded, migrations: list[Swap]) -> None:
    """Add the swaps and errors of *transaction* to *into*.

    Add to *migrations* a record for each move of a token from its launch curve to a pool.
    """
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
            if call.tokens or call.below_router:  # a call with neither has moved no tokens
                has_unlisted = True
            found.append([])  # a place for the swaps that `recognise` finds
            continue
        try:
            found.append(_read(call, token_accounts, migrations))
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
    """Store the swaps of unlisted programs in *found*, and describe each in `into.unlisted`."""
    # Exchanges that are not understood are added to `into.quarantined`.
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
    return _quarantined(transaction, call.program.name, unreadable)._replace(
        moved=unreadable.moved or unlisted.moved_by(call, token_accounts),
        mints=token_accounts.mints_of(call.instruction.accounts),
    )


def _trace(transaction: Transaction, known: Roles) -> tuple[list[Call], TokenAccounts] | None:
    """Return the calls and accounts of *transaction*; None if it cannot have exchanged tokens.

    Raises Unreadable if the inner instructions were not recorded, or if the calls cannot be found
    in the instructions.
    """
    keys = transaction.keys
    # Programs are at the end of the accounts, so a search from the end finds a DEX sooner.
    if known.dexes.isdisjoint(reversed(keys)) and not _may_exchange(transaction, known):
        return None
    if transaction.inner is None:
        raise Unreadable(QuarantineReason.NO_INNER_INSTRUCTIONS)
    # Without inner instructions no program moved tokens; those in `logged` may only log fills.
    if not transaction.inner and known.logged.isdisjoint(keys):
        return None
    token_accounts = TokenAccounts(transaction)
    return calls(transaction.instructions, token_accounts.inner, known.of(keys)), token_accounts


def _may_exchange(transaction: Transaction, known: Roles) -> bool:
    """Return whether an unlisted program may have exchanged two mints, or a mint for lamports."""
    if not transaction.inner or SPL_PROGRAMS.isdisjoint(transaction.keys):
        return False
    balances = transaction.balances
    if any(balance.mint != balances[0].mint for balance in balances):
        return True
    return bool(balances) and balances[0].mint != WSOL and _calls_unlisted(transaction, known)


def _calls_unlisted(transaction: Transaction, known: Roles) -> bool:
    """Return whether a program without a role called a token program.

    Only calls by top-level instructions count.  Also return True if an index is out of range, so
    that `_trace` examines the transaction.
    """
    keys = transaction.keys
    roles = known.of(keys)
    try:
        for called in transaction.inner or ():
            caller = transaction.instructions[called.index]
            if roles[caller.program_id_index] is None:
                for one in called.instructions:
                    if keys[one.program_id_index] in SPL_PROGRAMS:
                        return True
    except IndexError:
        return True
    return False


def _migration(call: Call, token_accounts: TokenAccounts) -> Swap | None:
    """Return the move of a token from its launch curve to a pool, as a swap without amounts.

    Return None if *call* is no such move.
    """
    names = call.program.migrations.get(base58.head(call.instruction.data))
    accounts = call.instruction.accounts
    if names is None or len(accounts) <= max(*names.mints, names.curve, names.pool):
        return None
    key = token_accounts.key
    mints = [mint for at in names.mints if (mint := key(accounts[at])) != WSOL]
    if len(mints) != 1:
        return None
    return Swap(
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


def _read(call: Call, token_accounts: TokenAccounts, migrations: list[Swap]) -> list[Swap]:
    """Return the swaps of *call*; if it is a migration, add it to *migrations*.

    Raises Unreadable if *call* cannot be read.
    """
    program = call.program
    swaps = program.swaps
    legs = None
    if program.head_size:
        head = base58.head(call.instruction.data, program.head_size)
        legs = swaps.get(head)
        if legs is None:
            legs = swaps.get(head[:1])
        if legs is None and b"" not in swaps:
            others = program.no_swaps
            if others and (head in others or head[:1] in others):
                return []
    if legs is None:
        return _read_other(call, token_accounts, migrations)
    call.tokens = batch.expand(call.tokens, token_accounts.opened)
    if program.read is None:
        return []
    found = program.read(call, legs, token_accounts)
    if program.name in REPORTS and len(found) == 1:
        # The last two fields of a swap are its progress and its fee.
        found = [new_swap(found[0][:-2] + reported(call))]
    # The readers of these programs may return nothing for an exchange that they do not know.
    if not found and b"" in swaps:
        unlisted.expect_no_exchange(call, token_accounts)
    return found


def _read_other(call: Call, token_accounts: TokenAccounts, migrations: list[Swap]) -> list[Swap]:
    """Return the swaps of *call*, whose first bytes are not in the table of its program.

    If *call* is a migration, add it to *migrations*.  Raises Unreadable if *call* cannot be read.
    """
    program = call.program
    if program.migrations:
        migration = _migration(call, token_accounts)
        if migration is not None:
            migrations.append(migration)
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
        if swap.in_amount == 1 or swap.out_amount == 1:  # a cheap test, which is seldom true
            found = [one for one in found if not is_of_one_piece(exchange_in(one), token_accounts)]
            break
    if not found:
        unlisted.expect_no_exchange(call, token_accounts)
    return found
