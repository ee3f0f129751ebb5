"""What ran inside what: the calls of DEX programs, each with what moved under it.

A transfer belongs to the innermost DEX above it.  Directly under a router it
belongs to none: commissions, tips and the user's own deposits pass there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from mintscope.base.transaction import Instruction
from mintscope.core.dex import base58
from mintscope.core.dex.outcome import QuarantineReason, Unreadable
from mintscope.core.dex.program import Call, Program
from mintscope.core.dex.programs import BY_ADDRESS, UNKNOWN
from mintscope.core.dex.token_accounts import ASSOCIATED, SPL, SPL_2022, SYSTEM


class Native:
    """A program that is no DEX; the trace knows what to do with its instructions."""

    __slots__ = ()


TOKEN, TOKEN_2022, LAMPORTS, IGNORED = Native(), Native(), Native(), Native()
ROLES: Final[Mapping[str, Program | Native]] = {
    **BY_ADDRESS,
    SPL: TOKEN,
    SPL_2022: TOKEN_2022,
    SYSTEM: LAMPORTS,
    ASSOCIATED: IGNORED,
}
# Apart from the others: a dict of both would look text up more slowly.
ROLES_OF_BYTES: Final = {base58.decode(address): role for address, role in ROLES.items()}

# Data without heights is read flat: a DEX is called from the top, the rest belongs to it.
TOP, CALLED, MOVING = 1, 2, 3

# A program that calls itself with its authority as the sole account emits an event.
EVENT_ACCOUNTS_MAX: Final = 1

Role: TypeAlias = Program | Native | None
"""Of an account; None for most, which are nothing to the trace."""

Frame: TypeAlias = tuple[int, Role, Call | None]
"""An instruction that may call others: its height, its program, its call if that is a DEX."""


def roles(keys: Sequence[str] | Sequence[bytes]) -> list[Role]:
    """Return the role of each of *keys*."""
    form: Any = ROLES if keys and isinstance(keys[0], str) else ROLES_OF_BYTES
    return list(map(form.get, keys))


def calls(
    outer: Sequence[Instruction], inner: Mapping[int, Sequence[Instruction]], roles: Sequence[Role]
) -> list[Call]:
    """Return every call of a DEX, in order of execution; *roles* are those of the accounts.

    Raises Unreadable where an instruction runs a program beyond them.
    """
    found: list[Call] = []
    try:
        for position, instruction in enumerate(outer):
            role = roles[instruction.program_id_index]
            call = None
            if isinstance(role, Program) and role.read is not None:
                call = Call(role, instruction, position, -1)
                found.append(call)
            if position in inner:
                _descend(inner[position], position, (TOP, role, call), roles, found)
    except IndexError:
        raise Unreadable(QuarantineReason.UNKNOWN_ACCOUNT) from None
    return found


def _descend(  # noqa: C901, PLR0912 - the hottest loop: one pass, its state in locals
    instructions: Sequence[Instruction],
    outer: int,
    top: Frame,
    roles: Sequence[Role],
    found: list[Call],
) -> None:
    """Add to *found* the calls among what top-level instruction *outer* called."""
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
            if isinstance(program, Program) and program.read is None and at == height + 1:
                program, call = UNKNOWN, Call(UNKNOWN, instruction, outer, position)
                found.append(call)
                height = at
                frames.append((height, program, call))
        elif isinstance(role, Program):
            if role is program and len(instruction.accounts) <= EVENT_ACCOUNTS_MAX:
                if call is not None:
                    call.events.append(instruction)
                continue
            program, call = role, None
            if role.read is not None:
                call = Call(role, instruction, outer, position)
                found.append(call)
            height = at
            frames.append((height, program, call))
        elif call is not None:
            if role is TOKEN_2022:
                call.tokens.append(instruction)
                call.token_2022 = True
            elif role is LAMPORTS:
                call.lamports.append(instruction)
