"""An agent becomes part of the account of the person who reads its e-mail, and of no other."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.key import NewKey
from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Purpose, Session, SessionEnded
from mintscope.kit.audit import UserId
from mintscope.kit.credentials import ApiKey, CredentialKind, make_api_key
from support.scenes.people_service import (
    ALICE,
    MALLORY,
    NOW,
    SECRETS,
    THERE,
    PeopleService,
    open_people_service,
)

READS = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


async def agent_of(service: PeopleService, email: EmailAddress = ALICE) -> tuple[UserId, ApiKey]:
    """Store an agent with *email* and an API key, as an exchange does; return user ID and key."""
    username = f"agent-{email}"
    service.change(
        "INSERT INTO user (kind, username, email, verified_at, created_at)"
        " VALUES ('agent', ?, ?, ?, ?)",
        username,
        email,
        NOW,
        NOW,
    )
    ((user_id,),) = service.rows("SELECT id FROM user WHERE username = ?", username)
    api_key = make_api_key(username.encode().ljust(CredentialKind.API_KEY.entropy_bytes, b"."))
    key = NewKey(
        key_hash=SECRETS.hash(api_key), hint="...", name="agent", scopes=READS, expires_at=None
    )
    agent = UserId(user_id)
    await service.store.transact(lambda rows: rows.api_keys.insert(agent, key, NOW, signup_id=None))
    return agent, api_key


async def claim_link(service: PeopleService, session: Session, agent: UserId) -> str:
    assert await service.people.request_claim(session, agent)
    return service.link(Purpose.CLAIM_AGENT)


async def test_an_agent_is_claimed_by_the_reader_of_its_address(service: PeopleService) -> None:
    agent, api_key = await agent_of(service)
    session = await service.owned()
    assert [user.user_id for user in await service.people.claimable(session)] == [agent]

    claimed = await service.people.claim(session, await claim_link(service, session, agent))

    assert claimed is not None
    assert claimed.user_id == agent
    holder = await service.keys.find(api_key)
    assert holder is not None
    assert holder.key.user_id == session.user.user_id
    assert holder.username == session.user.username
    assert await service.people.claimable(session) == []
    kept = service.rows("SELECT email, username FROM user WHERE id = ?", agent)
    assert kept == [("", f"removed-{agent}")]


async def test_an_account_with_an_unverified_address_cannot_claim_an_agent(
    service: PeopleService,
) -> None:
    agent, api_key = await agent_of(service)
    mallory = await service.signed_up(ALICE, THERE)  # not verified

    assert await service.people.claimable(mallory) == []
    assert not await service.people.request_claim(mallory, agent)
    assert service.emails() == []
    holder = await service.keys.find(api_key)
    assert holder is not None
    assert holder.key.user_id == agent


async def test_an_agent_with_another_address_cannot_be_claimed(service: PeopleService) -> None:
    agent, _ = await agent_of(service, MALLORY)
    session = await service.owned()

    assert await service.people.claimable(session) == []
    assert not await service.people.request_claim(session, agent)


async def test_a_claim_link_works_only_in_the_account_that_requested_it(
    service: PeopleService,
) -> None:
    agent, _ = await agent_of(service)
    session = await service.owned()
    link = await claim_link(service, session, agent)
    mallory = await service.signed_up(MALLORY)
    as_if = replace(mallory, user=replace(mallory.user, email=ALICE, verified_at=NOW))

    assert await service.people.claim(mallory, link) is None
    assert await service.people.claim(as_if, link) is None
    assert await service.people.claim(session, link) is not None


async def test_a_claim_link_works_once(service: PeopleService) -> None:
    agent, _ = await agent_of(service)
    session = await service.owned()
    link = await claim_link(service, session, agent)
    assert await service.people.claim(session, link) is not None

    assert await service.people.claim(session, link) is None


async def test_a_claim_is_refused_in_a_session_that_has_ended(service: PeopleService) -> None:
    agent, _ = await agent_of(service)
    session = await service.owned()
    link = await claim_link(service, session, agent)
    await service.people.sign_out(session)

    with pytest.raises(SessionEnded):
        await service.people.claim(session, link)


async def test_a_claim_link_does_nothing_if_the_address_is_unverified(
    service: PeopleService,
) -> None:
    agent, _ = await agent_of(service)
    session = await service.owned()
    link = await claim_link(service, session, agent)
    service.change("UPDATE user SET verified_at = NULL WHERE kind = 'person'")

    assert await service.people.claim(session, link) is None
