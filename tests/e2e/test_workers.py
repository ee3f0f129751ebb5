"""`mintscope serve --workers`: several api processes behind one address."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from typer.testing import CliRunner

from mintscope.app.cli.app import app
from mintscope.kit.primitives import UnixMs
from mintscope_devchain.chain import Devchain, lines
from support.processes.listening import addresses_in
from support.scenes.postgres import url_in

NOW: Final = UnixMs(1_763_640_000_000)
WORKERS: Final = 3
LIMIT: Final = 30  # requests in 60 s
END_S: Final = 20


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Yield the address of a service once every worker serves."""
    file = folder / "blocks.jsonl"
    chain = Devchain(seed=11, now=NOW, mints=2, history_days=0.01)
    file.write_bytes(b"".join(lines(chain, len(chain.blockstore.slots))))
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MINTSCOPE_")}  # noqa: TID251
    environment = inherited | {
        "MINTSCOPE_DATA_DIR": str(folder / "data"),
        "MINTSCOPE_STORE": url_in(folder),
        "MINTSCOPE_CHAIN__SOURCE": "files",
        "MINTSCOPE_CHAIN__FILES": str(file),
        "MINTSCOPE_API__PORT": "0",
        "MINTSCOPE_METRICS__ENABLED": "false",
        "MINTSCOPE_LOG__LEVEL": "warning",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "mintscope", "serve", "--workers", f"{WORKERS}"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            reported: list[str] = []
            while len(addresses := addresses_in("".join(reported))) < WORKERS:
                reported.append(process.stderr.readline())
                assert reported[-1], reported
            yield addresses[0]
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
        finally:
            process.kill()


async def ask(address: str) -> int:
    """Send one request on its own connection; return the status of the answer."""
    async with httpx.AsyncClient(timeout=END_S) as client:
        answer = await client.get(f"{address}/v1/token/So11111111111111111111111111111111111111112")
        return answer.status_code


def test_200_requests_at_once_over_three_workers_admit_exactly_30(tmp_path: Path) -> None:
    async def flood(address: str) -> Counter[int]:
        return Counter(await asyncio.gather(*(ask(address) for _ in range(200))))

    with serving(tmp_path) as address:
        answers = asyncio.run(flood(address))

    assert answers == {429: 200 - LIMIT, 402: LIMIT}  # those admitted have no credit token


def test_several_workers_on_sqlite_are_refused(tmp_path: Path) -> None:
    environment = {"MINTSCOPE_DATA_DIR": str(tmp_path)}
    refused = CliRunner().invoke(app, ["serve", "--workers", "2"], env=environment)
    assert refused.exit_code == 2
    assert "expected the setting store" in refused.output
