"""Exchanges of unlisted programs that are not read, but reported with the program's address.

The transactions have the forms of launchpads in native SOL, of markets whose vault program moves
the tokens, and of routers that fill a part of an order themselves.  They give no swap.
"""

import json
from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded, Moved, QuarantineReason
from mintscope.solana.transaction import Effects, Transaction
from mintscope.solana.wire import read_transaction
from mintscope.solana.yellowstone.transactions import read_info
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_transaction
from support.scenes.made_transactions import (
    JUPITER,
    SPL,
    SYSTEM,
    USDC,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    b58,
    batch,
    lamports,
    transfer,
    u64,
)

A, B, C, LP = (address(f"mint {name}") for name in ("A", "B", "C", "LP"))
SOL = 10**9
LAUNCHPAD, VAULTS, MARKET = "a launchpad", "a vault program", "a market"
BLOOM = "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1"
Reported = tuple[str, str, Moved | None]


def anchor(name: str) -> bytes:
    return sha256(f"global:{name}".encode()).digest()[:8]


def decode(tx: Tx) -> Decoded:
    return decode_transaction(tx.raw(), 0)


def answered(decoded: Decoded) -> list[Reported]:
    """Return the calls reported as not read, as (program, reason, amount); no swap may be found."""
    assert (decoded.swaps, decoded.unlisted) == ([], [])
    return [(one.program, one.reason, one.moved) for one in decoded.quarantined]


def reported(program: str, moved: Moved | None) -> list[Reported]:
    return [(address(program), "unknown_exchange", moved)]


CALLERS = pytest.mark.parametrize("callers", [[], ["a bot"], ["a bot", "its helper"]])


def called(callers: list[str], *calls: Ix) -> list[Ix]:
    """Return *calls* as made below *callers*: the first calls the second, and so on."""
    within = list(calls)
    for caller in reversed(callers):
        within = [Ix(caller, [USER], b"\x01", within)]
    return within


# --- for lamports ----------------------------------------------------------------------------


def launchpad(data: bytes, *moved: Ix) -> Ix:
    accounts = [USER, "user a", "curve", "vault a", "global", SPL, SYSTEM]
    return Ix(LAUNCHPAD, accounts, data + u64(700), list(moved))


def traded(callers: list[str], call: Ix, *, curve: tuple[int, int], user: tuple[int, int]) -> Tx:
    """Return a transaction that calls a curve, with token balances of only one mint.

    curve, user   the lamports of the curve, or user, before and after the transaction
    """
    tx = Tx(*called(callers, call)).holds("user a", A, USER).holds("vault a", A, "authority")
    return tx.with_lamports("curve", *curve).with_lamports(USER, *user)


BOUGHT = [
    lamports(USER, "curve", SOL),
    lamports(USER, "fees", SOL // 100),
    transfer("vault a", "user a", 700),
]
SOLD = transfer("user a", "vault a", 700)


@CALLERS
@pytest.mark.parametrize("data", [b"\x02", anchor("buy"), anchor("launch_of_next_year")])
def test_a_purchase_for_lamports_is_reported(callers: list[str], data: bytes) -> None:
    call = launchpad(data, *BOUGHT)
    tx = traded(callers, call, curve=(SOL, 2 * SOL), user=(5 * SOL, 3 * SOL))

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


@CALLERS
@pytest.mark.parametrize("data", [b"\x03", anchor("sell")])
def test_a_sale_paid_by_a_transfer_is_reported(callers: list[str], data: bytes) -> None:
    call = launchpad(data, SOLD, lamports("curve", USER, SOL))
    tx = traded(callers, call, curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL))

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


@CALLERS
def test_a_sale_that_only_the_balances_show_is_reported(callers: list[str]) -> None:
    """The program owns its curve, and takes lamports out of it without an instruction."""
    tx = traded(
        callers, launchpad(b"\x03", SOLD), curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL - 5_000)
    )

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


def test_the_balances_of_lamports_are_read_once() -> None:
    """A second read would parse the transaction again."""
    call = launchpad(b"\x03", SOLD)
    tx = traded([], call, curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL - 5_000))
    transaction = read_transaction(tx.raw(), 0)
    assert isinstance(transaction, Transaction)
    effects = transaction.read_effects()
    reads: list[None] = []

    def read() -> Effects:
        reads.append(None)
        return effects

    transaction.read_effects = read

    assert answered(decode_block([transaction])) == reported(LAUNCHPAD, Moved(WSOL, SOL))
    assert len(reads) == 1


def test_two_sales_out_of_one_curve_are_reported_without_an_amount() -> None:
    """The balances show only the sum of both amounts."""
    tx = traded([], launchpad(b"\x03", SOLD), curve=(3 * SOL, SOL), user=(5 * SOL, 7 * SOL))
    tx.calls.append(launchpad(b"\x03", SOLD))

    assert answered(decode(tx)) == reported(LAUNCHPAD, None) * 2


def test_a_sale_from_an_account_that_is_in_no_balance_is_reported() -> None:
    """The account's mint and owner appear only in the instruction that opens it."""
    call = launchpad(b"\x03", SOLD, lamports("curve", USER, SOL))
    tx = Tx(call).holds("vault a", A, "authority", after=700)
    opened = Ix(SPL, ["user a", A, USER], b"\x01")
    tx.calls.insert(0, opened)

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


def test_a_purchase_in_a_batch_of_the_token_program_is_reported() -> None:
    call = launchpad(b"\x02", BOUGHT[0], batch(BOUGHT[2]))
    tx = traded([], call, curve=(SOL, 2 * SOL), user=(5 * SOL, 4 * SOL))

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


def test_a_purchase_whose_lamports_are_wrapped_in_the_vault_is_reported() -> None:
    wrap = [lamports(USER, "vault sol", SOL), Ix(SPL, ["vault sol"], b"\x11"), BOUGHT[2]]
    tx = traded([], launchpad(b"\x02", *wrap), curve=(1, 1), user=(5 * SOL, 4 * SOL))
    tx.holds("vault sol", WSOL, "authority")

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


def test_a_bot_whose_account_traded_with_the_launchpad_is_reported() -> None:
    """Only the transfers of the bot and of the launchpad together show that a signer exchanged."""
    through = launchpad(
        b"\x02", lamports("bot's", "curve", SOL), transfer("vault a", "bot's a", 700)
    )
    calls = [lamports(USER, "bot's", SOL), through, transfer("bot's a", "user a", 700)]
    tx = Tx(Ix("a bot", [USER], b"\x01", calls)).holds("user a", A, USER)
    tx.holds("vault a", A, "authority").holds("bot's a", A, "bot's")

    assert answered(decode(tx)) == reported("a bot", Moved(WSOL, SOL))


@pytest.mark.parametrize("name", ["buy", "sell", "swap"])
@pytest.mark.parametrize("amount", [1, 50_000])
def test_an_instruction_named_like_a_trade_is_reported_for_any_amount(
    name: str, amount: int
) -> None:
    is_buy = name != "sell"
    moved = [lamports(USER, "curve", amount) if is_buy else lamports("curve", USER, amount)]
    moved.append(BOUGHT[2] if is_buy else SOLD)
    tx = traded([], launchpad(anchor(name), *moved), curve=(1, 1), user=(1, 1))

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, amount))


CREATE = Ix(SYSTEM, [USER, "user a"], b"\0\0\0\0" + u64(2_039_280, 165) + bytes(32))
ALLOCATE = Ix(SYSTEM, ["state"], b"\x08\0\0\0" + u64(9_000))
GOT = BOUGHT[2]
FOR_NO_LAMPORTS = {
    "a claim that opens an account": [CREATE, GOT],
    "a claim that tops up the rent of an account": [lamports(USER, "user a", 2_039_280), GOT],
    "a claim that pays the rent of much data": [lamports(USER, "state", 60_000_000), ALLOCATE, GOT],
    "a claim with a fee": [lamports(USER, "fees", 10_000_000), GOT],
    "a stake with a fee": [lamports(USER, "fees", SOL), SOLD],
    "an unstake that gives back what was locked": [lamports("curve", USER, SOL), GOT],
    "lamports alone": [lamports(USER, "curve", SOL)],
    "tokens alone": [GOT],
    "tokens that are made": [
        lamports(USER, "curve", SOL),
        Ix(SPL, [A, "user a", "authority"], b"\x07" + u64(9)),
    ],
    "tokens beside shares": [*BOUGHT, Ix(SPL, [LP, "user lp", "authority"], b"\x07" + u64(9))],
    "tokens that are destroyed": [
        lamports("curve", USER, SOL),
        Ix(SPL, ["user a", A, USER], b"\x08" + u64(9)),
    ],
    "a loan on tokens, by its name": [],
}


@CALLERS
@pytest.mark.parametrize("name", FOR_NO_LAMPORTS)
def test_rent_fees_and_shares_are_not_reported(name: str, callers: list[str]) -> None:
    call = launchpad(b"\x02", *FOR_NO_LAMPORTS[name])
    if not call.calls:
        call = launchpad(anchor("borrow"), SOLD, lamports("curve", USER, SOL))
    tx = traded(callers, call, curve=(2 * SOL, 2 * SOL), user=(5 * SOL, 4 * SOL))

    assert decode(tx) == ([], [], [], [])


def test_an_nft_for_lamports_is_not_reported() -> None:
    call = launchpad(b"\x02", lamports(USER, "seller", SOL), transfer("vault a", "user a", 1))
    tx = Tx(call).holds("user a", A, USER, 0).holds("vault a", A, "authority", 0)

    assert decode(tx) == ([], [], [], [])


@pytest.mark.parametrize(
    ("curve", "user"),
    [
        ((SOL, 0), (5 * SOL, 6 * SOL)),  # closed: its rent came back
        ((SOL, SOL - 2_000_000), (5 * SOL, 5 * SOL + 2_000_000)),  # rent of a smaller account
        ((2 * SOL, SOL), (5 * SOL, 5 * SOL - 5_000)),  # another account got it
    ],
    ids=["closed", "little", "to another"],
)
def test_tokens_are_no_sale_if_the_lamports_left_the_curve_for_other_reasons(
    curve: tuple[int, int], user: tuple[int, int]
) -> None:
    assert decode(traded([], launchpad(b"\x03", SOLD), curve=curve, user=user)) == ([], [], [], [])


def test_tokens_are_no_sale_if_a_transfer_explains_the_lost_lamports() -> None:
    """Another call of the transaction transfers the lamports, for example to pay a keeper."""
    tx = traded([], launchpad(b"\x03", SOLD), curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL))
    tx.calls.append(lamports("curve", USER, SOL))

    assert decode(tx) == ([], [], [], [])


@pytest.mark.parametrize("router", [JUPITER, BLOOM])
def test_a_venue_in_lamports_below_a_router_is_read(router: str) -> None:
    """It is read below a router in the table of programs, and below another known router."""
    call = launchpad(b"\x02", *BOUGHT)
    tx = traded([router], call, curve=(SOL, 2 * SOL), user=(5 * SOL, 4 * SOL))
    tx.holds("vault a", A, "curve")
    decoded = decode(tx)

    (swap,) = decoded.swaps
    assert (swap.program, swap.in_mint, swap.in_amount) == (address(LAUNCHPAD), WSOL, SOL)
    assert (swap.out_mint, swap.out_amount) == (A, 700)
    assert decoded.quarantined == []


@pytest.mark.parametrize("router", [JUPITER, BLOOM])
def test_a_sale_below_a_router_that_only_the_balances_show_is_reported(router: str) -> None:
    call = launchpad(b"\x03", SOLD)
    tx = traded([router], call, curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL - 5_000))

    assert answered(decode(tx)) == reported(LAUNCHPAD, Moved(WSOL, SOL))


# --- through others --------------------------------------------------------------------------

PAID = transfer("user dollars", "vault dollars", 9_000)
GAVE = transfer("vault a", "user a", 700)


def market(*calls: Ix, data: bytes = b"\x05") -> Ix:
    return Ix(MARKET, [USER, "user dollars", "user a", "state"], data, list(calls))


def vault(moved: Ix, data: bytes) -> Ix:
    return Ix(VAULTS, ["x"], data, [moved])


def in_vaults(*calls: Ix, owners: tuple[str, str] = ("one", "other")) -> Tx:
    tx = Tx(*calls).holds("user dollars", USDC, USER).holds("user a", A, USER)
    return tx.holds("vault dollars", USDC, owners[0]).holds("vault a", A, owners[1])


THROUGH = {
    "a call for each side": market(vault(PAID, b"\x01"), vault(GAVE, b"\x02")),
    "the program takes, its vaults give": market(PAID, vault(GAVE, b"\x02")),
    "the program gives, its vaults take": market(vault(PAID, b"\x02"), GAVE),
    "by its name": market(
        vault(PAID, anchor("deposit")), vault(GAVE, anchor("withdraw")), data=anchor("swap")
    ),
    "in a batch": market(vault(batch(PAID), b"\x01"), vault(batch(GAVE), b"\x02")),
}


@CALLERS
@pytest.mark.parametrize("name", THROUGH)
def test_a_program_whose_vault_program_moves_the_tokens_is_reported(
    name: str, callers: list[str]
) -> None:
    decoded = decode(in_vaults(*called(callers, THROUGH[name])))

    assert answered(decoded) == reported(MARKET, Moved(USDC, 9_000))


NOT_THROUGH = {
    "a withdrawal here and a deposit there": market(
        Ix("a lender", ["x"], b"\x01", [GAVE]), Ix("another", ["x"], b"\x02", [PAID])
    ),
    "a loan and its collateral": market(
        vault(PAID, anchor("deposit_collateral")), vault(GAVE, anchor("borrow"))
    ),
    "one side alone": market(vault(PAID, b"\x01")),
    "both the same way": market(vault(PAID, b"\x01"), vault(SOLD, b"\x01")),
    "with shares": market(
        vault(PAID, b"\x01"),
        vault(GAVE, b"\x02"),
        Ix(SPL, [LP, "user lp", "authority"], b"\x07" + u64(9)),
    ),
}


@CALLERS
@pytest.mark.parametrize("name", NOT_THROUGH)
def test_transfers_of_other_programs_are_no_exchange_of_their_caller(
    name: str, callers: list[str]
) -> None:
    tx = in_vaults(*called(callers, NOT_THROUGH[name])).holds("user lp", LP, USER)

    assert decode(tx) == ([], [], [], [])


# --- beside others ---------------------------------------------------------------------------

VENUE = "a venue"


def hop(source: tuple[str, int], target: tuple[str, int]) -> Ix:
    """Return a swap call in which *source* pays pool a, and pool b pays *target*.

    source, target   an account, and the amount that it pays or gets
    """
    moved = [transfer(source[0], "pool a", source[1]), transfer("pool b", target[0], target[1])]
    return Ix(VENUE, ["x"], b"\x07", moved)


def routed(*moved: Ix) -> Tx:
    tx = Tx(Ix("a router", [USER, "own a", "own b"], b"\x01", list(moved)))
    for mint, name in ((A, "a"), (B, "b"), (C, "c")):
        tx.holds(f"user {name}", mint, USER).holds(f"own {name}", mint, "its authority")
        tx.holds(f"pool {name}", mint, "pool")
    return tx


def programs(decoded: Decoded) -> tuple[list[str], list[str]]:
    return [s.program for s in decoded.swaps], [q.program for q in decoded.quarantined]


TAKEN, GIVEN = transfer("user a", "own a", 900), transfer("own b", "user b", 500)
BESIDE = {
    "all of it, and the venue trades for another": [
        TAKEN,
        hop(("maker a", 5), ("maker b", 3)),
        GIVEN,
    ],
    "half of it": [TAKEN, hop(("own a", 450), ("own b", 250)), GIVEN],
    "the second hop": [
        TAKEN,
        Ix(
            VENUE,
            ["x"],
            b"\x07",
            [transfer("own a", "pool a", 800), transfer("pool c", "own c", 7)],
        ),
        GIVEN,
    ],
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_program_that_exchanges_beside_the_venue_that_it_calls_is_reported(name: str) -> None:
    tx = routed(*BESIDE[name]).holds("maker a", A, "maker").holds("maker b", B, "maker")
    decoded = decode(tx)

    assert programs(decoded) == ([address(VENUE)], [address("a router")])
    assert decoded.quarantined[0].reason == "unknown_exchange"


PASSED_ON = {
    "through its accounts": [TAKEN, hop(("own a", 900), ("own b", 500)), GIVEN],
    "with a fee of what came": [TAKEN, hop(("own a", 850), ("own b", 500)), GIVEN],
    "with a fee of what went": [TAKEN, hop(("own a", 900), ("own b", 550)), GIVEN],
    "with a little of its own": [TAKEN, hop(("own a", 890), ("own b", 490)), GIVEN],
    "below a router of the table, which holds them on the way": [
        TAKEN,
        Ix(
            JUPITER,
            ["x"],
            bytes(8),
            [
                transfer("own a", "jupiter a", 900),
                hop(("jupiter a", 900), ("jupiter b", 500)),
                transfer("jupiter b", "own b", 500),
            ],
        ),
        GIVEN,
    ],
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_router_that_passes_the_tokens_on_is_not_reported(name: str) -> None:
    tx = routed(*PASSED_ON[name])
    tx.holds("jupiter a", A, "jupiter's").holds("jupiter b", B, "jupiter's")

    assert programs(decode(tx)) == ([address(VENUE)], [])


AMOUNTS = st.integers(100, 2**40)


@given(came=AMOUNTS, went=AMOUNTS, fees=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_router_is_not_reported_for_any_fee_that_it_keeps(
    came: int, went: int, fees: tuple[int, int]
) -> None:
    tx = routed(
        transfer("user a", "own a", came),
        hop(("own a", came - fees[0] * came // 10), ("own b", went)),
        transfer("own b", "user b", went - fees[1] * went // 10),
    )

    assert programs(decode(tx)) == ([address(VENUE)], [])


# --- others than signers ---------------------------------------------------------------------


def test_an_exchange_with_two_pools_by_a_trader_who_did_not_sign_is_reported() -> None:
    """The accounts of a router trade with two pools in one call."""
    moved = [
        transfer("own dollars", "one dollars", 900),
        transfer("one a", "own a", 500),
        transfer("own dollars", "two dollars", 90),
        transfer("two a", "own a", 50),
    ]
    tx = Tx(Ix(MARKET, [USER], b"\x05", moved))
    for owner in ("own", "one", "two"):
        tx.holds(f"{owner} a", A, owner).holds(f"{owner} dollars", USDC, owner)

    assert answered(decode(tx)) == reported(MARKET, Moved(USDC, 990))


# --- of any form -----------------------------------------------------------------------------

SCENES = {
    "purchase": traded([], launchpad(b"\x02", *BOUGHT), curve=(1, 2), user=(5 * SOL, 4 * SOL)),
    "sale": traded([], launchpad(b"\x03", SOLD), curve=(2 * SOL, SOL), user=(5 * SOL, 6 * SOL)),
    "through others": in_vaults(THROUGH["a call for each side"]),
    "beside others": routed(*BESIDE["half of it"]),
}


@pytest.mark.parametrize("name", SCENES)
def test_protobuf_gives_the_same_report(name: str) -> None:
    entry = SCENES[name].entry()
    info = to_protobuf(entry, 0)
    info.meta.pre_balances[:] = entry["meta"]["preBalances"]
    info.meta.post_balances[:] = entry["meta"]["postBalances"]
    read = read_info(info)
    assert read is not None
    decoded = decode_block([read])

    assert len(decoded.quarantined) == 1
    assert decoded == decode(SCENES[name])


@pytest.mark.parametrize("name", SCENES)
def test_no_changed_transaction_makes_the_decoder_fail(name: str) -> None:
    """Program numbers, accounts, data and stack heights are replaced by random values."""
    random = Random(7)
    raw = SCENES[name].raw()
    for _ in range(400):
        entry = json.loads(raw)
        calls = [one["instructions"] for one in entry["meta"]["innerInstructions"]]
        calls.append(entry["transaction"]["message"]["instructions"])
        for _ in range(random.randrange(1, 4)):
            at = random.choice(random.choice(calls))
            match random.randrange(4):
                case 0:
                    at["programIdIndex"] = random.randrange(20)
                case 1:
                    at["accounts"] = random.choices(range(20), k=random.randrange(6))
                case 2:
                    at["data"] = b58(random.randbytes(random.randrange(12)))
                case _:
                    at["stackHeight"] = random.randrange(1, 5)
        decoded = decode_transaction(json.dumps(entry).encode(), 0)
        assert all(one.reason in QuarantineReason for one in decoded.quarantined)
