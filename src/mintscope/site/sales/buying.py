"""Purchases with a wallet in the browser.

After the wallet has connected, `propose` builds the payment for the wallet's address, the wallet
signs the payment, and `pay` settles it.  Every response is a whole page, of which the script shows
the part `#purchase`; its `data-state` determines the script's next step.  The browser creates the
key that proves a purchase and keeps it with the signed payment, so that a page that is reopened
can request the same response again.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from solders.pubkey import Pubkey

from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.credits.ledger import CreditLedger
from mintscope.kit import errors
from mintscope.kit.primitives import CreditAccount
from mintscope.payments.checkout import CheckoutRefused, NotProposed, Proposal
from mintscope.payments.facilitator import Credits, Wanted
from mintscope.payments.payment import TopUp
from mintscope.payments.ports import Settled
from mintscope.payments.pricing import BUNDLES, Bundle, parse_bundle
from mintscope.payments.protocol.envelope import MAINNET, TOKEN_PROGRAM
from mintscope.payments.protocol.headers import IDENTIFIER_PATTERN
from mintscope.site.page import Page, PageResponse
from mintscope.site.routes import PageRequest, PageRoute, get, post
from mintscope.site.sales import messages
from mintscope.site.sales.messages import PurchaseMessage, tokens_text
from mintscope.site.sales.selling import CreditSales, PricedToken, usd_text

DECIMALS_USUAL: Final = 6  # the default of `mintscope buy`
# The chain names that wallets use, which differ from CAIP-2.
CHAINS: Final = {
    MAINNET: "solana:mainnet",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana:devnet",
    "solana:4uhcVJyU9pJkvQyS88uRDiswHScCeY3Z": "solana:testnet",
}


class Into(StrEnum):
    """The destination of bought credits."""

    ACCOUNT = "account"  # account of the signed-in user
    TOKEN = "token"  # noqa: S105  a new credit token, not a password
    TOP_UP = "top-up"  # credit token in the Authorization header


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleChoice:
    """A purchase as the URL of its page describes it: bundle, token and destination.

    asset    requested mint; "" if none is requested
    into     destination of the credits
    usual    destination if the URL names none
    """

    bundle: Bundle
    asset: str
    into: Into
    usual: Into

    @property
    def address(self) -> str:
        """The URL of the purchase page."""
        asked = {"asset": self.asset} if self.asset else {}
        asked |= {"into": self.into.value} if self.into is not self.usual else {}
        path = f"/buy/{self.bundle.credits}"
        return f"{path}?{urlencode(asked)}" if asked else path


def choice_of(request: PageRequest) -> BundleChoice:
    """Return the bundle in the path of *request*, and the chosen currency and destination.

    Raises NotFound if the path has no valid bundle.
    """
    try:
        bundle = parse_bundle(request.path_params["bundle"])
    except errors.InvalidBundle:
        raise errors.NotFound from None
    usual = Into.TOKEN if request.session is None else Into.ACCOUNT
    asked = _text(request, "into")
    is_possible = asked in set(Into) and (asked != Into.ACCOUNT or usual is Into.ACCOUNT)
    return BundleChoice(
        bundle=bundle,
        asset=_text(request, "asset"),
        into=Into(asked) if is_possible else usual,
        usual=usual,
    )


def token_of(choice: BundleChoice, priced: Sequence[PricedToken]) -> PricedToken:
    """Return the requested token, else the first token with a price, else the first token."""
    for each in priced:
        if each.token.terms.asset == choice.asset:
            return each
    return next((each for each in priced if each.price_list is not None), priced[0])


def facts_of(choice: BundleChoice, priced: Sequence[PricedToken]) -> dict[str, Any]:
    """Return the template values for a bundle and its price; `amount` is None without a price."""
    bundle = choice.bundle
    chosen = token_of(choice, priced)
    terms = chosen.token.terms
    atoms = _atoms(bundle, chosen)
    most = None if atoms is None else tokens_text(-(-atoms * 11 // 10), terms.decimals)
    return {
        "bundle": bundle,
        "here": choice.address,
        "sizes": [(each.credits, replace(choice, bundle=each).address) for each in BUNDLES],
        "usd": usd_text(bundle),
        "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
        "amount": _amount(bundle, chosen),
        "most": None if most is None else most.replace(",", ""),
        "into": choice.into.value,
        "into_token": replace(choice, into=Into.TOKEN).address,
        "into_account": replace(choice, into=Into.ACCOUNT).address,
        "symbol": chosen.token.symbol,
        "ways": [
            (
                each.token.symbol,
                _amount(bundle, each),
                replace(choice, asset=each.token.terms.asset).address,
                each is chosen,
            )
            for each in priced
        ],
        "terms": terms,
        "chain": CHAINS.get(terms.network, terms.network),
        "has_usual_terms": (terms.decimals, terms.token_program, terms.network)
        == (DECIMALS_USUAL, TOKEN_PROGRAM, MAINNET),
    }


def _text(request: PageRequest, name: str) -> str:
    return request.form.text(name) or request.query_params.text(name)


def _atoms(bundle: Bundle, priced: PricedToken) -> int | None:
    return None if priced.price_list is None else priced.price_list.price(bundle).price


def _amount(bundle: Bundle, priced: PricedToken) -> str | None:
    """Return the price of *bundle* in whole tokens of *priced*, or None if there is no price."""
    atoms = _atoms(bundle, priced)
    return None if atoms is None else tokens_text(atoms, priced.token.terms.decimals)


@dataclass(eq=False, repr=False)
class BuyPages:
    """The pages under `/buy`."""

    sales: CreditSales
    credits: AccountCredits
    ledger: CreditLedger
    _: KW_ONLY
    origin: str

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of purchases."""
        one = "/buy/{bundle}"
        yield get(one, self.show)
        yield post(f"{one}/terms", self.propose)
        yield post(one, self.pay)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the current price of the bundle, and the ways to pay."""
        choice = choice_of(request)
        message = None
        try:
            await self.sales.expect_open()
        except errors.ServiceUnavailable:
            message = messages.PAUSED
        facts = await self._facts(choice)
        if facts["amount"] is None:
            message = messages.NO_PRICE
        return Page("sales/buy.html", facts | {"message": message})

    async def propose(self, request: PageRequest) -> PageResponse:
        """Show the payment for the connected wallet to sign, or the reason why none is possible."""
        choice = choice_of(request)
        key = _key(request)
        payer = _wallet(request)
        chosen = token_of(choice, await self.sales.priced()).token
        try:
            found = await self.sales.propose(
                choice.bundle,
                payer,
                key,
                chosen.terms.asset,
                address=request.browser.address,
            )
        except errors.PriceUnavailable:
            return await self._tell(choice, messages.NO_PRICE)
        except errors.ServiceUnavailable:
            return await self._tell(choice, messages.PAUSED)
        if isinstance(found, NotProposed):
            return await self._tell(choice, messages.NOT_PROPOSED[found])
        facts = await self._facts(choice)
        return Page("sales/approve.html", facts | _proposed(payer, found))

    async def pay(self, request: PageRequest) -> PageResponse:
        """Settle the signed payment and show the purchase; a repeated request shows it again."""
        choice = choice_of(request)
        key = _key(request)
        transaction = _transaction(request)
        # Without a session, `choice_of` falls back to a new credit token, which was not chosen.
        if request.form.text("into") == Into.ACCOUNT and request.session is None:
            return await self._tell(choice, messages.SIGNED_OUT)
        try:
            settled = await self.sales.pay(
                choice.bundle,
                transaction,
                key=key,
                address=request.browser.address,
                # Called only after the payment is verified: a refused payment opens no account.
                wanted=lambda: self._wanted(request, choice),
            )
        except errors.MissingToken:
            return await self._tell(choice, messages.NOT_SHOWN)
        except CheckoutRefused as refused:
            return await self._tell(choice, messages.message_of(refused.cause))
        except errors.PriceUnavailable:
            return await self._tell(choice, messages.NO_PRICE_YET)
        return await self._hand_out(request, choice, settled)

    async def _wanted(self, request: PageRequest, choice: BundleChoice) -> Wanted:
        """Return the purchase to deliver.  Raises MissingToken for a top-up of an unknown token."""
        count = choice.bundle.credits
        if choice.into is Into.TOKEN:
            return Credits(count)
        if choice.into is Into.ACCOUNT:
            account = await self.credits.open(request.user_id)
            return TopUp(credits=count, account=account)
        topped_up = await self.ledger.find(request.bearer)
        if topped_up is None:
            raise errors.MissingToken("expected a credit token that this service has issued")
        return TopUp(credits=count, account=topped_up)

    async def _hand_out(
        self, request: PageRequest, choice: BundleChoice, settled: Settled
    ) -> PageResponse:
        """Show the new credit token, or the balance of the account that received the credits.

        If this account belongs to another user or credit token, show only a message.
        """
        facts = await self._facts(choice)
        facts |= {"secret": settled.token, "signature": settled.payment.signature, "balance": 0}
        purchase = settled.payment.purchase
        if not isinstance(purchase, TopUp):
            return Page("sales/bought.html", facts)
        if purchase.account != await self._own_account(request, choice):
            is_top_up = choice.into is Into.TOP_UP
            return await self._tell(choice, messages.ON_TOKEN if is_top_up else messages.ON_ANOTHER)
        balance = await self.ledger.balance(purchase.account)
        return Page("sales/bought.html", facts | {"balance": balance})

    async def _own_account(
        self, request: PageRequest, choice: BundleChoice
    ) -> CreditAccount | None:
        """Return the account of the credit token in the request, or of the signed-in user.

        Return None if the visitor has neither.
        """
        if choice.into is Into.TOP_UP:
            return await self.ledger.find(request.bearer)
        if request.session is None:
            return None
        return await self.credits.find(request.session.user.user_id)

    async def _tell(self, choice: BundleChoice, message: PurchaseMessage) -> Page:
        facts = await self._facts(choice)
        symbol = facts["symbol"]
        amount = facts["amount"] or "Some"
        text = message.text.format(symbol=symbol, amount=amount)
        title = message.title.format(symbol=symbol)
        message = msgspec.structs.replace(message, title=title, text=text)
        return Page("sales/outcome.html", facts | {"message": message}, status=message.status)

    async def _facts(self, choice: BundleChoice) -> dict[str, Any]:
        """Return the template values that all purchase pages share."""
        return facts_of(choice, await self.sales.priced()) | {"origin": self.origin}


def _proposed(payer: Pubkey, found: Proposal) -> dict[str, Any]:
    return {
        "transaction": b64encode(found.transaction).decode(),
        "wallet": str(payer),
        "amount": tokens_text(found.requirement.amount, found.requirement.terms.decimals),
        "life_s": found.requirement.max_timeout_s,
    }


def _key(request: PageRequest) -> str:
    key = request.form.text("key")
    if IDENTIFIER_PATTERN.fullmatch(key) is None:
        raise errors.BadRequest(
            "expected a key of 16 to 128 characters of A-Z, a-z, 0-9, '-' and '_'"
        )
    return key


def _wallet(request: PageRequest) -> Pubkey:
    try:
        with errors.parsed_by_others():
            return Pubkey.from_string(request.form.text("wallet"))
    except ValueError:
        raise errors.BadRequest(
            "expected the address of a wallet, the base58 of 32 bytes"
        ) from None


def _transaction(request: PageRequest) -> bytes:
    try:
        return b64decode(request.form.text("transaction"), validate=True)
    except ValueError:
        raise errors.BadRequest("expected a transaction in base64") from None
