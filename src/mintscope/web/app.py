"""The pages in one screen.

How a page is made
    1. A module for each group of pages, with a class that holds the desks it needs and has
       `routes()`, which yields a `Route` for each method of each path.  Add it to `groups` below.
    2. A handler is `async def show(self, visit: Visit) -> Reply`.  It returns `Page("x.html",
       {facts})`, `Goto("/path", notice="key of notices.NOTICES")` or `Text(...)`.  What a person
       typed wrong is the same page again, `Page(..., errors={field: message}, values={...},
       status=422)`.  It may raise what `failures.FAILURES` has words for: NotFound, BadRequest, ...
    3. Before a handler runs, `front` has checked the route's `access` (SIGNED_IN sends strangers
       to sign in, FRESH asks for the password again), the Origin and `csrf` of a form, and
       its size.  `visit.signed_in` is the session.  GET changes nothing.
    4. A template extends `base.html` and fills `title` and `main`.  Forms are made of the macros in
       `macros.html`: `{{ csrf(session) }}` first, then `field(...)`, `button(...)`.  Every text is
       escaped, a missing name is an error.  No script or style in a template: `static/`.
    5. Pages work without scripts.  htmx may make them quicker: `hx-post` beside a form's own
       action, with `hx-target` and `hx-select` naming the same element; the server sends whole
       pages and knows nothing of it.
"""

from collections.abc import Callable, Sequence

from starlette.types import ASGIApp, Scope

from mintscope.accounts.people import PeopleDesk
from mintscope.clock import Clock
from mintscope.web.answer import Wording
from mintscope.web.files import StaticFiles
from mintscope.web.front import Front, Turnstile
from mintscope.web.home import HomePages
from mintscope.web.origin import OwnOrigins
from mintscope.web.render import Features, Renderer
from mintscope.web.routes import Pages, Table


def create_web(
    *,
    people: PeopleDesk,
    origins: Sequence[str],
    clock: Clock,
    client: Callable[[Scope], str],
    turnstile: Turnstile,
) -> ASGIApp:
    """Return the pages.

    origins    the addresses at which they are seen: forms come from nowhere else
    client     who a request comes from, for limits
    turnstile  counts a form of a client; the seconds to wait if there were too many
    """
    groups: list[Pages] = [HomePages()]
    files = StaticFiles()
    own = OwnOrigins(origins)
    renderer = Renderer(static=files.address, features=Features(has_mailbox=False), clock=clock)
    return Front(
        table=Table(route for group in groups for route in group.routes()),
        people=people,
        wording=Wording(renderer=renderer, is_secure=own.are_secure),
        files=files,
        origins=own,
        clock=clock,
        client=client,
        turnstile=turnstile,
    )
