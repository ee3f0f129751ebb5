"""The pages in one screen.

How a page is made
    1. A module for each group of pages, with a class that holds the desks it needs and has
       `routes()`, which yields a `Route` for each method of each path.  `parts.groups_of` names it.
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
from dataclasses import replace

from starlette.types import ASGIApp, Scope

from mintscope.base.clock import Clock
from mintscope.base.limits import Limiter
from mintscope.edges.web.forms.origin import OwnOrigins
from mintscope.edges.web.front import Front
from mintscope.edges.web.pages.answer import Wording
from mintscope.edges.web.pages.files import StaticFiles
from mintscope.edges.web.pages.render import Features, Renderer
from mintscope.edges.web.parts import WebParts, groups_of
from mintscope.edges.web.routes import Table


def create_web(  # noqa: PLR0913 - one argument for each thing that can be replaced
    *,
    desks: WebParts,
    origins: Sequence[str],
    clock: Clock,
    client: Callable[[Scope], str],
    limiter: Limiter,
    features: Features | None = None,
) -> ASGIApp:
    """Return the pages.

    origins   the addresses at which they are seen, the one in letters first: forms come from
              nowhere else
    client    who a request comes from, for limits
    limiter   how many forms a client may send
    features  which pages there are; by default all but the mailbox, which needs one
    """
    features = features or Features()
    has_mailbox = features.has_people and desks.mailbox is not None
    features = replace(features, has_mailbox=has_mailbox)
    files, own = StaticFiles(), OwnOrigins(origins)
    groups = groups_of(desks, features, origins)
    return Front(
        table=Table(route for group in groups for route in group.routes()),
        people=desks.people,
        wording=Wording(
            renderer=Renderer(static=files.address, features=features, clock=clock),
            is_secure=own.are_secure,
        ),
        files=files,
        origins=own,
        clock=clock,
        client=client,
        limiter=limiter,
    )
