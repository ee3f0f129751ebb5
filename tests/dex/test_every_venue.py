"""A block with the layouts of all venues: the decoder reads the built swaps and their pools."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner
from venue_layouts import LAYOUTS, ROUTERS, Layout

from mintscope.app.cli.chain import app
from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Swap
from mintscope.dex.programs import TABLE
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.assembler import Assembler
from mintscope.solana.yellowstone.block_buffer import BlockBuffer
from mintscope_devchain.stream.protobuf import to_protobuf
from support.scenes.json_transactions import decode_block as decode_json
from support.scenes.made_transactions import (
    JUPITER,
    SELF_CALL,
    SPL,
    SPL_2022,
    USDC,
    USER,
    WSOL,
    Ix,
    Tx,
    address,
    b58,
    batch,
    checked,
    event,
    hooked,
    lamports,
    transfer,
    u64,
    unb58,
)

VARIANTS: Final = (
    "plain",
    "routed",
    "carried",
    "batch",
    "batch of Token-2022",
    "nested",
    "hooked",
    "deep",
)
ROUTED: Final = ("routed", "carried")
STACK_HEIGHT_MAX: Final = 9  # a top-level instruction has height 1; calls may be nested eight deep
EVENT_SIZE: Final = 220
POOL_AT: Final = 112  # the offset of the pool in the events of PumpSwap
CARRIER: Final = "what a router calls"
HELPER: Final = "jupeiUmn818Jg1ekPURTpr4mFo29p46vygyykFJ3wZC"
CURVE_TAIL: Final = 250


class Expected(NamedTuple):
    """A swap, with the values that the decoder must return."""

    signature: str
    program: str
    pool: str
    in_mint: str
    in_amount: int
    out_mint: str
    out_amount: int


@dataclass
class Built:
    """A transaction with an instruction of one venue, and the swaps that it should give."""

    layout: Layout
    head: bytes
    entry: dict[str, Any]
    swaps: list[Expected]


class _Exchange:
    """One swap of a layout under construction: its accounts, amounts and transfers."""

    def __init__(self, layout: Layout, number: int, *, hop: int = 0) -> None:
        self.layout = layout
        token = address(f"token of {layout.name}")
        coins = [token, USDC] if number % 2 else [USDC, token]
        mints = [*coins, address(f"second token of {layout.name}")]
        self.mints = mints[hop], mints[hop + 1]
        self.amounts = 1_000_000 + 7 * number + 3 * hop, 2_000_000 + 7 * number + 3 * (hop + 1)
        if hop:  # the input of this hop is the output of the previous hop
            self.amounts = 2_000_000 + 7 * number + 3 * hop, 3_000_000 + 7 * number
        self.users = f"{self.mints[0]} of user", f"{self.mints[1]} of user"
        self.vaults = f"vault in {hop}", f"vault out {hop}"
        self.pool = f"pool {hop}"

    def accounts(self, size: int) -> list[str]:
        """Return the accounts of the instruction, in the positions that the layout gives."""
        layout = self.layout
        accounts = [f"account {at}" for at in range(size)]
        for places, words in ((layout.users, self.users), (layout.vaults, self.vaults)):
            for at, word in zip(places or (), words, strict=False):
                accounts[at] = word
        for hop, at in enumerate(layout.pools or ()):
            accounts[at] = f"pool {hop}"
        return accounts

    def owners(self, accounts: Sequence[str]) -> tuple[str, str]:
        """Return the owners of the two vaults."""
        owner = self.layout.owner
        if isinstance(owner, tuple):
            return accounts[owner[0]], accounts[owner[1]]
        if isinstance(owner, int):
            return accounts[owner], accounts[owner]
        if owner == "vault":
            return self.vaults
        word = "owner of the vaults" if owner is None else owner
        if owner == "pool" or len(self.layout.pools or ()) > 1:
            word = self.pool
        return word, word

    def identity(self) -> str:
        """Return the expected name of the pool: its address, or the addresses of its two vaults."""
        if self.layout.pools is not None or self.layout.owner == "pool":
            return address(self.pool)
        return "+".join(sorted(map(address, self.vaults)))

    def moved(self, *, is_2022: bool) -> list[Ix]:
        """Return the transfers of the swap: from the user to a vault, and from a vault back."""
        program = SPL_2022 if is_2022 else SPL
        paid, received = self.amounts
        (user, target), (vault, source) = self.users, self.vaults
        back = checked(source, self.mints[1], target, received, program=program)
        return [checked(user, self.mints[0], vault, paid, program=program), back]

    def events(self) -> list[Ix]:
        """Return the event that the program emits for the swap; empty if it emits none."""
        if self.layout.event is None:
            return []
        disc, received, paid = self.layout.event
        fields = bytearray(EVENT_SIZE)
        fields[POOL_AT : POOL_AT + 32] = unb58(address(self.pool))
        for at, amount in zip((received, paid), self.amounts, strict=True):
            fields[at : at + 8] = u64(amount)
        return [event(self.layout.address, SELF_CALL + bytes.fromhex(disc) + fields)]

    def expected(self, signature: str) -> Expected:
        (paid, received), (gave, got) = self.mints, self.amounts
        return Expected(signature, self.layout.name, self.identity(), paid, gave, received, got)


def built(
    layouts: Sequence[Layout],
    *,
    mark: str = "",
    variants: Sequence[str] = VARIANTS,
    router: str = JUPITER,
) -> list[Built]:
    """Return transactions with all instructions of *layouts*, each in each of *variants*.

    Two variants have a *router*.  "routed": the router calls the venue.  "carried": the router also
    receives and pays the tokens of both sides with its own accounts.

    mark    makes the accounts of these transactions differ from those with another mark
    """
    return [
        _built(instruction, variant, number, mark, router)
        for number, instruction in enumerate(_instructions(layouts), 1)
        for variant in variants
    ]


def block(transactions: Sequence[Built]) -> dict[str, Any]:
    """Return a block with *transactions*, in the form of getBlock."""
    return {
        "blockHeight": 1,
        "blockTime": 1_790_000_000,
        "blockhash": address("this block"),
        "parentSlot": 99,
        "previousBlockhash": address("the block before"),
        "transactions": [each.entry for each in transactions],
    }


def _instructions(layouts: Sequence[Layout]) -> Iterator[tuple[Layout, str, bytes]]:
    for layout in layouts:
        for name, head in layout.instructions():
            yield layout, name, head


def _built(
    instruction: tuple[Layout, str, bytes], variant: str, number: int, mark: str, router: str
) -> Built:
    layout, name, head = instruction
    text = f"{layout.name} {name} {variant} {mark}"
    signature = b58(hashlib.sha512(text.encode()).digest())
    number = 1_000 * number + len(mark)
    if layout.curve is not None:
        call, tx, swaps = _curve(layout, name, head, variant, number)
    else:
        call, tx, swaps = _exchanges(layout, head, variant, number)
    tx.calls = [_wrapped(call, variant, router)]
    entry = tx.entry()
    entry["transaction"]["signatures"] = [signature]
    return Built(layout, head, entry, [swap._replace(signature=signature) for swap in swaps])


def _exchanges(
    layout: Layout, head: bytes, variant: str, number: int
) -> tuple[Ix, Tx, list[Expected]]:
    """Return a call, its transaction with the balances, and its swaps, one for each hop."""
    hops = range(max(1, len(layout.pools or ())))
    exchanges = [_Exchange(layout, number, hop=hop) for hop in hops]
    owned = layout.owner if isinstance(layout.owner, tuple) else ()
    places = [*(layout.pools or ()), *(layout.users or ()), *(layout.vaults or ()), *owned, 8]
    accounts = exchanges[0].accounts(max(places) + 1)
    tx, moved = Tx(), []
    for exchange in exchanges:
        transfers = _in_variant(exchange.moved(is_2022="2022" in variant), exchange, variant, tx)
        if layout.moves == "through":
            transfers = [Ix(HELPER, ["x"], bytes(8), [one]) for one in transfers]
        moved += [*transfers, *exchange.events()]
        for words, owners in (
            (exchange.users, (USER, USER)),
            (exchange.vaults, exchange.owners(accounts)),
        ):
            for word, mint, owner in zip(words, exchange.mints, owners, strict=True):
                tx.holds(word, mint, owner)
    if layout.moves == "shares":
        moved.append(Ix(SPL, ["shares", "owner's shares", accounts[1]], b"\x07" + u64(9)))
        tx.holds("owner's shares", "shares", "owner of the fees")
    call = Ix(layout.address, accounts, head + u64(*exchanges[0].amounts), moved)
    if variant == "carried":
        call = _carried(call, exchanges, tx)
    return call, tx, [exchange.expected("") for exchange in exchanges]


def _carried(call: Ix, exchanges: Sequence[_Exchange], tx: Tx) -> Ix:
    """Return *call* between a transfer to the router's account and a transfer back to the user."""
    first, last = exchanges[0], exchanges[-1]
    for exchange in exchanges:
        for word, mint in zip(exchange.users, exchange.mints, strict=True):
            tx.holds(word, mint, "owner of the router's accounts")
    tx.holds("paid from", first.mints[0], USER).holds("received at", last.mints[1], USER)
    brought = transfer("paid from", first.users[0], first.amounts[0])
    taken = transfer(last.users[1], "received at", last.amounts[1])
    return Ix(CARRIER, [], b"", [brought, call, taken])


def _curve(
    layout: Layout, name: str, head: bytes, variant: str, number: int
) -> tuple[Ix, Tx, list[Expected]]:
    """Return a call, transaction and swaps of a curve; in a sale, SOL moves without a transfer."""
    assert layout.curve is not None
    mint_at, user_at, quote_at = layout.curve
    is_buy = name.startswith("buy")
    exchange = _Exchange(layout, number)
    token = address(f"token of {layout.name}")
    exchange.mints = (WSOL, token) if is_buy else (token, WSOL)
    exchange.users = ("tokens of user",) * 2
    exchange.vaults = ("tokens of the curve",) * 2
    accounts = exchange.accounts(max(20, user_at + 1))
    accounts[mint_at], accounts[user_at] = token, USER
    if quote_at is not None:
        accounts[quote_at] = WSOL
    paid, received = exchange.amounts
    sol, tokens = exchange.amounts if is_buy else (received, paid)
    ends = ["tokens of the curve", "tokens of user"]
    ends = ends if is_buy else ends[::-1]
    program = SPL_2022 if "2022" in variant else SPL
    moved = [checked(ends[0], token, ends[1], tokens, program=program)]
    tx = Tx().holds("tokens of user", token, USER).holds("tokens of the curve", token, "pool 0")
    moved = _in_variant(moved, exchange, variant, tx)
    before = 10 * sol
    tx.with_lamports("pool 0", before, before + sol if is_buy else before - sol)
    if is_buy:
        moved.append(lamports(USER, "pool 0", sol))
    if layout.event is not None:
        disc, *_ = layout.event
        fields = unb58(token) + u64(sol, tokens) + bytes([is_buy]) + unb58(address(USER))
        tail = bytes(CURVE_TAIL - len(fields)) + bytes(30) + unb58(WSOL) + u64(sol) + bytes(16)
        data = SELF_CALL + bytes.fromhex(disc) + fields + tail
        moved.append(event(layout.address, data))
    call = Ix(layout.address, accounts, head + u64(tokens, sol), moved)
    return call, tx, [exchange.expected("")]


def _in_variant(moved: list[Ix], exchange: _Exchange, variant: str, tx: Tx) -> list[Ix]:
    """Return the transfers *moved*, in the variant of token instructions that *variant* names."""
    coins = [one for one in moved if one.program in {SPL, SPL_2022}]
    others = [one for one in moved if one not in coins]
    match variant:
        case "batch":
            return [*others, batch(*coins)]
        case "batch of Token-2022":
            return [*others, batch(*coins, program=SPL_2022)]
        case "nested":
            return [*others, batch(*coins[:-1], batch(batch(coins[-1])))]
        case "hooked":
            tx.holds("hook's", exchange.mints[1], "owner of the hook")
            coins[0].program = SPL_2022
            coins[0] = hooked(coins[0], transfer(exchange.vaults[1], "hook's", 3))
            return [*others, *coins]
        case _:
            return moved


def _wrapped(call: Ix, variant: str, router: str) -> Ix:
    """Return *call* inside the calls of a router or of nested wrappers, as *variant* says."""
    if variant in ROUTED:
        calls = call.calls if call.program == CARRIER else [call]
        return Ix(router, ["x"], bytes(8), calls)
    if variant == "deep":
        for level in range(STACK_HEIGHT_MAX - _height(call)):
            call = Ix(f"wrapper {level}", ["x"], bytes(8), [call])
    return call


def _height(call: Ix) -> int:
    return 1 + max(map(_height, call.calls), default=0)


SLOT: Final = 100
DYING, LIVING = 7, 9
Message = geyser_pb2.SubscribeUpdate


@cache
def whole() -> list[Built]:
    return built(LAYOUTS)


# A fill of Manifest's batches moves no token: `test_manifest.py` builds its log.
ELSEWHERE = {("manifest", b"\x06")}


def expect_all(read: Sequence[Expected]) -> None:
    """Assert that *read* are the expected swaps of the whole block, in order.

    The first assertion names the programs whose swaps are wrong.
    """
    expected = [swap for each in whole() for swap in each.swaps]
    assert {swap.program for swap in set(expected) ^ set(read)} == set()
    assert read == expected


def seen(swap: Swap) -> Expected:
    return Expected(
        swap.signature,
        swap.program,
        str(swap.pool),
        swap.in_mint,
        swap.in_amount,
        swap.out_mint,
        swap.out_amount,
    )


def test_every_swap_of_the_block_is_printed_with_its_pool(tmp_path: Path) -> None:
    """Swaps are plain, below a router, in batches, with a transfer hook, or eight calls deep."""
    path = tmp_path / "block.json"
    path.write_text(json.dumps(block(whole())))
    result = CliRunner().invoke(app, ["decode", str(path)])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    amounts = [{at: int(row[at]) for at in ("in_amount", "out_amount")} for row in rows]

    assert result.exit_code == 0
    assert {json.loads(line)["program"] for line in result.stderr.splitlines()} == set()
    expect_all(
        [
            Expected(**{field: row[field] for field in Expected._fields} | amount)
            for row, amount in zip(rows, amounts, strict=True)
        ]
    )


def bank(transactions: Sequence[Built], bank_id: int) -> Iterator[Message]:
    """Yield the messages of the bank *bank_id* with *transactions*, without its last status."""
    for index, each in enumerate(transactions):
        yield Message(
            transaction=geyser_pb2.SubscribeUpdateTransaction(
                slot=SLOT, transaction=to_protobuf(each.entry, index), bank_id=bank_id
            )
        )
    yield Message(
        block_meta=geyser_pb2.SubscribeUpdateBlockMeta(
            slot=SLOT, parent_slot=SLOT - 1, blockhash=str(bank_id), bank_id=bank_id
        )
    )


def status(said: geyser_pb2.SlotStatus, bank_id: int) -> Message:
    return Message(slot=geyser_pb2.SubscribeUpdateSlot(slot=SLOT, status=said, bank_id=bank_id))


@pytest.mark.parametrize("dies_at", [0, 500, 2_000])
def test_the_confirmed_bank_is_read_if_two_banks_interleave(dies_at: int) -> None:
    """Until it dies, the other bank sends the same venues with other accounts."""
    buffer = BlockBuffer()
    assembler = Assembler(buffer, ManualClock(UnixMs(0)), is_joined=True)
    before = geyser_pb2.SubscribeUpdateTransaction(slot=SLOT - 1, bank_id=1)
    after = geyser_pb2.SubscribeUpdateTransaction(slot=SLOT + 1, bank_id=11)
    both = zip(bank(built(LAYOUTS, mark="other"), DYING), bank(whole(), LIVING), strict=True)
    messages = [*chain.from_iterable(both)]
    messages.insert(dies_at, status(geyser_pb2.SLOT_DEAD, DYING))
    messages.append(status(geyser_pb2.SLOT_CONFIRMED, LIVING))
    for message in [Message(transaction=before), *messages, Message(transaction=after)]:
        assembler.take(message)

    held = buffer.block(Slot(SLOT))
    assert held is not None
    assert held.blockhash == str(LIVING)
    decoded = decode_block(held.transactions)
    assert decoded.quarantined == []
    expect_all([*map(seen, decoded.swaps)])


UNLISTED: Final = Layout(address("an unlisted venue"), address("an unlisted venue"))


@pytest.mark.parametrize("router", ROUTERS)
def test_a_swap_below_a_router_is_found_once(router: str) -> None:
    """The router and the venue may be listed or not; the router may hold the tokens in between."""
    transactions = built([*LAYOUTS, UNLISTED], variants=ROUTED, router=router)
    raws = [msgspec.Raw(msgspec.json.encode(each.entry)) for each in transactions]
    decoded = decode_json(raws)

    assert decoded.quarantined == []
    assert [*map(seen, decoded.swaps)] == [swap for each in transactions for swap in each.swaps]


def test_every_row_of_the_table_has_a_built_transaction() -> None:
    """A program that is added to the table of programs needs a layout for these tests."""
    made = {(each.layout.name, each.layout.address, each.head) for each in whole()}
    programs = {(name, address) for name, address, _ in made}
    listed = [program for program in TABLE if program.read is not None]
    missing = [
        f"{program.name} {head.hex()}"
        for program in listed
        for head in program.swaps
        if (program.name, program.address, head) not in made
        and (program.name, head) not in ELSEWHERE
        and (head or (program.name, program.address) not in programs)
    ]

    assert missing == []
    assert programs - {(program.name, program.address) for program in listed} == set()


def test_the_block_has_each_layout_in_each_variant_and_the_deepest_calls() -> None:
    """Each layout is built in each variant, and calls are as deep as the chain allows."""
    heights = [
        inner["stackHeight"]
        for each in whole()
        for group in each.entry["meta"]["innerInstructions"]
        for inner in group["instructions"]
    ]
    signatures = {swap.signature for each in whole() for swap in each.swaps}

    assert max(heights) == 9
    assert len(signatures) == len(whole())
    assert len(whole()) == len(VARIANTS) * sum(len([*each.instructions()]) for each in LAYOUTS)
