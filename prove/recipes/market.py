"""Claims of `make prove` about trades on chain: order, forks, malformed data and outliers."""

from typing import Final

from prove.recipe import Mutant, Recipe

PRICING: Final = "market/pricing.py"
SOL_RATE: Final = "market/sol_rate.py"
STANDING: Final = "market/standing.py"
MEDIAN: Final = "market/median.py"
TAIL: Final = "market/engine/fold.py"

ORDER: Final = Recipe(
    name="order and forks",
    proves="candles depend on the set of living swaps alone: not on order, repeats, forks, crashes",
    tests=(
        "ingest/test_ingest.py",
        "market/test_tail.py",
        "market/test_fold.py",
        "e2e/test_ingest_storm.py",
    ),
    mutants=(
        Mutant(
            "a block that is known is taken again",
            TAIL,
            "return ours is not None and ours.blockhash == block.blockhash",
            "return False",
            ("market/test_tail.py", "ingest/test_ingest.py"),
        ),
        Mutant(
            "any block with the number of the parent is the parent",
            TAIL,
            "if parent.blockhash != block.parent_blockhash:",
            "if False:",
            ("market/test_tail.py", "ingest/test_ingest.py"),
        ),
        Mutant(
            "swaps of a slot stay in the order of arrival",
            PRICING,
            "ordered = sorted(swaps, key=_position)",
            "ordered = list(swaps)",
            ("market/test_pricing.py",),
        ),
    ),
)
POISON: Final = Recipe(
    name="poison and outliers",
    proves="no bytes of a transaction stop the decoder, and no absurd trade moves a price",
    tests=(
        "dex/test_total.py",
        "dex/test_events.py",
        "market/test_pricing.py",
        "ingest/test_ingest.py::test_a_transaction_that_breaks_the_decoder_is_quarantined_alone",
        "ingest/test_ingest.py::test_quarantined_transactions_are_kept_up_to_a_limit",
        "ingest/test_ingest.py::test_insane_amounts_neither_stop_ingest_nor_move_the_price",
    ),
    mutants=(
        Mutant(
            "one bad call hides its transaction",
            "dex/decode.py",
            "into.quarantined.append(_missed(transaction, call, token_accounts, unreadable))",
            "raise",
        ),
        Mutant(
            "dust sets the price",
            PRICING,
            "if seen.base_amount < DUST_RAW or seen.quote_amount < least:",
            "if False:",
        ),
        Mutant(
            "any rate of SOL is believed",
            PRICING,
            "if RATE_MIN <= price <= RATE_MAX:",
            "if True:",
        ),
        Mutant(
            "any price is believed",
            PRICING,
            "if not PRICE_USD_MIN <= price_usd <= PRICE_USD_MAX or not isfinite(price_sol):",
            "if False:",
        ),
    ),
)

BOUGHT: Final = Recipe(
    name="bought prices",
    proves="what little money buys moves no price or candle; honest moves are followed in 10 s",
    tests=(
        "e2e/test_bought_prices.py",
        "e2e/test_bought_extremes.py",
        "market/test_price_rules.py",
        "market/test_standing.py",
        "market/test_standing_definition.py",
        "market/test_standing_weights.py",
        "market/test_sol_rate.py",
    ),
    mutants=(
        Mutant(
            "the deepest pool of SOL decides its rate",
            SOL_RATE,
            "return (second + rest) / 2 if second <= rest else rest",
            "return None",
            ("e2e/test_bought_prices.py",),
        ),
        Mutant(
            "one signer has a vote in every pool, and no limit",
            SOL_RATE,
            "lowered = _lowered(_lowered(votes, OF_SIGNER), OF_POOL)",
            "lowered = _lowered(votes, OF_POOL)",
            ("market/test_sol_rate.py",),
        ),
        Mutant(
            "SOL has the price of its newest swap",
            PRICING,
            "usd = of_sol",
            "pass",
            ("market/test_sol_rate.py",),
        ),
        Mutant(
            "a pool of any weight tips the median",
            STANDING,
            "if weight < least and (place not in silent or SILENT * weight < least):",
            "if False:",
            ("market/test_standing_definition.py", "market/test_standing.py"),
        ),
        Mutant(
            "money counts at once",
            STANDING,
            "weighed[place] *= pool.stood_s / oldest_s",
            "pass",
            ("e2e/test_bought_prices.py",),
        ),
        Mutant(
            "a pool that is left weighs what stood in it",
            STANDING,
            "return self.depth / SILENT * part",
            "return float(self.depth)",
            ("e2e/test_bought_prices.py",),
        ),
        Mutant(
            "a deep pool that begins in a pause decides at once",
            STANDING,
            "if 0 <= oldest_s <= SILENCE_MAX_S and oldest_s <= pools[place].rival_s:",
            "if False:",
            ("market/test_standing_weights.py",),
        ),
        Mutant(
            "swaps within one second make pauses short",
            STANDING,
            "lull_s += (gap_s - lull_s) * (gap_s / of_s if gap_s < of_s else 1.0)",
            "lull_s = 2 * pool.pause_s",
            ("market/test_standing_weights.py",),
        ),
        Mutant(
            "a hair of weight decides between two pools",
            STANDING,
            "low, high = middle([pool.usd for pool in pools], counting, silent, TIE)",
            "low, high = middle([pool.usd for pool in pools], counting, silent, 0)",
            ("market/test_standing_weights.py",),
        ),
        Mutant(
            "all markets of a venue that names no pool are one",
            "dex/transfers.py",
            "return BETWEEN_VAULTS.join(sorted(names))",
            "return token_accounts.owner(known[0])",
            ("e2e/test_bought_prices.py",),
        ),
        Mutant(
            "money out of range counts",
            STANDING,
            "return depth if shown is None or shown > depth else shown",
            "return depth",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "one signer is as good as three",
            STANDING,
            "weighed[place] *= len(pool.signers) / SIGNERS",
            "pass",
            ("market/test_standing_definition.py",),
        ),
        Mutant(
            "one sum counts in each pool that it goes through",
            MEDIAN,
            "return min(self.trading / self.heaviest, SILENT) if self.heaviest else 0.0",
            "return 1.0 if self.heaviest else 0.0",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "one sum counts in any number of pools",
            MEDIAN,
            "return min(self.trading + self.silent * times_seen, TIMES_HEAVIEST * self.deepest)",
            "return self.trading + self.silent * times_seen",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "silent pools help against silent ones",
            MEDIAN,
            "return one.against(other.times_seen), other.against(one.times_seen)",
            "return one.against(max(other.times_seen, 1)), other.against(max(one.times_seen, 1))",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "many small pools count nothing in a pause",
            STANDING,
            "if weight < least and (place not in silent or SILENT * weight < least):",
            "if weight < least:",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "ten minutes are enough to put out pools of hours",
            STANDING,
            "stood_s = min(PROVEN_S, stood_s + gap_s)",
            "stood_s = min(OLD_S, stood_s + gap_s)",
            ("market/test_standing_weights.py",),
        ),
        Mutant(
            "a token of one's own is depth",
            PRICING,
            "depth = depth if depth is None or behind is None else min(depth, behind)",
            "pass",
            ("market/test_quotes.py",),
        ),
        Mutant(
            "money of a second is money of half a minute",
            STANDING,
            "return min(left, depth), pool.low if passed == 1 else left",
            "return depth, pool.low",
            ("market/test_standing_definition.py", "market/test_price_rules.py"),
        ),
        Mutant(
            "fees between purchases and sales are a move",
            STANDING,
            "if not is_of_one_side or offer.volume * DUST < pool.low:",
            "if offer.volume * DUST < pool.low:",
            ("market/test_standing_definition.py",),
        ),
        Mutant(
            "money of a moment puts out pools that decide",
            STANDING,
            "others = by_proof[PROVEN_MAX:]",
            "others = by_proof[1:]",
            ("market/test_standing_weights.py",),
        ),
        Mutant(
            "a pool that trades puts out honest ones in their pause",
            STANDING,
            "proven = [_proven(pool, offer.time) for pool in pools]",
            "proven = weights(pools, offer.time)",
            ("market/test_price_rules.py",),
        ),
        Mutant(
            "a fee that falls is a move",
            STANDING,
            "move = min(move, (ratio if is_up else 1 / ratio) - 1)",
            "pass",
            ("market/test_standing_definition.py", "market/test_standing_weights.py"),
        ),
        Mutant(
            "a sale before a jump hides it",
            STANDING,
            "if is_up != offer.is_buy:  # a falling fee moves no price of the other side",
            "if True:",
            ("market/test_standing_definition.py", "market/test_price_rules.py"),
        ),
        Mutant(
            "money that stood once is behind a token for ever",
            "market/quotes.py",
            "if low <= one.usd <= high and time - one.at <= ROBUST_FRESH_S",
            "if low <= one.usd <= high",
            ("market/test_quotes.py",),
        ),
        Mutant(
            "the legs of a loop set prices",
            PRICING,
            "trips |= dict.fromkeys(_loops(together), Trip.LOOP)",
            "pass",
            ("e2e/test_bought_extremes.py",),
        ),
        Mutant(
            "a pool that went both ways sets prices",
            PRICING,
            "trips |= dict.fromkeys(_ways_back(together), Trip.BACK)",
            "pass",
            ("e2e/test_bought_extremes.py",),
        ),
    ),
)

LAUNCHED: Final = Recipe(
    name="prices of launches",
    proves="the price of a real launch is that of its deepest pool in 99 % of seconds",
    tests=("e2e/test_launch_prices.py",),
    mutants=(
        Mutant(
            "a migration is not followed",
            STANDING,
            "if left is None:",
            "if True:",
            ("market/test_successors.py",),
        ),
        Mutant(
            "a curve that is left weighs what stood in it",
            STANDING,
            "return self.depth / SILENT * part",
            "return float(self.depth)",
        ),
    ),
)
VOLUMES: Final = Recipe(
    name="volumes",
    proves="sums of volume over all widths agree with the swaps that count",
    tests=(
        "market/test_volumes_add_up.py",
        "market/test_excluded_volume.py",
        "market/test_volume_of_routes.py",
    ),
    mutants=(
        Mutant(
            "a round trip is volume",
            PRICING,
            "volume = 0 if uncounted else flow",
            "volume = flow",
            ("market/test_volumes_add_up.py",),
        ),
        Mutant(
            "dust in a pool of one's own is volume",
            PRICING,
            "is_volume = counts and not evidence.uncounted and evidence.flow <= DUST_VOLUME",
            "is_volume = not evidence.uncounted and evidence.flow <= DUST_VOLUME",
            ("market/test_excluded_volume.py",),
        ),
        Mutant(
            "a backfill that joins keeps its volume",
            "history/backfill.py",
            "return evidence.flow if sets and not evidence.uncounted else 0",
            "return swap.volume",
            ("market/test_excluded_volume.py",),
        ),
    ),
)

RECIPES: Final = (ORDER, POISON, BOUGHT, LAUNCHED, VOLUMES)
