"""Kill -9 during purchases: each landed payment is sold once, and every buyer gets the credits.

The service and the chain are separate processes; the chain refuses, reverts, drops and delays
(`paying_chain.Weather`).  The test compares the chain and the credits of clients with plain SQL.
"""

import asyncio
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

import apsw
import httpx
import pytest
from paying_chain import REVERTS, RICH, SLOT_MS, Chain, chain_running
from selling_service import Manner, config_of, seller_running
from shopping import CREDITS, TIMEOUT_S, Paid, Shopper, redeem, send

from mintscope.app.stores.folder import MONEY_FILE
from mintscope.credits.sqlite import CreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import hash_credential
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import selling
from support.scenes.stores import PEPPER

FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long to storm
KILLS = 300 if FULL else 8
BUYERS, SPENDERS, THIEVES = 8, 16, 16
SETTLE_S = 2.0  # for the last transactions to land
PACE = SLOT_MS / 40  # the duration of a sale relative to slots of 40 ms
ANSWERS_MAX = 8  # to payments, before a kill
ANSWERED_S = 20  # the longest time that a kill waits for answers
REQUEST_S = 10
MISTAKEN_STORMS_MAX = 24
MISTAKEN_KILLS = 3
MISTAKEN_REVERTS = 30  # of a hundred: a short storm has few payments


@dataclass
class Reported:
    """The balances that clients received, and the number of answers that never came, by token."""

    balances: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    unanswered: Counter[str] = field(default_factory=Counter)
    restarts_s: list[float] = field(default_factory=list)


async def storm(
    folder: Path, chain: Chain, kills: int, manner: Manner
) -> tuple[list[Paid], Reported]:
    """Kill the seller repeatedly while clients buy and spend; return the payments and answers."""
    random, reported, paid = Random(5), Reported(), list[Paid]()
    async with httpx.AsyncClient(base_url=chain.url, timeout=REQUEST_S) as rpc:
        shoppers = [
            Shopper(chain.genesis.key(f"buyer {n}"), chain.genesis, rpc, paid)
            for n in range(BUYERS)
        ]
        lives = 0
        while lives < kills or (lives < 3 * kills and _sold(paid) < kills):
            lives, killed = lives + 1, asyncio.Event()
            began_s = time.monotonic()
            with seller_running(folder, chain.url, manner) as seller:
                reported.restarts_s.append(time.monotonic() - began_s)
                async with httpx.AsyncClient(base_url=seller.url, timeout=REQUEST_S) as shop:
                    busy = [
                        *(asyncio.create_task(_buy(shop, one, random)) for one in shoppers),
                        *(
                            asyncio.create_task(_spend(shop, paid, reported, random, killed))
                            for _ in range(SPENDERS)
                        ),
                    ]
                    await _answered(paid, random.randrange(1, ANSWERS_MAX))
                    await asyncio.sleep(PACE * random.uniform(0.0, 0.5))
                    seller.process.kill()
                    killed.set()
                    await asyncio.gather(*busy)
    return paid, reported


async def _answered(paid: list[Paid], count: int) -> None:
    """Wait until *count* more payments have an answer, at most ANSWERED_S.

    On a busy machine a sale takes seconds: a kill after a fixed time would come before all sales.
    """
    answers = _answers(paid)
    for _ in range(ANSWERED_S * 100):
        if _answers(paid) >= answers + count:
            break
        await asyncio.sleep(0.01)


def _answers(paid: list[Paid]) -> int:
    return sum(each.answer is not None for each in paid)


def _sold(paid: list[Paid]) -> int:
    """Return the number of payments with a token."""
    return sum(each.token is not None for each in paid)


async def _buy(shop: httpx.AsyncClient, shopper: Shopper, random: Random) -> None:
    """Buy until the connection breaks; one purchase in eight has no Idempotency-Key."""
    try:
        while True:
            key = f"the-secret-{random.getrandbits(64):016x}" if random.randrange(8) else None
            await shopper.buy(shop, key)
    except httpx.TransportError:
        pass


async def _spend(
    shop: httpx.AsyncClient,
    paid: list[Paid],
    reported: Reported,
    random: Random,
    killed: asyncio.Event,
) -> None:
    """Spend credits of tokens that were bought, until the connection breaks."""
    while True:
        tokens = [each.token for each in paid[-64:] if each.token is not None]
        if not tokens:
            await asyncio.sleep(0.02)
            if killed.is_set():
                return
            continue
        token = random.choice(tokens)
        assert token is not None
        try:
            answer = await shop.get(
                f"/v1/token/{TRACKED}", headers={"Authorization": f"Bearer {token}"}
            )
        except httpx.TransportError:
            reported.unanswered[token] += 1
            return
        if answer.status_code == 200:
            reported.balances[token].append(int(answer.headers["x-credits-remaining"]))


async def settle(folder: Path, chain: Chain) -> list[str]:
    """Reconcile and audit as the service does; return the violations."""
    await asyncio.sleep(SETTLE_S)
    async with selling(config_of(folder, chain.url), SystemClock()) as sales:
        violations = await sales.maintenance.auditor.audit(full=True)
    return [f"{each.invariant} {each.subject}" for each in violations]


async def redeem_all(folder: Path, chain: Chain, paid: list[Paid]) -> list[str]:
    """Redeem the payments in *paid* that have a key and no answer yet.

    Before and after, strangers send copies of the payments on the chain.  Return the answers to the
    copies, except 402 and 409.
    """
    landed = chain.paid_by(chain.landed())
    public = [each for each in paid if each.payer_signature in landed]
    unanswered = [each for each in paid if each.answer is None or each.answer.status_code >= 500]
    with seller_running(folder, chain.url, Manner()) as seller:
        async with httpx.AsyncClient(base_url=seller.url, timeout=TIMEOUT_S) as shop:
            before = await _steal(shop, public)
            await asyncio.gather(*(redeem(shop, each) for each in unanswered if each.key))
            return before + await _steal(shop, public)


async def _steal(shop: httpx.AsyncClient, public: list[Paid]) -> list[str]:
    """Send each payment without a key, and with a wrong key; return all answers but 402 and 409."""
    turns = asyncio.Semaphore(THIEVES)

    async def steal(each: Paid, key: str | None) -> httpx.Response:
        async with turns:
            return await send(shop, Paid(each.header, None), key=key)

    answers = await asyncio.gather(
        *(steal(each, key) for each in public for key in (None, "a-strangers-guess-0"))
    )
    return [answer.text for answer in answers if answer.status_code not in {402, 409}]


def books(folder: Path, statement: str) -> set[str]:
    db = apsw.Connection(str(folder / MONEY_FILE))
    found = {str(value) for (value,) in db.execute(statement)}
    db.close()
    return found


def contradictions(folder: Path, chain: Chain) -> list[str]:
    """Return the contradictions between chain and books that no later answer can repair."""
    landed = chain.landed()
    known, issued, failed = (
        books(folder, f"SELECT signature FROM payment{where}")
        for where in ("", " WHERE state = 'issued'", " WHERE state = 'failed'")
    )
    wrong = [f"{signature}: landed, not known" for signature in landed - known]
    wrong += [f"{signature}: landed, said to have failed" for signature in landed & failed]
    return wrong + [f"{signature}: issued, never landed" for signature in issued - landed]


def losses(folder: Path, chain: Chain, paid: list[Paid], reported: Reported) -> list[str]:
    """Compare the chain, the books and the answers to the clients; return the errors."""
    wrong = contradictions(folder, chain)
    landed = chain.landed()
    issued = books(folder, "SELECT signature FROM payment WHERE state = 'issued'")
    wrong += [f"{signature}: landed, not issued" for signature in landed - issued]
    accounts = books(folder, "SELECT hex(token_hash) FROM credit_account")
    if len(accounts) != len(landed):
        wrong.append(f"{len(landed)} landed, {len(accounts)} tokens")
    tokens = [each.token for each in paid if each.token is not None]
    held = {hash_credential(token, pepper=PEPPER).hex().upper() for token in tokens}
    if len(held) != len(tokens):
        wrong.append("a token was given to two payments")
    wrong += [f"{each}: a token that was never issued" for each in held - accounts]
    keyless = sum(each.key is None and each.token is None for each in paid)
    if len(accounts - held) > keyless:
        wrong.append(f"{len(accounts - held)} tokens that no client holds; {keyless} had no key")
    if chain.received() != 25_000 * len(landed):
        wrong.append(f"{chain.received()} atoms for {len(landed)} payments")
    return wrong + _debits(folder, tokens, reported)


def _debits(folder: Path, tokens: list[str], reported: Reported) -> list[str]:
    wrong: list[str] = []
    book = CreditBook(folder / MONEY_FILE, pepper=PEPPER)
    wrong += [f"account {account} contradicts itself" for account in book.contradictions()]
    for token in tokens:
        account = book.find(token)
        assert account is not None
        spent, answers = CREDITS - book.balance(account), reported.balances[token]
        if len(set(answers)) < len(answers):
            wrong.append("a balance was sent twice")
        if not len(answers) <= spent <= len(answers) + reported.unanswered[token]:
            wrong.append(f"{spent} spent for {len(answers)} answers")
    book.close()
    return wrong + [each for each in books(folder, "PRAGMA integrity_check") if each != "ok"]


async def found_after(
    folder: Path, kills: int, manner: Manner
) -> tuple[list[Paid], Reported, list[str]]:
    """Run a storm, end its faults, claim the purchases; return payments, answers and errors.

    If there are errors beyond repair, they are returned without the claims, which take long.
    """
    buyers = {f"buyer {n}": RICH for n in range(BUYERS)}
    reverts = MISTAKEN_REVERTS if manner.mistake else REVERTS
    with chain_running(buyers=buyers, stormy=True, reverts=reverts) as chain:
        paid, reported = await storm(folder, chain, kills, manner)
        chain.go_wrong()
        await asyncio.sleep(SETTLE_S)
        if beyond_repair := contradictions(folder, chain):
            return paid, reported, beyond_repair
        stolen = await redeem_all(folder, chain, paid)
        violations = await settle(folder, chain)
        return paid, reported, [*violations, *stolen, *losses(folder, chain, paid, reported)]


def figures(folder: Path, paid: list[Paid], reported: Reported, wrong: list[str]) -> str:
    """Return a line that counts kills, payments, tokens, spent credits and wrong results."""
    issued = books(folder, "SELECT signature FROM payment WHERE state = 'issued'")
    return (
        f"\n{len(reported.restarts_s)} kills: {len(paid)} payments sent, {len(issued)} landed,"
        f" {len(books(folder, 'SELECT id FROM credit_account'))} tokens,"
        f" {sum(map(len, reported.balances.values()))} credits spent, {len(wrong)} wrong;"
        f" median restart {median(reported.restarts_s) * 1000:.0f} ms\n"
    )


@pytest.mark.storm
@pytest.mark.timeout(3_600 if FULL else 300)
async def test_no_payment_is_lost_to_kill_9(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    paid, reported, wrong = await found_after(tmp_path, KILLS, Manner())
    record_property("figure", figures(tmp_path, paid, reported, wrong).strip())
    with capsys.disabled():
        sys.stdout.write(figures(tmp_path, paid, reported, wrong))

    assert wrong == []
    assert _sold(paid) >= KILLS  # much was sold between the kills


@pytest.mark.parametrize("mistake", ["SendsFirst", "UnknownIsFailed", "TrustsEverybody"])
async def test_the_storm_finds_a_mistake(tmp_path: Path, mistake: str) -> None:
    """One short storm may miss the mistake by chance; several storms do not."""
    for number in range(MISTAKEN_STORMS_MAX):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, _, wrong = await found_after(folder, MISTAKEN_KILLS, Manner(mistake=mistake))
        if wrong:
            return
    pytest.fail(f"{MISTAKEN_STORMS_MAX} storms did not find {mistake}")
