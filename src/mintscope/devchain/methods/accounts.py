"""JSON-RPC: what accounts hold."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec
from solders.account import Account
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount

from mintscope.devchain.methods.account_json import Json, show
from mintscope.devchain.methods.params import (
    ADDRESSES_MAX,
    AccountConfig,
    Config,
    Positional,
    TokenFilter,
    method,
)
from mintscope.devchain.methods.rpc import INVALID_PARAMS, Answer, RpcError
from mintscope.devchain.methods.view import View
from mintscope.devchain.svm.tokens import PROGRAMS, read_holding, read_mint, ui_amount
from mintscope.devchain.svm.vm import Vm

ACCOUNT_BYTES_MAX: Final = 10 * 1_024 * 1_024


class _One(Positional, frozen=True):
    address: Pubkey
    config: AccountConfig | None = None


class _Many(Positional, frozen=True):
    addresses: Annotated[list[Pubkey], msgspec.Meta(max_length=ADDRESSES_MAX)]
    config: AccountConfig | None = None


class _Amount(Positional, frozen=True):
    address: Pubkey
    config: Config | None = None


class _Owned(Positional, frozen=True):
    owner: Pubkey
    filter: TokenFilter
    config: AccountConfig | None = None


class _Size(Positional, frozen=True):
    data_bytes: Annotated[int, msgspec.Meta(ge=0, le=ACCOUNT_BYTES_MAX)]
    config: Config | None = None


class AccountMethods:
    """Answers calls about accounts."""

    def __init__(self, vm: Vm) -> None:
        self._vm = vm
        self.by_name: Mapping[str, Answer] = {
            "getAccountInfo": method(_One, self._account),
            "getMultipleAccounts": method(_Many, self._accounts),
            "getBalance": method(_Amount, self._balance),
            "getTokenAccountBalance": method(_Amount, self._token_balance),
            "getTokenSupply": method(_Amount, self._supply),
            "getTokenAccountsByOwner": method(_Owned, self._owned),
            "getMinimumBalanceForRentExemption": method(_Size, self._rent),
        }

    def _account(self, params: _One) -> Json:
        config = params.config or AccountConfig()
        view = View(self._vm, config)
        return view.answer(show(view.account(params.address), config, view.account))

    def _accounts(self, params: _Many) -> Json:
        # The default here is base64, unlike everywhere else.
        config = params.config or AccountConfig()
        if config.encoding is None:
            config = msgspec.structs.replace(config, encoding="base64")
        view = View(self._vm, config)
        shown = [show(view.account(address), config, view.account) for address in params.addresses]
        return view.answer(shown)

    def _balance(self, params: _Amount) -> Json:
        view = View(self._vm, params.config)
        account = view.account(params.address)
        return view.answer(0 if account is None else account.lamports)

    def _token_balance(self, params: _Amount) -> Json:
        view = View(self._vm, params.config)
        account = _existing(view, params.address)
        holding = read_holding(account)
        if holding is None:
            raise RpcError(INVALID_PARAMS, "Invalid param: not a Token account")
        mint = _mint(view, holding.mint)
        return view.answer(ui_amount(holding.amount, mint.decimals))

    def _supply(self, params: _Amount) -> Json:
        view = View(self._vm, params.config)
        mint = _mint(view, params.address)
        return view.answer(ui_amount(mint.supply, mint.decimals))

    def _owned(self, params: _Owned) -> Json:
        wanted = params.filter
        if (wanted.mint is None) == (wanted.program_id is None):
            raise RpcError(INVALID_PARAMS, "Invalid params: expected one of mint and programId")
        config = params.config or AccountConfig()
        view = View(self._vm, config)
        if wanted.mint is not None:
            _mint(view, wanted.mint)
        elif wanted.program_id not in PROGRAMS:
            raise RpcError(INVALID_PARAMS, "Invalid param: unrecognized Token program id")
        found = [
            {"pubkey": str(address), "account": show(account, config, view.account)}
            for address, account, holding in _holdings(self._vm, view)
            if holding.owner == params.owner
            and (wanted.mint is None or holding.mint == wanted.mint)
            and (wanted.program_id is None or account.owner == wanted.program_id)
        ]
        return view.answer(found)

    def _rent(self, params: _Size) -> int:
        return self._vm.bank.rent_exempt(params.data_bytes)


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
