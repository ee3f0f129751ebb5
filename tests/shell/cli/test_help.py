"""Help at every level, and what every command has."""

from collections.abc import Iterator

import pytest
import typer
from typer.testing import CliRunner

from mintscope import __version__
from mintscope.shell.cli.app import app


def paths(group: typer.Typer = app, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command and group."""
    yield above
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*above, command.name or command.callback.__name__)
    for below in group.registered_groups:
        assert below.typer_instance is not None
        yield from paths(below.typer_instance, (*above, below.name) if below.name else above)


PATHS = sorted(set(paths()))


def test_commands_are_found_at_every_level() -> None:
    assert {("demo",), ("buy",), ("buy", "credits"), ("applications", "approve")} <= set(PATHS)


@pytest.mark.parametrize("option", ["--help", "-h"])
@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_is_shown_without_any_other_option(path: tuple[str, ...], option: str) -> None:
    result = CliRunner().invoke(app, [*path, option], prog_name="mintscope")

    assert result.exit_code == 0, result.output
    assert result.output.split()[:2] == ["Usage:", "mintscope"]
    assert " ".join(path) in result.output


def test_help_of_a_purchase_is_shown_where_the_command_has_options() -> None:
    arguments = ["buy", "--url", "https://api.example", "credits", "50", "--help"]
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0
    assert "Buy a bundle of credits" in result.output


def test_the_version_is_printed_and_its_help_says_so() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"{__version__}\n"
    assert "Print the version and exit." in CliRunner().invoke(app, ["--help"]).output


def test_shells_can_complete() -> None:
    completed = CliRunner().invoke(
        app,
        [],
        prog_name="mintscope",
        env={
            "_MINTSCOPE_COMPLETE": "complete_bash",
            "COMP_WORDS": "mintscope cre",
            "COMP_CWORD": "1",
        },
    )

    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output
    assert completed.output.strip() == "credits"
