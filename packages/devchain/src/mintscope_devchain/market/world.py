"""The simulated market: its tokens, wallets and pools, and the balances of all accounts.

All addresses and first balances depend only on the seed, so they are the same in every run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mintscope.kit.primitives import Mint
from mintscope.solana.blocks import LAMPORTS_PER_SOL
from mintscope_devchain.addresses import (
    JITO_TIPS,
    PUMP_FUN_FEES,
    RAYDIUM_V4_AUTHORITY,
    READ_ONLY,
    address,
)
from mintscope_devchain.market.listing import DOLLAR, SOL, SOL_USD, STORY, Listing, numbered
from mintscope_devchain.market.pool import VIRTUAL_BASE, VIRTUAL_QUOTE, Pool, Token, Venue
from mintscope_devchain.shapes.pumpswap import LP_MINT
from mintscope_devchain.transaction import (
    OTHER_RENT,
    Holding,
    Invocation,
    MarketTransaction,
    Move,
    Submission,
    moves,
)

WALLETS: Final = 40
PROVIDERS: Final = 3  # the number of wallets that deposit liquidity in pools and withdraw it
WALLET_SOL: Final = 50_000
WALLET_DOLLARS: Final = 5_000_000
PARTS: Final = 9
DEPTH_USD: Final = 90_000  # on each side of the first pool of a token, unless it is a curve
# SOL times tokens, the constant product of every bonding curve
CURVE_PRODUCT: Final = 30 * 1_073_000_000


class Listed(NamedTuple):
    """A token of the simulated market: the rules by which it is traded, and its pools."""

    token: Token
    listing: Listing
    pools: tuple[Pool, ...]

    def is_on_curve(self, balances: Mapping[str, int]) -> bool:
        """Return whether the token is on its bonding curve, and will leave it for its next pool."""
        return self.listing.graduates is not None and not balances[self.pools[1].base_vault]


class World:
    """The balances of all accounts of the simulated market; only its methods change them."""

    def __init__(self, *, seed: int, mints: int, has_story: bool = False) -> None:
        """Create pools of SOL and of *mints* tokens; if *has_story*, add the tokens of STORY."""
        self._seed = seed
        # The addresses that a transaction can name, except those of accounts that it opens itself
        self._addresses = {*READ_ONLY, PUMP_FUN_FEES, JITO_TIPS, SOL.mint, DOLLAR.mint}
        self.wallets = tuple(self._address("wallet", number) for number in range(WALLETS))
        self.providers = self.wallets[:PROVIDERS]
        self.holdings: dict[str, Holding] = {}
        self.balances: dict[str, int] = dict.fromkeys(self.wallets, WALLET_SOL * LAMPORTS_PER_SOL)
        self.balances |= {PUMP_FUN_FEES: OTHER_RENT, JITO_TIPS: OTHER_RENT}
        self._held: dict[tuple[str, Mint], str] = {}
        for token, amount in ((SOL, WALLET_SOL), (DOLLAR, WALLET_DOLLARS)):
            self._endow(token, amount * 10**token.decimals)
        self.sol_pools = tuple(
            self._pool((venue, DOLLAR), SOL, price=SOL_USD, depth=depth)
            for venue, depth in (
                (Venue.WHIRLPOOL, 6_000_000.0),
                (Venue.RAYDIUM_CLMM, 4_000_000.0),
                (Venue.RAYDIUM_V4, 2_000_000.0),
            )
        )
        listings = [numbered(number) for number in range(mints)]
        self.listed = tuple(map(self._list, [*listings, *(STORY if has_story else ())]))
        self.mints: Mapping[str, Token] = {
            token.mint: token for token in (SOL, DOLLAR, *(each.token for each in self.listed))
        }
        self.validators = tuple(
            (self._address("validator", number), self._address("vote account", number))
            for number in range(2)
        )
        self.balances |= {voter: 30 * LAMPORTS_PER_SOL for voter, _ in self.validators}

    def held(self, owner: str, token: Token) -> str:
        """Return the address of the token account in which *owner* holds *token*.

        SOL is held as wrapped SOL.
        """
        return self._held[owner, token.mint]

    def lp_account(self, owner: str, pool: Pool) -> str:
        """Return the address of *owner*'s account for the LP token (liquidity shares) of *pool*."""
        return self._held[owner, Mint(pool.parts[LP_MINT])]

    def may_name(self, transaction: MarketTransaction, account: str) -> bool:
        """Return False if *transaction* certainly does not name *account*, otherwise True."""
        return account in self._addresses or account in transaction.before

    def transact(
        self, build: Callable[[], tuple[Invocation, ...]], envelope: Submission
    ) -> MarketTransaction:
        """Apply and return a transaction with the instructions that *build* returns."""
        moved = moves(build())
        balances = self.balances
        before = {envelope.payer: balances[envelope.payer]}
        for source, target, _ in moved:
            for account in (source, target):
                if account and account not in before:
                    before[account] = balances.get(account, 0)
        balances[envelope.payer] -= envelope.fee
        if envelope.failed_at is None:
            self._apply(moved)
            self._forget_closed(before)
        return MarketTransaction(build, envelope, before)

    def _apply(self, moved: Iterable[Move]) -> None:
        balances = self.balances
        for source, target, amount in moved:
            if source:
                balances[source] = balances.get(source, 0) - amount
                assert balances[source] >= 0, f"{source} cannot pay {amount}"
            if target:
                balances[target] = balances.get(target, 0) + amount

    def undo(self, transactions: Iterable[MarketTransaction]) -> None:
        """Undo *transactions*, which must be the newest transactions, newest first."""
        for transaction in transactions:
            self.balances |= transaction.before
            self._forget_closed(transaction.before)

    def _forget_closed(self, accounts: Iterable[str]) -> None:
        """Remove from `balances` the *accounts* that are empty and that no holding names."""
        for account in accounts:
            if not self.balances[account] and account not in self.holdings:
                del self.balances[account]

    def _address(self, *parts: object) -> str:
        """Return the address made from *parts*, and add it to those that transactions may name."""
        made = address(self._seed, *parts)
        self._addresses.add(made)
        return made

    def _list(self, listing: Listing) -> Listed:
        mint = Mint(self._address("mint", listing.symbol))
        token = Token(mint, listing.symbol, listing.decimals, called=listing.called)
        self._endow(token, int(20_000 / listing.price * 10**token.decimals))
        pools = tuple(
            self._pool(
                place,
                token,
                price=listing.price,
                # The pool of a token that leaves its curve receives the balances of the curve.
                depth=0.0 if rank and listing.graduates else DEPTH_USD / (1 + rank),
            )
            for rank, place in enumerate(listing.venues)
        )
        return Listed(token, listing, pools)

    def _endow(self, token: Token, amount: int) -> None:
        for wallet in self.wallets:
            self._open(wallet, token, amount)

    def _open(self, owner: str, token: Token, amount: int, label: str = "held") -> str:
        account = self._address(label, owner, token.mint)
        self.holdings[account] = Holding(owner, token)
        self.balances[account] = amount
        self._held[owner, token.mint] = account
        return account

    def _pool(self, place: tuple[Venue, Token], base: Token, *, price: float, depth: float) -> Pool:
        """Create a pool at *price*, with *depth* US dollars of each token.

        A bonding curve ignores *depth*.
        """
        venue, quote = place
        where = self._address("pool", venue, base.mint, quote.mint)
        parts = tuple(self._address("part", where, number) for number in range(PARTS))
        quote_price = SOL_USD if quote is SOL else 1.0
        base_amount = int(depth / price * 10**base.decimals)
        quote_amount = int(depth / quote_price * 10**quote.decimals)
        quote_vault = where
        authority = RAYDIUM_V4_AUTHORITY if venue is Venue.RAYDIUM_V4 else where
        if venue is Venue.PUMP_FUN:
            # SOL times tokens is the constant product; SOL divided by tokens is the price in SOL.
            sol = (CURVE_PRODUCT * price / quote_price) ** 0.5
            base_amount = int(CURVE_PRODUCT / sol * 10**base.decimals) - VIRTUAL_BASE[venue]
            self.balances[where] = int(sol * 10**quote.decimals) - VIRTUAL_QUOTE[venue]
        else:
            quote_vault = self._vault(authority, quote, where, quote_amount)
        pool = Pool(
            venue=venue,
            address=where,
            base=base,
            quote=quote,
            base_vault=self._vault(authority, base, where, base_amount),
            quote_vault=quote_vault,
            parts=parts,
        )
        self._furnish(pool)
        return pool

    def _vault(self, authority: str, token: Token, pool: str, amount: int) -> str:
        account = self._address("vault", pool, token.mint)
        self.holdings[account] = Holding(authority, token)
        self.balances[account] = amount
        return account

    def _furnish(self, pool: Pool) -> None:
        """Create the accounts that *pool* needs for fees, and accounts for its LP token, if any."""
        if pool.venue is Venue.PUMP_FUN:
            self.balances[pool.parts[0]] = OTHER_RENT
        if pool.venue is Venue.PUMP_SWAP:
            for part in pool.parts[:2]:
                self.holdings[part] = Holding(pool.parts[2], pool.quote)
                self.balances[part] = 0
            lp = Token(Mint(pool.parts[LP_MINT]), "LP", 9)
            for wallet in self.providers:
                self._open(wallet, lp, 0)

    def pools(self) -> Iterator[Pool]:
        """Yield every pool of every token of the simulated market."""
        yield from self.sol_pools
        for listed in self.listed:
            yield from listed.pools
