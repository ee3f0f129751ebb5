"""Examples of each endpoint in curl, Python, TypeScript and MCP, which run unchanged.

tests/docs/test_docs_programs.py extracts the examples from the pages and runs them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from mintscope.site.page import read_texts
from mintscope.site.reference import AN_API_KEY, JSON_TYPE, DescribedEndpoint
from mintscope.solana.blocks import WSOL

CREDENTIAL: Final = "MINTSCOPE_CREDENTIAL"
API_KEY: Final = "MINTSCOPE_API_KEY"
STREAM: Final = "text/event-stream"


class EndpointExample(msgspec.Struct, frozen=True):
    """The texts of an endpoint's examples; `texts/programs.toml` describes the fields.

    A text is "" if the file has none.
    """

    query: Mapping[str, str] = {}
    python: str = ""
    ts: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}


class ProgramTexts(msgspec.Struct, frozen=True):
    """The texts of all example programs in the documentation.

    endpoints   by slug of the endpoint
    guides      by slug of the guide, then by name of the example
    index       by name, for the index of the documentation
    pages       by page ("front" or "token"), then by client ("curl", "python" or "mcp")
    """

    endpoints: Mapping[str, EndpointExample]
    guides: Mapping[str, Mapping[str, str]]
    index: Mapping[str, str]
    pages: Mapping[str, Mapping[str, str]]


TEXTS: Final = read_texts("programs.toml", ProgramTexts)
NO_EXAMPLE: Final = EndpointExample()
NAMES: Final = {"curl": "curl", "python": "Python", "mcp": "MCP"}


class Example(NamedTuple):
    """Code that requests a token's report; *key* identifies the example on the page."""

    key: str
    name: str
    text: str


def examples_of(page: str, mint: str, origin: str, *, has_mcp: bool) -> Sequence[Example]:
    """Return the examples of *page*, "front" or "token", which request the report of *mint*.

    The MCP example is included only if *has_mcp* is true.
    """
    return [
        Example(key, NAMES[key], filled(text, origin, mint))
        for key, text in TEXTS.pages[page].items()
        if has_mcp or key != "mcp"
    ]


def filled(text: str, origin: str, mint: str = WSOL) -> str:
    """Return the example program *text*, with its placeholders replaced by *origin* and *mint*."""
    # Not `str.format`: the examples have other braces.
    return text.replace("{origin}", origin).replace("{mint}", mint)


@dataclass(frozen=True, slots=True)
class ExampleProgram:
    """An example: its language, its title on the page, and its text."""

    language: str
    title: str
    text: str


def programs_of(endpoint: DescribedEndpoint, origin: str) -> Iterator[ExampleProgram]:
    """Yield an example of *endpoint* for each language, and the call of its MCP tool, if any."""
    yield ExampleProgram("sh", "curl", _curl(endpoint, origin))
    example = TEXTS.endpoints.get(endpoint.slug, NO_EXAMPLE)
    if example.python:
        name = _variable(endpoint)
        python = _python(example.python, origin, name)
        typescript = _typescript(example.ts, origin, name)
    else:
        python = _httpx(endpoint, origin)
        typescript = _fetch(endpoint, origin)
    yield ExampleProgram("python", "Python", filled(python, origin))
    yield ExampleProgram("ts", "TypeScript", filled(typescript, origin))
    if example.tool:
        call = {"name": example.tool, "arguments": example.arguments}
        yield ExampleProgram("json", "MCP", filled(json.dumps(call, indent=2), origin))


def address_of(endpoint: DescribedEndpoint, origin: str) -> str:
    """Return the URL of an example request, with example values of its parameters."""
    path = endpoint.path
    for each in endpoint.parameters.get("path", ()):
        path = path.replace(f"{{{each.name}}}", each.example)
    needed = {
        each.name: each.example
        for each in endpoint.parameters.get("query", ())
        if not each.is_optional
    }
    example = TEXTS.endpoints.get(endpoint.slug, NO_EXAMPLE)
    query = urlencode(example.query or needed, safe=",")
    return f"{origin}{path}?{query}" if query else f"{origin}{path}"


def _variable(endpoint: DescribedEndpoint) -> str:
    """Return the name of the environment variable of the credential, or "" if none is needed."""
    if not endpoint.proofs:
        return ""
    return API_KEY if endpoint.proofs == (AN_API_KEY,) else CREDENTIAL


def _curl(endpoint: DescribedEndpoint, origin: str) -> str:
    method = "" if endpoint.method == "GET" else f"-X {endpoint.method} "
    unbuffered = "N" if endpoint.media_type == STREAM else ""
    lines = [f'curl -s{unbuffered} {method}"{address_of(endpoint, origin)}"']
    name = _variable(endpoint)
    if name:
        lines.append(f'-H "Authorization: Bearer ${name}"')
    if endpoint.needs_body:
        lines += [f'-H "Content-Type: {JSON_TYPE}"', f"-d '{_compact(endpoint)}'"]
    return " \\\n  ".join(lines)


def _python(body: str, origin: str, name: str) -> str:
    credential = f', credential=os.environ["{name}"]' if name else ""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        ("import os\n\n" if name else "")
        + f'from mintscope_client import Client\n\nwith Client("{origin}"{credential}) as client:\n'
        + indented
    )


def _typescript(body: str, origin: str, name: str) -> str:
    options = f", {{ credential: process.env.{name} }}" if name else ""
    return (
        'import { Client } from "mintscope-client";\n\n'
        f'const client = new Client("{origin}"{options});\n{body}'
    )


def _httpx(endpoint: DescribedEndpoint, origin: str) -> str:
    name = _variable(endpoint)
    lines = [f'    "{endpoint.method}",', f'    "{address_of(endpoint, origin)}",']
    if name:
        lines.append(f'    headers={{"Authorization": f"Bearer {{os.environ[\'{name}\']}}"}},')
    if endpoint.needs_body:
        # The repr is Python, with True and None; only its quotes are changed.
        lines.append(f"    json={json.loads(endpoint.body_example)!r},".replace("'", '"'))
    call = "\n".join(["answer = httpx.request(", *lines, ")"])
    shown = "answer.json()" if endpoint.media_type == JSON_TYPE else "answer.text"
    imports = "import os\n\nimport httpx" if name else "import httpx"
    return f"{imports}\n\n{call}\nprint(answer.status_code, {shown})"


def _fetch(endpoint: DescribedEndpoint, origin: str) -> str:
    name = _variable(endpoint)
    headers = [f"    Authorization: `Bearer ${{process.env.{name}}}`,"] if name else []
    if endpoint.needs_body:
        headers.append(f'    "Content-Type": "{JSON_TYPE}",')
    options = [] if endpoint.method == "GET" else [f'  method: "{endpoint.method}",']
    if headers:
        options += ["  headers: {", *headers, "  },"]
    if endpoint.needs_body:
        options.append(f"  body: JSON.stringify({_compact(endpoint)}),")
    second = "\n".join([", {", *options, "}"]) if options else ""
    shown = "json" if endpoint.media_type == JSON_TYPE else "text"
    return (
        f'const answer = await fetch("{address_of(endpoint, origin)}"{second});\n'
        f"console.log(answer.status, await answer.{shown}());"
    )


def _compact(endpoint: DescribedEndpoint) -> str:
    return json.dumps(json.loads(endpoint.body_example))
