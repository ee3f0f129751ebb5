"""API keys: a request with a valid key acts as the key's user, within the key's scopes."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, TypedDict

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.secrets import AccountSecrets
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import ApiKey, CredentialHash, hint
from mintscope.kit.limits import IPV6_PREFIX
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS

NAME_LENGTH_MAX: Final = 64
KEYS_PER_USER_MAX: Final = 100
KEYS_PER_DAY_MAX: Final = 200
KEYS_SHOWN_MAX: Final = 500
ADDRESSES_MAX: Final = 10  # the number of addresses stored for a key: those used last
OVERLAPS_MS: Final = {"0": 0, "1h": HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS}
LIFETIMES_MS: Final = {"30d": 30 * DAY_MS, "90d": 90 * DAY_MS, "1y": 365 * DAY_MS, "never": None}


NETWORKS_MAX: Final = 20
SEPARATORS: Final = re.compile(r"[\s,;]+")
ANYWHERE: Final = ""  # the key is accepted from any network
MAPPED: Final = IPv6Network("::ffff:0:0/96")  # IPv4 addresses in IPv6 notation
IPV4_BITS: Final = (1 << 32) - 1
IPV6_IS_WIDE: Final = (
    f"expected an IPv6 prefix of at most /{IPV6_PREFIX}, because clients are known no more exactly;"
    " write {network}"
)


class UnusableNetwork(ValueError):
    """The text is not a list of networks; the message is safe to show to the user."""


def parse_networks(text: str) -> str:
    """Return the networks in *text* in their stored form: CIDR notation, separated by spaces.

    *text* can also contain addresses; spaces, commas and semicolons separate its parts.  If there
    are no parts, the result is ANYWHERE, the empty text.
    Raises UnusableNetwork.
    """
    parts = [part for part in SEPARATORS.split(text) if part]
    if len(parts) > NETWORKS_MAX:
        raise UnusableNetwork(f"expected at most {NETWORKS_MAX} networks; there were {len(parts)}")
    return " ".join(dict.fromkeys(str(_network(part)) for part in parts))


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise UnusableNetwork(
            f"expected addresses or networks, as 203.0.113.7 or 203.0.113.0/24; one was {text[:50]}"
        ) from None
    if "%" in text:
        # Addresses of clients have no zone, so the network would contain no client.
        raise UnusableNetwork(f"expected an IPv6 network without a zone; one was {text[:50]}")
    if isinstance(network, IPv6Network) and network.subnet_of(MAPPED):
        # An IPv4 client is identified by its IPv4 address, in whichever notation it is written.
        inner = int(network.network_address) & IPV4_BITS
        return IPv4Network((inner, network.prefixlen - MAPPED.prefixlen))
    if isinstance(network, IPv6Network) and network.prefixlen > IPV6_PREFIX:
        wider = network.supernet(new_prefix=IPV6_PREFIX)
        raise UnusableNetwork(IPV6_IS_WIDE.format(network=wider))
    return network


@lru_cache(maxsize=1_000)
def is_within(client: str, networks: str) -> bool:
    """Return whether *client* is in one of *networks*.

    client     an IPv4 address or an IPv6 /64; any other text is only within ANYWHERE, the empty
               text
    networks   networks in CIDR notation, separated by spaces, as `parse_networks` returns them
    """
    if networks == ANYWHERE:
        return True
    try:
        at = ip_network(client)
    except ValueError:
        return False
    return any(_holds(ip_network(each), at) for each in networks.split())


def _holds(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    # `subnet_of` raises TypeError for networks of different versions.
    if isinstance(outer, IPv4Network):
        return isinstance(inner, IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and inner.subnet_of(outer)


def are_within(inner: str, outer: str) -> bool:
    """Return whether each network of *inner* is in a network of *outer*.

    Both are networks in CIDR notation, separated by spaces, as `parse_networks` returns them.
    ANYWHERE, the empty text, contains all networks, and is only within itself.
    """
    if outer == ANYWHERE:
        return True
    around = [ip_network(each) for each in outer.split()]
    inside = [ip_network(each) for each in inner.split()]
    # Without `bool`, ANYWHERE, which has no networks, would be within any networks.
    return bool(inside) and all(any(_holds(each, one) for each in around) for one in inside)


class KeyStatus(StrEnum):
    """The states of a key; only an active key is accepted."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLine:
    """The data of a key without its secret, so that it can be shown.

    hint          the last characters of the key, preceded by three dots
    expires_at    the time when the key expires; None: it does not expire
    last_used_at  time of the last use, stored up to 30 s late; None: the key was never used
    replaced_by   the key that replaced this key in a rotation; None: the key was not rotated
    month_credits_max  the most credits that the key may spend in a calendar month; None: no cap
    networks      the networks from which the key is accepted, a text from `parse_networks`
    """

    key_id: KeyId
    user_id: UserId
    name: str
    hint: str
    scopes: frozenset[Scope]
    created_at: UnixMs
    expires_at: UnixMs | None
    revoked_at: UnixMs | None
    last_used_at: UnixMs | None
    replaced_by: KeyId | None
    month_credits_max: int | None
    networks: str

    def status(self, now: UnixMs) -> KeyStatus:
        """Return the status of the key at *now*."""
        if self.revoked_at is not None:
            return KeyStatus.REVOKED
        if self.expires_at is not None and now >= self.expires_at:
            return KeyStatus.EXPIRED
        return KeyStatus.ACTIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """The row of a new key; its fields are described at KeyLine."""

    key_hash: CredentialHash
    hint: str
    name: str
    scopes: frozenset[Scope]
    expires_at: UnixMs | None
    networks: str = ANYWHERE


def new_key(  # noqa: PLR0913 - one argument for each part
    api_key: ApiKey,
    secrets: AccountSecrets,
    name: str,
    scopes: frozenset[Scope],
    expires_at: UnixMs | None,
    *,
    networks: str = ANYWHERE,
) -> NewKey:
    """Return the row for *api_key*; the row has only the hash and the hint of the key."""
    return NewKey(
        key_hash=secrets.hash(api_key),
        hint=f"...{hint(api_key)}",
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        networks=networks,
    )


@dataclass(frozen=True, slots=True)
class KeyAddress:
    """A client address or network that used a key, and the time of its last use."""

    address: str
    last_used_at: UnixMs


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of an API key: the key, and the name of its user."""

    key: KeyLine
    username: str

    def has(self, scope: Scope) -> bool:
        """Return whether the key has *scope*."""
        return scope in self.key.scopes


class KeyChanges(TypedDict, total=False):
    """The columns of a key that an update can change."""

    name: str
    scopes: frozenset[Scope]
    expires_at: UnixMs
    revoked_at: UnixMs
    replaced_by: KeyId
    month_credits_max: int | None
    networks: str
