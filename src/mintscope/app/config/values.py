"""The types of single settings, and parsers of their form in the environment."""

import re
from collections.abc import Sequence
from decimal import Decimal
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from mintscope.accounts.email_address import parse_email
from mintscope.kit.credentials import PEPPER_BYTES_MIN, parse_root
from mintscope.kit.errors import InvalidTokenAddress
from mintscope.kit.primitives import Mint, parse_mint
from mintscope.kit.time import DAY_S
from mintscope.payments.protocol.envelope import MAINNET, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from mintscope_client.keypair import parse_keypair

EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - read, not bound
CALLS_PER_DAY_MIN: Final = 1_000  # with fewer calls, a day could pass before a backfill begins
_HEAD: Final = "(?:[0-9a-f]{16}|[0-9a-f]{2})"
PROGRAM: Final = re.compile(
    r"([a-z][a-z0-9_]{0,31}):([1-9A-HJ-NP-Za-km-z]{32,44})"
    rf"(?::((?:{_HEAD}(?:\+{_HEAD}){{0,63}})?)(?::([0-9]{{1,2}}))?)?"
)
BASE58: Final = "base58 of 32 bytes (32 to 44 characters)"
HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _split(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _parse_mint(text: str) -> Mint:
    try:
        return parse_mint(text)
    except InvalidTokenAddress as error:
        raise ValueError(str(error).partition("; was ")[0]) from error  # `load._problem` adds it


def _parse_address(text: str) -> str:
    try:
        return parse_mint(text)
    except InvalidTokenAddress:
        raise ValueError(f"expected an address, {BASE58}") from None


def _shaped(pattern: str, shape: str) -> AfterValidator:
    """Return a validator for texts of the form *pattern*, which *shape* describes in words."""

    def expect(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"expected {shape}")
        return value

    return AfterValidator(expect)


class AddedProgram(NamedTuple):
    """An exchange program from the setting `dex.programs`."""

    name: str
    address: str
    heads: Sequence[bytes]
    pool: int | None


def parse_program(text: str) -> AddedProgram:
    """Return the program in *text*.  Raises ValueError with the expected form."""
    shape = PROGRAM.fullmatch(text)
    if shape is None:
        raise ValueError(
            "expected NAME:ID, NAME:ID:DISCRIMINATORS or NAME:ID:DISCRIMINATORS:POOL_ACCOUNT, with"
            " discriminators of 1 or 8 bytes in hex, separated by +, and the pool's account as a"
            " number"
        )
    name, address, heads, pool = shape.groups()
    if name == "unknown":
        raise ValueError('expected another name than "unknown", which names all others')
    return AddedProgram(
        name,
        _parse_address(address),
        [bytes.fromhex(head) for head in (heads or "").split("+") if head],
        int(pool) if pool else None,
    )


def _parse_programs(texts: tuple[str, ...]) -> tuple[str, ...]:
    programs = [parse_program(text) for text in texts]
    if len({one.name for one in programs} | {one.address for one in programs}) < 2 * len(texts):
        raise ValueError("expected each name and each id once")
    return texts


def _parse_network(text: str) -> str:
    ip_network(text)
    return text


def _parse_start(value: object) -> object:
    if value in {"latest", "first"}:
        return value
    # `isdigit` also accepts characters such as ², which `int` refuses.
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError('expected "latest", "first" or a slot')


def _parse_headers(value: object) -> object:
    if not isinstance(value, str):
        return value
    headers = {}
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon or not name.strip():
            raise ValueError('expected "Name: value, Name: value"')
        headers[name.strip()] = text.strip()
    return headers


def _expect_headers(value: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, text in value.items():
        secret = text.get_secret_value()
        if HEADER_NAME.fullmatch(name) is None:
            raise ValueError("expected header names of letters, digits and hyphens")
        if not (secret.isascii() and secret.isprintable()):
            raise ValueError(f"expected a value of printable ASCII for {name}")
    return value


def _expect_url(value: SecretStr) -> SecretStr:
    address = _split_url(value.get_secret_value())
    if not address or address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError("expected an address like https://host:port/path")
    return value


def _expect_store_url(value: SecretStr) -> SecretStr:
    address = _split_url(value.get_secret_value())
    if not address or address.scheme not in {"postgresql", "postgres"}:
        raise ValueError("expected an address like postgresql://user:password@host:5432/database")
    return value


def _split_url(text: str) -> SplitResult | None:
    """Return the parts of a URL; None if it cannot be split, or its port is not 1 to 65535.

    The port may be absent.
    """
    try:
        address = urlsplit(text)
        is_usable = address.port != 0
    except ValueError:
        return None
    return address if is_usable else None


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


def _expect_pepper(value: SecretStr) -> SecretStr:
    try:
        pepper = bytes.fromhex(value.get_secret_value())
    except ValueError:
        raise ValueError("expected hexadecimal digits") from None
    if len(pepper) < PEPPER_BYTES_MIN:
        raise ValueError(f"expected at least {PEPPER_BYTES_MIN * 2} hexadecimal digits")
    return value


def _expect_roots(value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    for each in value:
        parse_root(each.get_secret_value())
    return value


def _expect_keypair(value: SecretStr) -> SecretStr:
    parse_keypair(value.get_secret_value())
    return value


def _expect_origin(value: str) -> str:
    address = _split_url(value)
    if (
        not address
        or address.scheme not in {"http", "https"}
        or not address.hostname
        or value != f"{address.scheme}://{address.netloc}"
        or "@" in address.netloc
    ):
        raise ValueError("expected an address like https://api.example.org, without a path")
    return value


def _expect_host(value: str) -> str:
    # A socket that is bound to "" listens on every address.
    if not value:
        raise ValueError("expected an address; 0.0.0.0 is every address")
    return value


def _parse_sender(value: str) -> str:
    # `parse_email` refuses a domain without a period.
    return value if value.endswith("@localhost") else parse_email(value)


def _expect_folder(value: object) -> object:
    # `Path` would turn an empty text into the working directory.
    if value == "":
        raise ValueError("expected a folder; . is the working directory")
    return value


def _expect_token_program(value: str) -> str:
    if value not in {TOKEN_PROGRAM, TOKEN_2022_PROGRAM}:
        raise ValueError(f"expected {TOKEN_PROGRAM} or {TOKEN_2022_PROGRAM}")
    return value


def _expect_pool(value: str) -> str:
    base, _, quote = value.partition(":")
    try:
        parse_mint(base)
        parse_mint(quote)
    except InvalidTokenAddress:
        raise ValueError(f"expected the addresses of two vaults, VAULT:VAULT, {BASE58}") from None
    return value


def _expect_dollars(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("expected at least one mint: without dollars, no token has a price")
    return value


def _expect_a_thousand(value: int) -> int:
    if 0 < value < CALLS_PER_DAY_MIN:
        raise ValueError(f"expected 0 or at least {CALLS_PER_DAY_MIN}")
    return value


# An environment variable cannot be None, so an empty text unsets the setting.
UNSET: Final = BeforeValidator(_empty_is_none)
LISTED: Final = BeforeValidator(_split)

Paths = Annotated[tuple[Path, ...], LISTED]
Folder = Annotated[Path, BeforeValidator(_expect_folder)]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(_parse_address)], ...], LISTED]
Mints = Annotated[tuple[Annotated[str, AfterValidator(_parse_mint)], ...], LISTED]
Dollars = Annotated[Mints, AfterValidator(_expect_dollars)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_parse_network)], ...], LISTED]
Pools = Annotated[tuple[Annotated[str, AfterValidator(_expect_pool)], ...], LISTED]
Programs = Annotated[tuple[str, ...], Field(max_length=64), LISTED, AfterValidator(_parse_programs)]
Headers = Annotated[
    dict[str, SecretStr], BeforeValidator(_parse_headers), AfterValidator(_expect_headers)
]
Url = Annotated[SecretStr, AfterValidator(_expect_url)]
Urls = Annotated[tuple[Url, ...], LISTED]
Secrets = Annotated[tuple[SecretStr, ...], LISTED]
OptionalUrl = Annotated[Url | None, UNSET]
StoreUrl = Annotated[Annotated[SecretStr, AfterValidator(_expect_store_url)] | None, UNSET]
Origin = Annotated[Annotated[str, AfterValidator(_expect_origin)] | None, UNSET]
Contact = Annotated[
    Annotated[
        str,
        Field(max_length=200),
        _shaped(
            r"mailto:[^\s@]+@[^\s@]+|https://\S+",
            "mailto:help@example.org or an address like https://example.org/help",
        ),
    ]
    | None,
    UNSET,
]
PageUrl = Annotated[
    Annotated[
        str,
        Field(max_length=500),
        _shaped(r"https://\S+", "an address like https://example.org/terms"),
    ]
    | None,
    UNSET,
]
BotUrl = Annotated[
    str,
    _shaped(
        r"https?://[^\s/?#@]+(/[^\s?#]*)?",
        "an address like https://api.telegram.org, without user, query and fragment",
    ),
]
BotName = Annotated[
    str,
    _shaped(r"([A-Za-z0-9_]{5,32})?", "5 to 32 of A-Z, a-z, 0-9 and _, without @"),
]
ServiceName = Annotated[str, _shaped("[ -~]{1,32}", "1 to 32 printable ASCII characters")]
Seed = Annotated[str, _shaped("([0-9a-f]{64})?", "64 hexadecimal digits, 0 to 9 and a to f")]
SolanaNetwork = Annotated[
    str,
    _shaped(
        "solana:[1-9A-HJ-NP-Za-km-z]{32}", f"solana: and 32 characters of base58, as {MAINNET}"
    ),
]
Host = Annotated[str, AfterValidator(_expect_host)]
Sender = Annotated[str, AfterValidator(_parse_sender)]
Pepper = Annotated[Annotated[SecretStr, AfterValidator(_expect_pepper)] | None, UNSET]
Roots = Annotated[tuple[SecretStr, ...], LISTED, AfterValidator(_expect_roots)]
Key = Annotated[Annotated[SecretStr, AfterValidator(_expect_keypair)] | None, UNSET]
OptionalSecret = Annotated[SecretStr | None, UNSET]
File = Annotated[Path | None, UNSET]
Address = Annotated[str, AfterValidator(_parse_address)]
MintAddress = Annotated[str, AfterValidator(_parse_mint)]
OptionalAddress = Annotated[Address | None, UNSET]
TokenProgram = Annotated[str, AfterValidator(_expect_token_program)]
Start = Annotated[int | Literal["latest", "first"], BeforeValidator(_parse_start)]
Port = Annotated[int, Field(ge=0, le=65_535)]
OptionalPort = Annotated[Annotated[int, Field(ge=1, le=65_535)] | None, UNSET]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CallsPerDay = Annotated[int, Field(ge=0, le=100_000_000), AfterValidator(_expect_a_thousand)]
Seconds = Annotated[float, Field(gt=0, le=DAY_S, allow_inf_nan=False)]
Decimals = Annotated[int, Field(ge=0, le=18)]
Lamports = Annotated[int, Field(ge=0, le=10**18)]
Usd = Annotated[Decimal, Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
Share = Annotated[Decimal, Field(gt=0, le=1_000, allow_inf_nan=False)]


def is_loopback(host: str) -> bool:
    """Return whether *host* is localhost or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def in_url(host: str) -> str:
    """Return *host* in URL form: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


def origins_of(configured: str | None, host: str, port: int) -> list[str]:
    """Return the origins of the pages: the configured one, or else those of *host* and *port*.

    If *host* stands for every address, 127.0.0.1 takes its place.  If the host is loopback, an
    origin with localhost follows.  Links in e-mails start with the first origin.
    """
    if configured is not None:
        return [configured]
    if host in EVERY_ADDRESS:
        host = "127.0.0.1"
    named = in_url(host)
    names = [named, "localhost"] if is_loopback(host) else [named]
    return [f"http://{name}:{port}" for name in dict.fromkeys(names)]


def resource_origin(configured: str | None, host: str, port: int) -> str:
    """Return the URL of what is sold, in x402 payments: the configured one, or the listener's."""
    return configured or f"http://{in_url(host)}:{port}"
