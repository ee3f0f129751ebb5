"""Payments of a customer: the purchases of an account and of its wallets, and receipts."""

import asyncio
import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final, NamedTuple

from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.kit.errors import NotFound, parsed_by_others
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.kit.time import iso_time
from mintscope.payments.history import Assets, Place, usd_words, worth_usd
from mintscope.payments.payment import State
from mintscope.payments.search import KeptPayment
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.page import Page, PageResponse, TextFile
from mintscope.site.routes import Access, PageRequest, PageRoute, get

PAGE: Final = "/credits/payments"
PAGE_LENGTH: Final = 100
LINES_MAX: Final = 10_000  # of one file
MOMENT_DIGITS_MAX: Final = 15
STATES: Final = {
    State.PENDING: ("Pending", "wait"),
    State.ISSUED: ("Paid", "good"),
    State.FAILED: ("Failed", "bad"),
    State.FROZEN: ("Frozen", "bad"),
}
REASONS: Final = {
    State.PENDING: "The chain has not said yet whether it arrived.",
    State.FROZEN: "The transaction vanished from the chain; its credits are held back.",
}


class ShownPayment(NamedTuple):
    """A payment as shown on pages."""

    payment: KeptPayment
    what: str
    amount: str
    usd: str
    state: str
    tone: str
    why: str


def shown(payment: KeptPayment, assets: Assets) -> ShownPayment:
    """Return *payment* as pages show it."""
    state, tone = STATES[payment.state]
    has_paid = payment.state is State.ISSUED
    why = REASONS.get(payment.state, "")
    if payment.reason is not None and payment.state is State.FAILED:
        why = payment.reason.value.replace("_", " ")
    return ShownPayment(
        payment=payment,
        what=f"{payment.credit_count:,} credits" if payment.credit_count else "one answer",
        amount=assets.amount(payment.paid if has_paid else payment.amount, payment.asset),
        usd=usd_words(worth_usd(payment.credit_count, payment.worth)),
        state=state,
        tone=tone,
        why=why,
    )


def place_in(text: str) -> Place | None:
    """Return the place of a list that an address names; None if *text* names none."""
    at, _, signature = text.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) <= MOMENT_DIGITS_MAX):
        return None
    found = _signature(signature)
    return None if found is None else (UnixMs(int(at)), found)


def text_of_place(payment: KeptPayment) -> str:
    """Return the place after *payment* as addresses name it."""
    return f"{payment.begun_at}.{payment.signature}"


class PaymentPages:
    """The pages under `/credits/payments`; payments of other customers are not found."""

    def __init__(self, history: SqlPaymentBooks, assets: Assets) -> None:
        self._history = history
        self._assets = assets

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PAGE, self.list, Access.SIGNED_IN)
        yield get("/credits/payments.csv", self.download, Access.SIGNED_IN)
        yield get(f"{PAGE}/{{signature}}", self.receipt, Access.SIGNED_IN)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show a page of the payments, newest first: all, or those of one linked wallet."""
        text = request.query_params.text("before")
        before = place_in(text)
        wallet = _wallet(request)
        found = await self._found(request, wallet, before, PAGE_LENGTH + 1)
        listed = found[:PAGE_LENGTH]
        facts = {
            "payments": [shown(each, self._assets) for each in listed],
            "before": None if before is None else text,
            "older": text_of_place(listed[-1]) if len(found) > PAGE_LENGTH else None,
            "lines_max": LINES_MAX,
            "wallet": wallet,
        }
        return Page("sales/payments.html", facts)

    async def download(self, request: PageRequest) -> PageResponse:
        """Return up to LINES_MAX payments, newest first, as a table for other programs."""
        before = place_in(request.query_params.text("before"))
        found = await self._found(request, _wallet(request), before, LINES_MAX)
        text = await asyncio.to_thread(self._table, found)
        return TextFile("mintscope-payments.csv", "text/csv", text)

    async def receipt(self, request: PageRequest) -> PageResponse:
        """Show the printable receipt of one payment.  Raises NotFound."""
        user = request.signed_in.user
        signature = _signature(request.path_params["signature"])
        if signature is None:
            raise NotFound
        payment = await self._history.one_of_customer(user.user_id, signature)
        if payment is None:
            raise NotFound
        return Page("sales/receipt.html", {"shown": shown(payment, self._assets), "user": user})

    async def _found(
        self, request: PageRequest, wallet: Wallet | None, before: Place | None, limit: int
    ) -> Sequence[KeptPayment]:
        user_id = request.signed_in.user.user_id
        if wallet is None:
            return await self._history.of_customer(user_id, before, limit)
        return await self._history.of_wallet(user_id, wallet, before, limit)

    def _table(self, found: Sequence[KeptPayment]) -> str:
        text = StringIO()
        table = csv.writer(text, lineterminator="\n")
        names = ("at", "bought", "credits", "amount", "asset", "usd", "wallet", "signature")
        table.writerow((*names, "state", "reason", "usd_is"))
        for each in found:
            has_paid = each.state is State.ISSUED
            amount, _, _ = self._assets.amount(
                each.paid if has_paid else each.amount, each.asset
            ).partition(" ")
            table.writerow(
                (
                    iso_time(each.begun_at),
                    each.resource,
                    each.credit_count,
                    amount.replace(",", ""),
                    self._assets.symbol(each.asset),
                    f"{worth_usd(each.credit_count, each.worth).normalize():f}",
                    each.payer,
                    each.signature,
                    each.state.value,
                    each.reason.value if each.reason is not None else "",
                    "list price" if each.worth is None else "worth when paid",
                )
            )
        return text.getvalue()


def _wallet(request: PageRequest) -> Wallet | None:
    """Return the wallet of the query, None without one.  Raises NotFound for other text."""
    text = request.query_params.text("wallet")
    return wallet_in(text) if text else None


def wallet_in(text: str) -> Wallet:
    """Return the wallet that *text* is.  Raises NotFound for other text."""
    try:
        with parsed_by_others():
            return Wallet(str(Pubkey.from_string(text)))
    except ValueError as cause:
        raise NotFound from cause


def _signature(text: str) -> Signature | None:
    """Return *text* as a signature; None if it is not one."""
    try:
        with parsed_by_others():
            return Signature(str(Ed25519.from_string(text)))
    except ValueError:
        return None
