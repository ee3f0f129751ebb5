"""The API reference, read from the OpenAPI document: areas, endpoints and error codes."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mintscope.site.definitions import Field, SchemaReader, every_name

JSON_TYPE: Final = "application/json"
REFUSED_FROM: Final = 400
AN_API_KEY: Final = "an API key"
LAST_AREA: Final = "Service"
ANY_CREDENTIAL: Final = "a credit token, or an API key with the scope `trade:read`"

TITLE_ENDS: Final = re.compile(r"[,:;]")

Described = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error code: its status, meaning and remedy, and the response body."""

    code: str
    status: int
    meaning: str
    remedy: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedEndpoint:
    """An operation of the API, as the reference shows it.

    slug          URL segment of the endpoint's page
    proofs        accepted credentials as text; empty if no credential is needed
    parameters    fields of the request, by location: path, query, header
    body          fields of the request body; empty if there is none
    body_example  example of the request body; "" if there is none
    needs_body    whether a body is required; a credential can take the place of an optional body
    answer        fields of the response's data, or of its whole body if it has no envelope
    example       example of a successful response; "" if there is none
    headers       meaning of each header of a successful response
    more_headers  meaning of each header that only other responses have, mostly errors
    """

    slug: str
    method: str
    path: str
    summary: str
    description: str
    cost: str
    proofs: tuple[str, ...]
    parameters: Mapping[str, tuple[Field, ...]]
    body: tuple[Field, ...]
    body_example: str
    needs_body: bool
    status: int
    media_type: str
    answer: tuple[Field, ...]
    example: str
    headers: Mapping[str, str]
    more_headers: Mapping[str, str]
    refusals: tuple[Refusal, ...]

    @property
    def title(self) -> str:
        """The purpose in a few words: the summary up to its first comma, colon or semicolon."""
        return TITLE_ENDS.split(self.summary)[0]

    @property
    def address(self) -> str:
        """The URL path of the endpoint's page."""
        return f"/docs/api/{self.slug}"

    @property
    def words(self) -> str:
        """The words with which a search finds the endpoint."""
        names = every_name((*self.answer, *self.body, *self.parameters.get("query", ())))
        return " ".join([self.method, self.path, self.summary, *dict.fromkeys(names)])


@dataclass(frozen=True, slots=True)
class DescribedArea:
    """A group of related endpoints."""

    name: str
    description: str
    endpoints: tuple[DescribedEndpoint, ...]


class Reference:
    """The parts of an OpenAPI document, each read on first use."""

    def __init__(self, document: Described) -> None:
        self._document = document
        self._components: Described = document["components"]

    @cached_property
    def areas(self) -> tuple[DescribedArea, ...]:
        """The endpoints by area, in the order of the document; LAST_AREA is last."""
        texts = {tag["name"]: tag["description"] for tag in self._document["tags"]}
        members: dict[str, list[DescribedEndpoint]] = {}
        slugs: set[str] = set()
        for path, ways in self._document["paths"].items():
            for method, operation in ways.items():
                slug = _slug(method, path, slugs)
                endpoint = self._endpoint(slug, method.upper(), path, operation)
                members.setdefault(operation["tags"][0], []).append(endpoint)
        order = sorted(members, key=lambda name: name == LAST_AREA)
        return tuple(
            DescribedArea(name, texts.get(name, ""), tuple(members[name])) for name in order
        )

    @cached_property
    def endpoints(self) -> Mapping[str, DescribedEndpoint]:
        """All endpoints, by slug."""
        return {each.slug: each for area in self.areas for each in area.endpoints}

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        """The error codes of all endpoints, sorted by status and code."""
        found = {each.code: each for one in self.endpoints.values() for each in one.refusals}
        return tuple(sorted(found.values(), key=lambda each: (each.status, each.code)))

    def _endpoint(
        self, slug: str, method: str, path: str, operation: Described
    ) -> DescribedEndpoint:
        status, success = next(iter(operation["responses"].items()))
        (media_type, content), *_ = success["content"].items()
        asked = operation.get("requestBody", {})
        body = asked.get("content", {}).get(JSON_TYPE, {})
        return DescribedEndpoint(
            slug=slug,
            method=method,
            path=path,
            summary=operation["summary"],
            description=operation["description"],
            cost=operation["x-cost"],
            proofs=tuple(_proofs(operation)),
            parameters=self._parameters(operation),
            body=self._reader().fields_of(body.get("schema", {})),
            body_example=_pretty(body["example"]) if body else "",
            needs_body=asked.get("required", False),
            status=int(status),
            media_type=media_type,
            answer=self._answer(content["schema"]),
            example=_written(content["example"]) if "example" in content else "",
            headers=(headers := self._headers([success])),
            more_headers={
                name: meaning
                for name, meaning in self._headers(operation["responses"].values()).items()
                if name not in headers
            },
            refusals=tuple(self._refusals(operation)),
        )

    def _headers(self, responses: Iterable[Described]) -> dict[str, str]:
        """Return the headers of *responses*, with their descriptions."""
        names = dict.fromkeys(name for each in responses for name in each.get("headers", ()))
        return {name: self._components["headers"][name]["description"] for name in names}

    def _reader(self) -> SchemaReader:
        return SchemaReader(self._components["schemas"])

    def _answer(self, schema: Described) -> tuple[Field, ...]:
        """Return the fields of *schema*, or of its data if *schema* is an envelope."""
        return self._reader().fields_of(schema.get("properties", {}).get("data", schema))

    def _parameters(self, operation: Described) -> Mapping[str, tuple[Field, ...]]:
        reader = self._reader()
        places: dict[str, list[Field]] = {}
        for each in operation.get("parameters", ()):
            reported = {"description": each["description"]}
            examples = {"examples": [each["example"]]} if "example" in each else {}
            schema = each["schema"] | reported | examples
            field = reader.field(each["name"], schema, is_optional=not each["required"])
            places.setdefault(each["in"], []).append(field)
        return {
            place: tuple(places[place]) for place in ("path", "query", "header") if place in places
        }

    def _refusals(self, operation: Described) -> Iterator[Refusal]:
        for status, response in operation["responses"].items():
            if int(status) < REFUSED_FROM:
                continue
            for code, example in response["content"][JSON_TYPE]["examples"].items():
                reported = self._components["examples"][example["$ref"].rpartition("/")[2]]
                yield Refusal(
                    code,
                    int(status),
                    reported["summary"],
                    reported["description"],
                    _pretty(reported["value"]),
                )


def _proofs(operation: Described) -> Iterator[str]:
    names: Sequence[str] = [name for proof in operation["security"] for name in proof]
    if "creditToken" in names:
        is_spender = "apiKey" in names or "x-payment-info" in operation
        yield ANY_CREDENTIAL if is_spender else "a credit token"
    elif "apiKey" in names:
        yield AN_API_KEY
    if "x-payment-info" in operation:
        yield "a payment of its own (x402)"


def _slug(method: str, path: str, taken: set[str]) -> str:
    """Return a URL segment made of the method and the literal segments of *path* except `v1`.

    The result differs from all segments in *taken*, and is added to them.
    """
    words = [word for word in path.split("/") if word not in {"", "v1"} and "{" not in word]
    slug = "-".join([method, *words])
    while slug in taken:
        # `/v1/signals` and `/v1/signals/{signalId}` have the same literal segments.
        slug += "-one"
    taken.add(slug)
    return slug


def _written(example: object) -> str:
    """Return *example* as sent: an event line by line, a string unchanged, otherwise JSON."""
    if isinstance(example, str):
        return example
    if isinstance(example, dict) and example.keys() == {"event", "data"}:
        return "".join(f"{field}: {value}\n" for field, value in example.items())
    return _pretty(example)


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
