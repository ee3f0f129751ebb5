"""Tokens by name, symbol or mint, for forms that want one.

Nothing is ever chosen by its name: anybody may take any name.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mintscope.base.errors import InvalidTokenAddress, ServiceUnavailable
from mintscope.base.primitives import Mint, parse_mint
from mintscope.core.market.listing.listed import ListQuestion
from mintscope.core.market.listing.names import cleaned
from mintscope.edges.web.tokens.lines import ShownToken, TokenLines
from mintscope.edges.web.tokens.question import TEXT_LENGTH_MAX

FOUND_MAX: Final = 6
NONE_NAMED: Final = "Name a token: its name or symbol, or its mint address."
CHOOSE_ONE: Final = "Choose one of these: names are not unique."
NONE_FOUND: Final = "No tracked token has that name. Its mint address works, too."


class TokenSearch:
    """Finds tokens among those that are followed.

    lines   None where there is no list
    """

    def __init__(self, lines: TokenLines | None) -> None:
        self._lines = lines

    async def find(self, text: str) -> Sequence[ShownToken]:
        """Return the most traded tokens that *text* may mean; none while the list is loaded."""
        name = (cleaned(text) or "")[:TEXT_LENGTH_MAX]
        return await self._page(ListQuestion(text=name, limit=FOUND_MAX)) if name else []

    async def named(self, mints: Sequence[Mint]) -> Mapping[Mint, ShownToken]:
        """Return what the list says of those of *mints* that are followed."""
        if not mints:
            return {}
        lines = await self._page(ListQuestion(among=tuple(mints), limit=len(mints)))
        return {each.mint: each for each in lines}

    async def flaw(self, text: str, error: str) -> tuple[str, Sequence[ShownToken]]:
        """Return what is said of *text*, which is no mint, and which tokens it may mean.

        error   what is said where nothing can be found
        """
        if not text:
            return NONE_NAMED, []
        if self._lines is None:
            return error, []
        found = await self.find(text)
        return CHOOSE_ONE if found else NONE_FOUND, found

    async def _page(self, asked: ListQuestion) -> Sequence[ShownToken]:
        if self._lines is None:
            return []
        try:
            return (await self._lines.page(asked)).lines
        except ServiceUnavailable:
            return []


def mint_of(text: str) -> Mint | None:
    """Return *text* as a mint; None where it is none."""
    try:
        return parse_mint(text)
    except InvalidTokenAddress:
        return None
