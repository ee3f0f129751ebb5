"""Whether a mint can be a payment token: what is asked of the chain once, at the start.

A transfer must bring what it says.  Extensions that take a fee, run foreign
code, let another party take the tokens back or hide the amount forbid that.
"""

from typing import Final

import msgspec

from mintscope.base.errors import NeedsOperator
from mintscope.base.primitives import Wallet
from mintscope.core.payments.protocol.requirement import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, Terms

MINT_BYTES: Final = 82
TOKEN_ACCOUNT_BYTES: Final = 165
DECIMALS_AT: Final = 44
IS_INITIALIZED_AT: Final = 45
ACCOUNT_STATE_AT: Final = 108
USABLE, FROZEN = 1, 2  # states of a token account; 0 is one that was never set up
EXTENSIONS_AT: Final = TOKEN_ACCOUNT_BYTES + 1  # after the account type
ACCOUNT_TYPE_MINT: Final = b"\x01"
# Extension types of Token-2022 that break "what is sent arrives, and stays".
FORBIDDEN: Final = {
    1: "a transfer fee",
    4: "confidential transfers",
    6: "accounts that are frozen when opened",
    9: "tokens that cannot be transferred",
    12: "a permanent delegate",
    14: "a transfer hook",
    16: "a confidential transfer fee",
    26: "a pause switch",
}


class UnusablePaymentToken(NeedsOperator):
    """The service must not start selling; the message says how to fix it."""


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    """An account as the chain has it."""

    owner: Wallet
    data: bytes


def expect_usable_mint(account: AccountState | None, terms: Terms) -> None:
    """Compare the payment token's mint with *terms*.  Raises UnusablePaymentToken."""
    where = f"payment token {terms.asset}"
    if account is None:
        raise UnusablePaymentToken(f"{where}: expected a mint; the chain has no such account")
    if account.owner not in {TOKEN_PROGRAM, TOKEN_2022_PROGRAM}:
        raise UnusablePaymentToken(
            f"{where}: expected a mint of an SPL token program; its owner is {account.owner}"
        )
    if account.owner != terms.token_program:
        raise UnusablePaymentToken(
            f"{where}: expected token program {terms.token_program}; was {account.owner}:"
            " set the token program in the configuration to it"
        )
    data = account.data
    is_mint = (
        len(data) == MINT_BYTES or data[TOKEN_ACCOUNT_BYTES:EXTENSIONS_AT] == ACCOUNT_TYPE_MINT
    )
    if not is_mint or data[IS_INITIALIZED_AT] != 1:
        raise UnusablePaymentToken(f"{where}: expected a mint; the account is something else")
    if data[DECIMALS_AT] != terms.decimals:
        raise UnusablePaymentToken(
            f"{where}: expected {terms.decimals} decimals; it has {data[DECIMALS_AT]}:"
            " correct the configuration"
        )
    broken = [FORBIDDEN[kind] for kind in extensions(data) if kind in FORBIDDEN]
    if broken:
        raise UnusablePaymentToken(
            f"{where}: it has {', '.join(broken)}, so a payment may not bring what it says:"
            " choose another payment token, USDC for instance"
        )


def expect_usable_treasury(account: AccountState | None, terms: Terms) -> None:
    """Expect the account that payments go to.  Raises UnusablePaymentToken."""
    if account is None:
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury} does not exist, so every payment would fail:"
            f" create it once with `spl-token create-account {terms.asset}"
            f" --owner {terms.pay_to} --fee-payer <any funded keypair>`"
        )
    holds = account.data[:64]
    expected = bytes(terms.asset_key) + bytes(terms.pay_to_key)
    if account.owner != terms.token_program or holds != expected:
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury}: expected an account of {terms.pay_to}"
            f" for {terms.asset}; it is something else: correct pay_to in the configuration"
        )
    state = account.data[ACCOUNT_STATE_AT : ACCOUNT_STATE_AT + 1]
    if state == bytes([FROZEN]):
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury} is frozen, so every payment would fail: ask the"
            f" freeze authority of {terms.asset} to run `spl-token thaw {terms.treasury}`, or set"
            " payments.pay_to to another wallet"
        )
    if state != bytes([USABLE]):
        raise UnusablePaymentToken(
            f"treasury account {terms.treasury}: expected a token account that is set up; it is"
            " not: correct pay_to in the configuration"
        )


def extensions(data: bytes) -> list[int]:
    """Return the extension types of a Token-2022 mint, as far as they can be read."""
    kinds = []
    at = EXTENSIONS_AT
    while at + 4 <= len(data):
        kind = int.from_bytes(data[at : at + 2], "little")
        length = data[at + 2 : at + 4]
        if kind == 0:
            break
        kinds.append(kind)
        at += 4 + int.from_bytes(length, "little")
    return kinds
