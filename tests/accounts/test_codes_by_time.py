"""Codes of authenticator apps, against the vectors of RFC 4226 and RFC 6238; recovery codes."""

from random import Random
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.accounts.factors import (
    app_address,
    code_at,
    make_codes,
    matching_step,
    plain,
    secret_text,
    step_of,
)
from mintscope.kit.primitives import UnixMs

SECRET = b"12345678901234567890"  # the secret of both appendices


@pytest.mark.parametrize(
    ("count", "code"),
    list(enumerate(
        [
            "755224", "287082", "359152", "969429", "338314",
            "254676", "287922", "162583", "399871", "520489",
        ]
    )),
)  # fmt: skip
def test_codes_match_the_vectors_of_rfc_4226_appendix_d(count: int, code: str) -> None:
    assert code_at(SECRET, count) == code


@pytest.mark.parametrize(
    ("at_s", "code"),
    [
        (59, "94287082"),
        (1_111_111_109, "07081804"),
        (1_111_111_111, "14050471"),
        (1_234_567_890, "89005924"),
        (2_000_000_000, "69279037"),
        (20_000_000_000, "65353130"),
    ],
)
def test_codes_match_the_vectors_of_rfc_6238_appendix_b(at_s: int, code: str) -> None:
    at = UnixMs(at_s * 1000)
    assert code_at(SECRET, step_of(at), digits=8) == code
    assert matching_step(SECRET, code[2:], at, after=-1) == step_of(at)


@given(st.integers(min_value=2, max_value=10**8), st.integers(min_value=-3, max_value=3))
def test_a_code_is_accepted_up_to_a_step_early_or_late(step: int, drift: int) -> None:
    code = code_at(SECRET, step + drift) if step + drift >= 0 else ""
    found = matching_step(SECRET, code, UnixMs(step * 30_000), after=-1)
    near = {code_at(SECRET, each) for each in (step - 1, step, step + 1)}
    assert (found is not None) == (code in near)
    if abs(drift) <= 1:
        assert found is not None


def test_a_code_is_accepted_once() -> None:
    at = UnixMs(59_000)
    step = matching_step(SECRET, "287082", at, after=-1)
    assert step == 1
    assert matching_step(SECRET, "287082", at, after=step) is None
    assert matching_step(SECRET, code_at(SECRET, 2), at, after=step) == 2


def test_the_address_for_an_app_contains_the_secret_and_its_parameters() -> None:
    parts = urlsplit(app_address(SECRET, issuer="mint scope", name="a+b@example.org"))
    assert (parts.scheme, parts.netloc) == ("otpauth", "totp")
    assert parts.path == "/mint%20scope:a%2Bb@example.org"
    assert parse_qs(parts.query) == {
        "secret": ["GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"],
        "issuer": ["mint scope"],
        "algorithm": ["SHA1"],
        "digits": ["6"],
        "period": ["30"],
    }
    assert secret_text(SECRET) == "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ"


@given(st.integers(min_value=1).map(Random))
def test_ten_recovery_codes_are_made_and_their_spelling_does_not_matter(random: Random) -> None:
    codes = make_codes(random.randbytes)
    assert len(set(codes)) == 10
    for code in codes:
        assert len(code) == 11
        assert not set("01iloUuv") & set(code)
        assert plain(f" {code.upper()} ") == plain(code.replace("-", " - ")) == plain(code)
        assert not (
            len(plain(code)) == 6 and plain(code).isdigit()
        )  # differs from any code of an app
