"""One line to copy, in each way in which programs ask."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mintscope.base.solana import WSOL

KEY: Final = "YOUR_KEY"


class FrontExample(NamedTuple):
    """A line for a shell or a file; *key* names it on the page."""

    key: str
    name: str
    text: str


def examples_of(origin: str, *, has_mcp: bool) -> Iterator[FrontExample]:
    """Yield the ways to ask for the report of SOL at *origin*."""
    url = f"{origin}/v1/token/{WSOL}"
    yield FrontExample("curl", "curl", f'curl -H "Authorization: Bearer {KEY}" {url}')
    if has_mcp:
        yield FrontExample(
            "mcp",
            "MCP",
            f"claude mcp add --transport http mintscope {origin}/mcp"
            f' --header "Authorization: Bearer {KEY}"',
        )
    yield FrontExample(
        "python",
        "Python",
        f'httpx.get("{url}", headers={{"Authorization": "Bearer {KEY}"}}).json()["data"]["price"]',
    )
