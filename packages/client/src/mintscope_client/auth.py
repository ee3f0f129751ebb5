"""Authentication for httpx.Client and httpx.AsyncClient: by credit token or by payment."""

import secrets
from collections.abc import Generator, Sequence
from threading import Lock
from typing import Final

import httpx
from typing_extensions import override
from x402.schemas import PaymentRequirements

from mintscope_client.answers import is_delivered
from mintscope_client.calls.conversation import IDEMPOTENCY_KEY, KEY_BYTES, PayingAuth
from mintscope_client.journal import SENT_MAX, Journal, JournalUnusable, Sent
from mintscope_client.node import (
    Dialogue,
    NodeSilent,
    PaymentFate,
    Recent,
    fates,
    last_height,
    latest,
)
from mintscope_client.wallet import (
    OverSpendLimit,
    PayerWallet,
    WillNotPay,
    amount_of,
    blockhash_of,
    memo_of,
)
from mintscope_client.wire import (
    PAYMENT_REQUIRED,
    PAYMENT_SIGNATURE,
    CredentialKind,
    is_well_formed,
)

REFUSALS: Final = frozenset({402, 409})  # HTTP statuses with which a seller rejects a payment


class CreditAuth(httpx.Auth):
    """Authentication with a credit token, which pays for requests that cost credits.

    Raises ValueError if the token is malformed.
    """

    def __init__(self, token: str) -> None:
        if not is_well_formed(CredentialKind.CREDIT_TOKEN, token):
            raise ValueError("expected svc_credit_ and 64 hex digits; a digit is wrong or missing")
        self._token = token

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class PaymentAuth(PayingAuth):
    """Answers a 402 with a payment, within the limits of the wallet.

    Every request has an `Idempotency-Key`.  A repeated request with the same key sends the same
    payment, so it is never paid for twice.  A payment is forgotten when its purchase has arrived,
    or when the chain proves that the payment can no longer land; in the second case, the wallet may
    spend the amount again.  A statement of the seller does not count as proof.

    A payment that the seller refused, or that an earlier process sent, is looked up on chain before
    it is sent again.  If the node cannot be reached, the request fails with an httpx.RequestError,
    and the next request with that key goes to the seller without the look-up.

    If the wallet does not pay, the request raises WillNotPay; if the payment cannot be stored,
    JournalUnusable.

    rpc_url    the URL of a Solana node: it gives the blockhash if a 402 has none, and the outcome
               of payments; None: a payment counts as spent even if no purchase arrives.  A request
               to the node times out if a connection, read or write takes NODE_TIMEOUT_S
    journal    stores the payments whose outcome is unknown; None: they are stored in memory
    """

    # httpx then reads a body before it continues `auth_flow`: `is_delivered` needs the body.
    requires_response_body = True

    def __init__(
        self, wallet: PayerWallet, *, rpc_url: str | None = None, journal: Journal | None = None
    ) -> None:
        self._wallet = wallet
        self._rpc_url = rpc_url
        self._journal = Journal() if journal is None else journal
        # Keys of payments to look up on chain before they are sent again: the seller refused the
        # payment, or an earlier process sent it.
        self._doubted = {sent.key for sent in self._journal}
        # Keys whose look-up is not answered.  httpx raises the error of a node that is away without
        # returning to the flow, so the next request skips the look-up: the seller may deliver.
        self._unanswered: set[str] = set()
        self._recording = Lock()  # threads may send requests with the same key at once
        # Payments of earlier processes may still land, so the limit counts them.
        wallet.limit.count(self._journal.atoms)

    @override
    def holds(self, key: str) -> bool:
        """Return whether a payment was sent under *key* and its outcome is still unknown."""
        return self._journal.find(key) is not None

    @override
    def adopt(self, method: str, url: httpx.URL) -> str | None:
        """Take over the unresolved payment of an earlier process for the request *method* *url*.

        Return the idempotency key of the payment; None if there is no such payment.
        """
        sent = self._journal.adopt(f"{method} {url}")
        return None if sent is None else sent.key

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        key = request.headers.setdefault(IDEMPOTENCY_KEY, secrets.token_urlsafe(KEY_BYTES))
        request.headers.pop(PAYMENT_SIGNATURE, None)
        sent = self._journal.find(key)
        if sent is not None and key in self._unanswered:
            self._unanswered.discard(key)
        elif sent is not None and key in self._doubted:
            self._unanswered.add(key)
            yield from self._bury([sent])
            self._unanswered.discard(key)
            sent = self._journal.find(key)
        if sent is None:
            response = yield request
            demand = response.headers.get(PAYMENT_REQUIRED)
            if response.status_code != httpx.codes.PAYMENT_REQUIRED or demand is None:
                return
            sent = yield from self._pay(request, key, demand)
        request.headers[PAYMENT_SIGNATURE] = sent.header
        self._hear(sent, request, (yield request))  # the last answer is the one that httpx returns

    def _pay(self, request: httpx.Request, key: str, demand: str) -> Dialogue[Sent]:
        """Sign a payment for the offer in *demand*, and record and return it; do not send it.

        If another request with *key* has recorded a payment meanwhile, return that payment.
        """
        if self._journal.is_full:
            yield from self._bury(list(self._journal))
        try:
            required, offer = self._wallet.choose(demand)
        except OverSpendLimit:
            # Another thread may have reached the limit with its payment for this key.  It holds the
            # lock until it has recorded that payment.
            with self._recording:
                sent = self._journal.find(key)
            if sent is not None:
                return sent
            yield from self._bury(list(self._journal))
            required, offer = self._wallet.choose(demand)
        recent = yield from self._recent(offer)
        with self._recording:
            sent = self._journal.find(key)  # another request with this key, sent at the same time
            if sent is not None:
                return sent
            if self._journal.is_full:
                raise WillNotPay(f"expected fewer than {SENT_MAX} payments on their way")
            # Once, because it may be random, and the journal needs the memo of the transaction.
            memo = memo_of(offer)
            header = self._wallet.pay(required, offer, recent.blockhash, memo=memo)
            sent = Sent(
                key=key,
                request=f"{request.method} {request.url}",
                header=header,
                amount=amount_of(offer),
                memo=memo,
                source=self._wallet.account,
                slot=recent.slot,
                last_valid_height=recent.last_valid_height,
            )
            try:
                self._journal.add(sent)
            except JournalUnusable:
                self._wallet.limit.give_back(sent.amount)  # the payment was not sent
                raise
            return sent

    def _recent(self, offer: PaymentRequirements) -> Dialogue[Recent]:
        """Return the blockhash for a payment: from the 402 or, if it has none, from the node."""
        blockhash = blockhash_of(offer)
        if blockhash is not None:
            return Recent(blockhash, slot=0, last_valid_height=0)
        if self._rpc_url is None:
            raise WillNotPay("expected extra.recentBlockhash in the demand, or an rpc_url of yours")
        try:
            return (yield from latest(self._rpc_url))
        except NodeSilent as cause:
            raise WillNotPay(str(cause)) from cause

    def _hear(self, sent: Sent, request: httpx.Request, response: httpx.Response) -> None:
        """Finish the payment *sent* if *response* delivers its purchase; otherwise keep it.

        If the response refuses the payment, the chain is asked about the payment before it is sent
        again.
        """
        bearer = request.headers.get("Authorization", "")
        if is_delivered(request.url.path, response, bearer=bearer):
            self._journal.finish(sent.key)
            self._doubted.discard(sent.key)
        elif response.status_code in REFUSALS:
            self._doubted.add(sent.key)

    def _bury(self, sent: Sequence[Sent]) -> Dialogue[None]:
        """Drop the payments in *sent* that provably cannot land, and count them as unspent.

        Drop none if there is no `rpc_url`, or if the node's answers prove nothing.  If the node
        cannot be reached, the request fails with the httpx.RequestError of its connection.
        """
        if self._rpc_url is None:
            return
        sent = yield from self._bounded(self._rpc_url, sent)
        found = yield from fates(self._rpc_url, sent)
        for each in sent:
            # Another request may have finished or dropped the payment meanwhile.
            if found[each.key] is PaymentFate.DEAD and self._journal.find(each.key) is each:
                self._journal.drop(each.key)
                self._doubted.discard(each.key)
                self._wallet.limit.give_back(each.amount)

    def _bounded(self, rpc_url: str, sent: Sequence[Sent]) -> Dialogue[list[Sent]]:
        """Return the payments of *sent*, each with the last block height at which it can land.

        If that height is unknown for a payment, ask the node for it; it stays unknown if the node
        gives no usable answer. Payments that left the journal meanwhile may be left out.
        """
        if all(each.last_valid_height for each in sent):
            return list(sent)
        try:
            last = yield from last_height(rpc_url)
        except NodeSilent:
            return list(sent)
        held = [each for each in sent if self._journal.find(each.key) is each]
        return [
            each if each.last_valid_height else self._journal.bound(each.key, last) for each in held
        ]
