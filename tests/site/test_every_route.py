"""Rules that hold for every route, also for new ones."""

from collections.abc import Iterator, Mapping

import pytest

from mintscope.site.routes import Access, PageRoute
from support.scenes.page_scene import PERSON, scene_at
from support.scenes.people.web_person import Person, where
from support.scenes.website import ADMINISTRATOR, MINUTE_MS, Website

PLACES = {
    "{link}": "1.x",
    "{email}": "1",
    "{key}": "1",
    "{application}": "1",
    "{user}": "1",
    "{guide}": "start",
    "{watchlist}": "1",
    "{alert}": "1",
    "{endpoint}": "get-token",
    "{passkey}": "1",
    "{signature}": "x",
    "{wallet}": "So11111111111111111111111111111111111111112",
    "{mint}": "So11111111111111111111111111111111111111112",
}
FRESH_FORMS = ("/admin", "/settings/api-keys", "/settings/second-factor")
# Forms without a session: for readers of an e-mail, and for visitors who sign in or sign up.
OPEN_FORMS = {
    "/sign-in",
    "/sign-in/code",
    "/sign-in/passkey",
    "/sign-in/passkey-alone",
    "/sign-up",
    "/forgot",
    "/reset/{link}",
    "/confirm/{link}",
    "/undo-email/{link}",
    "/pause-alert/{link}",
}
# Without the times at which sessions were last used, because a visit may change them.
DUMP = [
    "SELECT * FROM watchlist",
    "SELECT * FROM signal",
    "SELECT * FROM user",
    "SELECT * FROM application",
    "SELECT * FROM api_key",
    "SELECT id, user FROM session",
    "SELECT * FROM proof",
    "SELECT * FROM letter",
    "SELECT * FROM account_event",
]


def paths(
    site: Website, method: str, places: Mapping[str, str] = PLACES
) -> Iterator[tuple[PageRoute, str]]:
    """Yield every route of *method*, and a path that matches it."""
    for route in site.routes():
        if route.method == method:
            path = route.path
            for place, text in places.items():
                path = path.replace(place, text)
            assert "{" not in path, f"{path}: say here what stands for its braces"
            yield route, path


@pytest.fixture
async def scene(site: Website) -> Website:
    """Return the service with data for every page."""
    await scene_at(site)
    return site


@pytest.mark.parametrize("email", [PERSON, ADMINISTRATOR])
async def test_looking_at_any_page_changes_nothing(site: Website, email: str) -> None:
    scene = await scene_at(site)
    found = {
        "/reset/{link}": str(scene["reset"]),
        "/confirm/{link}": str(scene["confirm"]),
        "{key}": str(scene["used"]),
        "{application}": str(scene["waiting"]),
        "{user}": str(scene["user"]),
    }
    async with Person(site) as person:
        await person.sign_in(email)
        before = [site.rows(query) for query in DUMP]
        shown = set()
        others = {place: text for place, text in PLACES.items() if place not in found}
        for _, path in paths(site, "GET", found | others):
            assert (await person.client.head(path)).status_code < 500
            if (await person.open(path)).status_code == 200:
                shown.add(path)

    assert [site.rows(query) for query in DUMP] == before
    asks = f"/settings/api-keys/{scene['used']}/revoke"
    if email == ADMINISTRATOR:
        asks = f"/admin/applications/{scene['waiting']}/forget"
    assert {scene["reset"], scene["confirm"], asks} <= shown


async def test_every_form_of_another_origin_is_refused(scene: Website) -> None:
    async with Person(scene) as person:
        await person.sign_in(ADMINISTRATOR)
        before = [scene.rows(query) for query in DUMP]
        for route, path in paths(scene, "POST"):
            if route.is_from_anywhere:  # its proof is in the path, where x is invalid
                assert (await person.send(path, origin=None)).status_code == 404
                continue
            for origin in [None, "https://evil.example"]:
                assert (await person.send(path, origin=origin)).status_code == 403, path

    assert [scene.rows(query) for query in DUMP] == before


async def test_every_form_of_a_session_requires_its_csrf_text(scene: Website) -> None:
    async with Person(scene) as person:
        await person.sign_in(ADMINISTRATOR)
        before = [scene.rows(query) for query in DUMP]
        for route, path in paths(scene, "POST"):
            if route.path not in OPEN_FORMS:
                assert (await person.send(path, {"csrf": "x"})).status_code == 403, path

    assert [scene.rows(query) for query in DUMP] == before


async def test_strangers_are_sent_to_sign_in(scene: Website) -> None:
    async with Person(scene) as person:
        for route, path in [*paths(scene, "GET"), *paths(scene, "POST")]:
            if route.access is not Access.ANYONE:
                answer = await person.client.request(
                    route.method, path, headers={"origin": scene.origin}
                )
                assert where(answer).startswith("/sign-in"), path


async def test_pages_that_need_a_fresh_password_ask_for_it(scene: Website) -> None:
    async with Person(scene) as person:
        await person.sign_in(ADMINISTRATOR)
        scene.clock.advance(11 * MINUTE_MS)
        before = [scene.rows(query) for query in DUMP]
        for route, path in [*paths(scene, "GET"), *paths(scene, "POST")]:
            if route.access is Access.FRESH:
                send = person.open if route.method == "GET" else person.send
                assert where(await send(path)).startswith("/prove"), path

    assert [scene.rows(query) for query in DUMP] == before


async def test_changes_to_keys_and_by_administrators_require_a_fresh_password(
    site: Website,
) -> None:
    for route in site.routes():
        if route.method == "POST" and route.path.startswith(FRESH_FORMS):
            assert route.access is Access.FRESH, route.path


async def test_the_administration_is_a_404_for_other_users(scene: Website) -> None:
    async with Person(scene) as person:
        await person.sign_in(PERSON)
        nowhere = (await person.open("/nowhere")).text.partition("<main")[2]
        for route, path in [*paths(scene, "GET"), *paths(scene, "POST")]:
            assert route.is_administration == path.startswith("/admin")
            if route.is_administration:
                send = person.open if route.method == "GET" else person.send
                answer = await send(path)
                assert answer.status_code == 404, path
                same = answer.text.partition("<main")[2]
                assert without_id(same) == without_id(nowhere)


def without_id(page: str) -> str:
    """Return *page* without the request ID that it shows."""
    before, _, after = page.partition("<code>")
    return before + after.partition("</code>")[2]
