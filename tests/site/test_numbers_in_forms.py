"""Numbers that no store can hold, and texts that only look like numbers, are never a 500."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import mintscope
from support.scenes.page_scene import scene_at
from support.scenes.people.web_person import Person
from support.scenes.website import ADMINISTRATOR, MINUTE_MS, Website

pytestmark = pytest.mark.storm  # each number in each field of each form

NUMBERS = [str(2**63), str(-(2**63) - 1), "9" * 100, "9" * 400, "1e400", "-1", "nan", "٣", "²"]
READ = re.compile(r"\.(?:text|texts|line)\(\s*\"(\w+)\"")
SEGMENT_MAX = 128
ASKED_SIGNED_IN = 4  # requests between two sign-ins; later ones would need the password again
ASKS_AGAIN = ("/sign-in?", "/prove?")  # where a page sends visitors who must sign in first


def fields() -> list[str]:
    """Return the names of all fields that pages read from a query or from a form."""
    folder = Path(mintscope.__file__).parent
    sources = [path.read_text() for path in folder.rglob("*.py")]
    names = {name for source in sources for name in READ.findall(source)} - {"csrf"}
    assert {"before", "window", "cap"} & names, names
    return sorted(names)


def places(path: str, number: str) -> Iterator[str]:
    """Yield *path* with *number* for its variable segments, without and with a suffix."""
    if "{" in path and len(quote(number)) <= SEGMENT_MAX:
        yield re.sub(r"\{\w+\}", quote(number), path)
        yield re.sub(r"\{\w+\}", quote(number + ".x"), path)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:20])
async def test_no_page_and_no_form_answers_a_hostile_number_with_500(
    site: Website, number: str
) -> None:
    await scene_at(site)
    names = fields()
    asked = 0
    async with Person(site) as person:
        for route in site.routes():
            query = urlencode([(name, number) for name in names if name != "next"][:45])
            for path in [re.sub(r"\{\w+\}", "1", route.path), *places(route.path, number)]:
                site.clock.advance(MINUTE_MS)  # so that rate limits allow the next request
                # A form, such as the one for signing out, may have ended the session.
                if person.cookie is None or asked % ASKED_SIGNED_IN == 0:
                    await person.sign_in(ADMINISTRATOR)
                asked += 1
                if route.method == "GET":
                    answer = await person.open(f"{path}?{query}")
                else:
                    answer = await person.send(path, dict.fromkeys(names[:45], number))
                assert answer.status_code not in {403, 429, 500}, (path, answer.status_code)
                assert not answer.headers.get("location", "").startswith(ASKS_AGAIN), path
