"""The amount to pay, its purpose and its recipient."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NewType

import msgspec
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

from mintscope.base.pace import BLOCKHASH_BLOCKS
from mintscope.base.primitives import Mint, Wallet

Resource = NewType("Resource", str)  # path and query, as in "/v1/credits/purchase?bundle=50"

_KIND_PARTS: Final = 3  # of a path, the empty one before its first slash included
MAINNET: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
SCHEME: Final = "exact"
TOKEN_PROGRAM: Final = Wallet("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM: Final = Wallet("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
HELD_OPEN_S: Final = 60  # the most that an answer waits for the chain
TRANSACTION_VERSIONS: Final = (0,)  # of payments; unversioned ones are taken, too


class ResourceKind(msgspec.Struct, frozen=True):
    """Resources whose paths begin with the same two parts, as "/v1/token".

    A quote is known to be for a kind even if the resource itself is not known any more.
    """

    path: str


def kind_of(resource: Resource) -> ResourceKind:
    """Return the kind of *resource*."""
    path, _, _ = resource.partition("?")
    return ResourceKind("/".join(path.split("/")[:_KIND_PARTS]))


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms that configuration fixes for every payment.

    network        CAIP-2
    asset          the payment token's mint, pinned; never looked up by name
    token_program  the program that owns the mint, pinned
    pay_to         who owns the treasury account; its key is not on this machine
    fee_payer      who pays the network fee: our hot wallet, never pay_to
    """

    network: str = MAINNET
    asset: Mint
    decimals: int
    token_program: Wallet = TOKEN_PROGRAM
    pay_to: Wallet
    fee_payer: Wallet

    def __post_init__(self) -> None:
        if self.fee_payer == self.pay_to:
            raise ValueError("expected a fee payer that is not paid: its key is on this machine")

    @cached_property
    def asset_key(self) -> Pubkey:
        """The mint, as bytes."""
        return Pubkey.from_string(self.asset)

    @cached_property
    def pay_to_key(self) -> Pubkey:
        """The payee, as bytes."""
        return Pubkey.from_string(self.pay_to)

    @cached_property
    def treasury(self) -> Pubkey:
        """The token account that payments arrive in."""
        return self.token_account(self.pay_to_key)

    def token_account(self, owner: Pubkey) -> Pubkey:
        """Return the account in which *owner* keeps the payment token."""
        program = Pubkey.from_string(self.token_program)
        return get_associated_token_address(owner, self.asset_key, program)


class RecentBlockhash(msgspec.Struct, frozen=True, kw_only=True):
    """A blockhash to sign a payment with.

    blockhash            in base58
    slot                 of the confirmed block that the node answered from
    last_valid_height    above this block height no payment that names it can land
    blocks_left          how many blocks were still to come until then when it was offered
    """

    blockhash: str
    slot: int
    last_valid_height: int
    blocks_left: int = BLOCKHASH_BLOCKS


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """A demand for payment.

    amount           in atoms, to be paid exactly
    memo             the signed quote that the payment must carry (`memo`)
    max_timeout_s    for how long a payment signed now may land, in seconds, at most HELD_OPEN_S
    recent           a blockhash to sign it with; None: the buyer asks a node for one
    """

    terms: Terms
    resource: Resource
    amount: int
    memo: str
    max_timeout_s: int = HELD_OPEN_S
    recent: RecentBlockhash | None = None
