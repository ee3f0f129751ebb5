"""Look-ups on chain of payments that support searches for; nothing is changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mintscope.base.clock import Clock
from mintscope.base.errors import NeedsOperator, ServiceUnavailable, UnusableStore
from mintscope.base.primitives import Signature
from mintscope.client.keypair import UnusableKeypair
from mintscope.core.payments.books.search import Seen
from mintscope.core.payments.payment import Landed
from mintscope.core.payments.settlement import ChainUnavailable
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.payments import open_adopter
from mintscope.shell.wiring.stores import Money, open_market


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainAnswers:
    """The answers of the node.

    why_not    why the node was not asked, "" if it was
    """

    seen: Mapping[Signature, Seen] = field(default_factory=dict)
    why_not: str = ""


async def ask_chain(
    config: Config, money: Money, clock: Clock, signatures: Sequence[Signature], *, has_row: bool
) -> ChainAnswers:
    """Return the sightings of *signatures* on chain, as many as one search finds.

    has_row    they are payments of ours; else each is checked for that
    """
    if not signatures:
        return ChainAnswers()
    try:
        async with (
            open_market(config) as market,
            open_adopter(config, money=money, reader=market.reader, clock=clock) as adopter,
        ):
            sightings = await adopter.chain.look(signatures)
            seen = [Seen(sighting=each) for each in sightings]
            if has_row or not isinstance(sightings[0], Landed):
                return ChainAnswers(seen=dict(zip(signatures, seen, strict=True)))
            wire = await adopter.records.recorded(signatures[0])
            recognised = None if wire is None else await adopter.recognise(wire)
            bought = None if recognised is None else recognised.offer.name
            return ChainAnswers(seen={signatures[0]: Seen(sighting=sightings[0], bought=bought)})
    except (NeedsOperator, UnusableKeypair, UnusableStore, ServiceUnavailable) as trouble:
        return ChainAnswers(why_not=str(trouble))
    except ChainUnavailable as trouble:
        return ChainAnswers(why_not=f"the chain's node does not answer: {trouble}")
