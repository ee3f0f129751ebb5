"""Candles from a server that answers as GeckoTerminal's documentation says."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result
from typing_extensions import override

from mintscope.base.primitives import Mint, UnixS
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.sources.history.gecko import NoCandles, gecko_candles
from mintscope.shell.cli.history.imports import app
from mintscope.shell.cli.tokens import app as tokens_app

MINT = Mint("DKu9kykSfbN5LBfFXtNNDPaX35o4Fv6vJ9FKk7pZpump")
NEWEST = 1_700_000_400
COUNT = 2_300


class Gecko(BaseHTTPRequestHandler):
    """2,300 minutes of one pool, a page of 1,000 at most, newest first."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: each[0] for name, each in parse_qs(parts.query).items()}
        if parts.path == f"/api/networks/solana/tokens/{MINT}/pools":
            answer: object = {"data": [{"id": "solana_P", "attributes": {"address": "P"}}]}
        elif parts.path == "/api/networks/solana/pools/P/ohlcv/minute":
            assert (asked["aggregate"], asked["currency"], asked["token"]) == ("1", "usd", MINT)
            before = int(asked.get("before_timestamp", NEWEST + 1))
            times = [NEWEST - 60 * n for n in range(COUNT) if NEWEST - 60 * n < before]
            lines = [[at, 2.0, 3.0, 1, 2.5, 12.5] for at in times[: int(asked["limit"])]]
            answer = {"data": {"id": "x", "attributes": {"ohlcv_list": lines}}}
        else:
            self.send_error(404)
            return
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object, **__: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Gecko) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


async def test_pages_are_read_back_to_the_day_that_is_asked_for(url: str) -> None:
    candles = await gecko_candles(MINT, Timeframe.M1, UnixS(0), url=url, pause_s=0)

    assert [each.bucket for each in candles] == [NEWEST - 60 * n for n in range(COUNT)][::-1]
    assert candles[0][1:] == (2.0, 3.0, 1.0, 2.5, 12_500_000)
    from_time = UnixS(NEWEST - 60 * 1_500)
    some = await gecko_candles(MINT, Timeframe.M1, from_time, url=url, pause_s=0)
    assert some == candles[-1_501:]


async def test_what_is_no_answer_says_so(url: str) -> None:
    with pytest.raises(NoCandles, match="was 404"):
        await gecko_candles(Mint("other"), Timeframe.M1, UnixS(0), url=url, pause_s=0)


def import_(folder: Path, *words: str) -> Result:
    config = folder / "mintscope.toml"
    config.write_text(f'data_dir = "{folder}"\nchain.rpc_url = "http://127.0.0.1:1"\n')
    CliRunner().invoke(tokens_app, ["tokens", "add", MINT, "--config", str(config)])
    words = ("history", "import", MINT, *words, "--config", str(config))
    return CliRunner().invoke(app, words)


def test_a_file_is_imported_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "candles.csv"
    file.write_text("t,open,high,low,close,volume\n3600,1,2,0.5,1.5,10\n7200,1,2,0.5,1.5,10\n")

    imported = import_(tmp_path, str(file), "--timeframe", "h1")

    assert imported.exit_code == 0, imported.output
    assert "2 candles of h1 wait" in imported.output
    shown = CliRunner().invoke(
        tokens_app, ["tokens", "show", MINT, "--config", str(tmp_path / "mintscope.toml")]
    )
    assert json.loads(shown.stdout)["imported"] == {
        "h1": {"provider": "candles.csv", "candles": 0, "waiting": 2}
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("3601,1,2,0.5,1.5,10", "start of a candle of h1"),
        ("3600,1,2,1.2,1.5,10", "to bound it"),
        ("3600,0,2,0,1.5,10", "prices"),
        ("3600,1,2,0.5,x,10", "line 2, column close"),
        ("3600,1,2,0.5,1,1\n3600,1,2,0.5,1,1", "each candle once"),
    ],
)
def test_a_candle_that_cannot_be_is_named(line: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "candles.csv"
    file.write_text(f"t,open,high,low,close,volume\n{line}\n")

    refused = import_(tmp_path, str(file), "--timeframe", "h1")

    assert refused.exit_code == 2
    assert said in refused.output


def test_a_file_or_a_provider_is_needed(tmp_path: Path) -> None:
    assert import_(tmp_path, "--timeframe", "h1").exit_code == 2
