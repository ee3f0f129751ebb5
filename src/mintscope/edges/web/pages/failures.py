"""Pages for requests that fail: one for each way."""

from typing import Final, NamedTuple

from mintscope.base.errors import (
    BadRequest,
    InternalError,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    ServiceUnavailable,
)
from mintscope.core.accounts.people.password import TooManyAttempts
from mintscope.edges.server.response import Header
from mintscope.edges.web.form import OriginRefused, sentence
from mintscope.edges.web.pages.page import Page

TOO_FAST: Final = "There were more from your address than we take at a time."


class FailureText(NamedTuple):
    """A status and its words; an empty *text* lets the error speak for itself."""

    status: int
    title: str
    text: str


FAILURES: Final[dict[type[Exception], FailureText]] = {
    BadRequest: FailureText(400, "That request cannot be read", ""),
    OriginRefused: FailureText(403, "That form was refused", ""),
    NotFound: FailureText(
        404, "There is nothing here", "The address may be mistyped, or what was here is gone."
    ),
    MethodNotAllowed: FailureText(
        405, "That is not how this page is used", "Go back to the page before, and use its buttons."
    ),
    PayloadTooLarge: FailureText(413, "That is too much text", ""),
    RateLimited: FailureText(429, "Too many requests", TOO_FAST),
    TooManyAttempts: FailureText(429, "Too many attempts", TOO_FAST),
    ServiceUnavailable: FailureText(
        503, "The service is not available just now", "Nothing was changed. Try again in a moment."
    ),
    InternalError: FailureText(
        500,
        "Something went wrong on our side",
        "It has been logged. If you report it, give the request id.",
    ),
}


WAITS: Final = (RateLimited, TooManyAttempts)


def failure_page(error: Exception, *, request_id: str) -> Page:
    """Return the page about *error*: of a bug it shows the request id and nothing else."""
    failure = FAILURES.get(type(error), FAILURES[InternalError])
    return Page(
        "failure.html",
        {
            "title": failure.title,
            "text": failure.text or sentence(error),
            "status": failure.status,
            "request_id": request_id,
            "wait_s": error.retry_after_s if isinstance(error, WAITS) else None,
        },
        status=failure.status,
    )


def failure_headers(error: Exception) -> tuple[Header, ...]:
    """Return the headers that belong to *error*."""
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode()),)
    if isinstance(error, WAITS):
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    return ()
