"""`mintscope history`: give a mint its past."""

import asyncio
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typing_extensions import override

from mintscope.base.clock import SystemClock
from mintscope.base.errors import InvalidTokenAddress
from mintscope.base.primitives import Mint, UnixMs, UnixS, parse_mint
from mintscope.base.solana import WSOL, SourceError
from mintscope.base.time import DAY_S, MINUTE_S, SECOND_MS
from mintscope.core.market.engine.fold import read_state
from mintscope.core.market.history.store import HistoryJob, Stage
from mintscope.core.market.store import TrackedMint
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.history.bar import Bar
from mintscope.shell.cli.output import moment, refusing, stop, visible
from mintscope.shell.cli.stores import EXIT_NOT_DONE, with_market
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.sources.history import Cost, PastReading, open_past
from mintscope.shell.wiring.stores import Market

DAYS_MAX: Final = 180
JOIN_WAIT_S: Final = 60
LOOK_S: Final = 0.5
AGAIN_S: Final = 5.0

app = typer.Typer()


class _ReadUnlessNamed(TyperGroup):
    """`history MINT` reads; `history import MINT` imports."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "--help", "-h"}:
            args = ["read", *args]
        return list(super().parse_args(ctx, args))


history_commands = typer.Typer(
    cls=_ReadUnlessNamed, help="Give a mint its past.", no_args_is_help=True
)
app.add_typer(history_commands, name="history")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Read without asking.")]
CallsPerS = Annotated[
    float,
    typer.Option(
        "--calls-per-s",
        min=0.1,
        max=10_000,
        metavar="CALLS",
        help="Requests a second that are allowed.",
    ),
]


@history_commands.callback()
def history() -> None:
    """Give a mint its past: read it from the chain, or import candles."""


@history_commands.command()
def read(
    mint: Annotated[str, typer.Argument(help="A tracked mint address.", metavar="MINT")],
    *,
    days: Annotated[
        float, typer.Option(min=0.01, max=DAYS_MAX, metavar="DAYS", help="How far back.")
    ] = 10,
    pool: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A pool of MINT; by default those that are found."),
    ] = None,
    rate_pool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="A pool of SOL and dollars; by default the busiest in the log."
        ),
    ] = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Read the past of MINT from the node, and join it to what is followed.

    Says what it will cost, and asks. Works while the service runs. Cut off anywhere, the same
    command goes on where it was.
    """
    with refusing("MINT", InvalidTokenAddress):
        parsed = parse_mint(mint)
    give_past(
        parsed, config, days=days, pools=pool or [], rate_pools=rate_pool or [],
        calls_per_s=calls_per_s, yes=yes,
    )  # fmt: skip


def give_past(
    mint: Mint,
    config: ConfigFile,
    *,
    days: float,
    pools: list[str],
    rate_pools: list[str],
    calls_per_s: float,
    yes: bool,
) -> None:
    """Read the past of *mint*, as `history MINT` does; ends the command where it cannot."""
    settings = configured(config).config
    if settings.chain.source == "files":
        stop("a past is read from a node: chain.source is files")
    if mint == WSOL:
        stop("expected another mint: every price rests on that of SOL, which is followed always")
    from_time = UnixS(SystemClock().now() // SECOND_MS - int(days * DAY_S))
    giving = _Giving(mint, from_time, pools, rate_pools, calls_per_s=calls_per_s, yes=yes)
    try:
        with_market(config, lambda market: giving.run(market, settings))
    except ValueError as error:
        stop(visible(str(error)))
    except SourceError as error:
        stop(f"{visible(str(error))}\nThe same command goes on where it was.", EXIT_NOT_DONE)


class _Giving:
    """One run of the command."""

    def __init__(
        self,
        mint: Mint,
        from_time: UnixS,
        pools: list[str],
        rate_pools: list[str],
        *,
        calls_per_s: float,
        yes: bool,
    ) -> None:
        self._mint = mint
        self._from_time = from_time
        self._pools = pools
        self._rate_pools = rate_pools
        self._calls_per_s = calls_per_s
        self._yes = yes

    async def run(self, market: Market, config: Config) -> None:
        """Survey, ask, read, and wait until ingest has joined what was read."""
        _expect_a_past(await market.tracking.one(self._mint), self._mint, self._from_time)
        async with open_past(config, market, self._calls_per_s) as reading:
            job = await market.history_jobs.one(self._mint)
            if job is not None and _goes_on(job, self._from_time):
                self._from_time, total = job.from_time, job.listed
                typer.echo(f"going on: {job.read} of {job.listed} transactions are read")
            else:
                total = (await self._begin(market, reading)).transactions
            with Bar(total) as bar:
                stage = Stage.READING
                while stage is Stage.READING:
                    missing = await reading.read(self._mint, self._from_time, bar)
                    bar.say("read; waiting for ingest to join it")
                    stage = await self._joined(market)
        await self._report(market, stage, reading.calls)
        if missing:
            typer.echo(left_out(missing), err=True)

    async def _begin(self, market: Market, reading: PastReading) -> Cost:
        addresses = await reading.addresses(
            self._mint, pools=self._pools, rate_pools=self._rate_pools
        )
        for address, kind in addresses.items():
            typer.echo(f"{address}  {kind}")
        oldest = await reading.oldest()
        if oldest is not None and oldest > self._from_time:
            typer.echo(f"the node reaches back to {_at(oldest)}")
            self._from_time = oldest
        cost = await reading.cost(addresses, self._from_time)
        typer.echo(
            f"from {_at(self._from_time)}: about {cost.transactions} transactions,"
            f" {cost.calls} calls, {_duration(cost.seconds)} at {self._calls_per_s:g} a second"
        )
        if not self._yes and not typer.confirm("Read them?"):
            raise typer.Exit(EXIT_NOT_DONE)
        await market.history_reading.begin(self._mint, self._from_time, addresses)
        return cost

    async def _joined(self, market: Market) -> Stage:
        """Return what became of it: joined, to be read on, or waiting for an ingest that runs."""
        stage = Stage.READY
        for _ in range(int(JOIN_WAIT_S / LOOK_S)):
            job = await market.history_jobs.one(self._mint)
            if job is None:
                raise ValueError(f"{self._mint} is no longer tracked")
            stage = job.stage
            if stage is not Stage.READY:
                break
            await asyncio.sleep(LOOK_S)
        if stage is Stage.READING:
            await asyncio.sleep(AGAIN_S)  # the log began less than a minute before, or moved on
        return stage

    async def _report(self, market: Market, stage: Stage, calls: int) -> None:
        tracked = await market.tracking.one(self._mint)
        since = None if tracked is None else tracked.since_time
        if stage is Stage.JOINED:
            typer.echo(f"joined: followed since {_at(since or self._from_time)} ({calls} calls)")
        else:
            typer.echo(f"read ({calls} calls); it is joined once `mintscope ingest` runs")


def left_out(missing: int) -> str:
    """Say that the node did not give *missing* transactions, and what that means."""
    transactions = "1 transaction" if missing == 1 else f"{missing} transactions"
    return f"{transactions} that the node lists it did not give: candles lack their swaps"


def _expect_a_past(tracked: TrackedMint | None, mint: Mint, from_time: UnixS) -> None:
    """Raise ValueError where there is nothing to read."""
    if tracked is None:
        raise ValueError(f"{mint} is not tracked: mintscope tokens add {mint}")
    first = 0 if tracked.state is None else int(read_state(tracked.state)["first"][0])
    if 0 < first <= from_time:
        raise ValueError(f"{mint} has candles since {_at(UnixS(first))}: nothing is missing")


def _goes_on(job: HistoryJob, from_time: UnixS) -> bool:
    return job.stage is not Stage.JOINED and abs(job.from_time - from_time) < DAY_S


def _at(time: UnixS) -> str:
    return moment(UnixMs(time * SECOND_MS)) or ""


def _duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / MINUTE_S), 60)
    return f"{hours} h {minutes} min" if hours or minutes else f"{seconds:.0f} s"
