"""One subscription after the other, to the first endpoint of several that serves."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import grpc
import structlog

from mintscope.base.clock import Clock
from mintscope.base.metrics import CHAIN_SLOT, STREAM_ENDS
from mintscope.base.primitives import Slot
from mintscope.base.yellowstone import geyser_pb2
from mintscope.edges.sources.geyser.assembler import Assembler
from mintscope.edges.sources.geyser.believable import Believable, slot_of
from mintscope.edges.sources.geyser.shelf import Shelf
from mintscope.edges.sources.geyser.watch import StreamWatch
from mintscope.edges.sources.throttle import BACKOFF_S, BACKOFF_S_MAX

log = structlog.get_logger()

MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
WATCHDOG_S: Final = 5.0
CONNECT_S: Final = 10.0
# A server that names slots and gives no block is left after so many watchdogs.
BARREN_FACTOR: Final = 3
KEEPALIVE_MS: Final = 10_000
FILTER: Final = "mintscope"
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS // 2),
)
# Answers of a server that does not take so many addresses in one filter.
TOO_MANY: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED})

Subscription = grpc.aio.StreamStreamCall[geyser_pb2.SubscribeRequest, geyser_pb2.SubscribeUpdate]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeyserEndpoint:
    """Where a stream is served; https means TLS.

    x_token   what the provider wants in the metadata of that name, "" for nothing
    ca        certificates (PEM) that the server's must be signed by, or be; None: those gRPC knows
    """

    url: str = field(repr=False)
    x_token: str = field(default="", repr=False)
    ca: bytes | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The host alone: the rest may hold a key."""
        return urlsplit(self.url).hostname or "?"


class StreamEnded(Exception):
    """A session is over; *reason* is one word for the metric."""

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(said or reason)
        self.reason = reason


class Stream:
    """Keeps *shelf* filled while `run` runs; a session that names an absurd slot is ended.

    news      set whenever the shelf has a new block, or a session ends
    """

    def __init__(  # noqa: PLR0913 - one argument for each part
        self,
        endpoints: Sequence[GeyserEndpoint],
        programs: Sequence[str],
        *,
        believable: Believable,
        clock: Clock,
        watchdog_s: float = WATCHDOG_S,
        watch: StreamWatch | None = None,
    ) -> None:
        assert endpoints
        self._watch = watch or StreamWatch(clock)
        self._believable = believable
        self._endpoints = endpoints
        self._programs = programs
        self._clock = clock
        self._watchdog_s = watchdog_s
        self._joined: set[GeyserEndpoint] = set()
        self.shelf = Shelf()
        self._block_at_s: float | None = None
        self.news = asyncio.Event()

    @property
    def is_live(self) -> bool:
        """Whether the session under way gave a block within the time of the watchdog.

        A session that hangs, in whatever call, is not live: nothing waits for its blocks.
        """
        if self._block_at_s is None:
            return False
        return self._clock.monotonic_s() - self._block_at_s < self._watchdog_s

    def note_block(self) -> None:
        """Note that the session under way gave a block now."""
        self._block_at_s = self._clock.monotonic_s()
        self._watch.note_block()
        self.news.set()

    def note_end(self) -> None:
        """Note that no session is under way."""
        self._block_at_s = None
        self.news.set()

    async def run(self) -> None:
        """Subscribe, and again when that ends, longer apart while nothing comes of it."""
        vain = 0
        resumes = True
        while True:
            endpoint = self._endpoints[vain % len(self._endpoints)]
            before = self.shelf.newest
            since = Slot(before + 1) if resumes and before >= 0 else None
            await self._believable.ask()
            try:
                await self._session(endpoint, since)
            except StreamEnded as end:
                STREAM_ENDS.labels(end.reason).inc()
                log.warning(
                    "stream_ended", endpoint=endpoint.where, reason=end.reason, said=str(end)
                )
            finally:
                self.note_end()
            has_served = self.shelf.newest > before
            vain = 0 if has_served else vain + 1
            # A server that cannot go back so far is asked for what is new: the rest is repaired.
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
            # gRPC raises it, too, where a call ended by itself: unseen, it would end this task.
            raise StreamEnded("cancelled", "the call was cancelled from inside") from error
        except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            raise StreamEnded("closed", str(error)) from error

    async def _read(
        self, call: Subscription, request: geyser_pb2.SubscribeRequest, *, is_joined: bool
    ) -> None:
        assembler = Assembler(self.shelf, self._clock, is_joined=is_joined)
        self.shelf.begin_session()
        loop = asyncio.get_running_loop()
        barren_s = self._watchdog_s * BARREN_FACTOR
        block_due_s = loop.time() + max(CONNECT_S, barren_s)
        try:
            async with asyncio.timeout(max(CONNECT_S, self._watchdog_s)) as watchdog:
                await call.write(request)
                while isinstance(update := await call.read(), geyser_pb2.SubscribeUpdate):
                    if not self._believable.allows(update):
                        raise StreamEnded("absurd", f"it named slot {slot_of(update)}")
                    kind = update.WhichOneof("update_oneof")
                    if kind == "ping":
                        answer = geyser_pb2.SubscribeRequestPing(id=1)
                        await call.write(geyser_pb2.SubscribeRequest(ping=answer))
                    elif kind in {"slot", "block", "block_meta"}:
                        watchdog.reschedule(loop.time() + self._watchdog_s)
                    if assembler.take(update):
                        CHAIN_SLOT.set(self.shelf.newest)
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
        request.slots[FILTER].filter_by_commitment = False
        if is_joined:
            request.transactions[FILTER].vote = False
            request.transactions[FILTER].failed = False
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
    target = f"{address.hostname}:{address.port or (443 if is_secure else 80)}"
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
    """Return what the server says of itself.  Raises StreamEnded without an answer."""
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
