"""The largest holders of a token."""

import msgspec

from mintscope_client.results.series import AmountOfToken


class TokenHolder(msgspec.Struct, frozen=True):
    """One of the largest accounts.

    owner   None if the account could not be read
    share   of the supply, 0 to 1; None for a supply of 0
    kind    "burned", "locked", "pool" or "other"
    name    of the burn address, locker or exchange
    """

    account: str
    owner: str | None
    amount: AmountOfToken
    share: float | None
    kind: str
    name: str | None


NAMES = {
    "supply_without_burned": "supplyWithoutBurned",
    "top20_share": "top20Share",
    "read_at": "readAt",
}


class TokenHolders(msgspec.Struct, frozen=True, rename=NAMES):
    """The 20 largest accounts of a token, the largest first.

    burned        at burn addresses, among these accounts
    top20_share   of `supply_without_burned` in these accounts that are of no known kind
    read_at       when the node was asked, Unix seconds
    """

    token: str
    holders: list[TokenHolder]
    supply: AmountOfToken
    burned: AmountOfToken
    supply_without_burned: AmountOfToken
    top20_share: float | None
    slot: int
    read_at: int
