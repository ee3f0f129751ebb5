"""The option `--new` accepts a replaced store once; a store that is replaced later is refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw
import psycopg
import pytest

from mintscope.app.stores.folder import MARKET_FILE
from support.processes.api_process import END_S, settings
from support.scenes.postgres import END_OTHERS, dsn_in, url_in

RENAME: Final = "UPDATE market_installation SET name = '" + 32 * "f" + "'"
REFUSED: Final = "expected money and market of one installation"

pytestmark = pytest.mark.process


@contextmanager
def started(environment: Mapping[str, str], *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "mintscope", *words],
        env=dict(environment),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: "subprocess.Popen[str]", event: str) -> None:
    assert process.stderr is not None
    read: list[str] = []
    while not (read and f'"event": "{event}"' in read[-1]):
        read.append(process.stderr.readline())
        assert read[-1], read


def child(process: "subprocess.Popen[str]", name: str) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (found,) = [
        int(one) for one in children if f"\0{name}\0" in Path(f"/proc/{one}/cmdline").read_text()
    ]
    return found


def test_a_process_restarted_by_serve_refuses_an_exchanged_store(
    tmp_path: Path,
) -> None:
    (tmp_path / "none.jsonl").touch()
    with started(settings(tmp_path), "serve", "--new") as serve:
        read_until(serve, "serving")
        with closing(apsw.Connection(str(tmp_path / "data" / MARKET_FILE))) as market:
            market.execute(RENAME)
        os.kill(child(serve, "api"), signal.SIGKILL)
        _, ended = serve.communicate(timeout=END_S)

    assert serve.returncode == 3
    assert REFUSED in ended


def test_a_retry_of_ingest_refuses_an_exchanged_store(tmp_path: Path) -> None:
    of_chain = {
        "MINTSCOPE_CHAIN__SOURCE": "rpc",
        "MINTSCOPE_CHAIN__RPC_URL": "http://127.0.0.1:1",
        "MINTSCOPE_STORE": url_in(tmp_path),
    }
    with started(settings(tmp_path) | of_chain, "ingest", "--new") as ingest:
        read_until(ingest, "ingest_takes_over")
        with psycopg.connect(dsn_in(tmp_path), autocommit=True) as database:
            database.execute(RENAME)
            database.execute(END_OTHERS, ([database.info.backend_pid],))
        _, ended = ingest.communicate(timeout=END_S)

    assert ingest.returncode == 3
    assert REFUSED in ended
