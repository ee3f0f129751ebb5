"""The clients for download: the Python wheel, and the TypeScript types and package.

The types have the form that openapi-typescript generates from an OpenAPI document.

Source    PyPA, binary distribution format
"""

import csv
import gzip
import io
import json
import tarfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

WHEEL_PACKAGE: Final = "mintscope_client"
DISTRIBUTION: Final = "mintscope-client"
KEPT: Final = ("METADATA", "WHEEL", "entry_points.txt")


def wheel_name(version: str) -> str:
    """Return the file name of the wheel, which pip parses."""
    return f"{WHEEL_PACKAGE}-{version}-py3-none-any.whl"


def write_wheel(version: str) -> bytes:
    """Return the wheel of the Python client; equal modules give equal bytes in every process."""
    folder = f"{WHEEL_PACKAGE}-{version}.dist-info"
    installed = distribution(DISTRIBUTION)
    content = dict(_under(files(WHEEL_PACKAGE), WHEEL_PACKAGE))
    content |= {f"{folder}/{name}": (installed.read_text(name) or "").encode() for name in KEPT}
    record = io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    for name, body in content.items():
        digest = urlsafe_b64encode(sha256(body).digest()).rstrip(b"=").decode()
        lines.writerow((name, f"sha256={digest}", len(body)))
    lines.writerow((f"{folder}/RECORD", "", ""))  # RECORD has no digest of itself
    content[f"{folder}/RECORD"] = record.getvalue().encode()
    return _zipped(content)


def _under(place: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and content of each file at or below *place*, sorted by name; omit caches.

    path   the path of *place*
    """
    if place.is_file():
        yield path, place.read_bytes()
        return
    for each in sorted(place.iterdir(), key=lambda one: one.name):
        if each.name != "__pycache__":
            yield from _under(each, f"{path}/{each.name}")


def _zipped(content: dict[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as target:
        for name, body in content.items():
            target.writestr(ZipInfo(name), body, ZIP_DEFLATED)  # dated 1980: always equal bytes
    return archive.getvalue()


HEAD: Final = "/** Made by the service of its own /openapi.json. */\n\n"
PLAIN: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def write_types(document: Mapping[str, Any]) -> str:
    """Return the TypeScript declarations of `paths` and `components` in an OpenAPI *document*."""
    paths = [
        f"  {json.dumps(path)}: {{\n"
        + "".join(f"    {method}: {_operation(each)};\n" for method, each in ways.items())
        + "  };\n"
        for path, ways in document["paths"].items()
    ]
    schemas = [
        f"    {json.dumps(name)}: {type_of(schema)};\n"
        for name, schema in document["components"]["schemas"].items()
    ]
    return (
        f"{HEAD}export interface paths {{\n{''.join(paths)}}}\n\n"
        f"export interface components {{\n  schemas: {{\n{''.join(schemas)}  }};\n}}\n"
    )


def _operation(operation: Mapping[str, Any]) -> str:
    parameters = operation.get("parameters", ())
    named = [
        f"{json.dumps(each['name'])}{'' if each.get('required') else '?'}: "
        f"{type_of(each['schema'])};"
        for each in parameters
        if each["in"] == "query"
    ]
    is_optional = not any(each["in"] == "query" and each.get("required") for each in parameters)
    query = (
        f"query{'?' if is_optional else ''}: {{ {' '.join(named)} }}" if named else "query?: never"
    )
    answers = [
        f"{status}: {{ content: {_content(answer)} }};"
        for status, answer in operation["responses"].items()
    ]
    sent = _sent(operation.get("requestBody"))
    return f"{{ parameters: {{ {query} }};{sent} responses: {{ {' '.join(answers)} }} }}"


def _sent(body: Mapping[str, Any] | None) -> str:
    if body is None:
        return ""
    return f" requestBody{'' if body.get('required') else '?'}: {{ content: {_content(body)} }};"


def _content(answer: Mapping[str, Any]) -> str:
    kinds = [
        f"{json.dumps(kind)}: {type_of(each.get('schema', {}))};"
        for kind, each in answer.get("content", {}).items()
    ]
    return f"{{ {' '.join(kinds)} }}"


def type_of(schema: Mapping[str, Any]) -> str:  # noqa: PLR0911 - a form of schema each
    """Return *schema* as a TypeScript type; an undescribed part is `unknown`."""
    if "$ref" in schema:
        return f'components["schemas"][{json.dumps(schema["$ref"].rpartition("/")[2])}]'
    for several, word in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if several in schema:
            return f"({word.join(type_of(each) for each in schema[several])})"
    if "enum" in schema:
        return f"({' | '.join(json.dumps(each) for each in schema['enum'])})"
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return f"({' | '.join(type_of({**schema, 'type': each}) for each in kind)})"
    if kind == "array":
        return f"{type_of(schema.get('items', {}))}[]"
    if kind == "object" or "properties" in schema:
        return _object(schema)
    return PLAIN.get(str(kind), "unknown")


def _object(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    fields = [
        f"{json.dumps(name)}{'' if name in required else '?'}: {type_of(each)};"
        for name, each in schema.get("properties", {}).items()
    ]
    more = schema.get("additionalProperties")
    if not fields:
        return f"{{ [key: string]: {type_of(more) if isinstance(more, dict) else 'unknown'} }}"
    return f"{{ {' '.join(fields)} }}"


BUILT: Final = "javascript"  # the folder, next to this file, of the compiled packages/client-ts
README: Final = "README.md"  # the README of packages/client-ts, copied by its build
MODE: Final = 0o644


def is_built() -> bool:
    """Return whether this installation has the TypeScript package: a build without npm omits it."""
    return (files(__package__) / BUILT).is_dir()


def tarball_name(version: str) -> str:
    """Return the file name of the TypeScript package."""
    return f"{DISTRIBUTION}-{version}.tgz"


def manifest(version: str) -> dict[str, Any]:
    """Return the content of package.json of the TypeScript package."""
    return {
        "name": DISTRIBUTION,
        "version": version,
        "description": "Reads and buys from a mintscope service: analytics of Solana tokens,"
        " within a budget.",
        "license": "Apache-2.0",
        "type": "module",
        "engines": {"node": ">=20"},
        "exports": {".": {"types": "./dist/index.d.ts", "default": "./dist/index.js"}},
        "sideEffects": False,
    }


def write_tarball(version: str, types: str) -> bytes:
    """Return the TypeScript package as a tarball; *types* is the text of the API's declarations."""
    built = [each for each in (files(__package__) / BUILT).iterdir() if each.name != README]
    content = {f"dist/{each.name}": each.read_bytes() for each in built}
    content[README] = (files(__package__) / BUILT / README).read_bytes()
    content["dist/openapi.d.ts"] = types.encode()
    content["package.json"] = json.dumps(manifest(version), indent=2).encode()
    return gzip.compress(_tarred(content), mtime=0)  # the same bytes in every process


def _tarred(content: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as target:
        for name in sorted(content):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content[name])
            entry.mode = MODE
            target.addfile(entry, io.BytesIO(content[name]))
    return archive.getvalue()
