"""Every command says in its help what each of its values is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
from typer import Context
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command, get_group

from mintscope.shell.cli.app import COMMANDS, app

Parameter = TyperArgument | TyperOption


def parameters() -> Iterator[tuple[str, Parameter]]:
    """Yield the words of each parameter that takes a value, with the parameter."""
    found = [("mintscope", get_command(app))]
    for words, command in found:
        if isinstance(command, TyperGroup):
            within = Context(command)
            for name in command.list_commands(within):
                inner = command.get_command(within, name)
                assert inner is not None
                found.append((f"{words} {name}", inner))
        for parameter in command.params:
            assert isinstance(parameter, TyperArgument | TyperOption)
            is_flag = isinstance(parameter, TyperOption) and parameter.is_flag
            if not is_flag and not parameter.hidden:
                yield f"{words} {parameter.opts[-1]}", parameter


PARAMETERS = dict(parameters())


@pytest.mark.parametrize("words", PARAMETERS)
def test_every_value_has_a_name_in_capitals_and_a_sentence(words: str) -> None:
    parameter = PARAMETERS[words]

    assert re.fullmatch(r"[A-Z]+(,[A-Z.]+)*(\.\.\.|\.csv)?", str(parameter.metavar))
    assert re.fullmatch(r"[A-Z0-9t].*\.", str(parameter.help))


def test_every_command_of_a_module_is_listed_once() -> None:
    modules = {import_module(f"mintscope.shell.cli.{module}") for module in COMMANDS.values()}

    assert sorted(COMMANDS) == sorted(
        name for module in modules for name in get_group(module.app).commands
    )


@pytest.mark.process
def test_a_command_loads_what_it_needs_alone() -> None:
    """The rest takes most of a second; an operator waits for it, and so does a restart."""
    program = """
import sys
from mintscope.shell.cli.app import main
sys.argv = ["mintscope", "serve", "--help"]
try:
    main()
finally:
    print(sorted({"numba", "starlette", "x402"} & set(sys.modules)), file=sys.stderr)
"""
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert "Run ingest and api" in told.stdout
    assert told.stderr == "[]\n"


def test_there_are_values() -> None:
    assert len(PARAMETERS) > 40
