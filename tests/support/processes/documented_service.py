"""The service that the documents assume: a devchain, `mintscope serve`, a folder and a wallet."""

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.app.config.load import child_environment
from mintscope.solana.blocks import WSOL
from mintscope_client.examples.agent_signup import Agent
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis
from support.processes.servers import free_port
from support.processes.troubled_node import TroubledNode, troubled_node

READY_S: Final = 60.0
END_S: Final = 20.0
PASSWORD: Final = "a password that is long enough"
GENESIS: Final = Genesis(0)
# The history is long enough for every indicator of m1 in reports, and quick to create.
CHAIN: Final = ("--mints", "2", "--history-days", "0.2")


@dataclass(frozen=True, kw_only=True)
class DocumentedService:
    """A running service, like the one that the documents assume.

    folder    the working directory of every command; it contains mintscope-data
    node      the proxy in front of the node of the chain, if there is one
    """

    folder: Path
    url: str
    rpc_url: str
    serve: "subprocess.Popen[bytes]"
    node: TroubledNode | None = None

    def mintscope(self, words: str, *, typed: str = "") -> str:
        """Run a `mintscope` command in this process; return its output."""
        result = CliRunner().invoke(app, shlex.split(words, comments=True), input=typed)
        assert result.exit_code == 0, f"mintscope {words}: {result.output} {result.exception}"
        return result.stdout

    def sh(self, script: str, *, cwd: Path | None = None, **more: str) -> str:
        """Run *script* with the additional environment variables *more*; return its output."""
        path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
        ran = subprocess.run(
            ["sh", "-euc", script],
            cwd=cwd or self.folder,
            env=child_environment({"PATH": path, **more}),
            capture_output=True,
            text=True,
            timeout=READY_S,
            check=False,
        )
        assert ran.returncode == 0, f"{script}: {ran.stdout} {ran.stderr}"
        return ran.stdout

    def rpc(self, method: str, *params: object) -> Any:
        """Return the result of an RPC call to the chain."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.rpc_url, json=call, timeout=READY_S).json()["result"]

    def commands_of_serve(self) -> list[list[str]]:
        """Return the command line of each process that `serve` started."""
        pid = self.serve.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [Path(f"/proc/{one}/cmdline").read_text().split("\0") for one in children]

    def application(self, email: str, *, exchanged: bool = False) -> int:
        """Apply as an agent and confirm the e-mail; return the number of the application."""
        with httpx.Client(base_url=self.url, timeout=READY_S) as client:
            agent = Agent(client, email, 0)
            number = agent.sign_up()
            assert agent.confirm(agent.read_code()).status_code == 200
            if exchanged:
                self.mintscope(f"applications approve {number}")
                assert agent.exchange().status_code == 200
        return number

    def user(self) -> int:
        """Create an account that a test can remove; return its number."""
        self.application("removed@example.org", exchanged=True)
        users = json.loads(self.mintscope("users list --json"))
        return max(int(user["number"]) for user in users if user["kind"] == "agent")


@contextmanager
def documented_service(folder: Path, *, is_troubled: bool = False) -> Iterator[DocumentedService]:
    """Run the service in *folder* with the settings of a demo.

    Commands in the block have the same working directory and settings.

    is_troubled   whether a proxy that can misbehave is in front of the chain
    """
    chain_port, api_port = free_port(), free_port()
    rpc_url, url = f"http://127.0.0.1:{chain_port}", f"http://127.0.0.1:{api_port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in _settings(rpc_url, api_port).items():
            patch.setenv(f"MINTSCOPE_{name}", value)
        with (
            _started(folder, "devchain", "--port", str(chain_port), *CHAIN) as chain,
            _wallet(folder, chain, rpc_url),
            _before(rpc_url, patch, is_troubled=is_troubled) as node,
            _started(folder, "serve") as serve,
        ):
            service = DocumentedService(
                folder=folder, url=url, rpc_url=rpc_url, serve=serve, node=node
            )
            _wait(serve, f"{url}/readyz")
            token = service.mintscope("credits issue --credits 2").strip()
            _wait(serve, f"{url}/v1/token/{WSOL}", {"Authorization": f"Bearer {token}"})
            _wait(serve, f"{url}/v1/screen", {"Authorization": f"Bearer {token}"})
            yield service
            serve.send_signal(signal.SIGTERM)
            assert serve.wait(END_S) == 0
            assert "Fatal" not in (folder / "serve.log").read_text()


@contextmanager
def chain_with_a_wallet(folder: Path) -> Iterator[str]:
    """Run a devchain, and give money to the wallet id.json in *folder*; yield the chain's URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        _started(folder, "devchain", "--port", str(port), *CHAIN) as chain,
        _wallet(folder, chain, url),
    ):
        yield url


@contextmanager
def _before(
    rpc_url: str, patch: pytest.MonkeyPatch, *, is_troubled: bool
) -> Iterator[TroubledNode | None]:
    if not is_troubled:
        yield None
        return
    with troubled_node(rpc_url) as node:
        patch.setenv("MINTSCOPE_CHAIN__RPC_URL", node.url)
        yield node


def _settings(rpc_url: str, api_port: int) -> Mapping[str, str]:
    return {
        "CHAIN__RPC_URL": rpc_url,
        "CHAIN__START": "first",
        "API__PORT": str(api_port),
        "API__RATE_LIMIT_REQUESTS": "10000",
        "ACCOUNTS__SIGNUP_LIMIT_REQUESTS": "100",
        "MAIL__DELIVERY": "page",
        "METRICS__ENABLED": "false",
        "PAYMENTS__ENABLED": "true",
        "PAYMENTS__ASSET": str(GENESIS.mint),
        "PAYMENTS__DECIMALS": str(PAYMENT_DECIMALS),
        "PAYMENTS__PAY_TO": str(GENESIS.treasury.pubkey()),
        "PAYMENTS__FEE_PAYER_KEY": str(GENESIS.fee_payer),
        "PAYMENTS__PRICE_USD": "1",
    }


@contextmanager
def _wallet(folder: Path, chain: "subprocess.Popen[bytes]", rpc_url: str) -> Iterator[None]:
    """Write the key of the buyer to id.json, and give money to the buyer."""
    buyer = GENESIS.key("buyer")
    (folder / "id.json").write_text(buyer.to_json())
    (folder / "id.json").chmod(0o600)
    _wait(chain, f"{rpc_url}/health")
    given = CliRunner().invoke(app, ["faucet", str(buyer.pubkey()), "--url", rpc_url])
    assert given.exit_code == 0, given.output
    yield


@contextmanager
def _started(folder: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    with (folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mintscope", *words], stdout=log, stderr=log, cwd=folder
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(END_S)


def _wait(
    process: "subprocess.Popen[bytes]", url: str, headers: Mapping[str, str] | None = None
) -> None:
    """Wait until *url* returns a success status."""
    until_s = time.monotonic() + READY_S
    while time.monotonic() < until_s:
        assert process.poll() is None, f"{process.args!r} ended"
        try:
            if httpx.get(url, headers=headers, timeout=2).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} is not ready")
