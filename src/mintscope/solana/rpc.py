"""JSON-RPC client that repeats failed requests, and obeys Retry-After.

* RpcFailure
  x Unreachable     no usable answer after all retries; a later request may succeed
  x RpcRefused      the node refuses the request; only a change of configuration helps

A missing block is not a failure: `block` and `header` return Missing with the node's reason, which
proves nothing (see `finality`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self, TypeVar

import httpx
import msgspec
import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import Undecodable, decode_json
from mintscope.kit.http_client import BodyTooLong, open_client, read_body
from mintscope.kit.metrics import RPC_REQUESTS
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.solana import wire
from mintscope.solana.blocks import Block, Endpoint, SourceError
from mintscope.solana.finality_meter import INVALID_PARAMS, as_final
from mintscope.solana.pace import Pace, pace_between, pace_of_samples

log = structlog.get_logger()

BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 10.0
RETRY_AFTER_S_MAX: Final = 60.0
FAILURE_PAUSE_S: Final = 0.5
FAILURE_PAUSE_S_MAX: Final = 30.0

Sleep = Callable[[float], Awaitable[None]]


class Trouble(Exception):
    """A failed attempt, which is repeated; *code* is the node's error code, or 0 without one."""

    def __init__(self, what: str, retry_after_s: float = 0.0, *, code: int = 0) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.code = code


class Throttle:
    """Delays repeated requests, and each request while a node requires a pause (Retry-After)."""

    def __init__(self, clock: Clock, jitter: Callable[[], float], sleep: Sleep) -> None:
        self._clock = clock
        self._jitter = jitter
        self._sleep = sleep
        self._not_before_s = 0.0

    def postpone(self, wait_s: float) -> None:
        """Delay all requests by *wait_s* seconds, but at most by RETRY_AFTER_S_MAX."""
        wait_s = min(wait_s, RETRY_AFTER_S_MAX)
        self._not_before_s = max(self._not_before_s, self._clock.monotonic_s() + wait_s)

    async def wait(self, attempt: int) -> None:
        """Wait until a request may start; *attempt* is the number of failed attempts before it."""
        backoff_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** (attempt - 1)) if attempt else 0.0
        wait_s = max(
            self._not_before_s - self._clock.monotonic_s(), backoff_s * (1 + self._jitter()) / 2
        )
        if wait_s > 0:
            await self._sleep(wait_s)


class Patience:
    """Waits after failures of a node; each failure in a row doubles the wait, up to a limit."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._pause_s = FAILURE_PAUSE_S

    async def wait(self, failure: Exception, event: str = "chain_unreachable") -> None:
        """Log *failure* as *event*, then pause."""
        log.warning(event, reason=str(failure), pause_s=self._pause_s)
        await self._sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, FAILURE_PAUSE_S_MAX)

    def renew(self) -> None:
        """Return to the shortest pause, because the node has answered."""
        self._pause_s = FAILURE_PAUSE_S


def retry_after_s(text: str, now_s: float) -> float:
    """Return the seconds to wait according to *text*, a Retry-After header.

    The result is negative for a date before *now_s*, and 0 if the header is unreadable.

    now_s   the present Unix time
    """
    # The header is a number of seconds or a date.
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0


# The chain permits blocks beyond any limit: a call may have 10 KiB of data, so the JSON of a full
# block may have over a gigabyte.  Ten requests in flight, with twice this number of bytes of memory
# each, must fit the 2 GB of ingest.
RESPONSE_BYTES_MAX: Final = 64 * 1024 * 1024
TOO_LONG_MAX: Final = 1_000  # slots whose blocks are known to be too long
BLOCKS_RANGE_MAX: Final = 500_000  # slots in one getBlocks request; the validator's limit
PERFORMANCE_SAMPLES: Final = 5  # number of requested samples; each covers a minute
PACE_SLOTS: Final = 1_000  # approximate distance of two blocks whose times show the pace
PACE_BLOCKS_MAX: Final = 20  # maximum number of slots that are searched for a block with a time

T = TypeVar("T")
H = TypeVar("H", bound=wire.Header)
FUTURE_S_MAX: Final = 60.0  # how far a block time may be ahead of this machine's clock


class RpcFailure(SourceError):
    """A node returned no usable answer; the message is for the operator."""


class Unreachable(RpcFailure):
    """The node returned no usable answer, even after retries; a later request may succeed."""


class RpcRefused(RpcFailure):
    """The node refuses the request, or no request can be sent.

    Only a change of configuration can help.
    """

    is_refusal = True

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # the code of the node's JSON-RPC error; None for any other refusal


class AnswerTooLong(RpcRefused):
    """The answer is too long; the request is not repeated, because it would fail again."""


class Commitment(StrEnum):
    """The commitment level of a request; blocks that are only `processed` are never used."""

    CONFIRMED = "confirmed"
    FINALIZED = "finalized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A node's answer that it has no block at *slot*; *absence* is the reason."""

    slot: Slot
    absence: wire.Absence
    reason: str = ""  # the error message if the node refuses the block, else ""


class Head(NamedTuple):
    """The newest block at a commitment level; *blockhash* is None if it is unknown."""

    slot: Slot
    blockhash: str | None


class Rpc:
    """A client of one JSON-RPC node, and a context manager that closes its connections.

    Every method that sends a request may raise RpcFailure, except `alpenglow`.

    If the node does not know the level `confirmed`, requests use `finalized`.  Future releases of
    Solana may drop `confirmed`, because a block will be final as soon as it is confirmed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        transport: httpx.AsyncBaseTransport | None = None,
        jitter: Callable[[], float] = random.random,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._throttle = Throttle(clock, jitter, sleep)
        self.version = wire.AcceptedVersion(endpoint.max_transaction_version)
        self.knows_confirmed = True  # False after a refusal of the level `confirmed`
        self._names_final_block = True
        self._too_long: dict[Slot, str] = {}  # the failures of blocks that are too long
        try:
            self._url = httpx.URL(endpoint.url)
        except httpx.InvalidURL as cause:
            raise RpcRefused("expected chain.rpc_url to be an http or https address") from cause
        self._where = self._url.host  # without the path, which may contain a key
        self._http = open_client(
            headers={"Content-Type": "application/json", **endpoint.headers},
            timeout_s=endpoint.timeout_s,
            # In addition to blocks, the head and the finality may be requested at the same time.
            connections_max=endpoint.requests_in_flight + 2,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def slot(self, commitment: Commitment) -> Slot:
        """Return the newest slot at *commitment*."""
        return Slot(_some(await self._call("getSlot", [{"commitment": commitment}], wire.SLOT)))

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; its hash is None if unknown or not final."""
        if commitment is Commitment.FINALIZED and self._names_final_block:
            params = [{"commitment": commitment}]
            try:
                latest = _some(await self._call("getLatestBlockhash", params, wire.LATEST))
            except RpcRefused:  # then another request must return the hash
                self._names_final_block = False
            else:
                return Head(latest.context.slot, latest.value.blockhash)
        return Head(await self.slot(commitment), None)

    async def alpenglow(self) -> bool | None:
        """Return whether the cluster has migrated to Alpenglow.

        Returns None if the node does not know, or returns no usable answer.
        """
        # Older nodes do not have the method, and providers may refuse it (HTTP 401, 404, 429).
        try:
            answer = await self._call("getAgGenesisCert", [], wire.CERTIFICATE)
        except RpcFailure:
            return None
        return None if answer.error is not None else answer.result is not None

    async def first_available(self) -> Slot:
        """Return the oldest slot whose block the node still has."""
        return Slot(_some(await self._call("getFirstAvailableBlock", [], wire.SLOT)))

    async def genesis_hash(self) -> str:
        """Return the genesis hash, which identifies the cluster."""
        return _some(await self._call("getGenesisHash", [], wire.TEXT))

    async def software(self) -> str:
        """Return the version of the node's software, or "" if the node does not report it."""
        return _some(await self._call("getVersion", [], wire.SOFTWARE)).version

    async def health(self) -> str:
        """Return "ok", or raise RpcFailure with the node's own message."""
        return _some(await self._call("getHealth", [], wire.TEXT))

    async def block_time(self, slot: Slot) -> UnixS | None:
        """Return the block time of *slot*, or None if the node does not know it."""
        answer = await self._call("getBlockTime", [slot], wire.SLOT)
        return None if answer.result is None else UnixS(answer.result)

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if the node does not know it."""
        # The pace comes from the performance samples of the last minutes.  If there are none, it
        # comes from the times of two blocks that are some minutes apart.
        with suppress(RpcFailure):  # not every provider offers this method
            params = [PERFORMANCE_SAMPLES]
            answer = await self._call("getRecentPerformanceSamples", params, wire.SAMPLES)
            samples = answer.result or ()
            pace = pace_of_samples((each.num_slots, each.sample_period_secs) for each in samples)
            if pace is not None:
                return pace
        try:
            head = await self.slot(Commitment.CONFIRMED)
            first = await self._time_near(Slot(max(head - PACE_SLOTS, 0)))
            last = await self._time_near(Slot(max(head - PACE_BLOCKS_MAX, 0)))
        except RpcRefused:
            return None
        return None if first is None or last is None else pace_between(first, last)

    async def _time_near(self, slot: Slot) -> tuple[Slot, UnixS] | None:
        """Return the first slot from *slot* on with a known block time, and that time.

        Returns None if the first PACE_BLOCKS_MAX slots have no known block time.
        """
        for near in range(slot, slot + PACE_BLOCKS_MAX):
            time = await self.block_time(Slot(near))
            if time is not None:
                return Slot(near), time
        return None

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that the node lists, ascending."""
        assert last - first <= BLOCKS_RANGE_MAX
        params = [first, last, {"commitment": commitment}]
        listed = _some(await self._call("getBlocks", params, wire.SLOTS))
        return sorted({Slot(slot) for slot in listed if first <= slot <= last})

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* with its transactions; *is_expected* is ignored.

        Raises AnswerTooLong if the block is longer than RESPONSE_BYTES_MAX; such a block is not
        requested again.
        """
        del is_expected
        if slot in self._too_long:
            raise AnswerTooLong(self._too_long[slot])
        try:
            answer = await self._get_block(slot, commitment, "full", wire.BLOCK)
        except AnswerTooLong as failure:
            if len(self._too_long) >= TOO_LONG_MAX:
                self._too_long.pop(next(iter(self._too_long)))
            self._too_long[slot] = str(failure)
            raise
        if isinstance(answer, Missing):
            return answer
        return Block(
            slot=slot,
            parent_slot=answer.parent_slot,
            blockhash=answer.blockhash,
            parent_blockhash=answer.parent_blockhash,
            time=plausible_time(slot, answer.block_time, self._clock),
            transactions=wire.JsonTransactions(answer.transactions),
            size=sum(map(len, answer.transactions)),
        )

    async def header(self, slot: Slot, commitment: Commitment) -> wire.Header | Missing:
        """Return the block at *slot* without its transactions, in a few hundred bytes."""
        return await self._get_block(slot, commitment, "none", wire.HEADER)

    async def accounts(self, addresses: Sequence[str]) -> wire.AccountsWire:
        """Return the accounts at up to 100 *addresses*, all as of the same confirmed slot."""
        params = [list(addresses), {"commitment": "confirmed", "encoding": "base64"}]
        return _some(await self._call("getMultipleAccounts", params, wire.ACCOUNTS))

    async def largest_accounts(self, mint: Mint) -> Sequence[str]:
        """Return the addresses of the largest accounts of *mint*; nodes return at most 20.

        Raises RpcRefused if the node does not offer this method; many public nodes do not.
        """
        params = [mint, {"commitment": "confirmed"}]
        answer = _some(await self._call("getTokenLargestAccounts", params, wire.LARGEST))
        return [one.address for one in answer.value]

    async def _get_block(
        self,
        slot: Slot,
        commitment: Commitment,
        details: str,
        decoder: msgspec.json.Decoder[wire.Answer[H]],
    ) -> H | Missing:
        while True:
            asked = self.version.newest
            options = {
                "encoding": "json",
                "transactionDetails": details,
                "rewards": False,
                "commitment": commitment,
                "maxSupportedTransactionVersion": asked,
            }
            answer = await self._call("getBlock", [slot, options], decoder)
            if answer.error is None:
                break
            treatment = _code(answer.error).treatment
            if treatment in wire.ABSENCES:
                return Missing(slot=slot, absence=wire.ABSENCES[treatment])
            if not self.version.rise(asked, answer.error.message):
                advice = _code(answer.error).advice
                said = answer.error.message[:200]
                raise RpcRefused(f"{self._where} getBlock: {advice}; it said {said!r}")
        if answer.result is None:
            return Missing(slot=slot, absence=wire.Absence.NOT_READY)
        if answer.result.parent_slot >= slot > 0:
            raise Unreachable(
                f"{self._where} getBlock: expected a parent below slot {slot};"
                f" was {answer.result.parent_slot}"
            )
        return answer.result

    async def _call(
        self, method: str, params: list[Any], decoder: msgspec.json.Decoder[wire.Answer[T]]
    ) -> wire.Answer[T]:
        """Return the answer to *method*: a result, an error, or neither.  Raises RpcFailure."""
        # An error is returned only if the block is missing or needs a newer transaction version.
        if not self.knows_confirmed:
            return await self._ask(method, as_final(params), decoder)
        try:
            return await self._ask(method, params, decoder)
        except RpcRefused as refusal:
            is_of_level = refusal.code == INVALID_PARAMS and as_final(params) != params
            if not is_of_level or not await self._refuses_confirmed():
                raise
        self.knows_confirmed = False
        log.warning("confirmed_unknown", node=self._where, used=Commitment.FINALIZED.value)
        return await self._ask(method, as_final(params), decoder)

    async def _refuses_confirmed(self) -> bool:
        """Return whether the node rejects the level `confirmed` but accepts `finalized`."""
        with suppress(RpcRefused):
            await self._ask("getSlot", [{"commitment": Commitment.CONFIRMED}], wire.SLOT)
            return False
        try:
            await self._ask("getSlot", [{"commitment": Commitment.FINALIZED}], wire.SLOT)
        except RpcRefused:
            return False
        return True

    async def _ask(
        self, method: str, params: list[Any], decoder: msgspec.json.Decoder[wire.Answer[T]]
    ) -> wire.Answer[T]:
        request = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        )
        trouble = Trouble("not asked")
        for attempt in range(self._endpoint.attempts_max):
            await self._throttle.wait(attempt)
            try:
                answer = await self._attempt(request, decoder)
            except Trouble as again:
                trouble = again
                self._throttle.postpone(again.retry_after_s)
                RPC_REQUESTS.labels(method, "retried").inc()
                continue
            except RpcRefused as cause:
                RPC_REQUESTS.labels(method, "refused").inc()
                # The type stays, because `block` catches AnswerTooLong.
                raise type(cause)(f"{self._where} {method}: {cause}", cause.code) from cause
            RPC_REQUESTS.labels(method, "answered").inc()
            return answer
        RPC_REQUESTS.labels(method, "unreachable").inc()
        attempts = self._endpoint.attempts_max
        repeated = f", {attempts} times in a row" if attempts > 1 else ""
        raise Unreachable(f"{self._where} {method}: {trouble}{repeated}") from trouble

    async def _attempt(
        self, request: bytes, decoder: msgspec.json.Decoder[wire.Answer[T]]
    ) -> wire.Answer[T]:
        try:
            # The timeout of httpx starts again with each piece of the answer.
            async with asyncio.timeout(self._endpoint.timeout_s):
                body = await self._post(request)
            answer = decode_json(body, decoder)
        except TimeoutError as cause:
            raise Trouble(f"no answer within {self._endpoint.timeout_s:g} s") from cause
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as cause:
            raise RpcRefused(f"the request cannot be sent ({cause})") from cause
        except httpx.HTTPError as cause:
            raise Trouble(f"{type(cause).__name__}: {cause}") from cause
        except BodyTooLong as cause:
            raise AnswerTooLong(str(cause)) from cause
        except Undecodable as cause:
            raise Trouble(f"expected a JSON-RPC answer; {cause}") from cause
        if answer.error is not None:
            said = f"{answer.error.message[:200]!r} ({answer.error.code})"
            code = _code(answer.error)
            if code.treatment is wire.Treatment.STOP:
                raise RpcRefused(f"{code.advice}; it said {said}", answer.error.code)
            if code.treatment is wire.Treatment.RETRY:
                raise Trouble(f"it said {said}", code=answer.error.code)
        return answer

    async def _post(self, request: bytes) -> bytes:
        async with self._http.stream("POST", self._url, content=request) as response:
            status = response.status_code
            if status in {408, 429} or status >= httpx.codes.INTERNAL_SERVER_ERROR:
                text = response.headers.get("Retry-After", "")
                raise Trouble(f"HTTP {status}", retry_after_s(text, self._clock.now() / 1000))
            if status != httpx.codes.OK:
                raise RpcRefused(
                    f"expected HTTP 200; was {status}: check chain.rpc_url and its key"
                )
            return await read_body(response, bytes_max=RESPONSE_BYTES_MAX)


def plausible_time(slot: Slot, time: int | None, clock: Clock) -> UnixS | None:
    """Return the block time *time*; None if unknown, or over FUTURE_S_MAX seconds in the future.

    Times in the market do not decrease, so a time in the future would stop the market.
    """
    if time is not None and time > clock.now() / 1000 + FUTURE_S_MAX:
        log.warning("block_from_the_future", slot=slot, block_time=time)
        return None
    return None if time is None else UnixS(time)


def _code(error: wire.ErrorWire) -> wire.Code:
    return wire.CODES.get(error.code, wire.UNKNOWN_CODE)


def _some(answer: wire.Answer[T]) -> T:
    if answer.result is None:
        said = "null" if answer.error is None else f"{answer.error.message[:200]!r}"
        raise Unreachable(f"expected a result; was {said}")
    return answer.result
