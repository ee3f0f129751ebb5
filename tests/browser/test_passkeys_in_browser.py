"""Passkeys, with a virtual authenticator of Chromium (WebAuthn over CDP)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from page_checks import look_at
from playwright.async_api import Browser, CDPSession, expect

from support.scenes.people.browsing import Visitor, visiting
from support.scenes.website import MINUTE_MS, PASSWORD, Website

pytestmark = pytest.mark.asyncio(loop_scope="session")

FACTORS = "/settings/second-factor"


@asynccontextmanager
async def with_authenticator(
    chromium: Browser, site: Website, *, is_phone: bool = False
) -> AsyncIterator[tuple[Visitor, CDPSession, str]]:
    """Open a browser at localhost, with an authenticator that confirms every request.

    is_phone   whether the authenticator stores passkeys with their accounts and verifies its user
    """
    origin = site.origin.replace("127.0.0.1", "localhost")
    async with visiting(chromium, origin) as visitor:
        device = await visitor.page.context.new_cdp_session(visitor.page)
        await device.send("WebAuthn.enable")
        options = {
            "protocol": "ctap2",
            "transport": "internal" if is_phone else "usb",
            "hasResidentKey": is_phone,
            "hasUserVerification": is_phone,
            "isUserVerified": is_phone,
            "automaticPresenceSimulation": True,
        }
        added = await device.send("WebAuthn.addVirtualAuthenticator", {"options": options})
        yield visitor, device, added["authenticatorId"]


async def enter_password(visitor: Visitor, email: str) -> None:
    await visitor.open("/sign-in")
    await visitor.fill(E_mail_address=email, Password=PASSWORD)
    await visitor.press("Sign in")
    await visitor.reads("Two-factor sign-in")


async def add_passkey(visitor: Visitor, name: str) -> None:
    await visitor.page.get_by_label("Name", exact=True).fill(name)
    await visitor.press("Continue")
    await visitor.page.get_by_label("I saved them").check()
    await visitor.press("Done")


async def test_a_passkey_is_added_used_to_sign_in_and_removed(
    chromium: Browser, live_site: Website
) -> None:
    email = "passkey@people.example"
    async with with_authenticator(chromium, live_site) as (visitor, _, _):
        await visitor.sign_up(email)
        await visitor.open(FACTORS)
        await visitor.follow("Add a passkey")
        faults = await look_at(visitor.page, "second-factor-passkey")
        await add_passkey(visitor, "The blue key")
        await visitor.reads("The blue key")
        faults += await look_at(visitor.page, "second-factor-passkeys")
        await visitor.follow("Add a passkey")
        await visitor.page.get_by_label("Name", exact=True).fill("The same key")
        await visitor.page.get_by_role("button", name="Continue").click()
        await visitor.reads("This device has a passkey of this account already.")

        await visitor.press("Sign out")
        await enter_password(visitor, email)
        faults += await look_at(visitor.page, "sign-in-passkey")
        await visitor.press("Use a passkey")
        await visitor.reads("Sign out")

        await visitor.open(FACTORS)
        await visitor.follow("Remove The blue key")
        await visitor.press("Remove it")
        await visitor.reads("The second factor is removed and no longer works for signing in.")
        await visitor.press("Sign out")
        await visitor.sign_in(email)
        await visitor.reads("Sign out")
    assert faults == []


async def test_a_copied_passkey_is_refused(chromium: Browser, live_site: Website) -> None:
    email = "copied@people.example"
    async with with_authenticator(chromium, live_site) as (visitor, device, authenticator):
        await visitor.sign_up(email)
        await visitor.open(f"{FACTORS}/passkeys/new")
        await add_passkey(visitor, "Original")
        held = await device.send("WebAuthn.getCredentials", {"authenticatorId": authenticator})
        (original,) = held["credentials"]
        for _ in range(2):
            await visitor.press("Sign out")
            await enter_password(visitor, email)
            await visitor.press("Use a passkey")
        await visitor.press("Sign out")
        await enter_password(visitor, email)
        # The counter of a copy is behind the counter that the service has stored.
        copied: dict[str, Any] = original | {"signCount": 0}
        named = {"authenticatorId": authenticator}
        await device.send("WebAuthn.clearCredentials", named)
        await device.send("WebAuthn.addCredential", named | {"credential": copied})
        await visitor.press("Use a passkey")
        await visitor.reads("This passkey may be a copy")
        await expect(visitor.page.get_by_role("button", name="Use a passkey")).to_be_visible()
        await visitor.open("/settings/account")
        assert visitor.path.startswith("/sign-in")


async def test_a_passkey_of_a_phone_signs_in_without_a_password(
    chromium: Browser, live_site: Website
) -> None:
    email = "phone@people.example"
    async with with_authenticator(chromium, live_site, is_phone=True) as (visitor, device, phone):
        await visitor.sign_up(email)
        await visitor.open(f"{FACTORS}/passkeys/new")
        await add_passkey(visitor, "My phone")
        await visitor.press("Sign out")
        live_site.clock.advance(MINUTE_MS)
        named = {"authenticatorId": phone}
        # The browser suggests a passkey at once: with one, the device would answer before a click.
        away = await device.send("WebAuthn.getCredentials", named)
        await device.send("WebAuthn.clearCredentials", named)
        await visitor.open("/sign-in?next=/settings/account")
        faults = await look_at(visitor.page, "sign-in-by-passkey")
        await visitor.page.get_by_role("button", name="Sign in with a passkey").click()
        await visitor.reads("That was cancelled, or took too long")
        for each in away["credentials"]:
            await device.send("WebAuthn.addCredential", named | {"credential": each})
        await visitor.press("Sign in with a passkey")
        await visitor.reads(email)
        assert visitor.path == "/settings/account"
        await visitor.press("Sign out")
        live_site.clock.advance(MINUTE_MS)
        # The device of the test takes the browser's suggestion at once.
        await visitor.page.goto(visitor.origin + "/sign-in?next=/settings/log", wait_until="commit")
        await visitor.page.wait_for_url("**/settings/log")
        await expect(visitor.page.get_by_text("Signed in with a passkey")).to_have_count(2)
    assert faults == []


async def test_a_passkey_is_refused_at_another_address_of_the_site(
    chromium: Browser, live_site: Website
) -> None:
    async with visiting(chromium, live_site.origin) as visitor:
        await visitor.sign_up("by-number@people.example")
        await visitor.open(f"{FACTORS}/passkeys/new")
        await visitor.page.get_by_label("Name", exact=True).fill("Here")
        await visitor.page.get_by_role("button", name="Continue").click()
        await visitor.reads("Passkeys belong to another address of this site")


async def test_an_authenticator_app_is_offered_without_scripts(
    chromium: Browser, live_site: Website
) -> None:
    async with visiting(chromium, live_site.origin, scripts=False) as visitor:
        await visitor.sign_up("plain@people.example")
        await visitor.open(f"{FACTORS}/passkeys/new")
        await visitor.reads("use an authenticator app")
        await expect(visitor.page.get_by_text("Continue", exact=True)).to_be_hidden()
