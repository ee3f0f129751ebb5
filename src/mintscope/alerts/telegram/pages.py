"""Settings > Telegram: the chat that alerts are sent to."""

from collections.abc import Iterable
from typing import Final

from mintscope.alerts.telegram.chats import TelegramChats
from mintscope.site.page import Page, PageResponse, Redirect
from mintscope.site.routes import Access, PageRequest, PageRoute, get, post

TELEGRAM: Final = "/settings/telegram"


class TelegramPages:
    """The Telegram chat of a person."""

    def __init__(self, chats: TelegramChats) -> None:
        self._chats = chats

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(TELEGRAM, self.show, Access.SIGNED_IN)
        yield post(f"{TELEGRAM}/unlink", self.unlink, Access.SIGNED_IN)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the linked chat, and the link that links another."""
        user_id = request.signed_in.user.user_id
        facts = {
            "chat": await self._chats.find(user_id),
            "address": await self._chats.address(request.signed_in),
            "bot": self._chats.bot,
        }
        return Page("telegram.html", facts)

    async def unlink(self, request: PageRequest) -> PageResponse:
        """Forget the chat."""
        await self._chats.unlink(request.signed_in.user.user_id)
        return Redirect(TELEGRAM, notice="telegram-unlinked")
