"""docs/clients.md names the errors and calls of the client; `test_commands.py` runs its code."""

import re
from pathlib import Path

from mintscope_client import Client, errors
from mintscope_client.endpoints.methods import RawResponses

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text()


def test_the_page_names_every_exception_of_the_client() -> None:
    kinds = {each.__name__ for each in errors.ClientError.__subclasses__()}
    kinds |= {each.__name__ for each in errors.RefusedError.__subclasses__()}

    assert kinds - set(re.findall(r"`(\w+)`", PAGE)) == set()


def test_the_page_names_the_calls_without_raw_responses() -> None:
    missing = re.findall(r"They are the calls of the client,\s+except ([^.]*)\.", PAGE)
    own = {"close", "budget", "with_raw_response", "result"}  # these are not calls
    calls = {name for name in dir(Client) if not name.startswith("_")} - own

    assert set(re.findall(r"`(\w+)`", "".join(missing))) == calls - set(dir(RawResponses))
