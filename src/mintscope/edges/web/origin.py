"""Whether a form was sent by a page of ours."""

import hmac
from collections.abc import Iterable

from mintscope.core.accounts.people.session import Session
from mintscope.edges.web.form import FormData


class OriginRefused(Exception):
    """The request was not made by a page of ours; the message is shown."""


class OwnOrigins:
    """The origins at which people see the pages; the Host header is never one."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        assert self._origins

    @property
    def are_secure(self) -> bool:
        """Whether every one of them is https."""
        return all(origin.startswith("https://") for origin in self._origins)

    def expect(self, origins: list[str]) -> None:
        """Raise OriginRefused unless *origins*, the Origin headers, is one, and ours."""
        if len(origins) != 1 or origins[0] not in self._origins:
            shown = ", ".join(origins)[:120] or "nothing"
            known = " or ".join(sorted(self._origins))
            raise OriginRefused(
                f"Forms are accepted from {known} only; this one came from {shown}."
                " Open that address and try again."
            )


def expect_csrf(session: Session, form: FormData) -> None:
    """Raise OriginRefused unless *form* carries the text of *session*."""
    if not hmac.compare_digest(session.csrf.encode(), form.text("csrf").encode()):
        raise OriginRefused(
            "This form belongs to another session, or to none."
            " Go back, load the page again and send the form from there."
        )
