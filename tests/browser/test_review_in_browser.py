"""Pages of administration, used by an administrator in a browser."""

import pytest
from playwright.async_api import Browser, expect

from mintscope.accounts.signups.application import SignupId
from support.scenes.people.browsing import Visitor, visiting
from support.scenes.website import ADMINISTRATOR, PASSWORD, Website

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def confirmed(site: Website, email: str, motivation: str = "To trade.") -> SignupId:
    """Apply as *email*, confirm by the link in the e-mail, and return the application's ID."""
    signup_id = await site.apply(email, motivation)
    link = await site.link(email)
    assert await site.accounts.signup.confirm_by_link(link.rpartition("/")[2])
    return signup_id


async def unfold(visitor: Visitor, summary: str) -> None:
    """Open the details under *summary*, unless they are open."""
    folded = visitor.page.locator("details:not([open]) > summary", has_text=summary)
    if await folded.count():
        await folded.click()


async def go_to(visitor: Visitor, path: str) -> None:
    """Sign in as the administrator, and open *path*."""
    await visitor.sign_in(ADMINISTRATOR, path)


async def test_the_application_that_waits_longest_is_approved_and_notified(
    live_site: Website, visitor: Visitor
) -> None:
    for name in ("early", "later"):
        await confirmed(live_site, f"{name}@review.example", f"I am {name}.\n\n  Two spaces.")
        live_site.clock.advance(60_000)
    await go_to(visitor, "/admin")
    queue = await visitor.page.get_by_role("table").inner_text()
    assert queue.index("early@review.example") < queue.index("later@review.example")
    await visitor.follow("early@review.example")
    motivation = visitor.page.get_by_text("I am early.")
    assert await motivation.inner_text() == "I am early.\n\n  Two spaces."
    await unfold(visitor, "Approve with further scopes, or a note")
    await visitor.page.get_by_label("trade:write").check()
    await visitor.fill(Note_optional="Known from the forum.")
    await visitor.press("Approve")
    await visitor.reads("Approved. An e-mail is on its way to the applicant.")
    assert "approved" in await live_site.email("early@review.example")

    await visitor.follow("Audit log")
    await visitor.reads("approved")
    await visitor.open("/admin?state=approved")
    await visitor.follow("early@review.example")
    for text in ("Known from the forum.", "trade:write", "wallets:read", "Approved"):
        await visitor.reads(text)
    assert await visitor.page.get_by_role("button", name="Approve").count() == 0


async def test_an_email_address_of_usual_length_is_on_one_line(
    live_site: Website, visitor: Visitor
) -> None:
    email = "firstname.lastname@company.example"
    await confirmed(live_site, email, "To trade by myself, with a motivation of some length. " * 3)
    await go_to(visitor, "/admin")
    link = visitor.page.get_by_role("link", name=email)
    assert await link.evaluate("link => link.querySelector('bdi').getClientRects().length") == 1


async def test_the_reason_of_a_rejection_is_not_sent_to_the_applicant(
    live_site: Website, visitor: Visitor
) -> None:
    signup_id = await confirmed(live_site, "no@review.example")
    await go_to(visitor, f"/admin/applications/{signup_id}")
    await unfold(visitor, "Reject with a reason")
    await visitor.fill(Reason_optional="Spam, the third time.")
    await visitor.press("Reject")
    await visitor.reads("Rejected. An e-mail is on its way to the applicant.")
    assert "Spam" not in await live_site.email("no@review.example")
    await visitor.open(f"/admin/applications/{signup_id}")
    await visitor.reads("Spam, the third time.")


async def test_an_unconfirmed_application_is_approved_only_with_a_tick(
    live_site: Website, visitor: Visitor
) -> None:
    signup_id = await live_site.apply("unread@review.example")
    await go_to(visitor, f"/admin/applications/{signup_id}")
    await unfold(visitor, "Approve with further scopes, or a note")
    await visitor.page.get_by_label("groups:write").check()
    await visitor.fill(Note_optional="By telephone.")
    await visitor.press("Approve")
    await visitor.reads("Tick this to approve an unconfirmed mailbox.")
    await expect(visitor.page.get_by_label("groups:write")).to_be_checked()
    await expect(visitor.page.locator("#approve-note")).to_have_value("By telephone.")
    await visitor.page.get_by_label("Approve without a confirmed mailbox").check()
    await visitor.press("Approve")

    await visitor.reads("Approved. An e-mail is on its way to the applicant.")


async def test_notes_and_reasons_of_more_than_2000_characters_are_refused(
    live_site: Website, visitor: Visitor
) -> None:
    signup_id = await confirmed(live_site, "long@review.example")
    await go_to(visitor, f"/admin/applications/{signup_id}")
    await unfold(visitor, "Approve with further scopes, or a note")
    await visitor.fill(Note_optional="x" * 2_001)
    await visitor.press("Approve")
    await visitor.reads("Expected at most 2,000 characters; there were 2,001.")
    await unfold(visitor, "Reject with a reason")
    await visitor.fill(Reason_optional="x" * 2_001)
    await visitor.press("Reject")
    await visitor.reads("Expected at most 2,000 characters; there were 2,001.")


async def test_the_slower_of_two_administrators_sees_the_decision_of_the_other(
    chromium: Browser, live_site: Website, visitor: Visitor
) -> None:
    signup_id = await confirmed(live_site, "twice@review.example")
    await go_to(visitor, f"/admin/applications/{signup_id}")
    async with visiting(chromium, live_site.origin) as colleague:
        await go_to(colleague, f"/admin/applications/{signup_id}")
        await colleague.press("Reject")
    await visitor.press("Approve")

    await visitor.reads("was rejected")
    assert await visitor.page.get_by_role("button", name="Approve").count() == 0


async def test_a_review_needs_a_password_entered_in_the_last_ten_minutes(
    live_site: Website, visitor: Visitor
) -> None:
    signup_id = await confirmed(live_site, "stale@review.example")
    await go_to(visitor, f"/admin/applications/{signup_id}")
    live_site.clock.advance(11 * 60_000)
    await visitor.press("Approve")
    await visitor.reads("Enter your password")
    await visitor.page.get_by_role("textbox", name="Password").fill(PASSWORD)
    await visitor.press("Continue")
    await visitor.reads("Waiting for approval")
    live_site.clock.advance(11 * 60_000)
    await visitor.page.reload()
    await visitor.reads("Your password was entered more than ten minutes ago.")
    await visitor.follow("Enter your password to decide")
    await visitor.page.get_by_role("textbox", name="Password").fill(PASSWORD)
    await visitor.press("Continue")
    await visitor.press("Approve")

    await visitor.reads("Approved. An e-mail is on its way to the applicant.")


async def test_an_issued_key_is_reset_and_an_application_forgotten(
    live_site: Website, visitor: Visitor
) -> None:
    email = "lost@review.example"
    signup_id, secret = await live_site.apply_for_key(email)
    await go_to(visitor, f"/admin/applications/{signup_id}/reset")
    await visitor.press("Revoke the key and reset")
    await visitor.reads("expected an application that has its key already")
    await visitor.open(f"/admin/applications/{signup_id}")
    await visitor.page.get_by_label("Approve without a confirmed mailbox").check()
    await visitor.press("Approve")
    first = await live_site.exchange(email, secret)
    await visitor.open(f"/admin/applications/{signup_id}")
    await visitor.reads("Key issued")
    await visitor.follow("Allow another key exchange")
    await visitor.press("Revoke the key and reset")
    await visitor.reads("The key is revoked. The same secret can be exchanged once more.")
    live_site.clock.advance(6_000)
    assert await live_site.exchange(email, secret) != first

    await visitor.open(f"/admin/applications/{signup_id}")
    await visitor.follow("Forget the application")
    await visitor.press("Forget the application")
    await visitor.reads("The application is deleted. Its address may apply again.")
    assert (await visitor.open(f"/admin/applications/{signup_id}")).status == 404


async def test_an_account_is_removed_only_after_its_name_is_typed(
    chromium: Browser, live_site: Website, visitor: Visitor
) -> None:
    async with visiting(chromium, live_site.origin) as person:
        await person.sign_up("gone@review.example")
        await go_to(visitor, "/admin/users")
        row = visitor.page.get_by_role("row").filter(has_text="gone@review.example")
        username = await row.locator(".name").inner_text()
        await visitor.follow(f"Remove {username}")
        await visitor.fill(User_name="someone")
        await visitor.press("Remove the account")
        await visitor.reads(f"Type {username} here.")
        await visitor.fill(User_name=username)
        await visitor.press("Remove the account")
        await visitor.reads("The account is removed.")
        assert await visitor.page.get_by_text("gone@review.example").count() == 0
        await person.open("/settings/api-keys")
        assert person.path.startswith("/sign-in")


async def test_the_last_administrator_cannot_be_removed(visitor: Visitor) -> None:
    await go_to(visitor, "/admin/users")
    row = visitor.page.get_by_role("row").filter(has_text=ADMINISTRATOR)
    username = await row.locator(".name").inner_text()
    await visitor.follow(f"Remove {username}")
    await visitor.reads("This is your own account.")
    await visitor.fill(User_name=username)
    await visitor.press("Remove the account")

    await visitor.reads("administrator")
    assert await visitor.page.get_by_role("alert").count() == 1
    await visitor.open("/admin")
    assert visitor.path == "/admin"


async def test_long_lists_are_shown_in_pages(live_site: Website, visitor: Visitor) -> None:
    for number in range(51):
        await live_site.apply(f"many{number:02}@paging.example")
        live_site.clock.advance(1_000)
    await go_to(visitor, "/admin?state=awaiting_confirmation")
    first = set(await visitor.page.locator(".name").all_inner_texts())
    await visitor.follow("More")
    second = set(await visitor.page.locator(".name").all_inner_texts())
    assert len(first) == 25
    assert len(second) == 25
    assert not first & second
    await visitor.follow("More")
    third = set(await visitor.page.locator(".name").all_inner_texts())
    wanted = {f"many{number:02}@paging.example" for number in range(51)}
    assert wanted <= first | second | third
    await visitor.follow("First page")
    assert set(await visitor.page.locator(".name").all_inner_texts()) == first
    await visitor.open("/admin/audit")
    await visitor.follow("Older")
    await visitor.reads("First page")
