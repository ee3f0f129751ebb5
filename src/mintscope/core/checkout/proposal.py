"""A payment that is written out for a wallet that only signs, as wallets in browsers do.

Nothing is kept of it: once it is signed, it is presented and checked like any other payment.
"""

from enum import Enum, auto

import msgspec
from solders.pubkey import Pubkey

from mintscope.base.primitives import Mint
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.checkout.order import Order
from mintscope.core.payments.protocol.build import build
from mintscope.core.payments.protocol.envelope import Envelope, open_envelope
from mintscope.core.payments.protocol.requirement import Requirement
from mintscope.core.payments.settlement import (
    ChainUnavailable,
    Failing,
    Rejected,
    Simulated,
    TreasuryUnusable,
    UnknownBlockhash,
)


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A payment that would succeed now; *transaction* lacks both signatures."""

    requirement: Requirement
    transaction: bytes


class NotProposed(Enum):
    """Why no payment is written out for a wallet."""

    OURS = auto()  # it is the one that is paid, or the one that pays the fees
    UNFUNDED = auto()  # it has no account for the payment token, or too little in it
    REJECTED = auto()  # the chain would not take the payment
    CHAIN = auto()  # the chain does not answer, or is behind
    TREASURY = auto()  # the seller's account takes no payments


async def propose(
    merchant: Merchant, order: Order, payer: Pubkey, asset: Mint, *, address: str
) -> Proposal | NotProposed:
    """Write out the payment of *order* by the wallet *payer* in *asset*, and try it.

    address    the client's: anyone can name any wallet
    Raises     PriceUnavailable
    """
    requirement, chain = await merchant.quote_in(order, asset), merchant.facilitator.chain
    terms = requirement.terms
    if str(payer) in {terms.pay_to, terms.fee_payer}:
        return NotProposed.OURS
    if not await merchant.facilitator.may_try(address):
        return NotProposed.CHAIN
    try:
        transaction = build(requirement, payer, await chain.recent_blockhash())
        envelope = open_envelope(transaction)
        assert isinstance(envelope, Envelope)
        trial = await chain.simulate(envelope, terms.token_account(payer))
    except ChainUnavailable:
        return NotProposed.CHAIN
    if isinstance(trial, Simulated):
        return Proposal(requirement=requirement, transaction=transaction)
    return _why(trial)


def _why(trial: Failing) -> NotProposed:
    match trial:
        case Rejected(is_unfunded=is_unfunded):
            return NotProposed.UNFUNDED if is_unfunded else NotProposed.REJECTED
        case TreasuryUnusable():
            return NotProposed.TREASURY
        case UnknownBlockhash():
            return NotProposed.CHAIN
