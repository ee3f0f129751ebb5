"""Wallets of a customer: linked with a signature, unlinked, and what each has paid."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from solders.signature import Signature as Ed25519

from mintscope.accounts.wallets.credits import Wallets
from mintscope.accounts.wallets.wallets import WALLETS_MAX, LinkDenied, LinkedWallet, link_text
from mintscope.credits.sign_in import NONCE_BYTES, ChallengeFlaw, find_text_flaw, write_text
from mintscope.kit.errors import NotFound, parsed_by_others
from mintscope.kit.primitives import Mint, UnixMs, Wallet
from mintscope.payments.history import Assets, WalletSum, usd_words
from mintscope.payments.store.books import SqlPaymentBooks
from mintscope.site.page import Page, PageResponse, PlainText, Redirect
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post
from mintscope.site.sales.payments import wallet_in

PAGE: Final = "/credits/wallets"
NO_SIGNATURE: Final = b""
NOT_PROVEN: Final = "The wallet did not sign the text of this page, so it was not linked."
EXPIRED: Final = "The text was signed too late, so the wallet was not linked. Try again."
TOO_MANY: Final = f"{WALLETS_MAX} wallets are linked already. Unlink one first."


class WalletTotal(NamedTuple):
    """A linked wallet, and the totals of all its payments.

    paid       by asset
    usd        worth when it was paid
    last_at    the beginning of the newest payment; None: no payment
    """

    wallet: Wallet
    linked_at: UnixMs
    paid: Sequence[str]
    usd: str
    payments: int
    last_at: UnixMs | None


class WalletPages:
    """The page of linked wallets.

    A wallet is linked as by the API: it signs a text that names the account and expires in minutes.
    """

    def __init__(self, wallets: Wallets, history: SqlPaymentBooks, assets: Assets) -> None:
        self._wallets = wallets
        self._history = history
        self._assets = assets

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(PAGE, self.show, Access.SIGNED_IN)
        yield post(PAGE, self.link, Access.SIGNED_IN)
        yield post(f"{PAGE}/challenge", self.challenge, Access.SIGNED_IN)
        yield post(f"{PAGE}/{{wallet}}/remove", self.unlink, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the linked wallets and what each has paid, and a way to link another."""
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
            # Forms send the end of a line as CR and LF.
            text=form.text("challenge").replace("\r\n", "\n"),
            signature=_signature(form.text("signature")),
            now=request.now,
        )
        if flaw is not None:
            why = EXPIRED if flaw is ChallengeFlaw.EXPIRED else NOT_PROVEN
            return await self._page(request, {"": why})
        linked = await self._wallets.link_in(request.signed_in, wallet)
        if isinstance(linked, LinkDenied):
            return await self._page(request, {"": TOO_MANY})
        return Redirect(PAGE, notice="wallet-linked")

    async def unlink(self, request: PageRequest) -> PageResponse:
        """Unlink a wallet.  Raises NotFound if it is not linked."""
        wallet = wallet_in(request.path_params["wallet"])
        if await self._wallets.unlink_in(request.signed_in, wallet) is None:
            raise NotFound
        return Redirect(PAGE, notice="wallet-unlinked")

    async def _page(
        self, request: PageRequest, errors: Mapping[str, str] | None = None
    ) -> PageResponse:
        user_id = request.signed_in.user.user_id
        linked = await self._wallets.of_user(user_id)
        paid = totals(linked, await self._history.sums_of_wallets(user_id), self._assets)
        facts = {"wallets": paid, "wallets_max": WALLETS_MAX}
        return Page("sales/wallets.html", facts, errors or {})

    def _body(self, request: PageRequest, wallet: Wallet) -> str:
        user = request.signed_in.user
        return link_text(self._wallets.origin, user.user_id, user.username, wallet)


def _signature(text: str) -> bytes:
    """Return the signature in *text*, base58; NO_SIGNATURE for other text."""
    try:
        with parsed_by_others():
            return bytes(Ed25519.from_string(text))
    except ValueError:
        return NO_SIGNATURE


def totals(
    linked: Sequence[LinkedWallet], sums: Sequence[WalletSum], assets: Assets
) -> Sequence[WalletTotal]:
    """Return the total of each linked wallet."""
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
