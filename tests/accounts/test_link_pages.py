"""Links in e-mails: opening a page changes nothing; its buttons change something, once."""

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.signups.application import ApplicationState, Form, SignupId, UserType
from mintscope.accounts.signups.signups import IssuedKey
from mintscope.kit.audit import COMMAND_LINE
from support.scenes.people.web_person import ALICE, MALLORY, Person, where, words
from support.scenes.website import MINUTE_MS, Website

AGENT = "agent@example.org"


async def state(site: Website, signup_id: SignupId) -> ApplicationState | None:
    application = await site.accounts.review.application(signup_id)
    return application.state if application else None


async def test_an_application_is_confirmed_by_its_button(site: Website) -> None:
    signup_id = await site.apply(AGENT)
    link = await site.link(AGENT)
    async with Person(site) as reader:
        for _ in range(3):  # an e-mail scanner that opens links confirms nothing
            page = await reader.open(link)
            assert AGENT in words(page)
            assert (await reader.client.head(link)).status_code == 200
        assert await state(site, signup_id) is ApplicationState.AWAITING_CONFIRMATION
        assert where(await reader.send(link, {"answer": "mine"})) == "/confirmed"
        assert await state(site, signup_id) is ApplicationState.AWAITING_APPROVAL
        assert "24 to 48 hours" in words(await reader.open("/confirmed"))
        again = await reader.send(link, {"answer": "mine"})
        assert again.status_code in {303, 404}  # in both cases it stays confirmed
        assert await state(site, signup_id) is ApplicationState.AWAITING_APPROVAL


async def test_an_application_is_disowned_by_its_other_button(site: Website) -> None:
    signup_id = await site.apply(AGENT)
    link = await site.link(AGENT)
    async with Person(site) as reader:
        assert where(await reader.send(link, {"answer": "not-mine"})) == "/disowned"
        assert await state(site, signup_id) is None
        assert "All its data is deleted" in words(await reader.open("/disowned"))
        gone = await reader.open(link)
        assert gone.status_code == 404
        assert "deleted; you can apply again" in words(gone)
        assert (await reader.send(link, {"answer": "mine"})).status_code == 404


@pytest.mark.parametrize("answer", [None, "", "yes", ["mine", "not-mine"]])
async def test_an_invalid_answer_is_400_and_changes_nothing(
    site: Website, answer: str | None
) -> None:
    signup_id = await site.apply(AGENT)
    link = await site.link(AGENT)
    async with Person(site) as reader:
        response = await reader.send(link, {} if answer is None else {"answer": answer})
    assert response.status_code == 400
    assert await state(site, signup_id) is ApplicationState.AWAITING_CONFIRMATION


async def test_a_confirmation_link_ends_after_three_days(site: Website) -> None:
    await site.apply(AGENT)
    link = await site.link(AGENT)
    site.clock.advance(72 * 60 * MINUTE_MS)
    async with Person(site) as reader:
        assert (await reader.open(link)).status_code == 404
        assert (await reader.send(link, {"answer": "mine"})).status_code == 404


async def make_agent(site: Website, email: str) -> IssuedKey:
    """Sign up an agent with the address *email*; return its API key."""
    accounts = site.accounts
    form = Form(
        email=EmailAddress(email),
        telegram=None,
        twitter=None,
        user_type=UserType.BOTH,
        motivation="To.",
    )
    signup = await accounts.signup.apply(form, redelivery_key=None)
    async with Person(site) as reader:
        await reader.send(await site.link(email), {"answer": "mine"})
    await accounts.review.approve(signup.signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE)
    applicant = await accounts.exchange.recognise(EmailAddress(email), signup.secret)
    assert applicant is not None
    return await accounts.exchange.exchange(applicant, signup.secret, redelivery_key=None)


async def test_a_person_claims_an_agent_with_the_same_address(alice: Person) -> None:
    site = alice.site
    verify = await site.link(ALICE)
    agent = await make_agent(site, ALICE)
    assert "Agents you can claim" not in words(await alice.open("/settings/account"))
    await alice.send(verify)
    page = await alice.open("/settings/account")
    assert agent.username in words(page)
    response = await alice.send("/settings/account/claim", {"agent": str(agent.line.user_id)})
    assert where(response) == "/settings/account?notice=claim-sent"
    link = await site.link(ALICE)
    async with Person(site) as mallory:
        await mallory.sign_up(MALLORY)
        for number in [str(agent.line.user_id), "1", "99"]:
            other = await mallory.send("/settings/account/claim", {"agent": number})
            assert other.status_code == 404
        refused = await mallory.send(link)
        assert refused.status_code == 404
        assert "for the account that requested it" in words(refused)
    assert "Claim an agent" in words(await alice.open(link))
    assert agent.username in words(await alice.open("/settings/account"))
    assert where(await alice.send(link)) == "/settings/api-keys?notice=claimed"
    assert agent.username not in words(await alice.open("/settings/account"))
    assert agent.line.hint in words(await alice.open("/settings/api-keys"))
    holder = await site.accounts.keys.find(agent.api_key)
    assert holder is not None
    assert holder.key.user_id != agent.line.user_id
    assert (await alice.send(link)).status_code == 404


async def test_claiming_asks_for_the_password_again(alice: Person) -> None:
    alice.site.clock.advance(10 * MINUTE_MS)
    for response in [await alice.open("/claim/1.x"), await alice.send("/claim/1.x")]:
        assert where(response) == "/prove?next=%2Fclaim%2F1.x"
