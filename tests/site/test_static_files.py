"""Scripts and styles, among them htmx: this site serves all, and their URLs name the content."""

import re
from json import loads
from pathlib import Path

import pytest

import mintscope.site
from support.scenes.people.web_person import Person
from support.scenes.website import Website

WEB = Path(mintscope.site.__file__).parent
TEMPLATES = sorted(WEB.glob("templates/**/*.html"))
FORM = re.compile(r"(<form[^>]*>)(.*?)</form>", re.DOTALL)
PACKAGE = WEB / "assets" / "node_modules" / "htmx.org"


async def test_files_named_by_their_content_are_cached_for_ever(site: Website) -> None:
    async with Person(site) as person:
        page = (await person.open("/sign-in")).text
        addresses = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', page))
        assert len(addresses) >= 4
        assert "htmx" not in page
        for address in addresses:
            response = await person.open(address)
            assert response.status_code == 200
            assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert response.headers["x-content-type-options"] == "nosniff"
            name, _, version = address.partition("?v=")
            other = await person.open(f"{name}?v=x{version[1:]}")
            assert other.headers["cache-control"] == "no-cache"
            assert other.content == response.content


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("style.css", "text/css; charset=utf-8"),
        ("reveal.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("licences.txt", "text/plain; charset=utf-8"),
    ],
)
async def test_each_static_file_has_its_content_type(
    site: Website, name: str, content_type: str
) -> None:
    async with Person(site) as person:
        response = await person.open(f"/static/{name}")
        assert response.headers["content-type"] == content_type
        head = await person.client.head(f"/static/{name}")
        assert head.content == b""
        assert head.headers["content-length"] == response.headers["content-length"]


async def test_the_icon_is_also_at_favicon_ico(site: Website) -> None:
    async with Person(site) as person:
        icon = await person.open("/favicon.ico")
        named = await person.open("/static/icon.svg")
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")
    assert icon.content == named.content


async def test_a_file_that_the_browser_has_is_not_sent_again(site: Website) -> None:
    async with Person(site) as person:
        for path in ["/static/style.css", "/favicon.ico"]:
            first = await person.open(path)
            known = {"if-none-match": first.headers["etag"]}
            again = await person.client.get(path, headers=known)
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
            other = await person.client.get(path, headers={"if-none-match": '"other"'})
            assert (other.status_code, other.content) == (200, first.content)


async def test_large_files_are_compressed_if_the_client_accepts_gzip(site: Website) -> None:
    async with Person(site) as person:
        plain = await person.client.get("/static/style.css", headers={"accept-encoding": "br"})
        packed = await person.client.get("/static/style.css", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert {plain.headers["vary"], packed.headers["vary"]} == {"Accept-Encoding"}
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert packed.content == plain.content


async def test_pages_of_a_session_are_not_compressed(alice: Person) -> None:
    asked = {"accept-encoding": "gzip"}
    own = await alice.client.get("/settings/account", headers=asked)
    alice.client.cookies.clear()
    strangers = await alice.client.get("/", headers=asked)
    assert (own.status_code, strangers.status_code) == (200, 200)
    assert "content-encoding" not in own.headers
    assert strangers.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/none.js",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static//style.css",
    ],
)
async def test_any_other_static_path_is_a_404(site: Website, path: str) -> None:
    async with Person(site) as person:
        assert (await person.open(path)).status_code == 404


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_a_script_or_style_in_it(template: Path) -> None:
    text = template.read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=\"\{\{ static\()", text) == []
    assert re.findall(r"<script[^>]*>[^<]", text) == []
    assert (
        re.findall(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|hx-vars|hx-vals=.js", text) == []
    )
    assert "| safe" not in text
    assert "autoescape" not in text


def test_exactly_the_pages_with_htmx_attributes_load_htmx() -> None:
    users = {path.name for path in TEMPLATES if re.search(r"\shx-[a-z]+=", path.read_text())}
    takers = {path.name for path in TEMPLATES if '"htmx.html"' in path.read_text()}
    assert users == takers != set()


def test_every_form_of_a_session_contains_its_csrf_text() -> None:
    signing_in = {"/sign-in", "/sign-in/code", "/sign-in/passkey", "/sign-in/passkey-alone"}
    open_forms = {"/sign-up", "/forgot"} | signing_in
    links = {"reset.html", "confirm.html", "undo_email.html", "pause.html"}
    for template in TEMPLATES:
        for tag, inside in re.findall(
            r"(<form[^>]*>)(.*?)</form>", template.read_text(), re.DOTALL
        ):
            action = re.search(r'action="([^"]*)"', tag)
            if 'method="post"' not in tag or template.name in links:
                continue
            if action is None or action[1] not in open_forms:
                assert re.search(r"{{ csrf\((is_kept=true)?\) }}", inside), (template.name, tag)


def test_the_served_htmx_equals_that_of_its_locked_package() -> None:
    """npm refuses a package without the locked digest, and records the installed digest."""
    locked = locked_htmx(WEB / "assets" / "package-lock.json")
    assert PACKAGE.is_dir(), "npm ci --prefix src/mintscope/site/assets was not run"
    assert re.fullmatch("sha512-[A-Za-z0-9+/]{86}==", locked["integrity"])
    assert locked_htmx(PACKAGE.parent / ".package-lock.json") == locked
    installed = loads((PACKAGE / "package.json").read_text())
    assert installed["version"] == locked["version"]
    ours = (WEB / "static" / "htmx.min.js").read_bytes()
    assert ours == (PACKAGE / "dist" / "htmx.min.js").read_bytes()
    licence = (PACKAGE / "LICENSE").read_text()
    assert licence in (WEB / "static" / "licences.txt").read_text()
    assert f"htmx {locked['version']}" in (WEB / "static" / "licences.txt").read_text()


def locked_htmx(lock: Path) -> dict[str, str]:
    """Return the entry of htmx in the npm lock file *lock*: version, digest and licence."""
    entry: dict[str, str] = loads(lock.read_text())["packages"]["node_modules/htmx.org"]
    return entry
