"""PaymentChain over JSON-RPC: simulate, broadcast, wait for many with few questions.

A transaction that is in a block has not necessarily succeeded, so `err` is
read before anything else; and what it brought is measured, not assumed: the
treasury's balance before and after, in that very transaction.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec
from solders.pubkey import Pubkey

from mintscope.chain.rpc import Endpoint
from mintscope.clock import Clock
from mintscope.payments.chain import ChainUnavailable, Rejected, Simulated
from mintscope.payments.envelope import Signed
from mintscope.payments.mint import AccountState, expect_usable_mint, expect_usable_treasury
from mintscope.payments.payment import Landed, Reverted, Sighting, Unseen
from mintscope.payments.requirement import Terms
from mintscope.primitives import Signature, Wallet

T = TypeVar("T")

CALL_S: Final = 5.0  # a question that takes longer counts as unanswered
CONNECTIONS_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
STATUSES_MAX: Final = 256  # signatures in one question, fixed by the validator
PAGE: Final = 1_000  # signatures in one answer about an address, fixed likewise
PAGES_MAX: Final = 20
POLL_S: Final = 0.05
PATIENT_POLL_S: Final = 0.5  # once nothing is fresh any more
FRESH_S: Final = 10.0
POLLS_IN_FLIGHT_MAX: Final = 4
EAGER_MAX: Final = 16  # transactions read as soon as they are processed, to save a round trip
READS_AT_ONCE: Final = 32
# What a node answers to `simulateTransaction` when the transaction itself is at fault.
FAULTS: Final = frozenset({-32002, -32003, -32602})
_AMOUNT: Final = slice(64, 72)  # of a token account's data


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    err: Any = None
    confirmation_status: str | None = None

    @property
    def is_confirmed(self) -> bool:
        return self.confirmation_status in {"confirmed", "finalized"}

    @property
    def is_final(self) -> bool:
        return self.confirmation_status == "finalized"


class _Statuses(msgspec.Struct, frozen=True):
    value: list[_Status | None]


class _TokenAmount(msgspec.Struct, frozen=True):
    amount: str


class _TokenBalance(msgspec.Struct, frozen=True, rename="camel"):
    account_index: int
    mint: str
    ui_token_amount: _TokenAmount


class _Loaded(msgspec.Struct, frozen=True):
    writable: list[str] = []
    readonly: list[str] = []


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    err: Any = None
    pre_token_balances: list[_TokenBalance] = []
    post_token_balances: list[_TokenBalance] = []
    loaded_addresses: _Loaded = _Loaded()


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    account_keys: list[str]


class _Body(msgspec.Struct, frozen=True):
    message: _Message


class _Transaction(msgspec.Struct, frozen=True):
    transaction: _Body
    meta: _Meta


class _Simulated(msgspec.Struct, frozen=True):
    class Value(msgspec.Struct, frozen=True):
        """What the node says of the transaction."""

        class Account(msgspec.Struct, frozen=True):
            """An account as the transaction would leave it."""

            data: tuple[str, str]

        err: Any = None
        accounts: list[Account | None] | None = None

    value: Value


class _Arrival(msgspec.Struct, frozen=True):
    signature: str
    err: Any = None


class _Account(msgspec.Struct, frozen=True):
    owner: str
    data: tuple[str, str]


class _AccountInfo(msgspec.Struct, frozen=True):
    value: _Account | None = None


class _Lamports(msgspec.Struct, frozen=True):
    value: int


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str = ""


class _Answer(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_NUMBER: Final = msgspec.json.Decoder(int)
_TEXT: Final = msgspec.json.Decoder(str)
_STATUSES: Final = msgspec.json.Decoder(_Statuses)
_TRANSACTION: Final = msgspec.json.Decoder(_Transaction | None)
_SIMULATED: Final = msgspec.json.Decoder(_Simulated)
_ARRIVALS: Final = msgspec.json.Decoder(list[_Arrival])
_ACCOUNT: Final = msgspec.json.Decoder(_AccountInfo)
_BALANCE: Final = msgspec.json.Decoder(_Lamports)


class _NodeSaysNo(Exception):
    """The node answered, with an error."""

    def __init__(self, error: _Error) -> None:
        super().__init__(f"{error.message[:200]} ({error.code})")
        self.code = error.code


class RpcPaymentChain:
    """Implements payments.chain.PaymentChain at one endpoint; lives in one event loop."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        terms: Terms,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._url = endpoint.url
        self._sleep = sleep
        self._terms = terms
        self._treasury = str(terms.treasury)
        self._clock = clock
        self._http = httpx.AsyncClient(
            headers={"Content-Type": "application/json", **endpoint.headers},
            timeout=CALL_S,
            limits=httpx.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
            ),
            transport=transport,
        )
        self._waiting: dict[Signature, list[asyncio.Future[Sighting]]] = {}
        self._reading: set[Signature] = set()
        self._fresh_until_s = 0.0
        self._poller: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._reads = asyncio.Semaphore(READS_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop asking and close every connection."""
        running = [*self._tasks, *([] if self._poller is None else [self._poller])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._http.aclose()

    async def simulate(self, signed: Signed, source: Pubkey) -> Simulated | Rejected:
        """Try the transaction on the chain as confirmed; read what it would leave in *source*."""
        options = {
            "encoding": "base64",
            "sigVerify": True,
            "commitment": "confirmed",
            "accounts": {"encoding": "base64", "addresses": [str(source)]},
        }
        wire = b64encode(signed.wire).decode()
        trial, height = await asyncio.gather(
            self._simulate([wire, options]), self._height("confirmed")
        )
        if isinstance(trial, str):
            return Rejected(trial)
        return Simulated(balance_after=trial, block_height=height)

    async def broadcast(self, signed: Signed) -> None:
        """Send the transaction; the node itself goes on sending it until it expires."""
        options = {"encoding": "base64", "skipPreflight": True, "preflightCommitment": "confirmed"}
        try:
            await self._call("sendTransaction", [b64encode(signed.wire).decode(), options], _TEXT)
        except _NodeSaysNo as cause:
            raise ChainUnavailable(f"sendTransaction: {cause}") from cause

    async def wait(self, signature: Signature, *, patience_s: float) -> Sighting:
        """Wait until the transaction is confirmed or has failed, together with all others."""
        waiter: asyncio.Future[Sighting] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(signature, []).append(waiter)
        self._fresh_until_s = self._clock.monotonic_s() + FRESH_S
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        try:
            async with asyncio.timeout(patience_s):
                return await waiter
        except TimeoutError:
            return Unseen()
        finally:
            self._waiting[signature].remove(waiter)
            if not self._waiting[signature]:
                del self._waiting[signature]

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        """Search the whole history; the height is read first, so that absence can prove death."""
        assert len(signatures) <= STATUSES_MAX
        height = await self._height("finalized")
        statuses = await self._statuses(signatures, search=True)
        return await asyncio.gather(
            *(
                self._examine(signature, status, height)
                for signature, status in zip(signatures, statuses, strict=True)
            )
        )

    async def arrivals(self, after: Signature | None) -> Sequence[Signature]:
        """Return what touched the treasury after *after* and succeeded, finalized, oldest first."""
        found: list[Signature] = []
        before: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._arrivals(after, before)
            found += [Signature(each.signature) for each in page if each.err is None]
            if len(page) < PAGE:
                break
            before = page[-1].signature
        return found[::-1]

    async def sponsored(self, signatures: Sequence[Signature]) -> Sequence[Signature]:
        """Return those of *signatures* whose fee we have paid."""
        found = await asyncio.gather(*(self._read(signature) for signature in signatures))
        return [
            signature
            for signature, each in zip(signatures, found, strict=True)
            if each is not None
            and each.transaction.message.account_keys[:1] == [self._terms.fee_payer]
        ]

    async def expect_usable(self) -> None:
        """Compare the payment token and the treasury with the terms, once, before selling.

        Raises    UnusablePaymentToken
        """
        mint, treasury = await asyncio.gather(
            self._account(self._terms.asset), self._account(self._treasury)
        )
        expect_usable_mint(mint, self._terms)
        expect_usable_treasury(treasury, self._terms)

    async def lamports(self, wallet: Wallet) -> int:
        """Return what *wallet* has to pay fees with."""
        params = [wallet, {"commitment": "confirmed"}]
        return (await self._ask_node("getBalance", params, _BALANCE)).value

    async def _account(self, address: str) -> AccountState | None:
        params = [address, {"commitment": "confirmed", "encoding": "base64"}]
        found = (await self._ask_node("getAccountInfo", params, _ACCOUNT)).value
        if found is None:
            return None
        return AccountState(owner=Wallet(found.owner), data=b64decode(found.data[0]))

    async def _poll(self) -> None:
        """Ask for everyone who waits, at a steady pace, whatever a single answer takes."""
        while self._waiting:
            if len(self._tasks) < POLLS_IN_FLIGHT_MAX + len(self._reading):
                for start in range(0, len(self._waiting), STATUSES_MAX):
                    self._spawn(self._ask(list(self._waiting)[start : start + STATUSES_MAX]))
            is_fresh = self._clock.monotonic_s() < self._fresh_until_s
            await self._sleep(POLL_S if is_fresh else PATIENT_POLL_S)

    async def _ask(self, signatures: list[Signature]) -> None:
        try:
            statuses = await self._statuses(signatures, search=False)
        except ChainUnavailable:
            return  # the next question comes soon
        for signature, status in zip(signatures, statuses, strict=True):
            if status is None or signature not in self._waiting:
                continue
            if status.is_confirmed and status.err is not None:
                self._tell(signature, Reverted(final=status.is_final))
            elif signature not in self._reading and (
                status.is_confirmed or len(self._reading) < EAGER_MAX
            ):
                self._reading.add(signature)
                self._spawn(self._ask_amount(signature, is_final=status.is_final))

    async def _ask_amount(self, signature: Signature, *, is_final: bool) -> None:
        try:
            sighting = await self._measure(signature, is_final=is_final)
        except ChainUnavailable:
            return
        finally:
            self._reading.discard(signature)
        if sighting is not None:
            self._tell(signature, sighting)

    def _tell(self, signature: Signature, sighting: Sighting) -> None:
        for waiter in self._waiting.get(signature, ()):
            if not waiter.done():
                waiter.set_result(sighting)

    def _spawn(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _examine(self, signature: Signature, status: _Status | None, height: int) -> Sighting:
        if status is None:
            return Unseen(height=height)
        if not status.is_confirmed:
            return Unseen()  # it is on its way
        if status.err is not None:
            return Reverted(final=status.is_final)
        return await self._measure(signature, is_final=status.is_final) or Unseen()

    async def _measure(self, signature: Signature, *, is_final: bool) -> Landed | Reverted | None:
        """Read the confirmed transaction and what it brought; None while there is none."""
        found = await self._read(signature)
        if found is None:
            return None
        if found.meta.err is not None:
            return Reverted(final=is_final)
        return Landed(paid=self._received(found), final=is_final)

    async def _read(self, signature: Signature) -> _Transaction | None:
        options = {
            "encoding": "json",
            "commitment": "confirmed",
            "maxSupportedTransactionVersion": 0,
        }
        async with self._reads:
            return await self._ask_node("getTransaction", [signature, options], _TRANSACTION)

    def _received(self, found: _Transaction) -> int:
        """Return by how much the treasury's balance grew, in atoms of the payment token."""
        loaded = found.meta.loaded_addresses
        keys = [*found.transaction.message.account_keys, *loaded.writable, *loaded.readonly]

        def balance(entries: list[_TokenBalance]) -> int:
            return sum(
                int(entry.ui_token_amount.amount)
                for entry in entries
                if entry.mint == self._terms.asset
                and keys[entry.account_index : entry.account_index + 1] == [self._treasury]
            )

        return balance(found.meta.post_token_balances) - balance(found.meta.pre_token_balances)

    async def _simulate(self, params: list[Any]) -> int | str:
        """Return the balance that would be left, or why the transaction would fail."""
        try:
            trial = await self._call("simulateTransaction", params, _SIMULATED)
        except _NodeSaysNo as cause:
            if cause.code in FAULTS:
                return str(cause)
            raise ChainUnavailable(f"simulateTransaction: {cause}") from cause
        if trial.value.err is not None:
            return msgspec.json.encode(trial.value.err).decode()[:200]
        account = (trial.value.accounts or [None])[0]
        if account is None:
            return "the payer's token account does not exist"
        return int.from_bytes(b64decode(account.data[0])[_AMOUNT], "little")

    async def _height(self, commitment: str) -> int:
        return await self._ask_node("getBlockHeight", [{"commitment": commitment}], _NUMBER)

    async def _statuses(
        self, signatures: Sequence[Signature], *, search: bool
    ) -> list[_Status | None]:
        params = [list(signatures), {"searchTransactionHistory": search}]
        statuses = (await self._ask_node("getSignatureStatuses", params, _STATUSES)).value
        if len(statuses) != len(signatures):
            raise ChainUnavailable(f"expected {len(signatures)} statuses; was {len(statuses)}")
        return statuses

    async def _arrivals(self, after: Signature | None, before: str | None) -> list[_Arrival]:
        options: dict[str, Any] = {"commitment": "finalized", "limit": PAGE}
        options |= {} if after is None else {"until": after}
        options |= {} if before is None else {"before": before}
        params = [self._treasury, options]
        return await self._ask_node("getSignaturesForAddress", params, _ARRIVALS)

    async def _ask_node(
        self, method: str, params: list[Any], decoder: "msgspec.json.Decoder[T]"
    ) -> T:
        """Call *method*; an error of the node's is an outage like any other."""
        try:
            return await self._call(method, params, decoder)
        except _NodeSaysNo as cause:
            raise ChainUnavailable(f"{method}: {cause}") from cause

    async def _call(self, method: str, params: list[Any], decoder: "msgspec.json.Decoder[T]") -> T:
        """Return the result of *method*.

        Raises    _NodeSaysNo, ChainUnavailable
        """
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            async with asyncio.timeout(CALL_S):
                body = await self._post(method, msgspec.json.encode(request))
            answer = _ANSWER.decode(body)
            if answer.error is not None:
                raise _NodeSaysNo(answer.error)
            return decoder.decode(answer.result)
        except (TimeoutError, httpx.HTTPError) as cause:
            raise ChainUnavailable(f"{method}: {type(cause).__name__}") from cause
        except msgspec.DecodeError as cause:
            raise ChainUnavailable(f"{method}: expected a JSON-RPC answer; {cause}") from cause

    async def _post(self, method: str, request: bytes) -> bytes:
        async with self._http.stream("POST", self._url, content=request) as response:
            if response.status_code != httpx.codes.OK:
                raise ChainUnavailable(f"{method}: HTTP {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise ChainUnavailable(f"{method}: more than {ANSWER_BYTES_MAX} bytes")
            return bytes(body)
