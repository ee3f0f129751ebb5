"""What people do to accounts and keys fails at every statement: nothing of it is done."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.base.errors import ServiceUnavailable
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.user import UserId
from support.oracles.account_books import dump
from support.scenes.desks import ALICE, HERE, MALLORY, NOW, PASSWORD, Desks, open_desks

NEW_PASSWORD: Final = "yet another good one"
Verb = Callable[[Desks, Session], Awaitable[object]]


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def prepare(desks: Desks) -> Session:
    """Return a session of Alice, who has verified her mailbox, with everything to be done next."""
    session = await desks.owned()
    desks.change(
        "INSERT INTO user (kind, username, email, verified_at, created_at)"
        " VALUES ('agent', 'agent', ?1, ?2, ?2)",
        ALICE,
        NOW,
    )
    scopes = frozenset({Scope.TRADE_READ})
    await desks.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    desks.clock.advance(300_000)
    session = await desks.enter(await desks.people.sign_in(ALICE, "staple horse battery", HERE))
    await desks.people.request_verification(session)
    await desks.people.request_reset(ALICE, HERE)
    assert await desks.people.request_claim(session, UserId(2))
    desks.clock.advance(300_000)
    return session


VERBS: Final[dict[str, Verb]] = {
    "sign up": lambda desks, _: desks.people.sign_up(MALLORY, PASSWORD, HERE),
    "change the password": lambda desks, session: desks.people.change_password(
        session, NEW_PASSWORD
    ),
    "ask for a reset": lambda desks, _: desks.people.request_reset(ALICE, HERE),
    "reset": lambda desks, _: desks.people.reset(desks.link(Purpose.RESET_PASSWORD), NEW_PASSWORD),
    "ask for a verification": lambda desks, session: desks.people.request_verification(session),
    "verify": lambda desks, session: desks.people.verify(session, desks.link(Purpose.VERIFY_EMAIL)),
    "ask for a claim": lambda desks, session: desks.people.request_claim(session, UserId(2)),
    "claim": lambda desks, session: desks.people.claim(session, desks.link(Purpose.CLAIM_AGENT)),
    "make a key": lambda desks, session: desks.keys.create(
        session, name="bot", scopes=frozenset(Scope), lifetime_ms=None
    ),
    "rotate a key": lambda desks, session: desks.keys.rotate(
        session, session_key(desks), overlap_ms=0
    ),
    "revoke a key": lambda desks, session: desks.keys.revoke(session, session_key(desks)),
}


def session_key(desks: Desks) -> Any:
    return desks.rows("SELECT min(id) FROM api_key")[0][0]


async def fail_at(desks: Desks, number: int | None) -> None:
    """Let the writer's statement of that number fail from now on; 1 is the first after BEGIN."""
    done = -1  # BEGIN

    def trace(_cursor: object, statement: str, _values: object) -> bool:
        nonlocal done
        if statement == "ROLLBACK":
            return True
        done += 1
        return done != number

    def set_trace(db: Any) -> None:
        db.exec_trace = None if number is None else trace

    await desks.file.write(set_trace)
    # The COMMIT of that very transaction was the first to be seen.
    done = -1


@pytest.mark.parametrize("verb", VERBS)
async def test_a_failure_at_any_statement_undoes_all_of_it(desks: Desks, verb: str) -> None:
    session = await prepare(desks)
    before = dump(desks.path)
    number = 0
    while True:
        number += 1
        await fail_at(desks, number)
        try:
            outcome = await VERBS[verb](desks, session)
        except ServiceUnavailable:
            await fail_at(desks, None)
            assert dump(desks.path) == before
        else:
            break

    assert outcome is not False
    assert number > 2  # at least the statement that changes something, and COMMIT
    assert dump(desks.path) != before
