"""The token that is taken, its recipient and the payer of network fees, as configured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from solders.keypair import Keypair

from mintscope.base.errors import NeedsOperator
from mintscope.base.primitives import Mint, Wallet
from mintscope.client.keypair import parse_keypair, read_keypair
from mintscope.core.payments.protocol.requirement import TOKEN_PROGRAM, Terms
from mintscope.core.secrets.guessing import flaw_of_key
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.secrecy import expect_closed

USDC_DECIMALS: Final = 6


class CannotSell(NeedsOperator):
    """The configuration cannot sell; the message says why, and how to fix it."""


def terms_of(payments: PaymentsConfig, fee_payer: Keypair) -> Terms:
    """Return the terms of every payment.  Raises CannotSell."""
    if payments.pay_to is None:
        raise CannotSell("payments.pay_to: expected the treasury's wallet; none is configured")
    if str(fee_payer.pubkey()) == payments.pay_to:
        raise CannotSell(
            "payments.pay_to: expected another wallet than the fee payer's, whose key is on this"
            " machine: name the treasury"
        )
    return Terms(
        network=payments.network,
        asset=Mint(payments.asset),
        decimals=payments.decimals,
        token_program=Wallet(payments.token_program),
        pay_to=Wallet(payments.pay_to),
        fee_payer=Wallet(str(fee_payer.pubkey())),
    )


def known_terms(payments: PaymentsConfig, fee_payer: Keypair) -> Sequence[Terms]:
    """Return the terms of the payment token, and of USDC beside it, whether or not it is taken.

    Payments in USDC are settled and recognised also once it is no longer taken.
    Raises    CannotSell
    """
    terms = terms_of(payments, fee_payer)
    if payments.usdc_mint == payments.asset:
        return (terms,)
    usdc = replace(
        terms,
        asset=Mint(payments.usdc_mint),
        decimals=USDC_DECIMALS,
        token_program=TOKEN_PROGRAM,
    )
    return (terms, usdc)


def accepted_terms(payments: PaymentsConfig, known: Sequence[Terms]) -> Sequence[Terms]:
    """Return those of the *known* terms that are offered.  Raises CannotSell."""
    if payments.also_usdc and len(known) == 1:
        raise CannotSell(
            "payments.also_usdc: expected a payment token other than USDC; payments.asset is USDC:"
            " take also_usdc out"
        )
    return known if payments.also_usdc else known[:1]


def fee_payer_of(payments: PaymentsConfig) -> Keypair:
    """Return the key that pays the network fees.

    Raises UnusableKeypair; OpenSecret if others may read its file; CannotSell if there is none,
    or one that others can guess.
    """
    if payments.fee_payer_key is not None:
        return parse_keypair(payments.fee_payer_key.get_secret_value())
    if payments.fee_payer_file is None:
        raise CannotSell("payments.fee_payer_file: expected a key that pays the network fees")
    expect_closed(payments.fee_payer_file)
    keypair = read_keypair(payments.fee_payer_file)
    flaw = flaw_of_key(keypair.secret())
    if flaw is not None:
        raise CannotSell(
            f"payments.fee_payer_file: expected a key of your own in {payments.fee_payer_file};"
            f" {flaw}"
        )
    return keypair
