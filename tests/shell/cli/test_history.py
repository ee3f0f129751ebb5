"""The progress of reading history, told to people."""

import pytest

from mintscope.shell.cli.service.history import History


@pytest.mark.parametrize("total", [0, -3, 10])
def test_going_back_for_what_died_is_no_end(total: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A resumed source may begin below where it stopped, with nothing new to read yet."""
    with History() as history:
        history(-5, total)
        assert "history read" not in capsys.readouterr().err
        history(10, 10)

    assert "history read" in capsys.readouterr().err
