"""The devchain as other programs use it: its process, its RPC for a poller, and its block file."""

import gzip
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from itertools import pairwise
from math import ceil
from pathlib import Path

import httpx
import msgspec
import pytest

from mintscope.dex.decode import decode_block
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from mintscope.solana.blocks import Block, Endpoint
from mintscope.solana.files import FileSource
from mintscope.solana.poll import Poller, Polling
from mintscope.solana.rpc import Rpc
from mintscope_devchain.chain import Devchain

NOW = UnixMs(1_763_640_000_000)
COMMAND = [sys.executable, "-m", "mintscope", "devchain"]
READY_S = 15  # a bound for a loaded machine; the goal is 3


@contextmanager
def devchain(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `mintscope devchain` on a free port; yield the process and its address."""
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *options], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            reported = process.stderr.readline()
            found = re.search(r"http://\S+", reported)
            assert found, reported
            yield process, found[0]
        finally:
            if process.poll() is None:
                process.kill()


def ask(url: str, method: str, *params: object) -> object:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    return httpx.post(url, json=call, timeout=READY_S).json()["result"]


def next_slot(url: str) -> object:
    """Return the first slot confirmed from now on."""
    first = ask(url, "getSlot", {"commitment": "confirmed"})
    while (slot := ask(url, "getSlot", {"commitment": "confirmed"})) == first:
        time.sleep(0.02)
    return slot


def test_the_devchain_serves_and_produces_new_slots(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    with devchain("--speed", "20") as (process, url):
        assert ask(url, "getHealth") == "ok"
        with capsys.disabled():
            sys.stdout.write(f"\nthe devchain serves after {time.monotonic() - started:.1f} s\n")

        next_slot(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) in (0, -signal.SIGTERM)


def test_the_newest_block_has_the_current_time() -> None:
    with devchain("--speed", "20", "--history-days", "0.1") as (_, url):
        shown = ask(url, "getBlockTime", next_slot(url))

    assert isinstance(shown, int)
    assert abs(shown - time.time()) < READY_S  # noqa: TID251  # the current time is tested


def test_a_port_in_use_is_reported_in_one_message() -> None:
    with devchain("--history-days", "0") as (_, url):
        port = url.rpartition(":")[2]
        again = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, timeout=30, check=False
        )

    assert again.returncode == 2
    assert again.stderr.splitlines() == [
        f"cannot listen on 127.0.0.1 port {port}: Address already in use"
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--blocks", "5"),
        ("--port", "70000"),
        ("--mints", "0"),
        ("--history-days", "-1"),
        ("--speed", "0"),
        ("--to-file", "missing/folder/blocks.jsonl"),
    ],
)
def test_wrong_options_exit_2_without_a_traceback(options: tuple[str, ...], tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, *options],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=tmp_path,
    )

    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert ran.stderr.strip()


def written(path: Path, *options: str) -> list[bytes]:
    subprocess.run(
        [*COMMAND, "--to-file", path, *options], check=True, timeout=30, stderr=subprocess.DEVNULL
    )
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()


@pytest.mark.parametrize("name", ["blocks.jsonl", "blocks.jsonl.gz"])
async def test_a_file_replays_as_one_chain(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    lines = written(path, "--blocks", "30", "--mints", "60", "--history-days", "0")
    blocks = [each async for each in FileSource([path]).updates(None) if isinstance(each, Block)]

    assert [block.slot for block in blocks] == [msgspec.json.decode(line)["slot"] for line in lines]
    assert len(blocks) == 30
    for parent, child in pairwise(blocks):
        assert (child.parent_slot, child.parent_blockhash) == (parent.slot, parent.blockhash)
    traded = {
        mint
        for block in blocks
        for swap in decode_block(block.transactions).swaps
        for mint in (swap.in_mint, swap.out_mint)
    }
    assert len(traded) > 30
    assert not path.with_name(f"{name}.part").exists()


async def test_a_poller_follows_the_devchain_through_a_fork() -> None:
    chain = Devchain(seed=4, now=NOW, history_days=0.05, slot_ms=400, finality_ms=12_800)
    for _ in range(40):
        chain.tick()
    clock = ManualClock(NOW)

    async def wait(seconds: float) -> None:
        """Advance the clock, and the chain by one slot, instead of waiting."""
        clock.advance(ceil(seconds * 1_000))
        chain.tick()

    followed: list[Block] = []
    died: list[Block] = []
    forks_at, ends_at = len(chain.blockstore.slots) + 20, len(chain.blockstore.slots) + 60
    transport = httpx.ASGITransport(chain.app)
    async with Rpc(Endpoint(url="http://devchain/"), clock=clock, transport=transport) as rpc:
        # Each wait makes a slot, so parallel waits would make several slots for each block.
        polling = Polling(start="first", asks_ahead=False)
        poller = Poller(rpc, polling, clock=clock, sleep=wait)
        async with aclosing(poller.updates(None)) as updates:
            async for update in updates:
                if not isinstance(update, Block):
                    continue
                while followed and followed[-1].slot > update.parent_slot:
                    died.append(followed.pop())
                followed.append(update)
                if len(followed) == forks_at and not died:
                    chain.fork(6)
                if len(followed) == ends_at:
                    break

    assert len(died) >= 5
    assert [(block.slot, block.blockhash) for block in followed] == [
        (slot, shown.blockhash)
        for slot in chain.blockstore.slots[:ends_at]
        if (shown := chain.blockstore.block(slot)) is not None
    ]
    assert not {block.blockhash for block in died} & {block.blockhash for block in followed}
