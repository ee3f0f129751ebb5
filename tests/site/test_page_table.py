"""A path of a page leads to this site's route, and no form content causes an unexpected error."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mintscope.kit.errors import BadRequest, MethodNotAllowed, NotFound
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.http.routes import Route, Router
from mintscope.site.routes import FIELDS_MAX, SEGMENT, FormData, parse_form


async def endpoint(_request: Request) -> Response:
    return Response(200)


def rows() -> Iterator[Route]:
    for path in ["/", "/settings", "/settings/{key}/rotate", "/reset/{link}", "/reset/new"]:
        yield Route(method="GET", path=path, endpoint=endpoint)
    for path in ["/settings/{key}/rotate", "/sign-out"]:
        yield Route(method="POST", path=path, endpoint=endpoint)


ROUTER = Router(rows(), SEGMENT)
PIECES = st.sampled_from(
    [
        "/", "//", "\\", "settings", "reset", "rotate", "..", ".", "new", "%2f", "\r\n", "\n", "\t",
        " ", "evil.example", "@", ":", "https:", "?", "#", ";", "é", "\0", "{link}", "", "a", "1.x",
        "-_~",
    ]
)  # fmt: skip
PATHS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=40)


def is_page(path: str) -> bool:
    try:
        ROUTER.find("GET", path)
    except (MethodNotAllowed, NotFound):
        return False
    return True


@given(PATHS)
@example("/reset/..")
@example("/reset/.")
@example("/settings/../rotate")
def test_a_path_that_is_found_stays_on_this_site(path: str) -> None:
    if is_page(path):
        assert re.fullmatch(r"/[A-Za-z0-9._~/-]*", path)
        assert not path.startswith("//")
        assert not {".", ".."} & set(path.split("/"))
        parts = urlsplit(path)
        assert (parts.scheme, parts.netloc, parts.path) == ("", "", path)


@given(PATHS, st.sampled_from(["GET", "HEAD", "POST", "PUT", ""]))
def test_a_look_up_finds_the_matching_route_or_raises_an_error(path: str, method: str) -> None:
    try:
        route, parameters = ROUTER.find(method, path)
    except (MethodNotAllowed, NotFound):
        pass
    else:
        assert route.method == ("GET" if method == "HEAD" else method)
        assert route.path.format(**parameters) == path


def test_a_literal_path_comes_before_a_pattern() -> None:
    assert ROUTER.find("GET", "/reset/new")[0].path == "/reset/new"
    assert ROUTER.find("GET", "/reset/old") == (
        ROUTER.find("GET", "/reset/x")[0], {"link": "old"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "path", ["/reset/{link}", "/settings/{key}/rotate", "/settings/", "", "/reset/a\n"]
)
def test_patterns_and_similar_paths_are_not_pages(path: str) -> None:
    assert not is_page(path)


def test_a_405_names_the_allowed_methods() -> None:
    for path, allowed in [
        ("/settings", "GET, HEAD"),
        ("/settings/1/rotate", "GET, HEAD, POST"),
        ("/sign-out", "POST"),
    ]:
        with pytest.raises(MethodNotAllowed, match=allowed):
            ROUTER.find("PUT", path)


@given(st.binary(max_size=200))
def test_any_body_is_read_as_a_form_or_refused(body: bytes) -> None:
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
def test_a_form_keeps_every_value_in_its_order(pairs: list[tuple[str, str]]) -> None:
    form = FormData(pairs)
    for name in {name for name, _ in pairs}:
        values = form.texts(name)
        assert values == [value for other, value in pairs if other == name]
        if len(values) == 1:
            assert form.text(name) == values[0]
        else:
            with pytest.raises(BadRequest, match=f"were {len(values)}"):
                form.text(name)
