"""Checks payments: fee payer, payment token, treasury, price and sales."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

from mintscope.base.clock import SystemClock
from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.client.keypair import UnusableKeypair
from mintscope.core.payments.pricing.price import Doubt
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.settlement import ChainUnavailable
from mintscope.core.payments.store import Budget
from mintscope.shell.cli.doctor.finding import Finding, Level, collect, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.config.secrecy import OpenSecret
from mintscope.shell.wiring import payments as wiring
from mintscope.shell.wiring.selling.prices import price_source
from mintscope.shell.wiring.selling.terms import (
    CannotSell,
    accepted_terms,
    fee_payer_of,
    known_terms,
)
from mintscope.shell.wiring.stores import market_place, money_place, open_market, open_money

SOL: Final = 10**9


def check_payments(config: Config) -> Iterator[Finding]:
    """Check everything that a sale needs."""
    payments = config.payments
    if not payments.enabled:
        yield ok("payments: not enabled; set payments.enabled to sell")
        return
    try:
        fee_payer = fee_payer_of(payments)
        known = known_terms(payments, fee_payer)
        accepted = accepted_terms(payments, known)
    except (UnusableKeypair, CannotSell, OpenSecret) as error:
        yield fail(f"payments: {error}", "`solana-keygen new -o FILE` makes a key for fees")
        return
    yield ok(f"payments: fee payer {fee_payer.pubkey()}, treasury of {payments.pay_to}")
    yield from collect(_check_chain(config, accepted))
    yield from collect(_check_price(config))
    yield from collect(_check_sales(config))


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
        except (UnusablePaymentToken, CannotSell) as error:
            yield Finding(Level.FAIL, f"payments: {error}")
            return
    what = f"payments: {lamports / SOL:g} SOL for network fees"
    if lamports < Budget().fund_lamports_min:
        yield fail(f"{what}, so nothing is sold", f"send some to {terms.fee_payer}")
    elif lamports < config.payments.fee_payer_lamports_min:
        yield warn(what, f"send some to {terms.fee_payer}; 0.1 lasts for 10,000 payments")
    else:
        yield ok(what)


async def _check_price(config: Config) -> AsyncIterator[Finding]:
    endpoint = wiring.payment_endpoint(config.chain)
    is_new = market_place(config).is_new
    if config.payments.price_source == "market" and is_new:
        yield ok("payments: the price comes with the market, after the first start")
        return
    async with open_market(config) as market, AsyncExitStack() as stack:
        source = price_source(config, endpoint, market.reader, stack)
        found = await source.read(SystemClock().now())
    if isinstance(found, Doubt):
        yield warn(f"payments: no price, so nothing is sold: {found}", "see payments.price_source")
    else:
        yield ok(f"payments: {found.usd} USD for one {config.payments.asset_symbol}")


async def _check_sales(config: Config) -> AsyncIterator[Finding]:
    if money_place(config).is_new:
        return
    try:
        async with open_money(config, SystemClock()) as money:
            why = await money.sales_books.why_stopped()
    except UnusableStore:
        return  # the money's own check says so
    except ServiceUnavailable as error:
        yield fail(f"payments: {error}", "is the disk full?")
        return
    if why is not None:
        fix = "look into it; when it is understood, mintscope sales resume"
        yield fail(f"payments: sales are stopped: {why}", fix)
    else:
        yield ok("payments: sales are open")
