"""httpx authentication: a credit token, or a payment for each request.

Both work with `httpx.Client` and `httpx.AsyncClient`.
"""

import secrets
from collections.abc import Generator
from typing import Final

import httpx
import msgspec
from typing_extensions import override
from x402.schemas import PaymentRequirements

from mintscope.client.purse import Purse, WillNotPay
from mintscope.credentials import CredentialKind, is_well_formed
from mintscope.payments.headers import PAYMENT_REQUIRED, PAYMENT_SIGNATURE

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
KEY_BYTES: Final = 24
SENT_MAX: Final = 1_000  # payments remembered, so that a lost answer can be asked for again
UNDECIDED: Final = frozenset({500, 502, 503, 504})


class CreditAuth(httpx.Auth):
    """Sends a credit token: each answered request costs a credit."""

    def __init__(self, token: str) -> None:
        if not is_well_formed(CredentialKind.CREDIT_TOKEN, token):
            raise ValueError("expected svc_credit_ and 64 hex digits; a digit is wrong or missing")
        self._token = token

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class _Answer(msgspec.Struct, frozen=True):
    class Result(msgspec.Struct, frozen=True):
        """What getLatestBlockhash returns."""

        class Value(msgspec.Struct, frozen=True):
            """The newest blockhash."""

            blockhash: str

        value: Value

    result: Result


class PaymentAuth(httpx.Auth):
    """Answers a demand for payment with a payment, within what the purse allows.

    Every request carries an `Idempotency-Key`.  Sending the same request again,
    after a lost connection or a 503, sends the same payment with the same
    key: it is never paid for twice.

    rpc_url    a Solana node, asked for a recent blockhash
    """

    requires_response_body = True

    def __init__(self, purse: Purse, *, rpc_url: str) -> None:
        self._purse = purse
        self._rpc_url = rpc_url
        self._sent: dict[str, tuple[str, PaymentRequirements]] = {}

    def holds(self, key: str) -> bool:
        """Say whether a payment was sent under *key* and its outcome is not known."""
        return key in self._sent

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        key = request.headers.setdefault(IDEMPOTENCY_KEY, secrets.token_urlsafe(KEY_BYTES))
        if key not in self._sent:
            response = yield request
            demand = response.headers.get(PAYMENT_REQUIRED)
            if response.status_code != httpx.codes.PAYMENT_REQUIRED or demand is None:
                return
            required, offer = self._purse.choose(demand)
            blockhash = _blockhash((yield self._ask_blockhash()))
            if len(self._sent) >= SENT_MAX:
                del self._sent[next(iter(self._sent))]
            self._sent[key] = self._purse.pay(required, offer, blockhash), offer
        request.headers[PAYMENT_SIGNATURE], offer = self._sent[key]
        response = yield request
        if response.status_code == httpx.codes.PAYMENT_REQUIRED:
            self._purse.give_back(offer)
        if response.status_code not in UNDECIDED:
            self._sent.pop(key, None)
            request.headers.pop(PAYMENT_SIGNATURE, None)

    def _ask_blockhash(self) -> httpx.Request:
        question = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "getLatestBlockhash",
            "params": [{"commitment": "confirmed"}],
        }
        return httpx.Request("POST", self._rpc_url, json=question)


def _blockhash(response: httpx.Response) -> str:
    try:
        return msgspec.json.decode(response.content, type=_Answer).result.value.blockhash
    except msgspec.DecodeError as cause:
        raise WillNotPay("expected a blockhash from the Solana node; there was none") from cause
