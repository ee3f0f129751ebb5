"""A request of a former administrator changes nothing, even if it has already begun."""

from collections.abc import Awaitable, Callable
from typing import Final

import apsw
import pytest

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import READ_SCOPES
from mintscope.accounts.session import Session, SessionEnded
from mintscope.accounts.signups.application import SignupId
from mintscope.accounts.signups.reviews import Reviews
from mintscope.kit.audit import COMMAND_LINE, UserId
from support.oracles.account_books import dump
from support.scenes.website import ADMINISTRATOR, HERE, PASSWORD, Website

SECOND: Final = UserId(2)

Verb = Callable[[Reviews, SignupId, Session], Awaitable[object]]
VERBS: Final[dict[str, Verb]] = {
    "approve": lambda reviews, number, session: reviews.approve(
        number, scopes=READ_SCOPES, note="", actor=session, unconfirmed=True
    ),
    "reject": lambda reviews, number, session: reviews.reject(number, note="", actor=session),
    "reset": lambda reviews, number, session: reviews.reset(number, actor=session),
    "forget": lambda reviews, number, session: reviews.forget(number, actor=session),
    "remove": lambda reviews, _, session: reviews.remove_user(SECOND, actor=session),
}
ENDS: Final = {
    "removed": "UPDATE user SET removed_at = 1 WHERE id = 1",
    "signed out": "DELETE FROM session WHERE user = 1",
    "no administrator": "UPDATE user SET administrator = 0 WHERE id = 1",
}


async def prepared(site: Website, verb: str) -> tuple[SignupId, Session]:
    """Return an application to which *verb* can be applied, and a session of an administrator."""
    review, people = site.accounts.review, site.accounts.people
    await site.make_administrator()
    await review.make_administrator(
        EmailAddress("second@example.org"), password_hash="unused", actor=COMMAND_LINE
    )
    number, secret = await site.apply_for_key("agent@example.org")
    if verb == "reset":
        await review.approve(
            number, scopes=READ_SCOPES, note="", actor=COMMAND_LINE, unconfirmed=True
        )
        await site.exchange("agent@example.org", secret)
    session = await people.session(await people.sign_in(ADMINISTRATOR, PASSWORD, HERE))
    assert session is not None
    return number, session


@pytest.mark.storm
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_former_administrator_changes_nothing(site: Website, verb: str, end: str) -> None:
    number, session = await prepared(site, verb)
    path = site.folder / "money.sqlite"
    apsw.Connection(str(path)).execute(ENDS[end]).fetchall()
    before = dump(path)

    with pytest.raises(SessionEnded):
        await VERBS[verb](site.accounts.review, number, session)

    assert dump(path) == before


@pytest.mark.parametrize("verb", VERBS)
async def test_the_log_names_the_administrator(site: Website, verb: str) -> None:
    number, session = await prepared(site, verb)
    await VERBS[verb](site.accounts.review, number, session)

    ((_, event),) = await site.accounts.review.events(limit=1)
    assert event.actor == f"user:{session.user.user_id}"
