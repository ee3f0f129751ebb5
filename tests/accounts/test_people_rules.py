"""Actions of people that happen twice or at the same time, over a real file."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from mintscope.accounts.people import note_use
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.session import (
    SESSIONS_PER_USER_MAX,
    EmailProof,
    Purpose,
    SessionEnded,
    SessionId,
)
from mintscope.accounts.user import LoginLimit, LoginLimits
from mintscope.alerts.alert import TelegramChat
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs
from support.scenes.accounts_service import Accounts, open_accounts_service
from support.scenes.people_service import (
    ALICE,
    HERE,
    PASSWORD,
    PeopleService,
    open_people_service,
)
from support.scenes.service import NOW
from support.scenes.stores import PEPPER

T = TypeVar("T")


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[PeopleService]:
    async with open_people_service(tmp_path) as service:
        yield service


@pytest.fixture
async def accounts(tmp_path: Path, service: PeopleService) -> AsyncIterator[Accounts]:
    async with open_accounts_service(tmp_path, pepper=PEPPER, clock=service.clock) as accounts:
        yield accounts


async def test_right_passwords_use_up_no_guesses() -> None:
    limit = LoginLimit(LoginLimits(one=2, all=2), MemoryLimits(ManualClock(UnixMs(0))))
    for _ in range(9):
        async with limit.password(ALICE, "192.0.2.1"):
            pass


async def test_a_session_of_a_removed_account_cannot_prove_a_password(
    service: PeopleService, accounts: Accounts
) -> None:
    session = await service.signed_up()
    await accounts.review.remove_user(session.user.user_id, actor=COMMAND_LINE)
    with pytest.raises(SessionEnded):
        await service.people.prove(session, PASSWORD)
    await service.signed_up()

    for password in (PASSWORD, "a wrong password"):
        with pytest.raises(SessionEnded):
            await service.people.prove(session, password)


async def test_a_proof_of_the_password_fails_if_the_session_ends_meanwhile(
    service: PeopleService,
) -> None:
    session = await service.signed_up()
    service.hasher.meanwhile = lambda: service.people.sign_out(session)

    with pytest.raises(SessionEnded):
        await service.people.prove(session, PASSWORD)


@dataclass
class FullStore:
    """An AccountStore whose writes fail while *is_full* is True."""

    store: AccountStore
    is_full: bool = True

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        if self.is_full:
            raise ServiceUnavailable
        return await self.store.transact(work)

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        return await self.transact(work)

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        return await self.store.read(work)


async def test_an_email_that_could_not_be_stored_can_be_requested_again(
    service: PeopleService,
) -> None:
    await service.signed_up()
    full = FullStore(service.store)
    people = replace(
        service.people, store=full, limits=MemoryLimits(service.clock), guesses=LoginLimits()
    )
    with pytest.raises(ServiceUnavailable):
        await people.request_reset(ALICE, HERE)
    full.is_full = False
    for _ in range(2):
        await people.request_reset(ALICE, HERE)

    assert service.emails() == [("reset_password", ALICE)]


async def test_the_oldest_session_ends_if_a_user_has_too_many_sessions(
    service: PeopleService,
) -> None:
    first = await service.signed_up()
    for _ in range(SESSIONS_PER_USER_MAX):
        last = await service.signed_in()

    sessions = await service.people.sessions(first.user.user_id)
    numbers = {each.session_id for each in sessions}
    assert len(numbers) == SESSIONS_PER_USER_MAX
    assert first.session_id not in numbers
    assert last.session_id in numbers


async def test_the_time_of_last_use_of_a_session_never_goes_back(service: PeopleService) -> None:
    session = await service.signed_up()
    before = UnixMs(session.seen_at - 1)
    for number in (session.session_id, SessionId(99)):
        await service.store.transact(partial(note_use, session_id=number, at=before))

    assert service.rows("SELECT id, seen_at FROM session") == [
        (session.session_id, session.seen_at)
    ]


async def test_a_verification_link_works_once_and_voids_the_others(
    service: PeopleService, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await service.signed_up()
    await service.people.request_verification(session)
    first = service.link(Purpose.VERIFY_EMAIL)
    service.clock.advance(600_000)
    await service.people.request_verification(session)
    second = service.link(Purpose.VERIFY_EMAIL)
    assert first != second
    proofs = {
        link: await service.people.find_proof(link, Purpose.VERIFY_EMAIL)
        for link in (first, second)
    }

    async def find(link: str, _purpose: Purpose) -> EmailProof | None:
        return proofs[link]  # as it was before another request used the link

    monkeypatch.setattr(service.people, "find_proof", find)
    done = [await service.people.verify(session, link) for link in (second, second, first)]

    assert done == [True, False, False]


async def test_making_an_administrator_voids_reset_links_and_unlinks_telegram(
    service: PeopleService, accounts: Accounts
) -> None:
    session = await service.signed_up()
    chat = TelegramChat(user_id=session.user.user_id, chat_id=7, name="@mallory", linked_at=NOW)
    await service.store.transact(lambda rows: rows.chats.link(chat))
    await service.people.request_reset(ALICE, HERE)
    link = service.link(Purpose.RESET_PASSWORD)
    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) == ALICE
    await accounts.review.make_administrator(ALICE, password_hash="quick:x", actor=COMMAND_LINE)

    assert await service.people.find_address(link, Purpose.RESET_PASSWORD) is None
    assert service.rows("SELECT count(*) FROM telegram_chat") == [(0,)]


async def test_a_claim_sends_an_email_and_is_logged(
    service: PeopleService, accounts: Accounts
) -> None:
    session = await service.owned()
    service.change(
        "INSERT INTO user (kind, username, email, verified_at, created_at)"
        " SELECT 'agent', 'an agent', email, verified_at, created_at FROM user"
    )
    (agent,) = await service.people.claimable(session)
    assert await service.people.request_claim(session, agent.user_id)
    (draft,) = await service.store.read(lambda rows: rows.emails.newest(1))
    assert await service.people.claim(session, service.link(Purpose.CLAIM_AGENT)) == agent
    ((_, event), *_) = await accounts.review.events(limit=1)

    assert (draft.kind, draft.facts) == ("claim_agent", {"username": "an agent"})
    assert (event.actor, event.action, event.subject) == ("user:1", "claimed agent", "user:1")
    assert event.detail == {"agent": "user:2"}
