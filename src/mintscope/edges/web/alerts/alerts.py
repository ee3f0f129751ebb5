"""Alerts of a person: made, tried, changed, paused, deleted; those of others do not exist."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.base.limits import Denied, Limiter
from mintscope.core.accounts.signals.signal import Signal, SignalDenied, SignalId, SignalRule
from mintscope.core.accounts.signals.signals import Signals
from mintscope.core.accounts.user import UserId
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.alerts import words
from mintscope.edges.web.alerts.form import FIRST, filled, parse_alert, values_of
from mintscope.edges.web.form import InvalidForm, sentence
from mintscope.edges.web.pages.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post
from mintscope.edges.web.tokens.lines import ShownToken
from mintscope.edges.web.tokens.search import TokenSearch, mint_of

PATH: Final = "/alerts"
ONE: Final = f"{PATH}/{{alert}}"
EVENTS_SHOWN: Final = 20
MADE_BEFORE: Final = "This form has made an alert already. Send it again to make another one."
ONCE_BYTES: Final = 16
ONCE_LENGTH_MAX: Final = 2 * ONCE_BYTES
REFUSALS: Final[Mapping[SignalDenied, str]] = {
    SignalDenied.TOO_MANY: "You have as many alerts as there can be: delete one before.",
    SignalDenied.TOO_MANY_OF_ALL: "There are as many alerts as this service looks at.",
    SignalDenied.TOO_MANY_MINTS: "The alerts of this service look at as many tokens as they can.",
    SignalDenied.KEY_USED: MADE_BEFORE,
    SignalDenied.NOT_FOUND: MADE_BEFORE,
    SignalDenied.UNVERIFIED: "Verify your e-mail address before, under Settings > Account.",
}


class AlertPages:
    """What a person is told of.

    tests    counts those of a user, together with the API's
    search   finds the tokens that they are of
    """

    def __init__(self, signals: Signals, tests: Limiter, search: TokenSearch) -> None:
        self._signals = signals
        self._tests = tests
        self._search = search

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        signed_in = Access.SIGNED_IN
        yield get(PATH, self.list, signed_in)
        yield get(f"{PATH}/new", self.ask, signed_in)
        yield post(f"{PATH}/new", self.make, signed_in)
        yield get(ONE, self.show, signed_in)
        yield post(f"{ONE}/test", self.test, signed_in)
        yield post(f"{ONE}/active", self.set_active, signed_in)
        yield post(f"{ONE}/secret", self.renew_secret, signed_in)
        yield get(f"{ONE}/edit", self.ask_change, signed_in)
        yield post(f"{ONE}/edit", self.change, signed_in)
        yield get(f"{ONE}/delete", self.ask_delete, signed_in)
        yield post(f"{ONE}/delete", self.delete, signed_in)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show all alerts."""
        own = await self._signals.of_user(_user_id(request))
        named = await self._search.named([each.rule.mint for each in own])
        most = self._signals.bounds.per_user_max
        facts = {"alerts": own, "most": most, "words": words, "named": named}
        return Page("alerts/list.html", facts)

    async def ask(self, request: PageRequest) -> PageResponse:
        """Ask what the new alert is to wait for; `mint` of the query is filled in."""
        mint = request.query_params.line("mint")
        return await self._ask({**filled(request.form), **FIRST, "mint": mint, "once": _once()})

    async def make(self, request: PageRequest) -> PageResponse:
        """Make an alert, one of a form however often it is sent; show the secret of its webhook.

        The buttons `find` and `choose` of the form make none: they fill in its token.
        """
        values = filled(request.form)
        if chosen := request.form.line("choose"):
            return await self._ask({**values, "mint": chosen})
        if request.form.text("find"):
            return await self._ask(values, found=await self._search.find(values["mint"]))
        try:
            asked = self._sound(values)
        except InvalidForm as invalid:
            return await self._ask_again(values, invalid.errors)
        once = values["once"][:ONCE_LENGTH_MAX] or None
        made = await self._signals.make(_user_id(request), asked, once)
        if isinstance(made, SignalDenied):
            return await self._ask({**values, "once": _once()}, {"": REFUSALS[made]})
        if asked.webhook_url is not None:
            return self._secret(made)
        return Redirect(f"{PATH}/{made.signal_id}", notice="alert-made")

    async def show(self, request: PageRequest) -> PageResponse:
        """Show an alert, and what it has told of late.  Raises NotFound."""
        alert = await self._own(request)
        events = await self._signals.firings(alert.user_id, alert.signal_id, None, EVENTS_SHOWN)
        named = await self._search.named([alert.rule.mint])
        facts = {"alert": alert, "events": events or [], "words": words, "named": named}
        return Page("alerts/show.html", facts)

    async def test(self, request: PageRequest) -> PageResponse:
        """Tell as it tells when it fires, so often an hour.  Raises NotFound."""
        alert = await self._own(request)
        if isinstance(await self._tests.take(alert.user_id), Denied):
            return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-tests-used")
        if await self._signals.test(alert.user_id, alert.signal_id) is None:
            raise NotFound
        return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-tested")

    async def set_active(self, request: PageRequest) -> PageResponse:
        """Pause it, or let it go on; a webhook that was disabled is tried again.

        Raises    NotFound
        """
        alert, is_active = await self._own(request), request.form.text("active") == "yes"
        if is_active and alert.webhook_failed_at is not None:
            await self._change(alert, replace(alert.rule, is_active=False))
        return await self._change(alert, replace(alert.rule, is_active=is_active))

    async def renew_secret(self, request: PageRequest) -> PageResponse:
        """Give its webhook another secret, shown this once.  Raises NotFound."""
        alert = await self._own(request)
        renewed = await self._signals.renew_secret(alert.user_id, alert.signal_id)
        if renewed is None:
            raise NotFound
        return self._secret(renewed)

    async def ask_change(self, request: PageRequest) -> PageResponse:
        """Ask what it is to wait for from now on.  Raises NotFound."""
        alert = await self._own(request)
        return await self._ask(values_of(alert.rule), alert=alert)

    async def change(self, request: PageRequest) -> PageResponse:
        """Change what it waits for; token, value and kind stay.  Raises NotFound."""
        alert = await self._own(request)
        kept = values_of(alert.rule)
        values = filled(request.form) | {name: kept[name] for name in ("mint", "field", "kind")}
        try:
            asked = replace(self._sound(values), is_active=alert.rule.is_active)
        except InvalidForm as invalid:
            return await self._ask(values, invalid.errors, alert=alert)
        return await self._change(alert, asked, values)

    async def ask_delete(self, request: PageRequest) -> PageResponse:
        """Ask whether it is to go.  Raises NotFound."""
        return Page("alerts/delete.html", {"alert": await self._own(request)})

    async def delete(self, request: PageRequest) -> PageResponse:
        """Delete it.  Raises NotFound."""
        alert = await self._own(request)
        await self._signals.delete(alert.user_id, alert.signal_id)
        return Redirect(PATH, notice="alert-deleted")

    async def _own(self, request: PageRequest) -> Signal:
        signal_id = SignalId(parse_id(request.path_params["alert"]))
        found = await self._signals.find(_user_id(request), signal_id)
        if found is None:
            raise NotFound
        return found

    async def _change(
        self, alert: Signal, asked: SignalRule, values: Mapping[str, str] | None = None
    ) -> PageResponse:
        changed = await self._signals.change(alert.user_id, alert.signal_id, lambda _: asked)
        if changed is SignalDenied.NOT_FOUND:
            raise NotFound
        if isinstance(changed, SignalDenied):
            errors = {"": REFUSALS[changed]}
            return await self._ask(values or values_of(asked), errors, alert=alert)
        return Redirect(f"{PATH}/{alert.signal_id}", notice="alert-changed")

    async def _ask(
        self,
        values: Mapping[str, str],
        errors: Mapping[str, str] = NO_ERRORS,
        *,
        alert: Signal | None = None,
        found: Sequence[ShownToken] | None = None,
    ) -> Page:
        """Return the form; *found* may be chosen from, None where nothing was looked for."""
        mint = mint_of(values["mint"])
        named = {} if mint is None else await self._search.named([mint])
        facts = {
            "alert": alert,
            "words": words,
            "chosen": None if mint is None else named.get(mint),
            "found": found or [],
            "is_looked_for": found is not None and mint is None,
        }
        return Page("alerts/form.html", facts, errors=errors, values=values)

    async def _ask_again(self, values: Mapping[str, str], errors: Mapping[str, str]) -> Page:
        """Return the form of a new alert; what is no mint may be the name of a token."""
        if "mint" not in errors:
            return await self._ask(values, errors)
        error, found = await self._search.flaw(values["mint"], errors["mint"])
        return await self._ask(values, {**errors, "mint": error}, found=found)

    def _sound(self, values: Mapping[str, str]) -> SignalRule:
        """Return the rule that *values* ask for.  Raises InvalidForm."""
        asked = parse_alert(values)
        flaw = self._signals.flaw(asked)
        if flaw is not None:
            where = "webhook" if flaw.startswith("webhookUrl: ") else ""
            raise InvalidForm({where: sentence(flaw.removeprefix("webhookUrl: "))})
        return asked

    def _secret(self, alert: Signal) -> Page:
        return Page("alerts/secret.html", {"alert": alert, "secret": self._signals.secret(alert)})


def _once() -> str:
    """Return what a form carries so that, sent twice, it makes one alert."""
    return token_hex(ONCE_BYTES)


def _user_id(request: PageRequest) -> UserId:
    return request.signed_in.user.user_id
