"""Accounts, as RPC shows them."""

from base64 import b64encode
from collections.abc import Callable
from typing import Final

from based58 import b58encode
from solders.account import Account
from solders.pubkey import Pubkey

from mintscope.devchain.methods.params import AccountConfig
from mintscope.devchain.methods.rpc import INVALID_PARAMS, RpcError
from mintscope.devchain.svm.tokens import (
    ACCOUNT_BYTES,
    PROGRAMS,
    parsed_holding,
    parsed_mint,
    read_holding,
    read_mint,
)

Json = dict[str, object]

BASE58_BYTES_MAX: Final = 128
RENT_EPOCH_NEVER: Final = 2**64 - 1


def show(
    account: Account | None, config: AccountConfig, read: Callable[[Pubkey], Account | None]
) -> Json | None:
    """Return *account* as *config* wants it; *read* finds the mint of a token account."""
    if account is None:
        return None
    return {
        "data": _data(account, config, read),
        "executable": account.executable,
        "lamports": account.lamports,
        "owner": str(account.owner),
        "rentEpoch": RENT_EPOCH_NEVER,
        "space": len(account.data),
    }


def _data(
    account: Account, config: AccountConfig, read: Callable[[Pubkey], Account | None]
) -> object:
    data = bytes(account.data)
    if config.encoding == "jsonParsed":
        parsed = _parsed(account, read)
        if parsed is not None:
            return {"program": PROGRAMS[account.owner], "parsed": parsed, "space": len(data)}
    if config.data_slice is not None:
        start = config.data_slice.offset
        data = data[start : start + config.data_slice.length]
    if config.encoding in {"base64", "jsonParsed"}:
        return [b64encode(data).decode(), "base64"]
    if len(data) > BASE58_BYTES_MAX:
        raise RpcError(
            INVALID_PARAMS,
            f"Encoded binary (base 58) data should be less than {BASE58_BYTES_MAX} bytes,"
            " please use Base64 encoding.",
        )
    text = b58encode(data).decode()
    return text if config.encoding is None else [text, "base58"]


def _parsed(account: Account, read: Callable[[Pubkey], Account | None]) -> Json | None:
    if len(account.data) > ACCOUNT_BYTES:  # extensions, which only the raw data shows
        return None
    mint = read_mint(account)
    if mint is not None:
        return parsed_mint(mint)
    holding = read_holding(account)
    of = None if holding is None else read_mint(read(holding.mint))
    return None if holding is None or of is None else parsed_holding(holding, of.decimals)
