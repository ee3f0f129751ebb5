"""`mintscope gaps`: which slots no source could deliver, and what was traded in them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from mintscope.base.clock import SystemClock
from mintscope.base.pace import WINDOW_S, PaceMeter
from mintscope.base.primitives import Mint, Slot
from mintscope.base.solana import WSOL, Gap, SourceError
from mintscope.core.market.history.store import Stage
from mintscope.core.market.pricing import RATE_WINDOW_S
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.history.command import CallsPerS, Giving, RatePools, Yes, days_ago
from mintscope.shell.cli.output import AsJson, print_rows, stop, visible
from mintscope.shell.cli.stores import EXIT_NOT_DONE, with_market
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.sources.history import open_past
from mintscope.shell.wiring.stores import Market

GAPS_MAX: Final = 1_000  # looked through by one command

app = typer.Typer()
gap_commands = typer.Typer(help="Which slots no source could deliver.", no_args_is_help=True)
app.add_typer(gap_commands, name="gaps")


@gap_commands.callback()
def gaps() -> None:
    """Which slots no source could deliver."""


@gap_commands.command("list")
def list_gaps(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="COUNT", help="At most so many.")
    ] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the newest gaps that are open: candles lack the swaps of their slots."""
    found = with_market(config, lambda market: market.reader.gaps(limit))
    rows = [(gap.first, gap.last, gap.last - gap.first + 1, gap.reason) for gap in found]
    print_rows(("first", "last", "slots", "reason"), rows, as_json=as_json)


@gap_commands.command()
def fill(
    *,
    rate_pool: RatePools = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Find the blocks of open gaps, and read the past of the tokens that traded in them anew.

    The node is chain.second_rpc_url, else chain.rpc_url. What each past will cost is said and
    asked. Works while the service runs; the same command goes on where it was. Exits with 1 while
    a gap is left open.
    """
    settings = configured(config).config
    if settings.chain.source == "files":
        stop("gaps are filled from a node: chain.source is files")
    filling = Filling(
        config=_of_the_second_node(settings),
        rate_pools=rate_pool or [],
        calls_per_s=calls_per_s,
        yes=yes,
    )
    try:
        is_done = with_market(config, filling.run)
    except SourceError as error:
        stop(visible(str(error)), EXIT_NOT_DONE)
    if not is_done:
        raise typer.Exit(EXIT_NOT_DONE)


@dataclass(frozen=True, kw_only=True)
class Filling:
    """One run of the command; its node is the first one of *config*."""

    config: Config
    rate_pools: Sequence[str]
    calls_per_s: float
    yes: bool

    async def run(self, market: Market) -> bool:
        """Fill what can be; return whether no gap is left open."""
        gaps = await market.reader.gaps(GAPS_MAX)
        traded = {
            gap: found for gap in gaps if (found := await self._look(market, gap)) is not None
        }
        newest: defaultdict[Mint, Slot] = defaultdict(lambda: Slot(0))
        for gap, mints in traded.items():
            for mint in mints:
                newest[mint] = max(newest[mint], gap.last)
        read = {mint for mint, slot in newest.items() if await self._read(market, mint, slot)}
        for gap, mints in traded.items():
            if mints <= read:
                await market.history_jobs.filled(gap, SystemClock().now())
                typer.echo(f"{_named(gap)}: filled")
        left = len(await market.reader.gaps(GAPS_MAX))
        typer.echo(f"{left} gaps are left open" if left else "no gap is open")
        return left == 0

    async def _look(self, market: Market, gap: Gap) -> set[Mint] | None:
        """Return the followed mints that traded in *gap*, None where it cannot be filled now."""
        folded = (await market.reader.overview()).folded_slot
        settled = await _settled(market, gap.last)
        if folded is None or settled is None or folded < settled:
            typer.echo(f"{_named(gap)}: too new to be filled; try again in two minutes")
            return None
        try:
            async with open_past(self.config, market, self.calls_per_s) as reading:
                mints = await reading.traded(gap)
        except SourceError as error:
            typer.echo(f"{_named(gap)}: {visible(str(error))}")
            return None
        followed = {mint for mint in mints if await market.tracking.one(mint) is not None}
        rest = "; the volume of SOL stays short of it" if WSOL in followed else ""
        followed.discard(WSOL)
        typer.echo(f"{_named(gap)}: {len(followed)} followed tokens traded{rest}")
        return followed

    async def _read(self, market: Market, mint: Mint, slot: Slot) -> bool:
        """Read the past of *mint* anew if it was not since *slot*; return whether it is joined."""
        if await _is_read(market, mint, slot):
            return True
        giving = Giving(
            mint=mint,
            from_time=days_ago(0),
            rate_pools=self.rate_pools,
            calls_per_s=self.calls_per_s,
            yes=self.yes,
            again=True,
        )
        typer.echo(f"{mint}:")
        try:
            await giving.run(market, self.config)
        except (SourceError, ValueError) as error:
            typer.echo(visible(str(error)), err=True)
        return await _is_read(market, mint, slot)


async def _is_read(market: Market, mint: Mint, slot: Slot) -> bool:
    job = await market.history_jobs.one(mint)
    return (
        job is not None
        and job.stage is Stage.JOINED
        and job.slot is not None
        and (settled := await _settled(market, slot)) is not None
        and job.slot >= settled
    )


async def _settled(market: Market, slot: Slot) -> Slot | None:
    """Return the first slot whose rate of SOL rests on no swap of *slot* any more.

    None while the log holds too few blocks to tell the pace of the chain.
    """
    pace = PaceMeter(await market.reader.seconds(WINDOW_S)).pace
    return None if pace is None else Slot(slot + pace.slots(RATE_WINDOW_S))


def _named(gap: Gap) -> str:
    return f"slots {gap.first} to {gap.last}"


def _of_the_second_node(config: Config) -> Config:
    """Return *config* with the second node, if there is one, in the place of the first."""
    chain = config.chain
    if chain.second_rpc_url is None:
        return config
    second = chain.model_copy(update={"rpc_url": chain.second_rpc_url, "rpc_headers": {}})
    return config.model_copy(update={"chain": second})
