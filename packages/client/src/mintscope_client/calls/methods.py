"""The methods of clients that send one call each, by name; `bound` implements them."""

from typing import Protocol, TypeVar

from mintscope_client.calls import account as calls
from mintscope_client.calls import verbs
from mintscope_client.calls.bound import AsyncMethod, AsyncRawMethod, Method, RawMethod
from mintscope_client.calls.call import Answered, ApiCall

Data = TypeVar("Data")


class AccountMethods:
    """Methods for API keys and for sign-up, for clients whose calls block."""

    sign_up = Method(calls.sign_up)
    confirm_email = Method(calls.confirm_email)
    application_status = Method(calls.application_status)
    exchange_secret = Method(calls.exchange_secret)
    me = Method(calls.me)
    rotate_key = Method(calls.rotate_key)
    revoke_key = Method(calls.revoke_key)
    ask_for_scopes = Method(calls.ask_for_scopes)
    account = Method(calls.account)
    cap_key = Method(calls.cap_key)
    deposit = Method(calls.deposit)
    withdraw = Method(calls.withdraw)
    rotate_credits = Method(calls.rotate_credits)
    claim_challenge = Method(calls.claim_challenge)
    claim_credits = Method(calls.claim_credits)
    wallets = Method(calls.wallets)
    wallet_challenge = Method(calls.wallet_challenge)
    link_wallet = Method(calls.link_wallet)
    unlink_wallet = Method(calls.unlink_wallet)
    watchlists = Method(calls.watchlists)
    make_watchlist = Method(calls.make_watchlist)
    watchlist = Method(calls.watchlist)
    rename_watchlist = Method(calls.rename_watchlist)
    delete_watchlist = Method(calls.delete_watchlist)
    watch = Method(calls.watch)
    unwatch = Method(calls.unwatch)
    signals = Method(calls.signals)
    make_signal = Method(calls.make_signal)
    make_signal_of = Method(calls.make_signal_of)
    signal = Method(calls.signal)
    change_signal = Method(calls.change_signal)
    delete_signal = Method(calls.delete_signal)
    renew_signal_secret = Method(calls.renew_signal_secret)
    test_signal = Method(calls.test_signal)
    receipt_keys = Method(calls.receipt_keys)


class AsyncAccountMethods:
    """AccountMethods for asyncio."""

    sign_up = AsyncMethod(calls.sign_up)
    confirm_email = AsyncMethod(calls.confirm_email)
    application_status = AsyncMethod(calls.application_status)
    exchange_secret = AsyncMethod(calls.exchange_secret)
    me = AsyncMethod(calls.me)
    rotate_key = AsyncMethod(calls.rotate_key)
    revoke_key = AsyncMethod(calls.revoke_key)
    ask_for_scopes = AsyncMethod(calls.ask_for_scopes)
    account = AsyncMethod(calls.account)
    cap_key = AsyncMethod(calls.cap_key)
    deposit = AsyncMethod(calls.deposit)
    withdraw = AsyncMethod(calls.withdraw)
    rotate_credits = AsyncMethod(calls.rotate_credits)
    claim_challenge = AsyncMethod(calls.claim_challenge)
    claim_credits = AsyncMethod(calls.claim_credits)
    wallets = AsyncMethod(calls.wallets)
    wallet_challenge = AsyncMethod(calls.wallet_challenge)
    link_wallet = AsyncMethod(calls.link_wallet)
    unlink_wallet = AsyncMethod(calls.unlink_wallet)
    watchlists = AsyncMethod(calls.watchlists)
    make_watchlist = AsyncMethod(calls.make_watchlist)
    watchlist = AsyncMethod(calls.watchlist)
    rename_watchlist = AsyncMethod(calls.rename_watchlist)
    delete_watchlist = AsyncMethod(calls.delete_watchlist)
    watch = AsyncMethod(calls.watch)
    unwatch = AsyncMethod(calls.unwatch)
    signals = AsyncMethod(calls.signals)
    make_signal = AsyncMethod(calls.make_signal)
    make_signal_of = AsyncMethod(calls.make_signal_of)
    signal = AsyncMethod(calls.signal)
    change_signal = AsyncMethod(calls.change_signal)
    delete_signal = AsyncMethod(calls.delete_signal)
    renew_signal_secret = AsyncMethod(calls.renew_signal_secret)
    test_signal = AsyncMethod(calls.test_signal)
    receipt_keys = AsyncMethod(calls.receipt_keys)


class Sender(Protocol):
    """A client whose calls block until the response arrives."""

    def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Return the answer to *call*."""


class AsyncSender(Protocol):
    """A client for asyncio."""

    async def send(self, call: ApiCall[Data], *, key: str | None = None) -> Answered[Data]:
        """Return the answer to *call*."""


class RawResponses:
    """The same calls, each of which returns the whole answer: status, headers, credits left."""

    def __init__(self, client: Sender) -> None:
        self._client = client

    def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Return the answer to *call*."""
        return self._client.send(call)

    token = RawMethod(verbs.token)
    trial = RawMethod(verbs.trial)
    batch = RawMethod(verbs.batch)
    pools = RawMethod(verbs.pools)
    past_prices = RawMethod(verbs.past_prices)
    backtest = RawMethod(verbs.backtest)
    backtest_tokens = RawMethod(verbs.backtest_tokens)
    holders = RawMethod(verbs.holders)
    traders = RawMethod(verbs.traders)
    metadata = RawMethod(verbs.metadata)
    bundles = RawMethod(lambda: verbs.BUNDLES)
    balance = RawMethod(lambda: verbs.BALANCE)
    history = RawMethod(lambda: verbs.HISTORY)
    sign_up = RawMethod(calls.sign_up)
    confirm_email = RawMethod(calls.confirm_email)
    application_status = RawMethod(calls.application_status)
    exchange_secret = RawMethod(calls.exchange_secret)
    me = RawMethod(calls.me)
    rotate_key = RawMethod(calls.rotate_key)
    revoke_key = RawMethod(calls.revoke_key)
    ask_for_scopes = RawMethod(calls.ask_for_scopes)
    account = RawMethod(calls.account)
    cap_key = RawMethod(calls.cap_key)
    deposit = RawMethod(calls.deposit)
    withdraw = RawMethod(calls.withdraw)
    rotate_credits = RawMethod(calls.rotate_credits)
    claim_challenge = RawMethod(calls.claim_challenge)
    claim_credits = RawMethod(calls.claim_credits)
    wallets = RawMethod(calls.wallets)
    wallet_challenge = RawMethod(calls.wallet_challenge)
    link_wallet = RawMethod(calls.link_wallet)
    unlink_wallet = RawMethod(calls.unlink_wallet)
    watchlists = RawMethod(calls.watchlists)
    make_watchlist = RawMethod(calls.make_watchlist)
    watchlist = RawMethod(calls.watchlist)
    rename_watchlist = RawMethod(calls.rename_watchlist)
    delete_watchlist = RawMethod(calls.delete_watchlist)
    watch = RawMethod(calls.watch)
    unwatch = RawMethod(calls.unwatch)
    signals = RawMethod(calls.signals)
    make_signal = RawMethod(calls.make_signal)
    make_signal_of = RawMethod(calls.make_signal_of)
    signal = RawMethod(calls.signal)
    change_signal = RawMethod(calls.change_signal)
    delete_signal = RawMethod(calls.delete_signal)
    renew_signal_secret = RawMethod(calls.renew_signal_secret)
    test_signal = RawMethod(calls.test_signal)
    receipt_keys = RawMethod(calls.receipt_keys)


class AsyncRawResponses:
    """RawResponses for asyncio."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client

    async def send(self, call: ApiCall[Data]) -> Answered[Data]:
        """Return the answer to *call*."""
        return await self._client.send(call)

    token = AsyncRawMethod(verbs.token)
    trial = AsyncRawMethod(verbs.trial)
    batch = AsyncRawMethod(verbs.batch)
    pools = AsyncRawMethod(verbs.pools)
    past_prices = AsyncRawMethod(verbs.past_prices)
    backtest = AsyncRawMethod(verbs.backtest)
    backtest_tokens = AsyncRawMethod(verbs.backtest_tokens)
    holders = AsyncRawMethod(verbs.holders)
    traders = AsyncRawMethod(verbs.traders)
    metadata = AsyncRawMethod(verbs.metadata)
    bundles = AsyncRawMethod(lambda: verbs.BUNDLES)
    balance = AsyncRawMethod(lambda: verbs.BALANCE)
    history = AsyncRawMethod(lambda: verbs.HISTORY)
    sign_up = AsyncRawMethod(calls.sign_up)
    confirm_email = AsyncRawMethod(calls.confirm_email)
    application_status = AsyncRawMethod(calls.application_status)
    exchange_secret = AsyncRawMethod(calls.exchange_secret)
    me = AsyncRawMethod(calls.me)
    rotate_key = AsyncRawMethod(calls.rotate_key)
    revoke_key = AsyncRawMethod(calls.revoke_key)
    ask_for_scopes = AsyncRawMethod(calls.ask_for_scopes)
    account = AsyncRawMethod(calls.account)
    cap_key = AsyncRawMethod(calls.cap_key)
    deposit = AsyncRawMethod(calls.deposit)
    withdraw = AsyncRawMethod(calls.withdraw)
    rotate_credits = AsyncRawMethod(calls.rotate_credits)
    claim_challenge = AsyncRawMethod(calls.claim_challenge)
    claim_credits = AsyncRawMethod(calls.claim_credits)
    wallets = AsyncRawMethod(calls.wallets)
    wallet_challenge = AsyncRawMethod(calls.wallet_challenge)
    link_wallet = AsyncRawMethod(calls.link_wallet)
    unlink_wallet = AsyncRawMethod(calls.unlink_wallet)
    watchlists = AsyncRawMethod(calls.watchlists)
    make_watchlist = AsyncRawMethod(calls.make_watchlist)
    watchlist = AsyncRawMethod(calls.watchlist)
    rename_watchlist = AsyncRawMethod(calls.rename_watchlist)
    delete_watchlist = AsyncRawMethod(calls.delete_watchlist)
    watch = AsyncRawMethod(calls.watch)
    unwatch = AsyncRawMethod(calls.unwatch)
    signals = AsyncRawMethod(calls.signals)
    make_signal = AsyncRawMethod(calls.make_signal)
    make_signal_of = AsyncRawMethod(calls.make_signal_of)
    signal = AsyncRawMethod(calls.signal)
    change_signal = AsyncRawMethod(calls.change_signal)
    delete_signal = AsyncRawMethod(calls.delete_signal)
    renew_signal_secret = AsyncRawMethod(calls.renew_signal_secret)
    test_signal = AsyncRawMethod(calls.test_signal)
    receipt_keys = AsyncRawMethod(calls.receipt_keys)
