"""Runs the program of each client in a separate folder; returns 1 if a client failed.

It prints a table.  The packages of a client come from its registry, so this needs a network, and
`make test` does not run it.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from mintscope.alerts.alert import FiringId
from mintscope.alerts.deliveries import secret_text, signed
from mintscope.kit.clock import SystemClock
from mintscope.solana.blocks import WSOL
from prove.interop.clients import CLIENTS, ORIGIN, VERSION, OtherClient
from prove.recipe import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.processes.documented_service import GENESIS, DocumentedService, documented_service

TOOLS: Final = Path(sys.executable).parent
INSTALL_S_MAX: Final = 180.0
RUN_S_MAX: Final = 60.0
SHOWN: Final = 300  # the number of characters of the output of a client that the table shows
NO_PYTHON: Final = "not run: this machine has no such Python"


def main() -> int:
    """Run the programs of all clients, or of those in the command line; return 1 if one failed."""
    chosen = [each for each in CLIENTS if not sys.argv[1:] or each.name in sys.argv[1:]]
    failed = 0
    os.environ["MINTSCOPE_PAYMENTS__ALSO_USDC"] = "true"  # noqa: TID251 - as the demo has it
    with tempfile.TemporaryDirectory() as name, documented_service(Path(name)) as service:
        token = service.mintscope("credits issue --credits 1000").strip()
        for number, client in enumerate(chosen):
            folder = Path(name) / f"client-{number}"
            folder.mkdir()
            began_s = time.monotonic()
            said = _run(client, folder, service, token)
            is_good = client.expects in said
            failed += not is_good and said != NO_PYTHON
            took_s = time.monotonic() - began_s
            outcome = (
                client.does
                if is_good
                else said
                if said == NO_PYTHON
                else f"FAILED: {said[-SHOWN:]!r}"
            )
            print(f"{client.name:28} {client.version:14} {took_s:5.1f} s  {outcome}", flush=True)
    print(f"{failed} of {len(chosen)} failed")
    return min(failed, 1)


def _run(client: OtherClient, folder: Path, service: DocumentedService, token: str) -> str:
    """Run the example program of *client* with a new wallet that has 10 USDC; return its output.

    The output includes stderr.
    """
    buyer = GENESIS.key(client.name + client.version)  # a new wallet, without credits
    service.mintscope(f"faucet {buyer.pubkey()} --url {service.rpc_url} --usdc 10")
    environment = dict(os.environ) | {  # noqa: TID251 - with it comes the registry of the machine
        "PATH": f"{TOOLS}:{os.environ.get('PATH', os.defpath)}",  # noqa: TID251 - as above
        "CLIENT_VERSION": VERSION,
        "MINTSCOPE_CREDENTIAL": token,
        "PAYMENT_ASSET": str(GENESIS.mint),
        "SOLANA_PRIVATE_KEY": str(buyer),
        "SOLANA_RPC_URL": service.rpc_url,
        "WEBHOOK": _webhook(),
    }
    command = [sys.executable, "-c", client.program, service.url, WSOL]
    if client.packages:
        (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        (folder / "program.mjs").write_text(client.program)
        forced = ["--legacy-peer-deps"] if client.is_forced else []
        options = ["--silent", "--no-audit", "--no-fund", *forced]
        packages = [each.replace(ORIGIN, service.url) for each in client.packages]
        install = ["npm", "install", *options, *packages]
        said = _said(install, folder, environment, INSTALL_S_MAX)
        if not (folder / "node_modules").is_dir():
            return f"not installed: {said}"
        command = ["node", *client.flags, "program.mjs", service.url, WSOL]
    if client.python is not None:
        return _said_by_own(client, command[1:], folder, environment)
    if client.wheels:
        wanted = [word for wheel in client.wheels for word in ("--with", wheel)]
        uv = ["uv", "run", "--quiet", "--no-project", "--python", sys.executable, *wanted, "python"]
        return _said([*uv, *command[1:]], folder, environment, INSTALL_S_MAX)
    return _said(command, folder, environment, RUN_S_MAX)


def _said_by_own(
    client: OtherClient, words: list[str], folder: Path, environment: dict[str, str]
) -> str:
    """Run *words* with the Python version of *client* and a wheel of this checkout's client.

    Return the output, or NO_PYTHON if this version is not installed.
    """
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT / "packages" / "client", check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    environment["PATH"] += "".join(f":{each}" for each in _pythons())
    find = ["uv", "python", "find", "--no-python-downloads", f"{client.python}"]
    if not _said(find, folder, environment, RUN_S_MAX).startswith("/"):
        return NO_PYTHON
    wanted = f"{client.python}", "--with", f"mintscope-client[wallet] @ {wheel.as_uri()}"
    uv = ["uv", "run", "--quiet", "--no-project", "--isolated", "--python", *wanted, "python"]
    return _said([*uv, *words], folder, environment, INSTALL_S_MAX)


def _pythons() -> list[Path]:
    """Return the folders of the Python versions that pyenv installed; uv does not find them."""
    return sorted(Path.home().glob(".pyenv/versions/*/bin"))


def _webhook() -> str:
    """Return a test webhook, signed at the current time: its secret, headers and body, as JSON."""
    secret, body = secrets.token_bytes(32), '{"type": "signal.test", "data": {}}'
    headers = signed(FiringId(7), SystemClock().now(), body.encode(), [secret])
    return json.dumps({"secret": secret_text(secret), "headers": headers, "body": body})


def _said(command: list[str], folder: Path, environment: dict[str, str], most_s: float) -> str:
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=most_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {most_s:g} s"
    return f"{ran.stdout}{ran.stderr[-500:] if ran.returncode else ''}".strip()


if __name__ == "__main__":
    raise SystemExit(main())
