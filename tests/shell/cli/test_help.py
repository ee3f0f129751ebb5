"""Every command says in its help what each of its values is."""

import re
from collections.abc import Iterator

import pytest
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command

from mintscope.shell.cli.app import app

Parameter = TyperArgument | TyperOption


def parameters() -> Iterator[tuple[str, Parameter]]:
    """Yield the words of each parameter that takes a value, with the parameter."""
    found = [("mintscope", get_command(app))]
    for words, command in found:
        if isinstance(command, TyperGroup):
            found += [(f"{words} {name}", inner) for name, inner in command.commands.items()]
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


def test_there_are_values() -> None:
    assert len(PARAMETERS) > 40
