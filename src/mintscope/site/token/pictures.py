"""Pictures of tokens as PNG: `/token/{mint}/chart.png`, for link previews and for sharing.

The rasteriser holds the interpreter lock for the 30 to 150 ms of drawing, so it runs in a separate
process, one at a time, without environment variables.  While a picture of a token and timeframe is
in the cache, a new one is drawn at most once a minute.
"""

import asyncio
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from importlib.resources import files
from importlib.util import find_spec
from typing import Final, NamedTuple

import structlog

from mintscope.kit.errors import RateLimited, ServiceUnavailable
from mintscope.kit.limits import Limit, LimitKey, Limits, take_all
from mintscope.kit.primitives import Mint
from mintscope.kit.time import MINUTE_S

FONT_FILE: Final = "DejaVuSans.ttf"
RASTERISER: Final = "resvg_py"
# This program is run with -I, which ignores the working folder, the user's packages and environment
# variables.
PROGRAM: Final = f"""
import os, sys, {RASTERISER}
os.nice(5)
sys.stdout.buffer.write(bytes({RASTERISER}.svg_to_bytes(
    svg_string=sys.stdin.buffer.read().decode(), skip_system_fonts=True,
    font_files=[sys.argv[1]], font_family="DejaVu Sans")))
"""
KEPT_MAX: Final = 64
BYTES_MAX: Final = 512 * 1024
WAITING_MAX: Final = 8
DRAWING_S_MAX: Final = 10.0
# Limits of pictures that are drawn because none is cached: of each client, and of all together.
DRAWN: Final = Limit(name="pictures of tokens", count=20, window_s=MINUTE_S)
ALL_DRAWN: Final = Limit(name="pictures of tokens, all", count=60, window_s=MINUTE_S)

LOG = structlog.get_logger(__name__)

Rasterise = Callable[[str], Awaitable[bytes]]


def has_rasteriser() -> bool:
    """Return whether the package that draws pictures is installed."""
    return find_spec(RASTERISER) is not None


async def rasterise(svg: str) -> bytes:
    """Return *svg* as PNG, drawn by another process.  Raises ServiceUnavailable."""
    try:
        drawn = await asyncio.to_thread(_run, svg)
    except (OSError, subprocess.SubprocessError) as failure:
        LOG.warning("a picture of a token cannot be drawn", reason=str(failure)[:200])
        raise ServiceUnavailable("The picture cannot be drawn now.") from failure
    if len(drawn) > BYTES_MAX:
        raise ServiceUnavailable(f"A picture has at most {BYTES_MAX} bytes; had {len(drawn)}.")
    return drawn


def _run(svg: str) -> bytes:
    font = files("mintscope.site.token") / FONT_FILE
    done = subprocess.run(  # noqa: S603 - our own interpreter, our own program
        [sys.executable, "-I", "-c", PROGRAM, str(font)],
        input=svg.encode(),
        # The environment may have secrets of the service, which the rasteriser does not need.
        env={},
        check=True,
        capture_output=True,
        timeout=DRAWING_S_MAX,
    )
    return done.stdout


class PictureKey(NamedTuple):
    """A token and the name of a timeframe, which together identify a picture."""

    mint: Mint
    timeframe: str


class _Kept(NamedTuple):
    minute: int
    png: bytes


class Pictures:
    """Draws pictures, and caches the KEPT_MAX pictures that were used last."""

    def __init__(self, limits: Limits, draw: Rasterise = rasterise) -> None:
        """Create an empty cache; *draw* converts SVG to PNG."""
        self._draw = draw
        self._drawn = limits.limiter(DRAWN)
        self._all_drawn = limits.limiter(ALL_DRAWN)
        self._kept: OrderedDict[PictureKey, _Kept] = OrderedDict()
        self._drawing: dict[PictureKey, asyncio.Task[bytes]] = {}
        self._lock = asyncio.Lock()

    async def get(
        self, key: PictureKey, minute: int, client: LimitKey, svg: Callable[[], Awaitable[str]]
    ) -> bytes:
        """Return the picture of *key* as PNG, drawn from *svg* unless a cached one is new enough.

        minute    the picture must be of this minute, counted since 1970-01-01, or later
        client    the client, whose pictures are limited

        Raises RateLimited and ServiceUnavailable, and the errors of *svg*.
        """
        kept = self._kept.get(key)
        if kept is not None and kept.minute >= minute:
            self._kept.move_to_end(key)
            return kept.png
        drawing = self._drawing.get(key)
        if drawing is None:
            if len(self._drawing) >= WAITING_MAX:
                raise ServiceUnavailable("Too many pictures are being drawn.")
            denied = await take_all([(self._drawn, client), (self._all_drawn, "all")])
            if denied is not None:
                raise RateLimited(denied.retry_after_s)
            drawing = self._drawing.get(key)  # another request may have started meanwhile
        if drawing is None:
            drawing = asyncio.create_task(self._make(key, minute, svg))
            self._drawing[key] = drawing
            drawing.add_done_callback(lambda done: self._forget(key, done))
        # If this request is cancelled, the drawing goes on: others may wait for it.
        return await asyncio.shield(drawing)

    async def _make(self, key: PictureKey, minute: int, svg: Callable[[], Awaitable[str]]) -> bytes:
        async with self._lock:
            png = await self._draw(await svg())
        self._kept[key] = _Kept(minute, png)
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return png

    def _forget(self, key: PictureKey, done: asyncio.Task[bytes]) -> None:
        del self._drawing[key]
        if not done.cancelled():
            done.exception()  # waiting requests raise it; asyncio logs unread exceptions
