"""`mintscope payments find` finds the payment of a customer who paid and got nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.accounts.rows import AccountRows
from mintscope.app.cli.payments import app
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.payments.payment import Landed, NewToken, State
from mintscope.payments.ports import Begun
from mintscope.solana.blocks import USDC
from support.scenes.payments.payment_build import keypair
from support.scenes.payments.pending_payments import new_payment
from support.scenes.stores import money_in

PAYER: Final = Wallet(str(keypair("payer").pubkey()))
STRANGER: Final = Wallet(str(keypair("stranger").pubkey()))
PAID, UNKNOWN = (Signature(str(keypair("anyone").sign_message(name))) for name in (b"a", b"b"))
EMAIL: Final = EmailAddress("customer@example.org")
HINT: Final = "0a1b2c3d"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an installation that sold ten credits to a wallet linked to a person."""
    monkeypatch.setenv("MINTSCOPE_DATA_DIR", str(tmp_path))
    asyncio.run(sell(tmp_path))
    return tmp_path


async def sell(folder: Path) -> None:
    now = SystemClock().now()
    token = NewToken(credits=10, token_hash=new_payment("a").payment.key_hash, hint=HINT)
    asked = new_payment(
        "a", signature=PAID, payer=PAYER, asset=USDC, amount=25_000, purchase=token, begun_at=now
    )

    def link(rows: AccountRows) -> None:
        person = NewUser(
            kind=UserKind.PERSON,
            username="customer",
            email=EMAIL,
            password_hash="a hash",
            created_at=now,
        )
        rows.wallets.link(rows.users.insert(person), PAYER, now)

    async with money_in(folder) as money:
        await money.books.fill_fund(10**12, mark=0)
        assert isinstance(await money.payments.begin(asked), Begun)
        landed = Landed(paid=25_000, final=True)
        name = asked.payment.message_hash
        issued = await money.payments.resolve(name, landed, now=UnixMs(now + 1), again_ms=0)
        assert issued.state is State.ISSUED
        await money.accounts.transact(link)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["payments", "find", *words])


def found(what: str) -> list[dict[str, Any]]:
    result = run(what, "--json")
    assert result.exit_code == 0, result.output
    answer: list[dict[str, Any]] = json.loads(result.stdout)["found"]
    return answer


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "what", [PAID, PAYER, EMAIL, "Customer@Example.org", HINT, f"...{HINT}", HINT.upper()]
)
def test_a_payment_is_found_by_signature_wallet_email_or_credit_token(what: str) -> None:
    (payment,) = found(what)

    assert payment["signature"] == PAID
    assert payment["payer"] == PAYER
    assert payment["finding"] == "credits_issued"
    assert payment["arrived"] == "0.025 USDC"
    assert (payment["credits"], payment["creditsLeft"]) == (10, 10)
    assert payment["creditsNowOn"] == f"...{HINT}"
    assert payment["chain"].startswith("not asked: ")
    assert PAID in payment["textForCustomer"]
    assert HINT in payment["do"]


@pytest.mark.usefixtures("folder")
def test_a_found_payment_is_printed_in_words_without_json() -> None:
    result = run(PAID)

    assert result.exit_code == 0
    for said in ("To do: ", "To the customer:", PAID, "not asked: ", "Searched by signature"):
        assert said in result.stdout, result.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (STRANGER, "Searched by wallet: among 1 payments, 0 payments on chain without a row"),
        ("ffffffff", "Searched by credit token: among 1 payments"),
        ("other@example.org", "with 0 linked wallets and 0 accounts"),
    ],
)
def test_a_search_without_a_result_reports_the_searched_records(what: str, said: str) -> None:
    result = run(what)

    assert result.exit_code == 1
    assert "Nothing was found." in result.stdout
    assert said in result.stdout


@pytest.mark.usefixtures("folder")
def test_an_unknown_signature_has_a_text_and_a_next_step() -> None:
    result = run(UNKNOWN, "--json")
    answer = json.loads(result.stdout)

    assert result.exit_code == 1
    assert answer["lookedAt"]["payments"] == 1
    assert answer["found"][0]["finding"] == "not_found"
    assert "not pay again" in answer["found"][0]["textForCustomer"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("what", ["", "hello", "0a1b2c3", "a@", PAID[:-4]])
def test_a_text_of_no_known_form_is_refused(what: str) -> None:
    result = run(what)

    assert result.exit_code == 2
    assert "expected" in result.stderr


@pytest.mark.usefixtures("folder")
def test_a_whole_credit_token_is_not_printed() -> None:
    token = "svc_credit_" + "0" * 56 + HINT
    result = run(token)

    assert result.exit_code == 0
    assert PAID in result.stdout
    assert token not in result.output
    assert "secret" in result.stderr


def test_a_search_changes_nothing(folder: Path) -> None:
    def content() -> bytes:
        return (folder / "money.sqlite").read_bytes()

    run(PAID)  # the first command stores the name of the installation, if no service has
    before = content()
    for what in (PAID, PAYER, EMAIL, HINT, UNKNOWN):
        run(what)
    assert content() == before
