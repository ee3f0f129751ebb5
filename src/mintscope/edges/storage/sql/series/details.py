"""Details of the swaps of a row on chain: a blob beside theirs, read for clients alone."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from solders.signature import Signature as SignatureBytes

from mintscope.base.foreign import parsed_by_others
from mintscope.base.primitives import Mint, Signature
from mintscope.base.solana import USDC, USDT, WSOL
from mintscope.core.market.log import PricedSwap, SwapDetail

QUOTES: Final = (WSOL, USDC, USDT)  # by number: one that is added goes to the end
TEXTS_MAX: Final = 16_384  # of signatures, 350 bytes each
DECIMALS: Final = {WSOL: 9, USDC: 6, USDT: 6}
NUMBERS: Final = {mint: number for number, mint in enumerate(QUOTES)}
_encode: Final = msgspec.msgpack.Encoder().encode
_details: Final = msgspec.msgpack.Decoder(list[tuple[Any, ...]])


def details_blob(swaps: Sequence[PricedSwap]) -> bytes | None:
    """Return the details of *swaps* as a blob, in their order; None where some have none."""
    exchanged = _exchanged(swaps)
    rows = [
        (
            _packed(one.signature),
            one.program,
            one.amount,
            one.decimals,
            NUMBERS.get(one.quote, one.quote),
            one.quote_amount,
            *(() if one.quote in NUMBERS else (one.quote_decimals,)),
        )
        for swap in exchanged
        if (one := swap.detail) is not None
    ]
    return _encode(rows) if len(rows) == len(exchanged) else None


def with_details(swaps: Sequence[PricedSwap], blob: bytes | None) -> list[PricedSwap]:
    """Return *swaps* with what *blob* says of them; none without details that are theirs."""
    details = [] if blob is None else _details.decode(blob)
    exchanged = _exchanged(swaps)
    if len(details) != len(exchanged):
        return []
    return [
        replace(swap, detail=_detail(row)) for swap, row in zip(exchanged, details, strict=True)
    ]


def _exchanged(swaps: Sequence[PricedSwap]) -> list[PricedSwap]:
    """Return *swaps* without what names the pool that took the place of a curve."""
    return [one for one in swaps if one.evidence is None or one.evidence.succeeds is None]


def _detail(row: Sequence[Any]) -> SwapDetail:
    signature, program, amount, decimals, quote, quote_amount, *told = row
    text = signature if isinstance(signature, str) else _text(signature)
    mint = Mint(quote) if isinstance(quote, str) else QUOTES[quote]
    quote_decimals = told[0] if told else DECIMALS[mint]
    return SwapDetail(
        Signature(text), program, amount, decimals, mint, quote_amount, quote_decimals
    )


@lru_cache(maxsize=TEXTS_MAX)
def _text(signature: bytes) -> str:
    """Return *signature* in base58: it takes as long as all else of a swap together."""
    return str(SignatureBytes.from_bytes(signature))


def _packed(signature: Signature) -> bytes | str:
    """Return the bytes of *signature*; one that is not of Solana stays as it is."""
    try:
        with parsed_by_others():
            return bytes(SignatureBytes.from_string(signature))
    except ValueError:
        return signature
