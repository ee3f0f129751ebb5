"""Shared parts of processes: reloads of settings, imports, waits before restarts, locks."""

import gc
import signal
from asyncio import get_running_loop
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, InitVar, dataclass
from socket import socket
from typing import Any, Final

import msgspec
import structlog

from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config
from mintscope.app.config.load import ConfigError, settings
from mintscope.app.engine import is_shared
from mintscope.app.stores import folder
from mintscope.kit.http.listening import listen, naming_setting

Reread = Callable[[], Config]
Apply = Callable[[Config], None]

log = structlog.get_logger()


def values_of(config: Config) -> dict[str, Any]:
    """Return the value of every setting of *config*, by key."""
    return {each.key: each.value(config) for _, _, group in settings() for each in group}


@dataclass(eq=False, repr=False)
class Reloading:
    """Applies changed settings to a running process; some of them need no restart.

    reread    reads the configuration again.  Raises ConfigError
    applied   functions that apply new settings, by key of the setting
    ours      returns whether this process uses the setting of a key; other settings are ignored
    """

    config: InitVar[Config]
    reread: Reread
    applied: Mapping[str, Apply]
    _: KW_ONLY
    ours: Callable[[str], bool] = lambda _: True

    def __post_init__(self, config: Config) -> None:
        self._now = values_of(config)

    def again(self) -> Sequence[str]:
        """Read the configuration again, apply changed settings, and return the applied keys.

        If the configuration is invalid, log this, apply nothing, and return no keys.  Changed
        settings that need a restart are logged at every reload until the restart.
        """
        try:
            config = self.reread()
        except ConfigError as error:
            log.error("settings_not_reloaded", problems=error.problems)  # noqa: TRY400 - not a bug
            return ()
        found = values_of(config)
        changed = {key for key, value in found.items() if value != self._now[key]}
        changed = {key for key in changed if self.ours(key)}
        taken_over = sorted(changed & self.applied.keys())
        # A set, because one function may apply several settings, and is called only once.
        for apply in {self.applied[key] for key in taken_over}:
            apply(config)
        # The other changed settings stay as they were, so that the next reload reports them again.
        self._now |= {key: found[key] for key in taken_over}
        log.info("settings_reloaded", changed=taken_over)
        waiting = sorted(changed - self.applied.keys())
        if waiting:
            log.warning("restart needed", settings=waiting)
        return taken_over


@contextmanager
def reloading(
    config: Config,
    reread: Reread,
    applied: Mapping[str, Apply],
    *,
    ours: Callable[[str], bool] = lambda _: True,
) -> Iterator[None]:
    """During the block, apply changed settings of the configuration on each SIGHUP.

    The arguments are those of `Reloading`.  An event loop must be running.
    """
    loop = get_running_loop()
    own = Reloading(config, reread, applied, ours=ours)
    loop.add_signal_handler(signal.SIGHUP, own.again)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


FIRST_S: Final = 0.05
LONGEST_S: Final = 5.0
STEADY_S: Final = 60.0
DOUBLINGS_MAX: Final = 20  # 2.0 to the power of 1,024 failures would be an OverflowError


@dataclass(slots=True)
class Backoff:
    """The wait between runs of a task: it doubles from 0.05 s to 5 s; a run of 60 s resets it."""

    _failures: int = 0

    def after(self, ran_s: float) -> float:
        """Return the number of seconds to wait after a run of *ran_s* seconds."""
        if ran_s >= STEADY_S:
            self._failures = 0
        wait_s = min(FIRST_S * 2.0 ** min(self._failures, DOUBLINGS_MAX), LONGEST_S)
        self._failures += 1
        return wait_s


@contextmanager
def loading() -> Iterator[None]:
    """Disable garbage collections during the block, which imports modules.

    Later collections exclude all objects that exist at the end of the block.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def held(config: Config, role: str, *, patience_s: float = 0.0) -> AbstractContextManager[None]:
    """Return a context manager that locks the data folder for *role*, unless the stores are shared.

    patience_s   seconds to wait for another process to release the lock
    Raises       FolderInUse, FolderOpen
    """
    if is_shared(config):  # the lock is in the database
        return nullcontext()
    may_be_open = config.data_dir_may_be_open
    return folder.held(config.data_dir, role, may_be_open=may_be_open, patience_s=patience_s)


class Sibling(msgspec.Struct, frozen=True):
    """The state of a process, as its parent reports it.

    restarts     the number of restarts of the process
    is_stopped   whether the process has ended, and is not restarted before an operator acts
    """

    restarts: int = 0
    is_stopped: bool = False


def bind(api: ApiConfig) -> socket:
    """Return the listening socket of the API.  Raises OSError if it cannot listen there."""
    with naming_setting("api.port", "api.host", api.host, api.port):
        return listen(api.host, api.port, unread_s_max=api.answer_timeout_s)
