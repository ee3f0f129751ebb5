"""The doctor reports the share of exchanges that were read, and the programs that were missed."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest

from mintscope.app.config.groups import Config
from mintscope.app.doctor.chain import check_coverage, findings
from mintscope.app.doctor.finding import Finding, Level
from mintscope.app.running.decode_worker import decoder
from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.kit.time import HOUR_S, MINUTE_S
from mintscope.market.coverage import Coverage, ProgramHour, Tally
from mintscope.solana.blocks import WSOL, Block
from mintscope.solana.wire import JsonTransactions
from support.fakes.made_chain import ListSource
from support.scenes.made_transactions import USDC, USER, Ix, Tx, address, lamports, transfer
from support.scenes.stores import market_in

CPMM: Final = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
CPMM_AUTHORITY: Final = "GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"
SWAP: Final = bytes.fromhex("8fbe5adac41e33de")
BLOOM: Final = "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1"  # a bot that trades for its users
MADE_UP: Final = address("a program that no table has")
TOKEN: Final = address("a token")
DAY_HOURS: Final = 24
EVERY_S: Final = 5 * MINUTE_S
BEGAN: Final = 500_000 * HOUR_S  # a whole hour
DOLLAR: Final = 1_000_000


def exchange(program: str, dollars: int, *, owners: tuple[str, str]) -> msgspec.Raw:
    """Return a transaction in which *program* sells tokens for *dollars*.

    owners   the owners of the program's token vault and of its dollar vault
    """
    moved = [
        transfer("user dollars", "vault dollars", dollars * DOLLAR),
        transfer("vault tokens", "user tokens", 7_000),
    ]
    accounts = [USER, "authority", "config", "pool", "user dollars", "user tokens", "vault dollars"]
    tx = Tx(Ix(program, [*accounts, "vault tokens"], SWAP, moved))
    tx.holds("user tokens", TOKEN, USER).holds("user dollars", USDC, USER)
    tx.holds("vault tokens", TOKEN, owners[0]).holds("vault dollars", USDC, owners[1])
    return msgspec.Raw(tx.raw())


def purchase_for_lamports(program: str) -> msgspec.Raw:
    """Return a purchase at a launchpad, paid in native SOL: all token balances are of one mint."""
    moved = [
        lamports(USER, "curve", 2 * 10**9),
        transfer("vault tokens", "user tokens", 7_000),
    ]
    tx = Tx(Ix(program, [USER, "curve", "vault tokens", "user tokens"], SWAP, moved))
    tx.holds("user tokens", TOKEN, USER).holds("vault tokens", TOKEN, "its authority")
    return msgspec.Raw(tx.raw())


def exchange_through_vaults(program: str, dollars: int) -> msgspec.Raw:
    """Return an exchange in which *program* lets another program move the tokens of each side."""
    moved = [
        transfer("user dollars", "vault dollars", dollars * DOLLAR),
        transfer("vault tokens", "user tokens", 7_000),
    ]
    calls = [Ix("its vault program", ["x"], bytes([side]), [one]) for side, one in enumerate(moved)]
    tx = Tx(Ix(program, [USER, "user dollars", "user tokens"], SWAP, calls))
    tx.holds("user tokens", TOKEN, USER).holds("user dollars", USDC, USER)
    tx.holds("vault tokens", TOKEN, "of tokens").holds("vault dollars", USDC, "of dollars")
    return msgspec.Raw(tx.raw())


def block(number: int, *transactions: msgspec.Raw) -> Block:
    return Block(
        slot=Slot(number),
        parent_slot=Slot(number - 1),
        blockhash=f"hash {number}",
        parent_blockhash=f"hash {number - 1}",
        time=UnixS(BEGAN + number * EVERY_S),
        transactions=JsonTransactions(transactions),
    )


class Chain:
    """A chain with a block every five minutes, and an exchange of 100 dollars in each block."""

    def __init__(self, folder: Path) -> None:
        self.config = Config(data_dir=folder)
        self.clock = ManualClock(UnixMs(BEGAN * 1000))
        self._blocks: list[Block] = []

    async def go_on(self, minutes: int, more: Callable[[], Sequence[msgspec.Raw]] = list) -> None:
        """Let *minutes* pass, and ingest one block for each EVERY_S seconds of them.

        more   returns transactions that each block has besides its exchange
        """
        for _ in range(minutes * MINUTE_S // EVERY_S):
            usual = exchange(CPMM, 100, owners=(CPMM_AUTHORITY, CPMM_AUTHORITY))
            self._blocks.append(block(len(self._blocks) + 1, usual, *more()))
            self.clock.advance(EVERY_S * 1000)
        async with market_in(self.config.data_dir) as market:
            await Ingest(
                source=ListSource(self._blocks),
                store=market.store,
                decode=decoder(self.config.dex),
                clock=self.clock,
            ).run()

    async def doctor(self) -> list[Finding]:
        return await asyncio.to_thread(lambda: list(check_coverage(self.config)))


async def test_a_program_whose_new_exchanges_are_not_read_is_reported_in_the_hour(
    tmp_path: Path,
) -> None:
    chain = Chain(tmp_path)
    understood = [exchange(MADE_UP, 10, owners=("its authority", "its authority"))]
    await chain.go_on(25 * 60, lambda: understood)
    shares, unlisted = await chain.doctor()
    assert shares.level is Level.OK
    assert "100 % of the volume and 100 % of the calls that exchanged tokens were" in shares.what
    # 13 blocks since the hour before, of 110 dollars each.
    assert f"{MADE_UP} is not in the table: 13 calls, 130 USD, 9.09 % of the" in unlisted.what

    other_way = [exchange(MADE_UP, 50, owners=("its authority", "another one"))] * 3
    await chain.go_on(10, lambda: other_way)
    shares, missed, unlisted = await chain.doctor()
    # The 13 blocks, and 2 of 250 dollars.
    assert shares.level is Level.WARN
    assert "84.45 % of the volume" in shares.what
    assert "expected 95 % (api.read_share_min)" in shares.fix
    assert missed.level is Level.WARN
    assert f"{MADE_UP} is missed (unknown_exchange): 6 calls, 300 USD, 15.54 % of" in missed.what
    assert unlisted.what.startswith(f"coverage: {MADE_UP} is not in the table: 13 calls")

    await chain.go_on(45, lambda: other_way)
    _, jump, missed, _ = await chain.doctor()
    assert f"{MADE_UP}: 33 of 46 calls missed since 08:00 UTC" in jump.what
    assert "0 of 287 in the day before" in jump.what
    assert "the program was probably upgraded" in jump.fix
    assert "33 calls, 1,650 USD" in missed.what


@pytest.mark.parametrize(
    ("made", "reported"),
    [
        (purchase_for_lamports(MADE_UP), "4 calls, 0 USD (known of 0)"),
        (exchange_through_vaults(MADE_UP, 50), "4 calls, 200 USD, 12.50 %"),
    ],
    ids=["for native SOL", "through a vault program"],
)
async def test_a_program_without_vaults_to_read_is_reported_within_the_hour(
    tmp_path: Path, made: msgspec.Raw, reported: str
) -> None:
    chain = Chain(tmp_path)
    await chain.go_on(50)
    (shares,) = await chain.doctor()
    assert shares.level is Level.OK

    await chain.go_on(20, lambda: [made])
    shares, missed = await chain.doctor()
    assert missed.level is Level.WARN
    assert f"{MADE_UP} is missed (unknown_exchange): {reported}" in missed.what
    # Of the calls, 14 were read and 4 missed.
    assert "77.77 % of the calls" in shares.what


async def test_a_new_market_has_no_findings_of_coverage(tmp_path: Path) -> None:
    assert await Chain(tmp_path).doctor() == []
    async with market_in(tmp_path) as market:
        await market.store.start(mints=[WSOL], follows_files=False)
    assert await Chain(tmp_path).doctor() == []


def row(  # noqa: PLR0913 - a row
    program: str, outcome: str, calls: int, volume: int, *, back: int = 0, valued: int | None = None
) -> ProgramHour:
    hour = BEGAN // HOUR_S - back
    tally = Tally(calls, calls if valued is None else valued, volume * DOLLAR)
    return ProgramHour(hour, program, outcome, tally)


def reported(*rows: ProgramHour) -> list[str]:
    since = UnixS(BEGAN - 25 * HOUR_S)
    coverage = Coverage(since, UnixS(BEGAN + 60), rows, 9, skipped_slots=0, missing_slots=0)
    return [f"{finding.level}: {finding.what}" for finding in findings(coverage, 0.95)]


def test_a_quiet_market_has_no_share() -> None:
    assert reported() == ["ok: coverage: no tokens were exchanged within the last 26 hours"]


def test_programs_are_named_with_their_shares_of_the_last_hour_and_day() -> None:
    assert reported(
        row("a", "read", 96, 9_600),
        row("a", "no_movement", 1, 100, valued=0),
        row("b", "overflow", 1, 100, back=1),
        row("b", "no_movement", 2, 200, back=9),
        row("new", "unlisted", 2, 200),
        row(BLOOM, "unlisted", 4, 20, back=20),
    ) == [
        line.replace("\n", " ")
        for line in (
            """ok: coverage: since 07:00 UTC 98 % of the volume and 98 % of the calls that exchanged
tokens were read; in the last 26 hours 96.08 % and 96.22 %""",
            """warn: coverage: b is missed (no_movement, overflow): 1 call, 100 USD, 1.00 % of the
volume since 07:00 UTC, 3 calls, 300 USD, 2.94 % of the volume in the last 26 hours""",
            """warn: coverage: a is missed (no_movement): 1 call, 100 USD (known of 0), 1.00 % of
the volume since 07:00 UTC, 1 call, 100 USD (known of 0), 0.98 % of the volume in the last
26 hours""",
            """warn: coverage: new is not in the table: 2 calls, 200 USD, 2.00 % of the volume since
07:00 UTC, 2 calls, 200 USD, 1.96 % of the volume in the last 26 hours""",
            f"""ok: coverage: Bloom ({BLOOM}) is not in the table: 0 calls, 0 USD, 0.00 % of the
volume since 07:00 UTC, 4 calls, 20 USD, 0.20 % of the volume in the last 26 hours""",
        )
    ]


@pytest.mark.parametrize("lately", [True, False])
def test_programs_missed_in_the_last_hour_are_named_beside_those_of_the_day(
    *, lately: bool
) -> None:
    rows = [row(f"day {each}", "overflow", 9, 900, back=9) for each in range(5)]
    rows += [row("lately", "overflow", 1, 1)] if lately else []
    lines = [line for line in reported(*rows) if "is missed" in line]
    assert len(lines) == 5 + lately
    assert any("lately is missed" in line for line in lines) == lately
