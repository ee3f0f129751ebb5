"""systemd accepts the units, and they fit the processes that they start."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from deployed import environment_of, expect_command, own_example, units, variables

from mintscope.app.config.config import ApiConfig
from mintscope.app.config.load import load
from mintscope.app.running.serve import EXIT_OPERATOR, STOP_TIMEOUT_S
from mintscope.kit.http.application import GRACE_S
from support.deployment import DEPLOY

UNITS = units()
BACKUP: Final = "mintscope-backup.service"
SERVING: Final = sorted(UNITS.keys() - {BACKUP})  # units that run until they are stopped
PROGRAM: Final = "/opt/mintscope/bin/mintscope"
EXPOSED_MAX: Final = 20  # tenths, as `systemd-analyze security` counts: a plain unit has 96
ONCE: Final = {"ExecStart", "Restart", "User", "StateDirectory", "LimitNOFILE", "ProtectSystem"}
KNOWN: Final = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec"},
    "Install": {"WantedBy"},
    "Service": {
        *(
            "Type",
            "ExecStart",
            "ExecReload",
            "User",
            "Group",
            "UMask",
            "WorkingDirectory",
            "StateDirectory",
        ),
        *("StateDirectoryMode", "CacheDirectory", "Environment", "Restart", "RestartSec"),
        "RestartForceExitStatus",
        *("RestartPreventExitStatus", "KillMode", "TimeoutStopSec", "LimitNOFILE", "LimitCORE"),
        *("MemoryMax", "NoNewPrivileges", "CapabilityBoundingSet", "ProtectSystem", "ProtectHome"),
        *("PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups"),
        *("ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "ProtectProc"),
        *("ProtectKernelTunables", "LockPersonality", "RemoveIPC", "RestrictAddressFamilies"),
        *("RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID"),
        *("SystemCallArchitectures", "SystemCallFilter", "SystemCallErrorNumber"),
        *("Nice", "IOSchedulingClass", "TimeoutStartSec"),
    },
}

by_systemd = [
    pytest.mark.process,
    pytest.mark.skipif(
        shutil.which("systemd-analyze") is None, reason="did not run: no systemd-analyze here"
    ),
]


def one(name: str, key: str) -> str:
    (value,) = [value for each, value in UNITS[name]["Service"] if each == key]
    return value


def analyzed(folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze with *words* on a copy of the unit *name* whose program is /bin/true."""
    for path in (DEPLOY / "systemd").glob("*.service"):
        (folder / path.name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    return subprocess.run(
        ["systemd-analyze", *words, str(folder / name)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_there_are_units_for_serve_api_ingest_and_backup() -> None:
    assert set(UNITS) == {
        "mintscope.service",
        "mintscope-api@.service",
        "mintscope-ingest@.service",
        BACKUP,
    }


@pytest.mark.parametrize("name", UNITS)
def test_the_units_have_only_known_sections_and_keys(name: str) -> None:
    assert UNITS[name].keys() | {"Install"} == KNOWN.keys()
    for section, lines in UNITS[name].items():
        keys = [key for key, _ in lines]
        assert set(keys) <= KNOWN[section]
        assert [key for key in ONCE if keys.count(key) > 1] == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=by_systemd) for name in UNITS])
def test_systemd_accepts_each_unit(name: str, tmp_path: Path) -> None:
    ran = analyzed(tmp_path, name, "verify", "--man=no")

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("name", [pytest.param(name, marks=by_systemd) for name in UNITS])
def test_each_unit_passes_the_security_analysis_of_systemd(name: str, tmp_path: Path) -> None:
    words = ("security", "--offline=yes", f"--threshold={EXPOSED_MAX}", "--no-pager")
    ran = analyzed(tmp_path, name, *words)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", UNITS)
def test_each_unit_runs_a_valid_command(name: str) -> None:
    program, *words = one(name, "ExecStart").split()

    assert program == PROGRAM
    expect_command(words)


@pytest.mark.parametrize("name", SERVING)
def test_each_unit_has_the_time_that_its_processes_need_to_stop(name: str) -> None:
    drain_s = int(environment_of(UNITS[name]).get("MINTSCOPE_DRAIN_S", 0))

    assert int(one(name, "TimeoutStopSec")) > drain_s + STOP_TIMEOUT_S > drain_s + GRACE_S
    assert one(name, "KillMode") == "mixed", "expected `serve` to stop its children in their order"


@pytest.mark.parametrize("name", SERVING)
def test_each_unit_restarts_except_after_an_error_for_the_operator(name: str) -> None:
    codes = [value for key, value in UNITS[name]["Service"] if key == "RestartPreventExitStatus"]

    assert one(name, "Restart") == "on-failure"
    assert one(name, "RestartForceExitStatus") == "SIGHUP"
    assert ("StartLimitIntervalSec", "0") in UNITS[name]["Unit"]
    assert codes == [f"{EXIT_OPERATOR}"]


@pytest.mark.parametrize("name", SERVING)
def test_each_unit_may_open_enough_files_for_its_connections(name: str) -> None:
    assert int(one(name, "LimitNOFILE")) > 2 * ApiConfig().connections_max


@pytest.mark.parametrize("name", SERVING)
def test_the_settings_of_each_unit_can_be_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = environment_of(UNITS[name])
    named = {variable for variable in environment if variable.startswith("MINTSCOPE_")}
    for variable in named:
        monkeypatch.setenv(variable, re.sub("%i", "2", environment[variable]))
    monkeypatch.setenv("MINTSCOPE_CONFIG", str(own_example(tmp_path / "mintscope.toml")))
    monkeypatch.chdir(tmp_path)

    config = load().config

    assert named <= variables()
    ports = [config.api.port, config.metrics.api_port, config.metrics.ingest_port]
    assert (
        ports
        == {
            "mintscope.service": [8402, 9465, 9464],
            "mintscope-api@.service": [8402, 9472, 9464],
            "mintscope-ingest@.service": [8402, 9465, 9482],
        }[name]
    )


@pytest.mark.parametrize("name", UNITS)
def test_each_unit_may_write_to_the_folders_of_its_settings(name: str) -> None:
    environment = environment_of(UNITS[name])

    assert one(name, "ProtectSystem") == "strict"
    data, *backups = one(name, "StateDirectory").split()
    assert environment["MINTSCOPE_DATA_DIR"] == f"%S/{data}"
    named = environment.get("MINTSCOPE_BACKUP__TO")
    assert ([named] if named else []) == [f"%S/{each}" for each in backups]
    assert environment["NUMBA_CACHE_DIR"] == f"%C/{one(name, 'CacheDirectory')}"
    assert one(name, "StateDirectoryMode") == "0700", "the data folder is closed to others"


@pytest.mark.parametrize("name", UNITS)
def test_the_user_of_each_unit_is_created_by_sysusers(name: str) -> None:
    made = (DEPLOY / "systemd" / "mintscope.sysusers.conf").read_text()

    assert f"\nu {one(name, 'User')} - " in made


def test_the_timer_takes_a_backup_each_hour() -> None:
    text = (DEPLOY / "systemd" / "mintscope-backup.timer").read_text()
    keys = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))

    assert keys["OnCalendar"] == "hourly"
    assert keys["Persistent"] == "yes"
    assert keys["WantedBy"] == "timers.target"
    assert "Unit" not in keys, "it starts the service of its own name"
    assert one(BACKUP, "Type") == "oneshot"
    assert "Install" not in UNITS[BACKUP], "the timer starts it, and nothing else"


@pytest.mark.process
@by_systemd[1]
def test_systemd_accepts_the_timer(tmp_path: Path) -> None:
    timer = DEPLOY / "systemd" / "mintscope-backup.timer"
    (tmp_path / timer.name).write_text(timer.read_text())
    ran = analyzed(tmp_path, timer.name, "verify", "--man=no")

    assert (ran.returncode, ran.stderr) == (0, "")
