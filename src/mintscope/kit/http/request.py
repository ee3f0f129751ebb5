"""A request, its JSON body, and the address of its client."""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import count
from math import isinf
from re import Match
from typing import Any, Final, TypeVar, cast

import msgspec
from starlette.types import Receive, Scope

from mintscope.kit.errors import NotFound, PayloadTooLarge
from mintscope.kit.http.response import Header
from mintscope.kit.limits import IPV6_PREFIX
from mintscope.kit.metrics import FORWARDED_FAULTS

BODY_BYTES_MAX: Final = 16 * 1024
ID_DIGITS_MAX: Final = 18  # a number of 18 digits fits in 63 bits
UNROUTED: Final = "unrouted"
PROCESS: Final = secrets.token_hex(4).encode()  # makes request ids of processes differ
# The scheme of Authorization for a payment of MPP, in lower case.
PAYMENT_SCHEME: Final = b"payment "
NO_PARAMS: Final[Mapping[str, str]] = {}
# Names of ASGI extensions.  Each extension is a callable.  GONE returns whether the client has
# left, HAS_PAID makes the server prefer this connection, SLOW_DOWN delays its next request.  If the
# request was made for another request, HAND_OVER takes its `if_unsent` once its response is sent.
GONE: Final = "mintscope.gone"
HAS_PAID: Final = "mintscope.has_paid"
SLOW_DOWN: Final = "mintscope.slow_down"
HAND_OVER: Final = "mintscope.hand_over"


_numbers = count()


def next_request_id() -> bytes:
    """Return the id of a new request."""
    return b"%b%08x" % (PROCESS, next(_numbers))


def parse_id(text: str, missing: str = "") -> int:
    """Return the id in *text*.  Raises NotFound with the message *missing* if it is no id."""
    if not (text.isascii() and text.isdigit() and len(text) <= ID_DIGITS_MAX):
        raise NotFound(missing)
    return int(text)


class ClientDisconnected(Exception):
    """The client has closed the connection before the whole response was sent."""


class Request:
    """An HTTP request, with headers that handlers add to its response.

    *if_unsent* undoes the charge if the prepared response is not sent; None: nothing to undo.
    """

    __slots__ = (
        "_body",
        "_has_ended",
        "found",
        "headers",
        "if_unsent",
        "path_params",
        "receive",
        "request_id",
        "response_headers",
        "route",
        "scope",
        "state",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = next_request_id()
        self.response_headers: list[Header] = []
        self.route = UNROUTED  # the path of the route, or UNROUTED, for the metrics
        self.found: object = None  # the route; None before the look-up, or if there is none
        self.path_params: Mapping[str, str] = NO_PARAMS  # the variable segments of the path
        self.state: Any = None  # anything that routes store with the request
        self.if_unsent: Callable[[], None] | None = None  # undoes the charge
        self._body: bytes | None = None
        self._has_ended = False

    @property
    def method(self) -> str:
        """The HTTP method, in upper case."""
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        """The path of the URL, percent-decoded."""
        return str(self.scope["path"])

    @property
    def query(self) -> bytes:
        """The query of the URL, not decoded."""
        return bytes(self.scope.get("query_string", b""))

    def bearer(self) -> str | None:
        """Return the bearer credential in Authorization; "" if it is empty or has another scheme.

        Returns None without an Authorization header, with several, and with one that is a payment.
        """
        value = self.headers.get(b"authorization")
        if value is None or self.is_ambiguous():
            return None
        scheme, _, text = value.decode("latin-1").partition(" ")
        if scheme.lower() == "payment":
            return None
        return text.strip() if scheme.lower() == "bearer" else ""

    def is_ambiguous(self) -> bool:
        """Return whether there are several Authorization headers."""
        pairs = self.scope["headers"]
        return len(pairs) > len(self.headers) and (
            sum(name == b"authorization" for name, _ in pairs) > 1
        )

    def values(self, name: bytes) -> list[str]:
        """Return every value of the header *name* (lower case)."""
        if name not in self.headers:
            return []
        return [value.decode("latin-1") for other, value in self.scope["headers"] if other == name]

    def value(self, name: bytes) -> str:
        """Return the last value of the header *name* (lower case), or "" if there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    def has_payment(self) -> bool:
        """Return whether the request has an x402 or MPP payment, valid or not."""
        return b"payment-signature" in self.headers or self.has_payment_of_mpp()

    def has_payment_of_mpp(self) -> bool:
        """Return whether the Authorization header has the scheme `Payment`, valid or not."""
        value = self.headers.get(b"authorization", b"")
        return value[: len(PAYMENT_SCHEME)].lower() == PAYMENT_SCHEME

    async def body(self) -> bytes:
        """Return the body, of at most 16 KiB; it is received at the first call.

        Raises PayloadTooLarge, ClientDisconnected.
        """
        if self._body is None:
            self._body = await self._receive_body()
        return self._body

    async def _receive_body(self) -> bytes:
        body = b""
        is_more = True
        while is_more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            body += message.get("body", b"")
            if len(body) > BODY_BYTES_MAX:
                raise PayloadTooLarge(f"expected a body of at most {BODY_BYTES_MAX} bytes")
            is_more = message.get("more_body", False)
        return body

    def tell_connection(self, event: str) -> None:
        """Notify the connection that the client has paid (HAS_PAID), or must wait (SLOW_DOWN)."""
        extensions = self.scope.get("extensions")
        if extensions and event in extensions:
            extensions[event]()

    def take_back(self) -> None:
        """Undo the charge because the response was not sent: call `if_unsent`, at most once."""
        undo = self.if_unsent
        self.if_unsent = None
        if undo is not None:
            undo()

    def note_sent(self) -> None:
        """Record that the response was sent, so that the charge is no longer undone (`if_unsent`).

        If this request was made on behalf of another request, that request takes `if_unsent` over.
        """
        undo = self.if_unsent
        self.if_unsent = None
        extensions = self.scope.get("extensions")
        if undo is not None and extensions and HAND_OVER in extensions:
            extensions[HAND_OVER](undo)

    def end(self) -> None:
        """Undo the charge if the response was not sent; `take_over` then undoes later charges."""
        self._has_ended = True
        self.take_back()

    def take_over(self, undo: Callable[[], None]) -> None:
        """Add *undo* to `if_unsent`: it is called if the response to this request is not sent.

        If this request has ended, call *undo* at once.
        """
        if self._has_ended:
            undo()
            return
        earlier = self.if_unsent

        def undo_all() -> None:
            undo()
            if earlier is not None:
                earlier()

        self.if_unsent = undo_all

    def expect_client(self) -> None:
        """Raise ClientDisconnected if the client has left."""
        extensions = self.scope.get("extensions")
        if extensions and GONE in extensions and extensions[GONE]():
            raise ClientDisconnected


DEPTH_MAX: Final = 8
INTEGERS: Final = 1 << 63  # the stores have integers of 64 bits
EXACT: Final = 1 << 53  # floats represent all smaller integers exactly
CHARSET: Final = re.compile(r';\s*charset="?([^";]*)', re.IGNORECASE)
TRUNCATED: Final = "truncated"  # part of msgspec's message for incomplete JSON
MALFORMED: Final = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)")
ECHO_LENGTH_MAX: Final = 24  # maximum length of names and numbers that messages repeat
KINDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
UNITS: Final = {"str": "character", "array": "item", "object": "field"}
BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
UNKNOWN: Final = object()
A_VALUE: Final = "one of the values that are documented"
KNOWN_FIELDS: Final = "only fields that are documented"

Shape = TypeVar("Shape")


class UnreadableBody(Exception):
    """The body is invalid; the message describes the expected and the actual form."""


def parse_object(request: Request, body: bytes) -> Mapping[str, object]:
    """Return *body*, a JSON object whose integers fit 64 bits.  Raises UnreadableBody."""
    value = _parsed(request, body)
    _expect_64_bits(value)
    return value


def _parsed(request: Request, body: bytes) -> Mapping[str, object]:
    kind = ", ".join(request.values(b"content-type"))
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise UnreadableBody(f"expected Content-Type: application/json; was {kind[:50]!r}")
    charset = CHARSET.search(kind)
    if charset and charset[1].strip().lower() != "utf-8":
        raise UnreadableBody(
            f"expected Content-Type: application/json, in UTF-8; was {kind[:50]!r}"
        )
    try:
        value = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as flaw:
        raise UnreadableBody(f"expected a JSON object; the body is {_flaw(body, flaw)}") from None
    except RecursionError:
        raise UnreadableBody(f"expected JSON at most {DEPTH_MAX} deep") from None
    if _is_deeper(value, DEPTH_MAX):
        raise UnreadableBody(f"expected JSON at most {DEPTH_MAX} deep")
    if not isinstance(value, dict):
        raise UnreadableBody("expected a JSON object; the body is another JSON value")
    # Parsed again, because msgspec accepts several equal names without an error.
    json.loads(body, object_pairs_hook=_expect_each_once)
    return value


def parse_shape(request: Request, body: bytes, shape: type[Shape]) -> Shape:
    """Return *body*, the JSON body of *request*, converted to *shape*.  Raises UnreadableBody."""
    value = _parsed(request, body)
    try:
        read = msgspec.convert(value, shape)
    except msgspec.ValidationError as flaw:
        raise UnreadableBody(described(str(flaw), value, shape)) from None
    _expect_64_bits(value)
    return read


def described(problem: str, value: object, shape: object) -> str:
    """Return msgspec's error about *value* in plain English, like `credits: expected an integer`.

    problem   the message of msgspec about *shape*; a message of an unknown form is returned
              unchanged

    Texts in *value* may be secret: the result contains none of them except short names of fields,
    and short texts where one of a fixed list of texts is expected.
    """
    what, _, path = problem.partition(" - at `$")
    place = path.removesuffix("`").removeprefix(".")
    for pattern, phrase in PHRASES.items():
        if match := re.fullmatch(pattern, what, re.DOTALL):
            there = _there(_at(value, path), match.groupdict().get("got"))
            said = phrase(match)
            if "; " not in said:
                said += there
            else:
                said = said.replace(*_named(shape, value, place))
            return f"{place}: {said}" if place else said
    return problem


def _kind(names: str) -> str:
    *others, last = [KINDS.get(name, name) for name in names.split(" | ")]
    return f"{', '.join(others)} or {last}" if others else last


def _count(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _short(name: str) -> str:
    return name if len(name) <= ECHO_LENGTH_MAX else f"one of {len(name)} characters"


def _of_length(match: Match[str]) -> str:
    length = _count(int(match["n"]), UNITS.get(match["kind"], "item"))
    return f"expected {_kind(match['kind'])} of {BOUNDS[match['bound']]} {length}"


def _of_range(match: Match[str]) -> str:
    bound = match["n"].removesuffix(".0")
    return f"expected {_kind(match['kind'])} of {BOUNDS[match['bound']]} {bound}"


# Patterns of msgspec's messages, and our phrases.  If a phrase does not contain the actual value,
# the value follows.
PHRASES: Final[Mapping[str, Callable[[Match[str]], str]]] = {
    r"Expected `(?P<kind>[^`]+)`, got `(?P<got>[^`]+)`": lambda match: (
        f"expected {_kind(match['kind'])}"
    ),
    r"Expected `(?P<kind>[^`]+)` (?P<bound>[<>]=?) (?P<n>\S+)": _of_range,
    r"Expected `(?P<kind>\w+)` of length (?P<bound>[<>]=?) (?P<n>\d+)": _of_length,
    r"Expected `array` of length (?P<n>\d+), got (?P<was>\d+)": lambda match: (
        f"expected an array of {_count(int(match['n']), 'item')}; there was one of {match['was']}"
    ),
    r"Expected `(?P<kind>[^`]+)` that's a multiple of (?P<n>\S+)": lambda match: (
        f"expected {_kind(match['kind'])} that is a multiple of {match['n']}"
    ),
    r"Expected `str` matching regex (?P<pattern>.+)": lambda match: (
        f"expected text that matches {match['pattern']}"
    ),
    r"Invalid (?:enum )?value (?P<was>.+)": lambda match: (
        f"expected {A_VALUE}; there was {_short(match['was'])}"
    ),
    r"Object missing required field `(?P<name>.+)`": lambda match: (
        f"expected the field {match['name']}; it is missing"
    ),
    r"Number out of range": lambda _match: "expected a smaller number",
    r"Object contains unknown field `(?P<name>.+)`": lambda match: (
        f"expected {KNOWN_FIELDS}; there was {_short(match['name'])}"
    ),
}


@cache
def _described(shape: object) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the JSON schema of *shape*, and the schemas to which it refers, by name."""
    (schema,), named = msgspec.json.schema_components((shape,), ref_template="{name}")
    return schema, named


def _named(shape: object, value: object, place: str) -> tuple[str, str]:
    """Return a phrase of an error message, and the phrase to put in its place, with names."""
    # Both are "" if the names are not known.
    kinds = _described(shape)[0].get("discriminator", {})
    if place and kinds.get("propertyName") == place:
        return A_VALUE, f"one of {', '.join(kinds['mapping'])}"
    schema = _schema_at(shape, value, place)
    if "enum" in schema:
        return A_VALUE, f"one of {', '.join(map(str, schema['enum']))}"
    if "properties" in schema:
        return KNOWN_FIELDS, f"only the fields {', '.join(schema['properties'])}"
    return "", ""


def _schema_at(shape: object, value: object, place: str) -> Mapping[str, Any]:
    """Return the JSON schema of *shape* at *place*, such as `prices[3].t`; {} if unknown."""
    schema, named = _described(shape)
    kinds = schema.get("discriminator", {})
    if kinds and isinstance(value, dict):
        schema = named.get(kinds["mapping"].get(value.get(kinds["propertyName"])), {})
    path = f".{place}" if place else ""
    if STEP.sub("", path):
        return {}
    schema = _resolved(schema, named)
    for name, _ in STEP.findall(path):
        inner = schema.get("properties", {}).get(name, {}) if name else schema.get("items", {})
        schema = _resolved(inner, named)
    return schema


def _resolved(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *schema* without null, and the schema in *named* to which it refers."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    one = kinds[0] if len(kinds) == 1 else {}
    found: Mapping[str, Any] = named.get(one.get("$ref", ""), one)
    return found


def _at(value: object, path: str) -> object:
    """Return the value at *path*, such as `.mints[3]`; UNKNOWN if nothing is there."""
    if STEP.sub("", path.removesuffix("`")):
        return UNKNOWN
    for name, index in STEP.findall(path):
        try:
            value = cast("Any", value)[name or int(index)]
        except (LookupError, TypeError):
            return UNKNOWN
    return value


def _there(value: object, kind: str | None) -> str:
    """Return a phrase such as "; there was text of 3 characters", which does not show texts.

    kind   the kind of the value according to msgspec, if *value* is UNKNOWN; None: the phrase is ""
    """
    if value is UNKNOWN:
        return "" if kind is None else f"; there was {_kind(kind)}"
    if isinstance(value, str):
        return f"; there was text of {_count(len(value), 'character')}"
    if isinstance(value, list):
        return f"; there was an array of {_count(len(value), 'item')}"
    if isinstance(value, dict):
        return f"; there was an object of {_count(len(value), 'field')}"
    said = json.dumps(value)
    return f"; there was {said if len(said) <= ECHO_LENGTH_MAX else 'a longer number'}"


def _number(text: str) -> float:
    """Return the JSON number *text*: an int if it is whole, as 2e2, and exact; else a float.

    Raises UnreadableBody if it is too large for a float.
    """
    value = float(text)
    if isinf(value):
        raise UnreadableBody(f"expected numbers of at most 64 bits; was {text[:50]}")
    return int(value) if value.is_integer() and abs(value) < EXACT else value


_DECODER: Final = msgspec.json.Decoder(float_hook=_number)


def _flaw(body: bytes, flaw: Exception) -> str:
    if not body:
        return "empty"
    if TRUNCATED in str(flaw):
        return "not complete JSON"
    known = MALFORMED.fullmatch(str(flaw))
    return f"not JSON: {known[1]} near byte {known[2]}" if known else "not JSON"


def _expect_each_once(pairs: Sequence[tuple[str, Any]]) -> None:
    """Raise UnreadableBody for a duplicate name, because parsers differ in which value they use."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise UnreadableBody("expected each field once; one is there twice")


def _expect_64_bits(value: object) -> None:
    """Raise UnreadableBody for any integer in *value* that does not fit into 64 bits."""
    if isinstance(value, int) and not -INTEGERS <= value < INTEGERS:
        bits = value.bit_length() + 1  # including the sign
        raise UnreadableBody(f"expected integers of at most 64 bits; there was one of {bits}")
    inner: Iterable[object] = ()
    if isinstance(value, (dict, list)):
        inner = value.values() if isinstance(value, dict) else value
    for each in inner:
        _expect_64_bits(each)


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


LENGTH_MAX: Final = 64  # characters of an address, with an IPv6 zone
NOWHERE: Final = "-"  # the peer address on a Unix socket


class ClientAddresses:
    """Finds the address of a client; only configured proxies may forward addresses.

    proxies   addresses of proxies, or networks such as "10.0.0.0/8"; if empty, the peer is the
              client
    Raises    ValueError for any other value
    """

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        self._proxies = [ip_network(proxy) for proxy in proxies]

    def key(self, scope: Scope) -> str:
        """Return the client's limit key: an IPv4 address, IPv6 /64, or NOWHERE without address."""
        # If the peer is a configured proxy, the client is the right-most address in X-Forwarded-For
        # that is no configured proxy.  The client may have written all addresses to the left.  If
        # there is no such address, or one to its right is unreadable, the client is the proxy whose
        # address was read last.
        named = scope.get("client")
        peer = named[0] if named else NOWHERE
        if not self._proxies:
            return network_key(peer)
        chain = [
            without_port(part.strip())
            for name, value in scope["headers"]
            if name == b"x-forwarded-for"
            for part in value.decode("latin-1").split(",")
        ]
        client = peer
        if not chain and self.is_proxy(peer):
            FORWARDED_FAULTS.labels("missing").inc()
        while chain and self.is_proxy(client):
            if _parse(chain[-1]) is None:
                FORWARDED_FAULTS.labels("unreadable").inc()
                break
            client = chain.pop()
        return network_key(client)

    def is_proxy(self, text: str) -> bool:
        """Return whether *text* is the address of a configured proxy."""
        address = _parse(text)
        return address is not None and any(address in network for network in self._proxies)


@lru_cache(maxsize=10_000)
def network_key(text: str) -> str:
    """Return the limit key of an address: an IPv4 address or an IPv6 /64; other texts unchanged."""
    address = _parse(text)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, IPV6_PREFIX), strict=False))
    return text if address is None else str(address)


def without_port(text: str) -> str:
    """Return the address in *text* without the port that some proxies append.

    `192.0.2.1:443` gives `192.0.2.1`.  `[2001:db8::1]`, with or without a port, gives
    `2001:db8::1`.  Any other text is returned unchanged.
    """
    if text.startswith("["):
        address, bracket, port = text[1:].partition("]")
        is_address = bool(bracket) and ":" in address and (not port or port.startswith(":"))
        return address if is_address else text
    address, colon, port = text.partition(":")
    return address if colon and port.isdigit() and "." in address else text


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    if len(text) > LENGTH_MAX:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        # A zone is the name of a network interface, and no part of the address.
        address = IPv6Address(int(address))
    # A socket for both protocols shows IPv4 addresses in this form: both forms have one key.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
