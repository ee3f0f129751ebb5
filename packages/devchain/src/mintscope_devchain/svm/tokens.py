"""Reads token accounts and mints in the format of SPL Token, and writes them as JSON."""

from typing import Final

from solders.account import Account
from solders.pubkey import Pubkey
from solders.token import ID as TOKEN
from solders.token.state import Mint, TokenAccount, TokenAccountState

from mintscope_devchain.transaction import Json

TOKEN_2022: Final = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
PROGRAMS: Final = {TOKEN: "spl-token", TOKEN_2022: "spl-token-2022"}
MINT_BYTES: Final = 82
ACCOUNT_BYTES: Final = 165
MINT_MARK = b"\x01"
ACCOUNT_MARK = b"\x02"


def read_holding(account: Account | None) -> TokenAccount | None:
    """Return the token account stored in *account*; None if it is not an initialized one."""
    data = _data(account, ACCOUNT_BYTES, ACCOUNT_MARK)
    # Byte 108 is the state of the account; 0 means uninitialized.
    if data is None or data[108] == 0:
        return None
    return TokenAccount.from_bytes(data)


def read_mint(account: Account | None) -> Mint | None:
    """Return the mint stored in *account*; None if the account is not an initialized mint."""
    data = _data(account, MINT_BYTES, MINT_MARK)
    # Byte 45 is 1 if the mint is initialized.
    if data is None or data[45] == 0:
        return None
    return Mint.from_bytes(data)


def _data(account: Account | None, size: int, mark: bytes) -> bytes | None:
    """Return the first *size* bytes of *account*; None if it is not of the kind *mark*.

    An account of exactly *size* bytes is of this kind.  Token-2022 pads an account with extensions
    to the length of a token account; the byte after the padding is the mark of its kind.
    """
    if account is None or account.owner not in PROGRAMS:
        return None
    data = bytes(account.data)
    extended = len(data) > ACCOUNT_BYTES and data[ACCOUNT_BYTES : ACCOUNT_BYTES + 1] == mark
    return data[:size] if len(data) == size or extended else None


def ui_amount(atoms: int, decimals: int) -> Json:
    """Return *atoms* of a token with *decimals* in the form `uiTokenAmount` of JSON-RPC."""
    digits = str(atoms).zfill(decimals + 1)
    split = len(digits) - decimals
    fraction = digits[split:].rstrip("0")
    return {
        "amount": str(atoms),
        "decimals": decimals,
        "uiAmount": atoms / 10**decimals,
        "uiAmountString": digits[:split] + ("." + fraction if fraction else ""),
    }


def parsed_holding(holding: TokenAccount, decimals: int) -> Json:
    """Return *holding*, a token account, in the encoding `jsonParsed` of JSON-RPC."""
    info: Json = {
        "isNative": holding.is_native is not None,
        "mint": str(holding.mint),
        "owner": str(holding.owner),
        "state": "frozen" if holding.state == TokenAccountState.Frozen else "initialized",
        "tokenAmount": ui_amount(holding.amount, decimals),
    }
    if holding.is_native is not None:
        info["rentExemptReserve"] = ui_amount(holding.is_native, decimals)
    if holding.delegate is not None:
        info["delegate"] = str(holding.delegate)
        info["delegatedAmount"] = ui_amount(holding.delegated_amount, decimals)
    if holding.close_authority is not None:
        info["closeAuthority"] = str(holding.close_authority)
    return {"info": info, "type": "account"}


def parsed_mint(mint: Mint) -> Json:
    """Return *mint*, the data of a token, in the encoding `jsonParsed` of JSON-RPC."""
    return {
        "info": {
            "decimals": mint.decimals,
            "freezeAuthority": _text(mint.freeze_authority),
            "isInitialized": mint.is_initialized,
            "mintAuthority": _text(mint.mint_authority),
            "supply": str(mint.supply),
        },
        "type": "mint",
    }


def _text(key: Pubkey | None) -> str | None:
    return None if key is None else str(key)
