"""Observes an installation's reports of a fault: in its log, alerts, status and doctor."""

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from prove.night.installation import Installation

LOOK_S: Final = 0.5
DOCTOR_AFTER_S: Final = 25.0
DOCTOR_AGAIN_S: Final = 15.0
RESOLVED_S: Final = 60.0
LEVELS: Final = frozenset({"warning", "error", "critical"})


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The expected signs of a fault, by place, each as a regular expression; None: no sign there.

    log      in a line of the log, which is JSON
    alerts   the name of an alert
    status   a check of /v1/health and /status, with its reason
    doctor   a line of `mintscope doctor` that is not ok
    """

    log: str | None = None
    alerts: str | None = None
    status: str | None = None
    doctor: str | None = None


@dataclass(kw_only=True)
class Signs:
    """The places (log, alerts, status, doctor) that named a fault, and after how many seconds."""

    ready_changed_s: float | None = None
    named_s: dict[str, float] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    first_line: str = ""

    def note(self, where: str, at_s: float, words: str) -> None:
        """Record that the place *where* names the fault at *at_s*, unless it has done so before."""
        if where not in self.named_s:
            self.named_s[where] = at_s
            self.said[where] = words

    def within(self, seconds: float) -> list[str]:
        """Return the places (log, alerts, status, doctor) that named the fault in *seconds*."""
        return [where for where, at_s in self.named_s.items() if at_s <= seconds]


class Observer:
    """Records the signs by which an installation reports a fault, except those from before it."""

    def __init__(self, installation: Installation, naming: Naming) -> None:
        self._installation = installation
        self._naming = naming
        self._alerts_before = self._alerts_that_stay()
        self._failing_before = set(installation.failing())
        self._log_at = installation.log.stat().st_size
        self._doctor: threading.Thread | None = None
        self._start_s = time.monotonic()
        self.signs = Signs()

    def _alerts_that_stay(self) -> set[str]:
        """Wait until the alerts of an earlier, equal fault have resolved; return the firing alerts.

        The wait takes at most RESOLVED_S seconds: an alert resolves some time after its fault.
        """
        until_s = time.monotonic() + RESOLVED_S
        while True:
            fire = self._installation.alerts()
            mine = {each for each in fire if re.fullmatch(self._naming.alerts or "", each)}
            if not mine or time.monotonic() > until_s:
                return fire
            time.sleep(LOOK_S)

    def observe(self, enough_s: float, most_s: float) -> None:
        """Look for signs of the fault until all expected places name it, at most for *enough_s*.

        If only the alert is missing then, continue to look for it; end after *most_s* seconds.
        """
        wanted = {name for name, words in vars_of(self._naming) if words is not None}
        start_s = self._start_s = time.monotonic()
        doctor_at_s = DOCTOR_AFTER_S
        while True:
            at_s = time.monotonic() - start_s
            left = wanted - self.signs.named_s.keys()
            if not left or at_s > most_s or (at_s > enough_s and left != {"alerts"}):
                break
            self._look(at_s)
            is_due = at_s >= doctor_at_s and "doctor" in left
            if is_due and (self._doctor is None or not self._doctor.is_alive()):
                doctor_at_s = at_s + DOCTOR_AGAIN_S
                self._doctor = threading.Thread(target=self._ask_doctor, daemon=True)
                self._doctor.start()
            time.sleep(LOOK_S)
        if self._doctor is not None:
            self._doctor.join(60)

    def _look(self, at_s: float) -> None:
        self._look_at_readiness(at_s)
        self._look_at_log(at_s)
        signs = self.signs
        naming = self._naming
        if naming.alerts is not None:
            for name in self._installation.alerts() - self._alerts_before:
                if re.fullmatch(naming.alerts, name):
                    signs.note("alerts", at_s, name)
        if naming.status is not None:
            for check, said in self._installation.failing().items():
                is_new = check not in self._failing_before
                if is_new and re.search(naming.status, f"{check}: {said}"):
                    signs.note("status", at_s, f"{check}: {said}")

    def _look_at_readiness(self, at_s: float) -> None:
        if self.signs.ready_changed_s is not None:
            return
        try:
            is_ready = self._installation.get("/readyz").is_success
        except httpx.HTTPError:
            is_ready = False
        if not is_ready:
            self.signs.ready_changed_s = at_s

    def _look_at_log(self, at_s: float) -> None:
        signs = self.signs
        naming = self._naming
        for line in self._new_lines():
            if line.get("level") in LEVELS and not signs.first_line:
                signs.first_line = f"{at_s:.0f} s {line.get('event')}"
            # A line with a count is about a minute, which can have begun before the fault
            is_old = "repeated" in line
            text = json.dumps(line)
            if naming.log is not None and not is_old and re.search(naming.log, text):
                signs.note("log", at_s, _said(line))

    def _ask_doctor(self) -> None:
        assert self._naming.doctor is not None
        for line in self._installation.doctor():
            if re.search(self._naming.doctor, line):
                self.signs.note("doctor", time.monotonic() - self._start_s, line)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the log, as objects, that were completed since the last call."""
        with self._installation.log.open("rb") as log:
            log.seek(self._log_at)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._log_at += len(whole)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                yield {"event": f"NOT JSON: {line[:200]!r}", "level": "error"}


def vars_of(naming: Naming) -> list[tuple[str, str | None]]:
    """Return (place, expected sign) for log, alerts, status and doctor; None: no sign there."""
    places = ("log", "alerts", "status", "doctor")
    return [(place, getattr(naming, place)) for place in places]


def _said(line: dict[str, Any]) -> str:
    reason = line.get("reason") or line.get("why") or ""
    check = f" {line['check']}" if "check" in line else ""
    return f"{line.get('event')}{check}: {reason}".rstrip(": ")
