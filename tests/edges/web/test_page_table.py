"""Whatever is looked up in the table of pages, only addresses of this site are found."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mintscope.base.errors import BadRequest, MethodNotAllowed, NotFound
from mintscope.edges.web.forms.form import FIELDS_MAX, Form, parse_form
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.pages.reply import Page, Reply
from mintscope.edges.web.routes import Route, Table


async def handler(visit: Visit) -> Reply:
    return Page(visit.path)


def rows() -> Iterator[Route]:
    for path in ["/", "/settings", "/settings/{key}/rotate", "/reset/{link}", "/reset/new"]:
        yield Route(method="GET", path=path, handler=handler)
    for path in ["/settings/{key}/rotate", "/sign-out"]:
        yield Route(method="POST", path=path, handler=handler)


TABLE = Table(rows())
PIECES = st.sampled_from(
    [
        "/", "//", "\\", "settings", "reset", "rotate", "..", ".", "new", "%2f", "\r\n", "\n", "\t",
        " ", "evil.example", "@", ":", "https:", "?", "#", ";", "é", "\0", "{link}", "", "a", "1.x",
        "-_~",
    ]
)  # fmt: skip
PATHS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=40)


@given(PATHS)
@example("/reset/..")
@example("/reset/.")
@example("/settings/../rotate")
def test_what_is_found_leads_nowhere_else(path: str) -> None:
    if TABLE.has_page(path):
        assert re.fullmatch(r"/[A-Za-z0-9._~/-]*", path)
        assert not path.startswith("//")
        assert not {".", ".."} & set(path.split("/"))
        parts = urlsplit(path)
        assert (parts.scheme, parts.netloc, parts.path) == ("", "", path)


@given(PATHS, st.sampled_from(["GET", "HEAD", "POST", "PUT", ""]))
def test_looking_up_finds_the_row_or_says_that_there_is_none(path: str, method: str) -> None:
    try:
        route, parameters = TABLE.find(method, path)
    except (MethodNotAllowed, NotFound):
        pass
    else:
        assert route.method == ("GET" if method == "HEAD" else method)
        assert route.path.format(**parameters) == path


def test_what_is_literal_comes_first() -> None:
    assert TABLE.find("GET", "/reset/new")[0].path == "/reset/new"
    assert TABLE.find("GET", "/reset/old") == (
        TABLE.find("GET", "/reset/x")[0], {"link": "old"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/reset/{link}", "/settings/{key}/rotate", "/settings/", "", "/reset/a\n"]
)
def test_patterns_and_near_misses_are_no_pages(path: str) -> None:
    assert not TABLE.has_page(path)


def test_what_is_allowed_is_told() -> None:
    for path, allowed in [
        ("/settings", "GET, HEAD"),
        ("/settings/1/rotate", "GET, HEAD, POST"),
        ("/sign-out", "POST"),
    ]:
        with pytest.raises(MethodNotAllowed, match=allowed):
            TABLE.find("PUT", path)


@given(st.binary(max_size=200))
def test_any_body_is_a_form_or_none(body: bytes) -> None:
    try:
        form = parse_form(body)
    except BadRequest:
        return
    assert form.texts("never sent") == []
    assert form.text("never sent") == ""


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_characters="\0"), max_size=9), st.text(max_size=9)),
        max_size=FIELDS_MAX,
    )
)
def test_every_value_is_there_in_its_order(pairs: list[tuple[str, str]]) -> None:
    form = Form(pairs)
    for name in {name for name, _ in pairs}:
        values = form.texts(name)
        assert values == [value for other, value in pairs if other == name]
        if len(values) == 1:
            assert form.text(name) == values[0]
        else:
            with pytest.raises(BadRequest, match=f"were {len(values)}"):
                form.text(name)
