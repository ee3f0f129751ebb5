"""Recognises and adopts payments that a restored store does not know."""

import asyncio
import os
from collections.abc import Iterable, Sequence

from mintscope.base.clock import Clock
from mintscope.core.market.log import LogReader
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.books.orphans import Recognised, SoldItem, recognise
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.redelivery import Secrets
from mintscope.edges.api.offers import bundle_offers, report_offers
from mintscope.edges.settlement.rpc_settlement import RpcSettlement
from mintscope.shell.wiring.stores import Money


def adopter_of(
    chain: RpcSettlement, known: Sequence[Terms], money: Money, reader: LogReader, clock: Clock
) -> Adopter:
    """Build what adopts payments; reports are recognised of those mints that are tracked.

    known    the terms of every token that may have been paid with
    """
    secrets = Secrets.derive(money.pepper, money.roots)

    def recognised(wire: bytes, offers: Iterable[SoldItem]) -> Recognised | None:
        sold = list(offers)
        keys = [each.quote for each in secrets.in_force(clock.now())]
        found = (recognise(wire, sold, terms=each, quote_key=key) for each in known for key in keys)
        return next((each for each in found if each is not None), None)

    async def recognised_anywhere(wire: bytes) -> Recognised | None:
        found = recognised(wire, bundle_offers())
        if found is not None:
            return found
        _, mints = await reader.tracked()
        return await asyncio.to_thread(recognised, wire, report_offers(mints))  # they may be many

    return Adopter(
        records=chain,
        chain=chain,
        store=money.payments,
        adoptions=money.adoptions,
        recognise=recognised_anywhere,
        secrets=secrets,
        clock=clock,
        entropy=os.urandom,
    )
