"""Work of each process: metrics, long-running tasks, and checks of machine and deliveries."""

import asyncio
import signal
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, TypeAlias

import structlog
from prometheus_client import REGISTRY

from mintscope import __version__
from mintscope.app.config.config import MetricsConfig
from mintscope.app.config.groups import Config
from mintscope.app.engine import is_shared
from mintscope.app.running.commit import commit
from mintscope.app.running.processes import Backoff
from mintscope.kit.checks import Attempts, Check, CheckWatch, Keep, result_of
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.http.listening import naming_setting
from mintscope.kit.machine import (
    Machine,
    PublicAddress,
    freeze_startup_objects,
    give_memory_back,
    let_go_of_library,
)
from mintscope.kit.metrics import BUILD_INFO, EMAILS, TASK_FAILURES, WEBHOOKS, serve_metrics
from mintscope.kit.time import HOUR_S

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

log = structlog.get_logger()


@contextmanager
def serving_metrics(metrics: MetricsConfig, role: str) -> Iterator[None]:
    """Serve the metrics of this process, whose *role* is ingest or api, if enabled.

    Raises OSError if this process cannot listen on the port.
    """
    BUILD_INFO.labels(__version__, commit() or "unknown").set(1)
    port = metrics.ingest_port if role == "ingest" else metrics.api_port
    with ExitStack() as stack:
        if metrics.enabled:
            with naming_setting(f"metrics.{role}_port", "metrics.host", metrics.host, port):
                stack.enter_context(serve_metrics(metrics.host, port))
        yield


@asynccontextmanager
async def running(work: Work, name: str, *, sleep: Sleep = asyncio.sleep) -> AsyncIterator[None]:
    """Run *work* during the block, and cancel it at the end.

    If *work* ends or raises an error, which is a bug, log this and run it again after a pause.
    """
    task = asyncio.create_task(_run_forever(work, name, sleep), name=name)
    try:
        yield
    finally:
        task.cancel()
        # Wait for the end of *work*; its error must not replace an error of the block.
        await asyncio.gather(task, return_exceptions=True)


async def _run_forever(work: Work, name: str, sleep: Sleep) -> None:
    loop = asyncio.get_running_loop()
    backoff = Backoff()
    TASK_FAILURES.labels(name)  # exports 0 from the start
    while True:
        began_s = loop.time()
        trouble: Exception | None = None
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - any error must be logged
            trouble = error
        wait_s = backoff.after(loop.time() - began_s)
        TASK_FAILURES.labels(name).inc()
        log.error("task ended", task=name, restart_in_s=round(wait_s, 2), exc_info=trouble)
        await sleep(wait_s)


async def run_until_signalled(work: Coroutine[Any, Any, None]) -> int | None:
    """Run *work* to its end, or cancel it on SIGINT or SIGTERM; return the signal, else None."""
    task = asyncio.create_task(work)
    came = list[int]()

    def stop(number: int) -> None:
        came.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    return came[0] if came else None


COMPILER: Final = "libllvmlite.so"


@asynccontextmanager
async def keeping_memory_small() -> AsyncIterator[None]:
    """Return free memory to the system during the block; exclude old objects from collections.

    All objects that live as long as the process must be created before the block, because garbage
    collections then ignore them.
    """
    async with running(give_memory_back, "memory"):
        freeze_startup_objects()
        let_go_of_library(COMPILER)
        yield


WEBHOOKS_FAILED_MAX: Final = 5  # consecutive failures after which the check fails


@asynccontextmanager
async def watching(
    checks: Sequence[Check], clock: Clock, *, has_readiness: bool, keep: Keep | None = None
) -> AsyncIterator[None]:
    """During the block, log whenever one of *checks* starts to fail or passes again.

    has_readiness   whether to export the readiness of this process: that all vital checks pass
    keep            stores failing checks for other processes; None: they are not stored
    """

    async def look() -> Mapping[str, str]:
        results = await asyncio.gather(*map(result_of, checks))
        return dict(zip([check.name for check in checks], results, strict=True))

    vital = [check.name for check in checks if check.is_vital] if has_readiness else []
    watch = CheckWatch(look, clock, vital, keep)
    try:
        async with running(watch.run, "checks"):
            yield
    finally:
        watch.forget()


def machine_checks(config: Config) -> list[Check]:
    """Return the checks of disk, memory and write-ahead logs; export their metrics from now on."""
    watch = config.watch
    machine = Machine(
        config.data_dir,
        disk_bytes_min=watch.disk_free_bytes_min,
        memory_share_min=watch.memory_free_share_min,
        wal_bytes_max=watch.wal_bytes_max,
    )
    machine.measure()
    checks = [
        Check("disk", machine.expect_disk, is_vital=False),
        Check("memory", machine.expect_memory, is_vital=False),
    ]
    if not is_shared(config):
        checks.append(Check("wal", machine.expect_short_log, is_vital=False))
    return checks


def backup_checks(config: Config) -> list[Check]:
    """Return the check of the newest backup's age; an empty list if the check is disabled.

    The check passes until the age is known.
    """
    hours_max = config.watch.backup_age_max_hours

    async def expect_young() -> None:
        age_s = REGISTRY.get_sample_value("mintscope_backup_age_s")
        if age_s is not None and age_s > hours_max * HOUR_S:
            raise ServiceUnavailable(
                f"the newest backup is {age_s / HOUR_S:.0f} h old, more than {hours_max}: does the"
                " timer of mintscope backup run? Its log says why not"
            )

    return [Check("backup", expect_young, is_vital=False)] if hours_max else []


@asynccontextmanager
async def asking_public_address(config: Config, clock: Clock) -> AsyncIterator[list[Check]]:
    """Send requests to `api.origin` during the block; yield the check of their outcome.

    Yields [] if this is disabled, or if there is no `api.origin`.
    """
    origin = config.api.origin
    if origin is None or not config.watch.public_address:
        yield []
        return
    address = PublicAddress(origin, clock, days_min=config.watch.certificate_min_days)
    async with running(address.run, "address"):
        yield [Check("address", address.expect_reachable, is_vital=False)]


def delivery_checks(config: Config, clock: Clock) -> list[Check]:
    """Return the check of e-mails if they go by SMTP, and of webhooks if alerts are enabled."""
    checks = []
    if config.mail.delivery == "smtp":
        emails = Attempts(
            EMAILS,
            clock,
            good="sent",
            bad="failed",
            failures_max=1,
            advice=(
                "the mail server accepts no e-mail: run mintscope doctor to test it, and see"
                " mail.host"
            ),
        )
        checks.append(Check("mail", emails.expect_success, is_vital=False))
    if config.signals.enabled:
        webhooks = Attempts(
            WEBHOOKS,
            clock,
            good="delivered",
            bad="failed",
            failures_max=WEBHOOKS_FAILED_MAX,
            advice="receivers accept no webhooks, or this machine cannot reach them",
        )
        checks.append(Check("webhooks", webhooks.expect_success, is_vital=False))
    return checks
