"""Only configured proxies are trusted to name the address of a client."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.kit.http.request import ClientAddresses, network_key
from mintscope.kit.metrics import FORWARDED_FAULTS

PROXIES = ("10.0.0.0/8", "fd00::/8", "127.0.0.1")


def key(peer: str, *forwarded: str, proxies: tuple[str, ...] = PROXIES) -> str:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    scope: dict[str, Any] = {"client": (peer, 1), "headers": headers}
    return ClientAddresses(proxies).key(scope)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("1.2.3.4", (), "1.2.3.4"),
        ("1.2.3.4", ("9.9.9.9",), "1.2.3.4"),  # not from a configured proxy: ignored
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("9.9.9.9",), "9.9.9.9"),
        ("10.0.0.1", ("6.6.6.6, 9.9.9.9",), "9.9.9.9"),
        ("10.0.0.1", ("6.6.6.6, 9.9.9.9, 10.0.0.2",), "9.9.9.9"),
        ("10.0.0.1", ("6.6.6.6", "9.9.9.9"), "9.9.9.9"),  # two headers are one list
        ("10.0.0.1", ("10.0.0.3, 10.0.0.2",), "10.0.0.3"),
        ("10.0.0.1", ("9.9.9.9, nonsense",), "10.0.0.1"),
        ("10.0.0.1", ("",), "10.0.0.1"),
        ("10.0.0.1", (" 9.9.9.9 ",), "9.9.9.9"),
        ("10.0.0.1", ("2001:db8:1:2:3::4",), "2001:db8:1:2::/64"),
        ("fd00::1", ("9.9.9.9",), "9.9.9.9"),
        ("2001:db8::1", (), "2001:db8::/64"),
        ("2001:db8::ffff:1", (), "2001:db8::/64"),
        ("2001:db8:0:1::1", (), "2001:db8:0:1::/64"),
        ("::ffff:1.2.3.4", (), "1.2.3.4"),
        ("::ffff:10.0.0.1", ("9.9.9.9",), "9.9.9.9"),
        ("10.0.0.1", ("6.6.6.6, 9.9.9.9:51000",), "9.9.9.9"),  # some proxies write the port
        ("10.0.0.1", ("9.9.9.9:51000, 10.0.0.2:443",), "9.9.9.9"),
        ("10.0.0.1", ("[2001:db8:1:2:3::4]:443",), "2001:db8:1:2::/64"),
        ("10.0.0.1", ("[2001:db8:1:2:3::4]",), "2001:db8:1:2::/64"),
        ("10.0.0.1", ("2001:db8:1:2:3:4:5:443",), "2001:db8:1:2::/64"),
        ("10.0.0.1", ("9.9.9.9:x",), "10.0.0.1"),
        ("10.0.0.1", ("9.9.9.9:",), "10.0.0.1"),
        ("10.0.0.1", ("[9.9.9.9]:443",), "10.0.0.1"),
        ("10.0.0.1", ("[2001:db8::1",), "10.0.0.1"),
    ],
)
def test_the_client_is_the_right_most_address_that_is_no_proxy(
    peer: str, forwarded: tuple[str, ...], expected: str
) -> None:
    assert key(peer, *forwarded) == expected


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.ip_addresses().map(str), max_size=4))
def test_headers_that_a_client_writes_never_change_its_limit(written: list[str]) -> None:
    assert key("10.0.0.1", ", ".join([*written, "9.9.9.9"])) == "9.9.9.9"
    assert key("9.9.9.9", ", ".join(written), proxies=()) == "9.9.9.9"


def test_requests_of_a_proxy_that_name_no_client_are_counted() -> None:
    def counts() -> list[float]:
        return [
            FORWARDED_FAULTS.labels(fault)._value.get()  # noqa: SLF001 - no public reader
            for fault in ("missing", "unreadable")
        ]

    missing, unreadable = counts()
    key("10.0.0.1")
    key("10.0.0.1", "9.9.9.9, unknown")
    key("10.0.0.1", "9.9.9.9:80")
    key("1.2.3.4")
    key("1.2.3.4", "unknown")
    assert counts() == [missing + 1, unreadable + 1]


def test_a_connection_without_an_address_has_a_key() -> None:
    assert ClientAddresses().key({"client": None, "headers": []}) == "-"


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        ClientAddresses(["proxy.example.org"])


def test_an_ipv6_zone_is_ignored_and_an_address_with_a_long_zone_is_refused() -> None:
    assert network_key("fe80::1%eth0") == network_key("fe80::1") == "fe80::/64"
    forwarded = (b"x-forwarded-for", b"fe80::1%" + b"a" * 10_000)
    scope = {"client": ("10.0.0.1", 1), "headers": [forwarded]}

    assert ClientAddresses(["10.0.0.0/8"]).key(scope) == "10.0.0.1"
