"""The layouts of the swap instructions of every venue, written by hand from public descriptions.

No data comes from the table of the decoder, so neither source can hide a mistake of the other.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ANY: Final = "2a"
"""The first bytes for a program without published instructions; any bytes will do."""
BY_VAULTS: Final = None
ROUTERS: Final = (
    "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4",
    "JUP4Fb2cqiRUcaTHdrPC8h2gNsA2ETXiPDD33WcGuJB",
    "JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo",
    "JUP3c2Uh3WA4Ng34tw6kPd2G4C5BB21Xo36Je1s32Ph",
    "Sett1erwx2eqT5A8uvu8GBxDFT2W5TNnhirL7hLmb8m",
    "REALp6iMBDTctQqpmhBo4PumwJGcybbnDpxtax3ara3",
    "GMGNreQcJFufBiCTLDBgKhYEfEe9B454UjpDr5CaSLA1",
    "AveaiuA1emN71q9mS2QQ9BEWNAAHmp8sHSvwLFHQjufM",
    "b1oomGGqPKGD6errbyfbVMBuzSC8WtAAYo8MwNafWW1",
    "BANANAjs7FJiPQqJTGFzkZJndT9o7UmKiYYGaJz6frGu",
    "MaestroAAe9ge5HTc64VbBQZ6fP77pwvrhM8i1XWSAx",
    "minTcHYRLVPubRK8nt6sqe2ZpWrGDLQoNLipDJCGocY",
    "MAyhSmzXzV1pTf7LsNkrNwkWKTo4ougAJ1PPg47MD4e",
    "NinafKYvKDCH26v6uEpfDjyuDjjpbdfhiPjrJV6FTFs",
    "MtvwNH8eijJV3Pxcak9ZzsXeX7rWiAB2QGaPz1XDpd2",
    "Prism8hsRo6Ww5jiN5Zeh3YDPLZHqHduCPSAV7JF7qv",
)
"""Routers and trading bots, which call venues."""
# The fields of the event of pump.fun: mint, SOL, tokens, whether it is a purchase, user; further
# on, the mint of the quote.
TRADE_EVENT: Final = ("bddb7fd34ee661ee", 32, 40)
RAYDIUM_AUTHORITY: Final = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


@dataclass(frozen=True)
class Layout:
    """One swap instruction of a venue; positions count its accounts from 0.

    heads    the names of Anchor instructions, or the first bytes of instructions in hex
    pools    the positions of the pools, more than one if the instruction has several hops; None:
             the two vaults name the pool
    users    the positions of the accounts of the trader: the paying and the receiving account
    vaults   the positions of the vaults: the receiving and the paying vault
    owner    the owner of both vaults: a position or an address, or two positions; "vault": each
             vault owns itself; "pool": the pool, which has no position; None: an account that
             the instruction does not have
    moves    "tokens"; "curve": buyers pay SOL as lamports, and sales are paid without a transfer;
             "shares": the fee of the owner is also minted; "through": another program moves the
             tokens
    curve    for a curve: the positions of the mint, of the trader, and of the mint of the quote if
             it has one
    event    the first bytes of an event in hex, and the offsets of the amounts that the pool
             received and paid
    """

    name: str
    address: str
    heads: str = ANY
    pools: tuple[int, ...] | None = BY_VAULTS
    users: tuple[int, int] | None = None
    vaults: tuple[int, int] | None = None
    owner: int | str | tuple[int, int] | None = None
    moves: str = "tokens"
    curve: tuple[int, int, int | None] | None = None
    event: tuple[str, int, int] | None = None

    def instructions(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the first bytes of each instruction of the venue."""
        for head in self.heads.split():
            try:
                yield head, bytes.fromhex(head)
            except ValueError:
                yield head, hashlib.sha256(f"global:{head}".encode()).digest()[:8]


def _clmm(name: str, address: str, heads: str) -> Layout:
    """Return a venue with the layout of Raydium's concentrated liquidity pools."""
    return Layout(name, address, heads, (2,), (3, 4), (5, 6), owner=2)


def _token_swap(name: str, address: str) -> Layout:
    """Return the layout of a venue that is a copy of SPL token-swap."""
    return Layout(name, address, "01", (0,), (3, 6), (4, 5), owner=1, moves="shares")


def _stabble(name: str, address: str) -> tuple[Layout, Layout]:
    """Return both layouts of a Stabble venue: in the second one, accounts begin with mints."""
    return (
        Layout(name, address, "swap", (6,), (1, 2), (3, 4)),
        Layout(name, address, "swap_v2", (8,), (3, 4), (5, 6)),
    )


PUBLISHED: Final = (
    Layout("pumpfun", "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P", "buy sell buy_exact_sol_in",
           (3,), moves="curve", curve=(2, 6, None), event=TRADE_EVENT),
    Layout("pumpfun", "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P",
           "buy_v2 sell_v2 buy_exact_quote_in_v2", (10,), moves="curve", curve=(1, 13, 2),
           event=TRADE_EVENT),
    Layout("pumpfun", "6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P",
           "buy_v3 sell_v3 buy_exact_quote_in_v3", (5,), moves="curve", curve=(1, 8, 2),
           event=TRADE_EVENT),
    Layout("pumpswap", "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA", "sell", (0,), (5, 6), (7, 8),
           owner=0, event=("3e2f370aa503dc2a", 8, 96)),
    Layout("pumpswap", "pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA", "buy buy_exact_quote_in",
           (0,), (6, 5), (8, 7), owner=0, event=("67f4521f2cf57777", 96, 8)),
    Layout("raydium_v4", "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8", "09 0b", (1,), (15, 16),
           (5, 6), owner=RAYDIUM_AUTHORITY),
    Layout("raydium_v4", "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8", "10 11", (1,), (5, 6),
           (3, 4), owner=RAYDIUM_AUTHORITY),
    Layout("raydium_cpmm", "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C",
           "swap_base_input swap_base_output", (3,), (4, 5), (6, 7),
           owner="GpMZbSM2GgvTKHJirzeGfMFoaZ8UR2X7F4v8vHTvxFbL"),
    _clmm("raydium_clmm", "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK", "swap swap_v2"),
    Layout("raydium_clmm", "CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK", "swap_router_base_in",
           BY_VAULTS, (1, 7), owner="pool"),
    Layout("raydium_launchlab", "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj",
           "sell_exact_in sell_exact_out", (4,), (5, 6), (7, 8),
           owner="WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh",
           event=("bddb7fd34ee661ee", 88, 96)),
    Layout("raydium_launchlab", "LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj",
           "buy_exact_in buy_exact_out", (4,), (6, 5), (8, 7),
           owner="WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh",
           event=("bddb7fd34ee661ee", 88, 96)),
    Layout("orca_whirlpool", "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "swap", (2,), (3, 5),
           (4, 6), owner=2),
    Layout("orca_whirlpool", "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "swap_v2", (4,),
           (7, 9), (8, 10), owner=4),
    Layout("orca_whirlpool", "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "two_hop_swap", (2, 3)),
    Layout("orca_whirlpool", "whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "two_hop_swap_v2",
           (0, 1)),
    Layout("meteora_dlmm", "LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo",
           "swap swap2 swap_exact_out swap_exact_out2 swap_with_price_impact"
           " swap_with_price_impact2",
           (0,), (4, 5), (2, 3), owner=0, event=("516ce3becdd00ac4", 72, 80)),
    Layout("meteora_damm_v1", "Eo7WjKq67rjJQSZxS6z3YkapzY3eMj6Xy8X5EQVn5UaB", "swap", (0,), (1, 2),
           (5, 6), owner=(3, 4), moves="through"),
    Layout("meteora_damm_v2", "cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG", "swap swap2", (1,),
           (2, 3), (4, 5), owner="HLnpSz9h2S4hiLQ43rnSD9XkcUThA7B8hQMKmDaiTLcC",
           event=("bd4233a826507599", 132, 140)),
    Layout("meteora_dbc", "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN", "swap swap2", (2,),
           (3, 4), (5, 6), owner="FhVo3mqL8PW5pH5U2CN4XE33DokiyZnUwuGpH2hmHLuM",
           event=("bd4233a826507599", 83, 107)),
    Layout("meteora_dbc", "dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN",
           "swap2_with_transfer_hook", (1,), (2, 3), (4, 5),
           owner="FhVo3mqL8PW5pH5U2CN4XE33DokiyZnUwuGpH2hmHLuM",
           event=("863ba8785e3372e7", 83, 107)),
    Layout("phoenix", "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY", "00", (2,), (4, 5), (6, 7),
           owner="vault"),
    Layout("lifinity_v2", "2wT8Yq49kHgDzXuPxZSaeLaH1qbmGXtEyPy64bL7aD3c", "swap", (1,), (3, 4),
           (5, 6), owner=0),
    _clmm("pancake_clmm", "HpNfyc2Saw7RKkQd8nEL4khUcuPhQ7WwY1B2qjx8jxFq", "swap swap_v2"),
    _clmm("byreal_clmm", "REALQqNEomY6cQGZJUGwywTBD2UmDT32rZcNnfxQ5N2", "swap swap_v2 swap_v3_dyn"),
    Layout("saber", "SSwpkEEcbUqx4vtoEByFjSkhKdCT862DNVb52nZg1UZ", "01", (0,), (3, 6), (4, 5),
           owner=1),
    Layout("invariant", "HyaB3W9q6XdA5xwpU4XnSZV94htfmbmqJXZcEbRaJutt", "swap", (1,), (3, 4),
           (5, 6), owner=8),
    Layout("jupiter_rfq", "61DFfeTKM7trxYcPQCM78bJ794ddZprZpAwAnLiwTpYH", "fill", BY_VAULTS,
           (2, 4), (3, 5), owner=1),
    Layout("jupiter_rfq_second", "2En5Y11SEAGLNmEezTuRUCwTyzyNReHaMbSnS5gjGsL1", "fill", BY_VAULTS,
           (2, 4), (3, 5), owner=1),
)  # fmt: skip

# Positions of pools, user accounts and vaults, from public decoders and trade records of 2026.
# If a row has only an address, the vaults name the pool.
BY_WHAT_MOVED: Final = (
    Layout("solfi", "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe", "07", (1,), owner=1),
    Layout("solfi_v2", "SV2EYYJyRz2YhfXwXnhNAevDEui5Q6yrfyo13WtupPF", "07", (1,)),
    Layout("humidifi", "9H6tua7jkLhdm3w8BvgpTn5LZNU7g4ZynDmCiNN3q6Rp", ANY, (1,), owner=1),
    Layout("zerofi", "ZERor4xhbUycZ6gb9ntrhqscUcZmAbQDjEAtCf4hbZY", "06", (0,), (5, 6), (2, 4),
           owner="vault"),
    Layout("goonfi", "goonERTdGsjnkZqWuVjs73BZ3Pb9qoCUdBUL17BnS5j", "02", (1,), owner=1),
    Layout("goonfi_v2", "goonuddtQRrWqqn5nFyczVKaie28f3kDkHWkHtURSLE", "01", (1,)),
    Layout("obric_v2", "obriQD1zbpyLz95G5n7nJe6a4DPjpFwa5XYPoNm113y", ANY, (0,), owner=0),
    Layout("tessera", "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH", "10", (1,)),
    Layout("unnamed_amm", "6RCmQ8XMQCJnPbNDQa8U9ucAS9hk4tXQeps96V7p6aRY"),
    Layout("bisonfi", "BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi", "02", (1,)),
    Layout("alphaq", "ALPHAQmeA7bjrVuccPsYPiCvsi428SNwte66Srvs4pHA", "0c", (1,)),
    Layout("scorch", "SCoRcH8c2dpjvcJD6FiPbCSQyQgu3PcUAWj2Xxx3mqn", "01", (11,)),
    Layout("scorch", "SCoRcH8c2dpjvcJD6FiPbCSQyQgu3PcUAWj2Xxx3mqn", "02", (15,)),
    Layout("quantum", "QuaNtZsgYRe5Z9Bk4LZ4cTD9tbkVoyCNf1R2BN9bBDv", ANY, (3,)),
    Layout("manifest", "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms", "04", (1,)),
    Layout("manifest", "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms", "0d", (2,)),
    Layout("defituna", "fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9", "swap", (4,)),
    Layout("saros_dlmm", "1qbkdrr3z4ryLA7pZykqxvxWPoeifcVKo6ZG9CfkvVE", "swap", (0,)),
    Layout("deriverse", "DRVSpZ2YUYYKgZP8XtLhAGtT1zYSCKzeHfb4DgRnrgqD", "1a", (5,), (11, 12),
           (3, 4)),
    Layout("aquifer", "AQU1FRd7papthgdrwPTTq5JacJh8YtwEXaBfKU3bTz45", "01 13"),
    Layout("jupiter_lend", "jupZ4m2GqUCJ5iueMfzQf8khFfH31d4XAQt3RzCT9Vd", "swap_in swap_out", (1,),
           (2, 3), (13, 14), moves="through"),
    Layout("archer", "Archer8kgiavM61GyusMzaaS2ft5sALtNsD1HxkUPMhy", "0f"),
    Layout("whalestreet", "FW6zUqn4iKRaeopwwhwsquTY6ABWLLgjxtrC3VPnaWBf", "swap swap_v2"),
    Layout("quay", "QUayE6nexQWYNZAEqfN8FxoNwQDSu3CAzT2qq9J1ArG", "20 21"),
    Layout("flux", "FLUX6xBayGxLX9UcimVRxXFMHH6q43mAbRvDzSpCsvfK", "03", (1,), (4, 5), (2, 3)),
    Layout("kipseli", "3TK9D8aoBFYjYZtKCjciPrVrRStsnvo7KmpcJqDavpaU", "swap_v3", (1,), (6, 7),
           (2, 3)),
    Layout("binaryfi", "B72M6nyCLFgWiJtAN4naUTminMiTmyGcEqQHXwVeRdht", "08"),
    Layout("riptide", "riptK81hDxhe5pW5jSzSM9iRA8azgEgLJ4dXkPtBS7j", "02", (1,), (4, 5), (6, 7)),
    Layout("hadron", "HADRoNbLovyqhCsocfYQYB7QdfCAAinN9HTePvBCVDQ8", "03"),
    Layout("denali", "DNL1tgEj3nJovHw9jtyCCQD3arssCJzkmpDizknwzey4", "swap_exact_in", (1,),
           (10, 11), (4, 5)),
    Layout("obsidian", "HBVw6bZtcCaezhcBrmfyXBSBRWCdv72271xQ4GPvms2z", "01", (1,), (4, 5), (2, 3)),
    Layout("gatorswap", "gatorLx9aC1e5ZWAXscv5QRKiLXnLPLXjftVc81h1Hr"),
    Layout("flint", "FLiNTXPwppyoJabCoxc2uiiRygAHpmMXajiDXo2Ub1z", "06"),
    Layout("lemmingsfi", "BQEJZUB4CzoT6UhRffoCkqCyqQNrCPCSGHcPEmsdbEsX"),
    Layout("metric", "Bvs46DPFxiFE6YHxLDLD6QAUcmy51FyRVPZJusPxLk3j", "01"),
    Layout("taurusfi", "9VX8EKBg6vM6tA68xaDsPkbrx26XConZjkQmhVApUptc", "08"),
    Layout("metadao", "FUTARELBfJfQ8RDGhg1wdhddq1odMAJUePHFuBYfUxKq", "spot_swap", (0,), (1, 2),
           (3, 4)),
    Layout("omnipair", "omnixgS8fnqHfCcTGKWj6JtKjzpJZ1Y5y9pyFkQDkYE", "swap", (0,), (5, 6), (3, 4)),
    Layout("runner_rodeo", "runnrXXdsSRkdueCRYxKDvSWfv6nAnrG5dcM29qj1HA", "swap", (0,), (4, 5),
           (6, 7)),
    Layout("trends", "CURVEmPpijXDTNdqrA9PGP1io2rkgiVXH26xdXVGLLfz", ANY, (1,), (3, 4), (7, 8)),
    Layout("trench", "8ZoPDsvLWXthQaZz6aJJEWNFBZKk2ePuygi6LHT7F7Hh", "buy buy_exact_out sell",
           (4,), moves="curve", curve=(3, 0, None)),
    Layout("scale", "SCALEwAvEK5gtkdHiFzXfPgtk2YwJxPDzaV3aDmR7tA", ANY, (0,), (5, 6), (7, 8)),
    Layout("scale_2", "SCALEWoRSpVZpMRqHEcDfNvBh3nUSe34jDr9r689gLa", ANY, (0,), (4, 5), (6, 7)),
    Layout("virtuals", "5U3EU2ubXtK84QcRjWVmYt9RaDyA8gKxdUrPFXmZyaki", "buy sell", (1,),
           vaults=(5, 8)),
    Layout("stableswap", "ghosty4ZU1Qk1HN7Ymz4pZ15QfspzJZgSYFkdKN6ZLK", ANY, (10,), (8, 9), (6, 7)),
    Layout("cube", "8iQtGj9mcUfFUGaiCpPy89swC3s8YTC8FhVZWfgeZhwu"),
    Layout("stratabook", "strataZWURmW6bzMWpkLCAFxNFrQXCNSE9cSmBmdPgP"),
    Layout("wavebreak", "waveQX2yP3H1pVU8djGvEHmYg8uamQ84AuyGtpsrXTF", "08 0a"),
    Layout("orbit", "Fn3fA3fjsmpULNL7E9U79jKTe1KHxPtQeWdURCbJXCnM"),
    Layout("exa6gyh", "ExA6GYhHAeRNMWVNLrDir1SKPJZcZA2oaPq6uriSmxfJ"),
    Layout("jupiter_perps", "PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu", "swap2"),
    Layout("woofi", "WooFif76YGRNjk1pA8wCsN67aQsD9f9iLsz4NcJ1AVb"),
    Layout("perena", "NUMERUNsFCP3kuNmWZuXtm1AaQCPj9uw6Guv2Ekoi5P"),
    Layout("gavel", "srAMMzfVHVAtgSJc8iH6CfKzuWuUTzLHVCE81QU1rgi", "00", (2,), (4, 5), (6, 7)),
    Layout("stabble_clmm", "6dMXqGZ3ga2dikrYS9ovDXgHGh5RUsb2RTUj6hrQXhk6"),
    *_stabble("stabble", "swapNyd8XiQwJ6ianp9snpu4brUqFxadzvHebnAXjJZ"),
    *_stabble("stabble_weighted", "swapFpHZwjELNnjvThjajtiVmkz3yPQEHjLtka2fwHW"),
    Layout("openbook_v2", "opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb", "place_take_order", (2,),
           (9, 10), (6, 7)),
    Layout("goosefx_gamma", "GAMMA7meSFWaBXF25oSUgmGRwaW6sCMFLmBNiMSdbHVT", ANY, (3,), (4, 5),
           (6, 7)),
    Layout("1dex", "DEXYosS6oEGvk8uCDayvwEZz4qEyDJRf9nFgYCaqPMTm", ANY, (2,), vaults=(3, 4)),
    Layout("cropper", "H8W3ctz92svYg6mkn1UtGfu2aQr2fnUFHM1RhScEtQDt", "swap", (2,), (3, 5), (4, 6)),
    Layout("crema", "CLMM9tUoggJu2wagPkkqs9eFG4BWhVBZWkP1qv3Sp7tR", "swap swap_with_partner", (1,),
           (4, 5), (6, 7)),
    Layout("guacswap", "Gswppe6ERWKpUTXvRPfXdzHhiCyJvLadVvXGfdpBqcE1", "swap", (1,), (6, 7),
           (4, 5)),
    Layout("bonkswap", "BSwp6bEBihVLdqJRKGgzjcGLHkcTuzmSo1TQkHepzH8p", "swap", (1,), (6, 7),
           (4, 5)),
    Layout("heaven", "HEAVENoP2qxoeuF8Dj2oT1GHEnu49U5mJYkdeC8BAX2o", "buy sell", (4,),
           vaults=(10, 11)),
    Layout("boop", "boop8hVGQGqehUK2iVEMEnMrL5RbjywRzHKBmBE7ry4", "buy_token sell_token", (1,),
           (5, 6), (3, 4)),
    Layout("moonit", "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG", "buy sell", (2,),
           moves="curve", curve=(6, 0, None)),
    Layout("moonit", "MoonCVVNZFSYkqNXP6bxHLPL6QQJiMagDL3qcqUQTrG", "buy_with_be_authority", (3,),
           moves="curve", curve=(7, 1, None)),
    Layout("mercurial", "MERLuDFBMmsHnsBPZw2sDQZHvXFMwp8EdjudcU2HKky", "04", (0,)),
    Layout("raydium_stable", "5quBtoiQqxF9Jv6KYKctB59NT3gtJD2Y65kdnB1Uev3h", "09", (1,)),
    Layout("jupiter_rfq_v2", "fd3nMFYTQjX1yr5ER8u7tPdHJB7qt8RpDpNtLQX2Br5"),
    Layout("aldrin", "AMM55ShdkoGRB5jVYPjWziwk8m5MpwyDgsMWHaMSQWH6", "swap", (0,), (5, 6), (3, 4)),
    Layout("aldrin_v2", "CURVGoZn8zycx6FXwwevgBTB2gVvdbGTEpvMJDbgs2t4", "swap", (0,), (5, 6),
           (3, 4)),
    Layout("sanctum_infinity", "5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx"),
    _token_swap("saros_amm", "SSwapUtytfBdBn1b9NUGG6foMVPtcWgpRU32HToDUZr"),
    _token_swap("fluxbeam", "FLUXubRmkEi2q6K3Y9kBPg9248ggaZVsoSFhtJHSrm1X"),
    _token_swap("orca_v1", "DjVE6JNiYqPL2QXyCUUh8rNjHrbz9hXHNYt99MQ59qw1"),
    _token_swap("orca_v2", "9W959DqEETiGZocYWCQPaJ6sBmUzgfxXfqGeTEdp3aQP"),
    _token_swap("dexlab", "DSwpgjMvXhtGn6BsbqmacdBZyfLj6jSWf3HJpdJtmg6N"),
    _token_swap("dooar", "Dooar9JkhdZ7J3LHN3A7YCuoGRUggXhQaG4kijfLGU2j"),
    _token_swap("penguin", "PSwapMdSai8tjrEXcxFeQth87xC4rRsa4VA5mhGhXkP"),
    _token_swap("token_swap", "SwaPpA9LAaLfeLi3a68M4DjnLqgtticKg6CnyNwgAC8"),
)  # fmt: skip
LAYOUTS: Final = (*PUBLISHED, *BY_WHAT_MOVED)
