"""The pages of alerts, which only the owner of the alerts can see."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from markupsafe import escape
from pydantic import SecretStr

from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.alerts.alert import Alert, FiredHour, Fires, SignalId
from mintscope.alerts.alerts import TESTS
from mintscope.alerts.conditions import FIELDS, SignalKind
from mintscope.alerts.evaluation import FIRINGS_HOUR_MAX
from mintscope.alerts.messages import FIELD_WORDS
from mintscope.app.config.groups import SignalsConfig
from mintscope.app.web_api import OTHER
from mintscope.app.web_site import create_web
from mintscope.kit.http.rate_limit import AddressLimits
from mintscope.kit.http.request import ClientAddresses
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS
from mintscope.solana.blocks import WSOL
from support.scenes.people.web_person import (
    COOKIE,
    MALLORY,
    ORIGIN,
    Person,
    fields_of,
    where,
    words,
)
from support.scenes.website import NOW, Website, website

ALERT = {
    "name": "Hot",
    "mint": WSOL,
    "field": "indicators.h1.rsi",
    "kind": "above",
    "level": "70",
    "margin": "2",
    "percent": "",
    "window": "3600",
    "webhook": "",
}
MOVE = ALERT | {"kind": "changes_by", "level": "", "margin": "", "percent": "5"}
MOVED_BY = {"kind": SignalKind.CHANGES_BY, "level": 0.0, "margin": 0.0, "percent": 5.0}
HOOK = {"webhook": "https://hooks.example.org/mintscope"}


async def make(person: Person, **changes: str) -> str:
    """Create an alert by the form; return the path of its page."""
    made = await person.send("/alerts/new", ALERT | changes)
    assert made.status_code == 303, words(made)
    return where(made).partition("?")[0]


async def test_a_form_is_filled_in_again_if_its_session_has_ended(alice: Person) -> None:
    """Only the account of that session gets the values, even after a wrong password.

    The URL of the webhook, which can be secret, is not filled in.  No scripts are needed.
    """
    path = await make(alice)
    typed = {
        "name": 'Hot "&" <b>',
        "level": "71.5",
        "message": "Sell half. \u20ac",
        "fires": "each",
    }
    for place in ("/alerts/new", f"{path}/edit"):
        csrf = await alice.csrf()
        (owner,) = re.findall('name="of" value="([^"]*)"', (await alice.open(place)).text)
        alice.client.cookies.clear()
        sent = ALERT | HOOK | typed | {"csrf": csrf, "of": owner}
        asked = where(await alice.send(place, sent))
        assert next_of(where(await alice.send(place, sent | {"kept": "yes"}))) == place
        async with Person(alice.site, address="198.51.100.9") as mallory:
            await mallory.sign_up(f"{len(place)}@example.net")
            other = await mallory.open(next_of(asked))
            assert "Sell half" not in other.text.partition("<main")[2]
        again = await alice.sign_in(password="another password", next=next_of(asked))
        after = re.findall('name="next" value="([^"]*)"', again.text)[0]
        back = where(await alice.sign_in(next=unescape(after)))
        page = await alice.open(back)

        assert back.partition("?")[0] == place
        assert "This form was not saved, because your session had ended." in words(page)
        for text in typed.values():
            assert f'value="{escape(text)}"' in page.text, text
        assert '<option value="each" selected>' in page.text
        assert "hooks.example.org" not in asked + page.text
    listed = words(await alice.open("/alerts"))
    assert "71.5" not in listed
    csrf = await alice.csrf()
    alice.client.cookies.clear()
    for too_much in (typed | {"message": "\u20ac" * 200}, typed | {"name": ["a", "b"]}):
        answer = await alice.send("/alerts/new", ALERT | too_much | {"csrf": csrf})
        assert next_of(where(answer)) == "/alerts/new"


def next_of(address: str) -> str:
    """Return the page to open after signing in, from the sign-in URL *address*."""
    return parse_qs(urlsplit(address).query)["next"][0]


async def test_an_alert_is_made_tried_changed_paused_and_deleted(alice: Person) -> None:
    path = await make(alice)
    made = words(await alice.open(path))
    await alice.send(f"{path}/test")
    tried = words(await alice.open(path))
    await alice.send(f"{path}/edit", {"name": "Hotter", "level": "80", "margin": ""})
    changed = words(await alice.open(path))
    await alice.send(f"{path}/active", {"active": "no"})
    paused = words(await alice.open("/alerts"))
    await alice.send(f"{path}/active", {"active": "yes"})
    resumed = words(await alice.open("/alerts"))
    await alice.send(f"{path}/delete")

    assert "RSI, 1 hour rises above 70.0, re-arm distance 2" in made
    assert "Not triggered yet." in made
    assert "Fires once" in made
    assert "test 70.0" in tried
    assert "Hotter" in changed
    assert "RSI, 1 hour rises above 80.0, at medium confidence or high Token" in changed
    assert "Paused" in paused
    assert "Active" in resumed
    assert "You have no alerts yet" in words(await alice.open("/alerts"))
    assert (await alice.open(path)).status_code == 404


async def test_an_alert_without_notifications_needs_a_confirmation(alice: Person) -> None:
    form = await alice.open("/alerts/new")
    asked = await alice.send("/alerts/new", ALERT | {"read": ""})
    (read,) = re.findall('name="read" value="([^"]*)"', asked.text)
    made = await alice.send("/alerts/new", ALERT | {"read": read})

    assert 'name="read" value=""' in form.text
    assert asked.status_code == 422
    assert "Nothing notifies you: no e-mail, Telegram or webhook." in words(asked)
    assert "Create it anyway" in words(asked)
    assert made.status_code == 303


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(MOVED_BY | {"window_s": 60}, id="a minute"),
        pytest.param(MOVED_BY | {"window_s": 600}, id="ten minutes"),
        pytest.param({"expires_at": UnixMs(NOW + 90 * DAY_MS + 7_000)}, id="seconds of an expiry"),
        pytest.param({"expires_at": UnixMs(NOW - 53_000)}, id="an expiry that has passed"),
        pytest.param({"by_telegram": True}, id="a bot that is gone"),
    ],
)
async def test_an_edit_changes_only_the_fields_that_were_typed(
    site: Website, alice: Person, changes: dict[str, Any]
) -> None:
    """The alert may have settings that the API accepts and the form does not offer."""
    shown = SignalId(int((await make(alice)).rpartition("/")[2]))

    def insert(rows: AccountRows) -> Alert:
        made = rows.signals.get(shown)
        assert made is not None
        asked = replace(made.rule, webhook_url=HOOK["webhook"], **changes)
        other = rows.signals.get(rows.signals.insert(made.user_id, asked, b"nonce", NOW))
        assert other is not None
        return other

    alerts = site.accounts.signals
    before = await alerts.store.transact(insert)
    path = f"/alerts/{before.signal_id}/edit"
    typed = fields_of(await alice.open(path), path) | {"name": "Cold"}
    sent = await alice.send(path, typed)
    after = await alerts.find(before.user_id, before.signal_id)

    assert sent.status_code == 303, words(sent)
    assert after == replace(before, rule=replace(before.rule, name="Cold"))


class Interrupted:
    """A store of alerts that runs *meanwhile* once, before its next transaction."""

    def __init__(self, store: AccountStore, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._meanwhile = [meanwhile]

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    async def transact(self, work: Callable[[AccountRows], Any]) -> Any:
        while self._meanwhile:
            await self._meanwhile.pop()()
        return await self._store.transact(work)


def interrupted(alice: Person, meanwhile: Callable[[], Awaitable[object]]) -> Person:
    """Return *alice* as a visitor of pages that run *meanwhile* before their next change."""
    accounts = alice.site.accounts
    clock = alice.site.clock
    store: Any = Interrupted(accounts.signals.store, meanwhile)
    app = create_web(
        parts=replace(accounts, signals=replace(accounts.signals, store=store)),
        origins=[ORIGIN],
        clock=clock,
        limits=AddressLimits(MemoryLimits(clock), ClientAddresses()),
        limit=OTHER,
    )
    person = Person(replace(alice.site, app=app))
    person.client.cookies.set(COOKIE, alice.cookie or "", domain="shop.example")
    return person


@pytest.mark.parametrize("what", ["fires and ends", "is paused", "is changed"])
async def test_saving_the_form_keeps_changes_made_meanwhile(
    site: Website, alice: Person, what: str
) -> None:
    path = await make(alice)
    number = SignalId(int(path.rpartition("/")[2]))
    alerts = site.accounts.signals
    before = await alerts.store.read(lambda rows: rows.signals.get(number))
    assert before is not None

    async def meanwhile() -> None:
        if what == "fires and ends":
            await alerts.store.transact(
                lambda rows: rows.signals.update(number, is_active=False, ended_at=NOW)
            )
        elif what == "is paused":
            assert await alerts.pause(f"{number}.{alerts.secrets.pause_proof(number)}")
        else:
            await alerts.change(before.user_id, number, lambda rule: replace(rule, level=75.0))

    changes = {"name": "Cold", "read": "silent"}
    typed = fields_of(await alice.open(f"{path}/edit"), f"{path}/edit") | changes
    async with interrupted(alice, meanwhile) as person:
        sent = await person.send(f"{path}/edit", typed)
    after = await alerts.find(before.user_id, number)

    assert sent.status_code == 303, words(sent)
    assert after is not None
    assert after.rule.name == "Cold"
    assert after.rule.is_active is (what == "is changed")
    assert after.ended_at == (NOW if what == "fires and ends" else None)
    assert after.rule.level == (75.0 if what == "is changed" else 70.0)


async def test_the_form_is_shown_again_if_it_contradicts_a_concurrent_change(
    site: Website, alice: Person
) -> None:
    path = await make(alice)
    number = SignalId(int(path.rpartition("/")[2]))
    alerts = site.accounts.signals
    before = await alerts.store.read(lambda rows: rows.signals.get(number))
    assert before is not None

    async def lower() -> None:
        await alerts.change(before.user_id, number, lambda rule: replace(rule, level=20.0))

    changes = {"margin": "30", "read": "silent"}
    typed = fields_of(await alice.open(f"{path}/edit"), f"{path}/edit") | changes
    async with interrupted(alice, lower) as person:
        sent = await person.send(f"{path}/edit", typed)
    after = await alerts.find(before.user_id, number)

    assert sent.status_code == 422
    assert "RSI, 1 hour cannot move that far back from 20.0." in words(sent)
    assert after is not None
    assert (after.rule.level, after.rule.margin) == (20.0, 2.0)


async def test_a_pause_changes_nothing_else(site: Website, alice: Person) -> None:
    path = await make(alice)
    number = SignalId(int(path.rpartition("/")[2]))
    alerts = site.accounts.signals
    before = await alerts.store.read(lambda rows: rows.signals.get(number))
    assert before is not None

    async def rename() -> None:
        await alerts.change(before.user_id, number, lambda rule: replace(rule, name="Cold"))

    async with interrupted(alice, rename) as person:
        await person.send(f"{path}/active", {"active": "no"})
    after = await alerts.find(before.user_id, number)

    assert after == replace(before, rule=replace(before.rule, name="Cold", is_active=False))


async def test_resuming_enables_a_disabled_webhook_at_the_limit_of_active_alerts(
    tmp_path: Path,
) -> None:
    one = SignalsConfig(of_all_max=1)
    async with website(tmp_path, origin=ORIGIN, signals=one) as site, Person(site) as alice:
        await alice.sign_up()
        made = await alice.send("/alerts/new", ALERT | HOOK)
        (path,) = set(re.findall(r'"(/alerts/\d+)"', made.text))
        number = SignalId(int(path.rpartition("/")[2]))
        alerts = site.accounts.signals

        def disable(rows: AccountRows) -> Alert:
            kept = rows.signals.get(number)
            assert kept is not None
            rows.signals.insert(kept.user_id, kept.rule, b"nonce", NOW)  # of an earlier limit
            rows.signals.update(number, state="{}", webhook_failed_at=NOW)
            return kept

        before = await alerts.store.transact(disable)
        sent = await alice.send(f"{path}/active", {"active": "yes"})
        after = await alerts.find(before.user_id, number)

    assert sent.status_code == 303, words(sent)
    assert after == replace(before, state="{}"), "its evaluation goes on"


async def test_an_alert_that_compares_two_fields_is_made_shown_and_edited(alice: Person) -> None:
    crossing = {
        "kind": "crosses_field",
        "field": "indicators.h1.ema9",
        "compared": "indicators.h1.ema21",
        "direction": "up",
        "level": "",
        "fires": "hourly",
        "message": "Golden cross.",
        "expires": "2031-01-02T03:04",
    }
    path = await make(alice, **crossing)
    shown = words(await alice.open(path))
    edited = words(await alice.open(f"{path}/edit"))
    changed = await alice.send(f"{path}/edit", {"name": "Other", "fires": "each", "margin": ""})
    after = words(await alice.open(path))

    assert changed.status_code == 303
    assert "EMA 9, 1 hour rises above EMA 21, 1 hour" in shown
    assert "Fires at most once an hour" in shown
    assert "Message Golden cross." in shown
    assert "Expires 2 Jan 2031, 03:04 UTC" in shown
    assert "EMA 9, 1 hour of" in edited
    assert "Fires each time" in after
    assert "EMA 9, 1 hour rises above EMA 21, 1 hour" in after


async def test_one_click_of_a_mail_program_pauses_an_alert(site: Website, alice: Person) -> None:
    """The POST needs no session, Origin or form of this site (RFC 8058); a GET changes nothing."""
    path = await make(alice)
    number = int(path.rpartition("/")[2])
    link = f"/pause-alert/{number}.{site.accounts.signals.secrets.pause_proof(number)}"
    async with Person(site, address="198.51.100.77") as program:
        seen = words(await program.open(link))
        before = words(await alice.open("/alerts"))
        paused = await program.client.post(link, files={"List-Unsubscribe": (None, "One-Click")})
        forged = await program.client.post(link[:-1] + ("A" if link[-1] != "A" else "B"))

    assert "Pause Hot ?" in seen
    assert "Active" in before
    assert paused.status_code == 200
    assert forged.status_code == 404
    assert "Paused" in words(await alice.open("/alerts"))


async def test_an_alert_on_a_change_shows_its_percentage_and_window(alice: Person) -> None:
    hour, minute = [await make(alice, **MOVE | {"window": each}) for each in ("3600", "60")]

    assert "RSI, 1 hour changes by 5 % within 1 hour" in words(await alice.open(hour))
    assert "RSI, 1 hour changes by 5 % within 1 minute, at" in words(await alice.open(minute))


async def test_the_secret_of_a_webhook_is_shown_once(alice: Person) -> None:
    made = await alice.send("/alerts/new", ALERT | HOOK)
    (path,) = {each for each in made.text.split('"') if each.startswith("/alerts/")} - {
        "/alerts/new"
    }
    shown = words(made)
    renewed = words(await alice.send(f"{path}/secret"))
    after = words(await alice.open(path))

    assert "It is shown only once." in shown
    secrets = {word for page in (shown, renewed) for word in page.split() if "whsec_" in word}
    assert len(secrets) == 2
    assert not any(secret in after for secret in secrets)


async def test_a_form_that_is_sent_twice_makes_one_alert(alice: Person) -> None:
    form = (await alice.open("/alerts/new")).text
    (once,) = re.findall('name="once" value="([0-9a-f]{32})"', form)
    paths = [await make(alice, once=once) for _ in range(2)]
    changed = await alice.send("/alerts/new", ALERT | {"once": once, "level": "80"})
    (other,) = re.findall('name="once" value="([0-9a-f]{32})"', changed.text)

    assert paths[0] == paths[1]
    assert changed.status_code == 422
    assert "This form has already created an alert" in words(changed)
    assert await make(alice, once=other, level="80") not in paths
    assert "2 of 20" in words(await alice.open("/alerts"))


async def test_the_tests_of_an_alert_are_limited_per_hour(site: Website, alice: Person) -> None:
    path = await make(alice)
    answers = [where(await alice.send(f"{path}/test")) for _ in range(TESTS.count + 1)]
    refused = words(await alice.open(answers[-1]))
    site.clock.advance(TESTS.window_s * 1_000)
    await alice.sign_in()

    assert [each.endswith("alert-tested") for each in answers] == [True] * TESTS.count + [False]
    assert "Nothing was sent: the limit is 10 tests an hour" in refused
    assert refused.count("test 70.0") == TESTS.count
    assert where(await alice.send(f"{path}/test")).endswith("alert-tested")


async def test_the_page_of_an_alert_shows_the_hourly_limit_and_its_end(
    site: Website, alice: Person
) -> None:
    path = await make(alice)
    number = SignalId(int(path.rsplit("/", 1)[1]))
    hour = FiredHour(site.clock.now(), site.clock.now(), FIRINGS_HOUR_MAX + 4_970)

    def change(rows: AccountRows) -> None:
        signal = rows.signals.get(number)
        assert signal is not None
        rows.signals.change(number, replace(signal.rule, fires=Fires.EACH))
        rows.signals.note_fired({number: hour})

    await site.accounts.signals.store.transact(change)
    limited = words(await alice.open(path))
    site.clock.advance(HOUR_MS)
    await alice.sign_in()

    assert "Limit of 30 firings an hour reached. 4,970 more were not sent" in limited
    assert "the first 270 of these are listed. The alert sends again from" in limited
    assert "firings an hour reached" not in words(await alice.open(path))


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"name": ""}, "Expected name to be printable"),
        ({"mint": "nothing"}, "Expected a token mint address"),
        ({"level": "high"}, "Expected a number"),
        ({"level": "nan"}, "Expected level to be a number"),
        ({"field": "price.eur"}, "Choose one of the options"),
        ({"kind": "sometimes"}, "Choose one of the options"),
        ({"level": "170"}, "RSI, 1 hour is always between 0 and 100: it cannot rise above 170."),
        ({"field": "price.usd", "level": "-5"}, "Price in USD is always greater than 0"),
        ({"kind": "crosses_field", "compared": "price.usd"}, "Expected comparedWith to name a n"),
        ({"kind": "crosses_field"}, "Choose the number to compare with."),
        ({"expires": "tomorrow"}, "Expected a date and a time"),
        ({"expires": "2001-01-02T03:04"}, "The expiry of the alert has passed."),
        ({"margin": "71"}, "RSI, 1 hour cannot move that far back from 70.0."),
        ({"kind": "crosses", "margin": "30.5"}, "RSI, 1 hour cannot move that far back"),
        ({"fires": "often"}, "Choose one of the options"),
        ({"message": "x" * 281}, "Expected message to be printable"),
        ({"webhook": "http://127.0.0.1/"}, "Error:"),
        (MOVE | {"percent": "0"}, "Expected percent from"),
        (MOVE | {"window": "x"}, "Choose how far back"),
        ({"email": "yes"}, "Verify your e-mail address first"),
    ],
)
async def test_an_invalid_field_gets_422_and_the_reason(
    alice: Person, changes: dict[str, str], reported: str
) -> None:
    answer = await alice.send("/alerts/new", ALERT | changes)

    assert answer.status_code == 422
    assert reported in words(answer)


async def test_an_expiry_that_has_passed_is_marked_at_its_field(alice: Person) -> None:
    path = await make(alice)
    passed = ALERT | {"expires": "2001-01-02T03:04"}
    for page in ("/alerts/new", f"{path}/edit"):
        answer = await alice.send(page, passed)

        assert re.findall(r'id="(\w+)-error"', answer.text) == ["expires"]


async def test_alerts_of_other_accounts_are_404(site: Website, alice: Person) -> None:
    path = await make(alice)
    async with Person(site, address="198.51.100.9") as mallory:
        await mallory.sign_up(MALLORY)
        answers = [await mallory.open(f"{path}{page}") for page in ("", "/edit", "/delete")]
        answers += [
            await mallory.send(f"{path}/{form}", ALERT)
            for form in ("edit", "test", "active", "secret", "delete")
        ]

    assert {answer.status_code for answer in answers} == {404}
    assert "Hot" in words(await alice.open(path))


def test_every_field_of_a_report_has_a_unique_name() -> None:
    assert len({*FIELD_WORDS.values()}) == len(FIELDS)


async def test_a_chat_of_telegram_is_linked_under_settings(tmp_path: Path) -> None:
    bot = SignalsConfig(telegram_bot="mintscope_bot", telegram_token=SecretStr("1:a"))
    async with website(tmp_path, origin=ORIGIN, signals=bot) as site, Person(site) as alice:
        await alice.sign_up()
        refused = words(await alice.send("/alerts/new", ALERT | {"telegram": "yes"}))
        lead = words(await alice.open("/alerts"))
        deletion = words(await alice.open("/settings/account/delete"))
        page = await alice.open("/settings/telegram")
        (code,) = re.findall(r'href="https://t.me/mintscope_bot\?start=([\w-]+)"', page.text)
        assert await site.accounts.signals.telegram.link(code, 7, "@alice<b>")
        linked = words(await alice.open("/settings/telegram"))
        shown = words(await alice.open(await make(alice, telegram="yes")))
        await alice.send("/settings/telegram/unlink")
        unlinked = words(await alice.open("/settings/telegram"))

    assert "Link a Telegram chat first, under Settings > Telegram." in refused
    assert "A text of your own, in e-mails, Telegram messages and webhooks." in refused
    assert "E-mails and Telegram messages begin with it." in refused
    assert "Get notified by e-mail, Telegram or webhook" in lead
    assert "passkeys, sessions and the linked Telegram chat are deleted" in deletion
    assert "@alice<b>" in linked
    assert "Notifies on Telegram" in shown
    assert "Not linked" in unlinked


async def test_all_errors_of_the_form_are_shown_at_once(alice: Person) -> None:
    wrong = {"mint": "no mint", "name": "", "level": "170", "webhook": "ftp://a", "margin": "x"}
    page = await alice.send("/alerts/new", ALERT | wrong)
    marked = set(re.findall(r'id="(\w+)-error"', page.text))
    cured = words(await alice.send("/alerts/new", ALERT | wrong | {"margin": "", "mint": WSOL}))

    assert page.status_code == 422
    assert marked == {"mint", "name", "webhook", "margin"}
    assert "it cannot rise above 170" in cured
