"""Checks that a process runs by itself: its own, its machine, and its public address."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import REGISTRY

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceUnavailable
from mintscope.base.metrics import EMAILS, WEBHOOKS
from mintscope.base.time import HOUR_S
from mintscope.edges.api.check import Check, result_of
from mintscope.edges.maintenance.attempts import Attempts
from mintscope.edges.maintenance.check_watch import CheckWatch, Keep
from mintscope.edges.maintenance.machine import Machine
from mintscope.edges.maintenance.public_address import PublicAddress
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.maintenance import running

WEBHOOKS_FAILED_MAX: Final = 5  # in a row


@asynccontextmanager
async def watching(
    checks: Sequence[Check], clock: Clock, *, has_readiness: bool, keep: Keep | None = None
) -> AsyncIterator[None]:
    """Log during the block those of *checks* that begin to fail, and that pass again.

    has_readiness   whether the vital checks decide the readiness of this process
    keep            stores failing checks for other processes; None: not needed
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
    """Return the checks of this machine, and show its metrics from now on."""
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
    if config.store is None:
        checks.append(Check("wal", machine.expect_short_log, is_vital=False))
    return checks


def backup_checks(config: Config) -> list[Check]:
    """Return the check of the newest backup, by the age in the metrics; none if it is switched off.

    It passes until that age was read.
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
    """Check `api.origin` during the block; yield the check, or none if it is switched off."""
    origin = config.api.origin
    if origin is None or not config.watch.public_address:
        yield []
        return
    address = PublicAddress(origin, clock, days_min=config.watch.certificate_min_days)
    async with running(address.run, "address"):
        yield [Check("address", address.expect_reachable, is_vital=False)]


def delivery_checks(config: Config, clock: Clock) -> list[Check]:
    """Return the checks that e-mails and webhooks are delivered, for those that are sent."""
    checks = []
    if config.mail.delivery == "smtp":
        emails = Attempts(
            EMAILS,
            clock,
            good="sent",
            bad="failed",
            failures_max=1,
            advice="the mail server takes no e-mail: mintscope doctor tries it, see mail.host",
        )
        checks.append(Check("mail", emails.expect_success, is_vital=False))
    if config.signals.enabled:
        webhooks = Attempts(
            WEBHOOKS,
            clock,
            good="delivered",
            bad="failed",
            failures_max=WEBHOOKS_FAILED_MAX,
            advice="receivers of webhooks accept none, or the way out of this machine is shut",
        )
        checks.append(Check("webhooks", webhooks.expect_success, is_vital=False))
    return checks
