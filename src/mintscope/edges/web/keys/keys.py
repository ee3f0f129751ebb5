"""Settings > API keys: listed, made, shown once, rotated, revoked."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mintscope.base.errors import NotFound
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.keys.api_key import (
    KEYS_PER_DAY_MAX,
    KEYS_PER_USER_MAX,
    OVERLAPS_MS,
    KeyId,
    KeyLine,
    KeyStatus,
)
from mintscope.core.accounts.keys.api_keys import ApiKeys, TooManyKeys
from mintscope.core.accounts.keys.scope import AREAS, in_order
from mintscope.core.accounts.signups.exchange import IssuedKey
from mintscope.edges.web.forms.unmet import Unmet
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.keys import key_words
from mintscope.edges.web.keys.key_form import blank, filled, parse_wish
from mintscope.edges.web.pages.paging import parse_id
from mintscope.edges.web.pages.reply import UNMET, Goto, Page, Reply
from mintscope.edges.web.routes import Access, Route

LIST: Final = "/settings/api-keys"
NO_ROOM: Final = (
    f"You have {KEYS_PER_USER_MAX} active keys, so both cannot work at once: end the old one now."
    f" Or you have made {KEYS_PER_DAY_MAX} in a day, which is as many as anybody may."
)
OVERLAP: Final = "24h"


class KeyPages:
    """What a person does with keys of their own; those of others do not exist here."""

    def __init__(self, keys: ApiKeys, *, origin: str) -> None:
        self._keys = keys
        self._origin = origin

    def routes(self) -> Iterable[Route]:
        """Return the rows."""
        fresh, one = Access.FRESH, f"{LIST}/{{key}}"
        return [
            Route(method="GET", path=LIST, handler=self.list, access=Access.SIGNED_IN),
            Route(method="GET", path=f"{LIST}/new", handler=self.ask, access=fresh),
            Route(method="GET", path=f"{LIST}/new/review", handler=self.review, access=fresh),
            Route(method="POST", path=f"{LIST}/new/review", handler=self.create, access=fresh),
            Route(method="GET", path=one, handler=self.show, access=Access.SIGNED_IN),
            Route(method="GET", path=f"{one}/rotate", handler=self.ask_rotate, access=fresh),
            Route(method="POST", path=f"{one}/rotate", handler=self.rotate, access=fresh),
            Route(method="GET", path=f"{one}/revoke", handler=self.ask_revoke, access=fresh),
            Route(method="POST", path=f"{one}/revoke", handler=self.revoke, access=fresh),
        ]

    async def list(self, visit: Visit) -> Reply:
        """Show the keys in force, and those that were."""
        keys = await self._own(visit)
        shown = [_facts(key, visit.now) for key in keys]
        return Page(
            "keys/list.html",
            {
                "active": [each for each in shown if each["is_active"]],
                "archive": [each for each in shown if not each["is_active"]],
            },
        )

    async def ask(self, visit: Visit) -> Reply:
        """Ask what the new key is to be."""
        preset = visit.query.line("preset")
        values = blank(preset) if preset else filled(visit.query)
        return _form(values)

    async def review(self, visit: Visit) -> Reply:
        """Say in plain words what the new key could do, before it is made."""
        values = filled(visit.query)
        try:
            wish = parse_wish(values)
        except Unmet as unmet:
            return _form(values, errors=unmet.errors)
        can, cannot = key_words.abilities(wish.scopes)
        ends_at = None if wish.lifetime_ms is None else visit.now + wish.lifetime_ms
        facts = {
            "can": can,
            "cannot": cannot,
            "ends_at": ends_at,
            "newest": _newest(await self._own(visit)),
        }
        return Page("keys/review.html", facts, values=values)

    async def create(self, visit: Visit) -> Reply:
        """Make the key, and show it this once: in the answer itself, at no address of its own.

        What it is to be stands in the address, as it did for the review.
        """
        values = filled(visit.query)
        try:
            wish = parse_wish(values)
        except Unmet as unmet:
            return _form(values, errors=unmet.errors)
        if visit.form.text("newest") != str(_newest(await self._own(visit))):
            return Page("keys/sent_before.html", status=409)
        try:
            issued = await self._keys.create(
                visit.signed_in, name=wish.name, scopes=wish.scopes, lifetime_ms=wish.lifetime_ms
            )
        except TooManyKeys:
            facts = {"keys_max": KEYS_PER_USER_MAX, "day_max": KEYS_PER_DAY_MAX}
            return Page("keys/too_many.html", facts, status=409)
        return self._shown_once(issued, visit.now)

    async def show(self, visit: Visit) -> Reply:
        """Show what may be shown of a key."""
        keys = await self._own(visit)
        key = _chosen(keys, visit)
        can, cannot = key_words.abilities(key.scopes)
        successor = next((each for each in keys if each.key_id == key.replaced_by), None)
        facts = {"can": can, "cannot": cannot, "successor": successor}
        return Page("keys/show.html", facts | {"key": _facts(key, visit.now)})

    async def ask_rotate(self, visit: Visit) -> Reply:
        """Ask how long the old key shall go on beside the new one."""
        key = _chosen(await self._own(visit), visit)
        if not _may_rotate(key, visit.now):
            return Goto(f"{LIST}/{key.key_id}")
        return _rotate_page(key, visit.now)

    async def rotate(self, visit: Visit) -> Reply:
        """Replace the key by a new one, shown this once."""
        key = _chosen(await self._own(visit), visit)
        overlap = visit.form.text("overlap")
        if overlap not in OVERLAPS_MS:
            return _rotate_page(key, visit.now, errors={"overlap": "Choose one of these."})
        issued = None
        try:
            if _may_rotate(key, visit.now):
                issued = await self._keys.rotate(
                    visit.signed_in, key.key_id, overlap_ms=OVERLAPS_MS[overlap]
                )
        except TooManyKeys:
            return _rotate_page(key, visit.now, errors={"overlap": NO_ROOM})
        if issued is None:
            return Page("keys/sent_before.html", status=409)
        return self._shown_once(issued, visit.now, replaces=key, overlap=overlap)

    async def ask_revoke(self, visit: Visit) -> Reply:
        """Ask whether the key shall really end."""
        key = _chosen(await self._own(visit), visit)
        if key.status(visit.now) is not KeyStatus.ACTIVE:
            return Goto(f"{LIST}/{key.key_id}")
        return Page("keys/revoke.html", {"key": _facts(key, visit.now)})

    async def revoke(self, visit: Visit) -> Reply:
        """End the key; one that has ended already is no mistake."""
        key = _chosen(await self._own(visit), visit)
        await self._keys.revoke(visit.signed_in, key.key_id)
        return Goto(LIST, notice="key-revoked")

    async def _own(self, visit: Visit) -> Sequence[KeyLine]:
        return await self._keys.of_user(visit.signed_in.user.user_id)

    def _shown_once(
        self, issued: IssuedKey, now: UnixMs, *, replaces: KeyLine | None = None, overlap: str = ""
    ) -> Page:
        facts = {
            "secret": issued.api_key,
            "key": _facts(issued.line, now),
            "replaces": replaces,
            "overlap_words": key_words.OVERLAP_WORDS.get(overlap, ""),
            "origin": self._origin,
        }
        return Page("keys/shown_once.html", facts)


def _chosen(keys: Sequence[KeyLine], visit: Visit) -> KeyLine:
    """Return the one of *keys* that the path names.

    Raises    NotFound
    """
    wanted = KeyId(parse_id(visit.parameters["key"]))
    for key in keys:
        if key.key_id == wanted:
            return key
    raise NotFound


def _newest(keys: Sequence[KeyLine]) -> int:
    """Return the id of the newest key: a form that was sent already names an older one."""
    return max((key.key_id for key in keys), default=0)


def _may_rotate(key: KeyLine, now: UnixMs) -> bool:
    return key.status(now) is KeyStatus.ACTIVE and key.replaced_by is None


def _ended_at(key: KeyLine) -> UnixMs | None:
    """Return when the key ended, or will."""
    ends = [at for at in (key.revoked_at, key.expires_at) if at is not None]
    return min(ends, default=None)


def _form(values: dict[str, str], errors: Any = None) -> Page:
    facts = {"areas": AREAS, "lifetimes": key_words.LIFETIME_NAMES}
    return Page(
        "keys/new.html", facts, values=values, errors=errors or {}, status=UNMET if errors else 200
    )


def _rotate_page(key: KeyLine, now: UnixMs, errors: Any = None) -> Page:
    facts = {"key": _facts(key, now), "overlaps": key_words.OVERLAP_NAMES}
    return Page(
        "keys/rotate.html",
        facts,
        values={"overlap": OVERLAP},
        errors=errors or {},
        status=UNMET if errors else 200,
    )


def _facts(key: KeyLine, now: UnixMs) -> dict[str, Any]:
    """Return what a page tells of *key*."""
    is_active = key.status(now) is KeyStatus.ACTIVE
    return {
        "line": key,
        "is_active": is_active,
        "may_rotate": _may_rotate(key, now),
        "ended_at": _ended_at(key),
        "badge": key_words.badge(key, now),
        "scopes": in_order(key.scopes),
        "summary": key_words.summary(key.scopes),
    }
