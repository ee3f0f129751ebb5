"""`mintscope gaps`: which slots no source could deliver, and what was traded in them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from mintscope.base.clock import SystemClock
from mintscope.base.primitives import Mint, Slot
from mintscope.base.solana import WSOL, Gap, SourceError
from mintscope.core.market.history.mending import GapMend
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.history.command import CallsPerS, Giving, RatePools, Yes, days_ago
from mintscope.shell.cli.output import AsJson, print_rows, stop, visible
from mintscope.shell.cli.stores import EXIT_NOT_DONE, with_market
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.sources.history import of_the_second_node, open_past
from mintscope.shell.wiring.sources.mending import is_read, settled
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
    found = with_market(config, lambda market: market.gap_mends.newest(limit))
    columns = ("first", "last", "slots", "reason", "attempts", "given_up", "words")
    print_rows(columns, [_row(each) for each in found], as_json=as_json)


@gap_commands.command()
def fill(
    *,
    rate_pool: RatePools = None,
    calls_per_s: CallsPerS = 10,
    yes: Yes = False,
    config: ConfigFile = None,
) -> None:
    """Find the blocks of open gaps, and read again the past of the tokens that traded in them.

    The node is chain.second_rpc_url, else chain.rpc_url. The cost of each past is shown and
    confirmed. Works while the service runs; the same command goes on where it was. Exits with 1
    while a gap is left open.
    """
    settings = configured(config).config
    if settings.chain.source == "files":
        stop("gaps are filled from a node: chain.source is files")
    filling = Filling(
        config=of_the_second_node(settings),
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
        first_settled = await settled(market.reader, gap.last)
        if folded is None or first_settled is None or folded < first_settled:
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
        """Read the past of *mint* again if it was not since *slot*; return whether it is joined."""
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
    first_settled = await settled(market.reader, slot)
    return first_settled is not None and await is_read(market.history_jobs, mint, first_settled)


def _row(mend: GapMend) -> Sequence[str | int]:
    gap = mend.gap
    is_given_up = mend.given_up_at is not None
    slots = gap.last - gap.first + 1
    return gap.first, gap.last, slots, gap.reason, mend.attempts, is_given_up, mend.words


def _named(gap: Gap) -> str:
    return f"slots {gap.first} to {gap.last}"
