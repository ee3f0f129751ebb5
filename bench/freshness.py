"""Measures the time from a block's confirmation to the first answer that includes the block.

`mintscope ingest` and `mintscope api` run with all settings at their defaults, on a market that
trades; the node is on this machine.  A client sends requests continuously, and each answer has the
number of its newest block.
"""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.figure import Figure, tell
from bench.process import free_port, python_running, wait_for
from mintscope.app.config.load import child_environment
from mintscope.solana.blocks import WSOL

BLOCKS = 200
CATCH_UP_S = 10.0  # seconds after the first live answer, which are not measured
PAUSE_S = 0.002
READY_S_MAX = 60.0
WHAT = "block confirmed to visible in an answer"
FLOOR = "floor: fetch and parse the block"
GOALS = {50: "", 99: "goal <= 250 ms"}


class Seen(NamedTuple):
    """The time of a response, and the newest slot that its data includes."""

    at_s: float
    slot: int


def run() -> list[Figure]:
    """Measure the delay from a new block to a report with it, and the time to fetch a block.

    Return the median and the 99th percentile of each, in ms.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        chain_port = stack.enter_context(python_running("bench.market"))
        api_port = free_port()
        environment = {
            "MINTSCOPE_DATA_DIR": folder,
            "MINTSCOPE_CHAIN__RPC_URL": f"http://127.0.0.1:{chain_port}",
            "MINTSCOPE_CHAIN__START": "first",
            "MINTSCOPE_API__PORT": str(api_port),
            "MINTSCOPE_API__RATE_LIMIT_REQUESTS": "1000000",
            "MINTSCOPE_METRICS__ENABLED": "false",
            "MINTSCOPE_LOG__LEVEL": "error",
        }
        settings = child_environment(environment)
        stack.enter_context(command(settings, "ingest"))
        process = stack.enter_context(command(settings, "api"))
        wait_for(api_port, process)
        seen = ask_on_and_on(api_port, credit_token(settings))
        confirmed = confirmed_at(chain_port)
        fetched = fetched_ms(chain_port, [one.slot for one in seen])
    late = late_ms(confirmed, seen)
    return [
        figure for percent, goal in GOALS.items() for figure in _pair(percent, goal, late, fetched)
    ]


def _pair(
    percent: int, goal: str, late: Sequence[float], fetched: Sequence[float]
) -> Iterator[Figure]:
    what = f"{WHAT}, p{percent}"
    ours, floor = (times[len(times) * percent // 100] for times in (late, fetched))
    yield Figure(what=what, who="mintscope", value=ours, unit="ms", goal=goal)
    yield Figure(what=what, who=FLOOR, value=floor, unit="ms", ratio=floor / ours)


def fetched_ms(port: int, slots: Sequence[int]) -> list[float]:
    """Request the block of each of *slots* from the node; return the times in ms, sorted."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S_MAX)
    options = {"maxSupportedTransactionVersion": 1, "rewards": False, "commitment": "confirmed"}
    took = []
    for slot in slots:
        call = {"jsonrpc": "2.0", "id": 1, "method": "getBlock", "params": [slot, options]}
        begun_s = time.monotonic()
        connection.request("POST", "/", json.dumps(call), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        took.append(1_000 * (time.monotonic() - begun_s))
        if "result" not in answer:
            raise RuntimeError(f"expected block {slot}; was {answer}")
    connection.close()
    return sorted(took)


def late_ms(confirmed: Mapping[int, float], seen: list[Seen]) -> list[float]:
    """Return the ms from the confirmation of each block to the first answer with it, sorted."""
    late, answers = [], iter(seen)
    answer = next(answers)
    for slot, at_s in sorted(confirmed.items()):
        if not seen[0].slot < slot <= seen[-1].slot:
            continue
        while answer.slot < slot:
            answer = next(answers)
        late.append(1_000 * (answer.at_s - at_s))
    return sorted(late)


def ask_on_and_on(port: int, token: str) -> list[Seen]:
    """Request reports until they have included BLOCKS new blocks; return the first with each."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S_MAX)
    give_up_s = time.monotonic() + READY_S_MAX
    count_from_s = float("inf")
    seen: list[Seen] = []
    while len(seen) <= BLOCKS:
        connection.request("GET", f"/v1/token/{WSOL}", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        at_s = time.monotonic()
        if answer.status == http.client.OK and answer.headers["x-data-status"] != "degraded":
            slot = int(answer.headers["x-data-slot"])
            count_from_s = min(count_from_s, at_s + CATCH_UP_S)
            if at_s >= count_from_s and (not seen or slot > seen[-1].slot):
                seen.append(Seen(at_s, slot))
        elif seen or at_s > give_up_s:
            raise RuntimeError(f"expected reports; was {answer.status}: {body[:300]!r}")
        time.sleep(PAUSE_S)
    connection.close()
    return seen


def confirmed_at(port: int) -> dict[int, float]:
    """Return by slot when the node on *port* confirmed each block, in monotonic seconds."""
    moments = asked_of_node(port, "bench_confirmed")
    return {int(slot): at_s for slot, at_s in moments.items()}


def asked_of_node(port: int, method: str) -> Any:
    """Call the JSON-RPC method *method* of the node on *port*; return its result."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_S_MAX)
    call = {"jsonrpc": "2.0", "id": 1, "method": method}
    connection.request("POST", "/", json.dumps(call))
    result = json.loads(connection.getresponse().read())["result"]
    connection.close()
    return result


def credit_token(settings: Mapping[str, str]) -> str:
    """Issue a credit token with a million credits in the store of *settings*, and return it."""
    command = [sys.executable, "-m", "mintscope", "credits", "issue", "--credits", "1000000"]
    issued = subprocess.run(command, env=settings, check=True, capture_output=True, text=True)
    return issued.stdout.strip()


@contextmanager
def command(settings: Mapping[str, str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `mintscope` *name* with *settings* as its environment during the `with` block."""
    command = [sys.executable, "-m", "mintscope", name]
    with subprocess.Popen(command, env=settings) as process:
        try:
            yield process
        finally:
            process.terminate()


if __name__ == "__main__":
    for figure in run():
        tell(figure)
