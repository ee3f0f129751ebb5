"""Shows the simulated market's accounts as a node stores them: vaults, mints, names, wallets.

Their state after the newest block is shown at each commitment.  Only the market changes these
accounts: the virtual machine has its own accounts, which hide those of the market at the same
addresses.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from solders.account import Account
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM
from solders.token.state import Mint, TokenAccount, TokenAccountState

from mintscope.solana.blocks import WSOL
from mintscope_devchain.addresses import METAPLEX
from mintscope_devchain.market.pool import Token
from mintscope_devchain.market.world import World
from mintscope_devchain.shapes.bytes import keys, string, u8
from mintscope_devchain.transaction import OTHER_RENT, TOKEN_ACCOUNT_RENT, Holding

NAMES: Final = {"SOL": "Wrapped SOL", "USDC": "USD Coin"}
METADATA_V1: Final = 4  # the first byte of Metaplex's account `Metadata`


def account(world: World, address: Pubkey) -> Account | None:
    """Return the account at *address*; None if the market has no account there."""
    key = str(address)
    token = world.mints.get(key)
    if token is not None:
        return _mint(world, token)
    named = _places_of_names(tuple(world.mints.values())).get(key)
    if named is not None:
        return _name(named)
    balance = world.balances.get(key)
    if balance is None:
        return None
    holding = world.holdings.get(key)
    return Account(balance, b"", SYSTEM) if holding is None else _tokens(holding, balance)


def token_accounts(world: World, mint: Pubkey) -> Iterator[Pubkey]:
    """Yield the addresses of all accounts of the simulated market that hold the token *mint*."""
    of = str(mint)
    return (
        Pubkey.from_string(key) for key, held in world.holdings.items() if held.token.mint == of
    )


def _mint(world: World, token: Token) -> Account:
    held = (key for key, holding in world.holdings.items() if holding.token == token)
    supply = sum(world.balances[key] for key in held)
    mint = Mint(None, supply, token.decimals, is_initialized=True)
    return Account(OTHER_RENT, bytes(mint), Pubkey.from_string(token.program))


@lru_cache(maxsize=4)
def _places_of_names(tokens: tuple[Token, ...]) -> dict[str, Token]:
    """Return *tokens* by the address of the Metaplex account that stores the name of each."""
    program = Pubkey.from_string(METAPLEX)
    seeds = {each: [b"metadata", bytes(program), keys(each.mint)] for each in tokens}
    return {
        str(Pubkey.find_program_address(parts, program)[0]): token for token, parts in seeds.items()
    }


def _name(token: Token) -> Account:
    """Return the account in which Metaplex stores the name and symbol of *token*."""
    symbol = token.called or token.symbol
    name = NAMES.get(symbol, symbol.capitalize())
    data = u8(METADATA_V1) + keys(token.mint, token.mint) + string(name) + string(symbol)
    return Account(OTHER_RENT, data, Pubkey.from_string(METAPLEX))


def _tokens(holding: Holding, amount: int) -> Account:
    mint = Pubkey.from_string(holding.token.mint)
    owner = Pubkey.from_string(holding.owner)
    reserve = TOKEN_ACCOUNT_RENT if holding.token.mint == WSOL else None
    state = TokenAccountState.Initialized
    tokens = TokenAccount(mint, owner, amount, None, state, reserve, 0)
    lamports = TOKEN_ACCOUNT_RENT + (amount if reserve is not None else 0)
    return Account(lamports, bytes(tokens), Pubkey.from_string(holding.token.program))
