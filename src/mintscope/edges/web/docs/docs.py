"""The pages of the documentation: guides, a page for each endpoint, what each number means."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from mintscope import __version__
from mintscope.base.errors import NotFound
from mintscope.base.solana import WSOL
from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD
from mintscope.edges.web.docs.changelog import releases
from mintscope.edges.web.docs.definitions import DEFINITIONS
from mintscope.edges.web.docs.guides import GUIDES, REPORT, facts_of
from mintscope.edges.web.docs.programs import ExampleProgram, programs_of
from mintscope.edges.web.docs.reference import DescribedEndpoint, Reference
from mintscope.edges.web.pages.page import Markdown, Page, PageResponse, PlainText
from mintscope.edges.web.routes import PageHandler, PageRequest, PageRoute, get

MARKDOWN: Final = ".md"
# Endpoints to try on the page: those that only read, and those undone as easily.
TRIED_AREAS: Final = ("Market data", "Watchlists", "Service")


class DocsPages:
    """The pages below `/docs`.

    read_reference   returns what the API that is served beside them says of itself
    """

    def __init__(self, read_reference: Callable[[], Reference], *, origin: str) -> None:
        self._read_reference = read_reference
        self._origin = origin
        self._programs: dict[str, tuple[ExampleProgram, ...]] = {}

    @property
    def _reference(self) -> Reference:
        return self._read_reference()

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/docs/guides/{guide}", self.show_guide)
        yield get("/docs/api/{endpoint}", self.show_endpoint)
        for path, show in (
            ("/docs", self.show),
            ("/docs/indicators", self.show_indicators),
            ("/docs/errors", self.show_errors),
            ("/docs/changelog", self.show_changelog),
        ):
            yield get(path, show)
            yield get(path + MARKDOWN, self._as_markdown(show))
        yield get("/docs/words.json", self.get_words)

    def _as_markdown(self, show: PageHandler) -> PageHandler:
        """Return the handler that returns the page of *show* as Markdown."""

        async def show_text(request: PageRequest) -> PageResponse:
            page = await show(request)
            assert isinstance(page, Page)
            return Markdown(page, self._origin)

        return show_text

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show what there is."""
        first = self._reference.endpoints["get-token"]
        programs = self._programs_of(first)
        return self._page("index", here="", programs_shown=programs, answer_short=REPORT)

    async def show_guide(self, request: PageRequest) -> PageResponse:
        """Show a guide, or its Markdown.  Raises NotFound."""
        slug = request.path_params["guide"].removesuffix(MARKDOWN)
        guide = next((each for each in GUIDES if each.slug == slug), None)
        if guide is None:
            raise NotFound
        first = self._programs_of(self._reference.endpoints["get-token"])
        facts = facts_of(guide, self._origin)
        here = f"/guides/{slug}"
        page = self._page(here[1:], here=here, guide=guide, programs_shown=first, **facts)
        return self._in_form(page, request.path_params["guide"])

    async def show_endpoint(self, request: PageRequest) -> PageResponse:
        """Show an endpoint, or its Markdown.  Raises NotFound."""
        slug = request.path_params["endpoint"]
        endpoint = self._reference.endpoints.get(slug.removesuffix(MARKDOWN))
        if endpoint is None:
            raise NotFound
        area = next(each for each in self._reference.areas if endpoint in each.endpoints)
        page = self._page(
            "endpoint",
            here=f"/api/{endpoint.slug}",
            endpoint=endpoint,
            area=area.name,
            programs_shown=self._programs_of(endpoint),
            may_be_tried=endpoint.method == "GET" or area.name in TRIED_AREAS,
        )
        return self._in_form(page, slug)

    def _in_form(self, page: Page, slug: str) -> PageResponse:
        return Markdown(page, self._origin) if slug.endswith(MARKDOWN) else page

    async def show_indicators(self, _request: PageRequest) -> PageResponse:
        """Show what each number means."""
        return self._page("indicators", here="/indicators", definitions=DEFINITIONS)

    async def show_errors(self, _request: PageRequest) -> PageResponse:
        """Show every code."""
        return self._page("errors", here="/errors", refusals_shown=self._reference.refusals)

    async def show_changelog(self, _request: PageRequest) -> PageResponse:
        """Show what has changed."""
        return self._page("changelog", here="/changelog", releases=releases())

    async def get_words(self, _request: PageRequest) -> PageResponse:
        """Return what each page is found by, by its address: for the script that finds."""
        words = {each.address: each.words for each in self._reference.endpoints.values()}
        words["/docs/indicators"] = " ".join(field for each in DEFINITIONS for field in each.fields)
        words["/docs/errors"] = " ".join(each.code for each in self._reference.refusals)
        return PlainText(json.dumps(words))

    def _page(self, name: str, *, here: str, **facts: Any) -> Page:
        shared = {
            "here": f"/docs{here}",
            "areas": self._reference.areas,
            "guides": GUIDES,
            "origin": self._origin,
            "bundles": BUNDLES,
            "request_usd": REQUEST_USD,
            "mint": WSOL,
            "wheel": f"{self._origin}/client/mintscope_client-{__version__}-py3-none-any.whl",
            "tarball": f"{self._origin}/client/mintscope-client-{__version__}.tgz",
        }
        return Page(f"docs/{name}.html", shared | facts)

    def _programs_of(self, endpoint: DescribedEndpoint) -> tuple[ExampleProgram, ...]:
        """Return the examples of *endpoint*, made once."""
        if endpoint.slug not in self._programs:
            self._programs[endpoint.slug] = tuple(programs_of(endpoint, self._origin))
        return self._programs[endpoint.slug]
