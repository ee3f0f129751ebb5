"""GET /client/...: the service itself serves the packages that /skill.md installs."""

import csv
import io
import json
import re
import tarfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import httpx
import pytest

from mintscope.api.discovery.downloads import type_of
from support.scenes.service import Service

ROOT: Final = Path(__file__).resolve().parents[2]
TREE: Final = ROOT / "packages" / "client" / "src"
INSTALL: Final = re.compile(r"^(?:pip|npm) install (http\S+)$", re.MULTILINE)


async def installed(service: Service, ending: str) -> httpx.Response:
    """Request the package that the guide says to install, with a name that ends with *ending*."""
    guide = (await service.client.get("/skill.md")).text
    (url,) = [each for each in INSTALL.findall(guide) if each.endswith(ending)]
    asked_by = {"origin": "https://other.example"}
    return await service.client.get(url.partition("8402")[2], headers=asked_by)


@pytest.mark.parametrize(
    ("ending", "kind"), [(".whl", "application/zip"), (".tgz", "application/gzip")]
)
async def test_each_package_in_the_guide_is_served_uncompressed_with_an_etag(
    service: Service, ending: str, kind: str
) -> None:
    answer = await installed(service, ending)
    path = answer.request.url.path
    again = await service.client.get(path, headers={"if-none-match": answer.headers["etag"]})
    head = await service.client.head(path)
    other = await service.client.get(f"{path}.other")

    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert "content-encoding" not in answer.headers
    assert answer.headers["access-control-allow-origin"] == "*"
    assert (again.status_code, head.status_code, other.status_code) == (304, 200, 404)


async def test_the_wheel_has_the_files_of_the_client_and_their_hashes(service: Service) -> None:
    answer = await installed(service, ".whl")
    with ZipFile(io.BytesIO(answer.content)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    (record,) = [name for name in content if name.endswith(".dist-info/RECORD")]
    modules = {name for name in content if ".dist-info/" not in name}
    files = {
        path.relative_to(TREE).as_posix()
        for path in TREE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert modules == files
    for name in modules:
        assert content[name] == (TREE / name).read_bytes()
    lines = {line[0]: line[1:] for line in csv.reader(content[record].decode().splitlines())}
    assert lines.keys() == content.keys()
    for name, (digest, size) in lines.items():
        if name != record:
            reported = urlsafe_b64encode(sha256(content[name]).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={reported}", str(len(content[name])))
    metadata = content[record.replace("RECORD", "METADATA")].decode()
    assert "Name: mintscope-client\n" in metadata
    commands = content[record.replace("RECORD", "entry_points.txt")]
    assert b"mintscope_client.__main__:main" in commands


async def test_the_npm_package_has_the_manifest_of_the_repository(service: Service) -> None:
    answer = await installed(service, ".tgz")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = {each.name for each in archive}
        manifest = json.load(archive.extractfile("package/package.json") or io.BytesIO())
    ours = json.loads((ROOT / "packages" / "client-ts" / "package.json").read_text())

    same = ("name", "version", "description", "license", "type", "engines", "sideEffects")
    assert {name: manifest[name] for name in same} == {name: ours[name] for name in same}
    entry = manifest["exports"]["."]
    assert {f"package/{path.removeprefix('./')}" for path in entry.values()} <= names
    assert "package/dist/openapi.d.ts" in names


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "unknown"),
        ({"type": "integer"}, "number"),
        ({"$ref": "#/components/schemas/Meta"}, 'components["schemas"]["Meta"]'),
        ({"enum": ["a", 1]}, '("a" | 1)'),
        ({"const": True}, "true"),
        ({"type": ["string", "null"]}, "(string | null)"),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, "(null | number)"),
        ({"type": "array", "items": {"type": "boolean"}}, "boolean[]"),
        ({"type": "object"}, "{ [key: string]: unknown }"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            "{ [key: string]: string }",
        ),
        (
            {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            '{ "a": string; "b"?: unknown; }',
        ),
    ],
)
def test_a_schema_becomes_a_typescript_type(schema: dict[str, object], written: str) -> None:
    assert type_of(schema) == written
