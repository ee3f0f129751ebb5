"""Every link in an e-mail leads to an existing page."""

import re

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.email import Draft, EmailId, EmailKind
from mintscope.accounts.mail.templates import compose
from mintscope.accounts.secrets import AccountSecrets
from support.scenes.people.web_person import ORIGIN, Person
from support.scenes.people_service import NOW, proof
from support.scenes.website import Website

SECRETS = AccountSecrets.derive(bytes(32))


@pytest.mark.parametrize("kind", EmailKind)
async def test_links_in_emails_lead_to_pages_that_exist(site: Website, kind: EmailKind) -> None:
    draft = Draft(
        email_id=EmailId(1),
        kind=kind,
        recipient=EmailAddress("alice@example.org"),
        written_at=NOW,
        facts={"mint": "1.x"},
        proof=proof(1, bytes(32)),
    )
    written = compose(draft, origin=ORIGIN, secrets=SECRETS, name="mintscope")
    paths = {link.removeprefix(ORIGIN) or "/" for link in re.findall(rf"{ORIGIN}\S*", written.text)}
    assert paths
    token_page = "/token/1.x"  # not among the pages for accounts
    known = {token_page} | {re.sub(r"{\w+}", "1.x", route.path) for route in site.routes()}
    async with Person(site) as person:
        for path in paths:
            if path.startswith("/api/"):
                status = (await person.client.post(path, json={})).status_code
                assert status in {400, 401}
            else:
                assert re.sub(r"/1\.[\w-]{43}$", "/1.x", path) in known
