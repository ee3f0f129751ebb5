"""Pages of second factors, in the settings and at sign-in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import segno

from mintscope.accounts.factor_rows import NAME_LENGTH_MAX, Passkey, PasskeyId, PasskeyRefused
from mintscope.accounts.factors import Factors, WrongCode, app_address, secret_text
from mintscope.accounts.second_step import SecondStep
from mintscope.kit.errors import NotFound
from mintscope.kit.http.request import parse_id
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post, sentence, shows

FACTORS: Final = "/settings/second-factor"
ISSUER: Final = "mintscope"
WRONG: Final = "This code is wrong or was used before. Enter the newest code of the app."
NO_NAME: Final = f"Give it a name of 1 to {NAME_LENGTH_MAX} characters, as “My phone”."


class FactorPages:
    """The pages on which people add and remove their second factors."""

    def __init__(self, factors: Factors) -> None:
        self._factors = factors

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of second factors."""
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
        """Show the second factors of the account, and the factors that can be added."""
        state = await self._factors.state(request.signed_in)
        has_passkeys = self._factors.verifier is not None
        return Page("factors/show.html", {"state": state, "has_passkeys": has_passkeys})

    async def begin_app(self, request: PageRequest) -> PageResponse:
        """Create a secret for an authenticator app, unless the account has a confirmed app."""
        await self._factors.begin_app(request.signed_in)
        return Redirect(f"{FACTORS}/app")

    async def confirm_app(self, request: PageRequest) -> PageResponse:
        """Add the authenticator app as a second factor; show recovery codes if it is the first."""
        try:
            codes = await self._factors.confirm_app(request.signed_in, request.form.line("code"))
        except WrongCode:
            return await self.ask_code(request, {"code": WRONG})
        return _done(codes, notice="app-added")

    async def ask_remove_app(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the app is removed."""
        state = await self._factors.state(request.signed_in)
        if state.app is None:
            return Redirect(FACTORS)
        return _removal("The authenticator app", is_last=not state.passkeys)

    async def remove_app(self, request: PageRequest) -> PageResponse:
        """Remove the app; do nothing if it is already removed."""
        await self._factors.remove_app(request.signed_in)
        return Redirect(FACTORS, notice="factor-removed")

    async def ask_renew(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the recovery codes are replaced."""
        state = await self._factors.state(request.signed_in)
        return Page("factors/renew.html") if state.is_on else Redirect(FACTORS)

    async def renew(self, request: PageRequest) -> PageResponse:
        """Create ten new recovery codes, and show them once; do nothing without a second factor."""
        return _done(await self._factors.renew_codes(request.signed_in), notice="")

    async def add_passkey(self, request: PageRequest) -> PageResponse:
        """Store the browser's passkey; if it is the first factor, show the recovery codes once."""
        name = request.form.line("name")
        answer = request.form.text("answer")
        if not (name.isprintable() and 1 <= len(name) <= NAME_LENGTH_MAX):
            return await self.ask_passkey(request, {"name": NO_NAME})
        try:
            codes = await self._factors.add_passkey(request.signed_in, answer, name)
        except PasskeyRefused as refused:
            return await self.ask_passkey(request, {"": sentence(refused)})
        return _done(codes, notice="passkey-added")

    async def ask_remove_passkey(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the passkey is removed."""
        state = await self._factors.state(request.signed_in)
        passkey = _chosen(state.passkeys, request)
        is_last = state.app is None and len(state.passkeys) == 1
        return _removal(f"“{passkey.name}”", is_last=is_last)

    async def remove_passkey(self, request: PageRequest) -> PageResponse:
        """Remove the passkey; do nothing if it is already removed."""
        passkey_id = PasskeyId(parse_id(request.path_params["passkey"]))
        await self._factors.remove_passkey(request.signed_in, passkey_id)
        return Redirect(FACTORS, notice="factor-removed")

    async def ask_code(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        """Show the secret of the authenticator app to be added, and ask for a code of the app."""
        secret = await self._factors.app_secret(request.signed_in)
        if secret is None:
            return Redirect(FACTORS)
        email = request.signed_in.user.email
        address = app_address(secret, issuer=ISSUER, name=email)
        rows = list(segno.make_qr(address, error="m").matrix_iter(border=4))
        facts = {"address": address, "secret": secret_text(secret), "qr_rows": rows}
        return Page("factors/app.html", facts, errors)

    async def ask_passkey(
        self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        """Ask for the name of a new passkey, before the browser creates the passkey."""
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
    """Show the new recovery codes; without *codes*, redirect to the page of second factors."""
    return Page("factors/codes.html", {"codes": codes}) if codes else Redirect(FACTORS, notice)


SIGN_IN: Final = "/sign-in"
ALONE: Final = "passkey-alone"
WRONG_SIGN_IN: Final = "This code is wrong or was used before."
NOT_NEW: Final = "This took too long, or was already done. Try again."
OVER: Final = "This took too long, or was already done. Sign in again."


class SecondStepPages:
    """Pages of the second step of a sign-in, and pages that accept a passkey instead.

    The ticket, which identifies a sign-in that waits for its second step, is only in the form of
    that step, never in a cookie.

    asks_passkeys   whether people can sign in, or prove who they are, by a passkey alone; False on
                    the separate listener for administrators
    """

    def __init__(self, step: SecondStep, *, asks_passkeys: bool) -> None:
        self._step = step
        self._asks_passkeys = asks_passkeys

    def entry(
        self,
        request: PageRequest,
        errors: Mapping[str, str] = NO_ERRORS,
        values: Mapping[str, str] = NO_ERRORS,
    ) -> Page:
        """Return the sign-in page, which asks for a password, and for a passkey if possible."""
        visit = self._step.visit(request.visit)
        question = self._step.question(visit) if self._asks_passkeys else None
        facts = {"after": request.next_path, "question": question}
        new = None if visit == request.visit or question is None else visit
        return Page("sign_in.html", facts, errors, values, visit=new)

    async def by_passkey_alone(self, request: PageRequest) -> PageResponse:
        """Start a new session if a passkey of any account has signed the challenge."""
        begun = request.form.text("begun")
        answer = request.form.text("answer")
        try:
            cookie = await self._step.by_passkey_alone(
                request.visit, begun, answer, request.browser
            )
        except PasskeyRefused as refused:
            return self.entry(request, {"": sentence(refused)})
        return self._entered(request, cookie)

    async def proof(self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        """Return the page that asks a signed-in person for the password or a passkey."""
        question = None
        if self._asks_passkeys:
            question = await self._step.proof_question(request.signed_in)
        return Page("prove.html", {"after": request.next_path, "question": question}, errors)

    async def prove(self, request: PageRequest) -> PageResponse:
        """Record a valid proof by passkey, and redirect to the page that required the proof."""
        begun = request.form.text("begun")
        answer = request.form.text("answer")
        address = request.browser.address
        try:
            is_done = await self._step.prove(request.signed_in, begun, answer, address)
        except PasskeyRefused as refused:
            return await self.proof(request, {"": sentence(refused)})
        return Redirect(request.next_path) if is_done else await self.proof(request, {"": NOT_NEW})

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the second step of a sign-in, and of proofs by passkey."""
        if self._asks_passkeys:
            # The page of a refused answer has this address, and people may load it again.
            yield get("/prove/passkey", shows(Redirect("/prove")))
            yield post("/prove/passkey", self.prove, Access.SIGNED_IN)
        for path, handler in (("code", self.by_code), ("passkey", self.by_passkey)):
            yield get(f"{SIGN_IN}/{path}", shows(Redirect(SIGN_IN)))
            yield post(f"{SIGN_IN}/{path}", handler)

    async def by_code(self, request: PageRequest) -> PageResponse:
        """Start a new session if the authenticator or recovery code in the form is valid."""
        ticket = request.form.text("ticket")
        code = request.form.line("code")
        try:
            cookie = await self._step.by_code(ticket, code, request.browser)
        except WrongCode:
            return await self.ask(request, ticket, {"code": WRONG_SIGN_IN})
        return self._entered(request, cookie)

    async def by_passkey(self, request: PageRequest) -> PageResponse:
        """Start a new session if a passkey of the person has signed the challenge."""
        ticket = request.form.text("ticket")
        answer = request.form.text("answer")
        try:
            cookie = await self._step.by_passkey(ticket, answer, request.browser)
        except PasskeyRefused as refused:
            return await self.ask(request, ticket, {"": sentence(refused)})
        return self._entered(request, cookie)

    async def ask(
        self, request: PageRequest, ticket: str, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        """Ask for the second factor of the sign-in that *ticket* identifies."""
        waiting = await self._step.waiting(ticket)
        if waiting is None:
            return self.entry(request, {"": OVER})
        facts = {"waiting": waiting, "ticket": ticket, "after": request.next_path}
        return Page("factors/sign_in.html", facts, errors)

    def _entered(self, request: PageRequest, cookie: str | None) -> PageResponse:
        if cookie is None:
            return self.entry(request, {"": OVER})
        return Redirect(request.next_path, cookie=cookie)
