"""Which client a request comes from, for limits."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from starlette.types import Scope

from mintscope.base.limits import IPV6_PREFIX

LENGTH_MAX: Final = 64  # of an address and its zone, which may be of any length
NOWHERE: Final = "-"  # no peer address, as on a Unix socket


class ClientAddresses:
    """Reads a client's address; only the configured proxies are believed about it.

    proxies   addresses or networks, "10.0.0.0/8"; none means that the peer is the client
    Raises    ValueError for what is neither
    """

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [ip_network(proxy) for proxy in proxies]

    def key(self, scope: Scope) -> str:
        """Return the client of *scope*: an IPv4 address or an IPv6 /64.

        It is the right-most address of X-Forwarded-For that is not a proxy of
        ours: whatever stands left of it, the client may have written itself.
        """
        named = scope.get("client")
        peer = named[0] if named else NOWHERE
        if not self._proxies:
            return network_key(peer)
        chain = [
            part.strip()
            for name, value in scope["headers"]
            if name == b"x-forwarded-for"
            for part in value.decode("latin-1").split(",")
        ]
        client = peer
        while chain and self.is_proxy(client):
            if _parse(chain[-1]) is None:
                break
            client = chain.pop()
        return network_key(client)

    def is_proxy(self, text: str) -> bool:
        """Say whether *text* is the address of a configured proxy."""
        address = _parse(text)
        return address is not None and any(address in network for network in self._proxies)


@lru_cache(maxsize=10_000)
def network_key(text: str) -> str:
    """Return what a limit is keyed by: an IPv4 address, an IPv6 /64, other text as it is."""
    address = _parse(text)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, IPV6_PREFIX), strict=False))
    return text if address is None else str(address)


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    if len(text) > LENGTH_MAX:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        # A zone names an interface: for a limit it is the same address.
        address = IPv6Address(int(address))
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
