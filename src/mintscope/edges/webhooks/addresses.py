"""Which addresses a webhook may be sent to.

A client chooses the name, and who keeps the name chooses the address: what it is resolved to is
looked at, and that very address is connected to, so that no second answer can be another.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from threading import Thread
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

# Networks whose addresses end in one of IPv4: there they lead to it.
NAT64: Final = IPv6Network("64:ff9b::/96")
COMPATIBLE: Final = IPv6Network("::/96")
UNICAST: Final = IPv6Network("2000::/3")  # all that was given to anyone
RELAYS: Final = IPv4Network("192.88.99.0/24")  # 6to4: whichever is near


class NotPublic(Exception):
    """The message says what was expected and what was there."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of *host*, as texts.  Raises OSError, UnicodeError.

    In a thread of its own: a name server that does not answer is waited for there for half a
    minute, and the few threads of the loop are those that every other name waits for.
    """
    found: Future[Sequence[str]] = Future()
    Thread(target=_resolve, args=(host, port, found), name="webhook-name", daemon=True).start()
    return await asyncio.wrap_future(found)


def _resolve(host: str, port: int, found: Future[Sequence[str]]) -> None:
    found.set_running_or_notify_cancel()
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        found.set_result(list(dict.fromkeys(str(each[4][0]) for each in told)))
    except (OSError, UnicodeError) as trouble:
        found.set_exception(trouble)


def expect_allowed(texts: Sequence[str], *, allows_loopback: bool) -> list[Address]:
    """Return the addresses of a host, if all of them may be connected to.  Raises NotPublic."""
    if not texts:
        raise NotPublic("expected an address; the name has none")
    addresses = []
    for text in texts:
        try:
            address = ip_address(text)
        except ValueError as cause:
            raise NotPublic(f"expected an address; was {text[:60]!r}") from cause
        if not is_public(address) and not (allows_loopback and address.is_loopback):
            raise NotPublic("expected a public address; the name leads to another")
        addresses.append(address)
    return addresses


def is_public(address: Address) -> bool:
    """Say whether everyone reaches the same machine at *address*."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
        if address not in UNICAST:
            return False
    elif address in RELAYS:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _inner(address: IPv6Address) -> IPv4Address | None:
    """Return the address of IPv4 that *address* leads to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in COMPATIBLE or address in NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None
