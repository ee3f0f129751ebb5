"""The Geyser stream over TLS, with messages as large as the blocks of mainnet."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from mintscope.app.config.groups import GeyserConfig
from mintscope.app.config.load import ConfigError, load
from mintscope.app.stream import endpoints, versions
from mintscope.kit.clock import ManualClock, SystemClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.rpc import Unreachable
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.block_buffer import StreamWatch
from mintscope.solana.yellowstone.stream import Stream
from mintscope.solana.yellowstone.transactions import PlausibleSlots
from support.fakes import mail_server

# A self-signed certificate for localhost, and its key.
CERTIFICATE = Path(mail_server.__file__).with_name("mail_server.pem")
GRPC_BYTES_MAX = 4 * 1024 * 1024  # the largest message that gRPC receives by default
TIMEOUT_S = 20

Update = geyser_pb2.SubscribeUpdate


class Away:
    """A source for repairs that cannot be reached."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Unreachable(f"no answer to {name}")


def large_block(slot: int, size: int) -> Update:
    update = Update()
    update.block.slot, update.block.parent_slot = slot, slot - 1
    update.block.blockhash, update.block.parent_blockhash = str(slot), str(slot - 1)
    info = update.block.transactions.add()
    info.meta.log_messages.append("x" * size)
    return update


async def subscribe(_requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Update]:
    yield large_block(7, 6 * GRPC_BYTES_MAX)
    await asyncio.Event().wait()


async def version(_request: Any, _context: Any) -> geyser_pb2.GetVersionResponse:
    return geyser_pb2.GetVersionResponse(version="large")


async def subscribe_barren(_requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Update]:
    """Yield the statuses of successive slots, but no block."""
    for slot in count(8):
        update = Update()
        update.slot.slot, update.slot.status = slot, geyser_pb2.SLOT_CONFIRMED
        yield update
        await asyncio.sleep(0.01)


@asynccontextmanager
async def served(subscribe: Any = subscribe) -> AsyncGenerator[str, None]:
    """Serve *subscribe* over TLS, by default one block of 24 MB; yield the URL."""
    server = grpc.aio.server()
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Subscribe": grpc.stream_stream_rpc_method_handler(
            subscribe,
            request_deserializer=geyser_pb2.SubscribeRequest.FromString,
            response_serializer=Update.SerializeToString,
        ),
        "GetVersion": grpc.unary_unary_rpc_method_handler(
            version,
            request_deserializer=geyser_pb2.GetVersionRequest.FromString,
            response_serializer=geyser_pb2.GetVersionResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("geyser.Geyser", methods),)
    )
    pem = CERTIFICATE.read_bytes()
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(pem, pem)]))
    await server.start()
    try:
        yield f"https://localhost:{port}"
    finally:
        await server.stop(0.1)


def geyser(url: str, ca_file: Path | None = CERTIFICATE) -> GeyserConfig:
    return GeyserConfig(urls=(SecretStr(url),), ca_file=ca_file)


async def test_a_block_larger_than_the_grpc_default_is_received_over_tls() -> None:
    async with served() as url:
        clock = SystemClock()
        watched = ManualClock(UnixMs(0))
        watch = StreamWatch(watched)
        await watch.expect_blocks()
        watched.advance(21_000)
        with pytest.raises(ServiceUnavailable, match="no server of"):
            await watch.expect_blocks()
        stream = Stream(
            endpoints(geyser(url)),
            [],
            plausible=PlausibleSlots(Away(), clock),
            clock=clock,
            watch=watch,
        )
        running = asyncio.create_task(stream.run())
        async with asyncio.timeout(TIMEOUT_S):
            while stream.buffer.newest < 0:
                stream.news.clear()
                await stream.news.wait()
        running.cancel()
        block = stream.buffer.block(Slot(7))
        await watch.expect_blocks()

    assert block is not None
    assert block.blockhash == "7"


async def test_a_stream_that_sends_slots_but_no_blocks_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mintscope.solana.yellowstone.stream.CONNECT_S", 0.3)
    monkeypatch.setattr("mintscope.solana.yellowstone.stream.BARREN_FACTOR", 0.005)
    async with served(subscribe_barren) as url:
        clock = SystemClock()
        stream = Stream(
            endpoints(geyser(url)),
            [],
            plausible=PlausibleSlots(Away(), clock),
            clock=clock,
            watchdog_s=TIMEOUT_S,
        )
        with capture_logs() as logs:
            running = asyncio.create_task(stream.run())
            async with asyncio.timeout(TIMEOUT_S):
                while not logs:  # noqa: ASYNC110 - a list of logs has no event
                    await asyncio.sleep(0.01)
            running.cancel()

    assert logs[0]["reason"] == "barren"
    assert not stream.is_live


@pytest.mark.parametrize(("ca_file", "said"), [(CERTIFICATE, "large"), (None, None)])
async def test_a_self_signed_certificate_is_accepted_only_if_configured(
    ca_file: Path | None, said: str | None
) -> None:
    async with served() as url:
        ((where, answer, _),) = [one async for one in versions(geyser(url, ca_file))]

    assert (where, answer) == ("localhost", said)


def test_an_unreadable_certificate_file_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINTSCOPE_CHAIN__SOURCE", "geyser")
    monkeypatch.setenv("MINTSCOPE_GEYSER__URLS", "https://localhost")
    monkeypatch.setenv("MINTSCOPE_GEYSER__CA_FILE", str(tmp_path / "none.pem"))

    with pytest.raises(ConfigError, match=r"geyser\.ca_file: expected a file that can be read"):
        load(None)
