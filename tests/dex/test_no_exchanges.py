"""Calls without an exchange, in the forms of real programs, give neither swap nor report.

The calls are built from public layouts: first bytes, order of the transfers, owners of the
accounts.  Each is called directly and by a bot.  The last tests show a known limit: calls that
exchange nothing, but have the same transfers as an exchange.
"""

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.outcome import Decoded, RecognisedBy
from mintscope.dex.programs import TABLE
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL,
    SYSTEM,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    lamports,
    transfer,
    u64,
)

A, B, LP, NFT = (address(f"mint {name}") for name in ("A", "B", "LP", "NFT"))
SAVE = "So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo"
KAMINO = "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD"
MARGINFI = "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA"
JUPITER_LEND = "jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi"
RAYDIUM_FARM = "9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z"
STAKE_POOL = "SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy"
WORMHOLE = "wormDTUJ6AWPNvk59vGQbDvGJmqbDTdgWgAqcLBCgUb"
UNKNOWN = "a program of next year"
SOL = 10**9
RENT = 2_039_280  # of a token account
Row = tuple[str, str, int, str, int]


def anchor(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


def mint_to(mint: str, account: str, amount: int) -> Ix:
    return Ix(SPL, [mint, account, "mint authority"], b"\x07" + u64(amount))


def burn(mint: str, account: str, amount: int) -> Ix:
    return Ix(SPL, [account, mint, USER], b"\x08" + u64(amount))


def give(mint: str, amount: int) -> Ix:
    return transfer(f"user {mint}", f"vault {mint}", amount)


def get(mint: str, amount: int) -> Ix:
    return transfer(f"vault {mint}", f"user {mint}", amount)


@dataclass(frozen=True)
class Case:
    """Program calls that exchange nothing: usually one; several are siblings at the top level."""

    calls: tuple[Ix, ...]

    @classmethod
    def of(cls, program: str, data: bytes, *moved: Ix) -> "Case":
        return cls((Ix(program, ["x", USER], data, list(moved)),))

    def tx(self, caller: str | None) -> Tx:
        calls = list(self.calls)
        tx = Tx(*calls) if caller is None else Tx(Ix(caller, [USER], b"\x01", calls))
        for mint in (A, B, LP):
            tx.holds(f"user {mint}", mint, USER).holds(f"vault {mint}", mint, "authority")
            tx.holds(f"friend {mint}", mint, "friend")
            tx.holds(f"other {mint}", mint, "another authority")
        return tx.holds(f"user {NFT}", NFT, USER, 0).holds(f"vault {NFT}", NFT, "authority", 0)


CASES = {
    # Lending.  Save numbers its instructions; Kamino and marginfi are made with Anchor.
    "a deposit with its receipt": Case.of(
        SAVE, b"\x04" + u64(9), give(A, 9), mint_to(LP, f"user {LP}", 8)
    ),
    "a redemption": Case.of(SAVE, b"\x05" + u64(8), burn(LP, f"user {LP}", 8), get(A, 9)),
    "a loan with its fee": Case.of(
        SAVE, b"\x0a" + u64(9), get(B, 9), transfer(f"vault {B}", f"other {B}", 1)
    ),
    "a repayment": Case.of(SAVE, b"\x0b" + u64(9), give(B, 9)),
    "a liquidation": Case.of(SAVE, b"\x0c" + u64(9), give(B, 9), get(A, 10)),
    "a liquidation with redemption": Case.of(
        SAVE, b"\x11" + u64(9), give(B, 9), get(LP, 8), burn(LP, f"user {LP}", 8), get(A, 10)
    ),
    "a liquidation at Kamino": Case.of(
        KAMINO,
        anchor("liquidate_obligation_and_redeem_reserve_collateral_v2"),
        give(B, 9),
        get(A, 10),
    ),
    "a liquidation by an instruction of next year": Case.of(
        KAMINO, anchor("next"), give(B, 9), get(A, 10)
    ),
    "a liquidation at marginfi": Case.of(
        MARGINFI, anchor("lending_account_liquidate"), give(B, 9), get(A, 10)
    ),
    "collateral and its loan in one": Case.of(
        JUPITER_LEND, anchor("operate"), give(A, 9), get(B, 5)
    ),
    "a loan repaid and its collateral back": Case.of(
        UNKNOWN, anchor("repay_and_withdraw"), give(B, 5), get(A, 9)
    ),
    # Perpetuals: the collateral goes in, and comes back with the gain.
    "a position is opened": Case.of(
        UNKNOWN, anchor("open_position"), give(A, 9), lamports(USER, "keeper", SOL)
    ),
    "a position is increased": Case.of(UNKNOWN, anchor("increase_position"), give(A, 9)),
    "a position is closed": Case.of(
        UNKNOWN, anchor("decrease_position"), get(A, 12), transfer(f"vault {A}", f"other {A}", 1)
    ),
    "collateral for other collateral": Case.of(
        UNKNOWN, anchor("increase_position"), give(A, 9), get(B, 1)
    ),
    # Bridges.
    "a lock": Case.of(WORMHOLE, b"\x05" + bytes(20), give(A, 9), lamports(USER, "fee", SOL)),
    "a burn": Case.of(
        WORMHOLE, b"\x04" + bytes(20), burn(A, f"user {A}", 9), lamports(USER, "fee", SOL)
    ),
    "a mint": Case.of(WORMHOLE, b"\x03", mint_to(A, f"user {A}", 9), mint_to(A, f"other {A}", 1)),
    "a release": Case.of(WORMHOLE, b"\x02", get(A, 9), transfer(f"vault {A}", f"other {A}", 1)),
    "one wrapped form for another": Case.of(UNKNOWN, b"\x09", burn(A, f"user {A}", 9), get(B, 9)),
    "native for wrapped": Case.of(UNKNOWN, b"\x09", give(A, 9), mint_to(B, f"user {B}", 9)),
    # Flash loans.
    "a flash loan": Case(
        (
            Ix(SAVE, ["x", USER], b"\x13" + u64(100), [get(A, 100)]),
            Ix(SAVE, ["x", USER], b"\x14" + u64(100), [give(A, 101)]),
        )
    ),
    "a flash loan with a callback": Case.of(
        UNKNOWN, b"\x01", get(A, 100), Ix("borrower", ["x"], b"\x02", [give(A, 101)])
    ),
    "a flash loan of two mints": Case.of(
        UNKNOWN, b"\x01", get(A, 100), get(B, 50), give(A, 101), give(B, 51)
    ),
    # Farms and stakes.
    "a stake that pays its reward": Case.of(UNKNOWN, anchor("deposit"), give(LP, 9), get(B, 3)),
    "a farm without names that pays its reward": Case.of(
        RAYDIUM_FARM, b"\x0b" + u64(9), give(LP, 9), get(B, 3)
    ),
    "a stake back with its reward": Case.of(UNKNOWN, b"\x02", get(LP, 9), get(B, 3)),
    "a stake with a receipt": Case.of(UNKNOWN, b"\x02", give(A, 9), mint_to(LP, f"user {LP}", 9)),
    "SOL into a stake pool": Case.of(
        STAKE_POOL,
        b"\x0e" + u64(9),
        lamports(USER, "reserve", SOL),
        mint_to(LP, f"user {LP}", 8),
        mint_to(LP, f"other {LP}", 1),
    ),
    "SOL out of a stake pool": Case.of(
        STAKE_POOL,
        b"\x10" + u64(9),
        transfer(f"user {LP}", f"other {LP}", 1),
        burn(LP, f"user {LP}", 8),
        lamports("reserve", USER, SOL),
    ),
    # NFTs.
    "an NFT for lamports": Case.of(UNKNOWN, b"\x02", lamports(USER, "seller", SOL), get(NFT, 1)),
    "an NFT for tokens of its seller": Case.of(
        UNKNOWN, b"\x02", transfer(f"user {A}", f"friend {A}", 9), get(NFT, 1)
    ),
    "an NFT out of a pool": Case.of(UNKNOWN, b"\x02", give(A, 9), get(NFT, 1)),
    "an NFT into a pool": Case.of(UNKNOWN, b"\x02", give(NFT, 1), get(A, 9)),
    "an NFT sold for lamports": Case.of(
        UNKNOWN, b"\x02", give(NFT, 1), lamports("escrow", USER, SOL)
    ),
    "an NFT minted for lamports": Case.of(
        UNKNOWN, b"\x02", lamports(USER, "treasury", SOL), mint_to(NFT, f"user {NFT}", 1)
    ),
    # Airdrops, migrations, orders, payments.
    "an airdrop that opens an account": Case.of(
        UNKNOWN,
        b"\x02",
        Ix(SYSTEM, [USER, f"user {A}"], bytes(4) + u64(RENT, 165) + bytes(32)),
        get(A, 9),
    ),
    "an airdrop that tops up an account's rent": Case.of(
        UNKNOWN, b"\x02", lamports(USER, f"user {A}", RENT), get(A, 9)
    ),
    "an airdrop for a fee": Case.of(
        UNKNOWN, b"\x02", lamports(USER, "treasury", SOL // 100), get(A, 9)
    ),
    "a presale for lamports": Case.of(UNKNOWN, b"\x02", lamports(USER, "treasury", SOL)),
    "a presale for lamports, claimed": Case.of(UNKNOWN, b"\x02", get(A, 9)),
    "a position in native SOL, closed": Case.of(
        UNKNOWN, anchor("close_position"), lamports("vault", USER, SOL), give(A, 9)
    ),
    "liquidity in native SOL": Case.of(
        UNKNOWN, b"\x02", give(A, 9), lamports(USER, "vault", SOL), mint_to(LP, f"user {LP}", 5)
    ),
    "liquidity in native SOL, back": Case.of(
        UNKNOWN, b"\x02", burn(LP, f"user {LP}", 5), get(A, 9), lamports("vault", USER, SOL)
    ),
    "liquidity in native SOL, without shares": Case.of(
        UNKNOWN, b"\x02", give(A, 9), lamports(USER, "vault", SOL)
    ),
    "an airdrop of two mints": Case.of(UNKNOWN, b"\x02", get(A, 9), get(B, 3)),
    "an airdrop to many": Case.of(
        UNKNOWN, b"\x02", get(A, 9), transfer(f"vault {A}", f"friend {A}", 9)
    ),
    "a migration that burns": Case.of(UNKNOWN, b"\x02", burn(A, f"user {A}", 9), get(B, 9)),
    "a migration that mints": Case.of(UNKNOWN, b"\x02", give(A, 9), mint_to(B, f"user {B}", 9)),
    "a migration by its name": Case.of(UNKNOWN, anchor("migrate"), give(A, 9), get(B, 9)),
    "a pool that moves": Case.of(
        UNKNOWN,
        b"\x02",
        transfer(f"vault {A}", f"other {A}", 9),
        transfer(f"vault {B}", f"other {B}", 4),
    ),
    "an order": Case.of(UNKNOWN, b"\x02", give(A, 9)),
    "an order replaced by one of the other side": Case.of(
        UNKNOWN, anchor("cancel_all_and_place_orders"), get(A, 9), give(B, 4)
    ),
    "a share of a presale, kept for its buyer": Case.of(
        UNKNOWN,
        b"\x02",
        give(A, 9),
        transfer(f"user {A}", f"other {A}", 1),
        transfer(f"vault {B}", f"other {B}", 4),
    ),
    "a deposit that gives back what was earned": Case.of(
        UNKNOWN, b"\x02", give(A, 9), get(B, 1), mint_to(LP, f"user {LP}", 6)
    ),
    "a withdrawal that takes the rest of the other mint": Case.of(
        UNKNOWN, b"\x02", burn(LP, f"user {LP}", 6), get(A, 9), give(B, 1)
    ),
    "a payment with its change": Case.of(UNKNOWN, b"\x02", give(A, 9), get(A, 2)),
    "a payment in two mints": Case.of(UNKNOWN, b"\x02", give(A, 9), give(B, 2)),
    "a deposit for which others get shares": Case.of(
        UNKNOWN, b"\x02", give(A, 9), give(B, 4), mint_to(LP, f"other {LP}", 6)
    ),
}
CALLERS = pytest.mark.parametrize("caller", [None, "a bot"], ids=["directly", "by a bot"])


NOTHING: Final[tuple[list[object], ...]] = ([], [], [], [])


def decode(case: Case, caller: str | None = None) -> Decoded:
    return decode_transaction(case.tx(caller).raw(), 0)


@CALLERS
def test_calls_without_an_exchange_give_neither_swap_nor_report(caller: str | None) -> None:
    read = {name: decode(case, caller) for name, case in CASES.items()}

    assert {name: decoded for name, decoded in read.items() if decoded != NOTHING} == {}


def test_a_swap_beside_a_call_without_an_exchange_is_read() -> None:
    read = {name: rows(beside_a_swap(case)) for name, case in CASES.items()}
    swap = (address("amm"), A, 5, B, 7)

    assert {name: found for name, found in read.items() if found != [swap]} == {}


def beside_a_swap(other: Case) -> Decoded:
    exchange = Ix(
        "amm", ["x"], b"\x07", [transfer("user 1", "pool 1", 5), transfer("pool 2", "user 2", 7)]
    )
    case = Case((*other.calls, exchange))
    tx = case.tx(None).holds("user 1", A, USER).holds("user 2", B, USER)
    tx.holds("pool 1", A, "amm owner").holds("pool 2", B, "amm owner")
    return decode_transaction(tx.raw(), 0)


def rows(decoded: Decoded) -> list[Row]:
    return [(s.program, s.in_mint, s.in_amount, s.out_mint, s.out_amount) for s in decoded.swaps]


AMOUNTS = st.integers(1, 2**40)


@given(
    program=st.sampled_from([UNKNOWN, *(p.address for p in TABLE if b"" in p.swaps)]),
    amounts=st.tuples(AMOUNTS, AMOUNTS), fees=st.none() | st.tuples(AMOUNTS, AMOUNTS),
    shares=st.sampled_from(["user", "other", "friend", None]), is_added=st.booleans(),
)  # fmt: skip
def test_liquidity_in_both_mints_is_never_a_swap(
    program: str,
    amounts: tuple[int, int],
    fees: tuple[int, int] | None,
    shares: str | None,
    *,
    is_added: bool,
) -> None:
    """This holds for any owner of the shares, and also if the call pays out earned fees.

    Fees that are paid out at a deposit are smaller than the deposit: both mints still move in.
    """
    gained, other = amounts
    move = give if is_added else get
    moved = [move(A, gained), move(B, other)]
    if fees is not None:
        moved += [get(A, min(fees[0], gained - 1) if is_added else fees[0])]
        moved += [get(B, min(fees[1], other - 1) if is_added else fees[1])]
    if shares is not None:
        account = f"{shares} {LP}"
        moved.append(mint_to(LP, account, 5) if is_added else burn(LP, account, 5))
    decoded = decode(Case.of(program, b"\xf0", *moved))

    assert decoded.swaps == []


LISTED = {program.name: program for program in TABLE if b"" in program.swaps}
"""The venues of which any instruction may be a swap."""
# Only program or first bytes show that these are no swaps, and no venue makes them.
OF_OTHERS = {
    "a liquidation",
    "a liquidation by an instruction of next year",
    "a farm without names that pays its reward",
    "a share of a presale, kept for its buyer",
}
OF_NAMES = {
    name: case
    for name, case in CASES.items()
    if name not in OF_OTHERS and len({call.program for call in case.calls}) == 1
}


def of_program(case: Case, address: str) -> Case:
    """Return *case* as calls of the program at *address*, with first bytes of no known layout."""
    heads = (call.data if len(call.data) == 8 else b"\xf0" + call.data[1:] for call in case.calls)
    calls = zip(case.calls, heads, strict=True)
    return Case(tuple(replace(call, program=address, data=data) for call, data in calls))


@pytest.mark.parametrize("caller", [None, "a bot", JUPITER], ids=["directly", "by a bot", "routed"])
def test_calls_without_an_exchange_of_a_listed_venue_give_no_swap(caller: str | None) -> None:
    read = {
        (name, what): decode(of_program(case, program.address), caller)
        for name, program in LISTED.items()
        for what, case in OF_NAMES.items()
    }

    assert {what: decoded for what, decoded in read.items() if decoded != NOTHING} == {}


@pytest.mark.parametrize("word", ["operate", "deposit_and_stake", "open_position", "claim"])
def test_a_venue_instruction_named_like_a_deposit_or_claim_is_no_swap(word: str) -> None:
    """The transfers are those of a deposit with a reward, or of collateral with its loan."""
    asked = {*LISTED, "jupiter_lend"}
    addresses = {program.name: program.address for program in TABLE if program.name in asked}
    read = {
        name: decode(Case.of(program, anchor(word), give(A, 9), get(B, 4)))
        for name, program in addresses.items()
    }

    assert read.keys() == asked
    assert {name: decoded for name, decoded in read.items() if decoded != NOTHING} == {}


@pytest.mark.parametrize("paid_to", ["friend", "other"])
@CALLERS
def test_an_exchange_is_read_if_it_pays_another_account_than_the_signers(
    paid_to: str, caller: str | None
) -> None:
    case = Case.of(UNKNOWN, b"\x02", give(A, 9), transfer(f"vault {B}", f"{paid_to} {B}", 4))
    decoded = decode(case, caller)

    assert rows(decoded) == [(address(UNKNOWN), A, 9, B, 4)]
    assert (decoded.swaps[0].signer, decoded.quarantined) == (address(USER), [])
    assert decoded.swaps[0].recognised_by is RecognisedBy.TRANSFERS


def test_an_exchange_paid_from_an_account_of_a_router_is_read() -> None:
    """In the last hop of a route, the router pays the pool, and the pool pays the user."""
    case = Case.of(UNKNOWN, b"\x02", transfer(f"other {A}", f"vault {A}", 9), get(B, 4))

    assert rows(decode(case)) == [(address(UNKNOWN), A, 9, B, 4)]


def test_a_payment_to_an_owner_who_pays_several_accounts_is_no_swap() -> None:
    """The owner may pay wages: the transfers do not show which parties exchanged."""
    many = transfer(f"vault {B}", f"other {B}", 4)
    case = Case.of(UNKNOWN, b"\x02", give(A, 9), transfer(f"vault {B}", f"friend {B}", 4), many)

    assert decode(case) == ([], [], [], [])


TESSERA = "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH"
ROUTED = [transfer(f"other {A}", f"vault {A}", 9), transfer(f"vault {B}", f"friend {B}", 4)]
TRADERS = {
    "the signer, paid out to another": [give(A, 9), transfer(f"vault {B}", f"friend {B}", 4)],
    "another, paid out to the signer": [transfer(f"friend {A}", f"vault {A}", 9), get(B, 4)],
    "a router, paid out to another": ROUTED,
    "the pool pays first": [transfer(f"vault {B}", f"friend {B}", 4), give(A, 9)],
}


@pytest.mark.parametrize("who", TRADERS)
def test_the_direction_of_a_swap_is_known_if_only_the_vault_owner_exchanged(who: str) -> None:
    """The vault owner is no account of the call; no other owner gave one token and got another."""
    case = Case.of(TESSERA, b"\x10" + bytes(17), *TRADERS[who])

    assert rows(decode(case)) == [("tessera", A, 9, B, 4)]


def test_a_router_that_trades_with_two_owners_is_no_pool() -> None:
    """The router pays first; each vault has another owner, so only the router exchanged."""
    moved = [transfer("router a", f"vault {A}", 9), transfer(f"other {B}", "router b", 4)]
    tx = Case.of(TESSERA, b"\x10" + bytes(17), *moved).tx(None)
    tx.holds("router a", A, "router").holds("router b", B, "router")

    assert rows(decode_transaction(tx.raw(), 0)) == [("tessera", A, 9, B, 4)]


LIMITS = {
    "a liquidation of a program that is not known": Case.of(
        UNKNOWN, b"\x0c", give(A, 9), get(B, 10)
    ),
    "collateral and its loan, without a name": Case.of(UNKNOWN, b"\x0d", give(A, 9), get(B, 10)),
    "a farm that pays its reward, without a name": Case.of(
        UNKNOWN, b"\x0b", give(A, 9), get(B, 10)
    ),
    "a migration out of a vault, without a name": Case.of(UNKNOWN, b"\x02", give(A, 9), get(B, 10)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_known_limits_count_as_recognised_by_transfers(name: str) -> None:
    """Such calls add volume and are marked, but their pools alone set no price (decision 56)."""
    decoded = decode(LIMITS[name])

    assert rows(decoded) == [(address(UNKNOWN), A, 9, B, 10)]
    assert decoded.swaps[0].recognised_by is RecognisedBy.TRANSFERS
    assert len(decoded.unlisted) == 1


@pytest.mark.parametrize("program", [SAVE, KAMINO, RAYDIUM_FARM])
def test_lenders_and_farms_below_a_router_give_no_swap(program: str) -> None:
    """A call below a router needs less evidence to be a swap; lenders and farms never are."""
    lender = Ix(program, ["x"], b"\x0c", [give(A, 9), get(B, 10)])
    routed = Case((Ix(JUPITER, [USER], bytes(8), [Ix("a bot", ["x"], b"\x01", [lender])]),))
    straight = Case((Ix(JUPITER, [USER], bytes(8), [lender]),))

    assert decode(routed) == decode(straight) == ([], [], [], [])


def test_a_flash_loan_of_a_listed_program_that_calls_a_program_of_the_borrower() -> None:
    """The transfers of the called program would otherwise count as a swap of the lender."""
    called = Ix(
        "program of the borrower",
        [USER, "its account"],
        bytes(8),
        [transfer("user A", "its A", 1_000_000), transfer("its SOL", "user SOL", 100 * SOL)],
    )
    loan = Ix(
        "omnixgS8fnqHfCcTGKWj6JtKjzpJZ1Y5y9pyFkQDkYE",
        ["pair", USER, "program of the borrower"],
        anchor("flashloan") + u64(1, 0),
        [transfer("pair A", "user A", 1), called, transfer("user A", "pair A", 1)],
    )
    tx = Tx(loan).holds("user A", A, USER).holds("its A", A, "its account", after=10**12)
    tx.holds("its SOL", WSOL, "its account", 9, before=1_100 * SOL, after=1_000 * SOL)
    tx.holds("user SOL", WSOL, USER, 9, after=100 * SOL).holds("pair A", A, "pair", after=5)

    assert decode_transaction(tx.raw(), 0) == Decoded([], [], [], [])
