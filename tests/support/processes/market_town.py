"""A chain with a buyer, and several processes of one service that sell on it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx

from mintscope.app.stores.folder import MONEY_FILE
from support.processes.paying_chain import RICH, Chain, chain_running
from support.processes.selling_service import Manner, Seller, seller_running
from support.scenes.payments.shopping import TIMEOUT_S, Shopper

PATIENT = Manner(patience_s=15)


@contextmanager
def market_town(
    folder: Path,
    *,
    processes: int = 1,
    atoms: int = RICH,
    manner: Manner = PATIENT,
) -> Iterator[tuple[Chain, list[Seller]]]:
    """Run a chain with a buyer who has *atoms* atoms, and *processes* processes of one service."""
    with chain_running(buyers={"buyer": atoms}) as chain, ExitStack() as stack:
        yield (
            chain,
            [
                stack.enter_context(seller_running(folder, chain.url, manner))
                for _ in range(processes)
            ],
        )


@asynccontextmanager
async def visiting(
    chain: Chain, sellers: list[Seller]
) -> AsyncIterator[tuple[Shopper, list[httpx.AsyncClient]]]:
    """Connect the buyer to the chain and to each seller."""
    limits = httpx.Limits(max_connections=200)
    async with AsyncExitStack() as stack:
        rpc, *shops = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits)
            )
            for url in (chain.url, *(seller.url for seller in sellers))
        ]
        yield Shopper(chain.genesis.key("buyer"), chain.genesis, rpc), shops


def tokens_issued(folder: Path) -> int:
    return int(ask_books(folder, "SELECT count(*) FROM credit_account"))


def worths(folder: Path) -> list[int]:
    """Return the stored value of each payment in micro-USD."""
    found = ask_books(folder, "SELECT group_concat(worth) FROM payment")
    return [int(each) for each in str(found).split(",")]


def ask_books(folder: Path, question: str) -> Any:
    """Return the only value that *question* selects in the money file."""
    db = apsw.Connection(str(folder / MONEY_FILE))
    answer = db.execute(question).get
    db.close()
    return answer
