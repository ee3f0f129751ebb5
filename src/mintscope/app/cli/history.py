"""The command `mintscope history`: backfills, and imports of candles."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mintscope.app.cli import output
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.stores import with_market
from mintscope.app.cli.table import BadTable, rows
from mintscope.app.config.groups import Config
from mintscope.app.sources import BackfillReading, begin_of, left_out, open_backfill
from mintscope.app.stores.stores import Market, backfill_lock
from mintscope.history.backfill import (
    CannotImport,
    HistoryJob,
    ImportedCandle,
    Stage,
    Survey,
    expect_candle,
)
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import MICRO_USD, Mint, UnixS
from mintscope.kit.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.market.pricing import PRICE_USD_MAX
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import SourceError

LINE_EVERY_PERCENT: Final = 10


class Bar(Progress):
    """Shows on stderr how many transactions are listed and how many are read.

    On a terminal it shows two progress bars, elsewhere it prints occasional lines.

    total   the approximate number of transactions
    """

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._total = max(total, 1)
        self._done = dict.fromkeys(("listed", "read"), 0)
        self._reported = dict.fromkeys(self._done, 0)
        self._bars = {what: self.add_task(what, total=self._total) for what in self._done}

    def __call__(self, what: str, count: int) -> None:
        """Add *count* to the progress of *what*, "listed" or "read", and show it."""
        done = self._done[what] = self._done[what] + count
        self.update(self._bars[what], completed=done, total=max(done, self._total))
        percent = min(100, 100 * done // self._total)
        if self.disable and percent >= self._reported[what] + LINE_EVERY_PERCENT:
            self._reported[what] = percent
            self.console.print(f"{what}: {done} of about {self._total}")


DAYS_MAX: Final = 180
JOIN_WAIT_S: Final = 60
LOOK_S: Final = 0.5
AGAIN_S: Final = 5.0

app = typer.Typer()


history_commands = typer.Typer(
    cls=output.RunsByDefault, help="Backfill a token, or import its candles.", no_args_is_help=True
)
app.add_typer(history_commands, name="history")

TrackedMint = Annotated[str, typer.Argument(help="A tracked mint address.", metavar="MINT")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Read without confirmation.")]
RatePools = Annotated[
    list[str] | None,
    typer.Option(
        "--rate-pool",
        metavar="ADDRESS",
        help="A pool of SOL and dollars; by default the pool in the log with the most trades.",
    ),
]
CallsPerS = Annotated[
    float,
    typer.Option(
        "--calls-per-s", min=0.1, max=10_000, metavar="CALLS", help="Maximum requests a second."
    ),
]


@history_commands.command()
def read(
    mint: TrackedMint,
    *,
    days: Annotated[
        float,
        typer.Option(min=0.01, max=DAYS_MAX, metavar="DAYS", help="Days to read back from now."),
    ] = 10,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="A pool of MINT; by default all pools that are found."
        ),
    ] = None,
    rate_pool: RatePools = None,
    calls_per_s: CallsPerS = 10,
    again: Annotated[
        bool, typer.Option("--again", help="Read a history again, and replace it.")
    ] = False,
    incomplete: Annotated[
        bool,
        typer.Option(
            "--incomplete", help="Join the history even if the node lacks some transactions."
        ),
    ] = False,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Read swaps of MINT from before it was tracked, and join them to the market.

    Shows the cost, and asks for confirmation. Works while the service runs. After an interruption,
    the same command resumes.
    """
    backfill_token(
        Giving(
            mint=output.read_mint(mint), from_time=days_ago(days), pools=pool or [],
            rate_pools=rate_pool or [], calls_per_s=calls_per_s, yes=yes, again=again,
            incomplete=incomplete,
        ),
        config,
    )  # fmt: skip


def backfill_token(giving: "Giving", config: ConfigFile) -> None:
    """Run a backfill, the same as `history MINT`; on a failure, end the command with a message."""
    settings = configured(config).config
    if settings.chain.source == "files":
        output.stop("a backfill needs a node: chain.source is files")
    try:
        with_market(config, lambda market: giving.run(market, settings))
    except ValueError as error:
        output.stop(output.visible(str(error)))
    except SourceError as error:
        output.stop(
            f"{output.visible(str(error))}\nThe same command resumes.", output.EXIT_NOT_DONE
        )


def days_ago(days: float) -> UnixS:
    """Return the time *days* days ago."""
    return UnixS(SystemClock().now() // SECOND_MS - int(days * DAY_S))


@dataclass(kw_only=True)
class Giving:
    """The backfill that one `mintscope history` command runs, with the command's options.

    from_time     the requested start of the backfill; `run` replaces it with the actual start
    calls_per_s   the maximum number of requests to the node in a second
    yes           whether to begin without confirmation
    """

    mint: Mint
    from_time: UnixS
    pools: Sequence[str] = ()  # empty: all that are found
    rate_pools: Sequence[str] = ()  # of SOL and dollars; empty: the busiest in the log
    calls_per_s: float
    yes: bool
    again: bool = False  # candles since *from_time* are replaced
    incomplete: bool = False  # join it even if the node lacks transactions

    async def run(self, market: Market, config: Config) -> Stage:
        """Survey the backfill, ask for confirmation, read it, and wait until ingest has joined it.

        Return its stage.  The wait is at most a minute; if the log then lacks swaps after the
        backfill, read more and wait again.  If the user does not confirm, end the command.  An
        unfinished backfill that starts within a day of *from_time* is resumed without survey and
        confirmation.

        Raises SourceError, BackfillIsRead if another process reads a backfill, and ValueError if
        there is nothing to read, if the mint cannot be backfilled or is no longer tracked, or if
        another backfill of the mint was begun before the confirmation.
        """
        self.from_time = await begin_of(market, self.mint, self.from_time, again=self.again)
        async with open_backfill(config, market, self.calls_per_s) as reading:
            async with backfill_lock(config):
                before = await market.history.one(self.mint)
                goes_on = before is not None and before.goes_on(self.from_time)
                found = None if goes_on else await self._survey(reading)
            # Without the lock, because an open prompt would stop all other backfills.
            if found is not None and not self.yes and not typer.confirm("Read them?"):
                raise typer.Exit(output.EXIT_NOT_DONE)
            async with backfill_lock(config):
                total = await self._begin(market, before, found)
                with Bar(total) as bar:
                    stage = Stage.READING
                    while stage is Stage.READING:
                        missing = await reading.read(
                            self.mint, self.from_time, bar, incomplete=self.incomplete
                        )
                        bar.console.print("read; waiting for ingest to join it")
                        stage = await self._joined(market)
        await self._report(market, stage, reading.calls)
        if missing:
            typer.echo(left_out(missing), err=True)
        return stage

    async def _survey(self, reading: BackfillReading) -> Survey:
        found = await reading.survey(
            self.mint, self.from_time, pools=self.pools, rate_pools=self.rate_pools
        )
        for address, kind in found.addresses.items():
            typer.echo(f"{address}  {kind}")
        if found.from_time > self.from_time:
            typer.echo(f"the node reaches back to {output.moment_of(found.from_time)}")
            self.from_time = found.from_time
        cost = found.cost
        typer.echo(
            f"from {output.moment_of(self.from_time)}: about {cost.transactions} transactions,"
            f" {cost.calls} calls, {_duration(cost.seconds)} at {self.calls_per_s:g} a second"
        )
        return found

    async def _begin(self, market: Market, before: HistoryJob | None, found: Survey | None) -> int:
        """Begin or resume the backfill; return the approximate number of transactions.

        before   the backfill of the mint that was stored before the survey
        found    the survey; None if *before* is to be resumed
        Raises   ValueError if the stored backfill is another one now, which cannot be resumed
        """
        job = await market.history.one(self.mint)
        if found is not None and job == before:
            await market.history.begin(self.mint, self.from_time, found.addresses)
            return found.cost.transactions
        if job is None or not job.goes_on(self.from_time):
            raise ValueError(
                f"another backfill of {self.mint} was started or has ended in the meantime: run the"
                " same command again"
            )
        self.from_time = job.from_time
        typer.echo(f"going on: {job.read} of {job.listed} transactions are read")
        return job.listed

    async def _joined(self, market: Market) -> Stage:
        """Wait up to a minute until ingest joins the backfill to the market; return its stage.

        The stage is READY if ingest has not joined it by then.  If the stage is READING, the log
        lacks swaps after the backfill, and more must be read; in this case, wait AGAIN_S more.
        Raises ValueError if the mint is no longer tracked.
        """
        stage = Stage.READY
        for _ in range(int(JOIN_WAIT_S / LOOK_S)):
            job = await market.history.one(self.mint)
            if job is None:
                raise ValueError(f"{self.mint} is no longer tracked")
            stage = job.stage
            if stage is not Stage.READY:
                break
            await asyncio.sleep(LOOK_S)
        if stage is Stage.READING:
            await asyncio.sleep(AGAIN_S)  # the log lacks swaps after the backfill: read more
        return stage

    async def _report(self, market: Market, stage: Stage, calls: int) -> None:
        tracked = await market.tracking.one(self.mint)
        since = None if tracked is None else tracked.since_time
        at = output.moment_of(since or self.from_time)
        if stage is Stage.JOINED:
            typer.echo(f"joined: tracked since {at} ({calls} calls)")
        else:
            typer.echo(f"read ({calls} calls); it is joined once `mintscope ingest` runs")


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / MINUTE_S), 60)
    return f"{hours} h {minutes} min" if hours or minutes else f"{seconds:.0f} s"


COLUMNS: Final = ("t", "open", "high", "low", "close", "volume")
CANDLES_MAX: Final = 200_000
TIME_MAX: Final = 1 << 33
VOLUME_USD_MAX: Final = 1e9


@history_commands.command("import")
def import_candles(
    mint: TrackedMint,
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "CSV with the columns t,open,high,low,close,volume, in USD; t is the start of a"
                " candle."
            ),
            metavar="FILE.csv",
        ),
    ],
    *,
    timeframe: Annotated[
        Timeframe, typer.Option(metavar="TIMEFRAME", help="Width of a candle: m1, m5, m15 or h1.")
    ],
    config: ConfigFile = None,
) -> None:
    """Put the candles of a file before the service's first own candle of MINT.

    Imported candles never replace the service's candles, and are marked as imported. Works while
    the service runs: ingest joins them once it has made a candle of MINT.
    """
    parsed = output.read_mint(mint)
    try:
        candles = _read(file, timeframe)
        with_market(
            config, lambda market: market.imports.add(parsed, timeframe, file.name, candles)
        )
    except (BadTable, CannotImport) as error:
        output.stop(output.visible(str(error)))
    typer.echo(
        f"{len(candles)} candles of {timeframe} wait for ingest; mintscope tokens show {mint}"
    )


def _read(path: Path, timeframe: Timeframe) -> list[ImportedCandle]:
    """Return the candles of *path*.  Raises BadTable, CannotImport."""
    found: dict[int, ImportedCandle] = {}
    for row in rows(path, COLUMNS):
        at = row.integer("t", 0, TIME_MAX)
        open_, high, low, close = (row.number(name, PRICE_USD_MAX) for name in COLUMNS[1:5])
        volume = round(row.number("volume", VOLUME_USD_MAX) * MICRO_USD)
        candle = ImportedCandle(UnixS(at), open_, high, low, close, volume)
        expect_candle(candle, timeframe)
        if at in found:
            raise row.bad("t", "each candle once")
        found[at] = candle
        if len(found) > CANDLES_MAX:
            raise CannotImport(f"expected at most {CANDLES_MAX} candles")
    if not found:
        raise CannotImport(f"{path}: expected candles; there is none")
    return [found[at] for at in sorted(found)]
