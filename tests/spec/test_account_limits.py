"""Limits of the account endpoints: a client cannot use up the limits of another."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from mintscope.app.config.config import AccountsConfig, ApiConfig
from mintscope.kit.credentials import make_application_secret
from mintscope.kit.errors import ServiceUnavailable
from support.scenes.accounts_service import SIGNUP_PATH, STATUS_PATH, signup_body
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer, running_service

WRONG = make_application_secret(bytes(28))
PROXY = "127.0.0.1"  # the peer address of the client within this process
HOUR_MS = 3_600_000


@pytest.fixture
async def proxied(tmp_path: Path) -> AsyncIterator[Service]:
    """Yield the service behind a proxy that names the IP addresses of clients."""
    async with running_service(tmp_path, api=ApiConfig(trusted_proxies=(PROXY,))) as service:
        yield service


async def sign_up(service: Service, number: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = signup_body(f"agent{number}@example.org")
    return await service.client.post(SIGNUP_PATH, json=body, headers=named)


async def test_signups_are_limited_to_5_an_hour_from_one_address(service: Service) -> None:
    answers = []
    for number in range(6):
        answers.append(await sign_up(service, number))
        service.clock.advance(60_000)
    service.clock.advance(HOUR_MS - 6 * 60_000)
    answers.append(await sign_up(service, 6))

    assert [answer.status_code for answer in answers] == [201] * 5 + [429, 201]
    denied = answers[5]
    assert denied.json().keys() == {"success", "status", "error", "messages", "retryAfter"}
    assert denied.json()["error"]["code"] == "RATE_LIMITED"
    assert denied.json()["retryAfter"] == int(denied.headers["retry-after"]) == 3_300
    assert denied.headers.get_list("ratelimit-policy") == ['"signup";q=5;w=3600']
    assert denied.headers.get_list("x-ratelimit-remaining") == ["0"]


async def test_signups_are_limited_to_20_an_hour_from_one_ipv6_site(proxied: Service) -> None:
    """An IPv6 site (a /48) has 65,536 networks, and each application sends an e-mail."""
    networks = [f"2001:db8:1:{number:x}::1" for number in range(21)]
    answers = [
        await sign_up(proxied, number, x_forwarded_for=network)
        for number, network in enumerate(networks)
    ]
    refused = [
        (await sign_up(proxied, 21, x_forwarded_for=networks[20])).status_code for _ in range(3)
    ]
    elsewhere = [
        await sign_up(proxied, 22 + number, x_forwarded_for=f"2001:db8:2:{number:x}::1")
        for number in range(20)
    ]

    assert [answer.status_code for answer in answers] == [201] * 20 + [429]
    assert refused == [429] * 3
    assert [answer.status_code for answer in elsewhere] == [201] * 20


async def test_refused_signups_of_a_network_do_not_count_against_its_ipv6_site(
    proxied: Service,
) -> None:
    first = [
        (await sign_up(proxied, number, x_forwarded_for="2001:db8:1::1")).status_code
        for number in range(30)
    ]
    others = [
        (
            await sign_up(proxied, 30 + each, x_forwarded_for=f"2001:db8:1:{each + 1:x}::1")
        ).status_code
        for each in range(16)
    ]

    assert first == [201] * 5 + [429] * 25
    # The site has 20 signups an hour; the first network has used five of them.
    assert others == [201] * 15 + [429]


async def test_a_duplicate_signup_counts_against_the_limit(service: Service) -> None:
    answers = [await sign_up(service, 0) for _ in range(6)]

    assert [answer.status_code for answer in answers] == [201] + [409] * 4 + [429]


async def test_an_invalid_signup_does_not_count_against_the_limit(service: Service) -> None:
    for _ in range(10):
        refused = await service.client.post(SIGNUP_PATH, json={"email": "x"})
        assert refused.status_code == 400
    answers = [await sign_up(service, number) for number in range(5)]
    refused = await service.client.post(SIGNUP_PATH, json={"email": "x"})

    assert [answer.status_code for answer in answers] == [201] * 5
    assert refused.status_code == 400


async def test_a_signup_that_fails_with_503_does_not_count_against_the_limit(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ServiceUnavailable("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(service.accounts.signup, "apply", fail)
        failed = [await sign_up(service, 0) for _ in range(6)]
    answers = [await sign_up(service, number) for number in range(5)]

    assert [answer.status_code for answer in failed] == [503] * 6
    assert failed[0].json().keys() == {"success", "status", "error", "messages"}
    assert failed[0].json()["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert [answer.status_code for answer in answers] == [201] * 5


async def test_a_forged_x_forwarded_for_does_not_use_up_the_limit_of_a_victim(
    service: Service, proxied: Service
) -> None:
    """A victim's IP address in X-Forwarded-For does not spend the victim's limit."""
    for number in range(6):
        direct = await sign_up(service, number, x_forwarded_for=f"198.51.100.{number}")
        behind = await sign_up(proxied, number, x_forwarded_for="203.0.113.7, 198.51.100.9")
    victim = await sign_up(proxied, 7, x_forwarded_for="203.0.113.7")

    assert (direct.status_code, behind.status_code) == (429, 429)
    assert victim.status_code == 201


async def test_all_requests_under_api_share_a_limit_of_60_a_minute(service: Service) -> None:
    answers = [await service.client.post(STATUS_PATH, json={}) for _ in range(61)]

    assert [answer.status_code for answer in answers] == [400] * 60 + [429]
    assert answers[0].headers["ratelimit-policy"] == '"accounts";q=60;w=60'
    assert answers[0].headers["x-ratelimit-remaining"] == "59"
    assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"
    assert (await sign_up(service, 1)).status_code == 429
    exchange = await Agent(service, secret=WRONG).exchange()
    assert exchange.status_code == 429
    assert exchange.json().keys() == {"status", "messages", "retryAfter"}
    service.clock.advance(60_000)
    assert (await sign_up(service, 1)).status_code == 201


async def test_each_key_is_limited_to_60_requests_a_minute(service: Service) -> None:
    keys = [await Agent(service, email=f"{name}@example.org").key() for name in "ab"]
    answers = [await service.client.get("/v1/me", headers=bearer(keys[0])) for _ in range(61)]
    other = await service.client.get("/v1/me", headers=bearer(keys[1]))

    assert [answer.status_code for answer in answers] == [200] * 60 + [429]
    assert answers[0].headers["ratelimit-policy"] == '"key";q=60;w=60'
    assert other.status_code == 200


async def test_unknown_keys_count_against_the_address_but_not_against_a_known_key(
    service: Service,
) -> None:
    key = await Agent(service).key()
    answers = [
        await service.client.get("/v1/me", headers=bearer(f"svc_live_{number:080x}"))
        for number in range(61)
    ]
    good = await service.client.get("/v1/me", headers=bearer(key))

    assert [answer.status_code for answer in answers] == [401] * 60 + [429]
    assert good.status_code == 200


async def test_an_attacker_cannot_lock_an_agent_out(proxied: Service) -> None:
    """An attacker sends wrong secrets for 60 s, also from the victim's IP address.

    Then the victim sends the right secret and gets its key.
    """
    victim = Agent(proxied)
    await victim.sign_up()
    await victim.confirm()
    await victim.be_approved()
    addresses = ["203.0.113.7", "198.51.100.1", "198.51.100.2"]

    attacks = []
    for _ in range(15):
        attacks += [
            (await victim.exchange(WRONG, x_forwarded_for=address)).status_code
            for address in addresses
        ]
        proxied.clock.advance(4_000)
    attacks.append((await victim.exchange(WRONG, x_forwarded_for=addresses[0])).status_code)
    rescued = await victim.exchange(x_forwarded_for=addresses[0])

    assert set(attacks) == {401, 429}
    assert rescued.status_code == 200, rescued.text


async def test_the_owner_has_one_attempt_in_5_s_over_all_networks(proxied: Service) -> None:
    agent = Agent(proxied)
    await agent.sign_up()
    first = await agent.exchange(x_forwarded_for="203.0.113.7")
    second = await agent.exchange(x_forwarded_for="203.0.113.8")

    assert (first.status_code, second.status_code) == (401, 429)
    assert first.headers.get_list("ratelimit-policy") == ['"exchange";q=1;w=5']
    assert second.json()["retryAfter"] == 5


async def test_a_wrong_secret_is_limited_by_network_and_email_address(proxied: Service) -> None:
    agent = Agent(proxied)
    await agent.sign_up()

    async def guess(address: str, email: str) -> int:
        agent.email = email
        return (await agent.exchange(WRONG, x_forwarded_for=address)).status_code

    assert await guess("203.0.113.7", "agent@example.org") == 401
    assert await guess("203.0.113.7", "agent@example.org") == 429
    assert await guess("203.0.113.7", " AGENT@example.org") == 429
    assert await guess("203.0.113.8", "agent@example.org") == 401
    assert await guess("203.0.113.7", "other@example.org") == 401


async def test_a_refused_attempt_does_not_extend_the_wait(proxied: Service) -> None:
    """Attempts during the wait are refused, and the wait still ends after 5 s."""
    agent = Agent(proxied)
    await agent.sign_up()
    await agent.exchange()
    for _ in range(4):
        proxied.clock.advance(1_000)
        assert (await agent.exchange()).status_code == 429
    proxied.clock.advance(1_000)

    assert (await agent.exchange()).status_code == 401


async def test_the_limits_of_signups_and_exchanges_can_be_configured(tmp_path: Path) -> None:
    limits = AccountsConfig(
        signup_limit_requests=1,
        signup_limit_window_s=9,
        exchange_limit_requests=2,
        exchange_limit_window_s=7,
    )
    async with running_service(tmp_path, accounts=limits) as service:
        agent = Agent(service)
        await agent.sign_up()
        again = await sign_up(service, 1)
        answers = [await agent.exchange() for _ in range(3)]

    assert again.status_code == 429
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert answers[-1].json()["retryAfter"] == 7
