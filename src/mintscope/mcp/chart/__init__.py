"""The app of `show_chart`: one HTML document that a host of MCP Apps shows.

Source    https://github.com/modelcontextprotocol/ext-apps, specification 2026-01-26

It loads nothing and connects to nothing: its policy allows its own style and script by their
hashes, and its resource names no other origin.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from mintscope.payments.pricing import BUNDLES

MEDIA_TYPE: Final = "text/html;profile=mcp-app"
NOWHERE: Final[dict[str, Any]] = {
    "connectDomains": [],
    "resourceDomains": [],
    "frameDomains": [],
    "baseUriDomains": [],
}
META: Final = {"ui": {"csp": NOWHERE, "prefersBorder": True}}


def chart_document() -> str:
    """Return the HTML of the app; it offers the smallest bundle of credits."""
    folder = files(__name__)
    style = (folder / "chart.css").read_text("utf-8")
    script = (folder / "chart.js").read_text("utf-8")
    bundle = min(BUNDLES, key=lambda each: each.credits)
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    page = (folder / "chart.html").read_text("utf-8")
    for name, text in {
        "policy": policy,
        "credits": str(bundle.credits),
        "usd": f"{bundle.usd.normalize():f}",
        "style": style,
        "script": script,
    }.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _source(content: str) -> str:
    """Return the policy source of *content*, an inline style or script of the document."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
