"""Settings > Second factor: an authenticator app, passkeys, recovery codes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.core.accounts.factors.codes import WrongCode
from mintscope.core.accounts.factors.factors import Factors
from mintscope.core.accounts.factors.passkeys import NAME_LENGTH_MAX, PasskeyRefused
from mintscope.core.accounts.factors.rows import Passkey, PasskeyId
from mintscope.core.accounts.factors.totp import app_address, secret_text
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.factors.qr import qr_code
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post

FACTORS: Final = "/settings/second-factor"
ISSUER: Final = "mintscope"
WRONG: Final = "That code is not right, or was used before. Type the newest one of the app."
NO_NAME: Final = f"Give it a name of 1 to {NAME_LENGTH_MAX} characters, as “My phone”."


class FactorPages:
    """Second factors of a person: added and removed."""

    def __init__(self, factors: Factors) -> None:
        self._factors = factors

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        fresh = Access.FRESH
        app = f"{FACTORS}/app"
        codes = f"{FACTORS}/codes"
        passkeys = f"{FACTORS}/passkeys"
        yield get(FACTORS, self.show, Access.SIGNED_IN)
        yield post(app, self.begin_app, fresh)
        yield get(app, self.ask_code, fresh)
        yield post(f"{app}/confirm", self.confirm_app, fresh)
        yield get(f"{app}/remove", self.ask_remove_app, fresh)
        yield post(f"{app}/remove", self.remove_app, fresh)
        yield get(codes, self.ask_renew, fresh)
        yield post(codes, self.renew, fresh)
        yield get(f"{passkeys}/new", self.ask_passkey, fresh)
        yield post(f"{passkeys}/new", self.add_passkey, fresh)
        yield get(f"{passkeys}/{{passkey}}/remove", self.ask_remove_passkey, fresh)
        yield post(f"{passkeys}/{{passkey}}/remove", self.remove_passkey, fresh)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what there is, and what can be added."""
        state = await self._factors.state(request.signed_in)
        has_passkeys = self._factors.verifier is not None
        return Page("factors/show.html", {"state": state, "has_passkeys": has_passkeys})

    async def begin_app(self, request: PageRequest) -> PageResponse:
        """Draw a secret for an app."""
        await self._factors.begin_app(request.signed_in)
        return Redirect(f"{FACTORS}/app")

    async def ask_code(self, request: PageRequest) -> PageResponse:
        """Show the secret, and ask for the first code of the app."""
        return await self._app_page(request)

    async def confirm_app(self, request: PageRequest) -> PageResponse:
        """Let the app be a factor; show the recovery codes this once."""
        try:
            codes = await self._factors.confirm_app(request.signed_in, request.form.line("code"))
        except WrongCode:
            return await self._app_page(request, {"code": WRONG})
        return _done(codes, notice="app-added")

    async def ask_remove_app(self, request: PageRequest) -> PageResponse:
        """Ask whether the app shall really go."""
        state = await self._factors.state(request.signed_in)
        if state.app is None:
            return Redirect(FACTORS)
        return _removal("The authenticator app", is_last=not state.passkeys)

    async def remove_app(self, request: PageRequest) -> PageResponse:
        """Remove the app; that it is gone already is no mistake."""
        await self._factors.remove_app(request.signed_in)
        return Redirect(FACTORS, notice="factor-removed")

    async def ask_renew(self, request: PageRequest) -> PageResponse:
        """Ask whether the codes of before shall be good no more."""
        state = await self._factors.state(request.signed_in)
        return Page("factors/renew.html") if state.is_on else Redirect(FACTORS)

    async def renew(self, request: PageRequest) -> PageResponse:
        """Make ten new codes, and show them this once."""
        return _done(await self._factors.renew_codes(request.signed_in), notice="")

    async def ask_passkey(self, request: PageRequest) -> PageResponse:
        """Ask what the passkey shall be called; the browser asks for the rest."""
        return await self._passkey_page(request)

    async def add_passkey(self, request: PageRequest) -> PageResponse:
        """Keep what the browser brings; show the recovery codes this once."""
        name = request.form.line("name")
        answer = request.form.text("answer")
        if not (name.isprintable() and 1 <= len(name) <= NAME_LENGTH_MAX):
            return await self._passkey_page(request, {"name": NO_NAME})
        try:
            codes = await self._factors.add_passkey(request.signed_in, answer, name)
        except PasskeyRefused as refused:
            return await self._passkey_page(request, {"": sentence(refused)})
        return _done(codes, notice="passkey-added")

    async def ask_remove_passkey(self, request: PageRequest) -> PageResponse:
        """Ask whether the passkey shall really go."""
        state = await self._factors.state(request.signed_in)
        passkey = _chosen(state.passkeys, request)
        is_last = state.app is None and len(state.passkeys) == 1
        return _removal(f"“{passkey.name}”", is_last=is_last)

    async def remove_passkey(self, request: PageRequest) -> PageResponse:
        """Remove the passkey; that it is gone already is no mistake."""
        passkey_id = PasskeyId(parse_id(request.path_params["passkey"]))
        await self._factors.remove_passkey(request.signed_in, passkey_id)
        return Redirect(FACTORS, notice="factor-removed")

    async def _app_page(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        secret = await self._factors.app_secret(request.signed_in)
        if secret is None:
            return Redirect(FACTORS)
        email = request.signed_in.user.email
        address = app_address(secret, issuer=ISSUER, name=email)
        facts = {"address": address, "secret": secret_text(secret), "qr": qr_code(address)}
        return Page("factors/app.html", facts, errors)

    async def _passkey_page(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        question = await self._factors.passkey_question(request.signed_in)
        if question is None:
            return Redirect(FACTORS)
        values = {"name": request.form.line("name")}
        return Page("factors/passkey.html", {"question": question}, errors, values)


def _chosen(passkeys: Sequence[Passkey], request: PageRequest) -> Passkey:
    wanted = parse_id(request.path_params["passkey"])
    for passkey in passkeys:
        if passkey.passkey_id == wanted:
            return passkey
    raise NotFound


def _removal(what: str, *, is_last: bool) -> Page:
    return Page("factors/remove.html", {"what": what, "is_last": is_last})


def _done(codes: Sequence[str], *, notice: str) -> PageResponse:
    """Show the codes that were made; without any, go back."""
    return Page("factors/codes.html", {"codes": codes}) if codes else Redirect(FACTORS, notice)
