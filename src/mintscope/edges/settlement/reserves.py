"""Reserves of the pools of a token now, read from their vaults."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

import httpx
from solders.pubkey import Pubkey

from mintscope.base.primitives import Mint, Wallet
from mintscope.base.solana import DOLLARS, WSOL, Endpoint
from mintscope.core.payments.pricing.token_market import TokenReserves
from mintscope.core.payments.protocol.mint import TOKEN_ACCOUNT_BYTES, UnusablePaymentToken
from mintscope.core.payments.protocol.requirement import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from mintscope.edges.settlement.payment_node import PaymentNode

_MINT: Final = slice(0, 32)
_AMOUNT: Final = slice(64, 72)


class Vaults(NamedTuple):
    """The two token accounts of a pool: of the token, and of what it is traded for."""

    base: Wallet
    quote: Wallet


class RpcReserves:
    """Reads the vaults of *pools*, which trade *base*; lives in one event loop.

    dollars   the mints beside SOL that *base* may be traded for, each of 6 decimals
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
        """Return what all the pools hold together.

        Raises    ChainUnavailable; UnusablePaymentToken for what is not such a vault
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
