"""The methods that all clients have: one for each endpoint of the service."""

from mintscope_client.calls.bound import AsyncRaw, Method, PagedMethod, Raw
from mintscope_client.endpoints import (
    accounts,
    alerts,
    backtests,
    lists,
    market,
    purchases,
    receipts,
    reports,
    series,
    signups,
)


class Methods:
    """The methods of all clients that send one request."""

    token = Method(reports.token)
    trial = Method(reports.trial)
    batch = Method(reports.batch)
    past_prices = Method(reports.past_prices)
    pools = Method(market.pools)
    holders = Method(market.holders)
    traders = Method(market.traders)
    backtest = Method(backtests.backtest)
    backtest_tokens = Method(backtests.backtest_tokens)
    metadata = Method(lists.metadata)
    bundles = Method(purchases.bundles)
    history = Method(purchases.history)
    rotate_credits = Method(purchases.rotate_credits)
    claim_challenge = Method(purchases.claim_challenge)
    claim_credits = Method(purchases.claim_credits)
    sign_up = Method(signups.sign_up)
    confirm_email = Method(signups.confirm_email)
    application_status = Method(signups.application_status)
    exchange_secret = Method(signups.exchange_secret)
    me = Method(accounts.me)
    rotate_key = Method(accounts.rotate_key)
    revoke_key = Method(accounts.revoke_key)
    ask_for_scopes = Method(accounts.ask_for_scopes)
    account = Method(accounts.account)
    cap_key = Method(accounts.cap_key)
    deposit = Method(accounts.deposit)
    withdraw = Method(accounts.withdraw)
    wallets = Method(accounts.wallets)
    wallet_challenge = Method(accounts.wallet_challenge)
    link_wallet = Method(accounts.link_wallet)
    unlink_wallet = Method(accounts.unlink_wallet)
    watchlists = Method(accounts.watchlists)
    make_watchlist = Method(accounts.make_watchlist)
    watchlist = Method(accounts.watchlist)
    rename_watchlist = Method(accounts.rename_watchlist)
    delete_watchlist = Method(accounts.delete_watchlist)
    watch = Method(accounts.watch)
    unwatch = Method(accounts.unwatch)
    signals = Method(alerts.signals)
    make_signal = Method(alerts.make_signal)
    make_signal_of = Method(alerts.make_signal_of)
    signal = Method(alerts.signal)
    change_signal = Method(alerts.change_signal)
    delete_signal = Method(alerts.delete_signal)
    renew_signal_secret = Method(alerts.renew_signal_secret)
    test_signal = Method(alerts.test_signal)
    receipt_keys = Method(receipts.receipt_keys)


class PagedMethods:
    """The methods of a client whose results come in pages."""

    candles = PagedMethod(series.candles)
    indicators = PagedMethod(series.indicators)
    swaps = PagedMethod(series.swaps)
    tokens = PagedMethod(lists.tokens)
    screen = PagedMethod(lists.screen)
    payments = PagedMethod(accounts.payments)
    signal_events = PagedMethod(alerts.signal_events)


class RawResponses(Methods, Raw):
    """A blocking client's methods that return whole responses: data, status and headers."""

    balance = Method(purchases.balance)


class AsyncRawResponses(Methods, AsyncRaw):
    """An asyncio client's methods that return whole responses: data, status and headers."""

    balance = Method(purchases.balance)
