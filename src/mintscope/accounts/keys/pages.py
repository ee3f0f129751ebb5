"""Pages of API keys in the settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from mintscope.accounts.keys.key import (
    ADDRESSES_MAX,
    ANYWHERE,
    KEYS_PER_DAY_MAX,
    KEYS_PER_USER_MAX,
    LIFETIMES_MS,
    NAME_LENGTH_MAX,
    OVERLAPS_MS,
    KeyLine,
    KeyStatus,
    UnusableNetwork,
    is_within,
    parse_networks,
)
from mintscope.accounts.keys.keys import ApiKeys, TooManyKeys
from mintscope.accounts.keys.scope import (
    AREAS,
    OPEN_SCOPES,
    READ_SCOPES,
    Scope,
    in_order,
    with_reads,
)
from mintscope.accounts.signups.signups import IssuedKey
from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.kit.audit import KeyId
from mintscope.kit.errors import NotFound
from mintscope.kit.http.request import parse_id
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS
from mintscope.site.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.site.routes import (
    Access,
    FormData,
    InvalidForm,
    PageRequest,
    PageRoute,
    get,
    post,
    sentence,
)

ACCESS: Final = ("none", "read", "write")  # access to an area; "none" is selected in an empty form
LIFETIME: Final = "90d"
CAP_DIGITS_MAX: Final = 12
PRESETS: Final[Mapping[str, frozenset[Scope]]] = MappingProxyType(
    {
        "read": READ_SCOPES,
        "trading-bot": frozenset({Scope.TRADE_READ, Scope.TRADE_WRITE, Scope.WALLETS_READ}),
        "everything": OPEN_SCOPES,
    }
)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """The settings of a key to be created.

    lifetime_ms         milliseconds until the key expires; None: it is valid until revoked
    month_credits_max   credits that the key may spend in a calendar month; None: no cap
    networks            networks from which the key is accepted; "": any network
    """

    name: str
    scopes: frozenset[Scope]
    lifetime_ms: int | None
    month_credits_max: int | None
    networks: str


def blank(preset: str = "") -> dict[str, str]:
    """Return the values of the form for a new key, with the access that *preset* names, if any."""
    texts = {"name": "", "lifetime": LIFETIME, "cap": "", "networks": ANYWHERE}
    return texts | accesses(PRESETS.get(preset, frozenset()))


def accesses(scopes: frozenset[Scope]) -> dict[str, str]:
    """Return the access that *scopes* give to each area: none, read or write."""
    return {
        # With `with_reads`, the number of scopes of an area is the index of the access in ACCESS.
        area.name: ACCESS[sum(scope.area == area.name for scope in with_reads(scopes))]
        for area in AREAS
    }


def filled(form: FormData) -> dict[str, str]:
    """Return the values in *form*, so that the form can be shown again with them."""
    values = blank()
    return {name: form.line(name) or value for name, value in values.items()}


def parse_new_key(values: Mapping[str, str]) -> KeyRequest:
    """Return the settings of a new key from *values* of its form.  Raises InvalidForm."""
    errors: dict[str, str] = {}
    name = values["name"]
    try:
        parse_name(name)
    except InvalidForm as invalid:
        errors |= invalid.errors
    for area in AREAS:
        if values[area.name] not in ACCESS:
            errors[area.name] = "Choose none, read, or read and write."
    if values["lifetime"] not in LIFETIMES_MS:
        errors["lifetime"] = "Choose one of the listed options."
    cap = None
    try:
        cap = parse_cap(values["cap"])
    except InvalidForm as invalid:
        errors |= invalid.errors
    networks = ANYWHERE
    try:
        networks = parse_networks(values["networks"])
    except UnusableNetwork as flaw:
        errors["networks"] = sentence(flaw)
    if errors:
        raise InvalidForm(errors)
    return KeyRequest(name, _scopes(values), LIFETIMES_MS[values["lifetime"]], cap, networks)


def parse_name(name: str) -> str:
    """Return *name* if it is a valid key name.  Raises InvalidForm."""
    if not name:
        raise InvalidForm({"name": "Enter a name by which you recognize the key later."})
    if not name.isprintable():
        raise InvalidForm({"name": "Expected a name without control characters."})
    if len(name) > NAME_LENGTH_MAX:
        flaw = f"Expected at most {NAME_LENGTH_MAX} characters; there were {len(name)}."
        raise InvalidForm({"name": flaw})
    return name


def parse_cap(text: str) -> int | None:
    """Return the cap in *text*, in credits per month; None if it is empty.  Raises InvalidForm."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= CAP_DIGITS_MAX):
        raise InvalidForm({"cap": "Expected a whole number of credits, or nothing for no cap."})
    return int(text)


def _scopes(values: Mapping[str, str]) -> frozenset[Scope]:
    return frozenset(
        Scope(f"{area.name}:{verb}")
        for area in AREAS
        for verb in ACCESS[1 : ACCESS.index(values[area.name]) + 1]
    )


EXPIRES_SOON_MS: Final = 7 * DAY_MS
IDLE_MS: Final = 30 * DAY_MS
LIFETIME_NAMES: Final = {"30d": "30 days", "90d": "90 days", "1y": "1 year", "never": "Never"}
OVERLAP_NAMES: Final = {
    "0": "At once",
    "1h": "After 1 hour",
    "24h": "After 24 hours",
    "7d": "After 7 days",
}
OVERLAP_WORDS: Final = {"1h": "for an hour", "24h": "for 24 hours", "7d": "for 7 days"}


@dataclass(frozen=True, slots=True)
class Badge:
    """The state of a key as a label; *tone*, its style, is good, wait or plain."""

    text: str
    tone: str


def summary(scopes: frozenset[Scope]) -> str:
    """Return a summary of *scopes* in two words, such as "Full access"."""
    opening = scopes & OPEN_SCOPES
    if opening == OPEN_SCOPES:
        return "Full access"
    if opening == READ_SCOPES & OPEN_SCOPES:
        return "Read only"
    if not opening:
        return "No scopes"
    return "1 scope" if len(opening) == 1 else f"{len(opening)} scopes"


def abilities(scopes: frozenset[Scope]) -> tuple[list[str], list[str]]:
    """Return the rights that *scopes* give, and the rights that they lack, as texts."""
    words = {
        Scope(f"{area.name}:{verb}"): text
        for area in AREAS
        for verb, text in (("read", area.read), ("write", area.write))
    }
    can = [words[scope] for scope in in_order(scopes & OPEN_SCOPES)]
    return can, [words[scope] for scope in in_order(OPEN_SCOPES - scopes)]


def badge(key: KeyLine, now: UnixMs) -> Badge:
    """Return the label that shows the state of *key* at *now*."""
    match key.status(now):
        case KeyStatus.REVOKED:
            return Badge("Revoked", "plain")
        case KeyStatus.EXPIRED:
            return Badge("Expired", "plain")
        case KeyStatus.ACTIVE:
            return _active(key, now)


def _active(key: KeyLine, now: UnixMs) -> Badge:
    if key.replaced_by is not None:
        return Badge("Replaced", "wait")
    if key.expires_at is not None and key.expires_at - now <= EXPIRES_SOON_MS:
        return Badge("Expires soon", "wait")
    if key.last_used_at is None:
        return Badge("Never used", "plain")
    if now - key.last_used_at > IDLE_MS:
        return Badge("Unused for 30 days", "wait")
    return Badge("Active", "good")


LIST: Final = "/settings/api-keys"
NO_ROOM: Final = (
    f"You have {KEYS_PER_USER_MAX} active keys: end the old one now. Or you have made"
    f" {KEYS_PER_DAY_MAX} keys in a day: try again tomorrow."
)
OVERLAP: Final = "24h"


class KeyPages:
    """The pages of a person's keys; the response for a key of another account is 404."""

    def __init__(self, keys: ApiKeys, credits_: AccountCredits, *, origin: str) -> None:
        self._keys = keys
        self._credits = credits_
        self._origin = origin

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of API keys."""
        fresh = Access.FRESH
        one = f"{LIST}/{{key}}"
        return [
            get(LIST, self.list, Access.SIGNED_IN),
            get(f"{LIST}/new", self.ask, fresh),
            get(f"{LIST}/new/review", self.review, fresh),
            post(f"{LIST}/new/review", self.create, fresh),
            get(one, self.show, Access.SIGNED_IN),
            get(f"{one}/rename", self.ask_rename, fresh),
            post(f"{one}/rename", self.rename, fresh, keeps=("name",)),
            get(f"{one}/cap", self.ask_cap, fresh),
            post(f"{one}/cap", self.cap, fresh),
            get(f"{one}/networks", self.ask_networks, fresh),
            post(f"{one}/networks", self.set_networks, fresh),
            get(f"{one}/rotate", self.ask_rotate, fresh),
            post(f"{one}/rotate", self.rotate, fresh, keeps=("overlap",)),
            get(f"{one}/revoke", self.ask_revoke, fresh),
            post(f"{one}/revoke", self.revoke, fresh),
        ]

    async def list(self, request: PageRequest) -> PageResponse:
        """List the active keys and the ended keys."""
        keys = await self._own(request)
        shown = [_facts(key, request.now) for key in keys]
        active = [each for each in shown if each["is_active"]]
        archive = [each for each in shown if not each["is_active"]]
        return Page("keys/list.html", {"active": active, "archive": archive})

    async def ask(self, request: PageRequest) -> PageResponse:
        """Ask for the name, scopes and limits of the new key."""
        preset = request.query_params.line("preset")
        values = blank(preset) if preset else filled(request.query_params)
        return _form(request, values)

    async def review(self, request: PageRequest) -> PageResponse:
        """Describe the rights of the new key in plain words, before it is created."""
        values = filled(request.query_params)
        try:
            new_key = parse_new_key(values)
        except InvalidForm as invalid:
            return _form(request, values, errors=invalid.errors)
        can, cannot = abilities(new_key.scopes)
        ends_at = None if new_key.lifetime_ms is None else request.now + new_key.lifetime_ms
        newest = _newest(await self._own(request))
        facts: dict[str, Any] = {"can": can, "cannot": cannot, "ends_at": ends_at, "newest": newest}
        facts |= {"cap": new_key.month_credits_max, "networks": new_key.networks.split()}
        facts |= {"is_here": is_within(request.browser.address, new_key.networks)}
        return Page("keys/review.html", facts, values=values)

    async def create(self, request: PageRequest) -> PageResponse:
        """Create the key with the settings in the query, and show it in this response only."""
        values = filled(request.query_params)
        try:
            new_key = parse_new_key(values)
        except InvalidForm as invalid:
            return _form(request, values, errors=invalid.errors)
        if request.form.text("newest") != str(_newest(await self._own(request))):
            return Page("keys/sent_before.html", status=409)
        try:
            issued = await self._keys.create(
                request.signed_in,
                name=new_key.name,
                scopes=new_key.scopes,
                lifetime_ms=new_key.lifetime_ms,
                month_credits_max=new_key.month_credits_max,
                networks=new_key.networks,
            )
        except TooManyKeys:
            facts = {"keys_max": KEYS_PER_USER_MAX, "day_max": KEYS_PER_DAY_MAX}
            return Page("keys/too_many.html", facts, status=409)
        return self._shown_once(issued, request.now)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show the data of a key, without its secret."""
        keys = await self._own(request)
        key = _chosen(keys, request)
        can, cannot = abilities(key.scopes)
        successor = next((each for each in keys if each.key_id == key.replaced_by), None)
        summary = await self._credits.summary(request.user_id)
        facts: dict[str, Any] = {"can": can, "cannot": cannot, "successor": successor}
        addresses = await self._keys.store.read(lambda rows: rows.key_addresses.of_key(key.key_id))
        facts |= {"addresses": addresses, "addresses_max": ADDRESSES_MAX}
        facts |= {"balance": summary.balance, "spent": summary.spent.get(key.key_id, 0)}
        return Page("keys/show.html", facts | {"key": _facts(key, request.now)})

    async def ask_rename(self, request: PageRequest) -> PageResponse:
        """Ask for the new name of the key."""
        key = _chosen(await self._own(request), request)
        if key.status(request.now) is not KeyStatus.ACTIVE:
            return Redirect(f"{LIST}/{key.key_id}")
        facts = {"key": _facts(key, request.now)}
        return Page("keys/rename.html", facts, values={"name": key.name})

    async def rename(self, request: PageRequest) -> PageResponse:
        """Rename the key."""
        key, text = _chosen(await self._own(request), request), request.form.line("name")
        try:
            name = parse_name(text)
        except InvalidForm as invalid:
            facts = {"key": _facts(key, request.now)}
            return Page("keys/rename.html", facts, invalid.errors, {"name": text})
        if not await self._keys.rename(request.signed_in, key.key_id, name):
            return Redirect(f"{LIST}/{key.key_id}")
        return Redirect(f"{LIST}/{key.key_id}", notice="key-renamed")

    async def ask_cap(self, request: PageRequest) -> PageResponse:
        """Ask for the new cap of the key, in credits per calendar month."""
        key = _chosen(await self._own(request), request)
        if key.status(request.now) is not KeyStatus.ACTIVE:
            return Redirect(f"{LIST}/{key.key_id}")
        cap = "" if key.month_credits_max is None else str(key.month_credits_max)
        return Page("keys/cap.html", {"key": _facts(key, request.now)}, values={"cap": cap})

    async def cap(self, request: PageRequest) -> PageResponse:
        """Change the cap of the key, in credits per calendar month."""
        key, text = _chosen(await self._own(request), request), request.form.line("cap")
        facts = {"key": _facts(key, request.now)}
        try:
            most = parse_cap(text)
        except InvalidForm as invalid:
            return Page("keys/cap.html", facts, invalid.errors, {"cap": text})
        if not await self._keys.cap(request.signed_in, key.key_id, most):
            return Redirect(f"{LIST}/{key.key_id}")
        return Redirect(f"{LIST}/{key.key_id}", notice="key-capped")

    async def ask_networks(self, request: PageRequest) -> PageResponse:
        """Ask for the networks from which the key is accepted."""
        key = _chosen(await self._own(request), request)
        if key.status(request.now) is not KeyStatus.ACTIVE:
            return Redirect(f"{LIST}/{key.key_id}")
        return _networks_page(request, key, ", ".join(key.networks.split()))

    async def set_networks(self, request: PageRequest) -> PageResponse:
        """Change the networks from which the key is accepted."""
        key, text = _chosen(await self._own(request), request), request.form.line("networks")
        try:
            networks = parse_networks(text)
        except UnusableNetwork as flaw:
            return _networks_page(request, key, text, {"networks": sentence(flaw)})
        if not await self._keys.set_networks(request.signed_in, key.key_id, networks):
            return Redirect(f"{LIST}/{key.key_id}")
        return Redirect(f"{LIST}/{key.key_id}", notice="key-networks")

    async def ask_rotate(self, request: PageRequest) -> PageResponse:
        """Ask how long the old key should stay valid after the rotation."""
        key = _chosen(await self._own(request), request)
        if not _may_rotate(key, request.now):
            return Redirect(f"{LIST}/{key.key_id}")
        return _rotate_page(key, request.now)

    async def rotate(self, request: PageRequest) -> PageResponse:
        """Replace the key with a new key, which is shown only in this response."""
        key = _chosen(await self._own(request), request)
        overlap = request.form.text("overlap")
        if overlap not in OVERLAPS_MS:
            return _rotate_page(
                key, request.now, errors={"overlap": "Choose one of the listed options."}
            )
        issued = None
        try:
            if _may_rotate(key, request.now):
                issued = await self._keys.rotate(
                    request.signed_in, key.key_id, overlap_ms=OVERLAPS_MS[overlap]
                )
        except TooManyKeys:
            return _rotate_page(key, request.now, errors={"overlap": NO_ROOM})
        if issued is None:
            return Page("keys/sent_before.html", status=409)
        return self._shown_once(issued, request.now, replaces=key, overlap=overlap)

    async def ask_revoke(self, request: PageRequest) -> PageResponse:
        """Ask for confirmation before the key is revoked."""
        key = _chosen(await self._own(request), request)
        if key.status(request.now) is not KeyStatus.ACTIVE:
            return Redirect(f"{LIST}/{key.key_id}")
        return Page("keys/revoke.html", {"key": _facts(key, request.now)})

    async def revoke(self, request: PageRequest) -> PageResponse:
        """Revoke the key; do nothing if it has already ended."""
        key = _chosen(await self._own(request), request)
        await self._keys.revoke(request.signed_in, key.key_id)
        return Redirect(LIST, notice="key-revoked")

    async def _own(self, request: PageRequest) -> Sequence[KeyLine]:
        return await self._keys.of_user(request.user_id)

    def _shown_once(
        self, issued: IssuedKey, now: UnixMs, *, replaces: KeyLine | None = None, overlap: str = ""
    ) -> Page:
        facts = {
            "secret": issued.api_key,
            "key": _facts(issued.line, now),
            "replaces": replaces,
            "overlap_words": OVERLAP_WORDS.get(overlap, ""),
            "origin": self._origin,
        }
        return Page("keys/shown_once.html", facts)


def _chosen(keys: Sequence[KeyLine], request: PageRequest) -> KeyLine:
    """Return the key in *keys* with the id in the path.  Raises NotFound."""
    wanted = KeyId(parse_id(request.path_params["key"]))
    for key in keys:
        if key.key_id == wanted:
            return key
    raise NotFound


def _newest(keys: Sequence[KeyLine]) -> int:
    """Return the id of the newest key, or 0 without keys.

    Forms contain this id: if it is older than the newest key, the form was sent before.
    """
    return max((key.key_id for key in keys), default=0)


def _may_rotate(key: KeyLine, now: UnixMs) -> bool:
    return key.status(now) is KeyStatus.ACTIVE and key.replaced_by is None


def _ended_at(key: KeyLine) -> UnixMs | None:
    """Return the time at which the key ended, or will end; None if the key has no end."""
    ends = [at for at in (key.revoked_at, key.expires_at) if at is not None]
    return min(ends, default=None)


def _form(
    request: PageRequest, values: dict[str, str], errors: Mapping[str, str] = NO_ERRORS
) -> Page:
    facts = {"areas": AREAS, "lifetimes": LIFETIME_NAMES, "here": request.browser.address}
    return Page("keys/new.html", facts, errors, values)


def _networks_page(
    request: PageRequest, key: KeyLine, text: str, errors: Mapping[str, str] = NO_ERRORS
) -> Page:
    facts = {"key": _facts(key, request.now), "here": request.browser.address}
    return Page("keys/networks.html", facts, errors, {"networks": text})


def _rotate_page(key: KeyLine, now: UnixMs, errors: Mapping[str, str] = NO_ERRORS) -> Page:
    facts = {"key": _facts(key, now), "overlaps": OVERLAP_NAMES}
    return Page("keys/rotate.html", facts, errors, {"overlap": OVERLAP})


def _facts(key: KeyLine, now: UnixMs) -> dict[str, Any]:
    """Return the values that the templates show for *key*."""
    is_active = key.status(now) is KeyStatus.ACTIVE
    return {
        "line": key,
        "is_active": is_active,
        "may_rotate": _may_rotate(key, now),
        "ended_at": _ended_at(key),
        "badge": badge(key, now),
        "scopes": in_order(key.scopes),
        "summary": summary(key.scopes),
    }
