"""`mintscope doctor --node`: whether a node will do, by following it for a while."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from mintscope.base.clock import SystemClock
from mintscope.base.solana import SourceError
from mintscope.base.time import DAY_S
from mintscope.shell.cli.config import shown
from mintscope.shell.cli.doctor.chain import MAINNET
from mintscope.shell.cli.doctor.finding import Finding, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.sources.node_watch import NodeWatch, watch_node

BEHIND_S_MAX: Final = 1.6
BEHIND_MAX: Final = 8  # blocks, if the node does not know how long a slot takes
MONTH_DAYS: Final = 30
MB: Final = 1_000_000


def check_node(config: Config, seconds: float, units_a_month: int | None) -> Iterator[Finding]:
    """Watch the node for *seconds*; yield what was seen, and yes or no at the end."""
    chain = config.chain
    where = f"node: {shown(chain.rpc_url)}"
    try:
        watch = asyncio.run(watch_node(chain, SystemClock(), seconds))
    except SourceError as error:
        yield fail(f"{where} will not do: {error}", "check chain.rpc_url and chain.rpc_headers")
        return
    if watch.genesis_hash != MAINNET:
        yield warn(f"{where} is not mainnet: genesis {watch.genesis_hash:.44}", "fine for a test")
    runs = f"runs version {watch.software:.40}" if watch.software else "does not say its version"
    yield ok(f"{where} {runs}; newest transaction version asked for {watch.version}")
    yield _history(watch)
    yield _load(watch)
    yield from _plan(units_a_month, watch)
    reasons = _reasons(watch, chain.requests_in_flight)
    if reasons:
        yield fail(f"no, {where} will not do: {'; '.join(reasons)}", "choose another node or plan")
    else:
        yield ok(f"yes, {where} will do")


def _history(watch: NodeWatch) -> Finding:
    slots = watch.head - watch.first_available
    if watch.pace is None:
        what = f"history: reaches back {slots:,} slots, to slot {watch.first_available}"
        return warn(what, "the node does not know how long a slot takes")
    days = watch.pace.seconds(slots) / DAY_S
    what = f"history: reaches back {days:.1f} days, to slot {watch.first_available}"
    return ok(what) if days >= 1 else warn(what, "a longer absence than that is a gap")


def _load(watch: NodeWatch) -> Finding:
    second = max(watch.seconds, 1e-9)
    if not watch.took_s:
        return warn("blocks: none came while it was watched", "watch for longer")
    return ok(
        f"blocks: {len(watch.took_s)} in {second:.0f} s, p50 {_share(watch.took_s, 0.5):.3f} s,"
        f" p99 {_share(watch.took_s, 0.99):.3f} s, {watch.raw_bytes / second / MB:.2f} MB/s raw,"
        f" {watch.wire_bytes / second / MB:.2f} MB/s on the wire, {watch.behind} behind at the end"
    )


def _plan(units_a_month: int | None, watch: NodeWatch) -> Iterator[Finding]:
    calls_a_day = watch.calls_a_day
    what = (
        f"calls: {watch.calls} in {watch.seconds:.0f} s; ingest makes about {calls_a_day:,} a day"
    )
    if units_a_month is None:
        yield ok(what)
        return
    days = units_a_month / calls_a_day
    what = f"{what}: {units_a_month:,} units last {days:.1f} days at one unit a call"
    yield ok(what) if days >= MONTH_DAYS else warn(what, "choose a larger plan")


def _reasons(watch: NodeWatch, in_flight: int) -> Sequence[str]:
    """Return why the node will not do."""
    reasons = []
    if watch.failures:
        reasons.append(f"{len(watch.failures)} requests without an answer ({watch.failures[0]})")
    if not watch.took_s:
        return [*reasons, "it gave no block"]
    a_second = in_flight / max(_share(watch.took_s, 0.5), 1e-9)
    if watch.pace is not None and a_second * watch.pace.slot_s < 1:
        was = f"{a_second:.2f} blocks/s with {in_flight} in flight"
        reasons.append(f"expected {1 / watch.pace.slot_s:.2f} blocks/s; was {was}")
    if watch.pace is None and watch.behind > BEHIND_MAX:
        reasons.append(f"it ended {watch.behind} blocks behind")
    if watch.pace is not None and watch.behind > watch.pace.slots(BEHIND_S_MAX):
        behind_s = watch.pace.seconds(watch.behind)
        reasons.append(f"it ended {watch.behind} blocks behind, {behind_s:.1f} s")
    return reasons


def _share(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
