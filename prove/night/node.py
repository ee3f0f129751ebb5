"""A proxy in front of the devchain's node that adds one fault of a node at a time."""

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from typing_extensions import override

from mintscope.kit.clock import SystemClock

TIMEOUT_S: Final = 20.0
BEHIND_SLOTS: Final = 400
CLOCK_S: Final = 65
CLOCK_SYSVAR: Final = "SysvarC1ock11111111111111111111111111111111"
EVERY_SLOTS: Final = 40  # a fault that skips slots skips one in this many

Call = dict[str, Any]
# A fault gets a call, and a function that sends calls to the real node; it returns the reply: the
# HTTP status, the content type and the body.
Reply = tuple[int, str, bytes]
Ask = Callable[[Call], Any]
Fault = Callable[[Call, Ask], Reply]


class FaultyNode:
    """Forwards JSON-RPC requests to the node at *behind*, and adds the fault *fault*, if any."""

    def __init__(self, behind: str) -> None:
        self.url = ""
        self.fault: Fault | None = None
        self._address = urlsplit(behind).netloc

    def answer(self, body: bytes) -> Reply:
        """Return the answer to *body*, a JSON-RPC call or a batch; a batch never has the fault."""
        fault = self.fault
        if fault is not None:
            call = json.loads(body)
            if isinstance(call, dict):
                return fault(call, self._asked)
        return 200, "application/json", self._forward(body)

    def _asked(self, call: Call) -> Any:
        return json.loads(self._forward(json.dumps(call).encode()))

    def _forward(self, body: bytes) -> bytes:
        with closing(HTTPConnection(self._address, timeout=TIMEOUT_S)) as connection:
            connection.request("POST", "/", body, {"content-type": "application/json"})
            return connection.getresponse().read()


def in_json(answer: object) -> Reply:
    """Return a reply with status 200 and *answer* as JSON."""
    return 200, "application/json", json.dumps(answer).encode()


def status(code: int, *methods: str) -> Fault:
    """Return the fault of a node that answers with the HTTP status *code*.

    methods   the methods with this answer; none given: all
    """

    def fault(call: Call, ask: Ask) -> Reply:
        if methods and call["method"] not in methods:
            return in_json(ask(call))
        return code, "text/plain", b"no"

    return fault


def html(_call: Call, _ask: Ask) -> Reply:
    """Answer with an HTML page, as a captive portal does."""
    return 200, "text/html", b"<html><body>Welcome</body></html>"


def stands_still() -> Fault:
    """Return the fault of a node that receives no new blocks from the time of its first call."""
    head: list[int] = []

    def fault(call: Call, ask: Ask) -> Reply:
        if not head:
            head.append(_newest(ask))
        return _until(head[0], call, ask)

    return fault


def behind() -> Fault:
    """Return the fault of a node whose newest slot is BEHIND_SLOTS slots behind the chain."""

    def fault(call: Call, ask: Ask) -> Reply:
        return _until(_newest(ask) - BEHIND_SLOTS, call, ask)

    return fault


def _newest(ask: Ask) -> int:
    params = [{"commitment": "confirmed"}]
    return int(ask({"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": params})["result"])


def _until(head: int, call: Call, ask: Ask) -> Reply:
    """Answer like a node that knows nothing after the slot *head*."""
    method = call["method"]
    params = call.get("params") or []
    if method in {"getBlock", "getBlockTime"} and params[0] > head:
        error = {"code": -32004, "message": f"Block not available for slot {params[0]}"}
        return in_json({"jsonrpc": "2.0", "id": call["id"], "error": error})
    answer = ask(call)
    result = answer.get("result")
    if result is None:
        return in_json(answer)
    if method == "getSlot":
        answer["result"] = min(result, head)
    elif method == "getBlocks":
        answer["result"] = [each for each in result if each <= head]
    elif isinstance(result, dict) and "context" in result:
        result["context"]["slot"] = min(result["context"]["slot"], head)
    return in_json(answer)


def finality_stands() -> Fault:
    """Return the fault of a node whose newest final block no longer changes."""
    kept: dict[str, Any] = {}

    def fault(call: Call, ask: Ask) -> Reply:
        is_final = "finalized" in json.dumps(call.get("params") or [])
        if call["method"] not in {"getSlot", "getLatestBlockhash"} or not is_final:
            return in_json(ask(call))
        if call["method"] not in kept:
            kept[call["method"]] = ask(call)["result"]
        return in_json({"jsonrpc": "2.0", "id": call["id"], "result": kept[call["method"]]})

    return fault


def null_blocks(call: Call, ask: Ask) -> Reply:
    """Answer each getBlock with null, as if the block did not exist."""
    if call["method"] == "getBlock":
        return in_json({"jsonrpc": "2.0", "id": call["id"], "result": None})
    return in_json(ask(call))


def pruned(call: Call, ask: Ask) -> Reply:
    """Refuse each getBlock, as a node that has deleted the old blocks."""
    if call["method"] != "getBlock":
        return in_json(ask(call))
    error = {"code": -32001, "message": "Block cleaned up, does not exist on node."}
    return in_json({"jsonrpc": "2.0", "id": call["id"], "error": error})


def skips_some(call: Call, ask: Ask) -> Reply:
    """Answer that one of EVERY_SLOTS slots was skipped, although it has a block."""
    if call["method"] != "getBlock" or call["params"][0] % EVERY_SLOTS:
        return in_json(ask(call))
    error = {"code": -32007, "message": f"Slot {call['params'][0]} was skipped"}
    return in_json({"jsonrpc": "2.0", "id": call["id"], "error": error})


def truncates_one() -> Fault:
    """Return the fault of a node that returns half of a block, the same one each time."""
    broken: list[int] = []

    def fault(call: Call, ask: Ask) -> Reply:
        answer = ask(call)
        is_block = call["method"] == "getBlock" and answer.get("result")
        if is_block and not broken:
            broken.append(call["params"][0])
        if is_block and call["params"][0] == broken[0]:
            whole = json.dumps(answer).encode()
            return 200, "application/json", whole[: len(whole) // 2]
        return in_json(answer)

    return fault


def without_time(call: Call, ask: Ask) -> Reply:
    """Answer each getBlock without the time of the block."""
    answer = ask(call)
    if call["method"] == "getBlock" and answer.get("result"):
        answer["result"]["blockTime"] = None
    return in_json(answer)


def clock(seconds: int) -> Fault:
    """Return the fault of a machine whose clock is *seconds* fast, so that blocks seem old."""

    def fault(call: Call, ask: Ask) -> Reply:
        answer = ask(call)
        result = answer.get("result")
        if call["method"] == "getBlock" and result and result.get("blockTime") is not None:
            result["blockTime"] -= seconds
        elif call["method"] == "getBlockTime" and isinstance(result, int):
            answer["result"] = result - seconds
        elif call["method"] == "getAccountInfo" and call["params"][0] == CLOCK_SYSVAR:
            _put_back(result["value"]["data"], seconds)
        return in_json(answer)

    return fault


def _put_back(data: list[str], seconds: int) -> None:
    """Subtract *seconds* from the time in *data*, the content of the sysvar Clock."""
    raw = bytearray(b64decode(data[0]))
    time = int.from_bytes(raw[32:40], "little", signed=True) - seconds
    raw[32:40] = time.to_bytes(8, "little", signed=True)
    data[0] = b64encode(raw).decode()


def without(address: str) -> Fault:
    """Return the fault of a node that leaves all transactions that name *address* out of blocks.

    A filtering proxy in front of a node has this fault.
    """

    def fault(call: Call, ask: Ask) -> Reply:
        answer = ask(call)
        if call["method"] == "getBlock" and answer.get("result"):
            transactions = answer["result"].get("transactions", [])
            answer["result"]["transactions"] = [
                each for each in transactions if address not in json.dumps(each)
            ]
        return in_json(answer)

    return fault


def empty_wallet(wallet: str) -> Fault:
    """Return the fault of a node that reports a balance of 0 lamports for *wallet*."""

    def fault(call: Call, ask: Ask) -> Reply:
        answer = ask(call)
        if call["method"] == "getBalance" and call["params"][0] == wallet:
            answer["result"]["value"] = 0
        return in_json(answer)

    return fault


@contextmanager
def faulty_node(behind_url: str) -> Iterator[FaultyNode]:
    """Run a node with faults in front of *behind_url* during the `with` block.

    It listens on a free port, in threads of this process.
    """
    node = FaultyNode(behind_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            try:
                code, kind, answer = node.answer(body)
            except (OSError, HTTPException):  # the chain has ended
                self.close_connection = True
                return
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write no log line for a request."""

    with _serving(Handler) as url:
        node.url = url
        yield node


class Feed:
    """A price feed in the format of Hermes (Pyth); it answers with status 503 unless it `works`."""

    def __init__(self) -> None:
        self.url = ""
        self.works = True

    def answer(self) -> Reply:
        """Return the price feed's answer: one dollar now, or status 503 if the feed is broken."""
        if not self.works:
            return 503, "text/plain", b"no"
        price = {
            "price": "100000000",
            "expo": -8,
            "publish_time": SystemClock().now() // 1000,
            "conf": "1",
        }
        return in_json({"parsed": [{"id": "made", "price": price}]})


@contextmanager
def price_feed() -> Iterator[Feed]:
    """During the `with` block, run a price feed on a free port, in threads of this process."""
    feed = Feed()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            code, kind, answer = feed.answer()
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write no log line for a request."""

    with _serving(Handler) as url:
        feed.url = url
        yield feed


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing if a client has disconnected."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with _Listener(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
