"""Facts of a mint, read from accounts that are built here from the published layouts.

Mint: github.com/solana-program/token, `Mint::pack_into_slice`.  Extensions: token-2022, type and
length of two bytes each.  Metadata: metaplex-foundation/mpl-token-metadata, `Metadata`, in Borsh.
"""

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.mint_facts import (
    ChainAccount,
    MintFacts,
    NotAMint,
    ScaledUiAmount,
    TokenProgram,
    facts_of,
    metadata_address,
)

USDC = Mint("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
OTHER = Mint("DKu9kykSfbN5LBfFXtNNDPaX35o4Fv6vJ9FKk7pZpump")
METAPLEX = "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s"
MAKER, FREEZER, HOOK, DELEGATE = (str(Pubkey.from_bytes(bytes([n]) * 32)) for n in (1, 2, 3, 4))
NO_ADDRESS = bytes(32)


def key(address: str) -> bytes:
    return bytes(Pubkey.from_string(address))


def u(number: int, size: int) -> bytes:
    return number.to_bytes(size, "little")


def option(address: str | None) -> bytes:
    return u(0, 36) if address is None else u(1, 4) + key(address)


def mint_data(maker: str | None = None, freezer: str | None = None, *, is_set_up: int = 1) -> bytes:
    return option(maker) + u(7_000_123, 8) + u(6, 1) + u(is_set_up, 1) + option(freezer)


def text(value: str, size: int = 0) -> bytes:
    raw = value.encode().ljust(size, b"\0")
    return u(len(raw), 4) + raw


def metaplex(mint: str, name: str, symbol: str, *, kind: int = 4) -> ChainAccount:
    uri_and_fees = text("https://example.org", 200) + u(0, 2) + b"\0\0\1"
    head = u(kind, 1) + key(MAKER) + key(mint)
    data = head + text(name, 32) + text(symbol, 10) + uri_and_fees
    return ChainAccount(owner=METAPLEX, data=data)


def extended(*extensions: tuple[int, bytes], account_type: int = 1) -> bytes:
    tail = b"".join(u(kind, 2) + u(len(value), 2) + value for kind, value in extensions)
    return mint_data(MAKER).ljust(165, b"\0") + u(account_type, 1) + tail


def read(
    data: bytes,
    metadata: ChainAccount | None = None,
    *,
    program: str = TokenProgram.SPL,
    mint: Mint = USDC,
) -> MintFacts:
    account = ChainAccount(owner=program, data=data)
    return facts_of(mint, account, metadata, slot=Slot(9), read_at_ms=UnixMs(5))


def test_the_metadata_address_of_usdc_is_the_known_address() -> None:
    # As every explorer shows it for USDC.
    assert metadata_address(USDC) == "5x38Kp4hvdomTCnCrAny4UtMUt5rQBdB6px2K1Ui45Wq"


def test_facts_have_the_authorities_of_the_mint_and_its_metaplex_name() -> None:
    facts = read(mint_data(MAKER, FREEZER), metaplex(USDC, "USD Coin", "USDC"))

    assert facts == MintFacts(
        slot=Slot(9),
        read_at_ms=UnixMs(5),
        program=TokenProgram.SPL,
        decimals=6,
        supply=7_000_123,
        mint_authority=MAKER,
        freeze_authority=FREEZER,
        name="USD Coin",
        symbol="USDC",
        transfer_fee_bps=None,
        transfer_hook=None,
        permanent_delegate=None,
    )


def test_a_mint_without_authorities_and_without_a_name_has_none() -> None:
    facts = read(mint_data())

    assert (facts.mint_authority, facts.freeze_authority) == (None, None)
    assert (facts.name, facts.symbol) == (None, None)


@pytest.mark.parametrize(
    "metadata",
    [
        metaplex(OTHER, "USD Coin", "USDC"),
        metaplex(USDC, "USD Coin", "USDC", kind=6),
        ChainAccount(owner=str(TokenProgram.SPL), data=metaplex(USDC, "A", "B").data),
        ChainAccount(owner=METAPLEX, data=metaplex(USDC, "A", "B").data[:66]),
        ChainAccount(owner=METAPLEX, data=b""),
    ],
    ids=["of another mint", "an edition", "of another program", "cut off", "empty"],
)
def test_only_valid_metadata_of_this_mint_gives_its_name(metadata: ChainAccount) -> None:
    assert read(mint_data(), metadata).name is None


def test_extensions_are_read_and_the_name_in_the_mint_precedes_metaplex() -> None:
    older, newer = u(1, 8) + u(9, 8) + u(50, 2), u(2, 8) + u(9, 8) + u(125, 2)
    data = extended(
        (1, key(MAKER) + key(MAKER) + u(0, 8) + older + newer),
        (18, key(MAKER) + key(USDC)),
        (12, key(DELEGATE)),
        (14, key(MAKER) + key(HOOK)),
        (19, key(MAKER) + key(USDC) + text("Own name") + text("OWN") + text("uri") + u(0, 4)),
    )
    facts = read(data, metaplex(USDC, "Other", "OTH"), program=TokenProgram.SPL_2022)

    assert facts.program is TokenProgram.SPL_2022
    assert facts.transfer_fee_bps == 125
    assert (facts.transfer_hook, facts.permanent_delegate) == (HOOK, DELEGATE)
    assert (facts.name, facts.symbol) == ("Own name", "OWN")


@pytest.mark.parametrize(
    ("older_bps", "newer_bps", "newer_epoch", "shown_bps"),
    [(9_900, 0, 902, 9_900), (0, 9_900, 902, 9_900), (9_900, 0, 900, 0), (0, 125, 899, 125)],
    ids=["announced to fall", "announced to rise", "fallen", "risen"],
)
def test_the_transfer_fee_is_not_below_the_one_that_applies(
    older_bps: int, newer_bps: int, newer_epoch: int, shown_bps: int
) -> None:
    """An issuer can announce a fee of 0 again in each epoch, and still take the older fee."""
    older = u(898, 8) + u(9, 8) + u(older_bps, 2)
    newer = u(newer_epoch, 8) + u(9, 8) + u(newer_bps, 2)
    account = ChainAccount(
        owner=TokenProgram.SPL_2022,
        data=extended((1, key(MAKER) + key(MAKER) + u(0, 8) + older + newer)),
    )
    in_epoch_900 = Slot(900 * 432_000)

    facts = facts_of(USDC, account, None, slot=in_epoch_900, read_at_ms=UnixMs(5))

    assert facts.transfer_fee_bps == shown_bps


def test_a_mint_whose_transfers_can_be_paused_has_a_pause_authority() -> None:
    paused = extended((26, key(FREEZER) + u(1, 1)))
    renounced = extended((26, NO_ADDRESS + u(0, 1)))

    assert read(paused, program=TokenProgram.SPL_2022).pause_authority == FREEZER
    assert read(renounced, program=TokenProgram.SPL_2022).pause_authority is None


def scaled(multiplier: float, effective_at: int, newer: float) -> bytes:
    """Return the bytes of a ScaledUiAmountConfig: authority, f64, i64, f64."""
    return key(MAKER) + struct.pack("<d", multiplier) + struct.pack("<qd", effective_at, newer)


def read_scaled(value: bytes) -> ScaledUiAmount | None:
    data = extended((25, value), (12, key(DELEGATE)))
    facts = read(data, program=TokenProgram.SPL_2022)
    assert facts.permanent_delegate == DELEGATE
    return facts.scaled_ui_amount


def test_a_multiplier_is_read_with_its_successor() -> None:
    found = read_scaled(scaled(1.5, 1_800_000_000, 3.25))

    assert found == ScaledUiAmount(multiplier=1.5, new_multiplier=3.25, effective_at=1_800_000_000)


def test_a_multiplier_is_read_from_the_bytes_of_the_layout() -> None:
    """The bytes are 2.0, the time -1 and 0.1: 0000000000000040 is 2.0, 9a9999999999b93f is 0.1."""
    value = bytes.fromhex("0000000000000040 ffffffffffffffff 9a9999999999b93f")

    assert read_scaled(NO_ADDRESS + value) == ScaledUiAmount(
        multiplier=2.0, new_multiplier=0.1, effective_at=-1
    )


@pytest.mark.parametrize(
    "value",
    [
        scaled(0.0, 0, 1.0),
        scaled(1.0, 0, -1.0),
        scaled(float("nan"), 0, 1.0),
        scaled(1.0, 0, float("inf")),
        scaled(1.0, 0, 1.0)[:-1],
        b"",
    ],
)
def test_an_invalid_multiplier_is_read_as_none(value: bytes) -> None:
    assert read_scaled(value) is None


@given(
    begins=st.integers(-(2**63), 2**63 - 1) | st.integers(253_402_300_790, 253_402_300_810),
    ago=st.integers(-5, 5),
    both=st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9)),
)
def test_the_newer_multiplier_holds_from_its_second_on(
    begins: int, ago: int, both: tuple[float, float]
) -> None:
    found = read_scaled(scaled(both[0], begins, both[1]))
    assert found is not None
    now = UnixS(begins + ago)

    assert found.at(now) == (both[1] if ago >= 0 else both[0])
    if ago >= 0 or both[0] == both[1] or begins >= 253_402_300_800:
        assert found.announced(now) is None
    else:
        assert found.announced(now) == (both[1], begins)


def test_stored_facts_of_an_earlier_version_have_no_multiplier() -> None:
    kept = msgspec.json.decode(msgspec.json.encode(read(mint_data())))
    assert kept.pop("scaledUiAmount") is None

    assert msgspec.convert(kept, MintFacts) == read(mint_data())


def test_an_extension_with_a_zero_address_is_read_as_none() -> None:
    data = extended((12, NO_ADDRESS), (14, key(MAKER) + NO_ADDRESS))
    facts = read(data, program=TokenProgram.SPL_2022)

    assert (facts.transfer_hook, facts.permanent_delegate) == (None, None)


@pytest.mark.parametrize(
    ("owner", "data", "said"),
    [
        ("11111111111111111111111111111111", b"", "belongs to 1111"),
        (TokenProgram.SPL, bytes(165), "another account of the token program"),
        (TokenProgram.SPL, extended(), "another account of the token program"),
        (TokenProgram.SPL_2022, extended(account_type=2), "another account"),
        (TokenProgram.SPL_2022, extended().ljust(355, b"\0"), "another account"),
        (TokenProgram.SPL, mint_data(is_set_up=0), "never set up"),
    ],
    ids=["wallet", "token account", "extended", "2022 token account", "multisig", "not set up"],
)
def test_an_account_that_is_no_mint_is_refused_in_one_line(
    owner: str, data: bytes, said: str
) -> None:
    with pytest.raises(NotAMint, match=said) as refusal:
        read(data, program=owner)
    assert "\n" not in str(refusal.value)


def test_an_address_without_an_account_is_refused() -> None:
    with pytest.raises(NotAMint, match="no such account"):
        facts_of(USDC, None, None, slot=Slot(1), read_at_ms=UnixMs(1))


def test_a_name_is_cut_to_64_characters() -> None:
    value = key(MAKER) + key(USDC) + text("x" * 500) + text("y" * 500)
    facts = read(extended((19, value)), program=TokenProgram.SPL_2022)

    assert (facts.name, facts.symbol) == ("x" * 64, "y" * 64)


@given(st.binary(max_size=300), st.binary(max_size=120), st.sampled_from(TokenProgram))
def test_any_bytes_are_read_as_a_mint_or_refused(
    tail: bytes, metadata: bytes, program: TokenProgram
) -> None:
    named = ChainAccount(owner=METAPLEX, data=b"\4" + key(MAKER) + key(USDC) + metadata)
    for data in (tail, extended() + tail):
        try:
            facts = read(data, named, program=program)
        except NotAMint:
            continue
        assert facts.decimals <= 255
