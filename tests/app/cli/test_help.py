"""Each command explains its parameters in its help, and loads only the modules that it needs."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer import Context
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command, get_group

from mintscope.app.cli.app import COMMANDS, app

Parameter = TyperArgument | TyperOption
# They print JSON, or run until they are stopped.
WITHOUT_JSON = {
    *("api", "ingest", "serve", "mcp", "demo", "devchain"),
    *("decode", "indicators", "report", "listing", "faucet", "faults", "tokens show"),
    "buy request",
}
# They change something, and print one line about it; programs read the exit code.
ACTIONS = {
    *("admin create", "secrets rotate", "sales resume", "gaps fill", "buy credits"),
    *("applications approve", "applications reject", "applications reset", "applications forget"),
    *("users remove", "users drop-second-factor", "tokens add", "tokens remove"),
    *("history read", "history import", "export"),
}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield (words, command) for `mintscope` and for each group and command below it."""
    found = [("mintscope", get_command(app))]
    for words, command in found:
        yield words, command
        if isinstance(command, TyperGroup):
            within = Context(command)
            for name in command.list_commands(within):
                inner = command.get_command(within, name)
                assert inner is not None
                found.append((f"{words} {name}", inner))


def parameters() -> Iterator[tuple[str, Parameter]]:
    """Yield (command words, parameter) for each visible parameter, except flags without a value."""
    for words, command in commands():
        for parameter in command.params:
            assert isinstance(parameter, TyperArgument | TyperOption)
            is_flag = isinstance(parameter, TyperOption) and parameter.is_flag
            if not is_flag and not parameter.hidden:
                yield f"{words} {parameter.opts[-1]}", parameter


PARAMETERS = dict(parameters())


@pytest.mark.parametrize("words", PARAMETERS)
def test_every_parameter_has_a_name_in_capitals_and_a_sentence_of_help(words: str) -> None:
    parameter = PARAMETERS[words]

    assert re.fullmatch(r"[A-Z]+(,[A-Z.]+)*(\.\.\.|\.csv)?", str(parameter.metavar))
    assert re.fullmatch(r"[A-Z0-9t].*\.", str(parameter.help))


def test_every_command_that_reads_data_has_the_option_json() -> None:
    without = {
        words.removeprefix("mintscope ")
        for words, command in commands()
        if not isinstance(command, TyperGroup)
        and not any("--json" in each.opts for each in command.params)
    }

    assert without == WITHOUT_JSON | ACTIONS


def test_every_command_of_a_module_is_listed_once() -> None:
    modules = {each.load() for each in COMMANDS.values()}

    assert sorted(COMMANDS) == sorted(
        name for module in modules for name in get_group(module.app).commands
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_each_command_is_the_first_paragraph_of_its_help(name: str) -> None:
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    command = commands.get_command(Context(commands), name)

    assert command is not None
    assert COMMANDS[name].summary == " ".join(str(command.help).split("\n\n")[0].split())


COMMAND = """
import sys
from mintscope.app.cli.app import main
sys.argv = sys.argv[1:]
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
MODULE = """
import sys
from importlib import import_module
import_module(sys.argv[1])
print(*sys.modules, file=sys.stderr)
"""


def loaded_by(*words: str) -> set[str]:
    """Return every module that `mintscope` with *words* has loaded when it ends."""
    printed, loaded = run(COMMAND, "mintscope", *words)
    assert "Usage: mintscope" in printed
    return set(loaded.split())


def loaded_with(module: str) -> set[str]:
    """Return every module that is loaded when *module* is imported."""
    return set(run(MODULE, module)[1].split())


def run(program: str, *words: str) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout, ran.stderr


@pytest.mark.process
def test_the_list_of_commands_loads_no_command() -> None:
    """Loading all commands takes a second."""
    loaded = loaded_by("--help")

    assert {name for name in loaded if name.startswith("mintscope.")} == {
        "mintscope.app",
        "mintscope.app.cli",
        "mintscope.app.cli.app",
    }
    assert not loaded & {"asyncio", "msgspec", "pydantic", "structlog"}


@pytest.mark.process
def test_the_parent_of_serve_does_not_load_the_modules_of_its_children() -> None:
    """Loading those modules would take a second and 90 MB, at the start and at each restart."""
    loaded = loaded_by("serve", "--help")

    assert "mintscope.app.running.serve" in loaded
    assert not loaded & {"numba", "numpy", "starlette", "uvicorn", "x402", "httpx"}
    assert not loaded & {"apsw", "jinja2", "prometheus_client", "uvloop", "wsgiref"}
    others = ("mintscope.api", "mintscope.ingest", "mintscope.kit.sql", "mintscope.site")
    assert not {name for name in loaded if name.startswith(others)}


@pytest.mark.process
def test_ingest_loads_nothing_of_the_api() -> None:
    """Loading the modules of the api would take 0.2 s and 20 MB at each start of ingest."""
    loaded = loaded_by("ingest", "--help") | loaded_with("mintscope.app.ingest")

    assert "mintscope.app.ingest" in loaded
    others = ("mintscope.app.api", "mintscope.app.accounts", "mintscope.api", "mintscope.site")
    assert not {name for name in loaded if name.startswith(others)}


def test_more_than_40_values_are_checked() -> None:
    assert len(PARAMETERS) > 40


@pytest.mark.process
def test_the_api_does_not_load_the_libraries_of_passkeys_at_its_start() -> None:
    """Loading these libraries takes 70 ms and 14 MB, and a service may have no passkeys."""
    loaded = loaded_with("mintscope.app.api")

    assert "mintscope.accounts.factor_rows" in loaded
    assert not loaded & {"webauthn", "cbor2", "OpenSSL"}


@pytest.mark.process
def test_a_command_of_the_stores_does_not_load_the_compiler() -> None:
    """Loading Numba, the compiler, takes a quarter of a second; most commands do not need it."""
    loaded = loaded_by("backup", "--help")

    assert {"mintscope.app.stores.stores", "mintscope.market.engine.kernels"} <= loaded
    assert not loaded & {"numba", "llvmlite"}
