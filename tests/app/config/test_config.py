"""The configuration has three sources with a fixed precedence, and errors name every mistake."""

import tomllib
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from solders.keypair import Keypair
from typer.testing import CliRunner

from mintscope.accounts.mail.outbox import LEASE_MS
from mintscope.app.cli.config import app, toml_template
from mintscope.app.config.config import MailConfig, Section
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.config.load import ConfigError, OpenSecret, Origin, Setting, load, settings
from mintscope.app.payments import CannotSell, fee_payer_of, terms_of
from mintscope.kit.http.response import Bounds
from mintscope.market.ports import DEFAULT_RETENTION, Retention
from mintscope.market.timeframe import Timeframe
from mintscope.solana.blocks import USDC, WSOL
from mintscope.solana.poll import Polling
from mintscope_client.keypair import UnusableKeypair

URL = "https://rpc.example.org:8899/v2/0123456789?key=abcdef"
PEPPER = sha256(b"a pepper").hexdigest()
KEY = Keypair.from_seed(sha256(b"a fee payer").digest())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder, remove all variables MINTSCOPE_*, and return the folder."""
    import os  # noqa: PLC0415 - only to forget what the caller's shell says

    for name in list(os.environ):  # noqa: TID251 - only to forget what the caller's shell says
        if name.upper().startswith("MINTSCOPE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(path: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return caught.value.problems


def test_the_defaults_alone_are_a_valid_configuration() -> None:
    loaded = load()

    assert loaded.file is None
    assert set(loaded.origins.values()) == {Origin.DEFAULT}
    assert loaded.config.api.port == 8402


class Unexplained(Section):
    """A section whose settings have no text."""

    limit: int = 1
    limit_window_s: int = 60
    token_file: Path | None = None


def test_every_setting_has_a_meaning_by_its_text_or_by_a_known_suffix() -> None:
    fields = Unexplained.model_fields.items()
    meanings = [Setting(name, field, Unexplained).meaning for name, field in fields]

    assert meanings == ["", "Length of that window.", "The file that holds token instead."]
    assert all(setting.meaning for _, _, group in settings() for setting in group)


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mintscope.toml").write_text(
        'data_dir = "d"\n[chain]\ntimeout_s = 3\npoll_interval_ms = 70\n'
    )
    monkeypatch.setenv("MINTSCOPE_CHAIN__TIMEOUT_S", "4.5")

    loaded = load()

    assert loaded.config.data_dir == Path("d")
    assert (loaded.config.chain.timeout_s, loaded.config.chain.poll_interval_ms) == (4.5, 70)
    assert loaded.config.chain.requests_in_flight == 10
    assert {key: origin for key, origin in loaded.origins.items() if origin != "default"} == {
        "data_dir": Origin.FILE,
        "chain.timeout_s": Origin.ENVIRONMENT,
        "chain.poll_interval_ms": Origin.FILE,
    }


def test_the_file_of_the_argument_wins_over_the_file_of_the_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mintscope.toml", "variable.toml", "asked.toml"):
        (folder / name).write_text(f'data_dir = "{name}"\n')

    assert load().config.data_dir == Path("mintscope.toml")
    monkeypatch.setenv("MINTSCOPE_CONFIG", "variable.toml")
    assert load().config.data_dir == Path("variable.toml")
    assert load(Path("asked.toml")).config.data_dir == Path("asked.toml")


def test_lists_headers_and_slots_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINTSCOPE_MARKET__MINTS", f"{WSOL}, {USDC}")
    monkeypatch.setenv("MINTSCOPE_CHAIN__FILES", "a.jsonl,b.jsonl.gz")
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_HEADERS", "X-Token: abc, Authorization: Bearer x:y")
    monkeypatch.setenv("MINTSCOPE_CHAIN__START", "123456")
    monkeypatch.setenv("MINTSCOPE_API__TRUSTED_PROXIES", "10.0.0.0/8,::1")

    config = load().config

    assert config.market.mints == (WSOL, USDC)
    assert config.chain.files == (Path("a.jsonl"), Path("b.jsonl.gz"))
    assert config.chain.rpc_headers == {
        "X-Token": SecretStr("abc"),
        "Authorization": SecretStr("Bearer x:y"),
    }
    assert config.chain.start == 123456
    assert config.api.trusted_proxies == ("10.0.0.0/8", "::1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[chain]\ntimeout_s = 0",
            "chain.timeout_s (mintscope.toml): expected more than 0; was 0",
        ),
        (
            '[chain]\nsource = "grpc"',
            "chain.source (mintscope.toml): expected 'rpc', 'geyser' or 'files'; was 'grpc'",
        ),
        (
            '[chain]\nrpc_ulr = "x"',
            "chain.rpc_ulr (mintscope.toml): no such setting; did you mean chain.rpc_url?",
        ),
        ("[chian]\nx = 1", "chian (mintscope.toml): no such setting"),
        ("chain = 3", "chain (mintscope.toml): expected a table of settings; was 3"),
        (
            '[chain]\nstart = "yesterday"',
            'chain.start (mintscope.toml): expected "latest", "first" or a slot; was \'yesterday\'',
        ),
        ("[chain]\nstart = true", 'expected "latest", "first" or a slot; was True'),
        (
            '[market]\nmints = ["abc"]',
            "market.mints (mintscope.toml): expected a token mint address",
        ),
        ("[market]\nretention_m1_hours = 24", "expected at least 25; was 24"),
        (
            '[api]\ntrusted_proxies = ["10.0.0.1/8"]',
            "api.trusted_proxies (mintscope.toml): 10.0.0.1/8 has host bits set; was '10.0.0.1/8'",
        ),
        ("[api]\nport = [1]", "expected an integer; was [1]"),
        ("[api]\nhost = 5", "expected text; was 5"),
        ("[payments]\nenabled = []", "expected true or false; was []"),
        ("[api]\nport = 70000", "expected at most 65535; was 70000"),
        (
            "[api]\nstale_after_s = nan",
            "api.stale_after_s (mintscope.toml): expected a finite number",
        ),
        ("[api]\nstale_after_s = 20", "api.degraded_after_s: expected at most api.stale_after_s"),
        ("[market]\nshard = '1/2'", 'market.shard: expected market.track "all"'),
        ("[market]\nshard = '2'", "market.shard (mintscope.toml): expected a part of"),
        ('[chain]\nsource = "files"', "chain.files: expected at least one file"),
        ("[metrics]\napi_port = 9464", "metrics.api_port: expected another port"),
        ("[api]\nport = 9465", "api.port: expected another port"),
        ('[chain]\nrpc_headers = {"a b" = "c"}', "expected header names of letters, digits"),
        ('[chain]\nrpc_headers = {a = "\u00fc"}', "expected a value of printable ASCII for a"),
        ('[api]\norigin = "example.org"', "expected an address like https://api.example.org"),
        ('[api]\norigin = "https://x.org/v1"', "without a path; was 'https://x.org/v1'"),
        ('[api]\norigin = "http://localhost:abc"', "without a path; was 'http://localhost:abc'"),
        ('[api]\norigin = "http://[::1"', "without a path; was 'http://[::1'"),
        (
            '[payments]\nnetwork = "mainnet"',
            "payments.network (mintscope.toml): expected solana: and 32 characters of base58, as",
        ),
        ('[payments]\nasset = "USDC"', "payments.asset (mintscope.toml): expected a token mint"),
        ('[payments]\ntoken_program = "spl"', "expected TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623"),
        (
            '[payments]\npay_to = "me"',
            "payments.pay_to (mintscope.toml): expected an address, base58",
        ),
        (
            '[payments]\npools = ["a:b"]',
            "payments.pools (mintscope.toml): expected the addresses of two vaults, VAULT:VAULT",
        ),
        ('[chain]\ngap_rate_pools = ["a"]', "expected an address, base58 of 32 bytes"),
        ("[market]\ndollars = []", "market.dollars (mintscope.toml): expected at least one mint"),
        ('data_dir = ""', "data_dir (mintscope.toml): expected a folder; . is the working"),
        ('[api]\nname = ""', "api.name (mintscope.toml): expected 1 to 32 printable ASCII"),
        (
            '[api]\ncontact = "me@example.org"',
            "api.contact (mintscope.toml): expected mailto:help@example.org or an address like",
        ),
        ('[operator]\nterms = "none"', "expected an address like https://example.org/terms"),
        (f'[operator]\nname = "{"n" * 101}"', "expected at most 100 characters; was 'nnn"),
        ('[signals]\ntelegram_bot = "@me"', "expected 5 to 32 of A-Z, a-z, 0-9 and _"),
        ('[signals]\ntelegram_url = "t.me"', "expected an address like https://api.telegram.org"),
        ('[web]\ndemo_wallet_seed = "5"', "expected 64 hexadecimal digits, 0 to 9 and a to f"),
        ("[payments]\nprice_usd = 0", "payments.price_usd (mintscope.toml): expected more than 0"),
        ('[payments]\nprice_usd = "NaN"', "payments.price_usd (mintscope.toml): expected a finite"),
        (
            '[api]\nhost = "0.0.0.0"\n[mail]\ndelivery = "page"',
            'mail.delivery: expected "smtp" or "none" where others can reach the api (api.host,',
        ),
        (
            '[mail]\ndelivery = "smtp"\nhost = "mail.example.org"\nsecurity = "none"',
            'mail.security: expected "starttls" or "tls" for a mail.host elsewhere',
        ),
        ("[web]\nadmin_port = 8402", "web.admin_port: expected another port"),
        ("[web]\nadmin_port = 9465", "web.admin_port: expected another port"),
        ('[log]\nlevel = "loud"', "expected 'debug', 'info', 'warning' or 'error'; was 'loud'"),
        ("[chain\n", "mintscope.toml: expected TOML; "),
        ("data_dir = " + "9" * 5_000, "mintscope.toml: expected TOML; "),
        ("data_dir = " + "[" * 9_000, "mintscope.toml: expected TOML; "),
        (
            "data_dir = 'a'\ndata_dir = 'b'",
            "mintscope.toml: expected TOML; Cannot overwrite a value",
        ),
    ],
)
def test_a_mistake_in_the_file_is_named(folder: Path, text: str, expected: str) -> None:
    (folder / "mintscope.toml").write_text(text)

    (problem,) = problems()

    assert expected in problem
    assert "pattern" not in problem


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_emails_may_be_shown_on_a_loopback_address(folder: Path, host: str) -> None:
    (folder / "mintscope.toml").write_text(f'[api]\nhost = "{host}"\n[mail]\ndelivery = "page"\n')

    assert load().config.mail.delivery == "page"


@pytest.mark.parametrize(
    "beyond", ['origin = "https://api.example.org"', 'trusted_proxies = ["10.0.0.0/8"]']
)
def test_emails_are_not_shown_through_a_proxy(folder: Path, beyond: str) -> None:
    (folder / "mintscope.toml").write_text(f'[api]\n{beyond}\n[mail]\ndelivery = "page"\n')

    assert any(problem.startswith("mail.delivery: ") for problem in problems())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "api.example.org"])
def test_emails_and_a_demo_wallet_are_refused_on_other_addresses(folder: Path, host: str) -> None:
    shown = f'[mail]\ndelivery = "page"\n[web]\ndemo_wallet_seed = "{"5" * 64}"\n'
    (folder / "mintscope.toml").write_text(f'[api]\nhost = "{host}"\n{shown}')

    assert any(problem.startswith("mail.delivery: ") for problem in problems())
    assert any(problem.startswith("web.demo_wallet_seed: ") for problem in problems())


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "MINTSCOPE_CHAIN__TIMEOUT",
            "3",
            "(environment): no such setting; did you mean MINTSCOPE_CHAIN__TIMEOUT_S?",
        ),
        (
            "MINTSCOPE_DATADIR",
            "x",
            "MINTSCOPE_DATADIR: no such setting; did you mean MINTSCOPE_DATA_DIR?",
        ),
        (
            "MINTSCOPE_API__PORT",
            "http",
            "MINTSCOPE_API__PORT (environment): expected an integer; was 'http'",
        ),
        ("MINTSCOPE_DATA_DIR", "", "expected a folder; . is the working directory"),
        ("MINTSCOPE_API__PORT", "70000", "expected at most 65535; was '70000'"),
        ("MINTSCOPE_API__HOST", "", "expected an address; 0.0.0.0 is every address; was ''"),
        ("MINTSCOPE_METRICS__HOST", "", "expected an address; 0.0.0.0 is every address"),
        ("MINTSCOPE_WEB__ADMIN_HOST", "", "expected an address; 0.0.0.0 is every address"),
        ("MINTSCOPE_PAYMENTS__ENABLED", "maybe", "expected true or false; was 'maybe'"),
        ("MINTSCOPE_PAYMENTS__PRICE_USD", "cheap", "expected a number; was 'cheap'"),
        ("MINTSCOPE_API__STALE_AFTER_S", "soon", "expected a number; was 'soon'"),
        ("MINTSCOPE_MAIL__DELIVERY", "post", "expected 'none', 'smtp' or 'page'; was 'post'"),
        ("MINTSCOPE_CHAIN", "x", "MINTSCOPE_CHAIN (environment): expected a table of settings"),
        (
            "MINTSCOPE_CHAIN__RPC_HEADERS",
            "hunter2",
            'MINTSCOPE_CHAIN__RPC_HEADERS (environment): expected "Name: value, Name: value"',
        ),
        (
            "MINTSCOPE_CHAIN__RPC_URL",
            "ftp://hunter2",
            "MINTSCOPE_CHAIN__RPC_URL (environment): expected an address like https://",
        ),
        ("MINTSCOPE_CHAIN__RPC_URL", "https://", "expected an address like https://"),
        ("MINTSCOPE_CHAIN__RPC_URL", "http://[hunter2", "expected an address like https://"),
        ("MINTSCOPE_CHAIN__RPC_URL", "http://host:hunter2", "expected an address like https://"),
        ("MINTSCOPE_CHAIN__RPC_URL", "hunter2", "expected an address like https://"),
        ("MINTSCOPE_PAYMENTS__FEE_PAYER_KEY", "hunter2", "expected a Solana keypair"),
        ("MINTSCOPE_PAYMENTS__FEE_PAYER_KEY", "[1, 2]hunter2", "expected a Solana keypair"),
        ("MINTSCOPE_PAYMENTS__PRICE_FEED_URL", "hunter2", "expected an address like https://"),
        ("MINTSCOPE_CREDITS__PEPPER", "hunter2", "expected hexadecimal digits"),
        ("MINTSCOPE_CREDITS__PEPPER", "ab" * 31, "expected at least 64 hexadecimal digits"),
        ("MINTSCOPE_CONFIG", "nowhere.toml", "nowhere.toml: cannot be read: No such file"),
        ("MINTSCOPE_CONFIG", ".", ".: cannot be read: Is a directory"),
    ],
)
def test_a_mistake_in_the_environment_is_named_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(name, value)

    (problem,) = problems()

    assert expected in problem
    assert "hunter2" not in problem


def test_no_setting_is_suggested_for_a_name_that_resembles_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mintscope.toml").write_text("redis = 1\n")
    monkeypatch.setenv("MINTSCOPE_REDIS_URL", "redis://localhost")

    assert problems() == (
        "MINTSCOPE_REDIS_URL: no such setting",
        "redis (mintscope.toml): no such setting",
    )


def test_every_problem_is_named_at_once(folder: Path) -> None:
    (folder / "mintscope.toml").write_text("[api]\nport = -1\nprt = 1\n[log]\nlevel = 1\n")

    assert [problem.split(" ")[0] for problem in problems()] == ["api.port", "api.prt", "log.level"]


def test_an_invalid_mint_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINTSCOPE_MARKET__MINTS", "abc")
    assert problems()[0].endswith("(32 to 44 characters); was 'abc'")
    assert problems()[0].count("was 'abc'") == 1


def test_all_missing_settings_of_sales_are_named(folder: Path) -> None:
    (folder / "mintscope.toml").write_text(
        '[payments]\nenabled = true\nprice_source = "market"\n'
        '[chain]\nsource = "files"\nfiles = ["a"]\n'
    )

    assert [problem.split(":")[0] for problem in problems()] == [
        "payments.fee_payer_file",
        "payments.pay_to",
        "payments.pools",
        "payments.price_source",
    ]


def test_a_stream_needs_a_server_and_a_token_for_each_or_one_for_all(folder: Path) -> None:
    (folder / "mintscope.toml").write_text('[chain]\nsource = "geyser"\n')
    assert problems() == ('geyser.urls: expected at least one server with chain.source "geyser"',)
    (folder / "mintscope.toml").chmod(0o600)
    (folder / "mintscope.toml").write_text(
        '[chain]\nsource = "geyser"\n[geyser]\n'
        'urls = ["http://a", "http://b", "http://c"]\nx_tokens = ["one", "two"]\n'
    )
    assert problems() == ("geyser.x_tokens: expected one for all of geyser.urls, or one for each",)


def test_a_fee_payer_with_both_a_key_and_a_file_is_refused(folder: Path) -> None:
    key = KEY
    (folder / "mintscope.toml").touch(mode=0o600)
    selling = f'[payments]\nenabled = true\npay_to = "{WSOL}"\nfee_payer_key = "{key}"\n'
    (folder / "mintscope.toml").write_text(selling)
    assert fee_payer_of(load().config.payments) == key

    (folder / "mintscope.toml").write_text(selling + 'fee_payer_file = "id.json"\n')
    (problem,) = problems()
    assert problem.startswith(
        "payments.fee_payer_file: expected exactly one of it and payments.fee_payer_key"
    )


def test_a_fee_payer_is_read_from_a_file_and_an_unusable_file_is_refused(folder: Path) -> None:
    key = KEY
    (folder / "id.json").touch(mode=0o600)
    (folder / "id.json").write_text(key.to_json())
    payments = PaymentsConfig(fee_payer_file=folder / "id.json", pay_to=str(key.pubkey()))

    assert fee_payer_of(payments) == key
    with pytest.raises(CannotSell, match="another wallet than the fee payer's"):
        terms_of(payments, key)
    (folder / "id.json").write_text("hunter2")
    with pytest.raises(UnusableKeypair, match=r"id\.json: a JSON list of 64 numbers") as caught:
        fee_payer_of(payments)
    assert "hunter2" not in str(caught.value)
    (folder / "id.json").write_text(Keypair.from_seed(bytes(range(32))).to_json())
    with pytest.raises(CannotSell, match="a key of your own"):
        fee_payer_of(payments)
    (folder / "id.json").write_text(key.to_json())
    (folder / "id.json").chmod(0o644)
    with pytest.raises(OpenSecret, match=r"its mode is 644: chmod 600 .*id\.json"):
        fee_payer_of(payments)


@pytest.mark.parametrize(
    "secret",
    [
        f'[credits]\npepper = "{PEPPER}"\n',
        f'[payments]\nfee_payer_key = "{KEY}"\n',
        'store = "postgresql://mintscope:b8e1f3a09c5d72e4@db/mintscope"\n',
        '[chain]\nrpc_url = "https://node.invalid/v2?key=b8e1f3a0"\n',
        '[mail]\npassword = "b8e1f3a0"\n',
    ],
)
def test_a_file_with_secrets_is_refused_if_its_mode_is_too_open(
    folder: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "mintscope.toml"
    file.write_text(secret)
    for mode, is_refused in ((0o644, True), (0o660, True), (0o640, False), (0o400, False)):
        file.chmod(mode)
        if is_refused:
            assert problems()[0].endswith(
                f"its mode is {mode:o}: chmod 600 mintscope.toml, or 640 if its group is the"
                " service's alone"
            )
        else:
            load()
    file.chmod(0o644)
    file.write_text("[api]\nport = 99\n")
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER", PEPPER)
    load()


def test_sections_are_frozen() -> None:
    config = load().config

    with pytest.raises(ValidationError, match="frozen"):
        config.api.port = 1


def test_no_secret_is_ever_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_URL", URL)
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_HEADERS", "X-Token: abcdef")
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER", PEPPER)

    printed = CliRunner().invoke(app, []).output
    config = load().config

    for text in (printed, repr(config), str(config)):
        assert "0123456789" not in text
        assert "abcdef" not in text
        assert PEPPER not in text
    assert '"https://rpc.example.org:8899/(secret)"' in printed
    assert "MINTSCOPE_CHAIN__RPC_URL" in printed
    assert config.chain.rpc_url.get_secret_value() == URL


def test_a_printed_address_has_no_user_and_keeps_its_brackets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINTSCOPE_CHAIN__RPC_URL", "http://me:abcdef@[::1]:8899")

    assert '"http://[::1]:8899/(secret)"' in CliRunner().invoke(app, []).output


def test_the_command_prints_each_value_with_its_origin(folder: Path) -> None:
    (folder / "other.toml").write_text("[api]\nport = 99\n")

    lines = CliRunner().invoke(app, ["--config", "other.toml"]).output.splitlines()

    assert ["api.port", "99", "other.toml"] in [line.split() for line in lines]
    assert ["api.host", '"127.0.0.1"', "default"] in [line.split() for line in lines]
    assert len(lines) == sum(len(group) for _, _, group in settings())


def test_a_broken_configuration_exits_2_without_a_traceback(folder: Path) -> None:
    (folder / "mintscope.toml").write_text("[api]\nport = -1\n")

    result = CliRunner().invoke(app, [])

    assert result.exit_code == 2
    assert result.stderr == (
        "configuration: api.port (mintscope.toml): expected at least 0; was -1\n"
    )


def test_the_template_holds_every_default(folder: Path) -> None:
    lines = [
        line.removeprefix("# ") for line in toml_template() if " = " in line or "[" in line[:1]
    ]
    (folder / "mintscope.toml").write_text("\n".join(lines))

    loaded = load()

    assert tomllib.loads("\n".join(lines))["api"]["port"] == 8402
    assert loaded.config == Config()


def test_the_name_of_every_number_ends_with_its_unit() -> None:
    """Operators misread a number without a unit."""
    plain = ("_max", "_requests", "_per_day", "_version", "_in_flight", "port", "start", "decimals")
    shares = ("_share_min",)
    lamports = ("_lamports", "_lamports_min")
    counted = (
        "_s",
        "_ms",
        "_bytes_max",
        "_bytes_min",
        "_slots",
        "_minutes",
        "_hours",
        "_days",
        "_months",
    )
    units = (*counted, *lamports, *plain, *shares)

    for _, _, group in settings():
        for setting in group:
            if setting.field.annotation in {int, float}:
                assert setting.key.endswith(units), setting.key


def test_the_defaults_are_those_of_the_components() -> None:
    config = Config()
    chain, market, api = config.chain, config.market, config.api

    assert Polling().requests_in_flight == chain.requests_in_flight
    assert (Polling().poll_interval_ms, Polling().gap_after_s) == (
        chain.poll_interval_ms,
        chain.gap_after_s,
    )
    assert DEFAULT_RETENTION.keep_s == {
        Timeframe.M1: market.retention_m1_hours * 3_600,
        Timeframe.M5: market.retention_m5_hours * 3_600,
        Timeframe.M15: market.retention_m15_days * 86_400,
        Timeframe.H1: market.retention_h1_days * 86_400,
    }
    assert Bounds() == Bounds(
        head_bytes_max=api.header_bytes_max,
        body_bytes_max=api.body_bytes_max,
        request_s_max=api.request_timeout_s,
        unread_s_max=api.answer_timeout_s,
        keep_alive_s_max=api.keep_alive_s,
        connections_max=api.connections_max,
        connections_per_client_max=api.connections_per_client_max,
    )


def test_the_timeout_of_an_email_must_be_shorter_than_its_lease() -> None:
    MailConfig(timeout_s=LEASE_MS / 1000 - 10)
    with pytest.raises(ValidationError, match="timeout_s"):
        MailConfig(timeout_s=LEASE_MS / 1000)


def test_the_shortest_retention_that_settings_allow_is_valid() -> None:
    Retention(
        {
            Timeframe.M1: 25 * 3_600,
            Timeframe.M5: 1 * 3_600,
            Timeframe.M15: 1 * 86_400,
            Timeframe.H1: 1 * 86_400,
        }
    )


SECRETS_IN_FILES = {
    "store": "postgresql://mintscope:3f8a9c1d7e5b2046@db.example.org/mintscope",
    "chain.rpc_url": URL,
    "chain.second_rpc_url": URL,
    "chain.rpc_headers": "Authorization: Bearer 7d1c\nX-Key: 9f3e",
    "geyser.urls": f"{URL}\n{URL}/2",
    "geyser.x_tokens": "a1b2c3\nd4e5f6",
    "credits.pepper": PEPPER,
    "mail.password": "of a mailbox",
    "payments.price_feed_url": URL,
    "signals.telegram_token": "123456:ABC-DEF1234ghIkl",
    "tracing.otlp_url": URL,
    "credits.roots": f"{1_700_000_000}:{sha256(b'a root').hexdigest()}",
}


def text_of(value: object) -> str:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case dict():
            return "\n".join(f"{name}: {text_of(each)}" for name, each in value.items())
        case tuple():
            return "\n".join(map(text_of, value))
        case _:
            return str(value)


def test_every_secret_is_tested_with_a_file_of_its_own() -> None:
    """`payments.fee_payer_key` is excluded: its file is named by `payments.fee_payer_file`."""
    keys = [each for _, _, group in settings() for each in group]
    secrets = {each.key for each in keys if "Secret" in str(each.field.annotation)}

    assert SECRETS_IN_FILES.keys() == secrets - {"payments.fee_payer_key"}


@pytest.mark.parametrize("key", SECRETS_IN_FILES)
@pytest.mark.parametrize("place", ["environment", "toml"])
def test_a_secret_is_read_from_its_file(
    key: str, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = folder / "secret"
    secret.write_text(f"{SECRETS_IN_FILES[key]}\n")
    secret.chmod(0o400)
    section, _, name = key.rpartition(".")
    if place == "toml":  # the TOML file has no secret then, and may be open to others
        head = f"[{section}]\n" if section else ""
        (folder / "mintscope.toml").write_text(f'{head}{name}_file = "{secret}"\n')
        (folder / "mintscope.toml").chmod(0o644)
    else:
        monkeypatch.setenv(f"MINTSCOPE_{key.replace('.', '__').upper()}_FILE", str(secret))
    loaded = load()
    (setting,) = [each for _, _, group in settings() for each in group if each.key == key]

    assert text_of(setting.value(loaded.config)) == SECRETS_IN_FILES[key]
    assert loaded.origins[key] is Origin.SECRET_FILE
    printed = CliRunner().invoke(app, []).output
    assert f"{key}_file" in printed
    for line in SECRETS_IN_FILES[key].splitlines():
        assert line not in printed


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0o600, "credits.pepper_file: {path} cannot be read: No such file or directory"),
        ("", 0o600, "credits.pepper_file: expected a secret in {path}; it is empty or too long"),
        (PEPPER, 0o644, "closed to other users"),
        ("0" * 64, 0o600, "credits.pepper: expected a secret of your own"),
        ("zz", 0o600, "MINTSCOPE_CREDITS__PEPPER_FILE (environment): expected hexadecimal digits"),
    ],
)
def test_a_file_that_holds_no_secret_is_refused(
    content: str | None, mode: int, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = folder / "secret"
    if content is not None:
        secret.write_text(content)
        secret.chmod(mode)
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER_FILE", str(secret))

    (problem,) = problems()
    assert said.format(path=secret) in problem
    assert not content or content not in problem


def test_a_problem_of_a_secret_file_names_the_setting_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text("hunter2")
    (folder / "mintscope.toml").write_text('[credits]\npepper_file = "secret"\n')
    assert problems() == ("credits.pepper_file (mintscope.toml): expected hexadecimal digits",)
    (folder / "mintscope.toml").write_text("[api]\nport = 99\n")
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER_FILE", "secret")
    assert problems() == (
        "MINTSCOPE_CREDITS__PEPPER_FILE (environment): expected hexadecimal digits",
    )


def test_a_secret_together_with_its_file_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "secret").write_text(PEPPER)
    (folder / "secret").chmod(0o600)
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER", PEPPER)
    monkeypatch.setenv("MINTSCOPE_CREDITS__PEPPER_FILE", str(folder / "secret"))

    assert problems() == ("credits.pepper: expected it or credits.pepper_file; both are set",)
