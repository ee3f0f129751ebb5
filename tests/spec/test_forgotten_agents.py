"""If an application is forgotten, no personal data of its agent stays."""

import pytest
from solders.keypair import Keypair

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.signups.application import SignupId
from mintscope.kit.audit import COMMAND_LINE, UserId
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer

WALLETS = "/v1/account/wallets"
WALLET = Keypair.from_seed(bytes(range(32)))


@pytest.mark.parametrize("is_blocked", [False, True])
async def test_forgetting_an_application_deletes_the_personal_data_of_its_agent(
    service: Service, *, is_blocked: bool
) -> None:
    agent = Agent(service)
    key = await agent.key(Scope.TRADE_WRITE, Scope.WALLETS_WRITE, Scope.GROUPS_WRITE)
    headers = bearer(key)
    wallet = str(WALLET.pubkey())
    asked = await service.client.post(
        f"{WALLETS}/challenge", json={"wallet": wallet}, headers=headers
    )
    text = asked.json()["data"]["challenge"]
    proof = {"challenge": text, "signature": str(WALLET.sign_message(text.encode()))}
    await service.client.post(WALLETS, json={"wallet": wallet} | proof, headers=headers)
    await service.client.post("/v1/groups", json={"name": "Stables"}, headers=headers)
    networks = {"networks": ["127.0.0.0/8"]}
    narrowed = await service.client.patch("/v1/account/keys/1", json=networks, headers=headers)
    assert narrowed.status_code == 200, narrowed.text
    await service.accounts.keys.flush()
    held = ("key_address", "linked_wallet", "watchlist", "application")
    for table in held:
        assert service.accounts.rows(f"SELECT count(*) FROM {table}") == [(1,)], table

    review = service.accounts.review
    if is_blocked:
        await review.remove_user(UserId(1), actor=COMMAND_LINE)
    removed = service.accounts.rows('SELECT removed_at FROM "user"')
    service.clock.advance(1_000)
    await review.forget(SignupId(agent.signup_id), actor=COMMAND_LINE)

    for table in held:
        assert service.accounts.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert service.accounts.rows("SELECT networks FROM api_key") == [("",)]
    users = service.accounts.rows('SELECT email, username FROM "user"')
    assert users == [("", "removed-1")]
    if is_blocked:
        assert service.accounts.rows('SELECT removed_at FROM "user"') == removed
    logged = "SELECT count(*) FROM account_event WHERE action = 'removed'"
    assert service.accounts.rows(logged) == [(1,)]
