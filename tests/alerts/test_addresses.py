"""Webhooks go only to public IP addresses, whatever addresses a host name resolves to."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import pytest

from mintscope.alerts.webhooks import NotPublic, expect_allowed, is_public, resolve

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",  # metadata of clouds
    "169.254.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",  # metadata of clouds
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "::10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::10.0.0.1",
    "64:ff9b:1::8.8.8.8",  # the prefix of NAT64 for private networks
    "fec0::1",
    "fec0:0:0:ffff::1",
    "100::1",
    "::ffff:0:8.8.8.8",
    "4000::1",
    "5f00::1",
    "192.88.99.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:0:0:0:0:80ff:fffe",  # Teredo of 127.0.0.1
    "2606:4700::1%1",
]
PUBLIC = [
    "1.1.1.1",
    "93.184.215.14",
    "172.32.0.1",
    "2606:4700:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",  # NAT64, for networks without IPv4
]


@pytest.mark.parametrize("text", PRIVATE)
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    assert not is_public(ip_address(text))
    with pytest.raises(NotPublic):
        expect_allowed([text], allows_loopback=False)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_is_allowed(text: str) -> None:
    assert expect_allowed([text], allows_loopback=False) == [ip_address(text)]


@pytest.mark.parametrize("texts", [[], ["x"], ["1.1.1.1", "10.0.0.1"], ["10.0.0.1", "1.1.1.1"]])
def test_a_name_is_refused_unless_all_its_addresses_are_valid_and_public(texts: list[str]) -> None:
    with pytest.raises(NotPublic):
        expect_allowed(texts, allows_loopback=True)


def test_the_option_for_loopback_allows_no_other_private_address() -> None:
    assert expect_allowed(["127.0.0.1", "::1"], allows_loopback=True)
    for text in ("10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1"):
        with pytest.raises(NotPublic):
            expect_allowed([text], allows_loopback=True)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost"])
async def test_unusual_spellings_of_loopback_addresses_are_refused(host: str) -> None:
    found = await resolve(host, 443)
    with pytest.raises(NotPublic):
        expect_allowed(found, allows_loopback=False)


async def test_a_name_is_resolved_while_the_default_executor_is_busy() -> None:
    go_on = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = loop.run_in_executor(None, go_on.wait, 10)
    try:
        assert await asyncio.wait_for(resolve("127.0.0.1", 443), 5) == ["127.0.0.1"]
        with pytest.raises(UnicodeError):
            await resolve("a..b", 443)
    finally:
        go_on.set()
        await busy
