"""Sign-in with a wallet: a signature spends the credits that the wallet has bought.

Source    x402 v2, specs/extensions/sign-in-with-x.md; Sign-In With Solana; CAIP-122
"""

import re
import secrets
from base64 import b64encode
from collections.abc import Generator
from typing import Any, Final

import httpx
import msgspec
from solders.keypair import Keypair
from typing_extensions import override

from mintscope_client.answers import PURCHASE
from mintscope_client.calls.conversation import (
    IDEMPOTENCY_KEY,
    KEY_BYTES,
    PayingAuth,
    is_passing,
)
from mintscope_client.decoding import Undecodable, decode_base64, decode_json
from mintscope_client.wallet import WillNotPay
from mintscope_client.wire import PAYMENT_REQUIRED

HEADER: Final = "SIGN-IN-WITH-X"
TYPE: Final = "ed25519"
VERSION: Final = "1"
SIGNED_MAX: Final = 1_000  # the largest number of stored signatures, of calls without an answer
# No line breaks: a field must not add a line to the signed text
_LINE: Final = re.compile(r"[ -~]{1,500}")
_CHAIN: Final = re.compile(r"solana:([1-9A-HJ-NP-Za-km-z]{32})")


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    domain: str
    uri: str
    version: str
    nonce: str
    issued_at: str
    statement: str


class _Chain(msgspec.Struct, frozen=True, rename="camel"):
    chain_id: str
    type: str


class Challenge(msgspec.Struct, frozen=True, rename="camel"):
    """The challenge in a 402 response, from which `sign_challenge` makes the text to sign."""

    info: _Info
    supported_chains: list[_Chain]


class _Extensions(msgspec.Struct, frozen=True, rename={"challenge": "sign-in-with-x"}):
    challenge: Challenge | None = None


class _Demand(msgspec.Struct, frozen=True):
    extensions: _Extensions


class _Error(msgspec.Struct, frozen=True):
    details: _Demand


class _Body(msgspec.Struct, frozen=True):
    error: _Error


_DEMAND: Final = msgspec.json.Decoder(_Demand)
_BODY: Final = msgspec.json.Decoder(_Body)


class WalletSignIn(PayingAuth):
    """Authentication that spends the credits of a wallet: it signs the challenge of a 402.

    A signature spends credits once.  A call that is repeated after a lost answer or a server error
    has the same signature and `Idempotency-Key`, so it is not charged twice, unless the process
    that has the answer in memory was restarted, or another replica gets the repeated call.  The
    wallet signs only a challenge of the called service for the called path; any other challenge
    raises WillNotPay.

    otherwise    pays for purchases, and for calls that cost more credits than are left; None:
                 nothing pays
    """

    # httpx then reads a body before it continues `auth_flow`: it may have the challenge.
    requires_response_body = True
    spends_credits = True

    def __init__(self, keypair: Keypair, *, otherwise: PayingAuth | None = None) -> None:
        self._keypair = keypair
        self._otherwise = otherwise
        self._signed: dict[str, str] = {}  # signatures by Idempotency-Key, until there is an answer

    @override
    def holds(self, key: str) -> bool:
        """Return whether a payment was sent under *key* and its outcome is still unknown."""
        return self._otherwise is not None and self._otherwise.holds(key)

    @override
    def adopt(self, method: str, url: httpx.URL) -> str | None:
        """Take over the unresolved payment of an earlier process for the request *method* *url*.

        Return the idempotency key of the payment; None if there is no such payment.
        """
        return None if self._otherwise is None else self._otherwise.adopt(method, url)

    @override
    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        key = request.headers.setdefault(IDEMPOTENCY_KEY, secrets.token_urlsafe(KEY_BYTES))
        # A payment for the call that may still land is continued, so that credits do not pay twice.
        if not self.holds(key) and not request.url.path.endswith(PURCHASE):
            is_answered = yield from self._sign_in(request, key)
            if is_answered:
                return
        if self._otherwise is None:
            yield request
        else:
            yield from self._otherwise.auth_flow(request)

    def _sign_in(
        self, request: httpx.Request, key: str
    ) -> Generator[httpx.Request, httpx.Response, bool]:
        """Send *request*; if the answer has a challenge, sign it and send the request again.

        Return whether *request* is done.  False: credits of the wallet did not pay, so `_otherwise`
        must.
        """
        if key in self._signed:
            request.headers[HEADER] = self._signed[key]
        response = yield request
        challenge = challenge_of(response)
        if challenge is not None:
            # Calls that are given up leave their signatures here.
            if len(self._signed) >= SIGNED_MAX:
                del self._signed[next(iter(self._signed))]
            self._signed[key] = sign_challenge(challenge, self._keypair, request.url)
            request.headers[HEADER] = self._signed[key]
            response = yield request
        is_refused = response.status_code == httpx.codes.PAYMENT_REQUIRED
        # A repetition needs the same signature: an earlier request may have been charged under it.
        if not is_passing(response.status_code):
            self._signed.pop(key, None)
        if is_refused:
            request.headers.pop(HEADER, None)
        return not is_refused or self._otherwise is None


def challenge_of(response: httpx.Response) -> Challenge | None:
    """Return the challenge in PAYMENT-REQUIRED or, without it, in the body of a 402, if any."""
    if response.status_code != httpx.codes.PAYMENT_REQUIRED:
        return None
    try:
        header = response.headers.get(PAYMENT_REQUIRED)
        if header is not None:
            return decode_json(decode_base64(header), _DEMAND).extensions.challenge
        return decode_json(response.content, _BODY).error.details.extensions.challenge
    except Undecodable:
        return None


def sign_challenge(challenge: Challenge, keypair: Keypair, url: httpx.URL) -> str:
    """Return the SIGN-IN-WITH-X header for a request to *url*.

    Raises    WillNotPay unless the challenge has version 1, names the host and the path of *url*,
              accepts Solana wallets, and has 1 to 500 characters of printable ASCII in each field
    """
    info = challenge.info
    expected = str(url.copy_with(query=None, fragment=None))
    if (info.domain, info.uri, info.version) != (url.netloc.decode(), expected, VERSION):
        raise WillNotPay(f"expected a challenge for {expected}; was for {info.uri[:200]!r}")
    fields: dict[str, Any] = msgspec.to_builtins(info)
    if not all(_LINE.fullmatch(text) for text in fields.values()):
        raise WillNotPay("expected a challenge whose fields are lines of printable ASCII")
    chains = [each.chain_id for each in challenge.supported_chains if each.type == TYPE]
    chain = next((found for each in chains if (found := _CHAIN.fullmatch(each))), None)
    if chain is None:
        raise WillNotPay("expected a challenge for a Solana wallet")
    address = str(keypair.pubkey())
    # The service checks this text byte for byte.
    text = (
        f"{info.domain} wants you to sign in with your Solana account:\n{address}\n\n"
        f"{info.statement}\n\nURI: {info.uri}\nVersion: {info.version}\nChain ID: {chain[1]}\n"
        f"Nonce: {info.nonce}\nIssued At: {info.issued_at}"
    )
    signed = fields | {
        "address": address,
        "chainId": chain[0],
        "type": TYPE,
        "signature": str(keypair.sign_message(text.encode())),
    }
    return b64encode(msgspec.json.encode(signed)).decode()
