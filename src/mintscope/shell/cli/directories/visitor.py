"""Reads what a service shows to programs, as a directory does: from outside, without paying."""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

import httpx

from mintscope.client.transport import BoundedSyncTransport

TIMEOUT_S: Final = 10.0
ELSEWHERE: Final = "https://directory.example"  # the page that a browser would ask from


class ServiceSilent(Exception):
    """Nothing answers at the address; the message says why."""


class Visitor:
    """Reads paths of one service, each once.  Every method raises ServiceSilent.

    origin   `https://api.example`
    """

    def __init__(self, origin: str, transport: httpx.BaseTransport | None = None) -> None:
        self.origin = origin
        self._client = httpx.Client(
            base_url=origin,
            timeout=TIMEOUT_S,
            headers={"Origin": ELSEWHERE},
            transport=BoundedSyncTransport(transport),
        )
        self._read: dict[tuple[str, str], httpx.Response] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Return what is answered; *path* may be a whole URL of the service."""
        target = path.removeprefix(self.origin)
        if (method, target) not in self._read:
            try:
                answer = self._client.request(method, target, headers=headers)
            except httpx.HTTPError as error:
                raise ServiceSilent(f"{type(error).__name__}: {error}") from error
            self._read[method, target] = answer
        return self._read[method, target]

    def document(self, path: str) -> dict[str, Any]:
        """Return the JSON object at *path*, empty where there is none."""
        answer = self.ask(path)
        return object_in(answer.content) if answer.status_code == httpx.codes.OK else {}


def object_in(text: bytes) -> dict[str, Any]:
    """Return the JSON object in *text*, empty where it is none."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def terms_in(answer: httpx.Response) -> dict[str, Any]:
    """Return what the header PAYMENT-REQUIRED says, empty where it says nothing."""
    try:
        return object_in(b64decode(answer.headers.get("payment-required", ""), validate=True))
    except ValueError:
        return {}
