"""Recorded transactions of mainnet, compared with the swaps that independent readers found."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mintscope.dex.programs import TABLE
from mintscope.kit.primitives import MICRO_USD
from mintscope.market.pricing import sol_usd_samples
from mintscope.solana.blocks import WSOL
from support.oracles.recorded import facts, keys_of, pool_trouble, with_gain
from support.scenes.json_transactions import decode_block, decode_transaction

Lines = list[dict[str, Any]]
POOLED = {program.name for program in TABLE if program.is_pooled}
# One pool of many mints, or one maker with many markets: all its holdings back each market, and
# no one else can open a market.
OF_MANY_MINTS = {
    *("jupiter_perps", "perena", "sanctum_infinity", "woofi"),
    *("alphaq", "tessera", "zerofi"),
}


def lines(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def recorded(shared_data: Path) -> Lines:
    """Return every recorded transaction with its bytes and its expected swaps."""
    return of_folder(shared_data / "transactions")


@pytest.fixture(scope="module")
def of_2026(shared_data: Path) -> Lines:
    return of_folder(shared_data / "transactions_2026")


@pytest.fixture(scope="module")
def of_autumn(shared_data: Path) -> Lines:
    """Return recorded transactions of April to October 2026, and their expected swaps."""
    return of_folder(shared_data / "transactions_2026b")


def of_folder(folder: Path) -> Lines:
    if not folder.is_dir():
        pytest.skip(f"the recorded transactions are not there: {folder}")
    expected: dict[str, Lines] = {}
    for line in lines(folder / "expected_swaps.jsonl"):
        expected.setdefault(line["signature"], []).append(line)
    found = lines(folder / "fixtures.jsonl")
    for one in found:
        one["raw"] = (folder / one["file"]).read_bytes()
        one["expected"] = expected.get(one["signature"], [])
    return found


def assert_exact(found: Lines) -> int:
    """Assert that order, pool, mints, amounts, decimals and side are exact; return the count."""
    count = 0
    for one in found:
        swaps = decode_transaction(one["raw"], 0).swaps
        read = [facts(swap) for swap in swaps]
        expected = [
            {key: with_gain(line).get(key) for key in fact}
            for fact, line in zip(read, one["expected"], strict=True)
        ]
        for fact, line in zip(read, expected, strict=True):
            if line["pool"] is None:  # the expected swap has no pool
                assert pool_trouble(json.loads(one["raw"]), fact) == "", fact
                line["pool"] = fact["pool"]
        assert read == expected
        count += len(read)
    return count


def test_every_hop_is_exact(recorded: Lines) -> None:
    """Order, pool, mints, amounts, decimals and side are exact for all 91 hops, and only these."""
    assert assert_exact(recorded) == 91


def test_every_hop_of_2026_is_exact(of_2026: Lines) -> None:
    """All 46 hops are found, one of them in a transaction of version 1."""
    assert assert_exact(of_2026) == 46


def test_every_hop_of_autumn_2026_is_exact(of_autumn: Lines) -> None:
    """All 113 exchanges are found, and none in twelve transactions that only look like swaps."""
    assert assert_exact(of_autumn) == 113
    assert sum(not one["expected"] for one in of_autumn) == 12


def test_one_pool_has_one_name(recorded: Lines, of_2026: Lines, of_autumn: Lines) -> None:
    """No address is a pool of two pairs of mints or of two programs, and none is a program."""
    pairs: dict[str, set[tuple[str, frozenset[str]]]] = {}
    for one in [*recorded, *of_2026, *of_autumn]:
        for swap in decode_transaction(one["raw"], 0).swaps:
            kind = swap.program, frozenset((swap.in_mint, swap.out_mint))
            pairs.setdefault(swap.pool, set()).add(kind)
            assert swap.pool not in {program.name for program in TABLE}
    several = {pool for pool, kinds in pairs.items() if len(kinds) > 1}
    assert len(several) <= 1, several  # Saber and Mercurial may keep more than two mints


@pytest.mark.parametrize("tag", ["no_swap", "failed"])
def test_a_transaction_without_a_swap_gives_no_swap(recorded: Lines, tag: str) -> None:
    """The cases are liquidity changes, token creations, tips, limit orders and failures."""
    tagged = [one for one in recorded if tag in one["tags"]]

    assert tagged
    for one in tagged:
        assert decode_transaction(one["raw"], 0).swaps == [], one["signature"]


def test_no_recorded_transaction_is_quarantined(
    recorded: Lines, of_2026: Lines, of_autumn: Lines
) -> None:
    for one in recorded + of_2026 + of_autumn:
        assert decode_transaction(one["raw"], 0).quarantined == [], one["signature"]


def test_a_block_decodes_to_the_swaps_of_its_transactions(recorded: Lines) -> None:
    raws = [msgspec.Raw(one["raw"]) for one in recorded]
    whole = decode_block(raws)

    singles = [decode_transaction(raw, index) for index, raw in enumerate(raws)]
    assert whole.swaps == [swap for single in singles for swap in single.swaps]
    assert whole.quarantined == []


def test_a_block_of_1500_is_read_in_order_without_quarantine(shared_data: Path) -> None:
    class Block(msgspec.Struct):
        transactions: list[msgspec.Raw]

    packed = shared_data / "blocks" / "synthetic_1500_transactions.json.gz"
    block = msgspec.json.decode(gzip.decompress(packed.read_bytes()), type=Block)
    decoded = decode_block(block.transactions)

    keys = [(s.transaction_index, s.outer, s.inner, s.leg) for s in decoded.swaps]
    assert len(block.transactions) == 1500
    assert decoded.quarantined == []
    assert keys == sorted(set(keys))
    assert len(keys) > 300


@pytest.mark.parametrize(
    ("name", "block"),
    [("getBlock_43200000.json", 43_200_000), ("getBlock_64800004.json", 64_800_004)],
)
def test_blocks_older_than_the_programs_give_no_swaps(
    shared_data: Path, name: str, block: int
) -> None:
    text = (shared_data / "blocks" / name).read_bytes()
    raws = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    transactions = msgspec.json.decode(raws["transactions"], type=list[msgspec.Raw])

    assert int(bytes(raws["slot"])) == block
    assert decode_block(transactions) == ([], [], [], [])


def test_a_swap_without_recorded_inner_instructions_is_quarantined(shared_data: Path) -> None:
    """The inner instructions of a stable swap are null."""
    path = shared_data / "blocks" / "chainstorage_parser_solana_block_with_versioned_tx.json"
    transactions = json.loads(path.read_text())["transactions"]
    raws = [msgspec.Raw(json.dumps(one).encode()) for one in transactions]
    decoded = decode_block(raws)

    assert decoded.swaps == []
    assert [q.reason for q in decoded.quarantined] == ["no_inner_instructions"]


def test_the_signer_is_the_trader(recorded: Lines) -> None:
    """In one transaction four wallets buy, and each of them is the signer of its own swap."""
    by_start = {one["signature"][:8]: one["raw"] for one in recorded}
    bundle = decode_transaction(by_start["JBnrBbgq"], 0).swaps
    wash = decode_transaction(by_start["33LHUzKf"], 0).swaps

    assert len({swap.signer for swap in bundle}) == 4
    assert len({swap.signer for swap in wash}) == 1
    for one in recorded:
        keys = json.loads(one["raw"])["transaction"]["message"]
        signers = keys["accountKeys"][: keys["header"]["numRequiredSignatures"]]
        for swap in decode_transaction(one["raw"], 0).swaps:
            assert swap.signer in signers


def test_logs_are_not_needed(recorded: Lines) -> None:
    for one in recorded:
        entry = json.loads(one["raw"])
        entry["meta"]["logMessages"] = None

        without = decode_transaction(json.dumps(entry).encode(), 0)
        assert without == decode_transaction(one["raw"], 0)


def test_transactions_without_stack_heights_decode_equally(recorded: Lines) -> None:
    for one in recorded:
        entry = json.loads(one["raw"])
        for inner in entry["meta"]["innerInstructions"] or ():
            for instruction in inner["instructions"]:
                del instruction["stackHeight"]

        without = decode_transaction(json.dumps(entry).encode(), 0)
        assert without == decode_transaction(one["raw"], 0), one["signature"]


def test_a_program_is_marked_as_proven_exactly_if_it_was_recorded(
    recorded: Lines, of_2026: Lines, of_autumn: Lines
) -> None:
    every = recorded + of_2026 + of_autumn
    swapped = {line["program"] for one in every for line in one["expected"]}
    ran = set().union(*(programs_of(json.loads(one["raw"])) for one in every))
    for program in TABLE:
        is_seen = program.address in ran if program.read is None else program.name in swapped
        assert program.proven == is_seen, program.name


def programs_of(entry: dict[str, Any]) -> set[str]:
    message, meta = entry["transaction"]["message"], entry["meta"]
    keys = keys_of(entry)
    inner = [ix for one in meta["innerInstructions"] or () for ix in one["instructions"]]
    return {keys[ix["programIdIndex"]] for ix in [*message["instructions"], *inner]}


def test_the_reserves_of_a_swap_equal_the_final_balances_of_vaults(
    recorded: Lines, of_2026: Lines, of_autumn: Lines
) -> None:
    """Curves of pump.fun hold lamports, so their reserve is read from the event."""
    sides = known = 0
    for one in recorded + of_2026 + of_autumn:
        meta = json.loads(one["raw"])["meta"]
        held = {
            (balance["mint"], int(balance["uiTokenAmount"]["amount"]), balance["owner"])
            for balance in meta["postTokenBalances"] or ()
        }
        for swap in decode_transaction(one["raw"], 0).swaps:
            if swap.program == "pumpfun":
                if WSOL in (swap.in_mint, swap.out_mint):
                    reserve = swap.in_left or swap.out_left or 0
                    assert 10 * 10**9 < reserve < 200 * 10**9
                continue
            if swap.program == "raydium_launchlab":
                curve = (swap.in_left if swap.out_mint != WSOL else swap.out_left) or 0
                assert 10 * 10**9 < curve < 200 * 10**9
                continue
            if swap.program in POOLED:
                assert (swap.in_left, swap.out_left) == (None, None)
                continue
            for mint, left in ((swap.in_mint, swap.in_left), (swap.out_mint, swap.out_left)):
                sides += 1
                known += left is not None
                owners = {owner for of, amount, owner in held if (of, amount) == (mint, left)}
                if swap.program == "meteora_damm_v1":  # the pool's share of a vault of all pools
                    owners = {owner for of, amount, owner in held if amount == left and of != mint}
                    assert max(amount for of, amount, _ in held if of == mint) > 10 * (left or 0)
                assert left is None or owners - {swap.signer}
    assert known > 0.97 * sides > 400


def test_no_vault_belongs_to_two_pools(recorded: Lines, of_2026: Lines, of_autumn: Lines) -> None:
    """Otherwise the liquidity of the vault would count twice."""
    pools: dict[str, set[str]] = {}
    for one in recorded + of_2026 + of_autumn:
        entry = json.loads(one["raw"])
        keys = keys_of(entry)
        held = {
            (balance["mint"], int(balance["uiTokenAmount"]["amount"])): keys[
                balance["accountIndex"]
            ]
            for balance in entry["meta"]["postTokenBalances"] or ()
        }
        for swap in decode_transaction(one["raw"], 0).swaps:
            if swap.program in OF_MANY_MINTS:
                continue
            for mint, left in ((swap.in_mint, swap.in_left), (swap.out_mint, swap.out_left)):
                vault = held.get((mint, left or 0)) if left else None
                if vault is not None:
                    pools.setdefault(vault, set()).add(swap.pool)
    assert {vault: named for vault, named in pools.items() if len(named) > 1} == {}


CLOSED = {
    *("solfi", "solfi_v2", "humidifi", "zerofi", "goonfi", "goonfi_v2", "obric_v2", "tessera"),
    *("bisonfi", "alphaq"),
}


def test_sol_prices_of_closed_markets_have_over_10_000_dollars_of_depth(
    recorded: Lines, of_2026: Lines, of_autumn: Lines
) -> None:
    """Markets of this depth may be among the pools that agree on the SOL/USD rate."""
    shown: set[str] = set()
    for one in recorded + of_2026 + of_autumn:
        for swap in decode_transaction(one["raw"], 0).swaps:
            if swap.program in CLOSED:
                for sample in sol_usd_samples([swap]):
                    assert sample.depth is not None
                    assert sample.depth > 10_000 * MICRO_USD, swap.program
                    shown.add(swap.program)
    assert len(shown) >= 4
