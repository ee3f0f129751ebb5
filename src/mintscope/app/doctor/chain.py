"""Checks of the doctor: chain, node, coverage, and the peg of dollar tokens."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mintscope.app import sources
from mintscope.app.cli.config import shown
from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config, GeyserConfig
from mintscope.app.doctor.finding import Finding, collect, fail, ok, read_from, warn
from mintscope.app.stores.stores import Market, open_market, place_of
from mintscope.dex.recognition import named
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.primitives import MICRO_USD, Mint, Slot, UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market import coverage as exchanges
from mintscope.market.quotes import PEG_FRESH_S, PEG_MAX, RATE_LATE_S, off_peg
from mintscope.payments.price_cache import minutes_of
from mintscope.solana.blocks import WSOL, SourceError
from mintscope.solana.finality_meter import Finality
from mintscope.solana.pace import Pace

MAINNET: Final = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
SKEW_S_MAX: Final = 5
FINAL_S_MAX: Final = 40  # a longer delay of finality is a warning; 13 s were usual before Alpenglow
TOO_MANY: Final = "HTTP 429"


def check_chain(config: Config) -> Iterator[Finding]:
    """Check the files of blocks, or the Solana node and, for "geyser", the gRPC servers."""
    if config.chain.source == "files":
        for path in config.chain.files:
            yield asyncio.run(_file(path))
    else:
        yield from collect(_node(config.chain, SystemClock()))
        if config.chain.source == "geyser":
            yield from collect(_streams(config.geyser))


async def _file(path: Path) -> Finding:
    try:
        if await sources.holds_blocks(path):
            return ok(f"blocks: {path} can be read")
    except SourceError as error:
        return fail(f"blocks: {error}", "see chain.files")
    return fail(f"blocks: {path} holds no block", "see chain.files")


async def _node(chain: ChainConfig, clock: Clock) -> AsyncIterator[Finding]:
    where = f"node: {shown(chain.rpc_url)}"
    try:
        async with sources.probed_node(chain, clock) as rpc:
            yield _cluster(where, health=await rpc.health(), genesis=await rpc.genesis_hash())
            head = await rpc.slot(sources.Commitment.CONFIRMED)
            yield _clock(head, await rpc.block_time(head), clock)
            pace = await rpc.pace()
            yield _pace(pace)
            yield _finality(
                await sources.finality_of(rpc, pace), knows_confirmed=rpc.knows_confirmed
            )
            yield _block(
                head, await sources.probe_block(rpc, head, clock), chain.requests_in_flight, pace
            )
    except SourceError as error:
        if error.is_refusal:
            yield fail(f"{where} refuses: {error}", "check chain.rpc_url and chain.rpc_headers")
        else:
            fix = "check that the node runs, and that chain.rpc_url names it"
            if TOO_MANY in str(error):
                fix = (
                    "the node's plan is used up: mintscope doctor --node shows how many calls are"
                    " needed"
                )
            yield fail(f"{where} does not answer: {error}", fix)


async def _streams(geyser: GeyserConfig) -> AsyncIterator[Finding]:
    """Request the version of each stream server, to test the connection and the x-token."""
    # Imported only here, because grpcio and protobuf are an optional extra.
    from mintscope.app.stream import versions  # noqa: PLC0415 - see above

    async for where, version, said in versions(geyser):
        if version is None:
            fix = "check geyser.urls and geyser.x_tokens, and that the plan includes gRPC"
            yield fail(f"stream: {where} does not answer: {said:.200}", fix)
        else:
            yield ok(f"stream: {where} serves, version {version:.80}")


def _cluster(where: str, *, health: str, genesis: str) -> Finding:
    if health != "ok":
        return warn(
            f"{where} reports: {health!r:.80}",
            "wait until the node is healthy, or choose another node",
        )
    if genesis != MAINNET:
        return warn(f"{where} is not mainnet: genesis {genesis:.44}", "suitable only for tests")
    return ok(f"{where} is up, mainnet")


def _clock(head: Slot, time: UnixS | None, clock: Clock) -> Finding:
    if time is None:
        return warn(f"clock: the node gives no time for slot {head}", "choose another provider")
    skew_s = clock.now() / 1000 - time
    what = f"clock: {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} block {head}"
    fix = "does the node lag? Compare it with another; if not, set this machine's clock by NTP"
    return warn(what, fix) if abs(skew_s) > SKEW_S_MAX else ok(what)


def _pace(pace: Pace | None) -> Finding:
    if pace is None:
        fix = "choose a node that supports getRecentPerformanceSamples or getBlockTime"
        return warn("pace: the node does not know how long a slot takes", fix)
    return ok(f"pace: {pace.slot_s * 1000:.0f} ms a slot, over the last {pace.over_s:.0f} s")


def _finality(finality: Finality, *, knows_confirmed: bool) -> Finding:
    cluster = {
        True: "the cluster is on Alpenglow",
        False: "the cluster is not on Alpenglow yet",
        None: "the node does not know whether the cluster is on Alpenglow",
    }[finality.alpenglow]
    behind = finality.behind
    if not knows_confirmed:
        return ok(
            "finality: the node does not know the level confirmed: blocks are read, and payments"
            f" taken, once they are final; {cluster}"
        )
    if behind is None:
        return ok(f"finality: not measured, as the pace is not known; {cluster}")
    late = f"{behind.slots} slots ({behind.seconds * 1000:,.0f} ms) behind confirmed"
    what = f"finality: {late}; {cluster}"
    fix = "does the cluster finalize? If it does, choose another node"
    return warn(what, fix) if behind.seconds > FINAL_S_MAX else ok(what)


def _block(head: Slot, block: sources.BlockProbe, in_flight: int, pace: Pace | None) -> Finding:
    if block.absence is not None:
        fix = (
            "run doctor again; if the result is the same, set chain.second_rpc_url or change"
            " chain.rpc_url"
        )
        return warn(f"blocks: the node has no block {head}: {block.absence}", fix)
    what = f"blocks: {block.transactions} transactions of slot {head} took {block.took_s:.2f} s"
    # Ingest requests *in_flight* blocks at a time, so each may take as many slots.
    is_slow = pace is not None and block.took_s > pace.slot_s * in_flight
    fix = "too slow to keep up: raise chain.requests_in_flight"
    return warn(what, fix) if is_slow else ok(what)


SHOWN_MAX: Final = 5
HOURS: Final = exchanges.DAY_HOURS + exchanges.WINDOW_HOURS
# An unlisted program with less than this share of the volume causes no warning.
UNLISTED_WARN: Final = 0.01
LOOK: Final = "mintscope programs --unread names the instructions; look for a newer mintscope"
NAME_IT: Final = "its swaps are read from transfers; dex.programs gives the program a name"


def check_coverage(config: Config) -> Iterator[Finding]:
    """Check the share of token exchanges that was read, lately and in the last 26 hours."""
    if place_of(config, "market").is_new:
        return
    try:
        coverage = read_from(
            open_market(config),
            lambda market: market.reader.coverage(HOURS),
        )
    except (UnusableStore, ServiceUnavailable):
        return  # `check_market` reports this
    if coverage is not None:
        yield from findings(coverage, config.api.read_share_min)


def findings(coverage: exchanges.Coverage, share_min: float) -> Iterator[Finding]:
    """Yield findings about the share of token exchanges that was read.

    The newest two hours and the last 26 hours are examined.

    share_min   the least share of volume and of calls, 0 to 1; a warning is yielded if less was
                read in the newest two hours
    """
    since = exchanges.window_start(coverage.time)
    now = exchanges.totals(coverage.after(since))
    day = exchanges.totals(coverage.rows)
    if not day.all.calls:
        yield ok(f"coverage: no tokens were exchanged within the last {HOURS} hours")
        return
    yield _shares(coverage, share_min)
    for jump in exchanges.jumps(coverage):
        missed = jump.now.missed.calls
        calls = jump.now.all.calls
        yield warn(
            f"coverage: {jump.program}: {missed:,} of {calls:,} calls missed since {_since(since)},"
            f" {jump.before.missed.calls:,} of {jump.before.all.calls:,} in the day before",
            "the program was probably upgraded: look for a newer mintscope",
        )
    recent = {one.program: one.missed for one in exchanges.missed_programs(coverage.after(since))}
    for one in _most_missed(coverage, since):
        tally = recent.get(one.program, exchanges.Tally())
        yield warn(
            f"coverage: {one.program} is missed ({', '.join(one.reasons)}):"
            f" {_amounts(tally, now.all)} since {_since(since)},"
            f" {_amounts(one.missed, day.all)} in the last {HOURS} hours",
            LOOK,
        )
    recently = dict(exchanges.unlisted_programs(coverage.after(since)))
    for program, tally in exchanges.unlisted_programs(coverage.rows)[:SHOWN_MAX]:
        what = (
            f"coverage: {named(program)} is not in the table:"
            f" {_amounts(recently.get(program, exchanges.Tally()), now.all)} since {_since(since)},"
            f" {_amounts(tally, day.all)} in the last {HOURS} hours"
        )
        is_large = tally.volume >= UNLISTED_WARN * max(1, day.all.volume)
        yield warn(what, NAME_IT) if is_large else ok(what)


def _most_missed(coverage: exchanges.Coverage, since: UnixS) -> list[exchanges.MissedProgram]:
    """Return the programs with the most missed volume, with their numbers of all hours.

    These are the first SHOWN_MAX programs of all hours of *coverage*, and the first SHOWN_MAX of
    the hours from *since* on, in the order of `missed_programs` for all hours.
    """
    day = exchanges.missed_programs(coverage.rows)
    lately = [one.program for one in exchanges.missed_programs(coverage.after(since))[:SHOWN_MAX]]
    shown = dict.fromkeys([*lately, *(one.program for one in day[:SHOWN_MAX])])
    return [one for one in day if one.program in shown]


def _shares(coverage: exchanges.Coverage, share_min: float) -> Finding:
    since = exchanges.window_start(coverage.time)
    lately = exchanges.totals(coverage.after(since)).shares
    day = exchanges.totals(coverage.rows).shares
    what = (
        f"coverage: since {_since(since)} {_share(lately.by_volume)} of the volume and"
        f" {_share(lately.by_calls)} of the calls that exchanged tokens were read; in the last"
        f" {HOURS} hours {_share(day.by_volume)} and {_share(day.by_calls)}"
    )
    known = [share for share in lately if share is not None]
    if known and min(known) < share_min:
        return warn(what, f"expected {exchanges.percent(share_min)} (api.read_share_min); {LOOK}")
    return ok(what)


def _share(share: float | None) -> str:
    return "nothing" if share is None else exchanges.percent(share)


def _amounts(tally: exchanges.Tally, whole: exchanges.Tally) -> str:
    calls = "1 call" if tally.calls == 1 else f"{tally.calls:,} calls"
    said = f"{calls}, {tally.volume // MICRO_USD:,} USD"
    if tally.calls > tally.valued:
        said += f" (known of {tally.valued:,})"
    part = tally.volume / whole.volume if whole.volume else 0.0
    return f"{said}, {part:.2%} of the volume".replace("%", " %")


def _since(at: UnixS) -> str:
    return f"{at // HOUR_S % exchanges.DAY_HOURS:02}:00 UTC"


BEHIND_S_MAX: Final = 1.6
BEHIND_MAX: Final = 8  # blocks that the node may be behind, if the duration of a slot is unknown
MONTH_DAYS: Final = 30
MB: Final = 1_000_000


def check_node(config: Config, seconds: float, units_a_month: int | None) -> Iterator[Finding]:
    """Watch the node for *seconds*; yield measurements, and whether the node is good enough.

    units_a_month   the calls that the plan of the node includes in a month; None if unknown
    """
    chain = config.chain
    where = f"node: {shown(chain.rpc_url)}"
    try:
        watch = asyncio.run(sources.watch_node(chain, SystemClock(), seconds))
    except SourceError as error:
        yield fail(f"{where} is not suitable: {error}", "check chain.rpc_url and chain.rpc_headers")
        return
    if watch.genesis_hash != MAINNET:
        yield warn(
            f"{where} is not mainnet: genesis {watch.genesis_hash:.44}", "suitable only for tests"
        )
    runs = f"runs version {watch.software:.40}" if watch.software else "does not report its version"
    yield ok(f"{where} {runs}; newest transaction version asked for {watch.version}")
    yield _history(watch)
    yield _load(watch)
    yield from _plan(units_a_month, watch)
    if reasons := _reasons(watch, chain.requests_in_flight):
        yield fail(
            f"no, {where} is not suitable: {'; '.join(reasons)}", "choose another node or plan"
        )
    else:
        yield ok(f"yes, {where} is suitable")


def _history(watch: sources.NodeWatch) -> Finding:
    slots = watch.head - watch.first_available
    if watch.pace is None:
        what = f"history: reaches back {slots:,} slots, to slot {watch.first_available}"
        return warn(what, "the node does not know how long a slot takes")
    days = watch.pace.seconds(slots) / DAY_S
    what = f"history: reaches back {days:.1f} days, to slot {watch.first_available}"
    return (
        ok(what)
        if days >= 1
        else warn(what, "if the service is down for longer, the missed slots are a gap")
    )


def _load(watch: sources.NodeWatch) -> Finding:
    second = max(watch.seconds, 1e-9)
    if not watch.took_s:
        return warn("blocks: none arrived while the node was watched", "watch for longer")
    return ok(
        f"blocks: {len(watch.took_s)} in {second:.0f} s, p50 {_quantile(watch.took_s, 0.5):.3f} s,"
        f" p99 {_quantile(watch.took_s, 0.99):.3f} s, {watch.raw_bytes / second / MB:.2f} MB/s raw,"
        f" {watch.wire_bytes / second / MB:.2f} MB/s on the wire, {watch.behind} behind at the end"
    )


def _plan(units_a_month: int | None, watch: sources.NodeWatch) -> Iterator[Finding]:
    calls_a_day = watch.calls_a_day
    second = f"{watch.seconds:.0f} s"
    what = f"calls: {watch.calls} in {second}; ingest makes about {calls_a_day:,} a day"
    if units_a_month is None:
        yield ok(what)
        return
    days = units_a_month / calls_a_day
    what = f"{what}: {units_a_month:,} units last {days:.1f} days at one unit a call"
    yield ok(what) if days >= MONTH_DAYS else warn(what, "choose a larger plan")


def _reasons(watch: sources.NodeWatch, in_flight: int) -> Sequence[str]:
    reasons = []
    if watch.failures:
        reasons.append(f"{len(watch.failures)} requests had no answer ({watch.failures[0]})")
    if not watch.took_s:
        return [*reasons, "the node returned no block"]
    a_second = in_flight / max(_quantile(watch.took_s, 0.5), 1e-9)
    if watch.pace is not None and a_second * watch.pace.slot_s < 1:
        was = f"{a_second:.2f} blocks/s with {in_flight} in flight"
        reasons.append(f"expected {1 / watch.pace.slot_s:.2f} blocks/s; was {was}")
    if watch.pace is None and watch.behind > BEHIND_MAX:
        reasons.append(f"it ended {watch.behind} blocks behind")
    if watch.pace is not None and watch.behind > watch.pace.slots(BEHIND_S_MAX):
        behind_s = watch.pace.seconds(watch.behind)
        reasons.append(f"it ended {watch.behind} blocks behind, {behind_s:.1f} s")
    return reasons


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


FRESH_MINUTES: Final = PEG_FRESH_S // MINUTE_S
WHAT_FOLLOWS: Final = (
    "this token prices nothing until its price is back; if it stays off, remove it from"
    " market.dollars"
)


def check_dollars(config: Config) -> Iterator[Finding]:
    """Check that SOL has a recent price, and that no dollar token deviates from the others."""
    if place_of(config, "market").is_new:
        return
    with suppress(UnusableStore, ServiceUnavailable):  # `check_market` reports this
        dollars = frozenset(map(Mint, config.market.dollars))
        prices, sol_age_s = read_from(open_market(config), lambda market: _prices(market, dollars))
        if sol_age_s > RATE_LATE_S:
            yield fail(
                f"rate: SOL was not traded against a dollar for {sol_age_s} s, so prices do not"
                " change",
                "see docs/operating/troubleshoot.md#sol-has-no-rate",
            )
        yield from dollar_findings(prices, dollars)


async def _prices(market: Market, dollars: frozenset[Mint]) -> tuple[dict[Mint, float], int]:
    """Return the last USD prices of *dollars* traded lately, and the age of SOL's last trade.

    A token was traded lately if its last minute with a trade began at most PEG_FRESH_S before the
    tip.  The age is the seconds from the end of the last minute with a trade of SOL to the tip; it
    is 0 if there is no such minute, or if the tip is not after its end.  If the log has no tip,
    return no price and 0.
    """
    prices: dict[Mint, float] = {}
    tip = await market.reader.tip()
    if tip.time is None:
        return prices, 0
    sol = await market.reader.load(WSOL)
    traded = [] if sol is None else minutes_of(sol)
    sol_age_s = max(0, tip.time - traded[-1].start - MINUTE_S) if traded else 0
    for dollar in sorted(dollars):
        loaded = await market.reader.load(dollar)
        minutes = [] if loaded is None else minutes_of(loaded)
        if minutes and tip.time - minutes[-1].start <= PEG_FRESH_S:
            prices[dollar] = minutes[-1].close
    return prices, sol_age_s


def dollar_findings(prices: Mapping[Mint, float], dollars: frozenset[Mint]) -> Iterator[Finding]:
    """Yield a finding for each dollar token whose price is over 1 % from the median of all.

    If there is none, or if too few prices are known, yield one finding that says so.
    """
    off = {mint: share for mint, share in off_peg(prices, dollars).items() if mint in prices}
    if not off:
        yield ok(
            f"dollars: too few are followed here and traded within {FRESH_MINUTES} minutes to"
            " compare them; the metric mintscope_dollar_off_peg knows those that are not followed"
        )
        return
    wrong = {mint: share for mint, share in off.items() if abs(share) > PEG_MAX}
    for mint, share in sorted(wrong.items()):
        where = "above" if share > 0 else "below"
        what = f"dollars: {mint} is {abs(share):.1%} {where} the median of all".replace("%", " %")
        yield warn(what, WHAT_FOLLOWS)
    if not wrong:
        yield ok(f"dollars: the {len(off)} that traded lately are within 1 % of their median")
