"""The operations that need accounts, and the parts that they share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.limits import Limit
from mintscope.base.time import HOUR_S
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.accounts.holdings.linking import Wallets
from mintscope.core.accounts.holdings.watching import Watchlists
from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.keys.own_key import OwnKeys
from mintscope.core.accounts.signals.signals import TESTS, Signals
from mintscope.core.accounts.signups.exchange import Exchanges
from mintscope.core.accounts.signups.signups import Signups
from mintscope.core.credits.ledger import CreditLedger
from mintscope.edges.api.accounts.handlers import AccountRoutes
from mintscope.edges.api.accounts.key_gate import KeyGate
from mintscope.edges.api.accounts.limits import ExchangeLimit
from mintscope.edges.api.accounts.own_key import OwnKeyRoutes
from mintscope.edges.api.description.operation import Operation, operations_of
from mintscope.edges.api.groups.handlers import GroupRoutes
from mintscope.edges.api.holdings.credits import AccountCreditRoutes
from mintscope.edges.api.holdings.wallets import WalletRoutes
from mintscope.edges.api.signals.handlers import SignalRoutes
from mintscope.edges.server.rate_limit import AddressLimits
from mintscope.edges.server.write_budget import WRITES, WRITES_OF_ALL, WriteBudget

DEPOSITS_PER_ROTATION: Final = 6
SIGNUP: Final = Limit(name="signup", count=5, window_s=HOUR_S)
EXCHANGE: Final = Limit(name="exchange", count=1, window_s=5)
ACCOUNTS: Final = Limit(name="accounts", count=60, window_s=60)
KEY: Final = Limit(name="key", count=60, window_s=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountParts:
    """The keeper of the accounts, and the limits of requests to it."""

    signup: Signups
    exchange: Exchanges
    keys: ApiKeys
    credits: AccountCredits
    wallets: Wallets
    watchlists: Watchlists
    signals: Signals
    signup_limit: Limit = SIGNUP
    exchange_limit: Limit = EXCHANGE
    limit: Limit = ACCOUNTS
    key_limit: Limit = KEY
    writes: Limit = WRITES
    writes_of_all: Limit = WRITES_OF_ALL

    def gate(self, limits: AddressLimits) -> KeyGate:
        """Return who lets the holders of API keys in."""
        budget = WriteBudget(limits.limits, of_account=self.writes, of_all=self.writes_of_all)
        return KeyGate(keys=self.keys, limit=self.key_limit, limits=limits, writes=budget)


def account_operations(
    parts: AccountParts,
    ledger: CreditLedger,
    *,
    limits: AddressLimits,
    clock: Clock,
    rotation_limit: Limit,
) -> Sequence[Operation]:
    """Return the operations under /api, and those under /v1 that need an account.

    A withdrawal creates a credit token and counts like a rotation; DEPOSITS_PER_ROTATION times as
    many deposits are admitted, each of which leaves three rows.
    """
    gate = parts.gate(limits)
    own = OwnKeys(parts.keys)
    accounts = AccountRoutes(
        signup=parts.signup,
        exchange=parts.exchange,
        own_keys=own,
        gate=gate,
        everything=limits.of(parts.limit),
        signups=limits.of(parts.signup_limit),
        exchanges=ExchangeLimit(parts.exchange_limit, limits.limits),
        addresses=limits.addresses,
        clock=clock,
    )
    of_key = OwnKeyRoutes(gate=gate, own=own, clock=clock)
    deposits = replace(
        rotation_limit, name="deposits", count=DEPOSITS_PER_ROTATION * rotation_limit.count
    )
    held = AccountCreditRoutes(
        gate=gate,
        ledger=ledger,
        credits=parts.credits,
        withdrawals=limits.by_account(replace(rotation_limit, name="withdrawals")),
        deposits=limits.by_account(deposits),
        clock=clock,
    )
    wallets = WalletRoutes(gate=gate, wallets=parts.wallets, clock=clock)
    groups = GroupRoutes(gate=gate, watchlists=parts.watchlists, clock=clock)
    signals = SignalRoutes(
        gate=gate, signals=parts.signals, tests=limits.by_account(TESTS), clock=clock
    )
    every = (accounts, of_key, held, wallets, groups, signals)
    return [operation for handlers in every for operation in operations_of(handlers)]
