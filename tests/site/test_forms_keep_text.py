"""A form whose session has ended keeps its text, for its user only.

With scripts every form does so (`typed.js`, which the base of all pages loads).  Without scripts
the server puts the text into the URL of the page to return to, which must contain no secret.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from support.scenes.people.web_person import MALLORY, Person, where, words
from support.scenes.website import ADMINISTRATOR, Website

TEMPLATES: Final = Path("src/mintscope/site/templates")
FIELD: Final = re.compile(
    r'(?:field|choice|numbers|note)\("([\w-]+)"|(token_field)\('
    r'|<(?:input|select|textarea)(?![^>]*type="hidden")[^>]*name="([\w-]+)"'
)
# Forms that keep nothing without scripts, and why.
SECRET: Final = "passwords, codes and credit tokens belong into no address"
RETYPED: Final = "what is typed confirms the act itself, so it is typed again"
LOOSER: Final = "a link must not fill in looser limits of a key"
OPEN: Final = "it needs no session, so none ends"
NOT_KEPT: Final = {
    "account/delete.html": RETYPED,
    "account/kept.html": RETYPED,
    "account/email.html": "a link must not fill in the address that an account moves to",
    "admin/remove.html": RETYPED,
    "factors/app.html": SECRET,
    "factors/passkey.html": "it needs a script anyway",
    "factors/sign_in.html": OPEN,
    "forgot.html": OPEN,
    "keys/cap.html": LOOSER,
    "keys/networks.html": LOOSER,
    "password.html": SECRET,
    "prove.html": SECRET,
    "reset.html": OPEN,
    "sales/credits_of_token.html": SECRET,
    "sign_in.html": OPEN,
    "sign_up.html": OPEN,
}
EVERY: Final = "Kept <b> & 7"


def typed_forms() -> dict[str, list[bool]]:
    """Return the templates of forms with fields, and whether each form keeps its text."""
    found: dict[str, list[bool]] = {}
    for path in sorted(TEMPLATES.rglob("*.html")):
        for tag, inside in re.findall(r"<form([^>]*)>(.*?)</form>", path.read_text(), re.DOTALL):
            if 'method="post"' in tag and FIELD.search(inside):
                name = str(path.relative_to(TEMPLATES))
                found.setdefault(name, []).append("data-refilled" in tag)
    return found


def test_every_form_with_fields_keeps_its_text_or_is_a_listed_exception() -> None:
    found = typed_forms()
    assert {name for name, kept in found.items() if not all(kept)} == set(NOT_KEPT)
    assert len(found) > 20
    assert "typed.js" in (TEMPLATES / "base.html").read_text()


async def fill(person: Person, page: str, form: str, name: str, text: str) -> str:
    """Send a form after its session has ended; return the URL to open after signing in."""
    opened = await person.open(page)
    (owner, *_) = re.findall('name="of" value="([^"]*)"', opened.text)
    csrf = await person.csrf()
    cookies = dict(person.client.cookies)
    person.client.cookies.clear()
    sent = await person.send(
        form, {name: text, "of": owner, "csrf": csrf}, referer=person.site.origin + page
    )
    person.client.cookies.update(cookies)
    address = where(sent)
    assert address.startswith("/sign-in?"), form
    return parse_qs(urlsplit(address).query)["next"][0]


async def test_the_text_of_a_form_is_restored_after_a_sign_in_without_scripts(
    site: Website, alice: Person
) -> None:
    made = await alice.send("/settings/api-keys/new/review?name=Bot&lifetime=30d", {"newest": "0"})
    assert made.status_code == 200
    await alice.send("/watchlists", {"name": "Mine"})
    watchlist = "/watchlists/1"
    key = "/settings/api-keys/1"
    forms = [
        (f"{key}/rename", f"{key}/rename", "name", EVERY),
        ("/settings/account", "/settings/account/name", "username", "bob-7"),
        ("/watchlists", "/watchlists", "name", EVERY),
        (watchlist, f"{watchlist}/rename", "name", EVERY),
        (watchlist, f"{watchlist}/add", "mint", "typed"),
        ("/credits", "/credits/spend-alert", "level", "70"),
    ]
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        for page, form, name, text in forms:
            back = await fill(alice, page, form, name, text)
            assert back.partition("?")[0] == page, form
            again = await alice.open(back)
            shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            assert re.search(f'name="{name}"[^>]*value="{re.escape(shown)}"', again.text), form
            assert "This form was not saved, because your session had ended." in words(again)
            if page in {"/watchlists", "/settings/account"}:
                assert shown not in (await mallory.open(back)).text, "it is another's"
    assert EVERY not in words(await alice.open("/watchlists"))


async def test_the_text_of_an_administrators_form_survives_the_password_prompt(
    site: Website,
    alice: Person,  # noqa: ARG001 - its fixture signs her up
) -> None:
    """The session is still valid, but the password was entered too long ago."""
    await site.make_administrator()
    async with Person(site, address="198.51.100.8") as admin:
        await admin.sign_in(ADMINISTRATOR)
        for page, form, name in (
            ("/admin/tokens", "/admin/tokens", "mint"),
            ("/admin/sales", "/admin/sales/pause", "why"),
        ):
            opened = await admin.open(page)
            assert opened.status_code == 200, page
            (owner, *_) = re.findall('name="of" value="([^"]*)"', opened.text)
            site.clock.advance(11 * 60_000)
            address = where(await admin.send(form, {name: "typed", "of": owner}))
            assert address.startswith("/prove?")
            back = parse_qs(urlsplit(address).query)["next"][0]
            again = await admin.open(back)
            assert back.partition("?")[0] == page
            assert 'value="typed"' in again.text
