"""Answers to build a client with, always the same: a report, and a demand for a payment.

Nothing is sold here.  The demand is on Solana's test network, to an address that has no key, so
that a payment that is signed for it moves nothing of value wherever it gets to.
"""

from functools import cache
from hashlib import sha256
from typing import Final

import msgspec
import numpy as np
from solders.pubkey import Pubkey

from mintscope.base.primitives import Mint, Slot, UnixS, Wallet
from mintscope.base.time import HOUR_S
from mintscope.core.market.basis.price_basis import PriceBasis
from mintscope.core.market.coverage import ReadShare, ReportCoverage, window_start
from mintscope.core.market.engine.engine import Engine
from mintscope.core.market.engine.kernels import Trades
from mintscope.core.market.report import ReadReport, tag_of, token_report
from mintscope.core.market.standing import HourFlow
from mintscope.core.payments.protocol.headers import decode_payment, encode_refused, encode_required
from mintscope.core.payments.protocol.refusal import RefusalReason
from mintscope.core.payments.protocol.requirement import Requirement, Resource, Terms
from mintscope.edges.api.wire import AcceptedAsset, HowToPay

DEVNET: Final = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
DEVNET_USDC: Final = Mint("4zMMC9srt5Ri5X14GAgXhaHPii3GnPAEERYPJgZJDncDU")
ATOMS: Final = 2_500
MEMO: Final = "demo-demo-demo-demo-demo-demo-00"
RESOURCE: Final = Resource("/v1/demo/402")

SLOT: Final = Slot(350_000_000)
START: Final = UnixS(1_750_000_020)  # of a minute
SWAPS: Final = 12_100  # one a minute: more than the 200 hours that every indicator needs


def keyless(what: str) -> str:
    """Return an address made of a text: no one has its key."""
    return str(Pubkey(sha256(f"mintscope demo {what}".encode()).digest()))


DEMO_MINT: Final = Mint(keyless("token"))
TERMS: Final = Terms(
    network=DEVNET,
    asset=DEVNET_USDC,
    decimals=6,
    pay_to=Wallet(keyless("seller")),
    fee_payer=Wallet(keyless("fee payer")),
)


@cache
def demo_report() -> ReadReport:
    """Return the report of a token that does not exist: every value is there.

    Made by the engine from made-up swaps whose prices go up and down, in steps that every machine
    computes alike.
    """
    n = np.arange(SWAPS, dtype=np.int64)
    waves = np.abs(n % 360 - 180) * 3 + np.abs(n % 14 - 7) * 5 + n * 7_919 % 11
    usd = (waves + 1_000) / 40_000.0
    times = START + 60 * n
    engine = Engine(1)
    now = UnixS(int(times[-1]))
    volumes = 1_000_000 + n * 104_729 % 9_000_000
    engine.apply(Trades(np.zeros_like(n), times, usd, usd / 160.0, volumes, n * 31 % 9 % 2 == 0))
    values = engine.snapshot(0, now)
    report = token_report(DEMO_MINT, values, now, _coverage(now), basis=_basis(now))
    body = msgspec.json.encode(report)
    return ReadReport(body, SLOT, 0, tag_of(values, report.price), report.price.age_ms)


def _basis(now: UnixS) -> PriceBasis:
    return PriceBasis(
        pool=keyless("pool"),
        at=now,
        since=START,
        depth=1_843_210_500_000,
        pool_count=3,
        is_agreed=True,
        flow=HourFlow(now // HOUR_S, taken=998, rejected=2, taken_before=0, rejected_before=0),
    )


def _coverage(now: UnixS) -> ReportCoverage:
    return ReportCoverage(
        from_=window_start(now),
        to=now,
        token=ReadShare(1.0, 1.0),
        overall=ReadShare(0.9987, 0.9992),
        missing_slots=0,
        skipped_slots=12,
    )


def demo_demand(origin: str, why: str) -> str:
    """Return PAYMENT-REQUIRED of the demo, which says *why*."""
    demand = Requirement(terms=TERMS, resource=RESOURCE, amount=ATOMS, memo=MEMO)
    return encode_required(demand, origin=origin, error=why)


def how_to_pay_demo(origin: str) -> HowToPay:
    """Return the same terms as they stand in the body."""
    accepted = AcceptedAsset(
        asset=TERMS.asset,
        symbol="USDC",
        decimals=TERMS.decimals,
        amount=str(ATOMS),
        network=TERMS.network,
        pay_to=TERMS.pay_to,
    )
    buy = f"{origin}/v1/credits/purchase?bundle=10"
    return HowToPay(price_usd="0.0025", accepts=[accepted], read=f"{origin}/llms.txt", buy=buy)


def demo_refusal(header: str) -> str:
    """Return PAYMENT-RESPONSE to a payment: nothing of it is looked at but its form.

    Raises InvalidPayment where that is wrong, as wherever a payment is taken.
    """
    decode_payment(header)
    return encode_refused(TERMS, reason=RefusalReason.DEMO, signature="")
