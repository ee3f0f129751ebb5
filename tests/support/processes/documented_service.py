"""The service that the documents assume: a devchain, `mintscope serve`, a folder and a wallet."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.app.config.load import child_environment
from mintscope.solana.blocks import WSOL
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS, Genesis
from support.processes.servers import free_port, wait_for

READY_S: Final = 60.0
END_S: Final = 20.0
GENESIS: Final = Genesis(0)
# The history is long enough for every indicator of m1 in reports, and quick to create.
CHAIN: Final = ("--mints", "2", "--history-days", "0.2")
# The settings of payments on this chain.
SELLING: Final = {
    "PAYMENTS__ENABLED": "true",
    "PAYMENTS__ASSET": str(GENESIS.mint),
    "PAYMENTS__DECIMALS": str(PAYMENT_DECIMALS),
    "PAYMENTS__PAY_TO": str(GENESIS.treasury.pubkey()),
    "PAYMENTS__FEE_PAYER_KEY": str(GENESIS.fee_payer),
    "PAYMENTS__PRICE_USD": "1",
}


@dataclass(frozen=True, kw_only=True)
class DocumentedService:
    """A running service, like the one that the documents assume.

    folder   the working directory of every command; it contains mintscope-data
    """

    folder: Path
    url: str
    rpc_url: str
    serve: "subprocess.Popen[bytes]"

    def mintscope(self, words: str, *, typed: str = "") -> str:
        """Run a `mintscope` command in this process; return its output."""
        result = CliRunner().invoke(app, shlex.split(words, comments=True), input=typed)
        assert result.exit_code == 0, f"mintscope {words}: {result.output} {result.exception}"
        return result.stdout

    def sh(self, script: str, *, cwd: Path | None = None, **more: str) -> str:
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

    def commands_of_serve(self) -> list[list[str]]:
        """Return the command line of each process that `serve` started."""
        pid = self.serve.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [Path(f"/proc/{one}/cmdline").read_text().split("\0") for one in children]


@contextmanager
def documented_service(
    folder: Path, *, through: Callable[[str], str] = str
) -> Iterator[DocumentedService]:
    """Run the service in *folder* with the settings of a demo.

    Commands in the block have the same working directory and settings.

    through   maps the URL of the devchain to the URL from which the service reads the chain
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with chain_with_a_wallet(folder) as rpc_url:
            api_port = free_port()
            for name, value in _settings(through(rpc_url), api_port).items():
                patch.setenv(f"MINTSCOPE_{name}", value)
            with _started(folder, "serve") as serve:
                url = f"http://127.0.0.1:{api_port}"
                service = DocumentedService(folder=folder, url=url, rpc_url=rpc_url, serve=serve)
                wait_for(f"{url}/readyz", serve)
                token = service.mintscope("credits issue --credits 2").strip()
                for path in (f"/v1/token/{WSOL}", "/v1/screen"):
                    wait_for(url + path, serve, {"Authorization": f"Bearer {token}"})
                yield service
                serve.send_signal(signal.SIGTERM)
                assert serve.wait(END_S) == 0
                assert "Fatal" not in (folder / "serve.log").read_text()


@contextmanager
def chain_with_a_wallet(folder: Path) -> Iterator[str]:
    """Run a devchain with a funded wallet, id.json in *folder*; yield the chain's URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    buyer = GENESIS.key("buyer")
    (folder / "id.json").write_text(buyer.to_json())
    (folder / "id.json").chmod(0o600)
    with _started(folder, "devchain", "--port", str(port), *CHAIN) as chain:
        wait_for(f"{url}/health", chain)
        given = CliRunner().invoke(app, ["faucet", str(buyer.pubkey()), "--url", url])
        assert given.exit_code == 0, given.output
        yield url


def _settings(rpc_url: str, api_port: int) -> Mapping[str, str]:
    return {
        "CHAIN__RPC_URL": rpc_url,
        "CHAIN__START": "first",
        "API__PORT": str(api_port),
        "API__RATE_LIMIT_REQUESTS": "10000",
        "ACCOUNTS__SIGNUP_LIMIT_REQUESTS": "100",
        "MAIL__DELIVERY": "page",
        "METRICS__ENABLED": "false",
        **SELLING,
    }


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
