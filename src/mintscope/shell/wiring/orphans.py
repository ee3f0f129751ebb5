"""What recognises and adopts payments that a restored store does not know."""

import asyncio
import os
from functools import partial

from mintscope.base.clock import Clock
from mintscope.core.market.log import LogReader
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.books.orphans import Recognised, recognise
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.redelivery import Secrets
from mintscope.edges.api.offers import bundle_offers, report_offers
from mintscope.edges.settlement.rpc_settlement import RpcSettlement
from mintscope.shell.wiring.stores import Money


def adopter_of(
    chain: RpcSettlement, terms: Terms, money: Money, reader: LogReader, clock: Clock
) -> Adopter:
    """Build what adopts payments; reports are recognised of those mints that are tracked."""
    secrets = Secrets.derive(money.pepper)
    recognised = partial(recognise, terms=terms, quote_key=secrets.quote)

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
