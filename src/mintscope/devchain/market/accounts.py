"""The accounts of the market, as JSON-RPC shows them: vaults, mints, wallets.

They are shown as they are now, at every commitment, and no transaction of the
virtual machine finds them: the market moves them by itself.
"""

from solders.account import Account
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.token.state import Mint, TokenAccount, TokenAccountState

from mintscope.base.solana import WSOL
from mintscope.devchain.market.pool import Token
from mintscope.devchain.market.world import World
from mintscope.devchain.transaction import OTHER_RENT, TOKEN_ACCOUNT_RENT, Holding


def account(world: World, address: Pubkey) -> Account | None:
    """Return what the market has at *address*."""
    key = str(address)
    token = world.mints.get(key)
    if token is not None:
        return _mint(world, token)
    balance = world.balances.get(key)
    if balance is None:
        return None
    holding = world.holdings.get(key)
    return Account(balance, b"", SYSTEM) if holding is None else _tokens(holding, balance)


def _mint(world: World, token: Token) -> Account:
    held = (key for key, holding in world.holdings.items() if holding.token == token)
    supply = sum(world.balances[key] for key in held)
    mint = Mint(None, supply, token.decimals, is_initialized=True)
    return Account(OTHER_RENT, bytes(mint), Pubkey.from_string(token.program))


def _tokens(holding: Holding, amount: int) -> Account:
    mint, owner = Pubkey.from_string(holding.token.mint), Pubkey.from_string(holding.owner)
    reserve = TOKEN_ACCOUNT_RENT if holding.token.mint == WSOL else None
    state = TokenAccountState.Initialized
    tokens = TokenAccount(mint, owner, amount, None, state, reserve, 0)
    lamports = TOKEN_ACCOUNT_RENT + (amount if reserve is not None else 0)
    return Account(lamports, bytes(tokens), Pubkey.from_string(holding.token.program))
