"""The steps of a call until it is answered: requests, waits and the decision to give up.

A conversation is a generator, so that it serves both clients.  It yields `Send` and receives the
response, or a `RequestError` or `NotPaid` instead; it yields `Wait` and receives None.
"""

import secrets
from abc import abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

import httpx

from mintscope_client.budget import CreditBudget
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.clock import Clock
from mintscope_client.calls.pacing import Pacing, backoff_s
from mintscope_client.calls.reading import PAYMENT_RESPONSE, read_answer
from mintscope_client.errors import (
    ClientError,
    PendingError,
    RefusedError,
    UnreachableError,
    UnreadableError,
)

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
KEY_BYTES: Final = 24
PATIENCE_S: Final = 30.0
# After these seconds the chain has proven the outcome: a blockhash is valid for 150 blocks, which
# must become final; this assumes slots of less than about 0.9 s. If slots are slower, the wait ends
# earlier, with a PendingError; nothing is lost, because the payment is stored and its key
# continues it.
PAYMENT_PATIENCE_S: Final = 180.0
RETRY_AFTER_S: Final = 2.0
TIMEOUT_S: Final = 30.0
PAID_TIMEOUT_S: Final = 90.0  # a seller may take a minute to answer a payment
ASKED_TO_WAIT: Final = frozenset({408, 425, 429})
# With these errors the request has not left, so it cannot have been charged.
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Data = TypeVar("Data")


class NotPaid(Exception):
    """The wallet did not sign, or the payment was not sent: the request cost no credits."""


class PayingAuth(httpx.Auth):
    """Authentication that pays or signs in after a 402, and records payments that can still land.

    spends_credits    whether it can pay with credits that a wallet has bought earlier; if so, the
                      budget of credits counts each request
    """

    spends_credits = False

    @abstractmethod
    def holds(self, key: str) -> bool:
        """Return whether a payment was sent under *key* and its outcome is still unknown."""

    @abstractmethod
    def adopt(self, method: str, url: httpx.URL) -> str | None:
        """Take over the unresolved payment of an earlier process for the request *method* *url*.

        Return the idempotency key of the payment; None if there is no such payment.
        """


@dataclass(frozen=True, slots=True)
class Send:
    """A step of a call's conversation: send *request*; *auth*, if any, pays for it if needed."""

    request: httpx.Request
    auth: httpx.Auth | None


@dataclass(frozen=True, slots=True)
class Wait:
    """A step of a call's conversation: wait for *seconds*."""

    seconds: float


Step: TypeAlias = Send | Wait
Reply: TypeAlias = httpx.Response | httpx.RequestError | NotPaid | None
Conversation: TypeAlias = Generator[Step, Reply, Data]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSession:
    """The settings that the calls of a client share.

    origin       the origin of the service, such as https://api.example
    credential   a credit token or an API key; None: requests have no credential
    payer        pays for purchases, and for all charged calls if there is no credential; None: no
                 payer
    budget       the limits of the credits that calls may spend
    patience_s   the most seconds between the beginning of a call and its last retry;
                 PAYMENT_PATIENCE_S while a payment for the call may still land
    timeout_s    seconds to wait for a connection, and for each read and write; at least
                 PAID_TIMEOUT_S if a wallet pays
    retries_max  the largest number of retries of a call; None: only patience_s limits them. While a
                 payment for the call may still land, this limit does not apply
    chance       returns random numbers from 0 to 1
    pacing       the rate limits that the service has named
    """

    origin: httpx.URL
    credential: str | None = None
    payer: PayingAuth | None = None
    budget: CreditBudget = field(default_factory=CreditBudget)
    patience_s: float = PATIENCE_S
    timeout_s: float = TIMEOUT_S
    retries_max: int | None = None
    clock: Clock
    chance: Callable[[], float]
    pacing: Pacing = field(default_factory=Pacing)

    def payer_of(self, call: ApiCall[Data]) -> PayingAuth | None:
        """Return the wallet that pays for *call*; None if a credential pays, or *call* is free."""
        by_wallet = call.is_purchase or (call.is_charged and self.credential is None)
        return self.payer if by_wallet else None

    def credits_at_stake(self, call: ApiCall[Data]) -> int:
        """Return the most credits that *call* may cost; 0 if credits do not pay for it."""
        payer = self.payer_of(call)
        if payer is not None:
            return call.credits_max if payer.spends_credits else 0
        return 0 if self.credential is None else call.credits_max

    def build(
        self, call: ApiCall[Data], key: str, accept: str = "application/json"
    ) -> httpx.Request:
        """Return the HTTP request that sends *call*.

        key    its Idempotency-Key, which is left out if the call is free and takes no key
        """
        headers = {"Accept": accept, "User-Agent": "mintscope-client"}
        if call.is_charged or call.takes_key:
            headers[IDEMPOTENCY_KEY] = key
        if self.credential is not None:
            headers["Authorization"] = f"Bearer {self.credential}"
        if call.body:
            headers["Content-Type"] = "application/json"
        is_by_wallet = self.payer_of(call) is not None
        timeout_s = max(self.timeout_s, PAID_TIMEOUT_S) if is_by_wallet else self.timeout_s
        return httpx.Request(
            call.method,
            self.url(call),
            headers=headers,
            content=call.body or None,
            extensions={"timeout": httpx.Timeout(timeout_s).as_dict()},
        )

    def url(self, call: ApiCall[Data]) -> httpx.URL:
        """Return the URL of *call*."""
        return self.origin.join(call.path).copy_merge_params(dict(call.query))


def converse(
    session: CallSession, call: ApiCall[Data], *, key: str | None = None
) -> Conversation[Answered[Data]]:
    """Yield the steps of *call* until it is answered: requests and waits.  Return the answer.

    All requests of a call have the same `Idempotency-Key`, so that nothing is paid twice, and the
    budget counts the call once.  The credits of the call are reserved until it ends.

    key       the key of an earlier call with a pending payment, to continue that payment; None: a
              new call, unless an earlier process left a payment for the same request
    Raises    RefusedError, UnreachableError, UnreadableError, OverBudgetError, PendingError

    If a wallet pays, sending a request may also raise WillNotPay or JournalUnusable.
    """
    payer = session.payer_of(call)
    if key is None and payer is not None:
        key = payer.adopt(call.method, session.url(call))
    key = key or secrets.token_urlsafe(KEY_BYTES)
    patience = _Patience(session, payer, key)
    wait_s = session.pacing.wait_s(call.name, now_s=session.clock.monotonic_s())
    # If the wait would be longer, the call is sent at once: its refusal names the wait.
    if 0 < wait_s <= session.patience_s:
        yield Wait(wait_s)
    stake = _Stake(session.credits_at_stake(call))
    session.budget.reserve(stake.credit_count)
    try:
        while True:
            found = yield from _once(session, call, key, payer, stake)
            if isinstance(found, Answered):
                return found
            yield Wait(patience.wait_s(found))
    finally:
        session.budget.give_back(stake.credit_count - stake.spent)


@dataclass(slots=True)
class _Stake:
    """The most credits that a call may cost, and those that its requests may have spent until now.

    All requests of a call have the same `Idempotency-Key`, so the service takes the credits only
    once.
    """

    credit_count: int
    spent: int = 0


def _once(
    session: CallSession, call: ApiCall[Data], key: str, payer: PayingAuth | None, stake: _Stake
) -> Conversation[Answered[Data] | ClientError]:
    """Send *call* once; return its answer, or the error for which it has no successful answer.

    Raises NotPaid if the wallet does not pay.
    """
    spent_before = stake.spent
    stake.spent = stake.credit_count  # until the cost is known, the most is counted
    reply = yield Send(session.build(call, key), payer)
    if isinstance(reply, NotPaid):
        stake.spent = spent_before
        raise reply
    if isinstance(reply, httpx.RequestError):
        if isinstance(reply, NOT_SENT):
            stake.spent = spent_before
        return UnreachableError(
            f"{call.method} {session.url(call).host}: {type(reply).__name__}: {reply}",
            may_be_charged=stake.spent > 0,
        )
    assert reply is not None
    session.pacing.hear(call.name, reply.headers, now_s=session.clock.monotonic_s())
    try:
        answer = read_answer(call, reply, now_ms=session.clock.now())
    except RefusedError as refused:
        stake.spent = spent_before
        return refused
    except UnreadableError as unreadable:
        return unreadable
    if payer is not None and payer.holds(key):
        return UnreadableError(
            f"expected what was paid for by {call.method} {call.path}; it is not in the answer",
            status=reply.status_code,
        )
    # At most the reserved credits, whatever the answer claims; no credits if a payment paid.
    cost = 0 if PAYMENT_RESPONSE in reply.headers else call.cost(answer.data)
    stake.spent = min(cost, stake.credit_count)
    return answer


class _Patience:
    """Decides whether a failed request is sent again, and after how many seconds."""

    def __init__(self, session: CallSession, payer: PayingAuth | None, key: str) -> None:
        self._session = session
        self._payer = payer
        self._key = key
        self._repetitions = 0
        self._since_s = session.clock.monotonic_s()

    def wait_s(self, failure: ClientError) -> float:
        """Return the seconds to wait before the call is sent again.

        If the call is not sent again, raise PendingError if its payment may still land and the
        time for retries is over; otherwise raise *failure*.
        """
        is_held = self._payer is not None and self._payer.holds(self._key)
        if not _may_change(failure, is_held=is_held):
            if isinstance(failure, RefusedError) and is_held:
                failure.key = self._key
            raise failure
        retries_max = self._session.retries_max
        if retries_max is not None and self._repetitions >= retries_max and not is_held:
            raise failure
        asked_s = failure.retry_after_s if isinstance(failure, RefusedError) else None
        wait_s = max(asked_s or 0.0, self._own_s(is_held=is_held and asked_s is None))
        until_s = self._since_s + (PAYMENT_PATIENCE_S if is_held else self._session.patience_s)
        if self._session.clock.monotonic_s() + wait_s > until_s:
            raise PendingError(self._key) if is_held else failure
        return wait_s

    def _own_s(self, *, is_held: bool) -> float:
        repetition = self._repetitions
        self._repetitions = self._repetitions + 1
        return RETRY_AFTER_S if is_held else backoff_s(repetition, self._session.chance())


def _may_change(failure: ClientError, *, is_held: bool) -> bool:
    """Return whether the call may succeed if it is sent again.

    is_held   whether a payment for the call can still land; only then is a call with an unreadable
              answer sent again
    """
    match failure:
        case UnreachableError():
            return True
        case UnreadableError():
            return is_held
        case RefusedError(status=status):
            return is_passing(status)
        case _:
            return False


def is_passing(status: int) -> bool:
    """Return whether a request that was refused with *status* may succeed if it is sent again."""
    return status >= httpx.codes.INTERNAL_SERVER_ERROR or status in ASKED_TO_WAIT
