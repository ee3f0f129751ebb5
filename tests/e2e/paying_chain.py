"""A chain in a separate process that only handles payments, with rich buyers and with faults.

At full length (STORM=full) it has the pace of mainnet.  Otherwise, to save time, slots are a fifth
as long, and a block is final after 20 slots: the tests prove the same at both paces.
"""

import asyncio
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final

import httpx
import uvicorn
from typing_extensions import override

from mintscope.kit.clock import SystemClock
from mintscope_devchain.blockstore import SlotPace, slot_pace
from mintscope_devchain.faults import Answering, Faults, Knobs, Landing
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.pulse import Pulse
from mintscope_devchain.server import answering
from mintscope_devchain.svm.genesis import Genesis
from mintscope_devchain.svm.vm import Vm
from support.processes.processes import running

SEED = 7
FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only at which pace
PACE: Final = slot_pace() if FULL else SlotPace(slot=40, land=40, confirm=40, finalize=800)
SLOT_MS: Final = PACE.slot
RICH = 10**15
REVERTS = 5  # percent of payments that revert in a storm
BUSY_MAX = 100
BUSY_S = 0.1
KEEP_ALIVE_S = 60  # longer than clients keep connections: none is closed during a request


class Weather(Faults):
    """Random faults of a chain's node in a storm, until a test sets other faults.

    Of a hundred payments, *reverts* revert, five are dropped and three are late; of a hundred
    sends, five lose their answer; of a hundred calls, one is refused.
    """

    def __init__(self, reverts: int) -> None:
        super().__init__()
        self._reverts = reverts
        self._random = Random(11)
        self._is_over = False

    @override
    def set(self, knobs: Knobs) -> None:
        super().set(knobs)
        self._is_over = True

    @property
    @override
    def on_wire(self) -> bool:
        return not self._is_over or super().on_wire

    @override
    def landing(self) -> Landing | None:
        if self._is_over:
            return super().landing()
        die = self._random.randrange(100) - self._reverts
        if die < 0:
            return Landing("failed")
        if die < 5:
            return Landing("dropped")
        return Landing("late", ms=400) if die < 8 else None

    @override
    def answering(self, method: str) -> Answering | None:
        if self._is_over:
            return super().answering(method)
        die = self._random.randrange(100)
        if method == "sendTransaction" and die < 5:
            return Answering("lost")
        return Answering("http") if die == 99 else None


@dataclass(frozen=True)
class Chain:
    """The address of the chain, the keys of its parties, and a client for it."""

    url: str
    genesis: Genesis
    http: httpx.Client

    def call(self, method: str, *params: object) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        for _ in range(BUSY_MAX):  # on a busy machine, the chain refuses some calls
            response = self.http.post("/", json=call)
            if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(BUSY_S)
        return response.raise_for_status().json()["result"]

    def go_wrong(self, **knobs: Any) -> None:
        self.call("devchain_setFaults", knobs)

    def landed(self) -> set[str]:
        """Return the signatures of confirmed, successful transactions to the treasury."""
        tokens, found, before = str(self.genesis.treasury_tokens), set[str](), None
        while True:
            options = {"commitment": "confirmed", "limit": 1_000}
            options |= {} if before is None else {"before": before}
            page = self.call("getSignaturesForAddress", tokens, options)
            found |= {each["signature"] for each in page if each["err"] is None}
            if len(page) < 1_000:
                return found
            before = page[-1]["signature"]

    def paid_by(self, signatures: Iterable[str]) -> set[str]:
        """Return the signatures of the payers in the transactions with *signatures*."""
        options = {"commitment": "confirmed", "maxSupportedTransactionVersion": 0}
        found = (self.call("getTransaction", each, options) for each in signatures)
        return {each["transaction"]["signatures"][1] for each in found}

    def received(self) -> int:
        tokens = str(self.genesis.treasury_tokens)
        found = self.call("getTokenAccountBalance", tokens, {"commitment": "processed"})
        return int(found["value"]["amount"])

    def fees(self) -> int:
        """Return the lamports that the fee payer has spent."""
        address = str(self.genesis.fee_payer.pubkey())
        found = self.call("getBalance", address, {"commitment": "processed"})
        return 10 * 10**9 - int(found["value"])


@contextmanager
def chain_running(
    *, buyers: dict[str, int], stormy: bool = False, reverts: int = REVERTS
) -> Iterator[Chain]:
    """Run a devchain, and yield it.

    buyers    the atoms of each buyer, by name
    stormy    whether the chain has the faults of `Weather`
    reverts   the payments, of a hundred, that revert in these faults
    """
    with running(_serve, buyers, reverts if stormy else None) as (port, _):
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=10) as http:
            yield Chain(url, Genesis(SEED), http)


def _serve(reported: Connection, buyers: dict[str, int], reverts: int | None) -> None:
    asyncio.run(_run(reported, buyers, reverts))


async def _run(reported: Connection, buyers: dict[str, int], reverts: int | None) -> None:
    vm = Vm(clock=SystemClock(), seed=SEED, pace=PACE)
    for name, atoms in buyers.items():
        vm.genesis.endow(vm.bank, vm.genesis.key(name).pubkey(), lamports=10**9, atoms=atoms)
    if reverts is not None:
        vm.faults = Weather(reverts)
    app = answering(Methods(vm), vm.faults)
    pulsing = asyncio.create_task(Pulse(vm, slot_ms=SLOT_MS).run())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Accepted sockets inherit this option; asyncio sets it only for sockets with an
        # explicit protocol.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reported.send(listener.getsockname()[1])
        config = uvicorn.Config(
            app, log_level="critical", lifespan="off", timeout_keep_alive=KEEP_ALIVE_S
        )
        await uvicorn.Server(config).serve(sockets=[listener])
    pulsing.cancel()
