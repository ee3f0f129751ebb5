"""A picture for each mint, drawn from its bytes: no picture is fetched from strangers.

Five by five squares, the left half mirrored, in one of 360 hues.  It separates mints at a glance
and proves nothing: a similar one is found among a few thousand mints.
"""

from hashlib import sha256
from typing import Annotated, Final

from mintscope.base.primitives import Mint, about
from mintscope.base.solana import WSOL

SIDE: Final = 5
HALF: Final = 3  # columns that are drawn; the others mirror them
HUES: Final = 360


def icon_of(mint: Mint) -> bytes:
    """Return the SVG of *mint*, always the same."""
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
