"""docs/clients.md names every exception of a client; `test_commands.py` runs its programs."""

import re
from pathlib import Path

from mintscope_client import errors

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text()


def test_every_exception_of_a_kind_is_named() -> None:
    kinds = {each.__name__ for each in errors.ClientError.__subclasses__()}
    kinds |= {each.__name__ for each in errors.RefusedError.__subclasses__()}

    assert kinds - set(re.findall(r"`(\w+)`", PAGE)) == set()
