"""`mintscope listing` writes files for API directories, valid by the rules of each directory."""

import asyncio
import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml
from openapi_spec_validator import validate
from typer.testing import CliRunner
from visited import visited

from mintscope.app.doctor.directories import (
    Visitor,
    app,
    namespace_of,
    owner_of,
    slug_of,
    write_files,
)
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import ORIGIN

# The fields of server.schema.json of 2025-12-11 that a remote server has.
TEXT: Final = {"type": "string"}
SERVER: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "remotes"],
    "additionalProperties": False,
    "properties": {
        "$schema": {
            "const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
        },
        "name": {
            "type": "string",
            "minLength": 3,
            "maxLength": 200,
            "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
        },
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255, "pattern": r"^\d+\.\d+\.\d+"},
        "websiteUrl": {"type": "string", "pattern": "^https://"},
        "icons": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["src"],
                "additionalProperties": False,
                "properties": {
                    "src": {"type": "string", "maxLength": 255, "pattern": "^https://"},
                    "mimeType": {"enum": ["image/png", "image/jpeg", "image/svg+xml"]},
                    "sizes": {"type": "array", "items": {"pattern": r"^(\d+x\d+|any)$"}},
                },
            },
        },
        "remotes": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": ["streamable-http", "sse"]},
                    "url": {"type": "string", "pattern": r"^https?://[^\s]+$"},
                    "headers": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "additionalProperties": False,
                            "properties": {
                                "name": TEXT,
                                "description": TEXT,
                                "placeholder": TEXT,
                                "isRequired": {"type": "boolean"},
                                "isSecret": {"type": "boolean"},
                            },
                        },
                    },
                },
            },
        },
    },
}
# Source: solana-foundation/pay-skills, CONTRIBUTING.md, "Required frontmatter".
PAY: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["name", "title", "description", "use_case", "category", "service_url", "openapi"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]+$"},
        "title": {"type": "string", "minLength": 1},
        "description": {"type": "string", "minLength": 64, "maxLength": 255},
        "use_case": {
            "type": "string",
            "minLength": 32,
            "maxLength": 255,
            "pattern": "^Use (for|when) ",
        },
        "category": {"const": "finance"},
        "service_url": {"type": "string", "pattern": r"^https://[a-z0-9.-]+\.[a-z]+$"},
        "version": {"const": "v1"},
        "openapi": {"const": {"path": "openapi.json"}},
    },
}


async def test_the_written_files_are_valid_by_the_rules_of_the_directories(
    world: World, tmp_path: Path
) -> None:
    provider = tmp_path / "providers" / "shop"
    async with visited(world) as shop:

        def write() -> None:
            with closing(Visitor(ORIGIN, shop)) as visitor:
                write_files(visitor, tmp_path, provider, "example.shop")

        await asyncio.to_thread(write)

    server = json.loads((tmp_path / "server.json").read_text())
    jsonschema.validate(server, SERVER)
    assert server["name"] == "example.shop/mintscope"
    assert server["remotes"][0]["url"] == f"{ORIGIN}/mcp"
    folder = provider / "mintscope"
    _, head, prose = (folder / "PAY.md").read_text().split("---\n", 2)
    entry = yaml.safe_load(head)
    jsonschema.validate(entry, PAY)
    assert entry["name"] == folder.name
    assert f"{ORIGIN}/llms.txt" in prose
    assert "TODO" not in head + prose
    described = json.loads((folder / "openapi.json").read_text())
    validate(described)
    assert described["servers"] == [{"url": ORIGIN}]


@pytest.mark.parametrize(
    ("host", "namespace", "owner"),
    [
        ("api.example.org", "org.example.api", "example"),
        ("example.org", "org.example", "example"),
        ("localhost", "localhost", "localhost"),
    ],
)
def test_the_namespace_and_the_owner_are_derived_from_the_host(
    host: str, namespace: str, owner: str
) -> None:
    assert namespace_of(host) == namespace
    assert owner_of(host) == owner


@pytest.mark.parametrize(("name", "slug"), [("Sol Scope 2", "sol-scope-2"), ("!", "mintscope")])
def test_slugs_of_names_are_safe_in_paths(name: str, slug: str) -> None:
    assert slug_of(name) == slug
    assert re.fullmatch("[a-z0-9-]+", slug)


def test_listing_without_an_address_names_the_missing_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [str(tmp_path / "out")])

    assert result.exit_code == 2
    assert "--url, or api.origin" in result.output


def test_listing_writes_nothing_if_the_service_does_not_answer(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = CliRunner().invoke(app, [str(folder), "--url", "http://127.0.0.1:9"])

    assert result.exit_code == 1
    assert "does not answer" in result.output
    assert not folder.exists()
