"""An action on accounts or keys that fails at any of its statements changes nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Purpose, Session
from mintscope.kit.audit import UserId
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.sql.database import Database
from support.oracles.account_books import dump
from support.scenes.account_stores import connection_of
from support.scenes.people_service import (
    ALICE,
    HERE,
    MALLORY,
    NOW,
    PASSWORD,
    PeopleService,
    open_people_service,
)

NEW_PASSWORD: Final = "yet another good one"
Verb = Callable[[PeopleService, Session], Awaitable[object]]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def prepare(service: PeopleService) -> Session:
    """Return a session of Alice, who has verified her address and can do every action of VERBS."""
    session = await service.owned()
    service.change(
        "INSERT INTO user (kind, username, email, verified_at, created_at)"
        " VALUES ('agent', 'agent', ?1, ?2, ?2)",
        ALICE,
        NOW,
    )
    scopes = frozenset({Scope.TRADE_READ})
    await service.keys.create(session, name="bot", scopes=scopes, lifetime_ms=None)
    service.clock.advance(300_000)
    session = await service.enter(await service.people.sign_in(ALICE, "staple horse battery", HERE))
    await service.people.request_verification(session)
    await service.people.request_reset(ALICE, HERE)
    assert await service.people.request_claim(session, UserId(2))
    service.clock.advance(300_000)
    return session


VERBS: Final[dict[str, Verb]] = {
    "sign up": lambda service, _: service.people.sign_up(MALLORY, PASSWORD, HERE),
    "change the password": lambda service, session: service.people.change_password(
        session, NEW_PASSWORD
    ),
    "ask for a reset": lambda service, _: service.people.request_reset(ALICE, HERE),
    "reset": lambda service, _: service.people.reset(
        service.link(Purpose.RESET_PASSWORD), NEW_PASSWORD
    ),
    "ask for a verification": lambda service, session: service.people.request_verification(session),
    "verify": lambda service, session: service.people.verify(
        session, service.link(Purpose.VERIFY_EMAIL)
    ),
    "ask for a claim": lambda service, session: service.people.request_claim(session, UserId(2)),
    "claim": lambda service, session: service.people.claim(
        session, service.link(Purpose.CLAIM_AGENT)
    ),
    "make a key": lambda service, session: service.keys.create(
        session, name="bot", scopes=frozenset(Scope), lifetime_ms=None
    ),
    "rotate a key": lambda service, session: service.keys.rotate(
        session, session_key(service), overlap_ms=0
    ),
    "revoke a key": lambda service, session: service.keys.revoke(session, session_key(service)),
}


def session_key(service: PeopleService) -> Any:
    return service.rows("SELECT min(id) FROM api_key")[0][0]


async def fail_at(service: PeopleService, number: int | None) -> None:
    """Make statement *number* of the writer fail; 1 is the first after BEGIN; None: no failure."""
    done = -1  # BEGIN

    def trace(_cursor: object, statement: str, _values: object) -> bool:
        nonlocal done
        if statement == "ROLLBACK":
            return True
        done += 1
        return done != number

    def set_trace(db: Database) -> None:
        connection_of(db).exec_trace = None if number is None else trace

    await service.file.write(set_trace)
    # The trace has already counted the COMMIT of the transaction that set it.
    done = -1


@pytest.mark.storm
@pytest.mark.parametrize("verb", VERBS)
async def test_a_failure_at_any_statement_undoes_the_whole_action(
    service: PeopleService, verb: str
) -> None:
    session = await prepare(service)
    before = dump(service.path)
    number = 0
    while True:
        number += 1
        await fail_at(service, number)
        try:
            outcome = await VERBS[verb](service, session)
        except ServiceUnavailable:
            await fail_at(service, None)
            assert dump(service.path) == before
        else:
            break

    assert outcome is not False
    assert number > 2  # at least the statement that changes something, and COMMIT
    assert dump(service.path) != before
