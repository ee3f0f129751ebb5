"""A receiver of webhooks, written from the text of Standard Webhooks.

It uses no code of the service.

Source    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any


def verified(secret: str, headers: Mapping[str, str], body: bytes, *, now_s: int) -> Any:
    """Return the payload; fail unless *secret* signed *body* within 300 s of *now_s*."""
    assert secret.startswith("whsec_")
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    assert 24 <= len(key) <= 64
    message, sent_at = headers["webhook-id"], headers["webhook-timestamp"]
    assert abs(int(sent_at) - now_s) <= 300
    assert "." not in message
    signed = message.encode() + b"." + sent_at.encode() + b"." + body
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    offered = [each.split(",", 1) for each in headers["webhook-signature"].split(" ")]
    assert any(version == "v1" and hmac.compare_digest(it, expected) for version, it in offered)
    return json.loads(body)
