"""`mintscope demo` does everything that the README says."""

import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.processes.servers import free_port

READY_S = 400  # the demo itself gives up earlier, and prints the reason
END_S = 20
TIMEFRAMES = ("m1", "m5", "m15", "h1")
ADDRESS = "[1-9A-HJ-NP-Za-km-z]{32,44}"
SIGNATURE = "[1-9A-HJ-NP-Za-km-z]{80,90}"
FIBONACCI = {
    *("swingHigh", "swingLow", "level236", "level382", "level500", "level618", "level764"),
    *("ext1272", "ext1618", "ext2000", "ext2618"),
}


class Demo:
    """The running demo, and the lines that it has printed."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mintscope", "demo", "--port", str(self.port), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={"TMPDIR": str(folder), "PATH": "", "HOME": str(folder)},
        )
        self.lines: list[str] = []

    def read_until(self, text: str) -> None:
        assert self.process.stdout is not None
        guard = threading.Timer(READY_S, self.process.kill)
        guard.start()
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                break
        guard.cancel()
        assert any(text in line for line in self.lines), self.lines

    def curl(self, part: str) -> tuple[str, dict[str, str]]:
        """Return address and headers of the first printed curl line that contains *part*."""
        line = next(line for line in self.lines if "curl" in line and part in line)
        words = shlex.split(line)
        name, _, value = words[words.index("-H") + 1].partition(": ")
        return words[-1], {name: value}


@contextmanager
def running(folder: Path, *words: str) -> Iterator[Demo]:
    demo = Demo(folder, *words)
    try:
        demo.read_until("Ctrl-C ends the demo")
        yield demo
    finally:
        if demo.process.poll() is None:
            demo.process.kill()
        demo.process.wait(END_S)
        assert demo.process.stdout is not None
        demo.process.stdout.close()


def children_of(pid: int) -> list[int]:
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if re.search(rf"^PPid:\t{pid}$", _text(status), re.MULTILINE)
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


def _is_gone(pid: int) -> bool:
    return "\nState:\tZ" in (text := _text(Path(f"/proc/{pid}/status"))) or not text


@pytest.mark.timeout(600)
def test_the_printed_commands_work_and_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    with running(tmp_path) as demo:
        _expect_a_buyer(demo.lines)
        url, bearer = demo.curl("/v1/token/")
        assert url.startswith(f"http://127.0.0.1:{demo.port}/")
        answer = httpx.get(url, headers=bearer, timeout=10)
        body = answer.json()
        data = body["data"]

        assert answer.status_code == 200
        assert body["success"] is True
        assert body["meta"].keys() == {"timestamp", "requestId"}
        assert data.keys() == {"token", "price", "indicators", "dataSpan", "coverage"}
        assert data["coverage"]["token"] == {"byCalls": 1.0, "byVolume": 1.0}
        assert data["coverage"]["overall"] == {"byCalls": 1.0, "byVolume": 1.0}
        assert data["coverage"]["missingSlots"] == 0
        assert data["price"].keys() == {
            *("usd", "sol", "pool", "ageMs", "liquidityUsd", "pools", "confidence"),
            "rejectedShareH1",
        }
        assert data["dataSpan"].keys() == {"from", "to", "candleCounts"}
        assert data["indicators"].keys() == {*TIMEFRAMES, "buySellPressure"}
        for timeframe in TIMEFRAMES:
            indicators = data["indicators"][timeframe]
            assert all(isinstance(indicators[f"ema{n}"], float) for n in (9, 21, 50, 200))
            assert 0 <= indicators["rsi"] <= 100
            assert indicators["macd"].keys() == {"line", "signal", "histogram"}
            assert indicators["fibonacci"].keys() == FIBONACCI
            assert data["dataSpan"]["candleCounts"][timeframe] >= 200
        pressure = data["indicators"]["buySellPressure"]
        assert pressure.keys() == {"m1", "m5", "m15", "h1", "h4", "d1"}
        assert all(0 <= share <= 1 for share in pressure.values())

        left = int(answer.headers["x-credits-remaining"])
        again = httpx.get(url, headers=bearer, timeout=10)
        assert int(again.headers["x-credits-remaining"]) == left - 1
        balance_url, _ = demo.curl("/v1/credits/balance")
        balance = httpx.get(balance_url, headers=bearer, timeout=10)
        assert balance.json()["data"] == {"balance": left - 1}

        _expect_an_agent(demo.lines)
        children = children_of(demo.process.pid)
        assert len(children) == 3
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(END_S) == 0
        assert all(_is_gone(child) for child in children)
        assert list(tmp_path.iterdir()) == []


BROKEN = """
import os, sys
if "{word}" in sys.orig_argv:
    os.write(2, b"there is no room\\n")
    os._exit(7)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", ["credits issue", "admin create"])
def test_the_demo_ends_with_one_message_if_a_command_fails(tmp_path: Path, words: str) -> None:
    broken = BROKEN.format(word=words.partition(" ")[0])
    (tmp_path / "sitecustomize.py").write_text(broken)  # Python runs it at each start
    ran = subprocess.run(
        [sys.executable, "-m", "mintscope", "demo", "--history-days", "0.2"],
        capture_output=True,
        text=True,
        timeout=READY_S,
        env={"TMPDIR": str(tmp_path), "PATH": "", "PYTHONPATH": str(tmp_path)},
        check=False,
    )

    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        f"mintscope: expected `mintscope {words}` to succeed; it ended with 7: there is no room"
    )


@pytest.mark.timeout(600)
def test_a_demo_with_a_stream_sells_and_its_processes_end_after_a_kill(tmp_path: Path) -> None:
    with running(tmp_path, "--grpc", "--wallet", "--history-days", "0.2") as demo:
        _expect_a_buyer(demo.lines)
        page = httpx.get(f"http://127.0.0.1:{demo.port}/buy/10", timeout=10).text
        assert re.search('demo-wallet.js[^>]* data-seed="[0-9a-f]{64}"', page)
        children = children_of(demo.process.pid)
        assert len(children) == 3
        demo.process.kill()
        demo.process.wait()

        deadline = threading.Event()
        for _ in range(END_S * 10):
            if all(_is_gone(child) for child in children):
                break
            deadline.wait(0.1)
        assert all(_is_gone(child) for child in children)


def _expect_an_agent(lines: list[str]) -> None:
    """Run the printed command of an agent, from signup to deletion; sign in as administrator."""
    line = next(line for line in lines if "--approve-with" in line)
    ran = subprocess.run(
        shlex.split(line), capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "404 ACCOUNT_NOT_FOUND" in ran.stdout
    (pages,) = [line.split()[-1] for line in lines if line.startswith("  pages ")]
    (reported,) = [line for line in lines if line.startswith("  administrator ")]
    email, password = reported.split()[1].rstrip(","), reported.split()[-1]
    signed_in = httpx.post(
        f"{pages}sign-in",
        data={"email": email, "password": password},
        headers={"origin": pages.rstrip("/")},
        timeout=10,
    )
    assert (signed_in.status_code, "set-cookie" in signed_in.headers) == (303, True)


def _expect_a_buyer(lines: list[str]) -> None:
    """Expect the lines of a buyer who pays, buys credits and spends all of them."""
    said = [line.strip() for line in lines if line.startswith("    ")]
    unpaid, *terms, report, purchase, in_usdc, spent, empty = said
    amount, asset, pay_to, network, sponsor, memo = terms
    assert any("the official x402 client" in line for line in lines)
    assert unpaid == "402 PAYMENT_REQUIRED, and PAYMENT-REQUIRED says"
    assert re.fullmatch(r"amount +\d+ atoms, [\d.]+ MINT", amount)
    assert re.fullmatch(rf"asset +{ADDRESS}", asset)
    assert re.fullmatch(rf"payTo +{ADDRESS}", pay_to)
    assert re.fullmatch(rf"network +solana:{ADDRESS}", network)
    assert re.fullmatch(rf"feePayer +{ADDRESS} .*", sponsor)
    assert re.fullmatch(r"memo +[\w=-]{32} .*", memo)
    assert re.fullmatch(rf"200, price [\d.]+ USD, settled by {SIGNATURE}", report)
    assert re.fullmatch(rf"201, 10 credits for [\d.]+ MINT, settled by {SIGNATURE}", purchase)
    assert re.fullmatch(rf"200, price [\d.]+ USD, settled by {SIGNATURE}", in_usdc)
    assert any(line.endswith(", paid in USDC") for line in lines)
    assert spent == f"200, credits left: {list(range(9, -1, -1))}"
    assert empty == "402 INSUFFICIENT_CREDITS"
