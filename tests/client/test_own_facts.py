"""The client imports nothing of the service, so it repeats constants, which must be equal."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.credentials import (
    CredentialKind,
    is_well_formed,
    make_api_key,
    make_application_secret,
    make_credit_token,
)
from mintscope.kit.errors import ErrorCode
from mintscope.payments.protocol import envelope, headers
from mintscope.solana import finality_meter, pace
from mintscope_client import errors, wire

PROJECT = Path(__file__).resolve().parents[2] / "packages" / "client" / "pyproject.toml"


def test_the_client_requires_at_least_version_15_of_websockets() -> None:
    """Before version 15, a connection for threads sends no pings, so its loss is not noticed."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]

    assert extras["websocket"] == ["websockets>=15"]


def test_error_codes_equal_those_of_the_service() -> None:
    assert {each.name: each.value for each in errors.ErrorCode} == {
        each.name: each.value for each in ErrorCode
    }


def test_names_and_numbers_equal_those_of_the_service() -> None:
    named = {
        headers: ("PAYMENT_REQUIRED", "PAYMENT_SIGNATURE"),
        envelope: ("SCHEME", "TOKEN_PROGRAM", "AMOUNT_MAX"),
        finality_meter: ("INVALID_PARAMS", "CONFIRMED", "FINALIZED"),
        pace: ("BLOCKHASH_BLOCKS",),
    }
    pairs = {
        name: (getattr(wire, name), getattr(module, name))
        for module, names in named.items()
        for name in names
    }

    assert {name for name in vars(wire) if name.isupper()} == {*pairs, "CHECKSUM_LENGTH"}
    assert [name for name, (ours, theirs) in pairs.items() if ours != theirs] == []


MADE = {
    "CREDIT_TOKEN": make_credit_token,
    "APPLICATION_SECRET": make_application_secret,
    "API_KEY": make_api_key,
}


@pytest.mark.parametrize("kind", CredentialKind)
@given(data=st.data())
def test_client_and_service_agree_whether_a_credential_is_well_formed(
    kind: CredentialKind, data: st.DataObject
) -> None:
    size = kind.entropy_bytes
    good = MADE[kind.name](data.draw(st.binary(min_size=size, max_size=size)))
    at = data.draw(st.integers(0, len(good)))
    bad = good[:at] + data.draw(st.sampled_from(["", "0", "A", "\n"])) + good[at + 1 :]
    ours = wire.CredentialKind[kind.name]

    assert wire.is_well_formed(ours, good)
    assert wire.is_well_formed(ours, bad) == is_well_formed(kind, bad)
    assert {each.value for each in wire.CredentialKind} == {each.value for each in CredentialKind}
