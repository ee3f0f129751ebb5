"""What the pages stand on, and which of them are served."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mintscope.accounts.keys import KeyDesk
from mintscope.accounts.people import PeopleDesk
from mintscope.accounts.review import ReviewDesk
from mintscope.accounts.signup import SignupDesk
from mintscope.web.account import AccountPages
from mintscope.web.entry import EntryPages
from mintscope.web.home import HomePages
from mintscope.web.keys import KeyPages
from mintscope.web.links import LinkPages
from mintscope.web.mailbox import Mailbox, MailboxPages
from mintscope.web.proving import ProvingPages
from mintscope.web.recovery import RecoveryPages
from mintscope.web.render import Features
from mintscope.web.review import ReviewPages
from mintscope.web.routes import Pages
from mintscope.web.sessions import SessionPages
from mintscope.web.users import UserPages


@dataclass(frozen=True, slots=True, kw_only=True)
class Desks:
    """Who does what the pages are about.

    mailbox  where letters are read that were not sent; None: they are sent
    """

    people: PeopleDesk
    signup: SignupDesk
    keys: KeyDesk
    review: ReviewDesk
    mailbox: Mailbox | None = None


def groups_of(desks: Desks, features: Features, origins: Sequence[str]) -> Iterator[Pages]:
    """Yield every group of pages that is served with *features*."""
    people = desks.people
    yield HomePages(people, desks.keys, desks.review, origin=origins[0])
    yield EntryPages(people, may_sign_up=features.has_people)
    yield ProvingPages(people)
    if features.has_people:
        yield RecoveryPages(people)
        yield LinkPages(people, desks.signup)
        yield KeyPages(desks.keys, origin=origins[0])
        yield AccountPages(people)
        yield SessionPages(people)
        if desks.mailbox is not None:
            yield MailboxPages(desks.mailbox, origins)
    if features.has_administration:
        yield ReviewPages(desks.review)
        yield UserPages(desks.review)
