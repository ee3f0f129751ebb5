"""The pools of the simulated market: their tokens, and one trade in a pool."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from mintscope.kit.primitives import Mint, UnixS
from mintscope_devchain.addresses import SPL

BASIS_POINTS = 10_000


class Venue(StrEnum):
    """The DEX programs whose pools the simulated market has."""

    PUMP_FUN = "pumpfun"
    PUMP_SWAP = "pumpswap"
    RAYDIUM_V4 = "raydium_v4"
    RAYDIUM_CLMM = "raydium_clmm"
    WHIRLPOOL = "orca_whirlpool"
    METEORA_DLMM = "meteora_dlmm"


FEE_BPS = {
    Venue.PUMP_FUN: 0,  # its fees are charged apart: see `pumpfun.swap`
    Venue.PUMP_SWAP: 20,
    Venue.RAYDIUM_V4: 25,
    Venue.RAYDIUM_CLMM: 4,
    Venue.WHIRLPOOL: 4,
    Venue.METEORA_DLMM: 10,
}
# Virtual reserves, in raw units: a bonding curve adds them to its balances to compute a price.
VIRTUAL_BASE = {Venue.PUMP_FUN: 73_000_000_000_000}
VIRTUAL_QUOTE = {Venue.PUMP_FUN: 30_000_000_000}


class Token(NamedTuple):
    """A mint and its properties in the market.

    called   its symbol on chain, which may be that of another token; "": the same as *symbol*
    """

    mint: Mint
    symbol: str
    decimals: int
    program: str = SPL
    called: str = ""


class Reserves(NamedTuple):
    """The base and quote reserves of a pool, in raw units; they determine its price."""

    base: int
    quote: int


class Pool(NamedTuple):
    """A constant-product pool that looks like a pool of *venue*.

    parts   the addresses of the other accounts of the pool; their order depends on *venue*
    """

    venue: Venue
    address: str
    base: Token
    quote: Token
    base_vault: str
    quote_vault: str
    parts: tuple[str, ...]

    def reserves(self, balances: Mapping[str, int]) -> Reserves:
        """Return the reserves that set the pool's price, including its virtual ones.

        balances   the balances of all accounts, such as the pool's vaults
        """
        return Reserves(
            balances[self.base_vault] + VIRTUAL_BASE.get(self.venue, 0),
            balances[self.quote_vault] + VIRTUAL_QUOTE.get(self.venue, 0),
        )

    def amount_out(self, reserves: Reserves, amount_in: int, *, is_buy: bool) -> int:
        """Return the amount that the pool pays for *amount_in*, after its fee.

        *is_buy* means that quote tokens are paid for base tokens.
        """
        net = amount_in * (BASIS_POINTS - FEE_BPS[self.venue]) // BASIS_POINTS
        have, want = (reserves.quote, reserves.base) if is_buy else reserves
        return want * net // (have + net)


class Fill(NamedTuple):
    """A swap of the simulated market, as a decoder must find it; amounts are in raw units.

    is_buy       whether the trader buys the base with the quote
    amount_in    the amount that the pool receives
    amount_out   the amount that it pays
    reserves     the reserves before the trade
    source       the account of the trader that pays
    target       the account of the trader that receives
    """

    pool: Pool
    trader: str
    is_buy: bool
    amount_in: int
    amount_out: int
    reserves: Reserves
    source: str
    target: str
    at: UnixS

    @property
    def received(self) -> Token:
        """The token that the trader pays to the pool."""
        return self.pool.quote if self.is_buy else self.pool.base

    @property
    def paid(self) -> Token:
        """The token that the pool pays to the trader."""
        return self.pool.base if self.is_buy else self.pool.quote

    @property
    def vault_in(self) -> str:
        """The address of the vault that receives the payment of the trader."""
        return self.pool.quote_vault if self.is_buy else self.pool.base_vault

    @property
    def vault_out(self) -> str:
        """The address of the pool's vault from which the trader is paid."""
        return self.pool.base_vault if self.is_buy else self.pool.quote_vault

    @property
    def held(self) -> tuple[str, str]:
        """The addresses of the trader's accounts for the base and for the quote token."""
        return (self.target, self.source) if self.is_buy else (self.source, self.target)

    @property
    def amounts(self) -> tuple[int, int]:
        """The amounts of base and quote that are exchanged."""
        both = self.amount_in, self.amount_out
        return both[::-1] if self.is_buy else both

    @property
    def after(self) -> Reserves:
        """The reserves of the pool after the trade."""
        base, quote = self.amounts if self.is_buy else (-amount for amount in self.amounts)
        return Reserves(self.reserves.base - base, self.reserves.quote + quote)
