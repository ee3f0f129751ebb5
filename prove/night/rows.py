"""The faults of `make night`, and the signs that must name each fault."""

import os
import resource
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import httpx

from mintscope.ingest.coverage import WATCHED_S_MIN
from mintscope.solana.blocks import USDC
from mintscope_client.examples.agent_signup import Agent
from prove.night import breaking
from prove.night import node as faults
from prove.night.installation import DISK_LIMIT, GENESIS, Installation
from prove.night.signs import Naming

MIB: Final = 1024**2
BELOW_MIB: Final = 100  # MiB: the free space of a disk that fills up is this far below its limit
FILL_EVERY_S: Final = 1.0
KILL_EVERY_S: Final = 5.0

Breaking = Callable[[Installation], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault of `make night`, and the signs that must name it.

    breaks   a function that returns a context manager, which causes the fault during its block
    naming   the expected signs
    kind     the kind of the installation
    after_s  the seconds without any fault before this fault
    """

    name: str
    breaks: Breaking
    naming: Naming
    kind: str = "sqlite"
    after_s: float = 0.0


def of_node(make: Callable[[], faults.Fault]) -> Breaking:
    """Return a fault of the service whose node has the fault that *make* returns."""

    @contextmanager
    def broken(installation: Installation) -> Iterator[None]:
        installation.node.fault = make()
        try:
            yield
        finally:
            installation.node.fault = None

    return broken


@contextmanager
def no_price(installation: Installation) -> Iterator[None]:
    """In the `with` block, the price feed of the payment token answers with status 503."""
    installation.feed.works = False
    try:
        yield
    finally:
        installation.feed.works = True


def shows(name: str) -> Breaking:
    """Return a fault in which the service's public address has the TLS certificate *name*."""

    @contextmanager
    def broken(installation: Installation) -> Iterator[None]:
        installation.proxy.show(installation.pems[name])
        try:
            yield
        finally:
            installation.proxy.show(installation.pems["good"])

    return broken


@contextmanager
def disk_fills_up(installation: Installation) -> Iterator[None]:
    """In the `with` block, keep the disk so full that the service's check of free space fails."""
    most = int(installation.environment[DISK_LIMIT]) - BELOW_MIB * MIB
    path = installation.folder / "filler"
    healed = threading.Event()
    with path.open("wb") as file:

        def fill() -> None:
            size = 0
            while not healed.is_set():
                more = shutil.disk_usage(installation.folder).free - most
                if more > 0:
                    os.posix_fallocate(file.fileno(), size, more)
                    size += more
                healed.wait(FILL_EVERY_S)

        filling = threading.Thread(target=fill, daemon=True)
        filling.start()
        try:
            yield
        finally:
            healed.set()
            filling.join()
            path.unlink()


@contextmanager
def disk_full(installation: Installation) -> Iterator[None]:
    """In the `with` block, make all writes of the processes ingest and api to files fail."""
    pids = [installation.child("ingest"), installation.child("api")]
    before = resource.prlimit(pids[0], resource.RLIMIT_FSIZE)
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        for pid in pids:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def killed(name: str) -> Breaking:
    """Return a fault that kills the process *name* of `mintscope serve` every few seconds."""

    @contextmanager
    def broken(installation: Installation) -> Iterator[None]:
        healed = threading.Event()

        def kill() -> None:
            while not healed.is_set():
                if pid := installation.child(name):
                    os.kill(pid, signal.SIGKILL)
                healed.wait(KILL_EVERY_S)

        killing = threading.Thread(target=kill, daemon=True)
        killing.start()
        try:
            yield
        finally:
            healed.set()
            killing.join()

    return broken


@contextmanager
def mail_server_down(installation: Installation) -> Iterator[None]:
    """In the `with` block, an e-mail cannot be sent: nothing listens as the mail server."""
    with httpx.Client(base_url=installation.url, timeout=20) as client:
        Agent(client, "night@example.org", 0).sign_up()
    yield


@contextmanager
def postgres_stopped(installation: Installation) -> Iterator[None]:
    """In the `with` block, PostgreSQL is stopped."""
    assert installation.postgres is not None
    installation.postgres.stop()
    try:
        yield
    finally:
        installation.postgres.start()


def node_naming(log: str, doctor: str | None = None) -> Naming:
    """Return the signs of a faulty node: *log* in the log, alerts, and old data in the status."""
    return Naming(
        log=log,
        alerts="MintscopeNode|MintscopeDataOld|MintscopeNodeStandsStill",
        status="data: the newest block is .* old",
        doctor=doctor,
    )


PUMP_SWAP: Final = "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA"
NOT_GIVEN: Final = "does not give the block"
ROWS: Final = (
    Row(
        name="HTTP 429 for everything",
        breaks=of_node(lambda: faults.status(429)),
        naming=node_naming("HTTP 429", "HTTP 429"),
    ),
    Row(
        name="HTTP 429 for getBlock",
        breaks=of_node(lambda: faults.status(429, "getBlock")),
        naming=node_naming("HTTP 429", "HTTP 429"),
    ),
    Row(
        name="the node stands still",
        breaks=of_node(faults.stands_still),
        naming=node_naming("does not advance|node_stands_still", "does the node lag"),
    ),
    Row(
        name="the node is 400 slots behind",
        breaks=of_node(faults.behind),
        naming=node_naming("does not advance|the node is behind", "does the node lag"),
    ),
    Row(
        name="the key is revoked (401)",
        breaks=of_node(lambda: faults.status(401)),
        naming=node_naming("was 401|HTTP 401", "refuses: .*401"),
    ),
    Row(
        name="a page of HTML, status 200",
        breaks=of_node(lambda: faults.html),
        naming=node_naming("JSON", "does not answer: .*JSON"),
    ),
    Row(
        name="getBlock is null",
        breaks=of_node(lambda: faults.null_blocks),
        naming=node_naming(NOT_GIVEN, "the node has no block"),
    ),
    Row(
        name="pruned (-32001)",
        breaks=of_node(lambda: faults.pruned),
        naming=node_naming(NOT_GIVEN, "the node has no block"),
    ),
    Row(
        name="blocks without a time",
        breaks=of_node(lambda: faults.without_time),
        naming=node_naming('"check": "node".*check_fails'),
    ),
    Row(
        name="finality stands still",
        breaks=of_node(faults.finality_stands),
        naming=Naming(
            log="check_fails.*finality|finality.*check_fails",
            alerts="MintscopeNotFinal",
            status="finality: the newest final block",
            doctor="finality",
        ),
    ),
    Row(
        name="the clock is 65 s ahead",
        breaks=of_node(lambda: faults.clock(faults.CLOCK_S)),
        naming=Naming(
            log="the clock and the chain's disagree|set the clock",
            alerts="MintscopeClock",
            status="price: .*clock|data: ",
            doctor="clock: ",
        ),
    ),
    Row(
        name="SOL has no rate",
        breaks=of_node(lambda: faults.without(USDC)),
        naming=Naming(
            log="sol_rate_missing",
            alerts="MintscopeNoSolRate",
            status="rate: SOL was last traded",
            doctor="rate: SOL was not traded",
        ),
    ),
    Row(
        name="the payment token has no price",
        breaks=no_price,
        naming=Naming(
            log="no price of the payment token",
            alerts="MintscopePriceMissing|MintscopeNoPrice",
            status="price: no price",
            doctor="no price, so nothing is sold",
        ),
    ),
    Row(
        name="the fee payer is empty",
        breaks=of_node(partial(faults.empty_wallet, str(GENESIS.fee_payer.pubkey()))),
        naming=Naming(
            log="the fee payer has more|fee payer",
            alerts="MintscopeFeePayerEmpty|MintscopeSalesClosed",
            status="sales: closed",
            doctor="SOL for network fees|fee payer",
        ),
    ),
    Row(
        name="the certificate is not trusted",
        breaks=shows("not trusted"),
        naming=Naming(
            log="clients refuse the certificate",
            alerts="MintscopeAddress",
            status="address: clients refuse the certificate",
            doctor="certificate",
        ),
    ),
    Row(
        name="the certificate ends in 2 days",
        breaks=shows("ends soon"),
        naming=Naming(
            log="is valid for .* more days",
            alerts="MintscopeAddress",
            status="address: .* is valid for",
        ),
    ),
    Row(
        name="the disk fills up",
        breaks=disk_fills_up,
        naming=Naming(
            log="free on the disk", alerts="MintscopeDiskFillsUp", status="disk: ", doctor="disk"
        ),
    ),
    Row(
        name="the disk is full",
        breaks=disk_full,
        naming=Naming(
            log="market cannot be written",
            alerts="MintscopeMarketNotWritten|MintscopeStoreAway|MintscopeNotReady",
            status="store: |data: ",
        ),
    ),
    Row(
        name="kill -9 of ingest, again and again",
        breaks=killed("ingest"),
        naming=Naming(
            log="process ended.*ingest|ingest.*process ended",
            alerts="MintscopeProcessRestarts|MintscopeProcessAway|MintscopeNoIngest",
            status="data: ",
        ),
    ),
    Row(
        name="kill -9 of the api, again and again",
        breaks=killed("api"),
        naming=Naming(
            log="process ended.*api|api.*process ended",
            alerts="MintscopeProcessRestarts|MintscopeProcessAway",
            status="silent|lists|data",
        ),
    ),
    Row(
        name="every 40th block is said to be skipped (-32007)",
        breaks=of_node(lambda: faults.skips_some),
        naming=Naming(
            log='block_awaited|"gap"',
            alerts="MintscopeGap",
            status="gaps: slots",
            doctor="gaps",
        ),
    ),
    Row(
        name="one block is truncated for ever",
        breaks=of_node(faults.truncates_one),
        naming=Naming(
            log='slot_refused|block_awaited|"gap"',
            alerts="MintscopeGap",
            status="gaps: slots|data: ",
            doctor="gaps",
        ),
    ),
    Row(
        name="the mail server is down",
        breaks=mail_server_down,
        naming=Naming(
            log="an e-mail was not sent",
            alerts="MintscopeEmailsFail",
            status="mail: ",
            doctor="mail: .* cannot be used",
        ),
    ),
    Row(
        name="a venue has no trades",
        breaks=of_node(lambda: faults.without(PUMP_SWAP)),
        kind="quiet",
        after_s=WATCHED_S_MIN + 20,  # seconds of observation before a silence counts as unusual
        naming=Naming(
            log='"check": "venues".*check_fails',
            alerts="MintscopeVenueSilent",
            status="ingest: .*no longer have swaps",
        ),
    ),
    Row(
        name="a reader keeps the write-ahead log",
        breaks=breaking.log_is_read,
        naming=Naming(
            log="the write-ahead log of market",
            alerts="MintscopeWalGrows",
            status="wal: the write-ahead log",
        ),
    ),
    Row(
        name="memory is nearly used up",
        breaks=breaking.memory_short,
        kind="quiet",  # the limit is set from the free space at the start of the service
        naming=Naming(
            log="of the memory to be free", alerts="MintscopeMemoryShort", status="memory: "
        ),
    ),
    Row(
        name="receivers of webhooks are down",
        breaks=breaking.receivers_down,
        naming=Naming(
            log="receivers accept no webhooks",
            alerts="MintscopeWebhooksFail",
            status="webhooks: ",
        ),
    ),
    Row(
        name="the gRPC stream is silent",
        breaks=breaking.stream_silent,
        kind="stream",
        naming=Naming(
            log="stream_ended.*silent|silent.*stream_ended",
            alerts="MintscopeGeyserSilent",
            status="ingest: .*no server of geyser.urls",
            doctor="geyser|stream",
        ),
    ),
    Row(
        name="PostgreSQL is stopped",
        breaks=postgres_stopped,
        kind="postgres",
        naming=Naming(
            log="market cannot be written|the database does not answer",
            alerts="MintscopeStoreAway|MintscopeMarketNotWritten|MintscopeNotReady",
            status="store: ",
            doctor="store|market: |money: ",
        ),
    ),
)
