"""A request to a page: who makes it, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.people.session import Browser, Session
from mintscope.edges.web.forms.form import FormData

START: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request to a page, which has passed every check already.

    path_params   the texts of the variable segments of the path, by name
    query_params  the fields after the question mark
    form          the fields of a POST
    session       None without one
    browser       where it comes from
    next_path     the page of this site to go to when done: from `next`, never another site's
    """

    now: UnixMs
    browser: Browser
    session: Session | None = None
    path_params: Mapping[str, str] = field(default_factory=dict)
    query_params: FormData = field(default_factory=FormData)
    form: FormData = field(default_factory=FormData)
    next_path: str = START

    @property
    def signed_in(self) -> Session:
        """The session, on routes that need one."""
        assert self.session is not None
        return self.session
