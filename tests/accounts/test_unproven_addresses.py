"""Applicants and people gain nothing by an e-mail address that they have not verified.

An application and a person become one account only if both have verified the address.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.session import Purpose
from mintscope.accounts.signups.application import parse_form
from mintscope.accounts.signups.signups import IssuedKey, Signup
from mintscope.accounts.user import WrongPassword
from mintscope.kit.audit import COMMAND_LINE, UserId
from mintscope.kit.errors import InvalidFields, KeyAlreadyExists
from support.scenes.accounts_service import Accounts, open_accounts_service, signup_body
from support.scenes.people_service import (
    ALICE,
    HERE,
    PASSWORD,
    PeopleService,
    open_people_service,
)
from support.scenes.stores import PEPPER

FORM = parse_form(signup_body(ALICE))


@dataclass
class House:
    """The services for agents and for people, over one file."""

    agents: Accounts
    people: PeopleService

    async def approved(self, *, is_confirmed: bool) -> Signup:
        made = await self.agents.signup.apply(FORM, redelivery_key=None)
        if is_confirmed:
            await self.agents.signup.confirm_by_code(ALICE, made.secret, self.agents.code(ALICE))
        await self.agents.approve(made.signup_id)  # even if it is unconfirmed
        return made

    async def exchanged(self, made: Signup) -> IssuedKey:
        applicant = await self.agents.exchange.recognise(ALICE, made.secret)
        assert applicant is not None
        return await self.agents.exchange.exchange(applicant, made.secret, redelivery_key=None)

    def kind_of(self, user_id: UserId) -> str:
        ((kind,),) = self.agents.rows("SELECT kind FROM user WHERE id = ?", user_id)
        return str(kind)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        people = await stack.enter_async_context(open_people_service(tmp_path))
        agents = await stack.enter_async_context(
            open_accounts_service(tmp_path, pepper=PEPPER, clock=people.clock)
        )
        yield House(agents, people)


async def test_a_confirmed_application_gives_its_key_to_the_person_with_that_address(
    house: House,
) -> None:
    alice = await house.people.owned()

    issued = await house.exchanged(await house.approved(is_confirmed=True))

    assert issued.line.user_id == alice.user.user_id
    assert issued.username == alice.user.username


async def test_an_unconfirmed_application_gives_its_key_to_a_new_account(house: House) -> None:
    alice = await house.people.owned()

    issued = await house.exchanged(await house.approved(is_confirmed=False))

    assert issued.line.user_id != alice.user.user_id
    assert house.kind_of(issued.line.user_id) == "agent"


async def test_a_person_with_an_unverified_address_gets_no_key(house: House) -> None:
    await house.people.signed_up(ALICE)  # without verifying the address

    issued = await house.exchanged(await house.approved(is_confirmed=True))

    assert house.kind_of(issued.line.user_id) == "agent"


async def test_the_agent_of_an_unconfirmed_application_cannot_be_claimed(house: House) -> None:
    """The applicant, a stranger, holds the agent's API key, which must not act for Alice."""
    issued = await house.exchanged(await house.approved(is_confirmed=False))
    alice = await house.people.owned()

    assert await house.people.people.claimable(alice) == []
    assert not await house.people.people.request_claim(alice, issued.line.user_id)


async def test_the_agent_can_be_claimed_after_its_address_is_confirmed(house: House) -> None:
    made = await house.approved(is_confirmed=False)
    issued = await house.exchanged(made)
    alice = await house.people.owned()

    await house.agents.signup.confirm_by_code(ALICE, made.secret, house.agents.code(ALICE))

    claimable = await house.people.people.claimable(alice)
    assert [user.user_id for user in claimable] == [issued.line.user_id]


async def test_a_removed_person_gets_no_key(house: House) -> None:
    alice = await house.people.owned()
    await house.agents.remove_user(alice.user.user_id)

    issued = await house.exchanged(await house.approved(is_confirmed=True))

    assert house.kind_of(issued.line.user_id) == "agent"
    assert issued.line.user_id != alice.user.user_id


async def test_wrong_codes_do_not_void_the_link(house: House) -> None:
    """The applicant can guess codes; only the reader of the mailbox has the link."""
    made = await house.agents.signup.apply(FORM, redelivery_key=None)
    link = house.agents.link(ALICE)
    for _ in range(6):
        with pytest.raises(InvalidFields):
            await house.agents.signup.confirm_by_code(ALICE, made.secret, "00000000x")

    assert await house.agents.signup.find_address(link, Purpose.CONFIRM_APPLICATION) == ALICE
    assert await house.agents.signup.disown(link)
    await house.agents.signup.apply(FORM, redelivery_key=None)


async def test_a_session_ends_with_the_account(house: House) -> None:
    cookie = await house.people.people.sign_up(ALICE, PASSWORD, HERE)
    session = await house.people.enter(cookie)

    await house.agents.remove_user(session.user.user_id)

    assert await house.people.people.session(cookie) is None
    with pytest.raises(WrongPassword):
        await house.people.people.sign_in(ALICE, PASSWORD, HERE)


@pytest.mark.parametrize("verb", ["reset", "forget"])
async def test_a_reset_or_deleted_application_ends_its_key_and_the_rotated_key(
    house: House, verb: str
) -> None:
    alice = await house.people.owned()
    made = await house.approved(is_confirmed=True)
    issued = await house.exchanged(made)
    rotated = await house.people.keys.rotate(alice, issued.line.key_id, overlap_ms=3_600_000)
    own = await house.people.keys.create(
        alice, name="own", scopes=frozenset(Scope), lifetime_ms=None
    )
    assert rotated is not None

    await getattr(house.agents.review, verb)(made.signup_id, actor=COMMAND_LINE)

    assert await house.agents.keys.find(issued.api_key) is None
    assert await house.agents.keys.find(rotated.api_key) is None
    assert await house.agents.keys.find(own.api_key) is not None
    assert await house.agents.review.user(alice.user.user_id) is not None


async def test_the_next_key_of_a_claimed_agent_belongs_to_its_person(house: House) -> None:
    made = await house.approved(is_confirmed=True)
    issued = await house.exchanged(made)
    alice = await house.people.owned()
    assert await house.people.people.request_claim(alice, issued.line.user_id)
    assert await house.people.people.claim(alice, house.people.link(Purpose.CLAIM_AGENT))

    with pytest.raises(KeyAlreadyExists):
        await house.exchanged(made)
    await house.agents.review.reset(made.signup_id, actor=COMMAND_LINE)
    assert (await house.exchanged(made)).line.user_id == alice.user.user_id
