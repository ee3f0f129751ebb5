"""The end of a child shows `serve` whether to start it again, or to wait for an operator."""

import pytest
import typer
from typer.testing import CliRunner

from mintscope.app.ingest import WrongChain
from mintscope.app.running.serve import EXIT_FAILED, EXIT_OPERATOR, ChildEnded, ending_in_words
from mintscope.kit.errors import FolderOpen, StoreUnavailable, UnusableStore
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
def test_only_what_an_operator_must_decide_ends_a_child_for_good(
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
