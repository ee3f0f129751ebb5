"""docs/operating/install.md works as written: to a first sale and a restore from a backup."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope_devchain.svm.genesis import PAYMENT_DECIMALS
from support.processes.documented_service import GENESIS, chain_with_a_wallet
from support.processes.machine import Machine
from support.processes.servers import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "operating" / "install.md"
USDC: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
STAMP: Final = "mintscope-20261126T120000Z"

# The machine ends each block that hangs; all seventeen take one to three minutes.
pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]


def sections() -> dict[int, list[str]]:
    """Return the blocks of each numbered step."""
    found: dict[int, list[str]] = {}
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        found[int(part.partition(".")[0])] = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    return found


STEPS: Final = sections()


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Return the address of a devchain, and a folder with the wallet of a buyer with money."""
    with chain_with_a_wallet(tmp_path) as rpc_url:
        yield rpc_url, tmp_path


def machine(folder: Path, port: int, stack: ExitStack) -> Machine:
    made = Machine(
        folder,
        {
            "MINTSCOPE_API__PORT": str(port),
            "MINTSCOPE_METRICS__ENABLED": "false",
            "MINTSCOPE_CHAIN__START": "first",
            "MINTSCOPE_PAYMENTS__ASSET": str(GENESIS.mint),
            "MINTSCOPE_PAYMENTS__DECIMALS": str(PAYMENT_DECIMALS),
        },
    )
    stack.callback(made.end)
    return made


def follow(on: Machine, step: int, places: dict[str, str]) -> list[str]:
    """Run every block of a step; return the output of each."""
    printed = []
    for block in STEPS[step]:
        text = block
        for written, meant in places.items():
            text = text.replace(written, meant)
        printed.append(on.run(text))
    return printed


def test_from_nothing_to_a_sale_and_back_from_a_backup(
    chain: tuple[str, Path], tmp_path: Path
) -> None:
    rpc_url, wallet = chain
    port = free_port()
    places = {
        "https://your-node.example": rpc_url,
        "https://api.example.org": f"http://127.0.0.1:{port}",
        "http://127.0.0.1:8402": f"http://127.0.0.1:{port}",
        USDC: str(GENESIS.mint),
        "TREASURY": str(GENESIS.treasury.pubkey()),
        "MINT\n": f"{GENESIS.mint}\n",
    }
    with ExitStack() as stack:
        one = machine(tmp_path / "one", port, stack)
        (one.checkout / "id.json").write_text((wallet / "id.json").read_text())
        (one.checkout / "fee-payer.json").write_text(GENESIS.fee_payer.to_json())
        for name in ("id.json", "fee-payer.json"):
            (one.checkout / name).chmod(0o600)
        follow(one, 1, places)
        *_, installed = follow(one, 2, places)
        *_, config = follow(one, 3, places)
        follow(one, 4, places)
        follow(one, 5, places)
        *_, token = follow(one, 6, places)
        status, bought = follow(one, 7, places)
        follow(one, 8, places)
        follow(one, 10, places)
        one.run("systemctl stop mintscope.service")

        two = machine(tmp_path / "two", port, stack)
        (two.folder / "opt").symlink_to(one.folder / "opt")
        follow(two, 3, places)
        (backup, *_) = sorted((one.folder / "var/lib/mintscope-backups").glob("mintscope-*"))
        (two.folder / "var/lib/mintscope-backups").mkdir()
        backup.rename(two.folder / "var/lib/mintscope-backups" / backup.name)
        (restored,) = follow(two, 9, places | {STAMP: backup.name})
        follow(two, 4, places)
        found = json.loads(two.run(f"mintscope payments find {bought.strip()[-8:]} --json"))

    keys = {each["key"]: each for each in json.loads(config)}
    assert installed.strip()
    assert keys["chain.rpc_url"]["origin"] == "chain.rpc_url_file"
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, token.split()[-1])
    assert "open" in status
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.strip())
    assert bought.strip()[-8:] in restored
    assert token.split()[-1][-8:] in restored
    assert [each["finding"] for each in found["found"]] == ["credits_issued"]


def test_every_command_stands_in_a_numbered_step() -> None:
    blocks = re.findall(r"^```(\w+)\n", PAGE.read_text(), re.MULTILINE)

    assert set(blocks) == {"sh"}
    assert sorted(STEPS) == list(range(1, 11))
    assert sum(map(len, STEPS.values())) == len(blocks)
