"""Venues whose swaps are read from transfers, because most publish no events and no layouts.

A head is the first bytes of an instruction whose accounts are known: the pool, and its vaults or
their owners.  Other instructions are read too, unless only those with these heads swap; their pool
is named by its two vaults if no account names it.  Layouts are from public decoders and trade
records of 2026; rows that are not `proven` were not tested with a recorded transaction.
"""

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from based58 import b58encode

from mintscope.dex import curves
from mintscope.dex.outcome import QuarantineReason, Swap, Unreadable
from mintscope.dex.program import BUY, SELL, SWAP, SWAP_2, SWAP_V2, Call, Leg, Migration, Program
from mintscope.dex.token_accounts import TokenAccounts, address
from mintscope.dex.transfers import U64_MAX, read_closed
from mintscope.kit.primitives import PUBKEY_BYTES

# Manifest: a swap moves tokens, but BatchUpdate, which places and cancels orders, fills them inside
# the market, without a token program.  Only the log shows these fills: one FillLog for each maker,
# with both mints and amounts (github.com/CKS-Systems/manifest, `logs.rs`).  The fills of one order
# are one swap.

BATCH_UPDATE: Final = Leg((0,), 1)
"""The accounts of BatchUpdate: the trader and the market."""
FILL_LOG: Final = bytes.fromhex("3ae6f2034b7104a9")
MARKET_AT = 8
TAKER_AT = 72
BASE_MINT_AT = 104
QUOTE_MINT_AT = 136
BASE_AMOUNT_AT = 184
QUOTE_AMOUNT_AT = 192
TAKER_ORDER_AT = 208
IS_BUY_AT = 216
LOG_DATA: Final = "Program data: "
TRUNCATED: Final = "Log truncated"
WORDS: Final = 3  # the first words of a log line about a call: "Program", address, action


def manifest_swaps(call: Call, legs: tuple[Leg, ...], token_accounts: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*: from the log for a BatchUpdate, else from transfers.

    Raises Unreadable, for example with TRUNCATED_LOG if the log is incomplete or was not recorded,
    or with EVENT_DISAGREES if the log names another market.
    """
    if BATCH_UPDATE not in legs:
        return read_closed(call, legs, token_accounts)
    accounts = call.instruction.accounts
    if len(accounts) < BATCH_UPDATE.size:
        raise Unreadable(QuarantineReason.TRUNCATED_INSTRUCTION)
    market = token_accounts.key(accounts[1])
    orders: dict[_Order, list[int]] = {}
    for fill in _fills(call, token_accounts):
        if _address(fill, MARKET_AT) != market:
            raise Unreadable(QuarantineReason.EVENT_DISAGREES)
        order = _Order(
            taker=_address(fill, TAKER_AT),
            base=_address(fill, BASE_MINT_AT),
            quote=_address(fill, QUOTE_MINT_AT),
            number=_amount(fill, TAKER_ORDER_AT),
            is_buy=fill[IS_BUY_AT] == 1,  # `_amount` above has checked the length
        )
        amounts = orders.setdefault(order, [0, 0])
        amounts[0] += _amount(fill, BASE_AMOUNT_AT)
        amounts[1] += _amount(fill, QUOTE_AMOUNT_AT)
    return [
        _swap(call, leg, order, orders[order], token_accounts)
        for leg, order in enumerate(orders)
        if min(orders[order]) > 0  # otherwise one amount was rounded to 0
    ]


class _Order(NamedTuple):
    """An order that was filled when it was placed."""

    taker: str
    base: str
    quote: str
    number: int
    is_buy: bool


def _swap(
    call: Call, leg: int, order: _Order, amounts: Sequence[int], token_accounts: TokenAccounts
) -> Swap:
    """Return the swap of *order*: *amounts* of the base mint and of the quote mint."""
    if max(amounts) > U64_MAX:
        raise Unreadable(QuarantineReason.OVERFLOW)
    base = address(order.base), amounts[0], token_accounts.decimals(order.base)
    quote = address(order.quote), amounts[1], token_accounts.decimals(order.quote)
    received, paid = (quote, base) if order.is_buy else (base, quote)
    signers = token_accounts.signers
    return Swap(
        token_accounts.signature,
        token_accounts.index,
        call.outer,
        call.inner,
        leg,
        call.program.name,
        token_accounts.key(call.instruction.accounts[1]),
        *received,
        *paid,
        order.taker if order.taker in signers else signers[0],
    )


def _fills(call: Call, token_accounts: TokenAccounts) -> list[bytes]:
    """Return the data of each fill event that *call* wrote to the log.

    Raises Unreadable, with TRUNCATED_LOG, if the log is incomplete.
    """
    log = token_accounts.log()
    own = token_accounts.instructions(call.instruction.program_id_index)
    number = next(n for n, one in enumerate(own) if one is call.instruction)
    published = payloads(call.program.address, log)
    # Calls are matched with the log by their position, so the log must have all of them.
    if TRUNCATED in log or len(published) != len(own):
        raise Unreadable(QuarantineReason.TRUNCATED_LOG)
    return [data for data in published[number] if data[: len(FILL_LOG)] == FILL_LOG]


def payloads(program: str, log: Sequence[str]) -> list[list[bytes]]:
    """Return a list for each call of *program*, in order of execution: the data that it logged.

    An item is the first field of a data line of the log, or empty if the field is not base64.  Data
    that inner calls logged are not included.
    """
    # Text that a program logs begins with "Program log: ", so it cannot imitate other lines.
    found: list[list[bytes]] = []
    running: list[list[bytes]] = []
    for line in log:
        if line.startswith(LOG_DATA):
            if running:
                running[-1].append(_decoded(line[len(LOG_DATA) :]))
            continue
        words = line.split(" ", WORDS)
        if len(words) < WORDS or words[0] != "Program" or words[1].endswith(":"):
            continue
        if words[2] == "invoke":
            running.append([])
            if words[1] == program:
                found.append(running[-1])
        elif words[2] in ("success", "failed:") and running:
            running.pop()
    return found


def _decoded(text: str) -> bytes:
    """Return the first field in *text*, the data of a log line; empty if it is not base64."""
    try:
        return b64decode(text.split(" ", 1)[0], validate=True)
    except Error:
        return b""


def _address(fill: bytes, at: int) -> str:
    key = fill[at : at + PUBKEY_BYTES]
    if len(key) < PUBKEY_BYTES:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return b58encode(key).decode()


def _amount(fill: bytes, at: int) -> int:
    if len(fill) <= IS_BUY_AT:
        raise Unreadable(QuarantineReason.TRUNCATED_EVENT)
    return int.from_bytes(fill[at : at + 8], "little")


def _swaps(legs: Sequence[tuple[str, Leg]]) -> dict[bytes, tuple[Leg, ...]]:
    """Return a table from the first bytes of an instruction to its leg.

    *legs* has these bytes as hex text; several instructions are separated by spaces.
    """
    return {bytes.fromhex(head): (leg,) for heads, leg in legs for head in heads.split()}


def _by_vaults(pool: int, first: int, second: int) -> Leg:
    return Leg((), pool, vaults=(first, second))


def _venue(  # noqa: PLR0913 - all that tells a venue
    name: str,
    address: str,
    *legs: tuple[str, Leg],  # heads in hex, separated by spaces, and the pool of each
    any_leg: Leg | None = None,  # the pool of all other heads; None: its two vaults name it
    only_heads: bool = False,  # whether only instructions with these heads swap
    proven: bool = False,
    migrations: Mapping[bytes, Migration] | None = None,
    is_pooled: bool = False,
) -> Program:
    """Return a DEX whose swaps are read from the transfers that a call made."""
    swaps = _swaps(legs)
    if not only_heads:
        swaps[b""] = () if any_leg is None else (any_leg,)
    moves = migrations or {}
    return Program(
        name, address, swaps, read_closed, proven=proven, migrations=moves, is_pooled=is_pooled
    )


def _curve(name: str, address: str, *legs: tuple[str, Leg]) -> Program:
    """Return a DEX with launch curves that pay for sales in lamports without a transfer."""
    swaps = _swaps(legs) | {b"": ()}
    how = "transfers; for sales, lamports before and after"
    return Program(name, address, swaps, curves.read, proven=False, how=how)


def _token_swap(name: str, address: str, *, proven: bool = False) -> Program:
    """Return a venue with the layout of SPL token-swap, whose swaps mint a fee for the owner."""
    return _venue(name, address, ("01", Leg((1,), 0)), only_heads=True, proven=proven)


_proven: Final = partial(_venue, proven=True)

VENUES: Final[tuple[Program, ...]] = (
    _proven("solfi", "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe", any_leg=Leg((1,), 1)),
    _proven("solfi_v2", "SV2EYYJyRz2YhfXwXnhNAevDEui5Q6yrfyo13WtupPF", any_leg=Leg((), 1)),
    _proven("humidifi", "9H6tua7jkLhdm3w8BvgpTn5LZNU7g4ZynDmCiNN3q6Rp", any_leg=Leg((1,), 1)),
    _proven("zerofi", "ZERor4xhbUycZ6gb9ntrhqscUcZmAbQDjEAtCf4hbZY", any_leg=Leg((2, 4), 0)),
    _proven("goonfi", "goonERTdGsjnkZqWuVjs73BZ3Pb9qoCUdBUL17BnS5j", any_leg=Leg((1,), 1)),
    _proven("goonfi_v2", "goonuddtQRrWqqn5nFyczVKaie28f3kDkHWkHtURSLE", any_leg=Leg((), 1)),
    _proven("obric_v2", "obriQD1zbpyLz95G5n7nJe6a4DPjpFwa5XYPoNm113y", any_leg=Leg((0,), 0)),
    _proven("tessera", "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH", any_leg=Leg((), 1)),
    _proven("unnamed_amm", "6RCmQ8XMQCJnPbNDQa8U9ucAS9hk4tXQeps96V7p6aRY"),
    _proven("bisonfi", "BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi", any_leg=Leg((), 1)),
    _proven("alphaq", "ALPHAQmeA7bjrVuccPsYPiCvsi428SNwte66Srvs4pHA", any_leg=Leg((), 1)),
    _venue(
        "scorch",
        "SCoRcH8c2dpjvcJD6FiPbCSQyQgu3PcUAWj2Xxx3mqn",
        ("01", Leg((), 11)),
        ("02", Leg((), 15)),
    ),
    _venue("quantum", "QuaNtZsgYRe5Z9Bk4LZ4cTD9tbkVoyCNf1R2BN9bBDv", any_leg=Leg((), 3)),
    Program(
        "manifest",
        "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms",
        {b"\x04": (Leg((), 1),), b"\x0d": (Leg((), 2),), b"\x06": (BATCH_UPDATE,), b"": ()},
        manifest_swaps,
        how="transfers; log for batches",
    ),
    _proven("defituna", "fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9", any_leg=Leg((), 4)),
    _venue("saros_dlmm", "1qbkdrr3z4ryLA7pZykqxvxWPoeifcVKo6ZG9CfkvVE", any_leg=Leg((), 0)),
    _venue(
        "deriverse",
        "DRVSpZ2YUYYKgZP8XtLhAGtT1zYSCKzeHfb4DgRnrgqD",
        ("1a", _by_vaults(5, 3, 4)),
        is_pooled=True,
    ),
    _proven("aquifer", "AQU1FRd7papthgdrwPTTq5JacJh8YtwEXaBfKU3bTz45"),
    _venue(
        "jupiter_lend",
        "jupZ4m2GqUCJ5iueMfzQf8khFfH31d4XAQt3RzCT9Vd",
        ("8dac0ad04509389a ce24950ea3849401", _by_vaults(1, 13, 14)),
        only_heads=True,
    ),
    _venue("archer", "Archer8kgiavM61GyusMzaaS2ft5sALtNsD1HxkUPMhy"),
    _venue("whalestreet", "FW6zUqn4iKRaeopwwhwsquTY6ABWLLgjxtrC3VPnaWBf"),
    _venue("quay", "QUayE6nexQWYNZAEqfN8FxoNwQDSu3CAzT2qq9J1ArG"),
    _venue("flux", "FLUX6xBayGxLX9UcimVRxXFMHH6q43mAbRvDzSpCsvfK", ("03", _by_vaults(1, 2, 3))),
    _venue(
        "kipseli",
        "3TK9D8aoBFYjYZtKCjciPrVrRStsnvo7KmpcJqDavpaU",
        ("f0e02621b01ff1af", _by_vaults(1, 2, 3)),
    ),
    _venue("binaryfi", "B72M6nyCLFgWiJtAN4naUTminMiTmyGcEqQHXwVeRdht"),
    _venue("riptide", "riptK81hDxhe5pW5jSzSM9iRA8azgEgLJ4dXkPtBS7j", ("02", _by_vaults(1, 6, 7))),
    _venue("hadron", "HADRoNbLovyqhCsocfYQYB7QdfCAAinN9HTePvBCVDQ8"),
    _venue(
        "denali",
        "DNL1tgEj3nJovHw9jtyCCQD3arssCJzkmpDizknwzey4",
        ("68688356a1bdb4d8", _by_vaults(1, 4, 5)),
    ),
    _venue("obsidian", "HBVw6bZtcCaezhcBrmfyXBSBRWCdv72271xQ4GPvms2z", ("01", _by_vaults(1, 2, 3))),
    _venue("gatorswap", "gatorLx9aC1e5ZWAXscv5QRKiLXnLPLXjftVc81h1Hr"),
    _venue("flint", "FLiNTXPwppyoJabCoxc2uiiRygAHpmMXajiDXo2Ub1z"),
    _venue("lemmingsfi", "BQEJZUB4CzoT6UhRffoCkqCyqQNrCPCSGHcPEmsdbEsX"),
    _venue("metric", "Bvs46DPFxiFE6YHxLDLD6QAUcmy51FyRVPZJusPxLk3j"),
    _venue("taurusfi", "9VX8EKBg6vM6tA68xaDsPkbrx26XConZjkQmhVApUptc"),
    _venue(
        "metadao",
        "FUTARELBfJfQ8RDGhg1wdhddq1odMAJUePHFuBYfUxKq",
        ("a7610ce7ed4ea6fb", _by_vaults(0, 3, 4)),
    ),
    _venue("omnipair", "omnixgS8fnqHfCcTGKWj6JtKjzpJZ1Y5y9pyFkQDkYE", (SWAP, _by_vaults(0, 3, 4))),
    _venue(
        "runner_rodeo", "runnrXXdsSRkdueCRYxKDvSWfv6nAnrG5dcM29qj1HA", (SWAP, _by_vaults(0, 6, 7))
    ),
    _venue("trends", "CURVEmPpijXDTNdqrA9PGP1io2rkgiVXH26xdXVGLLfz", any_leg=_by_vaults(1, 7, 8)),
    _curve(
        "trench",
        "8ZoPDsvLWXthQaZz6aJJEWNFBZKk2ePuygi6LHT7F7Hh",
        (f"{BUY} 18d3742869039938 {SELL}", Leg((4,), 4)),
    ),
    _venue("scale", "SCALEwAvEK5gtkdHiFzXfPgtk2YwJxPDzaV3aDmR7tA", any_leg=_by_vaults(0, 7, 8)),
    _venue("scale_2", "SCALEWoRSpVZpMRqHEcDfNvBh3nUSe34jDr9r689gLa", any_leg=_by_vaults(0, 6, 7)),
    _venue(
        "virtuals",
        "5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki",
        (f"{BUY} {SELL}", _by_vaults(1, 5, 8)),
    ),
    _venue(
        "stableswap", "ghosty4ZU1Qk1HN7Ymz4pZ15QfspzJZgSYFkdKN6ZLK", any_leg=_by_vaults(10, 6, 7)
    ),
    _venue("cube", "8iQtGj9mcUfFUGaiCpPy89swC3s8YTC8FhVZWfgeZhwu"),
    _venue("stratabook", "strataZWURmW6bzMWpkLCAFxNFrQXCNSE9cSmBmdPgP"),
    _venue("wavebreak", "waveQX2yP3H1pVU8djGvEHmYg8uamQ84AuyGtpsrXTF"),
    _venue("orbit", "Fn3fA3fjsmpULNL7E9U79jKTe1KHxPtQeWdURCbJXCnM"),
    _proven("exa6gyh", "ExA6GYhHAeRNMWVNLrDir1SKPJZcZA2oaPq6uriSmxfJ"),
    _venue(
        "jupiter_perps",
        "PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu",
        (SWAP_2, Leg(())),
        only_heads=True,
    ),
    _venue("woofi", "WooFif76YGRNjk1pA8wCsN67aQsD9f9iLsz4NcJ1AVb"),
    _venue("perena", "NUMERUNsFCP3kuNmWZuXtm1AaQCPj9uw6Guv2Ekoi5P"),
    _venue("gavel", "srAMMzfVHVAtgSJc8iH6CfKzuWuUTzLHVCE81QU1rgi", ("00", _by_vaults(2, 6, 7))),
    _venue("stabble_clmm", "6dMXqGZ3ga2dikrYS9ovDXgHGh5RUsb2RTUj6hrQXhk6"),
    _proven(
        "stabble",
        "swapNyd8XiQwJ6ianp9snpu4brUqFxadzvHebnAXjJZ",
        (SWAP, _by_vaults(6, 3, 4)),
        (SWAP_V2, _by_vaults(8, 5, 6)),
        is_pooled=True,
    ),
    _proven(
        "stabble_weighted",
        "swapFpHZwjELNnjvThjajtiVmkz3yPQEHjLtka2fwHW",
        (SWAP, _by_vaults(6, 3, 4)),
        (SWAP_V2, _by_vaults(8, 5, 6)),
        is_pooled=True,
    ),
    _proven(
        "openbook_v2",
        "opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb",
        ("032c47031ac7cb55", _by_vaults(2, 6, 7)),
        only_heads=True,
    ),
    _proven(
        "goosefx_gamma", "GAMMA7meSFWaBXF25oSUgmGRwaW6sCMFLmBNiMSdbHVT", any_leg=_by_vaults(3, 6, 7)
    ),
    _venue("1dex", "DEXYosS6oEGvk8uCDayvwEZz4qEyDJRf9nFgYCaqPMTm", any_leg=_by_vaults(2, 3, 4)),
    _venue(
        "heaven",
        "HEAVENoP2qxoeuF8Dj2oT1GHEnu49U5mJYkdeC8BAX2o",
        (f"{BUY} {SELL}", _by_vaults(4, 10, 11)),
    ),
    _proven(
        "boop",
        "boop8hVGQGqehUK2iVEMEnMrL5RbjywRzHKBmBE7ry4",
        ("8a7f0e5b26577369 6d3d28bbe6b087ae", _by_vaults(1, 3, 4)),
        migrations={bytes.fromhex("a859631e753158e0"): Migration((19, 20), 18, 6)},
    ),
    _curve(
        "moonit",
        "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG",
        (f"{BUY} {SELL}", Leg((2,), 2)),
        ("4f4dabed9d31ebc6", Leg((3,), 3)),
    ),
    _proven("mercurial", "MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky", any_leg=Leg((), 0)),
    _proven("raydium_stable", "5quBtoiQqxF9Jv6KYKctB59NT3gtJD2Y65kdnB1Uev3h", any_leg=Leg((), 1)),
    _proven("jupiter_rfq_v2", "fd3nMFYTQjX1yr5ER8u7tPdHJB7qt8RpDpNtLQX2Br5", is_pooled=True),
    _proven("aldrin", "AMM55ShdkoGRB5jVYPjWziwk8m5MpwyDgsMWHaMSQWH6", (SWAP, _by_vaults(0, 3, 4))),
    _venue(
        "aldrin_v2", "CURVGoZn8zycx6FXwwevgBTB2gVvdbGTEpvMJDbgs2t4", (SWAP, _by_vaults(0, 3, 4))
    ),
    _venue("cropper", "H8W3ctz92svYg6mkn1UtGfu2aQr2fnUFHM1RhScEtQDt", (SWAP, _by_vaults(2, 4, 6))),
    _venue(
        "crema",
        "CLMM9tUoggJu2wagPkkqs9eFG4BWhVBZWkP1qv3Sp7tR",
        (f"{SWAP} 85d7bfd666f33719", _by_vaults(1, 6, 7)),
    ),
    _venue("guacswap", "Gswppe6ERWKpUTXvRPfXdzHhiCyJvLadVvXGfdpBqcE1", (SWAP, _by_vaults(1, 4, 5))),
    _venue("bonkswap", "BSwp6bEBihVLdqJRKGgzjcGLHkcTuzmSo1TQkHepzH8p", (SWAP, _by_vaults(1, 4, 5))),
    _venue("sanctum_infinity", "5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx"),
    _token_swap("saros_amm", "SSwapUtytfBdBn1b9NUGG6foMVPtcWgpRU32HToDUZr", proven=True),
    _token_swap("fluxbeam", "FLUXubRmkEi2q6K3Y9kBPg9248ggaZVsoSFhtJHSrm1X"),
    _token_swap("orca_v1", "DjVE6JNiYqPL2QXyCUUh8rNjHrbz9hXHNYt99MQ59qw1"),
    _token_swap("orca_v2", "9W959DqEETiGZocYWCQPaJ6sBmUzgfxXfqGeTEdp3aQP"),
    _token_swap("dexlab", "DSwpgjMvXhtGn6BsbqmacdBZyfLj6jSWf3HJpdJtmg6N"),
    _token_swap("dooar", "Dooar9JkhdZ7J3LHN3A7YCuoGRUggXhQaG4kijfLGU2j"),
    _token_swap("penguin", "PSwapMdSai8tjrEXcxFeQth87xC4rRsa4VA5mhGhXkP"),
    _token_swap("token_swap", "SwaPpA9LAaLfeLi3a68M4DjnLqgtticKg6CnyNwgAC8"),
)
