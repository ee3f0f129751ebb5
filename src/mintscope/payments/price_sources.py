"""Sources of the payment token's price: feeds, and the reserves of pools."""

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Annotated, Final, NamedTuple

import httpx
import msgspec
import structlog
from solders.pubkey import Pubkey

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable, Undecodable, UnusableStore, decode_json
from mintscope.kit.http_client import open_client, read_body
from mintscope.kit.metrics import CLOCK_SKEW_S, TOKEN_USD
from mintscope.kit.primitives import Mint, UnixMs, Wallet
from mintscope.kit.time import HOUR_S
from mintscope.market.log import LogReader
from mintscope.payments.node import PaymentNode
from mintscope.payments.ports import ChainUnavailable, PaymentChain
from mintscope.payments.price_cache import (
    PoolReserves,
    PriceSource,
    TokenReserves,
    market_of,
    minutes_of,
)
from mintscope.payments.pricing import (
    Doubt,
    Quote,
    is_clock_right,
    price_of_feed,
    price_of_market,
)
from mintscope.payments.protocol.envelope import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from mintscope.payments.protocol.memo import TOKEN_ACCOUNT_BYTES, UnusablePaymentToken
from mintscope.solana.blocks import DOLLARS, WSOL, Endpoint

log = structlog.get_logger()

READ_S: Final = 4.0
SOL_PRICE_S_MAX: Final = float(HOUR_S)
ANSWER_BYTES_MAX: Final = 256 * 1024
EXPONENT_MAX: Final = 32
FIGURE_LENGTH_MAX: Final = 64  # the most characters of a price


@dataclass(eq=False, repr=False)
class MarketPrice:
    """A PriceSource that computes the payment token's price from its own trades and pools."""

    reader: LogReader
    reserves: PoolReserves
    _: KW_ONLY
    asset: Mint
    decimals: int
    dollars: frozenset[Mint] = DOLLARS

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or the reason why it is unknown."""
        try:
            async with asyncio.timeout(READ_S):
                return await self._read(now)
        except (ChainUnavailable, UnusablePaymentToken, TimeoutError) as trouble:
            log.warning("no price of the payment token", reason=str(trouble))
        except Exception as trouble:  # noqa: BLE001  any failure of any store is tried again
            log.warning("no price of the payment token", reason=repr(trouble))
        return Doubt.NO_ANSWER

    async def _read(self, now: UnixMs) -> Quote | Doubt:
        tip, token, sol, reserves = await asyncio.gather(
            self.reader.tip(),
            self.reader.load(self.asset),
            self.reader.load(WSOL),
            self.reserves.read(),
        )
        if tip.time is None:
            return Doubt.LAGGING
        if token is None or sol is None:
            return Doubt.NO_TRADE
        lag_s = now / 1000 - tip.time
        market = market_of(
            token, sol, reserves, decimals=self.decimals, lag_s=lag_s, dollars=self.dollars
        )
        return price_of_market(market, now)


class _Pyth(msgspec.Struct, frozen=True):
    class Parsed(msgspec.Struct, frozen=True):
        """The price of one feed."""

        class Price(msgspec.Struct, frozen=True):
            """The price at *publish_time* (Unix seconds): *price* x 10^*expo*."""

            price: Annotated[str, msgspec.Meta(max_length=FIGURE_LENGTH_MAX)]
            expo: int
            publish_time: Annotated[int, msgspec.Meta(ge=0, le=2**53)]

        price: Price

    parsed: list[Parsed]


_PYTH: Final = msgspec.json.Decoder(_Pyth)


class FeedPrice:
    """A price source that reads a token's price from a Hermes server of Pyth."""

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = url
        self._http = open_client(timeout_s=READ_S, transport=transport)

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the feed's price if it is fresh, or the reason why it is unknown."""
        try:
            async with asyncio.timeout(READ_S):
                reading = _reading(await self._get())
        except (TimeoutError, httpx.HTTPError, Undecodable, ArithmeticError) as trouble:
            log.warning("no price of the payment token", reason=type(trouble).__name__)
            return Doubt.NO_ANSWER
        return Doubt.NOT_A_PRICE if reading is None else price_of_feed(*reading, now=now)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _get(self) -> bytes:
        async with self._http.stream("GET", self._url) as answer:
            answer.raise_for_status()
            return await read_body(answer, bytes_max=ANSWER_BYTES_MAX)


def _reading(body: bytes) -> tuple[Decimal, UnixMs] | None:
    """Return the price in *body*, in USD, and its time.

    Return None if there is not exactly one price, or if its |exponent| is above EXPONENT_MAX.

    Raises    Undecodable if *body* has another form; ArithmeticError if the price is not a number
    """
    parsed = decode_json(body, _PYTH).parsed
    if len(parsed) != 1 or abs(parsed[0].price.expo) > EXPONENT_MAX:
        return None
    price = parsed[0].price
    return Decimal(price.price).scaleb(price.expo), UnixMs(price.publish_time * 1000)


@dataclass(frozen=True)
class SolPrice:
    """A SolSource that returns the last price of SOL in the swaps that this service has read."""

    reader: LogReader

    async def read(self, now: UnixMs) -> Decimal | None:
        """Return the last price of SOL; None if it is more than an hour old, or unknown."""
        try:
            async with asyncio.timeout(READ_S):
                loaded = await self.reader.load(WSOL)
        except Exception as trouble:  # noqa: BLE001  any failure of any store is tried again
            log.warning("no price of SOL", reason=repr(trouble))
            return None
        minutes = () if loaded is None else minutes_of(loaded)
        if not minutes or now / 1000 - minutes[-1].start > SOL_PRICE_S_MAX:
            return None
        return Decimal(repr(minutes[-1].close))


@dataclass(eq=False, repr=False)
class TrueClock:
    """A price source that has no price while the clock differs too much from the chain's time.

    Quotes expire by this clock.  If no node answers, the result of the last comparison counts.
    """

    source: PriceSource
    chain: PaymentChain
    clock: Clock
    _is_right: bool = True

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or the reason why it is unknown."""
        await self._compare()
        return await self.source.read(now) if self._is_right else Doubt.CLOCK

    async def _compare(self) -> None:
        try:
            block_time_s = await self.chain.block_time_s()
        except ChainUnavailable as trouble:
            log.warning("the clock cannot be compared with the chain's", reason=str(trouble))
            return
        skew_s = self.clock.now() / 1000 - block_time_s
        CLOCK_SKEW_S.set(skew_s)
        was_right = self._is_right
        self._is_right = is_clock_right(skew_s)
        if not self._is_right:
            log.error("the clock and the chain's disagree", skew_s=round(skew_s, 1))
        elif not was_right:
            log.info("the clock and the chain's agree again", skew_s=round(skew_s, 1))


@dataclass(eq=False, repr=False)
class OwnChain:
    """A price source that has no price while payments settle on another chain than the swap log's.

    If the node or the log does not answer, the result of the last comparison counts.  A log that
    names no chain is accepted.
    """

    source: PriceSource
    chain: PaymentChain
    reader: LogReader
    _is_own: bool = True

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or the reason why it is unknown."""
        try:
            other = await other_chain(self.chain, self.reader)
        except (ChainUnavailable, ServiceUnavailable, UnusableStore) as trouble:
            log.warning("the chain of payments cannot be compared", reason=str(trouble))
        else:
            self._is_own = other is None
            if other is not None:
                log.error("payments settle on another chain", reason=other)
        return await self.source.read(now) if self._is_own else Doubt.OTHER_CHAIN


async def other_chain(chain: PaymentChain, reader: LogReader) -> str | None:
    """Return a message if payments settle on another chain than the log names; else None.

    None is also returned if the log names no chain.

    Raises    ChainUnavailable if no node answers; ServiceUnavailable if the log does not answer;
              UnusableStore if ingest has not created the log yet
    """
    followed = (await reader.tip()).genesis_hash
    if followed is None:
        return None
    settled_on = await chain.genesis_hash()
    if settled_on == followed:
        return None
    return (
        f"expected a node of the chain that is followed, genesis hash {followed}; was"
        f" {settled_on}: another cluster? Nothing is sold on it"
    )


@dataclass(eq=False, repr=False)
class UsableToken:
    """A price source that has no price while *asset* or its treasury account is unusable.

    If no node answers, the result of the last check counts; before the first result, *asset* is
    unusable.  The price of the payment token is also recorded as a metric, 0 if it is unknown.

    asset    the mint of the token; None: the payment token
    """

    source: PriceSource
    chain: PaymentChain
    asset: Mint | None = None
    _is_usable: bool = False

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or the reason why it is unknown."""
        found: Quote | Doubt = Doubt.BROKEN
        try:
            await self._look()
            found = await self.source.read(now) if self._is_usable else Doubt.UNUSABLE
        except Exception:
            log.exception("request for the price of the payment token failed")
        if self.asset is None:
            TOKEN_USD.set(float(found.usd) if isinstance(found, Quote) else 0)
        return found

    async def _look(self) -> None:
        """Ask the chain whether the token is usable; if no node answers, keep the old result."""
        try:
            await self.chain.expect_usable(self.asset)
        except UnusablePaymentToken as trouble:
            log.warning("the payment token cannot be used", reason=str(trouble))
            self._is_usable = False
        except ChainUnavailable as trouble:
            log.warning("the payment token cannot be read", reason=str(trouble))
        else:
            self._is_usable = True


_MINT: Final = slice(0, 32)
_AMOUNT: Final = slice(64, 72)


class Vaults(NamedTuple):
    """The token accounts of a pool: *base* holds the token, *quote* the other token."""

    base: Wallet
    quote: Wallet


class RpcReserves:
    """Reads the token accounts of pools that trade *base*; used in one event loop.

    pools     the two token accounts of each pool
    dollars   mints besides SOL that *base* can be traded for, each with 6 decimals
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        base: Mint,
        pools: Sequence[Vaults],
        dollars: frozenset[Mint] = DOLLARS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._node = PaymentNode(endpoint, transport)
        self._base = base
        self._pools = pools
        self._quotes = dollars | {WSOL}

    async def read(self) -> TokenReserves:
        """Return the reserves of the token's pools, added up.

        Raises    ChainUnavailable; UnusablePaymentToken if an account is not the expected vault
        """
        held = await asyncio.gather(
            *(self._balance(vault) for pool in self._pools for vault in pool)
        )
        quotes: dict[Mint, int] = {}
        for pool, (base, _), (quote, amount) in zip(
            self._pools, held[::2], held[1::2], strict=True
        ):
            if base != self._base or quote not in self._quotes:
                raise UnusablePaymentToken(
                    f"pool {pool.base}:{pool.quote}: expected vaults of {self._base} and of SOL or"
                    f" one of market.dollars; they hold {base} and {quote}: correct payments.pools"
                )
            quotes[quote] = quotes.get(quote, 0) + amount
        return TokenReserves(base=sum(amount for _, amount in held[::2]), quotes=quotes)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._node.aclose()

    async def _balance(self, vault: Wallet) -> tuple[Mint, int]:
        account = await self._node.account(vault)
        is_token_account = (
            account is not None
            and account.owner in {TOKEN_PROGRAM, TOKEN_2022_PROGRAM}
            and len(account.data) >= TOKEN_ACCOUNT_BYTES
        )
        if account is None or not is_token_account:
            raise UnusablePaymentToken(
                f"pool vault {vault}: expected a token account: correct payments.pools"
            )
        mint = Mint(str(Pubkey.from_bytes(account.data[_MINT])))
        return mint, int.from_bytes(account.data[_AMOUNT], "little")
