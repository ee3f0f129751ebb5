"""The first message of a WebSocket: what other clients say in the head of their request.

    {"type": "auth", "token": "svc_credit_...", "lastEventId": "17", "mints": ["..."]}

Browsers can send no header with a WebSocket, and an address is written into logs.
"""

from typing import Final
from urllib.parse import urlencode

import msgspec

from mintscope.base.errors import BadRequest
from mintscope.edges.server.protocol.head import Head

EXPECTED: Final = (
    'expected {"type": "auth", "token": "...", "lastEventId": "...", and the query fields}'
)
AUTH: Final = "auth"
LAST_EVENT_ID: Final = b"last-event-id"
Value = str | int | bool | list[str]


def request_of(head: Head, message: bytes) -> Head:
    """Return the head of the request that *message* completes, begun by the handshake *head*.

    Raises BadRequest for what is not such a message.
    """
    try:
        fields = msgspec.json.decode(message, type=dict[str, Value])
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise BadRequest(f"{EXPECTED}; was no such JSON object") from cause
    if (kind := fields.pop("type", None)) != AUTH:
        raise BadRequest(f"{EXPECTED}; its type was {str(kind)[:50]!r}")
    token = fields.pop("token", None)
    since = fields.pop("lastEventId", None)
    headers = [each for each in head.headers if since is None or each[0] != LAST_EVENT_ID]
    if isinstance(token, str):
        headers.append((b"authorization", b"Bearer " + token.encode()))
    elif token is not None:
        raise BadRequest(f"{EXPECTED}; its token was no text")
    if since is not None:
        headers.append((LAST_EVENT_ID, _text(since).encode()))
    query = urlencode([(name, _text(value)) for name, value in fields.items()]).encode()
    path, _, before = head.url.partition(b"?")
    url = path + b"?" + b"&".join([each for each in (before, query) if each])
    return Head(url, head.version, headers, dict(headers))


def _text(value: Value) -> str:
    """Return *value* as it stands in a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)
