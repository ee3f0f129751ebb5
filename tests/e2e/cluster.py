"""The processes of a cluster: PostgreSQL, a devchain, two ingests, three apis."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import mintscope
from mintscope.app.config.load import child_environment
from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import WSOL
from mintscope_devchain.market.world import World
from support.fakes.mail_server import MailRoom, mail_room_beside
from support.processes.api_process import command
from support.processes.documented_service import GENESIS, SELLING
from support.processes.servers import PostgresServer, free_port, wait_for
from support.scenes.stores import PEPPER

INGESTS: Final = ("ingest-1", "ingest-2")
APIS: Final = ("api-1", "api-2", "api-3")
SOURCE: Final = Path(mintscope.__file__).parents[1]
# Migrations of a version after this one, for tests: this version still works with their columns.
NEXT: Final = {
    "money": "-- least: 1\nALTER TABLE credit_account ADD COLUMN tier bigint NOT NULL DEFAULT 0;",
    "market": "-- least: 1\nALTER TABLE header ADD COLUMN leader text;",
}
MINTS: Final = 6
TRADED: Final = [each.token.mint for each in World(seed=0, mints=MINTS).listed]
# The mints that the service tracks: WSOL, the payment token, the configured mints.
FIRST_MINTS: Final = [*dict.fromkeys(map(Mint, (WSOL, str(GENESIS.mint), *TRADED)))]
END_S: Final = 20.0


@dataclass
class Process:
    """A `mintscope` process; a test restarts it after its end, as a supervisor would."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    running: "subprocess.Popen[bytes]" = field(init=False)
    began_at: int = 0

    def start(self) -> None:
        """Start the process; its output is appended to its log."""
        with self.log.open("ab") as log:
            self.began_at = log.tell()
            command = [sys.executable, "-m", "mintscope", *self.words]
            self.running = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)

    def send(self, number: signal.Signals) -> None:
        self.running.send_signal(number)

    def restart(self, code: Path) -> None:
        """Stop the process cleanly, and start the version in the folder *code* in its place."""
        self.environment = {**self.environment, "PYTHONPATH": str(code)}
        self.running.terminate()
        self.running.wait(END_S)
        self.start()

    def events(self, since: int = 0) -> Iterator[dict[str, object]]:
        """Yield the JSON lines of the process's log, from byte *since* on."""
        for line in self.log.read_bytes()[since:].decode(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def end(self) -> None:
        self.running.kill()
        self.running.wait(END_S)


@dataclass
class Cluster:
    folder: Path
    postgres: PostgresServer
    rpc_url: str
    mail_room: MailRoom
    processes: dict[str, Process]
    api_ports: dict[str, int]
    code: Path = SOURCE

    def leader(self) -> str:
        """Return the name of the ingest process that writes: it has the highest epoch."""
        epochs = {
            name: max(
                (
                    int(str(each["epoch"]))
                    for each in self.processes[name].events()
                    if each.get("event") == "ingest_takes_over"
                ),
                default=0,
            )
            for name in INGESTS
        }
        return max(epochs, key=lambda name: epochs[name])

    def standby(self) -> str:
        return next(name for name in INGESTS if name != self.leader())

    def environment(self, **more: str) -> dict[str, str]:
        settings = {
            "STORE": f"postgresql://postgres@127.0.0.1:{self.postgres.port}/postgres",
            "DRAIN_S": "1.5",
            "REPLICAS_MAX": f"{len(APIS)}",
            "CREDITS__PEPPER": PEPPER.hex(),
            "CHAIN__RPC_URL": self.rpc_url,
            "CHAIN__START": "first",
            "MARKET__MINTS": ",".join(TRADED),
            "API__TRUSTED_PROXIES": "127.0.0.1",
            "API__ORIGIN": "https://mintscope.example",
            "API__RATE_LIMIT_REQUESTS": "100000",
            "API__OTHER_LIMIT_REQUESTS": "30",
            "MAIL__DELIVERY": "smtp",
            "MAIL__PORT": f"{self.mail_room.port}",
            "MAIL__SECURITY": "none",
            "MAIL__SENDER": "no-reply@example.org",
            "METRICS__ENABLED": "false",
            "LOG__FORMAT": "json",
            **SELLING,
            "PAYMENTS__PRICE_SOURCE": "pinned",
        }
        return child_environment(
            {f"MINTSCOPE_{key}": value for key, value in settings.items()} | more
        )

    def command(self, *words: str, typed: str = "") -> str:
        """Run a `mintscope` command to its end; return its output."""
        environment = self.environment(
            MINTSCOPE_DATA_DIR=str(self.folder / "commands"), PYTHONPATH=str(self.code)
        )
        ran = command(environment, *words, typed=typed)
        assert ran.returncode == 0, f"mintscope {words}: {ran.stdout} {ran.stderr}"
        return ran.stdout

    def use_next_version(self) -> None:
        """Copy the source code, and add migrations; processes that start later run the copy."""
        self.code = self.folder / "next"
        shutil.copytree(SOURCE / "mintscope", self.code / "mintscope")
        migrations = self.code / "mintscope/kit/sql/migrations/postgres"
        for kind, script in NEXT.items():
            (migrations / kind / "9999_next.sql").write_text(script)

    def wait_for(self, name: str) -> None:
        """Wait until the api process *name* is ready; it can be restarted meanwhile."""
        wait_for(f"http://127.0.0.1:{self.api_ports[name]}/readyz")

    def keep_alive(self) -> list[str]:
        """Restart the processes that have ended; return their names."""
        ended = [name for name, each in self.processes.items() if each.running.poll() is not None]
        for name in ended:
            self.processes[name].start()
        return ended


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """Run a cluster with all its data in *folder*; stop all its processes when the block ends."""
    with ExitStack() as stack:
        postgres = PostgresServer(durable=True)
        stack.callback(postgres.remove)
        postgres.start()
        chain_port = free_port()
        rpc_url = f"http://127.0.0.1:{chain_port}"
        mail_room = stack.enter_context(mail_room_beside())
        cluster = Cluster(folder, postgres, rpc_url, mail_room, {}, {})
        chain = ("devchain", "--port", f"{chain_port}", "--mints", f"{MINTS}")
        devchain = Process(
            (*chain, "--history-days", "0.05"), cluster.environment(), folder / "devchain.log"
        )
        devchain.start()
        stack.callback(devchain.end)
        wait_for(f"{rpc_url}/health", devchain.running)
        for name in (*INGESTS, *APIS):
            more = {"MINTSCOPE_DATA_DIR": str(folder / name)}
            if name in APIS:
                cluster.api_ports[name] = free_port()
                more["MINTSCOPE_API__PORT"] = f"{cluster.api_ports[name]}"
            process = Process(
                (name.partition("-")[0],), cluster.environment(**more), folder / f"{name}.log"
            )
            cluster.processes[name] = process
            process.start()
            stack.callback(process.end)
        for name in APIS:
            cluster.wait_for(name)
        yield cluster
