"""The index of names finds the same names as a search through all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mintscope.market.screening.look_alikes import NameIndex, search_line, searched

TEXTS = st.text("abA \u00e9", max_size=4)
LINES = st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), max_size=12)


@given(LINES, TEXTS)
def test_a_text_is_found_in_the_lines_that_contain_it(
    names: list[tuple[str | None, str | None]], text: str
) -> None:
    lines = [search_line(name, symbol) for name, symbol in names]
    index = NameIndex(lines, np.array([len(line) for line in lines], np.int32))

    assert index.find(text).tolist() == [searched(text) in line for line in lines]
