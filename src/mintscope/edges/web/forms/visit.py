"""One request to a page: who makes it, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.people.people import Browser
from mintscope.core.accounts.people.session import Session
from mintscope.edges.web.forms.form import Form

START: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a handler is told.

    path        as it was asked for
    parameters  the variable segments of the path, by name
    query       the fields after the question mark
    form        the fields of a POST, which has passed every check already
    session     None: nobody is signed in
    browser     where it comes from
    after       the page of ours to go to when done: whatever `next` said, never another site's
    """

    path: str
    now: UnixMs
    browser: Browser
    session: Session | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: Form = field(default_factory=Form)
    form: Form = field(default_factory=Form)
    after: str = START

    @property
    def signed_in(self) -> Session:
        """The session, on routes that nobody reaches without one."""
        assert self.session is not None
        return self.session
