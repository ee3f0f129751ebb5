"""Webhooks, as Standard Webhooks says.

Source    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time
from mintscope.core.accounts.signals.signal import Firing, FiringId, FiringKind, Signal
from mintscope.core.market.signals.rule import SignalKind

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  not a secret
URL_LENGTH_MAX: Final = 500
HTTPS_PORT: Final = 443
USER_PORT_MIN: Final = 1024
PORT_MAX: Final = 65_535
TYPES: Final = {FiringKind.FIRED: "signal.fired", FiringKind.TEST: "signal.test"}


class FiredData(msgspec.Struct, frozen=True, rename="camel"):
    """The data of a firing in a webhook."""

    signal_id: int
    event_id: int
    name: str
    mint: str
    field: str
    kind: SignalKind
    value: float
    direction: str
    reference: float
    slot: int
    time: int
    message: str = ""
    compared_with: str | None = None


class WebhookBody(msgspec.Struct, frozen=True):
    """The body of a webhook."""

    type: str
    timestamp: str
    data: FiredData


def message_id(firing_id: FiringId) -> str:
    """Return the `webhook-id` of a firing, the same at every attempt."""
    return f"msg_{firing_id}"


def message_of(signal: Signal, firing: Firing) -> bytes:
    """Return the body of *firing*."""
    asked = signal.rule
    fired = firing.fired
    data = FiredData(
        signal_id=signal.signal_id,
        event_id=firing.firing_id,
        name=asked.name,
        mint=asked.mint,
        field=asked.field,
        kind=asked.kind,
        value=fired.value,
        direction=fired.direction,
        reference=fired.reference,
        slot=fired.slot,
        time=fired.time,
        message=asked.message,
        compared_with=asked.compared,
    )
    return msgspec.json.encode(WebhookBody(TYPES[fired.kind], iso_time(fired.fired_at), data))


def secret_text(secret: bytes) -> str:
    """Return a secret as its owner is shown it."""
    return SECRET_PREFIX + b64encode(secret).decode()


def signed(
    firing_id: FiringId, at: UnixMs, body: bytes, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Return the headers that prove *body* to be ours and new, by each of *secrets*."""
    name = message_id(firing_id)
    at_s = at // 1000
    text = f"{name}.{at_s}.".encode() + body
    signatures = [b64encode(hmac.digest(secret, text, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": name,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def url_flaw(url: str, *, allows_loopback: bool) -> str | None:
    """Return what keeps *url* from being a webhook, None if nothing does.

    The address of a name is checked at each sending; a literal address, here.

    allows_loopback   plain http to an address of this machine is fine, too
    """
    expected = f"expected an https address of at most {URL_LENGTH_MAX} characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return expected
    if len(url) > URL_LENGTH_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return f"{expected}, in ASCII"
    if not parts.hostname or parts.username is not None or parts.fragment:
        return f"{expected}, with a host, without user or fragment"
    if parts.scheme != "https" and not (
        allows_loopback and parts.scheme == "http" and is_loopback(parts.hostname)
    ):
        return expected
    if port is not None and port != HTTPS_PORT and not USER_PORT_MIN <= port <= PORT_MAX:
        return f"expected port {HTTPS_PORT}, or {USER_PORT_MIN} to {PORT_MAX}; was {port}"
    is_open = not _is_inside(parts.hostname) or (allows_loopback and is_loopback(parts.hostname))
    return None if is_open else f"expected a public address; was {parts.hostname!r}"


def _is_inside(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return is_loopback(host)


def is_loopback(host: str) -> bool:
    """Say whether *host* is this machine, by its address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
