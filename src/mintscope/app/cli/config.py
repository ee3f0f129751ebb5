"""The command `mintscope config`; other commands read the configuration with `configured`."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from urllib.parse import urlsplit

import typer
from annotated_types import Ge, Gt, Le
from pydantic import SecretStr

from mintscope.app.cli.output import EXIT_BAD_INPUT, AsJson, print_json
from mintscope.app.config.load import ConfigError, Loaded, Origin, Setting, load, settings

VALUE_WIDTH_MAX: Final = 40
KINDS: Final[Mapping[object, str]] = {
    int: "integer",
    float: "number",
    Decimal: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    SecretStr: "text, secret",
    NoneType: "",
}

PAGE_HEAD: Final = """\
# Configuration

<!-- made by `mintscope config --markdown` -->

Environment over TOML over defaults. The TOML file is the one `--config` or `MINTSCOPE_CONFIG`
names, else `mintscope.toml` in the working directory. A variable is the key in capitals with
`MINTSCOPE_` before it and `__` for the dot; lists are separated by commas there. Unknown keys are
errors. `mintscope config` prints what is in force, with `--toml` a file to start from."""

app = typer.Typer()

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file; by default the one in MINTSCOPE_CONFIG, else mintscope.toml if it exists.",
    ),
]


def configured(path: Path | None) -> Loaded:
    """Return the configuration, or print its errors and exit 2."""
    try:
        return load(path)
    except ConfigError as error:
        for problem in error.problems:
            typer.echo(f"configuration: {problem}", err=True)
        raise typer.Exit(EXIT_BAD_INPUT) from None


@app.command("config")
def config_command(
    *,
    config: ConfigFile = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the reference page.")] = False,
    toml: Annotated[bool, typer.Option("--toml", help="Print a file to start from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every setting with its value and its origin; secrets are masked."""
    if markdown + toml + as_json > 1:
        raise typer.BadParameter("expected one of --markdown, --toml and --json; was more")
    if as_json:
        print_json(list(facts_in_force(configured(config))))
        return
    if markdown:
        lines = markdown_page()
    elif toml:
        lines = toml_template()
    else:
        lines = in_force(configured(config))
    for line in lines:
        typer.echo(line)


def in_force(loaded: Loaded) -> Iterator[str]:
    """Yield a line of `mintscope config` for each setting: key, value, and the value's origin."""
    rows = [*facts_in_force(loaded)]
    key_width = max(len(row["key"]) for row in rows)
    value_width = min(VALUE_WIDTH_MAX, max(len(row["value"]) for row in rows))
    for row in rows:
        yield f"{row['key']:{key_width}}  {row['value']:{value_width}}  {row['origin']}"


def facts_in_force(loaded: Loaded) -> Iterator[dict[str, str]]:
    """Yield key, value and origin of each setting, for `mintscope config --json`.

    Values are in TOML, with masked secrets.
    """
    for _, _, group in settings():
        for setting in group:
            value = shown(setting.value(loaded.config))
            yield {"key": setting.key, "value": value, "origin": _origin(setting, loaded)}


def _origin(setting: Setting, loaded: Loaded) -> str:
    match loaded.origins[setting.key]:
        case Origin.DEFAULT:
            return "default"
        case Origin.FILE:
            return str(loaded.file)
        case Origin.ENVIRONMENT:
            return setting.variable
        case Origin.SECRET_FILE:
            return f"{setting.key}_file"


def markdown_page() -> Iterator[str]:
    """Yield the lines of docs/reference/config.md."""
    yield PAGE_HEAD
    for name, section, group in settings():
        title = name or "everything"
        yield f"\n## {title}\n"
        if section is not None:
            yield f"{section.__doc__}\n"
        yield "| key | variable | default | allowed | meaning |"
        yield "|---|---|---|---|---|"
        for setting in group:
            default = shown(setting.field.default)
            yield (
                f"| `{setting.key}` | `{setting.variable}` | `{default}` | {allowed(setting)}"
                f" | {setting.meaning} |"
            )


def toml_template() -> Iterator[str]:
    """Yield the lines of a mintscope.toml with every default, commented out."""
    yield "# Uncomment what you change.  Details: mintscope config --markdown"
    for name, section, group in settings():
        yield ""
        if section is not None:
            yield f"# {section.__doc__}"
            yield f"[{name}]"
        for setting in group:
            default = setting.field.default
            value = '""' if default is None else shown(default)
            yield f"# {setting.meaning}"
            yield f"# {setting.key.rpartition('.')[2]} = {value}"


def shown(value: Any) -> str:
    """Return the value of a setting as `mintscope config` prints it: TOML with masked secrets.

    None is "(unset)".
    """
    match value:
        case None:
            return "(unset)"
        case SecretStr():
            return _seen(value.get_secret_value())
        case Mapping():
            return "{" + ", ".join(f"{key} = {shown(each)}" for key, each in value.items()) + "}"
        case tuple():
            return "[" + ", ".join(map(shown, value)) + "]"
        case _:
            return json.dumps(value if isinstance(value, bool | int | float) else str(value))


def _seen(secret: str) -> str:
    """Return scheme, host and port of the URL *secret*, in quotes.

    If the URL has a path other than "/", a query or a user, append "/(secret)".  If *secret* has no
    scheme or no host, return only "(secret)", in quotes.
    """
    address = urlsplit(secret)
    if not address.scheme or not address.hostname:
        return '"(secret)"'
    place = address.netloc.rpartition("@")[2]
    key = "/(secret)" if address.path.strip("/") or address.query or address.username else ""
    return json.dumps(f"{address.scheme}://{place}{key}")


def allowed(setting: Setting) -> str:
    """Return in words the values that *setting* accepts."""
    bounds = setting.field.metadata
    low = next((f"at least {bound.ge}" for bound in bounds if isinstance(bound, Ge)), "")
    above = next((f"above {bound.gt}" for bound in bounds if isinstance(bound, Gt)), "")
    high = next((f"at most {bound.le}" for bound in bounds if isinstance(bound, Le)), "")
    return ", ".join(filter(None, [_kind(setting.field.annotation), low, above, high]))


def _kind(kind: Any) -> str:
    parts = get_args(kind)
    match get_origin(kind):
        case None:
            return KINDS[kind]
        case origin if origin is Literal:
            return " or ".join(f"`{part}`" for part in parts)
        case origin if origin in {Union, UnionType}:
            return " or ".join(filter(None, map(_kind, parts)))
        case origin if origin is tuple:
            return f"list of {_kind(parts[0])}"
        case origin if origin is dict:
            return "table of text, secret"
        case _:
            return _kind(parts[0])
