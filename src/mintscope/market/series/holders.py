"""The largest holders of a mint, and the kind of each, without I/O.

A node returns the 20 largest accounts of a mint.  An account has one of these kinds, or is `other`:

burned   the owner is the incinerator or the system program: no token ever leaves it
locked   the owner is an account of a program that locks or vests tokens: see LOCKERS
pool     the account is a vault of a pool of this mint in the pool book, or the owner is an account
         or the authority of an exchange in `dex.programs`

An owner whose address is a public key is neither locked nor a pool: its holder can assign it to any
program, and still move the tokens with the private key.  If the mint has a permanent delegate, who
can move anyone's tokens, no owner is burned or locked.

Sources of LOCKERS: the addresses that the programs' own SDKs and documents publish.  Accounts of
other lockers are shown without a name, like any other account.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from solders.pubkey import Pubkey

from mintscope.dex.programs import TABLE
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.market.engine.pool_book import BookedPool

HOLDERS_MAX: Final = 20  # the most accounts that a node returns
BURNED: Final = {
    "1nc1nerator11111111111111111111111111111111": "incinerator",
    "11111111111111111111111111111111": "system program",
}
LOCKERS: Final = {
    "strmRqUCoQUgGUan5YhzUZa6KqdzwX5L6FpUxfmKg5m": "Streamflow",
    "LocpQgucEQHbqNABEYvBvwoxCPsSbG91A1QaQhQQqjn": "Jupiter Lock",
    "LockrWmn6K5twhz3y9w1dQERbmgSaRkfnTeTKbpofwE": "Raydium lock",
    "CChTq6PthWU82YZkbveA3WDf7s97BWhBK4Vx9bmsT743": "Bonfida vesting",
}
EXCHANGES: Final = {one.address: one.name for one in TABLE if one.swaps and not one.is_pooled}
VENUES: Final = frozenset(EXCHANGES.values())
AUTHORITIES: Final = {one.authority: one.name for one in TABLE if one.authority is not None}
# Offsets in the data of accounts; SPL Token and Token-2022 have the same.
OWNER_AT: Final = 32
AMOUNT_AT: Final = 64
ACCOUNT_BYTES: Final = 72  # the length up to the end of the amount
SUPPLY_AT: Final = 36
MINT_BYTES: Final = 45  # the length up to the end of the decimals
KEY_BYTES: Final = 32


def no_holders(mint: Mint) -> "Holders | None":  # noqa: ARG001
    """Return None: no holders of *mint* are stored."""
    return None


class HolderKind(StrEnum):
    """The kind of the owner of a token account.

    Whether the owner is a pool also depends on the pool book of the mint.
    """

    BURNED = "burned"
    LOCKED = "locked"
    POOL = "pool"
    OTHER = "other"


class Holder(NamedTuple):
    """One of the largest token accounts of a mint.

    account  the address of the token account
    owner    the address that may move the tokens; None if it is unknown
    amount   in raw units
    kind     what the owner is, such as a pool or a burn address
    name     the name of the burn address, the locker or the exchange; None for other owners
    """

    account: str
    owner: str | None
    amount: int
    kind: HolderKind
    name: str | None


class Holders(NamedTuple):
    """The largest token accounts of a mint, the largest first, as of a slot.

    supply   the supply of the mint in raw units
    """

    holders: Sequence[Holder]
    supply: int
    decimals: int
    slot: Slot
    read_at_ms: UnixMs

    @property
    def burned(self) -> int:
        """The raw amount of the token in those of these accounts that burn addresses own."""
        return sum(one.amount for one in self.holders if one.kind is HolderKind.BURNED)


def owner_of(data: bytes) -> str | None:
    """Return the owner in the *data* of a token account; None if *data* is too short."""
    if len(data) < ACCOUNT_BYTES:
        return None
    return str(Pubkey.from_bytes(data[OWNER_AT : OWNER_AT + KEY_BYTES]))


def amount_of(data: bytes) -> int:
    """Return the number of raw token units in *data*, the bytes of a token account."""
    return int.from_bytes(data[AMOUNT_AT : AMOUNT_AT + 8], "little")


def supply_in(data: bytes) -> tuple[int, int] | None:
    """Return supply and decimals in the *data* of a mint; None if *data* is too short."""
    if len(data) < MINT_BYTES:
        return None
    return int.from_bytes(data[SUPPLY_AT : SUPPLY_AT + 8], "little"), data[MINT_BYTES - 1]


def named(
    account: str,
    owner: str | None,
    amount: int,
    programs: Mapping[str, str],
    booked: Sequence[BookedPool],
) -> Holder:
    """Return *account* as a holder of a mint, with its kind: a pool, a locker or another.

    amount     the raw units in the account
    programs   by address of an owner, the program that owns the account at this address
    booked     the pools of the mint in the pool book
    """
    if owner is None:
        return Holder(account, owner, amount, HolderKind.OTHER, None)
    if owner in BURNED:
        return Holder(account, owner, amount, HolderKind.BURNED, BURNED[owner])
    for pool in booked:
        if pool.venue not in VENUES:  # anyone can write a program whose accounts look like pools
            continue
        # A pool without an address of its own is named by its vaults, joined by a plus sign.
        if owner == pool.pool or account in pool.pool.split("+"):
            return Holder(account, owner, amount, HolderKind.POOL, pool.venue)
    has_private_key = Pubkey.from_string(owner).is_on_curve()
    program = "" if has_private_key else programs.get(owner, "")
    if program in LOCKERS:
        return Holder(account, owner, amount, HolderKind.LOCKED, LOCKERS[program])
    exchange = AUTHORITIES.get(owner) or EXCHANGES.get(program)
    if exchange is not None:
        return Holder(account, owner, amount, HolderKind.POOL, exchange)
    return Holder(account, owner, amount, HolderKind.OTHER, None)


def without_safety(holder: Holder) -> Holder:
    """Return *holder* as one of a mint with a permanent delegate: neither burned nor locked."""
    if holder.kind in {HolderKind.BURNED, HolderKind.LOCKED}:
        return holder._replace(kind=HolderKind.OTHER, name=None)
    return holder


def is_same_mint(data: bytes, mint: Mint) -> bool:
    """Return whether the token account in *data* is of *mint*."""
    return len(data) >= ACCOUNT_BYTES and str(Pubkey.from_bytes(data[:KEY_BYTES])) == mint
