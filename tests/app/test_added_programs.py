"""Swaps of programs that an operator adds are read; invalid settings of programs are refused."""

import asyncio
import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.app.config import values
from mintscope.app.config.groups import Config, DexConfig
from mintscope.app.running.decode_worker import decoder, programs_read
from mintscope.app.stream import stream_of
from mintscope.dex.decode import decode_block
from mintscope.dex.programs import TABLE
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Signature, Slot, UnixS
from mintscope.market.coverage import NotRead
from mintscope.market.ports import UNKNOWN_PROGRAM
from mintscope.solana.blocks import WSOL
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import PreferredNodes
from mintscope.solana.poll import Polling
from mintscope.solana.wire import read_transaction
from mintscope.solana.yellowstone.block_buffer import StreamWatch
from support.scenes.made_transactions import USER, Ix, Tx, address, transfer
from support.scenes.stores import market_in

A, B = address("mint A"), address("mint B")
NEW = address("a program of next year")
EXCHANGE = [transfer("user a", "vault a", 100), transfer("vault b", "user b", 70)]


def tx(data: bytes) -> Tx:
    made = Tx(Ix(NEW, ["x", "pool"], data, EXCHANGE))
    made.holds("user a", A, USER).holds("user b", B, USER)
    return made.holds("vault a", A, "authority").holds("vault b", B, "authority")


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        (f"new:{NEW}", None),
        (f"new:{NEW}:01", None),
        (f"new:{NEW}:ff+01:1", "pool"),
        (f"new:{NEW}::1", "pool"),
    ],
)
def test_swaps_of_an_added_program_are_read_from_its_transfers(text: str, pool: str | None) -> None:
    read = read_transaction(tx(b"\x01\x02" + bytes(8)).raw(), 0)
    assert read is not None
    (swap,) = decoder(DexConfig(programs=(text,)))([read]).swaps

    pair = "+".join(sorted([address("vault a"), address("vault b")]))
    assert (swap.program, swap.pool) == ("new", pair if pool is None else address(pool))
    assert (swap.in_mint, swap.in_amount, swap.out_mint, swap.out_amount) == (A, 100, B, 70)
    (without,) = decode_block([read]).swaps
    assert (without.program, without.recognised_by) == (NEW, "transfers")
    assert (swap.recognised_by, without.pool) == ("table", pair)


@pytest.mark.parametrize(
    "listed",
    [
        ["new"],
        [f"New:{NEW}"],
        [f"new:{NEW}:0"],
        [f"new:{NEW}:010203040506070809"],
        [f"new:{NEW}:01:x"],
        [f"unknown:{NEW}"],
        [f"new:{NEW}", f"newer:{NEW}"],
        [f"new:{NEW}", f"new:{B}"],
    ],
)
def test_an_invalid_program_setting_is_refused(listed: list[str]) -> None:
    with pytest.raises(ValidationError, match="expected"):
        TypeAdapter(values.Programs).validate_python(tuple(listed))


def test_an_added_program_does_not_replace_a_known_program() -> None:
    known = DexConfig(programs=(f"mine:{TABLE[0].address}",))

    assert list(programs_read(known)) == list(TABLE)


def test_the_stream_is_filtered_to_the_token_programs_and_manifest() -> None:
    source = stream_of(
        Config(dex=DexConfig(programs=(f"new:{NEW}:01",))),
        PreferredNodes([], SystemClock()),
        Polling(start=Slot(0)),
        clock=SystemClock(),
        progress=lambda _read, _total: None,
        meter=FinalityMeter(),
        watch=StreamWatch(SystemClock()),
    )

    assert source.programs == [
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
        "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms",
    ]


def test_the_programs_command_lists_each_program_and_who_added_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MINTSCOPE_DEX__PROGRAMS", f"new:{NEW}:01:1")
    result = CliRunner().invoke(app, ["programs", "--json"])
    rows = json.loads(result.stdout)

    assert (rows[0]["program"], rows[0]["addedBy"]) == ("pumpfun", "mintscope")
    assert (rows[-1]["program"], rows[-1]["id"], rows[-1]["addedBy"]) == (
        "new",
        NEW,
        "configuration",
    )


def test_the_programs_command_lists_unread_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = NotRead(
        time=UnixS(1),
        program=NEW,
        reason=UNKNOWN_PROGRAM,
        head="01",
        count=3,
        volume=7_900_000,
        signature=Signature("example"),
    )

    async def fill() -> None:
        async with market_in(tmp_path) as market:
            await market.store.start(mints=[WSOL], follows_files=False)
            await market.store.write([missed])

    asyncio.run(fill())
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))
    (row,) = json.loads(CliRunner().invoke(app, ["programs", "--unread", "--json"]).stdout)

    assert row == {
        "program": NEW,
        "reason": "unknown_program",
        "discriminator": "01",
        "count": 3,
        "aboutUsd": 7,
        "example": "example",
    }
