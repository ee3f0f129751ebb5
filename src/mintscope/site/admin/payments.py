"""Administrator pages for payments, daily revenue and customers."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from mintscope.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.accounts.factor_rows import User
from mintscope.accounts.keys.keys import ApiKeys
from mintscope.accounts.keys.pages import badge
from mintscope.accounts.signups.reviews import Reviews
from mintscope.accounts.wallets.credits import AccountCredits, Wallets
from mintscope.alerts import messages
from mintscope.alerts.alerts import Alerts
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.audit import EventFilter, UserId
from mintscope.kit.credentials import CredentialKind, has_form
from mintscope.kit.errors import NotFound
from mintscope.kit.http.request import parse_id
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS
from mintscope.payments.payment import Assets, State, Takings, WalletSum, usd_words
from mintscope.payments.search import KeptOrphan, KeptPayment, Wanted, advise, advise_orphan
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.figures import day_text
from mintscope.site.page import Page, PageResponse
from mintscope.site.routes import Access, PageRequest, PageRoute, get
from mintscope.site.sales.customer import (
    ShownPayment,
    place_in,
    shown,
    signature_in,
    sums_of,
    text_of_place,
    totals,
    wallet_in,
)

PAYMENTS: Final = "/admin/payments"
CUSTOMER: Final = "/admin/users/{user}"
PAGE_LENGTH: Final = 50
DAYS: Final = 31
USAGE_DAYS: Final = 30
HINT_LENGTH: Final = 8
EVENTS_SHOWN: Final = 20
QUERY_LENGTH_MAX: Final = 254
EXPECTED: Final = (
    "Expected a signature, a wallet, an e-mail address, or the last 8 characters of a credit token."
)


class Advised(NamedTuple):
    """A payment or an orphan, with advice for administrators."""

    shown: ShownPayment | None
    orphan: KeptOrphan | None
    do: str
    text: str


class DayLine(NamedTuple):
    """The revenue of one day, by asset and bundle."""

    day: str
    usd: str
    lines: Sequence[tuple[str, str, int, str]]


@dataclass(eq=False, repr=False)
class MoneyPages:
    """Read-only pages for payments and customers.

    history   the payments; None if the pages do not show payments
    ledger    the balances; None if the pages do not show balances
    """

    review: Reviews
    history: SqlPaymentBooks | None
    assets: Assets
    credits: AccountCredits
    wallets: Wallets
    signals: Alerts
    ledger: CreditLedger | None
    keys: ApiKeys

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of payments and of one customer."""
        if self.history is not None:
            yield get(PAYMENTS, self.payments, Access.SIGNED_IN)
        yield get(CUSTOMER, self.customer, Access.SIGNED_IN)

    async def payments(self, request: PageRequest) -> PageResponse:
        """Show the payments that a search finds, or a page of the newest payments.

        The first page of the newest payments in any state also shows the daily revenue.
        """
        history = self.history
        assert history is not None  # the route exists only with a history
        text = request.query_params.line("q")[:QUERY_LENGTH_MAX]
        name = request.query_params.text("state")
        state = State(name) if name in set(State) else None
        values = {"q": text, "state": "" if state is None else state.value}
        if text:
            try:
                wanted = await self._wanted(text)
            except ValueError:
                return Page("admin/payments.html", self._facts([], [], []), {"q": EXPECTED}, values)
            kept = await history.search(wanted)
            found = [self._advised(each, request.now) for each in kept.payments]
            found += [_orphan(each) for each in kept.orphans]
            return Page("admin/payments.html", self._facts(found, [], []), values=values)
        before = place_in(request.query_params.text("before"))
        newest = await history.newest(state, before, PAGE_LENGTH + 1)
        found = [self._advised(each, request.now) for each in newest[:PAGE_LENGTH]]
        since = UnixMs((request.now // DAY_MS - DAYS + 1) * DAY_MS)
        takings = [] if before or state else await history.takings(since)
        older = newest[PAGE_LENGTH - 1 : PAGE_LENGTH] if len(newest) > PAGE_LENGTH else []
        return Page("admin/payments.html", self._facts(found, takings, older), values=values)

    async def customer(self, request: PageRequest) -> PageResponse:
        """Show one account: credits, payments, keys, alerts, audit.  Raises NotFound."""
        user = await self.review.user(UserId(parse_id(request.path_params["user"])))
        if user is None:
            raise NotFound
        account = await self.credits.find(user.user_id)
        linked = await self.wallets.of_user(user.user_id)
        payments: Sequence[KeptPayment] = []
        sums: Sequence[WalletSum] = []
        if self.history is not None:
            payments = await self.history.of_customer(user.user_id, None, PAGE_LENGTH)
            sums = await self.history.sums_of_wallets(user.user_id)
        balance = None
        if account is not None and self.ledger is not None:
            balance = await self.ledger.balance(account)
        summary = await self.credits.summary(user.user_id)
        since = request.now // DAY_MS - USAGE_DAYS + 1
        facts = {
            "user": user,
            "balance": balance,
            "wallets": totals(linked, sums, self.assets),
            "payments": [shown(each, self.assets) for each in payments],
            "keys": [
                (each, badge(each, request.now), summary.spent.get(each.key_id, 0))
                for each in await self.keys.of_user(user.user_id)
            ],
            "words": messages,
            "usage": sums_of(await self.credits.usage(user.user_id, since)),
            "usage_days": USAGE_DAYS,
            "alerts": await self.signals.of_user(user.user_id),
            "refused": await self.signals.refused(user.user_id),
            "events": await self._events(user),
        }
        return Page("admin/customer.html", facts)

    async def _events(self, user: User) -> Sequence[object]:
        wanted = EventFilter(f"user:{user.user_id}", owner=user.user_id)
        found = await self.review.events(before=None, limit=EVENTS_SHOWN, wanted=wanted)
        return [event for _, event in found]

    async def _wanted(self, text: str) -> Wanted:
        """Return the search for *text*: a signature, wallet, e-mail or end of a credit token.

        Raises ValueError if *text* has none of these forms.
        """
        if "@" in text:
            return await self._wanted_of(text)
        signature = signature_in(text)
        if signature is not None:
            return Wanted(signatures=[signature])
        with suppress(NotFound):
            return Wanted(payers=[wallet_in(text)])
        # Pages show the end of a credit token after three dots, and so it may be pasted.
        hint = text.lower().removeprefix("...")
        if has_form(CredentialKind.CREDIT_TOKEN, text):
            hint = text[-HINT_LENGTH:]
        if len(hint) != HINT_LENGTH or not set(hint) <= set("0123456789abcdef"):
            raise ValueError(EXPECTED)
        return Wanted(hint=hint)

    async def _wanted_of(self, text: str) -> Wanted:
        try:
            email = parse_email(text)
        except UnusableEmailAddress as flaw:
            raise ValueError(EXPECTED) from flaw
        subject = await self.review.subject_of(email)
        if subject is None or not subject.startswith("user:"):
            return Wanted()
        user_id = UserId(int(subject.removeprefix("user:")))
        account = await self.credits.find(user_id)
        wallets = await self.wallets.of_user(user_id)
        return Wanted(
            payers=[each.wallet for each in wallets], accounts=[] if account is None else [account]
        )

    def _advised(self, payment: KeptPayment, now: UnixMs) -> Advised:
        advice = advise(payment, None, now)
        return Advised(shown(payment, self.assets), None, advice.do, advice.text)

    def _facts(
        self, found: Sequence[Advised], takings: Sequence[Takings], older: Sequence[KeptPayment]
    ) -> dict[str, object]:
        return {
            "found": found,
            "days": self._days(takings),
            "total": usd_words(sum((each.usd for each in takings), Decimal(0))),
            "states": [state.value for state in State],
            "older": text_of_place(older[0]) if older else None,
        }

    def _days(self, takings: Sequence[Takings]) -> Sequence[DayLine]:
        by_day: defaultdict[int, list[Takings]] = defaultdict(list)
        for each in takings:
            by_day[each.day].append(each)
        return [
            DayLine(
                day_text(day),
                usd_words(sum((each.usd for each in lines), Decimal(0))),
                [
                    (
                        f"{each.credits:,} credits" if each.credits else "answers",
                        self.assets.amount(each.paid, each.asset),
                        each.payments,
                        usd_words(each.usd),
                    )
                    for each in lines
                ],
            )
            for day, lines in by_day.items()
        ]


def _orphan(orphan: KeptOrphan) -> Advised:
    advice = advise_orphan(orphan)
    return Advised(None, orphan, advice.do, advice.text)
