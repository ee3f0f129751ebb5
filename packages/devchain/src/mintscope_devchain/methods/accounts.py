"""JSON-RPC methods that read accounts, such as getAccountInfo."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import msgspec
from based58 import b58encode
from solders.account import Account
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount

from mintscope_devchain.methods.params import (
    INVALID_PARAMS,
    AccountOptions,
    ContextOptions,
    RpcError,
    TokenFilter,
    table,
)
from mintscope_devchain.methods.view import View
from mintscope_devchain.svm.tokens import (
    ACCOUNT_BYTES,
    PROGRAMS,
    parsed_holding,
    parsed_mint,
    read_holding,
    read_mint,
    ui_amount,
)
from mintscope_devchain.svm.vm import Vm
from mintscope_devchain.transaction import Json

ACCOUNT_BYTES_MAX: Final = 10 * 1_024 * 1_024
ADDRESSES_MAX: Final = 100
LARGEST_MAX: Final = 20
BASE58_BYTES_MAX: Final = 128
RENT_EPOCH_NEVER: Final = 2**64 - 1


class AccountMethods:
    """JSON-RPC methods that read accounts and token balances."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name = table(
            {
                "getAccountInfo": self._account,
                "getMultipleAccounts": self._accounts,
                "getBalance": self._balance,
                "getTokenAccountBalance": self._token_balance,
                "getTokenSupply": self._supply,
                "getTokenLargestAccounts": self._largest,
                "getTokenAccountsByOwner": self._owned,
                "getMinimumBalanceForRentExemption": self._rent,
            }
        )

    def _account(self, address: Pubkey, options: AccountOptions | None = None) -> Json:
        options = options or AccountOptions()
        view = View(self._vm, options)
        return view.answer(show(view.account(address), options, view.account))

    def _accounts(
        self,
        addresses: Annotated[list[Pubkey], msgspec.Meta(max_length=ADDRESSES_MAX)],
        options: AccountOptions | None = None,
    ) -> Json:
        # The default encoding is base64 in this method, and base58 in the others.
        options = options or AccountOptions()
        if options.encoding is None:
            options = msgspec.structs.replace(options, encoding="base64")
        view = View(self._vm, options)
        return view.answer([show(view.account(each), options, view.account) for each in addresses])

    def _balance(self, address: Pubkey, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        account = view.account(address)
        return view.answer(0 if account is None else account.lamports)

    def _token_balance(self, address: Pubkey, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        holding = read_holding(_existing(view, address))
        if holding is None:
            raise RpcError(INVALID_PARAMS, "Invalid param: not a Token account")
        return view.answer(ui_amount(holding.amount, _mint(view, holding.mint).decimals))

    def _supply(self, address: Pubkey, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        mint = _mint(view, address)
        return view.answer(ui_amount(mint.supply, mint.decimals))

    def _largest(self, address: Pubkey, options: ContextOptions | None = None) -> Json:
        view = View(self._vm, options)
        mint = _mint(view, address)
        held = {
            each: holding.amount
            for each in (*self._vm.bank.token_accounts, *self._vm.held_elsewhere(address))
            if (holding := read_holding(view.account(each))) is not None and holding.mint == address
        }
        largest = sorted(held, key=lambda each: (-held[each], str(each)))[:LARGEST_MAX]
        return view.answer(
            [{"address": str(each), **ui_amount(held[each], mint.decimals)} for each in largest]
        )

    def _owned(
        self, owner: Pubkey, wanted: TokenFilter, options: AccountOptions | None = None
    ) -> Json:
        if (wanted.mint is None) == (wanted.program_id is None):
            raise RpcError(INVALID_PARAMS, "Invalid params: expected one of mint and programId")
        options = options or AccountOptions()
        view = View(self._vm, options)
        if wanted.mint is not None:
            _mint(view, wanted.mint)
        elif wanted.program_id not in PROGRAMS:
            raise RpcError(INVALID_PARAMS, "Invalid param: unrecognized Token program id")
        found = [
            {"pubkey": str(address), "account": show(account, options, view.account)}
            for address, account, holding in _holdings(self._vm, view)
            if holding.owner == owner
            and (wanted.mint is None or holding.mint == wanted.mint)
            and (wanted.program_id is None or account.owner == wanted.program_id)
        ]
        return view.answer(found)

    def _rent(
        self,
        data_bytes: Annotated[int, msgspec.Meta(ge=0, le=ACCOUNT_BYTES_MAX)],
        _: ContextOptions | None = None,
    ) -> int:
        return self._vm.bank.rent_exempt(data_bytes)


def show(
    account: Account | None, options: AccountOptions, read: Callable[[Pubkey], Account | None]
) -> Json | None:
    """Return *account* as getAccountInfo does with *options*; None if *account* is None.

    read     a function that reads another account, such as the mint of a token account
    Raises   RpcError if the data is too long for base58
    """
    if account is None:
        return None
    return {
        "data": _data(account, options, read),
        "executable": account.executable,
        "lamports": account.lamports,
        "owner": str(account.owner),
        "rentEpoch": RENT_EPOCH_NEVER,
        "space": len(account.data),
    }


def _data(
    account: Account, options: AccountOptions, read: Callable[[Pubkey], Account | None]
) -> object:
    data = bytes(account.data)
    if options.encoding == "jsonParsed":
        parsed = _parsed(account, read)
        if parsed is not None:
            return {"program": PROGRAMS[account.owner], "parsed": parsed, "space": len(data)}
    if options.data_slice is not None:
        start = options.data_slice.offset
        data = data[start : start + options.data_slice.length]
    if options.encoding in {"base64", "jsonParsed"}:
        return [b64encode(data).decode(), "base64"]
    if len(data) > BASE58_BYTES_MAX:
        raise RpcError(
            INVALID_PARAMS,
            f"Encoded binary (base 58) data should be less than {BASE58_BYTES_MAX} bytes,"
            " please use Base64 encoding.",
        )
    text = b58encode(data).decode()
    return text if options.encoding is None else [text, "base58"]


def _parsed(account: Account, read: Callable[[Pubkey], Account | None]) -> Json | None:
    # The account has extensions, which only its raw data shows
    if len(account.data) > ACCOUNT_BYTES:
        return None
    mint = read_mint(account)
    if mint is not None:
        return parsed_mint(mint)
    holding = read_holding(account)
    of = None if holding is None else read_mint(read(holding.mint))
    return None if holding is None or of is None else parsed_holding(holding, of.decimals)


def _holdings(vm: Vm, view: View) -> Iterator[tuple[Pubkey, Account, TokenAccount]]:
    for address in vm.bank.token_accounts:
        account = view.account(address)
        holding = read_holding(account)
        if account is not None and holding is not None:
            yield address, account, holding


def _existing(view: View, address: Pubkey) -> Account:
    account = view.account(address)
    if account is None:
        raise RpcError(INVALID_PARAMS, "Invalid param: could not find account")
    return account


def _mint(view: View, address: Pubkey) -> Mint:
    mint = read_mint(_existing(view, address))
    if mint is None:
        raise RpcError(INVALID_PARAMS, "Invalid param: not a Token mint")
    return mint
