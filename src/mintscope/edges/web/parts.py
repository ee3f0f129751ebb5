"""What the pages stand on, and which of them are served."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mintscope.core.accounts.keys.api_keys import ApiKeys
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.web.home import HomePages
from mintscope.edges.web.keys.keys import KeyPages
from mintscope.edges.web.mailbox import Mailbox, MailboxPages
from mintscope.edges.web.pages.render import Features
from mintscope.edges.web.review.applications import ReviewPages
from mintscope.edges.web.review.users import UserPages
from mintscope.edges.web.routes import PageGroup
from mintscope.edges.web.session.account import AccountPages
from mintscope.edges.web.session.entry import EntryPages, ProvingPages
from mintscope.edges.web.session.links import LinkPages
from mintscope.edges.web.session.recovery import RecoveryPages
from mintscope.edges.web.session.sessions import SessionPages


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """What the pages show and change.

    mailbox  holds e-mails that are not sent; None where they are sent
    """

    people: People
    signup: Signups
    keys: ApiKeys
    review: Reviews
    mailbox: Mailbox | None = None


def groups_of(parts: WebParts, features: Features, origins: Sequence[str]) -> Iterator[PageGroup]:
    """Yield every group of pages that is served with *features*."""
    people = parts.people
    yield HomePages(people, parts.keys, parts.review, origin=origins[0])
    yield EntryPages(people, may_sign_up=features.has_people)
    yield ProvingPages(people)
    if features.has_people:
        yield RecoveryPages(people)
        yield LinkPages(people, parts.signup)
        yield KeyPages(parts.keys, origin=origins[0])
        yield AccountPages(people)
        yield SessionPages(people)
        if parts.mailbox is not None:
            yield MailboxPages(parts.mailbox, origins)
    if features.has_administration:
        yield ReviewPages(parts.review)
        yield UserPages(parts.review)
