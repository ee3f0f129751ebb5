"""TreasuryHistory over JSON-RPC: what touched the treasury, and what of it we have signed."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from mintscope.base.primitives import Mint, Signature
from mintscope.core.payments.books.treasury import Arrivals
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.settlement import ChainUnavailable, Unintelligible
from mintscope.edges.settlement.node_answers import ConfirmedTransaction, received
from mintscope.edges.settlement.payment_node import PaymentNode

Answer = TypeVar("Answer")

AUDITS_AT_ONCE: Final = 4  # transactions, so that waiting payments are served between them


class RpcTreasury:
    """Implements TreasuryHistory; lives in one event loop.

    terms    of every token that may have been paid with, the payment token's first
    """

    def __init__(self, node: PaymentNode, terms: Sequence[Terms]) -> None:
        self._node = node
        self._terms = terms
        self._audits = asyncio.Semaphore(AUDITS_AT_ONCE)

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        """Return a page of what came after *after* and before *before*, newest first."""
        treasury = str(self._terms_of(asset).treasury)
        page = await self._node.arrivals(treasury, after, before)
        return Arrivals(
            succeeded=[Signature(each.signature) for each in page if each.err is None],
            newest=Signature(page[0].signature) if page else None,
            oldest=Signature(page[-1].signature) if page else None,
        )

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        """Say of each whether we have signed it and it paid us; None where that cannot be read."""
        said = await asyncio.gather(
            *(self._is_sponsored(each) for each in signatures), return_exceptions=True
        )
        return dict(zip(signatures, answered(said, or_else=None), strict=True))

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the transaction as it was sent, None where there is none to be read."""
        try:
            async with self._audits:
                return await self._node.wire(signature)
        except Unintelligible:
            return None

    async def finalized_height(self) -> int:
        """Return the height of the newest block that no fork can take back."""
        return await self._node.height("finalized")

    async def _is_sponsored(self, signature: Signature) -> bool | None:
        try:
            async with self._audits:
                found = await self._node.transaction(signature)
        except Unintelligible:
            return None
        if found is None:
            return None
        if found.transaction.message.account_keys[:1] != [self._terms[0].fee_payer]:
            return False
        try:  # the fee payer may have opened the treasury's account, which is no payment
            return self._received(found) > 0
        except ValueError:
            return None

    def _terms_of(self, asset: Mint | None) -> Terms:
        """Return the terms of the token *asset*; None: of the payment token."""
        return next(each for each in self._terms if asset in {None, each.asset})

    def _received(self, found: ConfirmedTransaction) -> int:
        """Return the atoms that arrived; a payment of ours carries one token alone.

        Raises    ValueError for invalid amounts, and for several tokens
        """
        amounts = [
            received(found, asset=each.asset, treasury=str(each.treasury)) for each in self._terms
        ]
        moved = [amount for amount in amounts if amount]
        if len(moved) > 1:
            raise ValueError("expected one token to arrive; there were several")
        return moved[0] if moved else 0


def answered(answers: Sequence[Answer | BaseException], *, or_else: Answer) -> list[Answer]:
    """Return *answers*; one question that was not answered does not spoil the others.

    Raises    ChainUnavailable where none was answered, and whatever else was raised
    """
    troubles = [each for each in answers if isinstance(each, BaseException)]
    for trouble in troubles:
        if not isinstance(trouble, ChainUnavailable) or len(troubles) == len(answers):
            raise trouble
    return [or_else if isinstance(each, BaseException) else each for each in answers]
