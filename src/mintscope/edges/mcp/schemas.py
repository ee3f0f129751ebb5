"""JSON Schemas of the tools, made of the API's own description: they cannot say something else.

Inputs keep to what every host reads: Gemini refuses `additionalProperties`, formats of our own and
enums of integers (python-genai#2393, gemini-cli#2237), so unknown arguments are refused by us.
"""

from collections.abc import Mapping
from typing import Any, Final

from mintscope.edges.mcp.tools import Tool, ToolCost

KEPT: Final = frozenset({"type", "description", "enum", "items", "default", "minimum", "maximum"})
INT32_MAX: Final = 2**31 - 1
MAX_CREDITS: Final[Mapping[str, Any]] = {
    "type": "integer",
    "minimum": 0,
    "description": "Refuse above it, free.",
}
MAX_USD: Final[Mapping[str, Any]] = {
    "type": "number",
    "minimum": 0,
    "description": "Refuse above it, free.",
}
IDEMPOTENCY_KEY: Final[Mapping[str, Any]] = {
    "type": "string",
    "description": "Secret, 16 to 128 of A-Z a-z 0-9 - _; reuse it on retry.",
}
# Clients of the official TypeScript package before version 2 check errors against the schema, too:
# so it takes a success (`data`, `meta`) and an error (`error`, `charged`) alike.
OUTPUT: Final[Mapping[str, Any]] = {"type": "object"}


def input_schema(tool: Tool, operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what *tool* takes: the parameters of its operation, and what limits its cost."""
    names = {field: name for name, field in tool.arguments.items()}
    properties: dict[str, Any] = {}
    required = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] not in {"path", "query"}:
            continue
        name = names.get(parameter["name"], parameter["name"])
        described = {**parameter["schema"], "description": parameter["description"]}
        properties[name] = _readable_by_all(described)
        if parameter.get("required"):
            required.append(name)
    if tool.page is not None and tool.page.fields:
        properties |= {"fields": _choice_of(tool.page.fields, tool.page.default)}
    if tool.cost is ToolCost.CREDIT:
        properties |= {"max_credits": MAX_CREDITS}
    if tool.cost is not ToolCost.NOTHING:
        properties |= {"max_usd": MAX_USD, "idempotency_key": IDEMPOTENCY_KEY}
    if tool.cost is ToolCost.BUNDLE:
        required.append("max_usd")
    return {"type": "object", "properties": properties} | (
        {"required": required} if required else {}
    )


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of a result of *tool*, errors included; None if it is text alone."""
    return dict(OUTPUT) if tool.page is None else None


def _readable_by_all(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return *schema* with the keywords that every host reads."""
    kept = {name: value for name, value in schema.items() if name in KEPT}
    if kept.get("maximum", 0) > INT32_MAX:
        kept = {name: value for name, value in kept.items() if name not in {"maximum", "default"}}
    if kept.get("default") == "":
        del kept["default"]
    values = kept.pop("enum", None)
    if values is None:
        return kept | ({"items": _readable_by_all(kept["items"])} if "items" in kept else {})
    if all(isinstance(value, str) for value in values):
        return kept | {"type": "string", "enum": values}
    listed = ", ".join(map(str, values))
    return kept | {"description": f"{kept['description']} One of {listed}."}


def _choice_of(fields: tuple[str, ...], default: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string", "enum": list(fields)},
        "description": f"Columns. Default: {', '.join(default)}.",
    }
