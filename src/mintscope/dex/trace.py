"""The tree of calls of DEX programs, each with the moves under it.

A transfer belongs to the innermost DEX above it.  Directly under a router it
belongs to none: commissions, tips and the user's own deposits pass there.
Programs that the table does not list have calls, too, unless a listed DEX
called them: `recognition` decides whether one of them exchanged.
Below a transfer of Token-2022 runs the hook of its mint: a program of the
issuer, whose own transfers belong to none either.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mintscope.dex import base58
from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.dex.program import EVENT_ACCOUNTS_MAX, Call, Program
from mintscope.dex.programs import TABLE, UNLISTED
from mintscope.dex.token_accounts import ASSOCIATED, SPL, SPL_2022, SYSTEM
from mintscope.solana.blocks import LOGGED_PROGRAMS
from mintscope.solana.transaction import Instruction


class Native:
    """A program that is not a DEX, whose instructions the trace handles itself."""

    __slots__ = ()


TOKEN = Native()
TOKEN_2022 = Native()
LAMPORTS = Native()
IGNORED = Native()
NATIVES: Final = {SPL: TOKEN, SPL_2022: TOKEN_2022, SYSTEM: LAMPORTS, ASSOCIATED: IGNORED}

# Data without heights is read flat: a DEX is called from the top, the rest belongs to it.
TOP = 1
CALLED = 2
MOVING = 3

Role: TypeAlias = Program | Native | None
"""Of an account; None for most, which are nothing to the trace."""

Frame: TypeAlias = tuple[int, Role, Call | None]
"""An instruction that may call others: its height, its program, its call if that is a DEX."""


class Roles:
    """The role of each address; *programs* are the DEXes."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self.dexes = frozenset(programs)
        self.logged = frozenset(one for one in self.dexes if one.address in LOGGED_PROGRAMS)
        dexes = {program.address: program for program in self.dexes}
        self._of_text: Mapping[str, Program | Native] = {**dexes, **NATIVES}
        # Apart from the others: a dict of both would look text up more slowly.
        self._of_bytes = {base58.decode(key): role for key, role in self._of_text.items()}

    def of(self, keys: Sequence[str] | Sequence[bytes]) -> list[Role]:
        """Return the role of each of *keys*."""
        form: Any = self._of_text if keys and isinstance(keys[0], str) else self._of_bytes
        return list(map(form.get, keys))


KNOWN: Final = Roles(TABLE)


def calls(
    outer: Sequence[Instruction], inner: Mapping[int, Sequence[Instruction]], roles: Sequence[Role]
) -> list[Call]:
    """Return every call of a DEX, in order of execution; *roles* are those of the accounts.

    Raises Unreadable if an instruction runs a program beyond them.
    """
    found: list[Call] = []
    try:
        for position, instruction in enumerate(outer):
            role = roles[instruction.program_id_index]
            call = None
            if isinstance(role, Program):
                if role.read is not None:
                    call = Call(role, instruction, position, -1)
                    found.append(call)
            elif role is None and position in inner and has_heights(inner[position]):
                call = Call(UNLISTED, instruction, position, -1)
                found.append(call)
            if position in inner:
                _descend(inner[position], position, (TOP, role, call), roles, found)
    except IndexError:
        raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT) from None
    return found


def has_heights(instructions: Sequence[Instruction]) -> bool:
    """Return whether *instructions* record their depth; data from before 2023 does not."""
    return bool(instructions) and instructions[0].stack_height is not None


def _descend(  # noqa: C901, PLR0912 - the hottest loop: one pass, its state in locals
    instructions: Sequence[Instruction],
    outer: int,
    top: Frame,
    roles: Sequence[Role],
    found: list[Call],
) -> None:
    """Add to *found* the DEX calls below the top-level instruction *outer*."""
    height, program, call = top
    frames = [top]
    for position, instruction in enumerate(instructions):
        role = roles[instruction.program_id_index]
        at = instruction.stack_height
        if at is None:
            is_event = role is program and len(instruction.accounts) <= EVENT_ACCOUNTS_MAX
            at = CALLED if isinstance(role, Program) and not is_event else MOVING
        while at <= height:
            frames.pop()
            if not frames:
                raise Unreadable(QuarantineReason.MALFORMED)
            height, program, call = frames[-1]
        if role is TOKEN:
            if call is not None:
                call.tokens.append(instruction)
        elif role is None:
            # Below a listed DEX it works for that one; below a transfer it is a hook.
            is_free = call is None or call.program is UNLISTED
            if is_free and program is not TOKEN_2022 and instruction.stack_height is not None:
                below_router = isinstance(program, Program) and program.read is None
                program = None
                call = Call(UNLISTED, instruction, outer, position, below_router=below_router)
                found.append(call)
                height = at
                frames.append((height, program, call))
        elif isinstance(role, Program):
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
                # Below it runs the mint's transfer hook, whose moves are no part of the call.
                height = at
                program = role
                call = None
                frames.append((height, program, call))
        elif role is LAMPORTS and call is not None:
            call.lamports.append(instruction)
