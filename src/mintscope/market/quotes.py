"""Quote assets, and the age of the rate of SOL.

Dollars   USDC, USDT and the configured dollars count as one dollar while they are on their peg
SOL       at the rate of the slot
Tokens    liquid staking tokens and mints with a robust price, at that price, which must be set in
          dollars or SOL

Peg       a dollar is off its peg while its price in its own market is more than PEG_MAX away from
          the median of all dollars that traded recently.  USDC and USDT count unless their own
          market is off the peg; other dollars count only while their market, with a trade within
          PEG_FRESH_S, is on the peg.
Staking   a listed token with a fresh price of STAKED_SOL_MIN to STAKED_SOL_MAX SOL
Robust    a token that has had a price for an hour, and whose price was set directly within
          ROBUST_FRESH_S by a pool whose swaps are usually at most ten seconds apart; trades
          against it do not count as volume, because a private pool can meet these conditions.  A
          listed staking token needs only a fresh price, and trades against it count.
Behind    the reserves in the pools of a token limit the depth of each pool that is quoted in this
          token: anyone can make a token and call a billion of it a billion dollars.  The limit is
          1 / POOLS_BEHIND of the reserves, because several pools quoted in the token may show the
          same money.  Pools of the token that have not traded within ROBUST_FRESH_S do not count:
          their reserves may be gone

All of this is a function of the price pools of each mint, so a fork does not change it, nor does a
restart if the log has the price pools of all mints.
"""

from collections.abc import Callable, Mapping
from statistics import median_high, median_low
from typing import Final, NamedTuple

from mintscope.dex.outcome import Oriented, QuoteKind, Swap
from mintscope.kit.primitives import Mint, UnixS
from mintscope.kit.time import MINUTE_S
from mintscope.market.standing import AGREEMENT, OLD_S, Standing, counts_at
from mintscope.solana.blocks import DOLLARS, STAKING_TOKENS, USDC, USDT, WSOL

PEG_MAX: Final = 0.01
PEG_FRESH_S: Final = 900  # an older price of a dollar does not count
JUDGED_MIN: Final = 3  # dollars; two alone do not show which one is off its peg
TRUSTED: Final = frozenset({USDC, USDT})
STAKED_FRESH_S: Final = 300
STAKED_SOL_MIN: Final = 0.8  # the least and the greatest price of a staking token in SOL
STAKED_SOL_MAX: Final = 2.0
ROBUST_FRESH_S: Final = 60
ROBUST_AGE_S: Final = 3_600
ROBUST_PAUSE_S: Final = 10.0
POOLS_BEHIND: Final = 10
NO_QUOTE: Final = 4
KIND_OF_RANK: Final = (QuoteKind.USD, QuoteKind.SOL, QuoteKind.TOKEN, QuoteKind.TOKEN, None)

Decided = Callable[[Mint], Standing | None]


class _Token(NamedTuple):
    """A token that can be a quote, in which other tokens are priced.

    usd      the USD of one whole token
    behind   the most liquidity that counts for a pool quoted in it, see `Quotes.behind`
    """

    usd: float
    behind: int | None


class QuoteMints(NamedTuple):
    """The mints that an operator allows as quote tokens, which state the price of other tokens.

    SOL and tokens with a robust price are quote tokens, too.
    """

    dollars: frozenset[Mint] = DOLLARS
    staking: frozenset[Mint] = STAKING_TOKENS


class Quotes:
    """The mints that can be the quote token of a swap, which states its price; their values.

    decided   returns the price pools of a mint; None if it has no price
    dollars   the mints that count as one dollar
    off_peg   the deviation of each dollar from the median of all dollars, see `off_peg`
    """

    def __init__(
        self,
        decided: Decided = lambda _: None,
        time: UnixS = UnixS(0),  # noqa: B008 - a number
        mints: QuoteMints = QuoteMints(),  # noqa: B008 - immutable
    ) -> None:
        self._decided = decided
        self._time = time
        self._staking = mints.staking
        # Each value stays as it was read first: later swaps of the slot do not change it.
        self._tokens: dict[Mint, _Token | None] = {}
        self._ranks: dict[Mint, int] = {}
        self.off_peg = off_peg(_fresh(decided, time, mints.dollars), mints.dollars)
        self.dollars = _on_peg(self.off_peg, mints.dollars)

    def kind(self, mint: Mint) -> QuoteKind | None:
        """Return the kind of *mint* as a quote token: a dollar, SOL or another token.

        The quote token of a swap states its price.  None: *mint* cannot be one.
        """
        return KIND_OF_RANK[self.rank(mint)]

    def rank(self, mint: Mint) -> int:
        """Return a number that decides which of a swap's two mints is the quote token.

        The quote token, which states the price, is the mint with the lower number: 0 a dollar, 1
        SOL, 2 a staking token, 3 a token with a robust price.  A mint with 4 cannot be one.
        """
        rank = self._ranks.get(mint)
        if rank is None:
            rank = self._ranks[mint] = self._rank(mint)
        return rank

    def _rank(self, mint: Mint) -> int:
        if mint in self.dollars:
            return 0
        if mint == WSOL:
            return 1
        if self._token(mint) is None:
            return NO_QUOTE
        return 2 if mint in self._staking else 3

    def worth(self, mint: Mint) -> float:
        """Return the USD of one whole token of *mint*, which must have the kind TOKEN.

        It is neither SOL nor a dollar token.
        """
        token = self._token(mint)
        assert token is not None
        return token.usd

    def behind(self, mint: Mint) -> int | None:
        """Return the most liquidity, in micro-USD, that counts for a pool that is quoted in *mint*.

        None if there is no limit: *mint* is a staking token that the operator lists.  *mint* must
        be neither SOL nor a dollar token.
        """
        token = self._token(mint)
        assert token is not None
        return token.behind

    def pools(self, mint: Mint) -> set[str]:
        """Return the names of the pools in which *mint* is known to trade."""
        known = self._decided(mint)
        return set() if known is None else {pool.pool for pool in known.pools}

    def counts_pool(self, mint: Mint, pool: str) -> bool:
        """Return whether swaps in *pool* can set the price of *mint* at this point of the slot."""
        return counts_at(self._decided(mint), pool, self._time)

    def counts_volume(self, mint: Mint) -> bool:
        """Return whether trades of other tokens against the token *mint* count as volume.

        Only those against staking tokens do.  *mint* must have the kind TOKEN: not be SOL or a
        dollar.
        """
        return mint in self._staking

    def _token(self, mint: Mint) -> _Token | None:
        if mint not in self._tokens:
            self._tokens[mint] = self._quote_token(mint)
        return self._tokens[mint]

    def _quote_token(self, mint: Mint) -> _Token | None:
        decided = self._decided(mint)
        # A price that was set through another token must not set further prices: they could depend
        # on each other in a loop.
        if decided is None or not decided.is_direct:
            return None
        age_s = self._time - decided.at
        if mint in self._staking:
            # Otherwise, pushing the thin market of a staking token would multiply the depth of all
            # pools that are quoted in it.
            is_anchor = age_s <= STAKED_FRESH_S and self._is_near_sol(decided.usd)
            return _Token(decided.usd, None) if is_anchor else None
        is_robust = (
            age_s <= ROBUST_FRESH_S
            and self._time - decided.since >= ROBUST_AGE_S
            and decided.pause_s <= ROBUST_PAUSE_S
        )
        return _Token(decided.usd, _behind(decided, self._time)) if is_robust else None

    def _is_near_sol(self, usd: float) -> bool:
        """Return whether *usd* is a possible price of a staking token; True if SOL has no price."""
        sol = self._decided(WSOL)
        return sol is None or STAKED_SOL_MIN <= usd / sol.usd <= STAKED_SOL_MAX


def _behind(decided: Standing, time: UnixS) -> int:
    """Return the part of a token's liquidity that counts for pools that are quoted in the token.

    It is 1 / POOLS_BEHIND of the reserves of those of its pools that are near its price, in
    micro-USD. Pools that have not traded within ROBUST_FRESH_S do not count.  The reserves of a
    pool younger than OLD_S count in proportion to its age.

    decided   the pools of the token
    """
    low = decided.usd / (1 + AGREEMENT)
    high = decided.usd * (1 + AGREEMENT)
    stands = sum(
        one.depth * min(one.stood_s, OLD_S)
        for one in decided.pools
        if low <= one.usd <= high and time - one.at <= ROBUST_FRESH_S
    )
    return stands // (OLD_S * POOLS_BEHIND)


def off_peg(prices: Mapping[Mint, float], dollars: frozenset[Mint]) -> dict[Mint, float]:
    """Return the deviation of each dollar token's price from their median; 0.01 is 1 % above it.

    The result is empty if there are fewer than JUDGED_MIN prices.

    prices    the USD of those *dollars* that traded within PEG_FRESH_S; if USDC or USDT is not
              among them, its price is taken to be 1
    dollars   the mints of dollar tokens, such as USDC
    """
    judged = dict.fromkeys(dollars & TRUSTED, 1.0) | dict(prices)
    if len(judged) < JUDGED_MIN:
        return {}
    # Of two middle prices, take the one nearer to 1: half of the dollars must not move the median.
    both = median_low(judged.values()), median_high(judged.values())
    middle = min(both, key=lambda price: abs(price - 1.0))
    return {dollar: price / middle - 1.0 for dollar, price in judged.items()}


def _fresh(decided: Decided, time: UnixS, dollars: frozenset[Mint]) -> dict[Mint, float]:
    """Return the USD price of each of *dollars* whose price was set at most PEG_FRESH_S ago.

    decided   returns the last price of a mint, and its time
    """
    prices: dict[Mint, float] = {}
    for dollar in dollars:
        known = decided(dollar)
        if known is not None and time - known.at <= PEG_FRESH_S:
            prices[dollar] = known.usd
    return prices


def _on_peg(off: Mapping[Mint, float], dollars: frozenset[Mint]) -> frozenset[Mint]:
    """Return those of *dollars* that count as one dollar now.

    off   the deviation of each from the median, see `off_peg`
    """
    if not off:
        return dollars & TRUSTED
    return frozenset(dollar for dollar, share in off.items() if abs(share) <= PEG_MAX)


BASIC: Final = Quotes()
"""The quotes if no market is known: USDC, USDT and SOL."""


def oriented(swap: Swap, quotes: Quotes = BASIC) -> Oriented | None:
    """Return *swap* with its base, the token that is priced, and its quote, which prices the base.

    None if neither can be the quote.  The quote is the mint of lower rank.  Of two dollars, the
    quote is the one that the pool paid out.  Two tokens of the same rank do not price each other,
    so prices never depend on each other in a loop.
    """
    received = quotes.rank(swap.in_mint)
    paid = quotes.rank(swap.out_mint)
    if received == paid != 0:
        return None
    into = (swap.in_mint, swap.in_amount, swap.in_decimals)
    out = (swap.out_mint, swap.out_amount, swap.out_decimals)
    kind = KIND_OF_RANK[min(paid, received)]
    assert kind is not None
    if paid <= received:
        return Oriented(kind, *into, *out, False, swap.out_left)  # noqa: FBT003 - a sale
    return Oriented(kind, *out, *into, True, swap.in_left)  # noqa: FBT003 - a purchase


# SOL trades in every block.  Without a trade for `pricing.RATE_AGE_MAX_S` there is no rate, and
# swaps have no price and no volume.  A warning about an old rate is logged earlier.
RATE_LATE_S: Final = MINUTE_S // 2


class RateAge:
    """Measures how old the rate of SOL in dollars is, by the effective times of slots."""

    def __init__(self) -> None:
        self._since: UnixS | None = None
        self._newest: UnixS | None = None

    def note(self, time: UnixS, rated_at: UnixS | None) -> None:
        """Record the *time* of the newest slot, and the age of the SOL rate that applies to it.

        rated_at   time of the newest trade on which this rate is based; None: there is no rate
        """
        if rated_at is not None:
            self._since = rated_at
        elif self._since is None:
            self._since = time
        self._newest = time

    @property
    def seconds(self) -> int:
        """The age of the SOL rate: seconds from the newest trade it is based on to the newest slot.

        It is counted from the first slot if no slot had a rate, and is 0 before the first slot.
        """
        if self._since is None or self._newest is None:
            return 0
        return max(0, self._newest - self._since)

    @property
    def is_late(self) -> bool:
        """Whether the rate of SOL is so old that swaps have no price, or will soon have none."""
        return self.seconds > RATE_LATE_S
