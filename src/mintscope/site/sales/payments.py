"""Payments of a customer: the purchases of an account and of its wallets, and receipts."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Final, NamedTuple

from mintscope.accounts.wallets.credits import AccountCredits, Wallets
from mintscope.kit.audit import UserId
from mintscope.kit.errors import NotFound
from mintscope.kit.primitives import Mint, Wallet
from mintscope.kit.time import iso_time
from mintscope.payments.history import Assets, price_usd, usd_words
from mintscope.payments.payment import State
from mintscope.payments.search import KeptPayment, Wanted
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.page import Page, PageResponse, TextFile
from mintscope.site.routes import Access, PageRequest, PageRoute, get

PAGE: Final = "/credits/payments"
SHOWN_MAX: Final = 200
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
        usd=usd_words(price_usd(payment.credit_count)),
        state=state,
        tone=tone,
        why=why,
    )


class WalletTotal(NamedTuple):
    """A linked wallet, and its total by asset over the payments shown."""

    wallet: Wallet
    paid: Sequence[str]
    payments: int


class PaymentPages:
    """The pages under `/credits/payments`; payments of other customers are not found."""

    def __init__(
        self, credits_: AccountCredits, wallets: Wallets, history: SqlPaymentBooks, assets: Assets
    ) -> None:
        self._credits = credits_
        self._wallets = wallets
        self._history = history
        self._assets = assets

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PAGE, self.list, Access.SIGNED_IN)
        yield get("/credits/payments.csv", self.download, Access.SIGNED_IN)
        yield get(f"{PAGE}/{{signature}}", self.receipt, Access.SIGNED_IN)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show the payments, newest first, and the linked wallets."""
        user_id = request.signed_in.user.user_id
        found = await self._payments(user_id)
        wallets = [each.wallet for each in await self._wallets.of_user(user_id)]
        facts = {
            "payments": [shown(each, self._assets) for each in found],
            "shown_max": SHOWN_MAX,
            "wallets": self._totals(wallets, found),
        }
        return Page("sales/payments.html", facts)

    async def download(self, request: PageRequest) -> PageResponse:
        """Return the payments as a table for other programs."""
        found = await self._payments(request.signed_in.user.user_id)
        text = StringIO()
        table = csv.writer(text, lineterminator="\n")
        names = ("at", "bought", "credits", "amount", "asset", "usd", "wallet", "signature")
        table.writerow((*names, "state", "reason"))
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
                    price_usd(each.credit_count),
                    each.payer,
                    each.signature,
                    each.state.value,
                    each.reason.value if each.reason is not None else "",
                )
            )
        return TextFile("mintscope-payments.csv", "text/csv", text.getvalue())

    async def receipt(self, request: PageRequest) -> PageResponse:
        """Show the printable receipt of one payment.  Raises NotFound."""
        signature = request.path_params["signature"]
        for each in await self._payments(request.signed_in.user.user_id):
            if each.signature == signature:
                facts = {"shown": shown(each, self._assets), "user": request.signed_in.user}
                return Page("sales/receipt.html", facts)
        raise NotFound

    async def _payments(self, user_id: UserId) -> Sequence[KeptPayment]:
        """Return the payments to the account of a user, and those of the linked wallets."""
        account = await self._credits.find(user_id)
        wallets = await self._wallets.of_user(user_id)
        wanted = Wanted(
            payers=[each.wallet for each in wallets],
            accounts=[] if account is None else [account],
            limit=SHOWN_MAX,
        )
        return (await self._history.search(wanted)).payments

    def _totals(
        self, wallets: Sequence[Wallet], found: Sequence[KeptPayment]
    ) -> Sequence[WalletTotal]:
        totals = []
        for wallet in wallets:
            paid: defaultdict[Mint | None, int] = defaultdict(int)
            own = [each for each in found if each.payer == wallet and each.state is State.ISSUED]
            for each in own:
                paid[each.asset] += each.paid
            amounts = [self._assets.amount(atoms, asset) for asset, atoms in paid.items()]
            totals.append(WalletTotal(wallet, amounts, len(own)))
        return totals
