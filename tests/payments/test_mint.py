"""The service refuses a payment token or treasury that may not receive the full amount."""

from dataclasses import replace

import pytest
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount, TokenAccountState

from mintscope.kit.primitives import Wallet
from mintscope.payments.protocol.envelope import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from mintscope.payments.protocol.memo import (
    FORBIDDEN,
    AccountState,
    UnusablePaymentToken,
    expect_usable_mint,
    expect_usable_treasury,
    extensions,
)
from support.scenes.payments.payment_build import TERMS, keypair

MINT = bytes(Mint(None, 10**12, 6, is_initialized=True))
TERMS_2022 = replace(TERMS, token_program=TOKEN_2022_PROGRAM)
METADATA_POINTER = 18


def classic(data: bytes = MINT) -> AccountState:
    return AccountState(owner=TOKEN_PROGRAM, data=data)


def extended(*kinds: int) -> AccountState:
    entries = b"".join(kind.to_bytes(2, "little") + b"\x04\0" + b"abcd" for kind in kinds)
    data = MINT.ljust(165, b"\0") + b"\x01" + entries
    return AccountState(owner=TOKEN_2022_PROGRAM, data=data)


def token_account(
    mint: Pubkey, owner: Pubkey, state: TokenAccountState = TokenAccountState.Initialized
) -> AccountState:
    return classic(bytes(TokenAccount(mint, owner, 0, None, state, None, 0)))


def test_plain_mints_are_usable() -> None:
    expect_usable_mint(classic(), TERMS)
    expect_usable_mint(AccountState(owner=TOKEN_2022_PROGRAM, data=MINT), TERMS_2022)
    expect_usable_mint(extended(METADATA_POINTER), TERMS_2022)


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_a_mint_with_a_forbidden_extension_is_refused(kind: int) -> None:
    with pytest.raises(UnusablePaymentToken, match=FORBIDDEN[kind]):
        expect_usable_mint(extended(METADATA_POINTER, kind), TERMS_2022)


@pytest.mark.parametrize(
    ("account", "message"),
    [
        (None, "no such account"),
        (AccountState(owner=Wallet("someone"), data=MINT), "its owner is someone"),
        (AccountState(owner=TOKEN_2022_PROGRAM, data=MINT), "set the token program"),
        (classic(b""), "something else"),
        (classic(bytes(82)), "something else"),
        (token_account(TERMS.asset_key, TERMS.pay_to_key), "something else"),
        (classic(bytes(Mint(None, 1, 9, is_initialized=True))), "6 decimals; it has 9"),
    ],
)
def test_an_unusable_mint_is_refused_with_the_reason(
    account: AccountState | None, message: str
) -> None:
    with pytest.raises(UnusablePaymentToken, match=message):
        expect_usable_mint(account, TERMS)


def test_the_treasury_must_exist_and_belong_to_the_payee() -> None:
    stranger = keypair("stranger").pubkey()
    expect_usable_treasury(token_account(TERMS.asset_key, TERMS.pay_to_key), TERMS)
    with pytest.raises(UnusablePaymentToken, match="spl-token create-account"):
        expect_usable_treasury(None, TERMS)
    for account in (
        token_account(TERMS.asset_key, stranger),
        token_account(stranger, TERMS.pay_to_key),
        classic(),
    ):
        with pytest.raises(UnusablePaymentToken, match="correct pay_to"):
            expect_usable_treasury(account, TERMS)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (TokenAccountState.Frozen, "frozen, so every payment would fail: .*spl-token thaw"),
        (TokenAccountState.Uninitialized, "expected a token account that is set up"),
    ],
)
def test_a_frozen_or_uninitialized_treasury_is_refused(
    state: TokenAccountState, message: str
) -> None:
    account = token_account(TERMS.asset_key, TERMS.pay_to_key, state)
    with pytest.raises(UnusablePaymentToken, match=message):
        expect_usable_treasury(account, TERMS)
    cut = classic(account.data[:64])
    with pytest.raises(UnusablePaymentToken, match="set up"):
        expect_usable_treasury(cut, TERMS)


def test_only_complete_extensions_are_read() -> None:
    assert extensions(extended(3, 12).data) == [3, 12]
    assert extensions(extended(3, 12).data[:-6]) == [3]
    assert extensions(MINT) == []
    empty = MINT.ljust(165, b"\0") + b"\x01" + b"\x09\0\0\0"  # its last extension holds nothing
    assert extensions(empty) == [9]
    assert extensions(empty[:-1]) == []
