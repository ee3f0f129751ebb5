"""The npm package of the TypeScript client: what `npm run build` made, typed by this service."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

NAME: Final = "mintscope-client"
BUILT: Final = "javascript"  # the folder here into which packages/client-ts is built
MODE: Final = 0o644


def tarball_name(version: str) -> str:
    """Return the file name of the package."""
    return f"{NAME}-{version}.tgz"


def manifest(version: str) -> dict[str, Any]:
    """Return what npm and Node read of the package."""
    return {
        "name": NAME,
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
    """Return the package; *types* is the TypeScript of what the service describes."""
    built = (files(__package__) / BUILT).iterdir()
    content = {f"dist/{each.name}": each.read_bytes() for each in built}
    content["dist/openapi.d.ts"] = types.encode()
    content["package.json"] = json.dumps(manifest(version), indent=2).encode()
    return gzip.compress(_tarred(content), mtime=0)


def _tarred(content: Mapping[str, bytes]) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as target:
        for name in sorted(content):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content[name])
            entry.mode = MODE
            target.addfile(entry, io.BytesIO(content[name]))
    return archive.getvalue()
