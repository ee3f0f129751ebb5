"""Agents become part of the account of whoever reads their mailbox, and of nobody else's."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mintscope.base.credentials import ApiKey, CredentialKind, make_api_key
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.keys.api_key import NewKey
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.accounts.people.session import Session, SessionEnded
from mintscope.core.accounts.proof import Purpose
from mintscope.core.accounts.user import UserId
from support.scenes.desks import ALICE, MALLORY, NOW, SECRETS, THERE, Desks, open_desks

READS = frozenset({Scope.TRADE_READ})


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[Desks]:
    async with open_desks(tmp_path) as desks:
        yield desks


async def agent_of(desks: Desks, email: EmailAddress = ALICE) -> tuple[UserId, ApiKey]:
    """Make the account and the key that an exchange makes for *email*."""
    username = f"agent-{email}"
    desks.change(
        "INSERT INTO user (kind, username, email, verified_at, created_at)"
        " VALUES ('agent', ?, ?, ?, ?)",
        username,
        email,
        NOW,
        NOW,
    )
    ((user_id,),) = desks.rows("SELECT id FROM user WHERE username = ?", username)
    api_key = make_api_key(username.encode().ljust(CredentialKind.API_KEY.entropy_bytes, b"."))
    key = NewKey(
        key_hash=SECRETS.hash(api_key), hint="...", name="agent", scopes=READS, expires_at=None
    )
    agent = UserId(user_id)
    await desks.store.transact(lambda rows: rows.api_keys.insert(agent, key, NOW, signup_id=None))
    return agent, api_key


async def claim_link(desks: Desks, session: Session, agent: UserId) -> str:
    assert await desks.people.request_claim(session, agent)
    return desks.link(Purpose.CLAIM_AGENT)


async def test_an_agent_is_claimed_by_whoever_reads_its_mailbox(desks: Desks) -> None:
    agent, api_key = await agent_of(desks)
    session = await desks.owned()
    assert [user.user_id for user in await desks.people.claimable(session)] == [agent]

    claimed = await desks.people.claim(session, await claim_link(desks, session, agent))

    assert claimed is not None
    assert claimed.user_id == agent
    holder = await desks.keys.find(api_key)
    assert holder is not None
    assert holder.key.user_id == session.user.user_id
    assert holder.username == session.user.username
    assert await desks.people.claimable(session) == []


async def test_an_agent_is_not_claimed_by_whoever_only_names_its_address(desks: Desks) -> None:
    agent, api_key = await agent_of(desks)
    mallory = await desks.signed_up(ALICE, THERE)  # not verified

    assert await desks.people.claimable(mallory) == []
    assert not await desks.people.request_claim(mallory, agent)
    assert desks.letters() == []
    holder = await desks.keys.find(api_key)
    assert holder is not None
    assert holder.key.user_id == agent


async def test_an_agent_of_another_mailbox_is_out_of_reach(desks: Desks) -> None:
    agent, _ = await agent_of(desks, MALLORY)
    session = await desks.owned()

    assert await desks.people.claimable(session) == []
    assert not await desks.people.request_claim(session, agent)


async def test_a_link_to_claim_is_of_no_use_in_another_account(desks: Desks) -> None:
    agent, _ = await agent_of(desks)
    session = await desks.owned()
    link = await claim_link(desks, session, agent)
    mallory = await desks.signed_up(MALLORY)
    as_if = replace(mallory, user=replace(mallory.user, email=ALICE, verified_at=NOW))

    assert await desks.people.claim(mallory, link) is None
    assert await desks.people.claim(as_if, link) is None
    assert await desks.people.claim(session, link) is not None


async def test_a_link_to_claim_is_good_once(desks: Desks) -> None:
    agent, _ = await agent_of(desks)
    session = await desks.owned()
    link = await claim_link(desks, session, agent)
    assert await desks.people.claim(session, link) is not None

    assert await desks.people.claim(session, link) is None


async def test_nothing_can_be_claimed_in_a_session_that_ended(desks: Desks) -> None:
    agent, _ = await agent_of(desks)
    session = await desks.owned()
    link = await claim_link(desks, session, agent)
    await desks.people.sign_out(session)

    with pytest.raises(SessionEnded):
        await desks.people.claim(session, link)


async def test_whoever_has_not_verified_the_mailbox_claims_nothing_with_a_link(
    desks: Desks,
) -> None:
    agent, _ = await agent_of(desks)
    session = await desks.owned()
    link = await claim_link(desks, session, agent)
    desks.change("UPDATE user SET verified_at = NULL WHERE kind = 'person'")

    assert await desks.people.claim(session, link) is None
