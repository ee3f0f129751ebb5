from hypothesis import given
from hypothesis import strategies as st

from mintscope.dex.outcome import QuoteKind, Swap
from mintscope.kit.primitives import Mint, Signature
from mintscope.market.quotes import oriented
from mintscope.solana.blocks import USDC, USDT, WSOL

TOKEN = Mint("DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263")
OTHER = Mint("7atgF8KQo4wJrD5ATGX7t1V2zVvykPJbFfNeVf1icFv1")


def swap(in_mint: Mint, out_mint: Mint) -> Swap:
    return Swap(
        Signature("s"), 0, 0, -1, 0, "solfi", "pool", in_mint, 11, 5, out_mint, 22, 6, "signer"
    )


def test_the_quote_is_a_dollar_or_else_sol() -> None:
    for pool_received, pool_paid, base, quote, kind, is_buy in (
        (USDC, TOKEN, TOKEN, USDC, QuoteKind.USD, True),
        (TOKEN, USDT, TOKEN, USDT, QuoteKind.USD, False),
        (WSOL, TOKEN, TOKEN, WSOL, QuoteKind.SOL, True),
        (TOKEN, WSOL, TOKEN, WSOL, QuoteKind.SOL, False),
        (WSOL, USDC, WSOL, USDC, QuoteKind.USD, False),
        (USDT, WSOL, WSOL, USDT, QuoteKind.USD, True),
        (USDC, USDT, USDC, USDT, QuoteKind.USD, False),
        (USDT, USDC, USDT, USDC, QuoteKind.USD, False),
    ):
        seen = oriented(swap(pool_received, pool_paid))

        assert seen is not None
        assert (seen.base, seen.quote, seen.quote_kind, seen.is_buy) == (base, quote, kind, is_buy)


def test_two_tokens_have_no_quote() -> None:
    assert oriented(swap(TOKEN, OTHER)) is None


@given(st.sampled_from((TOKEN, OTHER, WSOL, USDC, USDT)), st.sampled_from((WSOL, USDC, USDT)))
def test_amounts_and_decimals_stay_with_their_mint(a: Mint, b: Mint) -> None:
    if a == b:
        return
    for one in (swap(a, b), swap(b, a)):
        seen = oriented(one)

        assert seen is not None
        assert {
            (seen.base, seen.base_amount, seen.base_decimals),
            (seen.quote, seen.quote_amount, seen.quote_decimals),
        } == {(one.in_mint, 11, 5), (one.out_mint, 22, 6)}
        assert seen.is_buy == (seen.base == one.out_mint)
