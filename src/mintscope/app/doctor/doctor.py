"""`mintscope doctor`: finds problems of this installation, and how to fix them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Final

import typer

from mintscope.app.cli.config import ConfigFile
from mintscope.app.cli.output import AsJson, print_json
from mintscope.app.config.groups import Config
from mintscope.app.config.load import ConfigError, load
from mintscope.app.doctor import machine, store
from mintscope.app.doctor.chain import check_chain, check_coverage, check_dollars, check_node
from mintscope.app.doctor.finding import Finding, Level, fail, ok
from mintscope.app.stores.trouble import trouble_in_words

# These checks are skipped if the store has pending migrations.
OF_STORE: Final = (
    store.check_market,
    check_coverage,
    check_dollars,
    store.check_money,
    machine.check_backups,
    store.check_webhooks,
    store.check_limits,
    store.check_payments,
)
CHECKS: Final = (
    machine.check_packages,
    machine.check_folder,
    machine.check_sqlite,
    machine.check_pepper,
    check_chain,
    store.check_version,
    *OF_STORE,
    machine.check_mail,
    machine.check_signals,
    machine.check_pages,
    machine.check_ports,
    machine.check_proxies,
    machine.check_surfaces,
)

app = typer.Typer()


@app.command()
def doctor(
    *,
    node: Annotated[
        bool, typer.Option("--node", help="Check only whether the node is suitable.")
    ] = False,
    seconds: Annotated[
        int, typer.Option(min=1, max=3_600, metavar="SECONDS", help="Time to watch the node.")
    ] = 30,
    plan_units: Annotated[
        int | None, typer.Option(min=1, metavar="UNITS", help="Monthly calls of the node's plan.")
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Check the installation; exit 1 if something keeps the service from working."""
    found = []
    checks = [partial(check_node, seconds=seconds, units_a_month=plan_units)] if node else CHECKS
    for finding in _findings(config, checks):
        found.append(finding)
        if not as_json:
            typer.echo(finding)
    if as_json:
        print_json([finding.as_json() for finding in found])
    raise typer.Exit(1 if any(finding.level is Level.FAIL for finding in found) else 0)


def _findings(
    file: ConfigFile, checks: Sequence[Callable[[Config], Iterable[Finding]]]
) -> Iterator[Finding]:
    """Yield the findings about the configuration and of *checks*, each as soon as it is found."""
    try:
        loaded = load(file)
    except ConfigError as error:
        for problem in error.problems:
            yield fail(f"configuration: {problem}", "mintscope config --markdown lists all")
        return
    yield ok(f"configuration: {loaded.file or 'no file; environment and defaults only'}")
    waits = False
    for check in checks:
        if waits and check in OF_STORE:
            continue
        for finding in _guarded(check, loaded.config):
            # `check_version` yields a finding only if migrations are pending.
            waits = waits or check is store.check_version
            yield finding


def _guarded(check: Callable[[Config], Iterable[Finding]], config: Config) -> Iterator[Finding]:
    """Yield the findings of *check*; turn an error into a finding, so that other checks run."""
    try:
        yield from check(config)
    except Exception as error:  # noqa: BLE001 - of any check, whose store or machine is broken
        # Only `check_node` is passed as a partial, which has no name.
        name = getattr(check, "__name__", "check_node").removeprefix("check_").replace("_", " ")
        words = trouble_in_words(error)
        if words is None:
            yield fail(
                f"{name}: this check failed: {error!r}",
                "report this bug; the other checks continue",
            )
        else:
            yield fail(f"{name}: {words}", store.fix_of(error, "see the lines above"))
