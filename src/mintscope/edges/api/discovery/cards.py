"""Documents for directories of agents: MCP server card, catalogue, index of skills.

Sources   SEP-2127 (MCP Server Cards) and its discovery document; Agent Skills Discovery 0.2.0
"""

from collections.abc import Collection
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mintscope import __version__
from mintscope.edges.api.description.identity import Identity
from mintscope.edges.api.discovery.guide import MCP

SERVER_CARD: Final = f"{MCP}/server-card"
AI_CATALOG: Final = "/.well-known/ai-catalog.json"
SKILLS: Final = "/.well-known/agent-skills/index.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
SKILLS_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
DESCRIPTION_LENGTH_MAX: Final = 100  # of a server card


def write_server_card(identity: Identity) -> bytes:
    """Return the card of the MCP server: who it is, and where clients reach it."""
    card: dict[str, Any] = {
        "$schema": CARD_SCHEMA,
        "name": _name(identity),
        "version": __version__,
        "title": identity.name,
        "description": _first_sentence(identity.description),
        "websiteUrl": identity.origin,
        "remotes": [
            {
                "type": "streamable-http",
                "url": identity.origin + MCP,
                "headers": [
                    {
                        "name": "Authorization",
                        "description": "Bearer and a credit token or an API key; free tools and"
                        " x402 payments need none.",
                        "isRequired": False,
                        "isSecret": True,
                    }
                ],
            }
        ],
    }
    return msgspec.json.encode(card)


def write_ai_catalog(identity: Identity, paths: Collection[str]) -> bytes:
    """Return the catalogue of what agents can use here; *paths* are those that are served."""
    origin = identity.origin
    entries = [
        _entry("api", "The API", f"{origin}/openapi.json", "application/openapi+json"),
        _entry("guide", "How to use it", f"{origin}/llms.txt", "text/markdown"),
        _entry("skills", "Skills of agents", origin + SKILLS, "application/json"),
    ]
    if MCP in paths:
        entries.append(_entry("mcp", "MCP server", origin + SERVER_CARD, CARD_TYPE))
    host = {"displayName": identity.name, "identifier": urlsplit(origin).hostname or origin}
    return msgspec.json.encode({"specVersion": "1.0", "host": host, "entries": entries})


def write_skills(identity: Identity, skill: bytes, path: str) -> bytes:
    """Return the index of skills: *skill*, which is served at *path*."""
    head = skill.decode().split("---\n")[1]
    described = dict(line.split(": ", 1) for line in head.strip().splitlines())
    listed = {
        "name": _slug(identity.name),
        "type": "skill-md",
        "description": described["description"],
        "url": path,
        "digest": f"sha256:{sha256(skill).hexdigest()}",
    }
    return msgspec.json.encode({"$schema": SKILLS_SCHEMA, "skills": [listed]})


def _entry(name: str, title: str, url: str, media_type: str) -> dict[str, str]:
    return {"identifier": name, "displayName": title, "mediaType": media_type, "url": url}


def _name(identity: Identity) -> str:
    """Return the name of the server: the host the other way round, and the name of the service."""
    host = urlsplit(identity.origin).hostname or "localhost"
    return f"{'.'.join(reversed(host.split('.')))}/{_slug(identity.name)}"


def _slug(name: str) -> str:
    """Return *name* in lower case, with single hyphens for all but ASCII and digits."""
    kept = "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "service"


def _first_sentence(text: str) -> str:
    sentence = text.partition(". ")[0].rstrip(".") + "."
    return sentence if len(sentence) <= DESCRIPTION_LENGTH_MAX else sentence[:99] + "."
