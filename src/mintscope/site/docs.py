"""Documentation pages: guides, endpoints, definitions, errors, changelog."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from mintscope import __version__
from mintscope.kit.errors import NotFound
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.site.definitions import DEFINITIONS
from mintscope.site.page import Markdown, Page, PageResponse, PlainText
from mintscope.site.programs import TEXTS, ExampleProgram, filled, programs_of
from mintscope.site.reference import DescribedEndpoint, Reference
from mintscope.site.routes import PageHandler, PageRequest, PageRoute, get
from mintscope.solana.blocks import WSOL


class Guide(NamedTuple):
    """A guide: its URL segment, its title and its subject."""

    slug: str
    title: str
    about: str


GUIDES: Final = (
    Guide(
        "start",
        "From nothing to the first call",
        "Your first response in two minutes, in your programming language.",
    ),
    Guide("buying", "Buying credits", "Bundles, wallets, accounts, and lost responses."),
    Guide("x402", "How x402 works", "How to pay for each request, without an account."),
    Guide(
        "alerts", "Alerts by webhook", "Get notified when RSI crosses 30, and check the signature."
    ),
    Guide("errors", "Errors are free", "Errors that are never charged, and when to retry."),
    Guide("freshness", "How fresh the data is", "Slots, ages, unchanged responses and streams."),
    Guide("clients", "Clients and MCP", "Python, TypeScript, the command line, and agents."),
)
FIRST_ENDPOINT: Final = "get-token"  # the index and the guides show its examples
FOR_OPERATORS: Final = "For operators"  # heading of changes that the page omits


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one kind (Added, Changed, Fixed or Removed), in Markdown."""

    kind: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A version, or the next version, and its changes by kind."""

    name: str
    groups: tuple[ChangeGroup, ...]


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases with the changes that customers notice, newest first."""
    text = (files("mintscope.site") / "CHANGELOG.md").read_text()
    return tuple(Release(name, tuple(_groups(body))) for name, body in _parts(text, "## "))


def _groups(body: str) -> Iterator[ChangeGroup]:
    for kind, text in _parts(body, "### "):
        if kind == FOR_OPERATORS:
            continue
        lines = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        yield ChangeGroup(kind, tuple(" ".join(line.split()) for line in lines))


def _parts(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield each heading that begins with *mark*, and the text below it."""
    for part in re.split(rf"^{mark}", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), body


MARKDOWN: Final = ".md"
# Areas whose endpoints can all be tried on the page: they are read-only, or easy to undo.
TRIED_AREAS: Final = ("Market data", "Watchlists", "Service")


class DocsPages:
    """The pages below `/docs`.

    read_reference   returns the reference of the API that this process serves
    """

    def __init__(self, read_reference: Callable[[], Reference], *, origin: str) -> None:
        self._read_reference = read_reference
        self._origin = origin
        self._programs: dict[str, tuple[ExampleProgram, ...]] = {}

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the documentation pages."""
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
        async def show_text(request: PageRequest) -> PageResponse:
            page = await show(request)
            assert isinstance(page, Page)
            return Markdown(page, self._origin)

        return show_text

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show the index of the documentation."""
        programs = self._programs_of(self._read_reference().endpoints[FIRST_ENDPOINT])
        return self._page("index", here="", programs_shown=programs, **TEXTS.index)

    async def show_guide(self, request: PageRequest) -> PageResponse:
        """Show a guide, or its Markdown.  Raises NotFound."""
        slug = request.path_params["guide"].removesuffix(MARKDOWN)
        guide = next((each for each in GUIDES if each.slug == slug), None)
        if guide is None:
            raise NotFound
        first = self._programs_of(self._read_reference().endpoints[FIRST_ENDPOINT])
        texts = TEXTS.guides.get(slug, {})
        programs = {name: filled(text, self._origin) for name, text in texts.items()}
        here = f"/guides/{slug}"
        page = self._page(here[1:], here=here, guide=guide, programs_shown=first, **programs)
        return self._in_form(page, request.path_params["guide"])

    async def show_endpoint(self, request: PageRequest) -> PageResponse:
        """Show an endpoint, or its Markdown.  Raises NotFound."""
        slug = request.path_params["endpoint"]
        endpoint = self._read_reference().endpoints.get(slug.removesuffix(MARKDOWN))
        if endpoint is None:
            raise NotFound
        area = next(each for each in self._read_reference().areas if endpoint in each.endpoints)
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
        """Show the page that defines every number of the service, such as the indicators."""
        return self._page("indicators", here="/indicators", definitions=DEFINITIONS)

    async def show_errors(self, _request: PageRequest) -> PageResponse:
        """Show all error codes."""
        return self._page("errors", here="/errors", refusals_shown=self._read_reference().refusals)

    async def show_changelog(self, _request: PageRequest) -> PageResponse:
        """Show the changes of each release."""
        return self._page("changelog", here="/changelog", releases=releases())

    async def get_words(self, _request: PageRequest) -> PageResponse:
        """Return the search words of the reference pages, by URL path, for the search script."""
        words = {each.address: each.words for each in self._read_reference().endpoints.values()}
        words["/docs/indicators"] = " ".join(field for each in DEFINITIONS for field in each.fields)
        words["/docs/errors"] = " ".join(each.code for each in self._read_reference().refusals)
        return PlainText(json.dumps(words))

    def _page(self, name: str, *, here: str, **facts: Any) -> Page:
        shared = {
            "here": f"/docs{here}",
            "areas": self._read_reference().areas,
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
        """Return the examples of *endpoint*, which are created once."""
        if endpoint.slug not in self._programs:
            self._programs[endpoint.slug] = tuple(programs_of(endpoint, self._origin))
        return self._programs[endpoint.slug]
