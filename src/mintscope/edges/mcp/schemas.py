"""JSON Schemas of the tools, made of the API's own description: they cannot say something else."""

import re
from collections.abc import Mapping
from typing import Any, Final

from mintscope.edges.mcp.arguments import CREDITS_MAX
from mintscope.edges.mcp.results import META_SCHEMA
from mintscope.edges.mcp.tools import Tool, ToolCost

COMPONENT: Final = "#/components/schemas/"
DEFINITION: Final = "#/$defs/"
KEPT: Final = re.compile(r"#/components/schemas/([^\"']+)")
MAX_CREDITS: Final[Mapping[str, Any]] = {
    "type": "integer",
    "minimum": 0,
    "maximum": CREDITS_MAX,
    "description": "Refuse the call, free of charge, if it would take more credits than this.",
}
MAX_USD: Final[Mapping[str, Any]] = {
    "type": "number",
    "minimum": 0,
    "description": "Refuse the call, free of charge, if it would be paid with more USD than this.",
}
IDEMPOTENCY_KEY: Final[Mapping[str, Any]] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{16,128}$",
    "description": "Your secret name for a payment, hard to guess. Reuse the same key on retry:"
    " then a payment that was taken is answered again, not taken again.",
}


def input_schema(tool: Tool, operation: Mapping[str, Any]) -> dict[str, Any]:
    """Return what *tool* takes: the parameters of its operation, and what limits its cost."""
    names = {field: name for name, field in tool.arguments.items()}
    properties: dict[str, Any] = {}
    required = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] not in {"path", "query"}:
            continue
        name = names.get(parameter["name"], parameter["name"])
        properties[name] = {**parameter["schema"], "description": parameter["description"]}
        if parameter.get("required"):
            required.append(name)
    if tool.cost is ToolCost.CREDIT:
        properties |= {"max_credits": MAX_CREDITS}
    if tool.cost is not ToolCost.NOTHING:
        properties |= {"max_usd": MAX_USD, "idempotency_key": IDEMPOTENCY_KEY}
    if tool.cost is ToolCost.BUNDLE:
        required.append("max_usd")
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def output_schema(operation: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a success of *operation* becomes: its data, and what the call has cost."""
    status = next(status for status in operation["responses"] if status.startswith("2"))
    body = operation["responses"][status]["content"]["application/json"]["schema"]
    data = body["properties"]["data"]
    return {
        "type": "object",
        "properties": {"data": _moved(data), "meta": META_SCHEMA},
        "required": ["data", "meta"],
        "$defs": {name: _moved(components[name]) for name in _named(data, components)},
    }


def _named(schema: Any, components: Mapping[str, Any]) -> list[str]:
    """Return the components that *schema* refers to, and those that they refer to."""
    found: dict[str, None] = {}
    waiting = KEPT.findall(str(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += KEPT.findall(str(components[name]))
    return sorted(found)


def _moved(schema: Any) -> Any:
    """Return *schema* with its references into `$defs`."""
    if isinstance(schema, dict):
        return {name: _moved(each) for name, each in schema.items()}
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if isinstance(schema, str) and schema.startswith(COMPONENT):
        return DEFINITION + schema.removeprefix(COMPONENT)
    return schema
