"""The same numbers by API: lines to copy, with a place for the reader's own key."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mintscope.base.primitives import Mint

KEY: Final = "YOUR_KEY"  # what a script of the page puts the reader's own in the place of


class Example(NamedTuple):
    """Lines that get a token's report."""

    key: str
    name: str
    text: str


def examples_of(mint: Mint, origin: str, *, has_mcp: bool) -> Iterator[Example]:
    """Yield the same request in each way it can be made."""
    url = f"{origin}/v1/token/{mint}"
    yield Example("curl", "curl", f'curl -H "Authorization: Bearer {KEY}" \\\n  {url}')
    yield Example(
        "python",
        "Python",
        f'import httpx\n\nreport = httpx.get(\n    "{url}",\n'
        f'    headers={{"Authorization": "Bearer {KEY}"}},\n).json()["data"]\n'
        'print(report["price"]["usd"])',
    )
    if has_mcp:
        yield Example(
            "mcp",
            "MCP",
            f'{{\n  "mcpServers": {{\n    "mintscope": {{\n      "url": "{origin}/mcp",\n'
            f'      "headers": {{"Authorization": "Bearer {KEY}"}}\n    }}\n  }}\n}}',
        )
