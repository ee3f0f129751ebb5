"""Checks of the doctor: stores and payments."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from mintscope.app import payments as wiring
from mintscope.app.cli.output import moment
from mintscope.app.config.groups import Config
from mintscope.app.config.load import OpenSecret
from mintscope.app.doctor.finding import Finding, collect, fail, ok, read_from, warn
from mintscope.app.engine import engine_of, is_shared
from mintscope.app.stores import stores
from mintscope.credits.invariants import Walked
from mintscope.kit import errors
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.time import DAY_S, MONTHS
from mintscope.market.ports import MarketOverview
from mintscope.market.timeframe import Timeframe
from mintscope.payments.ports import Budget, ChainUnavailable
from mintscope.payments.pricing import Doubt
from mintscope.payments.protocol.envelope import Terms
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope_client.keypair import UnusableKeypair

GIB: Final = 1024**3
# Measured bytes of a candle in SQLite and in PostgreSQL, with its share of indexes and free space.
FILE_CANDLE_BYTES: Final = 120
SERVER_CANDLE_BYTES: Final = 255
ADDED_UP_MAX: Final = 200_000  # entries or accounts; adding up this many takes about 0.3 s


def check_version(config: Config) -> Iterator[Finding]:
    """Warn if the store has pending migrations; do not run them."""
    try:
        found = engine_of(config).waiting_migrations()
    except errors.UnusableStore:  # other checks report this
        return
    if found:
        yield warn(
            f"store: {len(found)} migrations are pending, the first is {found[0]}; the contents of"
            " the store are checked after the migrations",
            "back up, then start the service or run mintscope upgrade",
        )


def fix_of(error: Exception, lost: str = "restore a backup, or use another data_dir") -> str:
    """Return the remedy for *error* of a store; return *lost* if no other remedy is known."""
    if isinstance(error, errors.NeedsUpgrade):
        return "start the service or run mintscope upgrade"
    if isinstance(error, errors.NewerStore):
        return "run the newer mintscope; nothing is lost"
    if isinstance(error, errors.StoreUnavailable | errors.ServiceUnavailable):
        return (
            "check that the database runs, has free space and is not overloaded; there is no sign"
            " of lost data"
        )
    return lost


def check_market(config: Config, clock: Clock | None = None) -> Iterator[Finding]:
    """Check the age of the market's data, its disk space, and its gaps."""
    place = stores.place_of(config, "market")
    if place.is_new:
        yield ok(f"market: {place.name} is made at the first start")
        return
    try:
        overview = read_from(stores.open_market(config), lambda market: market.reader.overview())
    except (errors.UnusableStore, errors.ServiceUnavailable) as error:
        yield fail(f"market: {error}", fix_of(error))
        return
    yield _check_lag(overview, config, clock or SystemClock())
    if overview.candles_a_day is not None:
        yield ok(_disk(overview.candles_a_day, config))
    if not overview.tracked_count:
        yield warn("market: no token is tracked", "mintscope tokens add MINT")
    if overview.gap_count:
        yield _check_gaps(overview, config)


def _check_gaps(overview: MarketOverview, config: Config) -> Finding:
    what = (
        f"market: {overview.gap_count} gaps, {overview.gap_slots} slots without blocks, the"
        f" newest at slot {overview.newest_gap}"
    )
    does_nothing = not config.chain.gap_calls_per_day or overview.follows_files
    if overview.gaps_given_up:
        what += f"; {overview.gaps_given_up} given up"
    elif not does_nothing:
        return warn(
            what,
            "candles lack the swaps of these slots; ingest fills the gaps automatically: mintscope"
            " gaps list shows the progress",
        )
    return warn(
        what,
        (
            "candles lack the swaps of these slots: run mintscope gaps fill, or set a second node"
            " with chain.second_rpc_url"
        ),
    )


def _check_lag(overview: MarketOverview, config: Config, clock: Clock) -> Finding:
    if overview.slot is None or overview.time is None:
        return warn("market: no block yet", "start mintscope serve, and wait for the node")
    age_s = max(0, clock.now() // 1000 - overview.time)
    what = f"market: slot {overview.slot}, {age_s} s old, {overview.tracked_count} tokens tracked"
    if overview.follows_files:
        return ok(f"{what}; its clock is that of the files")
    if age_s > config.api.stale_after_s:
        return fail(
            f"{what}: too old to serve", "check that ingest runs; its log says why it waits"
        )
    if age_s > config.api.degraded_after_s:
        return warn(
            f"{what}: served as degraded",
            "check whether the node is slow: see mintscope_ingest_lag_s",
        )
    return ok(what)


def _disk(candles_a_day: Mapping[Timeframe, int], config: Config) -> str:
    bytes_each = SERVER_CANDLE_BYTES if is_shared(config) else FILE_CANDLE_BYTES
    keep_s = stores.retention_of(config).keep_s
    day = sum(candles_a_day.values())
    kept = sum(count * keep_s[each] // DAY_S for each, count in candles_a_day.items())
    return (
        f"market: a day adds about {day:,} candles, {day * bytes_each / GIB:,.2f} GiB; with the"
        f" settings market.retention_* there are {kept * bytes_each / GIB:,.2f} GiB in the end"
    )


def check_money(config: Config) -> Iterator[Finding]:
    """Check the balances of the credit accounts, and that they were created with this pepper."""
    place = stores.place_of(config, "money")
    pepper = stores.pepper_file(config)
    if place.is_new and config.credits.pepper is None and pepper.exists():
        yield fail(
            f"money: expected {place.name}, as {pepper} is there; the service does not start",
            "restore a backup, or start once with --new if this is meant to be a new installation",
        )
        return
    if place.is_new:
        yield ok(f"money: {place.name} is made at the first start")
        return
    made = "" if stores.has_pepper(config) else "; its pepper is made at the first start"
    empty = ok(f"money: {place.name} is empty{made}")
    try:
        found = read_from(stores.open_money(config, SystemClock()), _sums)
        yield empty if found is None else found
    except (errors.UnusableStore, errors.ServiceUnavailable) as error:
        fix = fix_of(error, "restore database and pepper from the same backup")
        yield fail(f"money: {error}", fix)


async def _sums(money: stores.Money) -> Finding | None:
    """Report whether the balance of each credit account equals the sum of its journal entries.

    If there are more than ADDED_UP_MAX accounts or entries, report the last audit instead, or warn
    that no audit has ended yet.  Return None if the store was never used.
    """
    # The ports of credits would store the hash of the pepper: the store would then not be empty,
    # and `copy` and `restore` would refuse it.
    if not money.is_used():
        return None
    accounts = money.credits  # raises an error if the accounts were created with another pepper
    walked = await money.books.walked()
    if max(walked.entry_count, walked.account_count) > ADDED_UP_MAX:
        return _audited(walked)
    wrong = len(await accounts.contradictions())
    if wrong:
        fix = "stop selling, keep a copy of the file, and report this"
        return fail(f"money: {wrong} account balances do not equal the sum of their entries", fix)
    return ok(f"money: every account equals the sum of its entries{_closed(walked)}")


def _audited(walked: Walked) -> Finding:
    what = (
        f"money: {walked.account_count:,} accounts and {walked.entry_count:,} entries are too many"
        " to add up here"
    )
    if walked.finished_at is None:
        fix = "wait for the audits of an api that sells: see mintscope_audit_entries_left"
        return warn(f"{what}, and no audit has come to their end", fix)
    return ok(
        f"{what}; an audit of all of them ended at {moment(walked.finished_at)}{_closed(walked)}"
    )


def _closed(walked: Walked) -> str:
    """Return the newest closed month of the journal of credits, in words; "" if there is none."""
    if walked.closed is None:
        return ""
    year, number = divmod(walked.closed, MONTHS)
    return f"; {year}-{number + 1:02d} and the months before are closed"


def check_webhooks(config: Config) -> Iterator[Finding]:
    """Report the number of pending webhooks; warn if the oldest is overdue."""
    place = stores.place_of(config, "webhooks")
    if place.is_new or stores.place_of(config, "money").is_new:
        yield ok(f"webhooks: {place.name} is made at the next start")
        return
    try:
        waiting, oldest = read_from(
            stores.open_money(config, SystemClock()),
            lambda money: money.webhooks.read(lambda queue: queue.length()),
        )
    except (errors.UnusableStore, errors.ServiceUnavailable) as error:
        lost = "start the database, or correct the setting `store`"
        if not is_shared(config):
            lost = "restore it from a backup, or move it away: webhooks of a day may be sent again"
        yield fail(f"webhooks: {error}", fix_of(error, lost))
        return
    age_s = 0 if oldest is None else (SystemClock().now() - oldest) // 1000
    if age_s > config.signals.webhook_retry_s:
        what = f"webhooks: {waiting:,} wait, the oldest for {age_s:,} s"
        yield warn(
            what,
            (
                "check that an api process runs and that signals.enabled is set; the log of the api"
                " process has the reason"
            ),
        )
    else:
        yield ok(f"webhooks: {waiting:,} wait")


def check_limits(config: Config) -> Iterator[Finding]:
    """Check that the store of rate limits responds."""
    try:
        is_shared = asyncio.run(stores.expect_limits(config))
    except errors.StoreUnavailable as error:
        yield warn(
            f"limits: their store does not answer: {error}",
            "start it, or correct the setting `store`; each api process admits"
            f" 1/{config.replicas_max} of each",
        )
    except errors.UnusableStore as error:
        yield fail(f"limits: {error}", fix_of(error, "install it, or unset store"))
    else:
        how = "counted together" if is_shared else "counted in the memory of the api process"
        yield ok(f"limits: {how}")


SOL: Final = 10**9


def check_payments(config: Config) -> Iterator[Finding]:
    """Check that payments can be taken: the keys, the chain, the token's price, and open sales."""
    payments = config.payments
    if not payments.enabled:
        yield ok("payments: not enabled; set payments.enabled to sell")
        return
    try:
        fee_payer = wiring.fee_payer_of(payments)
        known = wiring.known_terms(payments, fee_payer)
        accepted = wiring.accepted_terms(payments, known)
    except (UnusableKeypair, wiring.CannotSell, OpenSecret) as error:
        yield fail(f"payments: {error}", "`solana-keygen new -o FILE` makes a key for fees")
        return
    yield ok(f"payments: fee payer {fee_payer.pubkey()}, treasury of {payments.pay_to}")
    yield from collect(_check_chain(config, accepted))
    yield from collect(_check_price(config))
    yield from _check_sales(config)


async def _check_chain(config: Config, accepted: Sequence[Terms]) -> AsyncIterator[Finding]:
    terms = accepted[0]
    async with wiring.open_settlement(config.chain, accepted, SystemClock()) as chain:
        try:
            for each in accepted:
                await chain.expect_usable(each.asset)
                yield ok(f"payments: token {each.asset} and treasury account {each.treasury}")
            lamports = await chain.lamports(terms.fee_payer)
            wiring.expect_funds(lamports, terms.fee_payer)
        except ChainUnavailable as error:
            yield fail(f"payments: the node does not answer: {error}", "see its line above")
            return
        except (UnusablePaymentToken, wiring.CannotSell) as error:
            yield fail(f"payments: {error}")
            return
    what = f"payments: {lamports / SOL:g} SOL for network fees"
    if lamports < Budget().fund_lamports_min:
        yield fail(f"{what}, so nothing is sold", f"send some to {terms.fee_payer}")
    elif lamports < config.payments.fee_payer_lamports_min:
        yield warn(what, f"send SOL to {terms.fee_payer}; 0.1 SOL is enough for 10,000 payments")
    else:
        yield ok(what)


async def _check_price(config: Config) -> AsyncIterator[Finding]:
    reader = None
    async with AsyncExitStack() as stack:
        if config.payments.price_source == "market":
            if stores.place_of(config, "market").is_new:
                yield ok("payments: the price is known only after the first start")
                return
            reader = (await stack.enter_async_context(stores.open_market(config))).reader
        endpoint = wiring.payment_endpoint(config.chain)
        source = wiring.price_source(config, endpoint, reader, stack)
        found = await source.read(SystemClock().now())
    if isinstance(found, Doubt):
        yield warn(f"payments: no price, so nothing is sold: {found}", "see payments.price_source")
    else:
        yield ok(f"payments: {found.usd} USD for one {config.payments.asset_symbol}")


def _check_sales(config: Config) -> Iterator[Finding]:
    if stores.place_of(config, "money").is_new:
        return
    try:
        why = read_from(
            stores.open_money(config, SystemClock()), lambda money: money.books.why_stopped()
        )
    except errors.UnusableStore:
        return  # `check_money` reports this
    except errors.ServiceUnavailable as error:
        yield fail(f"payments: {error}", "check whether the disk is full")
        return
    if why is not None:
        fix = "find the cause; once it is known, run mintscope sales resume"
        yield fail(f"payments: sales are stopped: {why}", fix)
    else:
        yield ok("payments: sales are open")
