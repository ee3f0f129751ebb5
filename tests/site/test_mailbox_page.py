"""The mailbox page of a demo, for people and scripts; it is a 404 if e-mails are really sent."""

from dataclasses import replace

import httpx
import pytest

from mintscope.accounts.mail.email import Email, EmailId
from mintscope.app.web_api import OTHER
from mintscope.app.web_site import create_web
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.site.routes import SentEmail
from support.scenes.people.web_person import ALICE, ORIGIN, Person, expect_harmless, tags, words
from support.scenes.website import NOW, Website

AGENT = "agent@example.org"
SCRIPT = "<script>alert(1)</script>"


class OneEmail:
    """A mailbox with one hostile e-mail."""

    async def recent(self, *, limit: int) -> list[SentEmail]:
        text = f'{SCRIPT}\n{ORIGIN}/reset/1.x"onclick=x\nhttps://evil.example/\njavascript:x'
        email = Email(recipient=ALICE, subject=SCRIPT, text=text, message_id="1")  # type: ignore[arg-type]
        return [SentEmail(EmailId(7), UnixMs(NOW), email)][:limit]


def pages_with(site: Website, mailbox: OneEmail | None) -> Website:
    app = create_web(
        parts=replace(site.accounts, mailbox=mailbox),
        origins=[ORIGIN],
        clock=site.clock,
        limits=AddressLimits(MemoryLimits(site.clock), ClientAddresses()),
        limit=OTHER,
    )
    return replace(site, app=app, administration=app, api=app)


async def test_emails_are_listed_newest_first(site: Website) -> None:
    await site.apply(AGENT)
    site.clock.advance(60_000)
    async with Person(site) as person:
        await person.sign_up(ALICE)
        listed = words(await person.open("/mailbox"))
        assert listed.index(ALICE) < listed.index(AGENT)
        only = words(await person.open(f"/mailbox?to={AGENT.upper()}"))
        assert AGENT in only
        assert ALICE not in only
        none = words(await person.open("/mailbox?to=no-one@example.org"))
        assert "No e-mails yet to no-one@example.org" in none


async def test_a_script_reads_an_email_as_it_would_have_been_sent(site: Website) -> None:
    await site.apply(AGENT)
    async with Person(site) as person:
        response = await person.open("/mailbox/1.txt")
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.text == await site.email(AGENT)
        assert (await site.link(AGENT)) in response.text
        page = await person.open("/mailbox/1")
        assert (
            f'href="{await site.link(AGENT)}"' in page.text
        )  # a path, which works under every name of this host


async def test_the_mailbox_page_is_a_204_if_no_email_is_newer_than_after(site: Website) -> None:
    async with Person(site) as person:
        assert (await person.open("/mailbox?after=0")).status_code == 204
        await site.apply(AGENT)
        assert (await person.open("/mailbox?after=0")).status_code == 200
        nothing = await person.open("/mailbox?after=1")
        assert (nothing.status_code, nothing.content) == (204, b"")
        assert "content-length" not in nothing.headers
        await person.sign_up(ALICE)
        assert (await person.open("/mailbox?after=1")).status_code == 200
        assert (await person.open(f"/mailbox?after=1&to={AGENT}")).status_code == 204
        assert (await person.open("/mailbox?after=x")).status_code == 404


@pytest.mark.parametrize("name", ["2", "0", "x", "1.html", "-1", ".txt", "1.txt.txt", "9" * 40])
async def test_an_unknown_email_is_a_404(site: Website, name: str) -> None:
    await site.apply(AGENT)
    async with Person(site) as person:
        assert (await person.open(f"/mailbox/{name}")).status_code == 404


async def test_the_text_of_emails_is_escaped(site: Website) -> None:
    async with Person(pages_with(site, OneEmail())) as person:
        pages: list[httpx.Response] = [
            await person.open("/mailbox"), await person.open("/mailbox/7"),
            await person.open("/mailbox?to=" + SCRIPT),
        ]  # fmt: skip
    for page in pages:
        expect_harmless(page)
        assert "&lt;script&gt;" in page.text
    links = [attributes["href"] for tag, attributes in tags(pages[1]) if tag == "a"]
    assert '/reset/1.x"onclick=x' in links


async def test_the_mailbox_page_is_a_404_if_emails_are_sent(site: Website) -> None:
    async with Person(pages_with(site, None)) as person:
        for path in ["/mailbox", "/mailbox/1", "/mailbox/1.txt"]:
            assert (await person.open(path)).status_code == 404
        assert "/mailbox" not in (await person.open("/")).text
