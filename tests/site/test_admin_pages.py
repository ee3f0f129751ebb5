"""Administration: for administrators only, and on a separate listener if that is configured."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import User
from mintscope.accounts.keys.keys import OwnKeys
from mintscope.accounts.keys.scope import Scope
from mintscope.app.config.config import WebConfig
from mintscope.kit.audit import COMMAND_LINE
from mintscope.site.routes import PageRoute
from support.scenes.people.web_person import ALICE, ORIGIN, Person, expect_harmless, where, words
from support.scenes.website import ADMINISTRATOR, PASSWORD, Website, website

# Fixtures of both listeners.
SHARED = {
    "/",
    "/sign-in",
    "/sign-in/code",
    "/sign-in/passkey",
    "/sign-out",
    "/prove",
}
HOSTILE = "<script>alert(1)</script>\"'{{7*7}}"


async def only_user(site: Website) -> User:
    (user,) = await site.accounts.review.users(limit=50)
    return user


async def test_the_last_administrator_cannot_be_removed(
    site: Website, administrator: Person
) -> None:
    user = await only_user(site)
    answer = await administrator.send(
        f"/admin/users/{user.user_id}/remove", {"username": user.username}
    )

    assert answer.status_code == 422
    assert "administrator" in words(answer)
    assert await only_user(site) == user


async def test_removing_ones_own_account_signs_out(site: Website, administrator: Person) -> None:
    user = await only_user(site)
    await site.accounts.review.make_administrator(
        EmailAddress("second@example.org"), password_hash="unused", actor=COMMAND_LINE
    )
    answer = await administrator.send(
        f"/admin/users/{user.user_id}/remove", {"username": user.username}
    )

    assert where(answer) == "/sign-in?notice=account-removed"
    assert administrator.cookie is None
    assert where(await administrator.open("/admin")).startswith("/sign-in")


@pytest.mark.parametrize("typed", ["", "admin", "ADMIN"])
async def test_a_removal_requires_the_whole_name(
    site: Website, administrator: Person, typed: str
) -> None:
    async with Person(site) as person:
        await person.sign_up()
        answer = await administrator.send("/admin/users/2/remove", {"username": typed})
        assert answer.status_code == 422
        assert (await person.open("/settings/api-keys")).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/admin?state=nothing",
        "/admin?after=x",
        "/admin?after=-1",
        f"/admin?after={'9' * 19}",
        "/admin/applications/7",
        "/admin/applications/x",
        "/admin/applications/7/reset",
        "/admin/users?before=1e3",
        "/admin/users/7/remove",
        "/admin/audit?before=x",
    ],
)
async def test_an_unknown_path_is_404(administrator: Person, path: str) -> None:
    assert (await administrator.open(path)).status_code == 404


async def test_an_unknown_decision_or_scope_is_a_400(site: Website, administrator: Person) -> None:
    path = f"/admin/applications/{await site.apply('agent@example.org')}"
    other = await administrator.send(path, {"decision": "maybe"})
    unknown = await administrator.send(
        path, {"decision": "approve", "scope": "root", "unconfirmed": "yes"}
    )

    assert other.status_code == unknown.status_code == 400
    assert "Expected the decision approve or reject; was 'maybe'." in words(other)
    assert "Mailbox not confirmed" in words(await administrator.open(path))


@pytest.mark.parametrize("is_confirmed", [False, True])
async def test_a_rejection_shows_whether_the_applicant_gets_an_email(
    site: Website, administrator: Person, *, is_confirmed: bool
) -> None:
    signup_id = await site.apply("agent@example.org")
    if is_confirmed:
        link = await site.link("agent@example.org")
        await site.accounts.signup.confirm_by_link(link.rpartition("/")[2])

    path = f"/admin/applications/{signup_id}"
    rejected = await administrator.send(path, {"decision": "reject"})

    shown = words(await administrator.open(where(rejected)))
    assert ("An e-mail is on its way to the applicant." in shown) == is_confirmed
    assert ("No e-mail is sent" in shown) == (not is_confirmed)


async def test_the_review_ticks_the_requested_scopes(site: Website, administrator: Person) -> None:
    asked = await site.apply("agent@example.org", "To buy.", Scope.TRADE_WRITE)
    path = f"/admin/applications/{asked}"
    page = await administrator.open(path)

    assert re.findall(r'value="(\w+:write)" checked', page.text) == ["trade:write"]
    assert "Scopes asked for" in words(page)
    # A box that the administrator has unticked stays so while the form is corrected.
    again = await administrator.send(path, {"decision": "approve"})
    assert "Tick this to approve an unconfirmed mailbox." in words(again)
    assert "checked" not in again.text.partition("Also allow")[2].partition("</fieldset>")[0]


async def test_html_in_an_application_is_shown_as_text(
    site: Website, administrator: Person
) -> None:
    signup_id = await site.apply("agent@example.org", f"  {HOSTILE}\n\n\tEnd")
    path = f"/admin/applications/{signup_id}"
    form = {"decision": "approve", "approve-note": HOSTILE, "unconfirmed": "yes"}
    again = await administrator.send(path, {"decision": "approve", "approve-note": HOSTILE})
    expect_harmless(again)
    assert "&lt;script&gt;" in again.text.partition("<textarea")[2]
    await administrator.send(path, form)
    page = await administrator.open(path)
    expect_harmless(page)
    assert page.text.count("&lt;script&gt;") == 3  # the motivation, and the note twice
    assert "\n\n\tEnd" in page.text


async def test_an_approval_is_in_the_audit_log(site: Website, administrator: Person) -> None:
    signup_id = await site.apply("agent@example.org")
    form = {"decision": "approve", "unconfirmed": "yes", "scope": ["trade:write", "groups:write"]}
    await administrator.send(f"/admin/applications/{signup_id}", form)
    log = words(await administrator.open("/admin/audit"))

    assert "user:1 approved" in log
    assert f"application:{signup_id}" in log


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[Website]:
    """Yield a service whose administration is on a separate listener."""
    async with website(tmp_path, web=WebConfig(admin_port=1), origin=ORIGIN) as site:
        await site.make_administrator()
        yield site


def paths(site: Website, *, administration: bool) -> list[PageRoute]:
    return [
        route
        for route in site.routes()
        if route.is_administration is administration and route.path not in SHARED
    ]


async def test_the_public_listener_has_no_administration_if_that_has_its_own(
    apart: Website,
) -> None:
    async with Person(apart) as person:
        await person.sign_in(ADMINISTRATOR)
        for route in paths(apart, administration=True):
            path = route.path.replace("{application}", "1").replace("{user}", "1")
            answer = await (person.open if route.method == "GET" else person.send)(path)
            assert answer.status_code == 404, path
        assert "/admin" not in (await person.open("/")).text


async def test_the_listener_of_administration_has_no_other_pages(apart: Website) -> None:
    async with Person(apart, app=apart.administration) as person:
        assert where(await person.open("/admin")) == "/sign-in?next=%2Fadmin"
        await person.sign_in(ADMINISTRATOR)
        for path in ("/", "/admin", "/admin/users", "/admin/audit", "/prove"):
            assert (await person.open(path)).status_code < 400
        for route in paths(apart, administration=False):
            path = route.path.replace("{", "").replace("}", "")
            answer = await (person.open if route.method == "GET" else person.send)(path)
            assert answer.status_code == 404, path
        for path in ("/v1/me", "/api/public/beta-signup", "/openapi.json", "/healthz"):
            assert (await person.open(path)).status_code == 404
        page = (await person.open("/")).text
        for link in set(page.split('href="')[1:]):
            assert link.startswith(("/admin", "/static", '/"', "#")), link[:40]
        assert where(await person.send("/sign-out")) == "/?notice=signed-out"


async def test_a_user_at_the_listener_of_administration_sees_no_administration(
    apart: Website,
) -> None:
    async with Person(apart) as public, Person(apart, app=apart.administration) as person:
        await public.sign_up()
        await person.sign_in(ALICE, PASSWORD)
        assert (await person.open("/admin")).status_code == 404
        assert "/admin" not in (await person.open("/")).text.partition("<main")[2]


async def test_scopes_requested_by_a_key_are_shown_granted_and_withdrawn(
    site: Website, administrator: Person
) -> None:
    signup_id, secret = await site.apply_for_key("agent@example.org")
    review = site.accounts.review
    await review.approve(
        signup_id, scopes=frozenset(), note="", actor=COMMAND_LINE, unconfirmed=True
    )
    key = await site.exchange("agent@example.org", secret)
    holder = await site.accounts.keys.find(key)
    assert holder is not None
    await OwnKeys(site.accounts.keys).ask(holder, frozenset({Scope.SIGNALS_WRITE}), HOSTILE)

    page = f"/admin/applications/{signup_id}"
    assert "agent@example.org" in words(await administrator.open("/admin"))
    shown = await administrator.open(page)
    expect_harmless(shown)
    assert "Requested by its key" in shown.text
    assert 'value="signals:write" checked' in shown.text
    site.clock.advance(1)
    approved = await administrator.send(page, {"decision": "approve", "scope": "signals:write"})
    assert where(approved).endswith("notice=approved-scopes")
    granted = await site.accounts.keys.find(key)
    assert granted is not None
    assert granted.has(Scope.SIGNALS_WRITE)
    decided = await administrator.open(page)
    assert "Requested by its key" not in decided.text
    decided_at = {"decided_at": re.findall('name="decided_at" value="([0-9]+)"', decided.text)[0]}
    undone = await administrator.send(f"{page}/undo", decided_at)
    assert where(undone).endswith("notice=decision-undone")
    assert "Requested by its key" in (await administrator.open(page)).text
    narrowed = await site.accounts.keys.find(key)
    assert narrowed is not None
    assert not narrowed.has(Scope.SIGNALS_WRITE)
