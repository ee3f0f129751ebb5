"""Customer pages: payments and receipts, linked wallets, and usage."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.accounts.keys.key import KeyLine
from mintscope.accounts.wallets.credits import USAGE_LINES_MAX, AccountCredits, Usage, Wallets
from mintscope.accounts.wallets.wallets import (
    WALLETS_MAX,
    LinkedWallet,
    UsedLine,
    link_text,
)
from mintscope.credits.ledger import NAMES
from mintscope.credits.sign_in import NONCE_BYTES, ChallengeFlaw, find_text_flaw, write_text
from mintscope.kit.audit import KeyId
from mintscope.kit.errors import NotFound, parsed_by_others
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, iso_time
from mintscope.payments.payment import Assets, Place, State, WalletSum, usd_words, worth_usd
from mintscope.payments.search import KeptPayment
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.figures import csv_text, day_text, spreadsheet_text
from mintscope.site.page import Page, PageResponse, PlainText, Redirect, TextFile
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post

PAGE: Final = "/credits/payments"
PAGE_LENGTH: Final = 100
LINES_MAX: Final = 10_000  # the most lines of one file
MOMENT_DIGITS_MAX: Final = 15
STATES: Final = {
    State.PENDING: ("Pending", "wait"),
    State.ISSUED: ("Paid", "good"),
    State.FAILED: ("Failed", "bad"),
    State.FROZEN: ("Frozen", "bad"),
}
REASONS: Final = {
    State.PENDING: "It is not known yet whether the payment arrived.",
    State.FROZEN: "The transaction vanished from the chain; its credits are held back.",
}


class ShownPayment(NamedTuple):
    """A payment and its texts for pages: what it bought, its amounts, its state and the reason."""

    payment: KeptPayment
    what: str
    amount: str
    usd: str
    state: str
    tone: str
    why: str


def shown(payment: KeptPayment, assets: Assets) -> ShownPayment:
    """Return *payment* with its texts for pages."""
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
    """Return the time and the signature in *text*, a cursor of the list of payments.

    Return None if *text* is invalid.
    """
    at, _, signature = text.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) <= MOMENT_DIGITS_MAX):
        return None
    found = signature_in(signature)
    return None if found is None else (UnixMs(int(at)), found)


def text_of_place(payment: KeptPayment) -> str:
    """Return the cursor of the page of payments that follows *payment*, as text."""
    return f"{payment.begun_at}.{payment.signature}"


class PaymentPages:
    """The pages under `/credits/payments`; customers see only their own payments."""

    def __init__(self, history: SqlPaymentBooks, assets: Assets) -> None:
        self._history = history
        self._assets = assets

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of payments."""
        yield get(PAGE, self.list, Access.SIGNED_IN)
        yield get("/credits/payments.csv", self.download, Access.SIGNED_IN)
        yield get(f"{PAGE}/{{signature}}", self.receipt, Access.SIGNED_IN)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show a page of payments, newest first: all payments, or those of one linked wallet."""
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
        """Return up to LINES_MAX payments, newest first, as a CSV file."""
        before = place_in(request.query_params.text("before"))
        found = await self._found(request, _wallet(request), before, LINES_MAX)
        # In a thread, because LINES_MAX lines would delay other clients.
        text = await asyncio.to_thread(self._table, found)
        return TextFile("mintscope-payments.csv", "text/csv", text)

    async def receipt(self, request: PageRequest) -> PageResponse:
        """Show the printable receipt of one payment.  Raises NotFound."""
        user = request.signed_in.user
        signature = signature_in(request.path_params["signature"])
        if signature is None:
            raise NotFound
        payment = await self._history.one_of_customer(user.user_id, signature)
        if payment is None:
            raise NotFound
        return Page("sales/receipt.html", {"shown": shown(payment, self._assets), "user": user})

    async def _found(
        self, request: PageRequest, wallet: Wallet | None, before: Place | None, limit: int
    ) -> Sequence[KeptPayment]:
        user_id = request.user_id
        if wallet is None:
            return await self._history.of_customer(user_id, before, limit)
        return await self._history.of_wallet(user_id, wallet, before, limit)

    def _table(self, found: Sequence[KeptPayment]) -> str:
        names = ("at", "bought", "credits", "amount", "asset", "usd", "wallet", "signature")
        lines = []
        for each in found:
            has_paid = each.state is State.ISSUED
            # Without the symbol, which has a column of its own.
            amount, _, _ = self._assets.amount(
                each.paid if has_paid else each.amount, each.asset
            ).partition(" ")
            lines.append(
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
        return csv_text((*names, "state", "reason", "usd_is"), lines)


def _wallet(request: PageRequest) -> Wallet | None:
    """Return the wallet in the query, or None without one.  Raises NotFound if it is invalid."""
    text = request.query_params.text("wallet")
    return wallet_in(text) if text else None


def wallet_in(text: str) -> Wallet:
    """Return *text* as a wallet.  Raises NotFound if *text* is not a valid address."""
    try:
        with parsed_by_others():
            return Wallet(str(Pubkey.from_string(text)))
    except ValueError as cause:
        raise NotFound from cause


def signature_in(text: str) -> Signature | None:
    """Return *text* as a signature, or None if it is not a signature."""
    try:
        with parsed_by_others():
            return Signature(str(Ed25519.from_string(text)))
    except ValueError:
        return None


# Wallets of a customer: linking with a signature, unlinking, and the payments of each wallet.

WALLETS_PAGE: Final = "/credits/wallets"
NO_SIGNATURE: Final = b""
NOT_PROVEN: Final = "The wallet did not sign the text of this page, so it was not linked."
EXPIRED: Final = "The text was signed too late, so the wallet was not linked. Try again."
TOO_MANY: Final = f"{WALLETS_MAX} wallets are linked already. Unlink one first."


class WalletTotal(NamedTuple):
    """A linked wallet, and the totals of all its issued payments.

    paid       amount of each asset, as text
    usd        value in USD at the times of the payments, as text
    payments   number of these payments
    last_at    start of the newest of these payments; None if there is none
    """

    wallet: Wallet
    linked_at: UnixMs
    paid: Sequence[str]
    usd: str
    payments: int
    last_at: UnixMs | None


class WalletPages:
    """The page of linked wallets.

    Wallets are linked as in the API: the wallet signs a text that contains the account and expires
    within minutes.
    """

    def __init__(self, wallets: Wallets, history: SqlPaymentBooks, assets: Assets) -> None:
        self._wallets = wallets
        self._history = history
        self._assets = assets

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of wallets."""
        yield get(WALLETS_PAGE, self.show, Access.SIGNED_IN)
        yield post(WALLETS_PAGE, self.link, Access.SIGNED_IN)
        yield post(f"{WALLETS_PAGE}/challenge", self.challenge, Access.SIGNED_IN)
        yield post(f"{WALLETS_PAGE}/{{wallet}}/remove", self.unlink, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the linked wallets with their payments, and a way to link another wallet."""
        return await self._page(request)

    async def challenge(self, request: PageRequest) -> PageResponse:
        """Return the text that `wallet` signs to be linked.  Raises NotFound if it is no wallet."""
        wallet = wallet_in(request.form.text("wallet"))
        nonce = self._wallets.entropy(NONCE_BYTES)
        key = self._wallets.secrets.wallet
        return PlainText(write_text(key, self._body(request, wallet), now=request.now, nonce=nonce))

    async def link(self, request: PageRequest) -> PageResponse:
        """Link the wallet that has signed a challenge for this account."""
        form = request.form
        wallet = wallet_in(form.text("wallet"))
        flaw = find_text_flaw(
            self._wallets.secrets.wallet,
            self._body(request, wallet),
            wallet=wallet,
            # Forms send line ends as CR and LF.
            text=form.text("challenge").replace("\r\n", "\n"),
            signature=_signed(form.text("signature")),
            now=request.now,
        )
        if flaw is not None:
            why = EXPIRED if flaw is ChallengeFlaw.EXPIRED else NOT_PROVEN
            return await self._page(request, {"": why})
        linked = await self._wallets.link(request.signed_in, wallet)
        if linked is None:
            return await self._page(request, {"": TOO_MANY})
        return Redirect(WALLETS_PAGE, notice="wallet-linked")

    async def unlink(self, request: PageRequest) -> PageResponse:
        """Unlink a wallet.  Raises NotFound if it is not linked."""
        wallet = wallet_in(request.path_params["wallet"])
        if await self._wallets.unlink(request.signed_in, wallet) is None:
            raise NotFound
        return Redirect(WALLETS_PAGE, notice="wallet-unlinked")

    async def _page(
        self, request: PageRequest, errors: Mapping[str, str] | None = None
    ) -> PageResponse:
        user_id = request.user_id
        linked = await self._wallets.of_user(user_id)
        paid = totals(linked, await self._history.sums_of_wallets(user_id), self._assets)
        facts = {"wallets": paid, "wallets_max": WALLETS_MAX}
        return Page("sales/wallets.html", facts, errors or {})

    def _body(self, request: PageRequest, wallet: Wallet) -> str:
        user = request.signed_in.user
        return link_text(self._wallets.origin, user.user_id, user.username, wallet)


def _signed(text: str) -> bytes:
    try:
        with parsed_by_others():
            return bytes(Ed25519.from_string(text))
    except ValueError:
        return NO_SIGNATURE


def totals(
    linked: Sequence[LinkedWallet], sums: Sequence[WalletSum], assets: Assets
) -> Sequence[WalletTotal]:
    """Return the totals of the payments of each linked wallet."""
    by_wallet: defaultdict[Wallet, list[WalletSum]] = defaultdict(list)
    for each in sums:
        by_wallet[each.wallet].append(each)
    return [_total(each, by_wallet[each.wallet], assets) for each in linked]


def _total(linked: LinkedWallet, sums: Sequence[WalletSum], assets: Assets) -> WalletTotal:
    paid: defaultdict[Mint | None, int] = defaultdict(int)
    for each in sums:
        paid[each.asset] += each.paid
    return WalletTotal(
        wallet=linked.wallet,
        linked_at=linked.linked_at,
        paid=[assets.amount(atoms, asset) for asset, atoms in paid.items()],
        usd=usd_words(sum((each.usd for each in sums), Decimal(0))),
        payments=sum(each.payments for each in sums),
        last_at=max((each.last_at for each in sums), default=None),
    )


# Usage of an account: requests and credits by day, API key and endpoint.

USAGE_PAGE: Final = "/credits/usage"
PERIODS: Final = (7, 30, 90, 365)
USUAL_DAYS: Final = 30
VIEWS: Final = "Token pages: views and tests"
UNNOTED: Final = "Endpoint not noted"


class UsageSum(NamedTuple):
    """The requests and the credits of some days, for one key and one endpoint.

    key   the API key; None for views and backtests on pages, and for keys that no longer exist
    """

    key: KeyLine | None
    endpoint: str
    requests: int
    credits: int


def sums_of(usage: Usage) -> Sequence[UsageSum]:
    """Return the requests and credits by key and endpoint, with the most credits first."""
    requests: Counter[tuple[KeyId | None, int]] = Counter()
    spent: Counter[tuple[KeyId | None, int]] = Counter()
    for line in usage.lines:
        requests[line.key_id, line.endpoint] += line.requests
        spent[line.key_id, line.endpoint] += line.credits
    sums = [
        UsageSum(_key(usage.keys, of[0]), endpoint_name(*of), count, spent[of])
        for of, count in requests.items()
    ]
    return sorted(sums, key=lambda each: (-each.credits, each.endpoint))


def endpoint_name(key_id: KeyId | None, endpoint: int) -> str:
    """Return the name of the endpoint with the number *endpoint*, for pages and tables.

    An unknown number without an API key stands for views and backtests on token pages.
    """
    return NAMES.get(endpoint, VIEWS if key_id is None else UNNOTED)


class UsagePages:
    """The pages under `/credits/usage`."""

    def __init__(self, credits_: AccountCredits) -> None:
        self._credits = credits_

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of usage."""
        yield get(USAGE_PAGE, self.show, Access.SIGNED_IN)
        yield get(f"{USAGE_PAGE}.csv", self.download, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the usage of each endpoint by each key in a number of days."""
        days = _days(request)
        usage = await self._usage(request, days)
        sums = sums_of(usage)
        facts = {
            "sums": sums,
            "requests": sum(each.requests for each in sums),
            "used": sum(each.credits for each in sums),
            "days": days,
            "periods": PERIODS,
            "first_day": day_text(_first_day(request.now, days)),
            "is_cut": len(usage.lines) == USAGE_LINES_MAX,
            "lines_max": USAGE_LINES_MAX,
        }
        return Page("sales/usage.html", facts)

    async def download(self, request: PageRequest) -> PageResponse:
        """Return the usage by day, key and endpoint as a CSV file."""
        usage = await self._usage(request, _days(request))
        return TextFile("mintscope-usage.csv", "text/csv", _table(usage))

    async def _usage(self, request: PageRequest, days: int) -> Usage:
        since = _first_day(request.now, days)
        return await self._credits.usage(request.user_id, since)


def _days(request: PageRequest) -> int:
    text = request.query_params.text("days")
    return next((days for days in PERIODS if str(days) == text), USUAL_DAYS)


def _first_day(now: UnixMs, days: int) -> int:
    return now // DAY_MS - days + 1


def _key(keys: Mapping[KeyId, KeyLine], key_id: KeyId | None) -> KeyLine | None:
    return None if key_id is None else keys.get(key_id)


def _table(usage: Usage) -> str:
    header = ("day", "key", "key_id", "endpoint", "requests", "credits")
    return csv_text(header, (_row(line, _key(usage.keys, line.key_id)) for line in usage.lines))


def _row(line: UsedLine, key: KeyLine | None) -> Sequence[object]:
    return (
        iso_time(UnixMs(line.day * DAY_MS)).partition("T")[0],
        "" if key is None else spreadsheet_text(key.name),
        "" if line.key_id is None else line.key_id,
        endpoint_name(line.key_id, line.endpoint),
        line.requests,
        line.credits,
    )
