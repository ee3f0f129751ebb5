"""The pages of alerts, and their form."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final

from mintscope.alerts import messages
from mintscope.alerts.alert import Alert, AlertDenied, AlertRule, Fires, FiringId, SignalId
from mintscope.alerts.alerts import Alerts
from mintscope.alerts.conditions import (
    FIELDS,
    Direction,
    Field,
    SignalKind,
    UnwatchableCondition,
    watched_by,
)
from mintscope.alerts.emails import NAME_LENGTH_MAX, value_words
from mintscope.alerts.messages import (
    Remark,
    impossible,
    is_level_possible,
    read_present,
    remarks_on,
)
from mintscope.alerts.telegram_chats import TelegramChats
from mintscope.kit.audit import UserId
from mintscope.kit.errors import InvalidTokenAddress, NotFound
from mintscope.kit.http.request import parse_id
from mintscope.kit.limits import Denied, Limiter
from mintscope.kit.primitives import Mint, UnixMs, parse_mint
from mintscope.kit.time import utc
from mintscope.market.report import Reports
from mintscope.market.screening.grammar import ALL_FIELDS, ConditionError, parse_condition
from mintscope.market.standings import Confidence
from mintscope.site.endpoints import OWNER
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import (
    Access,
    FormData,
    InvalidForm,
    PageRequest,
    PageRoute,
    get,
    parse_place,
    post,
    sentence,
)
from mintscope.site.token.listing import ShownToken, TokenSearch, mint_of
from mintscope.solana.blocks import WSOL

WINDOW_DIGITS_MAX: Final = 6  # enough for the seconds of ten days
NAMES: Final = (
    "name", "mint", "field", "kind", "level", "margin", "percent", "window", "webhook", "email",
    "telegram", "candles", "confidence", "once", "fires", "compared", "direction", "message",
    "expires",
)  # fmt: skip
# The URL of a webhook can contain a secret, so it is never put into the URL of a page.
REFILLED: Final = tuple(name for name in NAMES if name not in {"webhook", "once"})
FIRST: Final[Mapping[str, str]] = {
    "field": "indicators.h1.rsi",
    "kind": SignalKind.ABOVE.value,
    "window": "3600",
    "candles": "all",
    "confidence": Confidence.MEDIUM.value,
    "fires": Fires.ONCE.value,
    "email": "yes",
}
# The format of an HTML input of type datetime-local, in UTC.  Browsers leave out `:00` seconds.
EXPIRES: Final = "%Y-%m-%dT%H:%M:%S"


def filled(form: FormData) -> dict[str, str]:
    """Return the settings of an alert as entered in its form, by field."""
    return {name: form.line(name) for name in NAMES}


def refilled(query: FormData, user_id: UserId) -> dict[str, str]:
    """Return the values in *query*, by field, of a form whose sender had to sign in first.

    Unless *query* names *user_id* as the sender, return at most the mint: anyone can make a link.
    """
    names = REFILLED if query.line(OWNER) == str(user_id) else ("mint",)
    return {name: query.line(name) for name in names if query.texts(name)}


def values_of(asked: AlertRule) -> dict[str, str]:
    """Return the values of the alert form's fields for the settings *asked*."""
    return {
        "name": asked.name,
        "mint": asked.mint,
        "field": asked.field,
        "kind": asked.kind.value,
        "level": f"{asked.level!r}",
        "margin": f"{asked.margin!r}" if asked.margin else "",
        "percent": f"{asked.percent!r}" if asked.percent else "",
        "window": str(asked.window_s or FIRST["window"]),
        "webhook": asked.webhook_url or "",
        "email": "yes" if asked.by_email else "",
        "telegram": "yes" if asked.by_telegram else "",
        "candles": "closed" if asked.is_closed else "all",
        "confidence": asked.least_confidence.value,
        "fires": asked.fires.value,
        "compared": asked.compared or "",
        "direction": "" if asked.direction is None else asked.direction.value,
        "message": asked.message,
        "expires": "" if asked.expires_at is None else _local(asked.expires_at),
    }


def parse_alert(values: Mapping[str, str]) -> AlertRule:
    """Return the alert settings that the form values *values* describe.  Raises InvalidForm."""
    errors: dict[str, str] = {}
    mint = Mint(WSOL)  # a placeholder, so that other fields are checked if the mint is invalid
    try:
        mint = parse_mint(values["mint"])
    except InvalidTokenAddress as error:
        errors["mint"] = sentence(error)
    confidence = values["confidence"] or FIRST["confidence"]
    is_listed = values["field"] in FIELDS and values["kind"] in set(SignalKind)
    is_listed = is_listed and values["fires"] in {"", *Fires}
    is_listed = is_listed and values["direction"] in {"", *Direction}
    if not is_listed or confidence not in set(Confidence):
        raise InvalidForm(errors | {"": "Choose one of the options of each list."})
    kind = SignalKind(values["kind"])
    asked = AlertRule(
        name=values["name"],
        mint=mint,
        field=Field(values["field"]),
        kind=kind,
        webhook_url=values["webhook"] or None,
        by_email=values["email"] == "yes",
        by_telegram=values["telegram"] == "yes",
        is_closed=values["candles"] == "closed",
        least_confidence=Confidence(confidence),
        fires=Fires(values["fires"] or Fires.ONCE),
        message=values["message"],
        expires_at=_expiry(values["expires"], errors),
    )
    asked = replace(asked, **_numbers(values, kind, errors))
    if errors:
        raise InvalidForm(errors)
    return asked


def _numbers(values: Mapping[str, str], kind: SignalKind, errors: dict[str, str]) -> dict[str, Any]:
    """Return the settings that *kind* needs, by name; add messages about flaws to *errors*."""
    if kind is SignalKind.CHANGES_BY:
        window = values["window"]
        if not (window.isascii() and window.isdigit() and len(window) <= WINDOW_DIGITS_MAX):
            errors[""] = "Choose how far back the alert looks."
            return {}
        return {"percent": _number(values, "percent", errors), "window_s": int(window)}
    margin = _number(values, "margin", errors) if values["margin"] else 0.0
    if kind is SignalKind.CROSSES_FIELD:
        if values["compared"] not in FIELDS:
            errors["compared"] = "Choose the number to compare with."
        direction = Direction(values["direction"]) if values["direction"] else None
        compared = Field(values["compared"])
        return {"compared": compared, "direction": direction, "margin": margin}
    return {"level": _number(values, "level", errors), "margin": margin}


def _local(at: UnixMs) -> str:
    return f"{utc(at):{EXPIRES}}".removesuffix(":00")


def _expiry(text: str, errors: dict[str, str]) -> UnixMs | None:
    if not text:
        return None
    has_seconds = text.count(":") > 1
    try:
        at = datetime.strptime(text if has_seconds else f"{text}:00", EXPIRES).replace(tzinfo=UTC)
    except ValueError:
        errors["expires"] = "Expected a date and a time, such as 2026-12-31T18:00."
        return None
    return UnixMs(int(at.timestamp()) * 1_000)


def _number(values: Mapping[str, str], name: str, errors: dict[str, str]) -> float:
    try:
        return float(values[name])
    except ValueError:
        errors[name] = "Expected a number, such as 70 or 0.0012."
        return 0.0


PATH: Final = "/alerts"
OF_RULE: Final = f"{PATH}/of-rule"
ONE: Final = f"{PATH}/{{alert}}"
PAUSED: Final = "/pause-alert/{link}"
EVENTS_SHOWN: Final = 50
MADE_BEFORE: Final = "This form has already created an alert. Send it again to create another one."
ONCE_BYTES: Final = 16
ONCE_LENGTH_MAX: Final = 2 * ONCE_BYTES
STAYS: Final = ("mint", "field", "kind", "compared", "direction")
PLACES: Final[Mapping[str, str]] = {  # the form field of a flaw, by the beginning of its message
    "webhookUrl: ": "webhook",
    "expected comparedWith": "compared",
    "expected message": "message",
    "expected name": "name",
}
REFUSALS: Final[Mapping[AlertDenied, Mapping[str, str]]] = {  # by the form field
    AlertDenied.TOO_MANY: {"": "You have the largest number of alerts. Delete one first."},
    AlertDenied.TOO_MANY_OF_ALL: {"": "This service watches the largest number of alerts it can."},
    AlertDenied.TOO_MANY_MINTS: {"": "This service watches the largest number of tokens it can."},
    AlertDenied.KEY_USED: {"": MADE_BEFORE},
    AlertDenied.NOT_FOUND: {"": MADE_BEFORE},
    AlertDenied.EXPIRED: {
        "expires": "The expiry of the alert has passed. Choose a later time, or none."
    },
    AlertDenied.UNVERIFIED: {"": "Verify your e-mail address first, under Settings > Account."},
    AlertDenied.UNLINKED: {"": "Link a Telegram chat first, under Settings > Telegram."},
}


@dataclass(eq=False, repr=False)
class AlertPages:
    """Pages of a person's alerts.

    tests    the limit of tests of alerts by each user; the API counts in the same limit
    reports  reads current reports of tokens; None: the pages show no market data
    """

    signals: Alerts
    tests: Limiter
    search: TokenSearch
    reports: Reports | None = None

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of alerts."""
        signed_in = Access.SIGNED_IN
        yield get(PATH, self.list, signed_in)
        yield get(f"{PATH}/new", self.ask, signed_in)
        yield post(f"{PATH}/new", self.make, signed_in, refilled=(*REFILLED, OWNER))
        yield post(OF_RULE, self.make_of_rule, signed_in)
        yield get(ONE, self.show, signed_in)
        yield post(f"{ONE}/test", self.test, signed_in)
        yield post(f"{ONE}/active", self.set_active, signed_in)
        yield post(f"{ONE}/secret", self.renew_secret, signed_in)
        yield get(f"{ONE}/edit", self.ask_change, signed_in)
        yield post(f"{ONE}/edit", self.change, signed_in, refilled=(*REFILLED, OWNER))
        yield get(f"{ONE}/delete", self.ask_delete, signed_in)
        yield post(f"{ONE}/delete", self.delete, signed_in)
        yield get(PAUSED, self.ask_pause)
        # Mail programs send this form, too (RFC 8058).
        yield post(PAUSED, self.pause, is_from_anywhere=True)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show all alerts of the person."""
        own = await self.signals.of_user(request.user_id)
        named = await self.search.named([each.rule.mint for each in own])
        most = self.signals.bounds.per_user_max
        refused = await self.signals.refused(request.user_id)
        facts = {"alerts": own, "most": most, "words": messages, "named": named}
        return Page("alerts/list.html", {**facts, "refused": refused})

    async def ask(self, request: PageRequest) -> PageResponse:
        """Ask for the settings of a new alert; the form starts with the values of the query."""
        given = refilled(request.query_params, request.user_id)
        values = {**filled(request.form), **FIRST, **given, "once": _once()}
        if request.signed_in.user.verified_at is None:
            values["email"] = ""
        page = await self._ask(values)
        return _back(page) if len(given) > 1 else page

    async def make(self, request: PageRequest) -> PageResponse:
        """Create an alert, and show the secret of its webhook, if any.

        A form that is sent several times creates only one alert.  The button `find` only searches
        for tokens, and the button `choose` only fills one of them into the form.
        """
        values = filled(request.form)
        if chosen := request.form.line("choose"):
            return await self._ask({**values, "mint": chosen})
        if request.form.text("find"):
            return await self._ask(values, found=await self.search.find(values["mint"]))
        return await self._make(request, values)

    async def make_of_rule(self, request: PageRequest) -> PageResponse:
        """Create an e-mail alert from the condition of a backtest, or show why it is not possible.

        A form that is sent several times creates only one alert.
        """
        where = request.form.line("where")
        values = {**filled(request.form), **FIRST, "name": _short(where)}
        try:
            watched = watched_by(parse_condition(where, ALL_FIELDS))
        except (ConditionError, UnwatchableCondition) as flaw:
            return await self._ask({**values, "once": _once()}, {"": sentence(flaw)})
        values |= {
            "field": watched.field,
            "kind": watched.kind.value,
            "level": f"{watched.level!r}",
            "compared": watched.compared or "",
            "direction": "" if watched.direction is None else watched.direction.value,
        }
        return await self._make(request, values)

    async def _make(self, request: PageRequest, values: Mapping[str, str]) -> PageResponse:
        try:
            asked = self._sound(values)
        except InvalidForm as invalid:
            return await self._ask_again(values, invalid.errors)
        if remarks := await self._unread(request, asked):
            return await self._ask(values, remarks=remarks)
        once = values["once"][:ONCE_LENGTH_MAX] or None
        made = await self.signals.make(request.user_id, asked, once)
        if isinstance(made, AlertDenied):
            return await self._ask({**values, "once": _once()}, REFUSALS[made])
        if asked.webhook_url is not None:
            return self._secret(made)
        return Redirect(f"{PATH}/{made.signal_id}", notice="alert-made")

    async def show(self, request: PageRequest) -> PageResponse:
        """Show an alert and its firings, newest first.  Raises NotFound."""
        alert = await self._own(request)
        bounds = self.signals.bounds
        place = parse_place(request.query_params.text("before"))
        before = None if place is None else FiringId(place)
        numbers = alert.user_id, alert.signal_id
        events = await self.signals.firings(*numbers, before, EVENTS_SHOWN + 1) or []
        shown = events[:EVENTS_SHOWN]
        named = await self.search.named([alert.rule.mint])
        facts = {
            "alert": alert,
            "events": shown,
            "older": shown[-1].firing_id if len(events) > len(shown) else None,
            "is_newest": before is None,
            "refused": await self.signals.refused(alert.user_id),
            "limit": messages.hour_limit(alert, bounds.firings_hour_max, self.signals.clock.now()),
            "words": messages,
            "named": named,
            "has_telegram": bool(bounds.telegram_bot),
        }
        return Page("alerts/show.html", facts)

    async def ask_pause(self, request: PageRequest) -> PageResponse:
        """Show the button that stops the messages of an alert; messages have a link to this page.

        Raises NotFound if the link is invalid or the alert was deleted.
        """
        alert = await self.signals.of_link(request.path_params["link"])
        if alert is None:
            raise NotFound
        return Page("alerts/pause.html", {"alert": alert, "is_done": False})

    async def pause(self, request: PageRequest) -> PageResponse:
        """Stop the alert's messages after a click on the button or in a mail program (RFC 8058).

        Raises NotFound if the link is invalid or the alert was deleted.
        """
        alert = await self.signals.pause(request.path_params["link"])
        if alert is None:
            raise NotFound
        return Page("alerts/pause.html", {"alert": alert, "is_done": True})

    async def test(self, request: PageRequest) -> PageResponse:
        """Send a test of the alert, a limited number of times per hour.  Raises NotFound."""
        alert = await self._own(request)
        if isinstance(await self.tests.take(alert.user_id), Denied):
            return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-tests-used")
        if await self.signals.test(alert.user_id, alert.signal_id) is None:
            raise NotFound
        return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-tested")

    async def set_active(self, request: PageRequest) -> PageResponse:
        """Pause or resume the alert; resuming enables a disabled webhook.  Raises NotFound."""
        alert = await self._own(request)
        is_active = request.form.text("active") == "yes"
        changed = await self.signals.change(
            alert.user_id,
            alert.signal_id,
            lambda now: replace(now, is_active=is_active),
            enables_webhook=is_active,
        )
        return await self._changed(alert, changed, values_of(alert.rule))

    async def renew_secret(self, request: PageRequest) -> PageResponse:
        """Renew the alert's webhook secret, and show it once.  Raises NotFound."""
        alert = await self._own(request)
        renewed = await self.signals.renew_secret(alert.user_id, alert.signal_id)
        if isinstance(renewed, AlertDenied):  # another request has just deleted the alert
            raise NotFound
        return self._secret(renewed)

    async def ask_change(self, request: PageRequest) -> PageResponse:
        """Ask for the new settings of an alert.  Raises NotFound."""
        alert = await self._own(request)
        given = refilled(request.query_params, request.user_id)
        kept = values_of(alert.rule)
        values = kept | given | {name: kept[name] for name in STAYS}
        page = await self._ask(values, alert=alert)
        return _back(page) if len(given) > 1 else page

    async def change(self, request: PageRequest) -> PageResponse:
        """Change an alert's settings, except its mint and its condition.  Raises NotFound.

        Settings that the form did not change stay as they are now: an ended alert stays ended.
        """
        alert = await self._own(request)
        kept = values_of(alert.rule)
        values = filled(request.form) | {name: kept[name] for name in STAYS}
        values["fires"] = values["fires"] or kept["fires"]
        try:
            asked = replace(self._sound(values), is_active=alert.rule.is_active)
            if remarks := await self._unread(request, asked):
                return await self._ask(values, alert=alert, remarks=remarks)
            numbers = alert.user_id, alert.signal_id
            changed = await self.signals.change(*numbers, self._edit(alert.rule, asked))
        except InvalidForm as invalid:
            return await self._ask(values, invalid.errors, alert=alert)
        return await self._changed(alert, changed, values)

    async def ask_delete(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the alert is deleted.  Raises NotFound."""
        return Page("alerts/delete.html", {"alert": await self._own(request)})

    async def delete(self, request: PageRequest) -> PageResponse:
        """Delete the alert.  Raises NotFound."""
        alert = await self._own(request)
        await self.signals.delete(alert.user_id, alert.signal_id)
        return Redirect(PATH, notice="alert-deleted")

    async def _own(self, request: PageRequest) -> Alert:
        signal_id = SignalId(parse_id(request.path_params["alert"]))
        found = await self.signals.find(request.user_id, signal_id)
        if found is None:
            raise NotFound
        return found

    async def _changed(
        self, alert: Alert, changed: Alert | AlertDenied, values: Mapping[str, str]
    ) -> PageResponse:
        """Return the answer to a change of *alert*; the form shows *values* if it was refused."""
        if changed is AlertDenied.NOT_FOUND:
            raise NotFound
        if isinstance(changed, AlertDenied):
            return await self._ask(values, REFUSALS[changed], alert=alert)
        return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-changed")

    async def _ask(
        self,
        values: Mapping[str, str],
        errors: Mapping[str, str] = NO_ERRORS,
        *,
        alert: Alert | None = None,
        found: Sequence[ShownToken] | None = None,
        remarks: Sequence[Remark] = (),
    ) -> Page:
        """Return the form of an alert.

        errors    the error messages by field; "": of the whole form
        alert     the alert to change; None: a new alert
        found     the tokens to choose from; None: the person has not searched for a token
        remarks   the remarks that the person must confirm before the alert is created or changed
        """
        mint = mint_of(values["mint"])
        named = {} if mint is None else await self.search.named([mint])
        facts = {
            "alert": alert,
            "words": messages,
            "chosen": None if mint is None else named.get(mint),
            "found": found or [],
            "is_looked_for": found is not None and mint is None,
            "now_values": await self._now_words(mint, (values["field"], values["compared"])),
            "remarks": remarks,
            "is_back": False,
            "has_telegram": bool(self.signals.bounds.telegram_bot),
        }
        status = 422 if remarks else None
        return Page("alerts/form.html", facts, errors=errors, values=values, status=status)

    async def _now_words(self, mint: Mint | None, looked_at: Iterable[str]) -> Mapping[Field, str]:
        """Return the current numbers of a token as text, by field; empty if they are unknown."""
        present = await read_present(self.reports, mint, looked_at)
        if present is None:
            return {}
        return {field: value_words(field, value) for field, value in present.values.items()}

    async def _unread(self, request: PageRequest, asked: AlertRule) -> Sequence[Remark]:
        """Return all remarks on *asked*; the result is empty if the form confirms each of them.

        It is also empty for a form of an earlier version, which cannot confirm remarks.
        """
        said = request.form.texts("read")
        if not said:
            return []
        looked_at = (asked.field, asked.compared or "")
        present = await read_present(self.reports, asked.mint, looked_at, is_closed=asked.is_closed)
        remarks = remarks_on(asked, present)
        has_read = set(said[0].split())
        return remarks if any(each.name not in has_read for each in remarks) else []

    async def _ask_again(self, values: Mapping[str, str], errors: Mapping[str, str]) -> Page:
        """Return the form of a new alert with *errors*; if the mint is invalid, search for it."""
        if "mint" not in errors:
            return await self._ask(values, errors)
        error, found = await self.search.flaw(values["mint"], errors["mint"])
        return await self._ask(values, {**errors, "mint": error}, found=found)

    def _sound(self, values: Mapping[str, str]) -> AlertRule:
        """Return the valid alert settings in *values*.  Raises InvalidForm."""
        errors = self._text_flaws(values)
        try:
            asked = parse_alert(values)
        except InvalidForm as invalid:
            raise InvalidForm({**errors, **invalid.errors}) from None
        if cannot := impossible(asked):
            errors["margin" if is_level_possible(asked) else "level"] = cannot
        flaw = self.signals.flaw(asked)
        if flaw is not None:
            place, text = _placed(flaw)
            errors.setdefault(place, text)
        if errors:
            raise InvalidForm(errors)
        return asked

    def _edit(self, before: AlertRule, asked: AlertRule) -> Callable[[AlertRule], AlertRule]:
        """Return a function that applies the changes from *before* to *asked* to settings."""
        changes = {k: v for k, v in asdict(asked).items() if v != getattr(before, k)}

        def edit(current: AlertRule) -> AlertRule:
            edited = replace(current, **changes)
            if flaw := self.signals.flaw(edited) or impossible(edited):
                raise InvalidForm({"": sentence(flaw)})
            return edited

        return edit

    def _text_flaws(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the error messages of the text fields, by field; each is checked separately."""
        sound = AlertRule(
            name="a name", mint=Mint(WSOL), field=Field("price.usd"), kind=SignalKind.ABOVE
        )
        # `Alerts.flaw` returns only the first flaw, but the form shows those of all texts.
        each_alone = (
            replace(sound, name=values["name"]),
            replace(sound, message=values["message"]),
            replace(sound, webhook_url=values["webhook"] or None),
        )
        flaws = (self.signals.flaw(asked) for asked in each_alone)
        return dict(_placed(flaw) for flaw in flaws if flaw is not None)

    def _secret(self, alert: Alert) -> Page:
        return Page("alerts/secret.html", {"alert": alert, "secret": self.signals.secret(alert)})


def _back(page: Page) -> Page:
    """Return *page* with a note that its form was refilled after the person signed in again."""
    return replace(page, facts={**page.facts, "is_back": True})


def _placed(flaw: str) -> tuple[str, str]:
    """Return the form field that *flaw* is about, "" for none, and the message to show there."""
    name = next((each for each in PLACES if flaw.startswith(each)), "")
    return PLACES.get(name, ""), sentence(flaw.removeprefix("webhookUrl: "))


def _short(text: str) -> str:
    """Return *text*, shortened, as the name of an alert."""
    return text if len(text) <= NAME_LENGTH_MAX else f"{text[: NAME_LENGTH_MAX - 3]}..."


def _once() -> str:
    """Return a random text for a form, so that sending the form twice creates one alert."""
    return token_hex(ONCE_BYTES)


# The page Settings > Telegram: the chat that receives alerts.

TELEGRAM: Final = "/settings/telegram"


class TelegramPages:
    """The page of a person's Telegram chat."""

    def __init__(self, chats: TelegramChats) -> None:
        self._chats = chats

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the page of a Telegram chat."""
        yield get(TELEGRAM, self.show, Access.SIGNED_IN)
        yield post(f"{TELEGRAM}/unlink", self.unlink, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the linked chat, and the link that links another chat."""
        facts = {
            "chat": await self._chats.find(request.user_id),
            "address": await self._chats.address(request.signed_in),
            "bot": self._chats.bot,
        }
        return Page("telegram.html", facts)

    async def unlink(self, request: PageRequest) -> PageResponse:
        """Unlink the Telegram chat of the person."""
        await self._chats.unlink(request.user_id)
        return Redirect(TELEGRAM, notice="telegram-unlinked")
