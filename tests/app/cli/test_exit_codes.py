"""The exit code of a child shows `serve` whether to restart it or to wait for an operator."""

import socket
import sys

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from mintscope.app.cli.app import Commands, app
from mintscope.app.config.config import ApiConfig, MetricsConfig
from mintscope.app.ingest import WrongChain
from mintscope.app.maintenance import serving_metrics
from mintscope.app.running.processes import bind
from mintscope.app.running.serve import EXIT_FAILED, EXIT_OPERATOR, ChildEnded, ending_in_words
from mintscope.kit.errors import FolderOpen, StoreUnavailable, UnusableStore
from mintscope.kit.http.listening import naming_setting
from mintscope.kit.sql.database import DatabaseAway
from mintscope.market.engine.fold import ForkBelowFinalized
from mintscope.solana.blocks import SourceError

OPERATOR = [
    WrongChain("expected the chain of the file; the node follows another"),
    ForkBelowFinalized("finalized slot 11; block 12 has parent 10"),
    UnusableStore("another process uses the folder"),
    FolderOpen("others may look into the folder"),
    ChildEnded("api ended with exit code 3", needs_operator=True),
]
ITSELF = [
    StoreUnavailable("the disk is full"),
    SourceError("no node answers"),
    OSError("no file is left"),
    ChildEnded("api ended with exit code 1", needs_operator=False),
]


@pytest.mark.parametrize(
    ("error", "code"),
    [*((each, EXIT_OPERATOR) for each in OPERATOR), *((each, EXIT_FAILED) for each in ITSELF)],
    ids=lambda value: type(value).__name__,
)
def test_only_errors_that_need_an_operator_have_the_exit_code_for_operators(
    error: Exception, code: int
) -> None:
    command = typer.Typer()

    @command.command()
    def run() -> None:
        with ending_in_words():
            raise error

    ended = CliRunner().invoke(command)

    assert ended.exit_code == code
    assert ended.output == f"mintscope: {error}\n"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StoreUnavailable("the disk is full"), "mintscope: the disk is full\n"),
        (DatabaseAway("connection refused"), "mintscope: connection refused\n"),
        (OSError(28, "No space left on device"), "mintscope: [Errno 28] No space left on device\n"),
        (ZeroDivisionError("a bug"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unexpected_error_is_one_message_unless_it_is_a_bug(
    error: Exception,
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run() -> None:
        raise error

    monkeypatch.setattr(Commands, "get_command", lambda *_: TyperCommand("run", callback=run))
    monkeypatch.setattr(sys, "argv", ["mintscope", "run"])
    with pytest.raises(SystemExit if message else ZeroDivisionError) as ended:
        app(prog_name="mintscope")

    assert capsys.readouterr().err == (message or "")
    if isinstance(ended.value, SystemExit):
        assert ended.value.code == EXIT_FAILED


def test_a_port_in_use_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        named = f"port {port}: Address already in use: .* or set"
        with pytest.raises(OSError, match=f"{named} api.port"):
            bind(ApiConfig(port=port))
        metrics = MetricsConfig(ingest_port=port)
        with pytest.raises(OSError, match=f"{named} metrics.ingest_port"):  # noqa: SIM117
            with serving_metrics(metrics, "ingest"):
                pass


def test_an_address_that_is_not_of_this_machine_is_named_with_its_setting() -> None:
    with pytest.raises(OSError, match=r"no address of this machine: set api\.host"):
        bind(ApiConfig(host="192.0.2.1", port=1))  # reserved for examples (RFC 5737)
    with (
        pytest.raises(
            OSError, match=r"No such name: x is no address of this machine: set web\.host"
        ),
        naming_setting("web.port", "web.host", "x", 1),
    ):
        raise socket.gaierror(socket.EAI_NONAME, "No such name")
