"""Goes from nothing to the first RSI with only /skill.md: `python -m prove.first_rsi`.

It starts a service with its own chain, and tries each method on the page that takes a credit token,
in a separate folder: it installs the packages, runs the program unchanged, and reads the RSI that
the program prints.  A method takes at most WAY_S_MAX, installation included.  As on the page, the
clients of mintscope come from the service itself, their dependencies from the registries.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from prove.recipe import ROOT

sys.path.insert(0, str(ROOT / "tests"))
from support.processes.documented_service import documented_service

WAY_S_MAX: Final = 120.0
CREDITS: Final = 20
TOOLS: Final = Path(sys.executable).parent
TOKEN: Final = "svc_credit_..."  # noqa: S105 - what the page writes for one
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MINT: Final = re.compile(r"`([1-9A-HJ-NP-Za-km-z]{32,44})`")
# A client of the official MCP package, with the configuration and the mint of the page.
MCP_CLIENT: Final = """
import asyncio, json, sys
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

async def main():
    server = json.load(open("mcp.json"))["mcpServers"]["mintscope"]
    async with httpx2.AsyncClient(headers=server["headers"], timeout=60) as http:
        async with Client(streamable_http_client(server["url"], http_client=http)) as client:
            assert "get_token" in {tool.name for tool in (await client.list_tools()).tools}
            answer = await client.call_tool("get_token", {"mint": sys.argv[1]})
            print(json.dumps(answer.structured_content))

asyncio.run(main())
"""


class NoRsi(Exception):
    """A method of /skill.md printed no RSI; the message has its output."""


@dataclass(frozen=True, slots=True)
class Walk:
    """A test of one method of using the service that its page /skill.md describes.

    folder   an empty folder, in which the commands run
    blocks   the first code block of each language in the section of the method
    """

    folder: Path
    blocks: Mapping[str, str]
    credit_token: str
    mint: str

    def block(self, language: str) -> str:
        """Return the section's first code block in *language*, with the credit token inserted.

        Raises NoRsi if there is no such block.
        """
        if language not in self.blocks:
            raise NoRsi(f"expected a block of {language}; there are {[*self.blocks]}")
        return self.blocks[language].replace(TOKEN, self.credit_token)

    def run(self, script: str) -> str:
        """Run *script* with `sh` in the method's folder; return its stdout.

        Raises NoRsi if it fails.
        """
        environment = {
            "HOME": str(self.folder),
            "PATH": f"{self.folder / 'venv' / 'bin'}:{TOOLS}:{os.defpath}:/usr/local/bin",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "MINTSCOPE_CREDENTIAL": self.credit_token,
        }
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}  # noqa: TID251
        ran = subprocess.run(
            ["/bin/sh", "-euc", script],
            cwd=self.folder,
            env=kept | environment,
            capture_output=True,
            text=True,
            timeout=WAY_S_MAX,
            check=False,
        )
        if ran.returncode:
            raise NoRsi(f"{script}: {ran.stdout[-500:]} {ran.stderr[-1500:]}")
        return ran.stdout

    def make_venv(self) -> None:
        """Create a Python environment that has only pip, in the subfolder `venv` of the folder."""
        venv.create(self.folder / "venv", with_pip=True)


# Environment variables with the addresses of registries, on machines that use a mirror.
KEPT: Final = (
    "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",
    "NPM_CONFIG_REGISTRY", "NPM_CONFIG_USERCONFIG", "npm_config_registry", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip


def curl(walk: Walk) -> float:
    """Run the section "curl and a credit token" of /skill.md; return the RSI that it prints."""
    return rsi_in(walk.run(walk.block("sh")))


def python(walk: Walk) -> float:
    """Run the section "Python" of /skill.md as a reader would; return the RSI that it prints."""
    walk.make_venv()
    walk.run(walk.block("sh"))
    (walk.folder / "program.py").write_text(walk.block("python"))
    return float(walk.run("python program.py"))


def typescript(walk: Walk) -> float:
    """Run the section "TypeScript and JavaScript" of /skill.md; return the RSI that it prints."""
    walk.run(walk.block("sh"))
    program = walk.folder / "program.mjs"
    program.write_text(walk.block("js"))
    return float(walk.run(f"node {program}"))


def mcp(walk: Walk) -> float:
    """Run the section "MCP" of /skill.md with the official MCP client; return the RSI."""
    walk.make_venv()
    walk.run("pip install mcp")
    (walk.folder / "mcp.json").write_text(walk.block("json"))
    (walk.folder / "client.py").write_text(MCP_CLIENT)
    return rsi_in(walk.run(f"python client.py {walk.mint}"))


WAYS: Final[Mapping[str, Callable[[Walk], float]]] = {
    "curl and a credit token": curl,
    "Python": python,
    "TypeScript and JavaScript": typescript,
    "MCP": mcp,
}


def rsi_in(printed: str) -> float:
    """Return the RSI of m5 in the report that *printed* has as JSON.  Raises NoRsi."""
    try:
        answer = json.loads(printed)
        report = answer.get("data", answer)
        return float(report["indicators"]["m5"]["rsi"])
    except (ValueError, KeyError, TypeError) as cause:
        raise NoRsi(f"expected a report; was {printed[:500]}") from cause


def sections(page: str) -> dict[str, dict[str, str]]:
    """Return the first code block in each language of each section of *page*, by heading."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"^#{2,3} ", page, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        blocks = found.setdefault(heading.strip(), {})
        for language, text in BLOCK.findall(body):
            blocks.setdefault(language, text)
    return found


def main() -> int:
    """Try each method of /skill.md, and print its duration; return 1 if one failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as name, documented_service(Path(name)) as service:
        page = httpx.get(f"{service.url}/skill.md").raise_for_status().text
        blocks, found = sections(page), MINT.search(page)
        assert found is not None, page
        for heading, follow in WAYS.items():
            folder = Path(name) / re.sub(r"\W+", "-", heading)
            folder.mkdir()
            token = service.mintscope(f"credits issue --credits {CREDITS}").strip()
            walk = Walk(folder, blocks.get(heading, {}), token, found[1])
            began_s = time.monotonic()
            try:
                rsi = follow(walk)
            except (NoRsi, subprocess.TimeoutExpired) as cause:
                failed += 1
                print(f"{heading}: no RSI: {cause}", flush=True)
                continue
            took_s = time.monotonic() - began_s
            is_late = took_s > WAY_S_MAX or not 0 <= rsi <= 100
            failed += is_late
            print(
                f"{heading}: RSI {rsi:.2f} after {took_s:.1f} s{', too late' * is_late}", flush=True
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
