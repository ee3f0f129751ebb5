"""A source of blocks that reads a gRPC stream, and requests missing blocks over JSON-RPC."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final
from urllib.parse import urlsplit

import grpc
import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.metrics import CHAIN_SLOT, STREAM_ENDS
from mintscope.kit.primitives import Slot
from mintscope.solana.blocks import Block, Tip, Update
from mintscope.solana.finality import FAST_EVERY_S
from mintscope.solana.finality_meter import FinalityMeter
from mintscope.solana.node import Node
from mintscope.solana.pace import Pace
from mintscope.solana.poll import Poller, Polling, Progress
from mintscope.solana.rpc import BACKOFF_S, BACKOFF_S_MAX, Commitment, Head, Missing, Unreachable
from mintscope.solana.wire import Absence, Header
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer, StreamWatch
from mintscope.solana.yellowstone.transactions import PlausibleSlots, slot_of

log = structlog.get_logger()

MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
WATCHDOG_S: Final = 5.0
CONNECT_S: Final = 10.0
# A session that sends slots but no block ends after this multiple of the watchdog time.
BARREN_FACTOR: Final = 3
KEEPALIVE_MS: Final = 10_000
FILTER: Final = "mintscope"
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS // 2),
)
# Status codes with which a server may refuse the number of addresses in a filter.
TOO_MANY: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED})

Subscription = grpc.aio.StreamStreamCall[geyser_pb2.SubscribeRequest, geyser_pb2.SubscribeUpdate]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeyserEndpoint:
    """The address and the credentials of a gRPC server; an https URL means TLS."""

    url: str = field(repr=False)
    x_token: str = field(default="", repr=False)  # metadata `x-token`; "": none is sent
    ca: bytes | None = field(default=None, repr=False)  # certificates in PEM; None: the defaults

    @property
    def where(self) -> str:
        """The host of the URL, without the path, which may contain a key."""
        return urlsplit(self.url).hostname or "?"


class StreamEnded(Exception):
    """A session of the stream or a request has ended; *reason* is the label of the metric."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(said or reason)
        self.reason = reason


class Stream:
    """Reads a gRPC stream into a block buffer while `run` runs.

    news   an event that is set by each block, and by the end of a session
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        endpoints: Sequence[GeyserEndpoint],
        programs: Sequence[str],
        *,
        plausible: PlausibleSlots,
        clock: Clock,
        watchdog_s: float = WATCHDOG_S,
        watch: StreamWatch | None = None,
    ) -> None:
        assert endpoints
        self._watch = watch or StreamWatch(clock)
        self._plausible = plausible
        self._endpoints = endpoints
        self._programs = programs
        self._clock = clock
        self._watchdog_s = watchdog_s
        self._joined: set[GeyserEndpoint] = set()
        self.buffer = BlockBuffer()
        self._block_at_s: float | None = None
        self.news = asyncio.Event()

    @property
    def is_live(self) -> bool:
        """Whether the current session has delivered a block in the last `watchdog_s` seconds."""
        if self._block_at_s is None:
            return False
        return self._clock.monotonic_s() - self._block_at_s < self._watchdog_s

    def note_block(self) -> None:
        """Record that the current session has delivered a block."""
        self._block_at_s = self._clock.monotonic_s()
        self._watch.note_block()
        self.news.set()

    def note_end(self) -> None:
        """Record that the session has ended."""
        self._block_at_s = None
        self.news.set()

    async def run(self) -> None:
        """Subscribe to the stream, and again after the end of each session; never return.

        The pause between two sessions grows with each failure in a row.
        """
        vain = 0
        resumes = True
        while True:
            endpoint = self._endpoints[vain % len(self._endpoints)]
            before = self.buffer.newest
            since = Slot(before + 1) if resumes and before >= 0 else None
            await self._plausible.ask()
            try:
                await self._session(endpoint, since)
            except StreamEnded as end:
                STREAM_ENDS.labels(end.reason).inc()
                log.warning(
                    "stream_ended", endpoint=endpoint.where, reason=end.reason, said=str(end)
                )
            finally:
                self.note_end()
            has_served = self.buffer.newest > before
            vain = 0 if has_served else vain + 1
            # A server may have no earlier slots: then begin with new slots, and leave the rest to
            # the repairer.
            resumes = has_served or since is None
            if vain:
                backoff_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** min(vain - 1, 8))
                await asyncio.sleep(backoff_s * (1 + random.random()) / 2)  # noqa: S311 - only spreads load

    async def _session(self, endpoint: GeyserEndpoint, since: Slot | None) -> None:
        is_joined = endpoint in self._joined
        try:
            async with _channel(endpoint) as channel:
                subscribe: grpc.aio.StreamStreamMultiCallable[
                    geyser_pb2.SubscribeRequest, geyser_pb2.SubscribeUpdate
                ] = channel.stream_stream(
                    "/geyser.Geyser/Subscribe",
                    request_serializer=geyser_pb2.SubscribeRequest.SerializeToString,
                    response_deserializer=geyser_pb2.SubscribeUpdate.FromString,
                )
                call = subscribe(metadata=_metadata(endpoint), compression=grpc.Compression.Gzip)
                await self._read(
                    call, self._request(since, is_joined=is_joined), is_joined=is_joined
                )
        except grpc.aio.AioRpcError as error:
            code = error.code()
            if code in TOO_MANY and not is_joined and self._block_at_s is None:
                self._joined.add(endpoint)
            raise StreamEnded(code.name.lower(), (error.details() or "")[:200]) from error
        except TimeoutError as error:
            raise StreamEnded("silent", f"no slot within {self._watchdog_s:g} s") from error
        except asyncio.CancelledError as error:
            if _is_asked_to_stop():
                raise
            # gRPC also raises this error for an ended call; it must not end this task.
            raise StreamEnded("cancelled", "gRPC cancelled the call") from error
        # gRPC raises these, instead of an AioRpcError, if a call that has ended is used.
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            raise StreamEnded("closed", str(error)) from error

    async def _read(
        self, call: Subscription, request: geyser_pb2.SubscribeRequest, *, is_joined: bool
    ) -> None:
        assembler = Assembler(self.buffer, self._clock, is_joined=is_joined)
        self.buffer.begin_session()
        loop = asyncio.get_running_loop()
        barren_s = self._watchdog_s * BARREN_FACTOR
        block_due_s = loop.time() + max(CONNECT_S, barren_s)
        try:
            async with asyncio.timeout(max(CONNECT_S, self._watchdog_s)) as watchdog:
                await call.write(request)
                while isinstance(update := await call.read(), geyser_pb2.SubscribeUpdate):
                    if not self._plausible.allows(update):
                        raise StreamEnded("absurd", f"it named slot {slot_of(update)}")
                    kind = update.WhichOneof("update_oneof")
                    if kind == "ping":
                        answer = geyser_pb2.SubscribeRequestPing(id=1)
                        await call.write(geyser_pb2.SubscribeRequest(ping=answer))
                    elif kind in {"slot", "block", "block_meta"}:
                        watchdog.reschedule(loop.time() + self._watchdog_s)
                    if assembler.take(update):
                        CHAIN_SLOT.set(self.buffer.newest)
                        self.note_block()
                        block_due_s = loop.time() + barren_s
                    elif loop.time() > block_due_s:
                        raise StreamEnded("barren", f"slots, and no block within {barren_s:g} s")
        finally:
            with suppress(asyncio.InvalidStateError):
                call.cancel()
        raise StreamEnded("ended", "the server closed the stream")

    def _request(self, since: Slot | None, *, is_joined: bool) -> geyser_pb2.SubscribeRequest:
        request = geyser_pb2.SubscribeRequest(commitment=geyser_pb2.CONFIRMED, from_slot=since)
        # All statuses are needed, not only `confirmed`: they show final and dead slots, and banks.
        request.slots[FILTER].filter_by_commitment = False
        if is_joined:
            # This server refused the list of programs, so all transactions are requested.
            request.transactions[FILTER].vote = False
            request.transactions[FILTER].failed = False
            # A filter without conditions: the server sends all block metas, without a filter none.
            request.blocks_meta[FILTER].SetInParent()
        else:
            blocks = request.blocks[FILTER]
            blocks.account_include.extend(self._programs)
            blocks.include_transactions = True
            blocks.include_accounts = False
            blocks.include_entries = False
        return request


def _channel(endpoint: GeyserEndpoint) -> grpc.aio.Channel:
    address = urlsplit(endpoint.url)
    is_secure = address.scheme == "https"
    host = address.hostname or ""
    if ":" in host:  # an IPv6 address, whose brackets `hostname` leaves out
        host = f"[{host}]"
    target = f"{host}:{address.port or (443 if is_secure else 80)}"
    if is_secure:
        credentials = grpc.ssl_channel_credentials(root_certificates=endpoint.ca)
        return grpc.aio.secure_channel(target, credentials, options=OPTIONS)
    return grpc.aio.insecure_channel(target, options=OPTIONS)


def _is_asked_to_stop() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _metadata(endpoint: GeyserEndpoint) -> tuple[tuple[str, str], ...]:
    return (("x-token", endpoint.x_token),) if endpoint.x_token else ()


async def ask_version(endpoint: GeyserEndpoint, timeout_s: float) -> str:
    """Return the version of the server at *endpoint*.

    Raises StreamEnded if the server does not answer within *timeout_s* seconds.
    """
    try:
        async with _channel(endpoint) as channel:
            ask: grpc.aio.UnaryUnaryMultiCallable[
                geyser_pb2.GetVersionRequest, geyser_pb2.GetVersionResponse
            ] = channel.unary_unary(
                "/geyser.Geyser/GetVersion",
                request_serializer=geyser_pb2.GetVersionRequest.SerializeToString,
                response_deserializer=geyser_pb2.GetVersionResponse.FromString,
            )
            answer = await ask(
                geyser_pb2.GetVersionRequest(), metadata=_metadata(endpoint), timeout=timeout_s
            )
            return answer.version
    except grpc.aio.AioRpcError as error:
        raise StreamEnded(error.code().name.lower(), (error.details() or "")[:200]) from error


NEWS_S: Final = 0.25
OWED_SLOTS_MAX: Final = 10_000


class StreamedNode:
    """Returns blocks from a gRPC stream, and requests missing ones from a JSON-RPC node.

    repairer    that node

    A `Poller` reads from this node and checks that the blocks form a chain, so a wrong answer costs
    a request, but never a block.
    """

    def __init__(
        self, stream: Stream, repairer: Node, clock: Clock, *, poll_s: float, gap_after_s: float
    ) -> None:
        self._stream = stream
        self._buffer = stream.buffer
        self._repairer = repairer
        self._clock = clock
        self._poll_s = poll_s
        self._gap_after_s = gap_after_s
        self._reported = Slot(-1)
        self._final: tuple[float, Head] | None = None
        self._failing_since_s: dict[Slot, float] = {}

    async def head(self, commitment: Commitment) -> Head:
        """Return the newest block at *commitment*; wait briefly for a newer confirmed block."""
        if commitment is Commitment.FINALIZED:
            final = self._buffer.final
            if self._stream.is_live and final >= 0:
                held = self._buffer.final_block(final)
                return Head(final, None if held is None else held.blockhash)
            return await self._repaired_final()
        if self._buffer.newest <= self._reported:
            await self._news()
        if self._stream.is_live and self._buffer.newest >= 0:
            self._reported = self._buffer.newest
        else:
            self._reported = max(self._reported, (await self._repairer.head(commitment)).slot)
        return Head(self._reported, None)

    async def _repaired_final(self) -> Head:
        now_s = self._clock.monotonic_s()
        if self._final is None or now_s - self._final[0] >= FAST_EVERY_S:
            self._final = now_s, await self._repairer.head(Commitment.FINALIZED)
        return self._final[1]

    async def _news(self) -> None:
        wait_s = NEWS_S if self._stream.is_live else self._poll_s
        # Nothing is missed: no await lies between the test of the buffer and this line.
        self._stream.news.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._stream.news.wait()
        except TimeoutError:
            pass

    async def first_available(self) -> Slot:
        """Return the oldest slot whose block the JSON-RPC node still has."""
        return await self._repairer.first_available()

    async def genesis_hash(self) -> str:
        """Return the genesis hash of the chain, from the JSON-RPC node."""
        return await self._repairer.genesis_hash()

    async def pace(self) -> Pace | None:
        """Return the pace of the chain; None if the JSON-RPC node does not know it."""
        return await self._repairer.pace()

    async def blocks(self, *, first: Slot, last: Slot, commitment: Commitment) -> list[Slot]:
        """Return the slots from *first* to *last* that nodes report to have a block, ascending."""
        proven = self._buffer.covers(first, last)
        if proven is not None:
            return proven
        return await self._repairer.blocks(first=first, last=last, commitment=commitment)

    async def block(
        self, slot: Slot, commitment: Commitment, *, is_expected: bool = False
    ) -> Block | Missing:
        """Return the block at *slot* from the stream, or else from the JSON-RPC node.

        If the stream delivers blocks, but requests for this one have failed for longer than
        `gap_after_s`, return Missing with the reason PURGED.
        """
        held = self._buffer.block(slot)
        if held is not None:
            self._failing_since_s.pop(slot, None)
            return held
        if self._buffer.passes_over(slot):
            return Missing(slot=slot, absence=Absence.SKIPPED)
        try:
            answer = await self._repairer.block(slot, commitment, is_expected=is_expected)
        except Unreachable:
            if not self._is_given_up(slot):
                raise
            return Missing(slot=slot, absence=Absence.PURGED)
        self._failing_since_s.pop(slot, None)
        if isinstance(answer, Block):
            self._buffer.contradict(answer)  # a block of the stream may be dead
        return answer

    def _is_given_up(self, slot: Slot) -> bool:
        """Return whether requests for *slot* failed for over `gap_after_s`, but the stream is live.

        Call this after each failed request for *slot*.
        """
        now_s = self._clock.monotonic_s()
        if len(self._failing_since_s) >= OWED_SLOTS_MAX:
            self._failing_since_s.clear()
        since_s = self._failing_since_s.setdefault(slot, now_s)
        return self._stream.is_live and now_s - since_s > self._gap_after_s

    async def header(self, slot: Slot, commitment: Commitment) -> Header | Missing:
        """Return the block at *slot* without its transactions."""
        is_final = commitment is Commitment.FINALIZED
        held = self._buffer.final_block(slot) if is_final else self._buffer.block(slot)
        if held is None:
            return await self._repairer.header(slot, commitment)
        return Header(
            blockhash=held.blockhash,
            parent_blockhash=held.parent_blockhash,
            parent_slot=held.parent_slot,
        )


SHORTEST_MS = 1
# Seconds between two checks of finality: the stream reports it, so a check needs no request.
FINALITY_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class GeyserSource:
    """A source that reads a gRPC stream, which delivers new blocks sooner than a JSON-RPC node.

    repairer    the JSON-RPC node that missing blocks are requested from
    """

    endpoints: Sequence[GeyserEndpoint]  # servers in order of preference
    programs: Sequence[str]  # transactions must name one of these, unless a server refuses the list
    repairer: Node
    polling: Polling
    _: KW_ONLY
    clock: Clock
    watchdog_s: float = WATCHDOG_S
    progress: Progress | None = None
    owed_since: dict[Slot, float] = field(default_factory=dict)
    meter: FinalityMeter = field(default_factory=FinalityMeter)
    watch: StreamWatch | None = None  # checks that the stream delivers blocks

    async def genesis_hash(self) -> str | None:
        """Return the genesis hash of the chain, or None if the JSON-RPC node refuses the request.

        Wait while the node is unreachable.
        """
        return await Poller(self.repairer, self.polling, clock=self.clock).genesis_hash()

    async def updates(self, after: Tip | None) -> AsyncGenerator[Update, None]:
        """Yield blocks in order, reports of final blocks, and gaps; never end.

        Raises RpcRefused if the JSON-RPC node refuses the first requests, and OtherChain if it
        follows another cluster.  Later failures are logged, and the requests are repeated.
        """
        stream = Stream(
            self.endpoints,
            self.programs,
            plausible=PlausibleSlots(self.repairer, self.clock),
            clock=self.clock,
            watchdog_s=self.watchdog_s,
            watch=self.watch,
        )
        node = StreamedNode(
            stream,
            self.repairer,
            self.clock,
            poll_s=self.polling.poll_interval_ms / 1000,
            gap_after_s=self.polling.gap_after_s,
        )
        # `StreamedNode.head` waits for news, so the poller need not wait.
        polling = replace(
            self.polling,
            poll_interval_ms=SHORTEST_MS,
            fast_finality_every_s=FINALITY_EVERY_S,
            asks_ahead=False,
        )
        poller = Poller(
            node,
            polling,
            clock=self.clock,
            progress=self.progress,
            owed_since=self.owed_since,
            meter=self.meter,
        )
        running = asyncio.create_task(stream.run())
        try:
            async with aclosing(poller.updates(after)) as updates:
                async for update in updates:
                    if running.done():
                        running.result()  # raises the error that ended the stream
                    yield update
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
