"""Runs a service as in production, with a devchain, a faulty node, a proxy and Prometheus."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from mintscope.app.config.load import child_environment
from mintscope.kit.machine import memory_free_share
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis
from prove.night.address import Proxy, certificate, proxy_at
from prove.night.node import FaultyNode, Feed, faulty_node, price_feed
from prove.recipe import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.processes.servers import PostgresServer, free_port

READY_S: Final = 90.0
END_S: Final = 30.0
SCRAPE_S: Final = 5
GENESIS: Final = Genesis(0)
CHAIN: Final = ("--mints", "3", "--history-days", "0.02")
RULES: Final = ROOT / "deploy" / "prometheus" / "alerts.yaml"
# Free space above the limit of the disk check; during a run, other processes write less.
ROOM_MIB: Final = 2_000
DISK_LIMIT: Final = "MINTSCOPE_WATCH__DISK_FREE_BYTES_MIN"
MEMORY_ROOM: Final = 0.15  # the free share of memory above the limit of the memory check
WAL_BYTES_MAX: Final = 5 * 1024**2  # a write-ahead log usually has 1,000 pages and a commit


class NotReady(Exception):
    """The installation did not become ready; the message has its last answers and log lines."""


@dataclass(kw_only=True)
class Installation:
    """A running service, with the processes around it that can have faults.

    kind      "sqlite"; "postgres"; "stream": SQLite, and blocks by gRPC; or "quiet": SQLite, for a
              fault that must be the first
    stream    the proxy between ingest and the gRPC server of the chain
    """

    kind: str
    folder: Path
    url: str
    node: FaultyNode
    feed: Feed
    proxy: Proxy
    serve: "subprocess.Popen[bytes]"
    prometheus_url: str
    environment: Mapping[str, str]
    memory_share_min: float
    postgres: PostgresServer | None = None
    stream: Proxy | None = None
    pems: Mapping[str, Path] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Return the path of the log of `mintscope serve` and of the processes that it starts."""
        return self.folder / "serve.log"

    def child(self, name: str) -> int:
        """Return the id of the child process *name* of `mintscope serve`; 0 if it does not run."""
        pid = self.serve.pid
        for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                words = Path(f"/proc/{one}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if name in words:
                return int(one)
        return 0

    def get(self, path: str) -> httpx.Response:
        """Send a GET request for *path* to the api process directly.  Raises httpx.HTTPError."""
        return httpx.get(f"{self.url}{path}", timeout=5)

    def failing(self) -> dict[str, str]:
        """Return the checks of /v1/health that fail, each with the reason.

        If /v1/health does not answer, the only check is "silent".
        """
        try:
            checks = self.get("/v1/health").json()["data"]["checks"]
        except (httpx.HTTPError, KeyError, ValueError):
            return {"silent": "the api does not answer"}
        return {name: said for name, said in checks.items() if said != "ok"}

    def alerts(self) -> set[str]:
        """Return the names of the firing Prometheus alerts; none if Prometheus does not answer."""
        try:
            answer = httpx.get(f"{self.prometheus_url}/api/v1/alerts", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return set()
        return {
            each["labels"]["alertname"]
            for each in answer["data"]["alerts"]
            if each["state"] == "firing"
        }

    def doctor(self) -> list[str]:
        """Run `mintscope doctor`; return each finding that is not ok as a line."""
        ran = subprocess.run(
            [sys.executable, "-m", "mintscope", "doctor", "--json"],
            env=dict(self.environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        try:
            found: list[dict[str, Any]] = json.loads(ran.stdout)
        except ValueError:
            return [f"FAIL  doctor itself: {ran.stderr[-300:]}"]
        return [
            f"{each['level']}  {each['what']} — {each['fix']}"
            for each in found
            if each["level"] != "ok"
        ]

    def wait_ready(self, patience_s: float = READY_S) -> float:
        """Wait until /readyz is 200; return the seconds of the wait.  Raises NotReady."""
        start_s = time.monotonic()
        said = ""
        while time.monotonic() < start_s + patience_s:
            if self.serve.poll() is not None:
                raise NotReady(f"serve ended with {self.serve.poll()}: {self.log_end()}")
            try:
                answer = self.get("/readyz")
                if answer.is_success:
                    return time.monotonic() - start_s
                said = answer.text[:300]
            except httpx.HTTPError as trouble:
                said = repr(trouble)
            time.sleep(0.5)
        raise NotReady(f"not ready after {patience_s:.0f} s: {said}\n{self.log_end()}")

    def log_end(self) -> str:
        """Return the last 15 lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


@contextmanager
def installation(kind: str) -> Iterator[Installation]:
    """Run a whole service with Prometheus during the `with` block.  Raises NotReady.

    kind   "sqlite", "postgres", "stream" (SQLite, and blocks by gRPC) or "quiet" (SQLite)
    """
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix=f"night-{kind}-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        folder.chmod(0o711)
        chain_port = free_port()
        api_port = free_port()
        tls_port = free_port()
        metrics = {"ingest": free_port(), "api": free_port()}
        chain_url = f"http://127.0.0.1:{chain_port}"
        chain_words = ["devchain", "--port", f"{chain_port}", *CHAIN]
        stream = None
        if kind == "stream":
            stream_port = free_port()
            chain_words += ["--grpc-port", f"{stream_port}"]
            stream = stack.enter_context(proxy_at(free_port(), stream_port))
        stack.enter_context(_started(folder, "devchain", chain_words, child_environment({})))
        _wait(f"{chain_url}/health")
        node = stack.enter_context(faulty_node(chain_url))
        feed = stack.enter_context(price_feed())
        pems = {
            name: certificate(folder / f"{name}.pem", days)
            for name, days in (("good", 90.0), ("ends soon", 2.0), ("not trusted", 90.0))
        }
        trusted = folder / "trusted.pem"
        trusted.write_text(_certificates(pems["good"]) + _certificates(pems["ends soon"]))
        proxy = stack.enter_context(proxy_at(tls_port, api_port, pems["good"]))
        settings = _settings(folder, node.url, feed.url, api_port, tls_port, metrics)
        memory_share_min = max(0.0, (memory_free_share() or 0.0) - MEMORY_ROOM)
        settings["MINTSCOPE_WATCH__MEMORY_FREE_SHARE_MIN"] = f"{memory_share_min:.3f}"
        if kind == "quiet":
            # No backfill, because the history of this chain has pauses
            settings["MINTSCOPE_CHAIN__BACKFILL_S"] = "0"
        if stream is not None:
            settings["MINTSCOPE_CHAIN__SOURCE"] = "geyser"
            settings["MINTSCOPE_GEYSER__URLS"] = f"http://127.0.0.1:{stream.port}"
        postgres = None
        if kind == "postgres":
            postgres = PostgresServer()
            stack.callback(postgres.remove)
            postgres.start()
            settings["MINTSCOPE_STORE"] = (
                f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres"
            )
        environment = child_environment({**settings, "SSL_CERT_FILE": str(trusted)})
        prometheus_url = stack.enter_context(_prometheus(folder, metrics))
        serve = stack.enter_context(_started(folder, "serve", ("serve",), environment))
        made_installation = Installation(
            kind=kind,
            folder=folder,
            url=f"http://127.0.0.1:{api_port}",
            node=node,
            feed=feed,
            proxy=proxy,
            serve=serve,
            prometheus_url=prometheus_url,
            environment=environment,
            memory_share_min=memory_share_min,
            postgres=postgres,
            stream=stream,
            pems=pems,
        )
        made_installation.wait_ready()
        yield made_installation


def _settings(  # noqa: PLR0913, PLR0917 - one argument for each part
    folder: Path,
    node_url: str,
    feed_url: str,
    api_port: int,
    tls_port: int,
    metrics: Mapping[str, int],
) -> dict[str, str]:
    free = shutil.disk_usage(folder).free
    return {
        f"MINTSCOPE_{name}": value
        for name, value in {
            "DATA_DIR": str(folder / "data"),
            "CHAIN__RPC_URL": node_url,
            "CHAIN__START": "latest",
            "CHAIN__BACKFILL_S": "120",
            "API__PORT": f"{api_port}",
            "API__ORIGIN": f"https://localhost:{tls_port}",
            "API__HEALTH_LIMIT_REQUESTS": "100000",
            "ACCOUNTS__SIGNUP_LIMIT_REQUESTS": "1000",
            "METRICS__INGEST_PORT": f"{metrics['ingest']}",
            "METRICS__API_PORT": f"{metrics['api']}",
            "LOG__FORMAT": "json",
            "MAIL__DELIVERY": "smtp",
            "MAIL__SECURITY": "none",
            "MAIL__PORT": f"{free_port()}",
            "MAIL__SENDER": "no-reply@localhost",
            "WATCH__WAL_BYTES_MAX": f"{WAL_BYTES_MAX}",
            "SIGNALS__WEBHOOK_LOOPBACK": "true",
            "WATCH__DISK_FREE_BYTES_MIN": f"{max(1, free - ROOM_MIB * 1024**2)}",
            "PAYMENTS__ENABLED": "true",
            "PAYMENTS__ASSET": str(GENESIS.mint),
            "PAYMENTS__DECIMALS": f"{PAYMENT_DECIMALS}",
            "PAYMENTS__PAY_TO": str(GENESIS.treasury.pubkey()),
            "PAYMENTS__FEE_PAYER_KEY": str(GENESIS.fee_payer),
            "PAYMENTS__PRICE_SOURCE": "feed",
            "PAYMENTS__PRICE_FEED_URL": f"{feed_url}/v2/updates/price/latest",
        }.items()
    }


def _certificates(pem: Path) -> str:
    """Return the certificates in the PEM file *pem*, without the private key in front of them."""
    text = pem.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


@contextmanager
def _prometheus(folder: Path, metrics: Mapping[str, int]) -> Iterator[str]:
    """Run Prometheus with the alert rules of deploy/ during the `with` block; yield its URL.

    metrics   the port of each process to read metrics from, by name
    """
    program = shutil.which("prometheus")
    if program is None:
        raise NotReady("expected prometheus on the path: apt-get install prometheus")
    shutil.copyfile(RULES, folder / "alerts.yaml")
    jobs = [
        {"job_name": f"mintscope-{name}", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for name, port in metrics.items()
    ]
    every = f"{SCRAPE_S}s"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": "4s", "evaluation_interval": every},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))  # JSON is YAML
    port = free_port()
    words = [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with _running(folder / "prometheus.log", words, child_environment({})):
        _wait(f"http://127.0.0.1:{port}/-/ready")
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _started(
    folder: Path, name: str, words: Sequence[str], environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "mintscope", *words]
    with _running(folder / f"{name}.log", command, environment) as process:
        yield process


@contextmanager
def _running(
    log: Path, words: list[str], environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=output, env=dict(environment), cwd=log.parent
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str) -> None:
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        try:
            if httpx.get(url, timeout=2).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise NotReady(f"{url} does not answer")
