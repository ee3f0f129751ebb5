"""With `mintscope sales`, an operator settles payments that a restore has lost."""

import asyncio
import json
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from mintscope.app.cli.payments import app
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.payments.audit import Orphan
from mintscope.payments.protocol.envelope import Resource
from support.scenes.payments.payment_build import keypair
from support.scenes.stores import money_in

ONE, OTHER = (Signature(str(keypair("anyone").sign_message(name))) for name in (b"one", b"other"))
FOUND: Final = UnixMs(1_750_000_000_000)
PAYER: Final = Wallet(str(keypair("payer").pubkey()))
MINT: Final = Mint(str(keypair("mint").pubkey()))
BOUGHT: Final = Resource("/v1/credits/purchase?bundle=10")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an installation with two orphans, of which one has a known purchase."""
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))

    async def meet() -> None:
        async with money_in(tmp_path) as money:
            await money.books.note_orphans(
                [
                    Orphan(
                        signature=ONE,
                        payer=PAYER,
                        amount=25,
                        asset=MINT,
                        bought=BOUGHT,
                        found_at=FOUND,
                    ),
                    Orphan(
                        signature=OTHER,
                        payer=None,
                        amount=None,
                        asset=None,
                        bought=None,
                        found_at=FOUND,
                    ),
                ]
            )

    asyncio.run(meet())
    return tmp_path


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["sales", *words])
    return done.exit_code, done.stdout, done.stderr


def listed() -> dict[str, str | None]:
    found = json.loads(run("orphans", "--json")[1])
    return {each["signature"]: each["bought"] for each in found}


@pytest.mark.usefixtures("folder")
def test_orphans_are_listed_with_their_purchases() -> None:
    assert listed() == {ONE: BOUGHT, OTHER: None}
    assert run("status")[1].endswith("2 payments on chain have no row: mintscope sales orphans\n")
    _, table, _ = run("orphans")
    assert "25" in table
    assert "2025-06-15T15:06:40Z" in table


@pytest.mark.usefixtures("folder")
def test_an_orphan_that_is_acknowledged_once_or_twice_is_not_listed() -> None:
    for _ in range(2):
        code, shown, _ = run("acknowledge", OTHER, "--note", "refunded by hand", "--json")
        assert (code, json.loads(shown)) == (0, [{"signature": OTHER, "state": "acknowledged"}])
    assert listed() == {ONE: BOUGHT}


@pytest.mark.usefixtures("folder")
def test_commands_without_a_note_or_a_known_signature_are_refused() -> None:
    unknown = str(keypair("anyone").sign_message(b"unknown"))
    refused = {
        ("acknowledge", ONE): (2, "--note"),
        ("acknowledge", ONE, "--note", " "): (2, "--note"),
        ("acknowledge", ONE, "--note", "x" * 201): (2, "--note"),
        ("acknowledge", "none", "--note", "x"): (2, "SIGNATURE"),
        ("acknowledge", unknown, "--note", "x"): (1, "no audit has found this payment"),
        ("adopt", "none"): (2, "SIGNATURE"),
        ("adopt", ONE): (1, "payments."),
    }
    for words, (code, said) in refused.items():
        found, _, reported = run(*words)
        assert (found, said in reported) == (code, True), (words, reported)
    assert listed() == {ONE: BOUGHT, OTHER: None}
