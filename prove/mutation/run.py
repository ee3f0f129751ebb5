"""Runs the mutation tester mutmut on modules of the service, in a folder of build/.

The folder links to the files of this repository.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from prove.mutation.mutants import Mutant, mutants_of
from prove.mutation.plan import LEFT_OUT
from prove.recipe import BUILD, PACKAGE, ROOT

FOLDERS: Final = BUILD / "mutation"
SETTINGS: Final = """\
[mutmut]
source_paths=src
use_git_change_detection=false
do_not_mutate_patterns=
{prose}
also_copy=
{also_copy}
only_mutate=
{only_mutate}
pytest_add_cli_args=
{options}
pytest_add_cli_args_test_selection=
{tests}
"""
OPTIONS: Final = (
    *("-p", "no:cacheprovider", "--timeout=0", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore::DeprecationWarning"),
    *("-o", "tmp_path_retention_policy=none"),
    *("-m", "not process and not browser"),
)
NOT_LINKED: Final = (".*", "build", "dist", "var", "node_modules", "__pycache__", "mintscope-data")
# Expressions on such lines are not mutated, because the texts of errors are for people.
PROSE: Final = (r"^\s*raise ", r"^\s*\"[^\"]*\"$")
# In these modules, the decorator of numba is removed: numba would run code that it compiled
# earlier, and mutmut does not change decorated functions.
COMPILED: Final = "market/engine/"
COMPILING: Final = re.compile(r"^@(?:bulk_)?kernel\n", re.MULTILINE)


def run(modules: Sequence[str], tests: Sequence[str], *, processes: int) -> dict[str, list[Mutant]]:
    """Run mutation tests; return the mutants of each of *modules* with their outcomes.

    modules    below src/mintscope
    tests      files and folders below tests/, which run against each mutant
    Raises     SystemExit if mutmut fails, for example because a test fails without a mutant
    """
    folder = FOLDERS / modules[0].removesuffix(".py").replace("/", ".")
    selection = [f"tests/{test}" for test in tests] + [
        f"--ignore=tests/{test}" for test in LEFT_OUT
    ]
    settings = SETTINGS.format(
        also_copy=_lines(path.name for path in _tops() if path.name != "src"),
        only_mutate=_lines(f"src/mintscope/{module}" for module in modules),
        prose=_lines(PROSE),
        options=_lines(OPTIONS),
        tests=_lines(selection),
    )
    compiled = [module for module in modules if module.startswith(COMPILED)]
    _prepare(folder, settings, compiled)
    environment = dict(os.environ)  # noqa: TID251 - of another process
    if compiled:
        environment["NUMBA_DISABLE_JIT"] = "1"
    mutmut = Path(sys.executable).with_name("mutmut")
    command = [str(mutmut), "run", f"--max-children={processes}"]
    with (folder / "log").open("w") as log:
        ended = subprocess.run(
            command, cwd=folder, env=environment, stdout=log, stderr=log, check=False
        )
    if ended.returncode != 0:
        text = (folder / "log").read_text(errors="replace")[-3000:]
        raise SystemExit(f"expected mutmut to run the tests:\n{text}")
    mutated = folder / "mutants" / "src" / "mintscope"
    return {each: list(mutants_of(PACKAGE / each, mutated / each)) for each in modules}


def _tops() -> list[Path]:
    return sorted(path for path in ROOT.iterdir() if not any(map(path.match, NOT_LINKED)))


def _prepare(folder: Path, settings: str, compiled: Sequence[str]) -> None:
    """Fill *folder* with links to this repository, unless an interrupted run can be resumed.

    A run can be resumed if no file has changed since it began.

    compiled    modules whose numba decorators are removed in *folder*
    """
    digest = hashlib.sha256(settings.encode())
    for top in _tops():
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            if "node_modules" not in path.parts:
                digest.update(str(path).encode() + path.read_bytes())
    state = folder / "state"
    if state.is_file() and state.read_text() == digest.hexdigest():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns(*NOT_LINKED)
    for top in _tops():
        if top.is_file():
            os.link(top, folder / top.name)
        else:
            shutil.copytree(top, folder / top.name, copy_function=os.link, ignore=ignored)
    for module in compiled:
        link = folder / "src" / "mintscope" / module
        text = link.read_text()
        link.unlink()
        link.write_text(COMPILING.sub("", text))
    (folder / "setup.cfg").write_text(settings)
    state.write_text(digest.hexdigest())


def _lines(values: Iterable[str]) -> str:
    return "\n".join(f"    {value}" for value in values)
