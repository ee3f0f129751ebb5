"""A form moves the credits of a credit token to an account, once; it never shows the token."""

import pytest

from support.scenes.people.web_person import ORIGIN, Person, where, words
from support.scenes.service import credit_token
from support.scenes.website import Website


async def test_a_credit_token_is_emptied_into_the_account_once(
    site: Website, alice: Person
) -> None:
    token = credit_token(3)
    account = await site.ledger.issue(token, 70, "")

    moved = await alice.send("/credits/deposit", {"deposited": f" {token} "})
    shown = words(await alice.open(where(moved)))
    again = await alice.send("/credits/deposit", {"deposited": token})

    assert moved.status_code == 303
    assert "The credits are in your account." in shown
    assert "Balance 70" in shown
    assert "Moved in from a credit token +70 70" in shown
    assert await site.ledger.balance(account) == 0
    assert again.status_code == 422
    assert "There are no credits on this credit token" in words(again)
    assert token not in where(moved) + moved.text + again.text
    assert "Balance 70" in words(await alice.open("/credits"))


@pytest.mark.parametrize("text", ["", "svc_credit_", "svc_credit_" + "0" * 64])
async def test_an_invalid_credit_token_moves_no_credits(alice: Person, text: str) -> None:
    refused = await alice.send("/credits/deposit", {"deposited": text})

    assert refused.status_code == 422
    assert "This service did not issue this credit token" in words(refused)


async def test_a_visitor_who_is_not_signed_in_moves_no_credits(site: Website) -> None:
    token = credit_token(3)
    account = await site.ledger.issue(token, 70, "")
    async with Person(site) as person:
        refused = await person.send("/credits/deposit", {"deposited": token})
        page = (await person.open("/credits")).text

    assert where(refused).startswith("/sign-in")
    assert await site.ledger.balance(account) == 70
    assert "/credits/deposit" not in page
    assert f" {ORIGIN}/v1/credits/history" in page  # a command, for browsers without scripts
