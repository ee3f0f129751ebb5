"""A bundle, and how it is paid for from a wallet in the browser.

The wallet connects, `propose` writes out the payment for its address, the wallet signs, `pay` takes
it.  Every answer is a whole page, of which the script shows the part `#purchase`; what it does next
stands there in `data-state`.  The key that proves a purchase is made in the browser and kept there
with the signed payment, so that a page that is lost asks for the same answer again.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from solders.pubkey import Pubkey

from mintscope.base.errors import (
    BadRequest,
    InvalidBundle,
    NotFound,
    PriceUnavailable,
    ServiceUnavailable,
)
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.checkout.merchant import AcceptedToken
from mintscope.core.checkout.proposal import NotProposed, Proposal
from mintscope.core.checkout.refusal import CheckoutRefused
from mintscope.core.payments.demand import Credits, Wanted
from mintscope.core.payments.outcome import Settled
from mintscope.core.payments.payment import TopUp
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle, parse_bundle
from mintscope.core.payments.protocol.headers import IDENTIFIER_PATTERN
from mintscope.core.payments.protocol.requirement import MAINNET, TOKEN_PROGRAM
from mintscope.edges.web.pages.page import Page, PageResponse
from mintscope.edges.web.routes import PageRequest, PageRoute, get, post
from mintscope.edges.web.sales import words
from mintscope.edges.web.sales.pricing import usd_text
from mintscope.edges.web.sales.selling import CreditSales
from mintscope.edges.web.sales.words import Told, tokens_text

ACCOUNT: Final = "account"
TOKEN: Final = "token"  # noqa: S105  a credit token, not a password
DECIMALS_USUAL: Final = 6  # of the command line
# The chain's name among wallets: theirs are not those of CAIP-2.
CHAINS: Final = {
    MAINNET: "solana:mainnet",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana:devnet",
    "solana:4uhcVJyU9pJkvQyS88uRDiswHScCeY3Z": "solana:testnet",
}


class BuyPages:
    """The pages under `/buy`."""

    def __init__(self, sales: CreditSales, credits_: AccountCredits, *, origin: str) -> None:
        self._sales = sales
        self._credits = credits_
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        one = "/buy/{bundle}"
        yield get(one, self.show)
        yield post(f"{one}/terms", self.propose)
        yield post(one, self.pay)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what the bundle costs now, and how it can be paid for."""
        bundle, told = _bundle(request), None
        try:
            await self._sales.expect_open()
        except ServiceUnavailable:
            told = words.PAUSED
        facts = await self._facts(request, bundle)
        if facts["amount"] is None:
            told = words.NO_PRICE
        return Page("sales/buy.html", facts | {"told": told})

    async def propose(self, request: PageRequest) -> PageResponse:
        """Write out the payment for the wallet that is connected."""
        bundle, key = _bundle(request), _key(request)
        payer, asset = _wallet(request), self._token(request).terms.asset
        try:
            found = await self._sales.propose(bundle, payer, key, asset)
        except PriceUnavailable:
            return await self._tell(request, bundle, words.NO_PRICE)
        except ServiceUnavailable:
            return await self._tell(request, bundle, words.PAUSED)
        if isinstance(found, NotProposed):
            return await self._tell(request, bundle, words.NOT_PROPOSED[found])
        facts = await self._facts(request, bundle)
        return Page("sales/approve.html", facts | _proposed(payer, found))

    async def pay(self, request: PageRequest) -> PageResponse:
        """Take the signed payment, and hand out what it has bought; likewise when it is lost."""
        bundle, key = _bundle(request), _key(request)
        transaction = _transaction(request)
        into_account = request.form.text("into") == ACCOUNT
        if into_account and request.session is None:
            return await self._tell(request, bundle, words.SIGNED_OUT)

        async def wanted() -> Wanted:
            if not into_account:
                return Credits(bundle.credits)
            account = await self._credits.open(request.signed_in.user.user_id)
            return TopUp(credits=bundle.credits, account=account)

        try:
            settled = await self._sales.pay(
                bundle, transaction, key=key, address=request.browser.address, wanted=wanted
            )
        except CheckoutRefused as refused:
            return await self._tell(request, bundle, words.told_of(refused.cause))
        except PriceUnavailable:
            return await self._tell(request, bundle, words.NO_PRICE_YET)
        return await self._hand_out(request, bundle, settled)

    async def _hand_out(
        self, request: PageRequest, bundle: Bundle, settled: Settled
    ) -> PageResponse:
        """Show the credit token, or that the credits are in the account of this person."""
        facts = await self._facts(request, bundle)
        facts |= {"secret": settled.token, "signature": settled.payment.signature, "balance": 0}
        if not isinstance(settled.payment.purchase, TopUp):
            return Page("sales/bought.html", facts)
        if request.session is None:
            return await self._tell(request, bundle, words.ON_ANOTHER)
        user_id = request.session.user.user_id
        if settled.payment.purchase.account != await self._credits.find(user_id):
            return await self._tell(request, bundle, words.ON_ANOTHER)
        holdings = await self._credits.holdings(user_id)
        return Page("sales/bought.html", facts | {"balance": holdings.balance})

    async def _tell(self, request: PageRequest, bundle: Bundle, told: Told) -> Page:
        facts = await self._facts(request, bundle)
        symbol, amount = facts["symbol"], facts["amount"] or "Some"
        text = told.text.format(symbol=symbol, amount=amount)
        told = told._replace(title=told.title.format(symbol=symbol), text=text)
        return Page("sales/outcome.html", facts | {"told": told}, status=told.status)

    def _token(self, request: PageRequest) -> AcceptedToken:
        """Return the token that is asked for; the payment token, where none is."""
        asked = request.form.text("asset") or request.query_params.text("asset")
        return self._sales.merchant.payment_token(asked)

    async def _facts(self, request: PageRequest, bundle: Bundle) -> dict[str, Any]:
        """Return what every page about *bundle* tells; *amount* is None without a price."""
        merchant = self._sales.merchant
        token = self._token(request)
        terms, amount, most = token.terms, None, None
        try:
            price_list = await token.price_cache.price_list()
        except PriceUnavailable:
            pass  # the price in USD stands
        else:
            price = price_list.price(bundle).price
            amount = tokens_text(price, terms.decimals)
            most = tokens_text(-(-price * 11 // 10), terms.decimals).replace(",", "")
        return {
            "bundle": bundle,
            "sizes": [each.credits for each in BUNDLES],
            "usd": usd_text(bundle),
            "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
            "amount": amount,
            "most": most,
            "into": _into(request),
            "symbol": token.symbol,
            "others": [each for each in merchant.payment_tokens if each is not token],
            "terms": terms,
            "chain": CHAINS.get(terms.network, terms.network),
            "has_usual_terms": (terms.decimals, terms.token_program, terms.network)
            == (DECIMALS_USUAL, TOKEN_PROGRAM, MAINNET),
            "origin": self._origin,
        }


def _proposed(payer: Pubkey, found: Proposal) -> dict[str, Any]:
    return {
        "transaction": b64encode(found.transaction).decode(),
        "wallet": str(payer),
        "amount": tokens_text(found.requirement.amount, found.requirement.terms.decimals),
    }


def _into(request: PageRequest) -> str:
    """Return where the credits go: into the account of who is signed in, unless asked not to."""
    asked = request.form.text("into") or request.query_params.text("into")
    return TOKEN if request.session is None or asked == TOKEN else ACCOUNT


def _bundle(request: PageRequest) -> Bundle:
    """Return the bundle that the path names.  Raises NotFound."""
    try:
        return parse_bundle(request.path_params["bundle"])
    except InvalidBundle:
        raise NotFound from None


def _key(request: PageRequest) -> str:
    key = request.form.text("key")
    if IDENTIFIER_PATTERN.fullmatch(key) is None:
        raise BadRequest("expected a key of 16 to 128 characters of A-Z, a-z, 0-9, '-' and '_'")
    return key


def _wallet(request: PageRequest) -> Pubkey:
    try:
        return Pubkey.from_string(request.form.text("wallet"))
    except ValueError:
        raise BadRequest("expected the address of a wallet, the base58 of 32 bytes") from None


def _transaction(request: PageRequest) -> bytes:
    try:
        return b64decode(request.form.text("transaction"), validate=True)
    except ValueError:
        raise BadRequest("expected a transaction in base64") from None
