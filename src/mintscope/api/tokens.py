"""Free data about tokens: demo report and demo 402, metadata, picture.

Nothing is sold here.  The demo 402 demands a payment on Solana's devnet, to an address without a
key, so a payment that is signed for it moves nothing of value on any network.

Each mint has a picture drawn from its bytes; no picture is downloaded from third parties.

A picture has five by five squares, the left half mirrored, in one of 360 hues.  It distinguishes
mints at a glance but proves nothing: of a few thousand mints, two have a similar picture.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from solders.pubkey import Pubkey

from mintscope.api.discovery.operation import Operation
from mintscope.api.v1 import CHECKED, Freshness
from mintscope.api.wire import AcceptedAsset, Failure, HowToPay, Wire, success_with_body
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode, InvalidPayment, PaymentFailed, PaymentRequired
from mintscope.kit.http.rate_limit import AddressLimit
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import MICRO_USD, Mint, Slot, UnixMs, UnixS, Wallet, about
from mintscope.kit.time import HOUR_S, SECOND_MS, iso_time
from mintscope.market.coverage import ReadShare, ReportCoverage, window_start
from mintscope.market.engine.engine import Engine
from mintscope.market.engine.given import Trades
from mintscope.market.mint_facts import PROGRAM_NAMES, MintFacts
from mintscope.market.report import Price, ReadReport, TokenReport, tag_of, token_report
from mintscope.market.screening.listed import ListLine, Sort
from mintscope.market.screening.look_alikes import cleaned, hides
from mintscope.market.standing import HourFlow
from mintscope.market.standings import PriceBasis
from mintscope.payments.protocol.envelope import (
    TOKEN_PROGRAM,
    RefusalReason,
    Requirement,
    Resource,
    Terms,
)
from mintscope.payments.protocol.headers import (
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    PAYMENT_SIGNATURE,
    decode_payment,
    encode_refused,
    encode_required,
)
from mintscope.solana.blocks import WSOL

PAGE_MAX: Final = 100


class ListQuery(Wire):
    """Query of GET /v1/tokens."""

    query: Annotated[
        str,
        msgspec.Meta(
            max_length=64,
            description="Part of the name or symbol, in any case; or the beginning of the mint.",
        ),
    ] = ""
    sort: Annotated[
        Sort,
        msgspec.Meta(
            description="Volume and change are of a day, age since it is tracked. Tokens without"
            " a value come last."
        ),
    ] = Sort.VOLUME
    order: Annotated[
        Literal["asc", "desc"], msgspec.Meta(description="asc: the least first; desc: the most.")
    ] = "desc"
    limit: Annotated[
        int, msgspec.Meta(ge=1, le=PAGE_MAX, description="Tokens on a page, at most.")
    ] = 50
    cursor: Annotated[
        str,
        msgspec.Meta(
            max_length=512,
            description="`nextCursor` of the page before, to the same query, sort and order.",
        ),
    ] = ""


class PriceChange(Wire):
    """The changes of a price over 5 minutes, an hour and a day."""

    m5: Annotated[
        float | None,
        about(
            "Over 5 minutes, as a fraction: 0.05 is 5 % more; null: the token is too young.", 0.004
        ),
    ]
    h1: Annotated[
        float | None, about("Over an hour, as a fraction; null: the token is too young.", 0.012)
    ]
    d1: Annotated[
        float | None,
        about(
            "Over a day, as a fraction; for a younger token since its first price"
            " (changeSince); null before that.",
            -0.05,
        ),
    ]


MULTIPLIED: Final = (
    "How many tokens wallets show for each that the mint counts, now (ScaledUiAmount of"
    " Token-2022); null: one. All prices and amounts are of tokens as the mint counts them: a price"
    " divided by this is that of a token as wallets show it."
)


NAME_CLEANED: Final = (
    "Whether name or symbol held characters that are never shown, as control or zero-width ones:"
    " they are left out here."
)
LOOK_ALIKE: Final = (
    "The mint of a token of which more is traded in a day, and whose symbol or name is the same"
    " once characters that look alike (Unicode TR39), their case and spaces are folded; null:"
    " there is none."
)


class ListedToken(Wire):
    """One token of the list; unknown values are null."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    name: Annotated[str | None, about("Its name, as the chain says.", "Wrapped SOL")]
    symbol: Annotated[str | None, about("Its symbol, as the chain says.", "SOL")]
    decimals: Annotated[int | None, about("Its decimals.", 9)]
    price: Annotated[
        Price | None,
        about("Of one whole token, at its newest swap that is final; its age is as of asOf."),
    ]
    change: Annotated[PriceChange, about("How the price has changed.")]
    volume_usd_d1: Annotated[float, about("Bought and sold within a day, US dollars.", 1250000.5)]
    swaps_d1: Annotated[int, about("Swaps of a day that set the price.", 8410)]
    market_cap_usd: Annotated[
        float | None,
        about(
            "Price times supply, US dollars; null until the supply is known, and where the chain"
            " does not count it, as for wrapped SOL.",
            None,
        ),
    ]
    ready_timeframes: Annotated[
        list[str],
        about("The timeframes that have enough candles for all indicators.", ["m1", "m5"]),
    ]
    tracked_since: Annotated[
        int | None, about("When tracking of the token began, Unix seconds.", 1_763_200_800)
    ]
    age_s: Annotated[int | None, about("Seconds from the start of tracking to asOf.", 259_200)]
    ui_multiplier: Annotated[float | None, about(MULTIPLIED, None)]
    change_since: Annotated[
        int | None,
        about(
            "Start of the minute of the first price, Unix seconds, if that is younger than a day:"
            " change.d1 is since then. Null: it is over a whole day.",
            None,
        ),
    ]
    name_cleaned: Annotated[bool, about(NAME_CLEANED, False)]  # noqa: FBT003 - an example
    look_alike_of: Annotated[str | None, about(LOOK_ALIKE, None)]

    @classmethod
    def of(cls, line: ListLine) -> "ListedToken":
        """Return *line* as a token of the response."""
        listed = line.listed
        return cls(
            mint=listed.mint,
            name=listed.name,
            symbol=listed.symbol,
            decimals=listed.decimals,
            price=line.price,
            change=PriceChange(*line.changes),
            volume_usd_d1=line.volume / MICRO_USD,
            swaps_d1=line.swaps,
            market_cap_usd=line.market_cap,
            ready_timeframes=[each.value for each in line.ready],
            tracked_since=listed.since,
            age_s=line.age_s,
            ui_multiplier=line.ui_multiplier,
            change_since=line.change_since,
            name_cleaned=listed.is_cleaned,
            look_alike_of=line.look_alike_of,
        )


class TokenPage(Wire):
    """A page of the list, as of a final slot."""

    tokens: Annotated[list[ListedToken], about("The tokens, in the order that was asked for.")]
    slot: Annotated[int | None, about("The final slot.", 380_000_000)]
    as_of: Annotated[int | None, about("Its time, Unix seconds.", 1_763_460_000)]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]


class Metadata(Wire):
    """The facts of a mint on chain."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    name: Annotated[str | None, about("Its name.", "Wrapped SOL")]
    symbol: Annotated[str | None, about("Its symbol.", "SOL")]
    decimals: Annotated[int, about("Its decimals.", 9)]
    supply: Annotated[str, about("In the smallest unit, as text: it may need 64 bits.", "0")]
    program: Annotated[str, about("The program that owns the mint, base58.", TOKEN_PROGRAM)]
    mint_authority: Annotated[
        str | None, about("The address that can mint more; null: no more can be made.", None)
    ]
    freeze_authority: Annotated[
        str | None,
        about("The address that can freeze accounts; null: they cannot be frozen.", None),
    ]
    transfer_fee_bps: Annotated[
        int | None,
        about(
            "Fee of a transfer, in 1/100 percent, or the announced one if that is higher; null:"
            " none.",
            None,
        ),
    ]
    transfer_hook: Annotated[
        str | None, about("The program that runs at every transfer; null: none.", None)
    ]
    permanent_delegate: Annotated[
        str | None, about("The address that can move or burn all tokens; null: none.", None)
    ]
    ui_multiplier: Annotated[float | None, about(MULTIPLIED, None)]
    new_ui_multiplier: Annotated[
        float | None, about("The multiplier that takes its place; null: none is announced.", None)
    ]
    new_ui_multiplier_at: Annotated[
        int | None, about("When that applies, Unix seconds; null: none is announced.", None)
    ]
    name_cleaned: Annotated[bool, about(NAME_CLEANED, False)]  # noqa: FBT003 - an example
    look_alike_of: Annotated[str | None, about(LOOK_ALIKE, None)]
    in_words: Annotated[list[str], about("The facts in sentences.", ["No more can be made."])]
    slot: Annotated[int, about("The slot at which the chain was asked.", 380_000_000)]
    read_at: Annotated[int, about("When it was asked, Unix seconds.", 1_763_460_000)]


DEVNET: Final = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"
DEVNET_USDC: Final = Mint("4zMMC9srt5Ri5X14GAgXhaHPii3GnPAEERYPJgZJDncDU")
ATOMS: Final = 2_500
MEMO: Final = "demo-demo-demo-demo-demo-demo-00"
RESOURCE: Final = Resource("/v1/demo/402")

SLOT: Final = Slot(350_000_000)
START: Final = UnixS(1_750_000_020)  # the start of a minute
SWAPS: Final = 12_100  # one per minute: more than the 200 hours that indicators need


def keyless(what: str) -> str:
    """Return an address derived from the text *what*; its private key is unknown."""
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
    """Return the report of a token that does not exist, with every value present.

    The engine computes it from invented swaps whose prices go up and down, in steps that are the
    same on every machine.
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
    """Return the PAYMENT-REQUIRED header of the demo, with *why* as its error."""
    demand = Requirement(terms=TERMS, resource=RESOURCE, amount=ATOMS, memo=MEMO)
    return encode_required(demand, origin=origin, error=why)


def how_to_pay_demo(origin: str) -> HowToPay:
    """Return the payment terms of the demo 402, for the body of the response."""
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
    """Return the PAYMENT-RESPONSE header for a demo payment: a refusal, because none is real.

    Raises InvalidPayment if the payment *header* is malformed, as on every paid route.
    """
    decode_payment(header)
    return encode_refused(TERMS, reason=RefusalReason.DEMO, signature="")


UNPAID: Final = "This demo requires a payment like a paid endpoint. Nothing can be bought with it."
REFUSED: Final = (
    "The payment is well formed, and refused: demo_sells_nothing. It was not sent to the chain, and"
    " nothing was charged."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRoutes:
    """The demo routes; *origin* is the address at which clients reach this service."""

    limit: AddressLimit
    clock: Clock
    origin: str

    @Operation(
        "GET",
        "/v1/demo/token",
        TokenReport,
        refusals=(ErrorCode.RATE_LIMITED,),
        is_conditional=True,
    )
    async def get_demo_token(self, request: Request) -> Response:
        """A demo report: always the same, of a token that does not exist.

        Returns the report of a token that does not exist, as GET /v1/token/{tokenAddress} would:
        always the same, for developing clients. Free.
        """
        await self.limit.pass_through(request)
        # The first call computes 12,100 swaps; later calls return its report.
        report = await asyncio.to_thread(demo_report)
        request.response_headers += Freshness().headers(
            slot=report.slot, age_ms=report.age_ms, cache=CHECKED
        )
        body = success_with_body(report.body, at=self.clock.now(), request_id=request.request_id)
        return Response(200, body, etag=report.tag)

    @Operation(
        "GET",
        "/v1/demo/402",
        Failure,
        refusals=(
            ErrorCode.INVALID_PAYMENT,
            ErrorCode.PAYMENT_REQUIRED,
            ErrorCode.PAYMENT_FAILED,
            ErrorCode.RATE_LIMITED,
        ),
        status=402,
    )
    async def get_demo_402(self, request: Request) -> Response:
        """A demo 402: always the same, for a payment that buys nothing.

        Answers 402 with PAYMENT-REQUIRED, always the same, for developing clients that pay. The
        payment is on Solana's devnet and buys nothing: it is read and refused. Free.
        """
        await self.limit.pass_through(request)
        presented = request.values(PAYMENT_SIGNATURE.lower().encode())
        if len(presented) > 1:
            raise InvalidPayment(f"expected one {PAYMENT_SIGNATURE} header; there were several")
        why = REFUSED if presented else UNPAID
        if presented:
            _tell(request, PAYMENT_RESPONSE, demo_refusal(presented[0]))
        _tell(request, PAYMENT_REQUIRED, demo_demand(self.origin, why))
        error = PaymentFailed(why) if presented else PaymentRequired(why)
        error.details = how_to_pay_demo(self.origin)
        raise error


def _tell(request: Request, name: str, value: str) -> None:
    request.response_headers.append((name.lower().encode(), value.encode()))


BPS_PER_PERCENT: Final = 100


def metadata_of(
    mint: Mint, facts: MintFacts, now: UnixS, look_alike_of: Mint | None = None
) -> Metadata:
    """Return the response with *facts* of *mint* as of *now*, also in sentences.

    look_alike_of   a token with more volume whose name or symbol looks the same; None if no token
                    is known to look the same
    """
    scaled = facts.scaled_ui_amount
    announced = None if scaled is None else scaled.announced(now)
    return Metadata(
        mint=mint,
        name=cleaned(facts.name),
        symbol=cleaned(facts.symbol),
        decimals=facts.decimals,
        supply=str(facts.supply),
        program=facts.program,
        mint_authority=facts.mint_authority,
        freeze_authority=facts.freeze_authority,
        transfer_fee_bps=facts.transfer_fee_bps,
        transfer_hook=facts.transfer_hook,
        permanent_delegate=facts.permanent_delegate,
        ui_multiplier=None if scaled is None else scaled.at(now),
        new_ui_multiplier=None if announced is None else announced[0],
        new_ui_multiplier_at=None if announced is None else announced[1],
        name_cleaned=hides(facts.name) or hides(facts.symbol),
        look_alike_of=look_alike_of,
        in_words=[*_names_in_words(facts, look_alike_of), *_in_words(facts, now)],
        slot=facts.slot,
        read_at=facts.read_at_ms // SECOND_MS,
    )


def _names_in_words(facts: MintFacts, look_alike_of: Mint | None) -> Iterator[str]:
    if hides(facts.name) or hides(facts.symbol):
        yield "Its name or symbol holds characters that are never shown; they are left out here."
    if look_alike_of is not None:
        yield f"Its symbol or name looks like that of {look_alike_of}, of which more is traded."


def _in_words(facts: MintFacts, now: UnixS) -> Iterator[str]:
    yield f"It is a mint of the program {PROGRAM_NAMES[facts.program]}."
    if facts.mint_authority is None:
        yield "No more can be made: it has no mint authority."
    else:
        yield f"More can be made at any time, by {facts.mint_authority}."
    if facts.freeze_authority is None:
        yield "Accounts cannot be frozen."
    else:
        yield f"{facts.freeze_authority} can freeze accounts, so that nothing leaves them."
    if facts.transfer_fee_bps is not None:
        yield f"A transfer costs {facts.transfer_fee_bps / BPS_PER_PERCENT:g} % of its amount."
    if facts.transfer_hook is not None:
        yield f"The program {facts.transfer_hook} runs at every transfer, and can refuse it."
    if facts.pause_authority is not None:
        yield f"{facts.pause_authority} can stop all transfers."
    if facts.permanent_delegate is not None:
        yield f"{facts.permanent_delegate} can move or burn the tokens of every holder."
    if facts.scaled_ui_amount is not None:
        shown = facts.scaled_ui_amount.at(now)
        yield (
            f"Wallets show {shown:.12g} tokens for each that the mint counts; prices and amounts"
            " here are of those that it counts."
        )
        if announced := facts.scaled_ui_amount.announced(now):
            multiplier, at = announced
            yield f"From {iso_time(UnixMs(at * SECOND_MS))} on they show {multiplier:.12g}."


SIDE: Final = 5
HALF: Final = 3  # columns that are drawn; the other two mirror the first two
HUES: Final = 360


def icon_of(mint: Mint) -> bytes:
    """Return the SVG for *mint*, which is always the same."""
    drawn = sha256(mint.encode()).digest()
    hue = int.from_bytes(drawn[:2]) % HUES
    bits = int.from_bytes(drawn[2:4])
    squares = "".join(
        f"M{x} {y}h1v1h-1z"
        for y in range(SIDE)
        for x in range(SIDE)
        if bits >> (y * HALF + min(x, SIDE - 1 - x)) & 1
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 7 7" width="64" height="64">'
        f'<rect x="-1" y="-1" width="7" height="7" fill="hsl({hue},45%,92%)"/>'
        f'<path d="{squares}" fill="hsl({hue},60%,40%)"/></svg>'
    ).encode()


Icon = Annotated[str, about("An SVG picture, 64 by 64.", icon_of(WSOL).decode())]
