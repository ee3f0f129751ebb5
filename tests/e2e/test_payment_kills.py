"""The seller is killed at each step of a settlement, and the buyer then sends the payment again.

The failure of the node before `kill -9`, and the state of the payment:

    the trial hangs           simulateTransaction    no pending row
    the broadcast hangs       sendTransaction        pending row, never sent
    its answer is lost        sendTransaction        pending row, sent, unknown to the seller
    the status hangs          getSignatureStatuses   sent, and landed meanwhile
    the transaction hangs     getTransaction         landed, not issued
"""

import asyncio
from pathlib import Path

import httpx
import pytest
from paying_chain import RICH, SLOT_MS, Chain, chain_running
from selling_service import PATIENT, ask_books, seller_running
from shopping import TIMEOUT_S, Shopper, redeem, send

STEPS = [
    ("simulateTransaction", "hang"),
    ("sendTransaction", "hang"),
    ("sendTransaction", "lost"),
    ("getSignatureStatuses", "hang"),
    ("getTransaction", "hang"),
]
IN_THE_MIDDLE_S = 0.1 + 5 * SLOT_MS / 1000  # long enough for every earlier step
ROW_S = 10


async def buy_until_killed(
    folder: Path, chain: Chain, shopper: Shopper, step: tuple[str, str], key: str
) -> None:
    """Let the node fail at *step*, and kill the seller while it waits for the node."""
    method, kind = step
    with seller_running(folder, chain.url, PATIENT) as seller:
        async with httpx.AsyncClient(base_url=seller.url, timeout=TIMEOUT_S) as shop:
            paid = await shopper.prepare(shop, key)
            shopper.paid.append(paid)
            chain.go_wrong(calls={method: {"kind": kind}, **_blind(kind)})
            sending = asyncio.create_task(send(shop, paid))
            if method != "simulateTransaction":
                async with asyncio.timeout(ROW_S):
                    while True:
                        if ask_books(folder, "SELECT count(*) FROM payment"):
                            break
                        await asyncio.sleep(0.01)
            await asyncio.sleep(IN_THE_MIDDLE_S)
            seller.process.kill()
            (broken,) = await asyncio.gather(sending, return_exceptions=True)
    assert isinstance(broken, httpx.TransportError)
    chain.go_wrong()


def _blind(kind: str) -> dict[str, dict[str, str]]:
    """Return the fault that hides the outcome from the seller if *kind* is "lost"; otherwise {}."""
    return {"getSignatureStatuses": {"kind": "hang"}} if kind == "lost" else {}


@pytest.mark.parametrize("step", STEPS, ids="-".join)
async def test_a_seller_killed_during_settlement_issues_the_credits_once_later(
    tmp_path: Path, step: tuple[str, str]
) -> None:
    with chain_running(buyers={"buyer": RICH}) as chain:
        async with httpx.AsyncClient(base_url=chain.url, timeout=TIMEOUT_S) as rpc:
            shopper = Shopper(chain.genesis.key("buyer"), chain.genesis, rpc)
            await buy_until_killed(tmp_path, chain, shopper, step, "the-secret-of-the-buyer")
            (paid,) = shopper.paid
            with seller_running(tmp_path, chain.url, PATIENT) as seller:
                async with httpx.AsyncClient(base_url=seller.url, timeout=TIMEOUT_S) as shop:
                    if ask_books(tmp_path, "SELECT count(*) FROM payment"):
                        stolen = await send(shop, paid, key="a-guess-of-a-stranger")
                        assert stolen.status_code == 409
                    await redeem(shop, paid)
                    again = await send(shop, paid)

        assert paid.token is not None
        assert again.json()["data"]["token"] == paid.token
        assert (
            len(chain.landed()) == ask_books(tmp_path, "SELECT count(*) FROM credit_account") == 1
        )
        assert chain.fees() == 10_001  # of one transaction
