"""Base58 text is the same as that of a native encoder, at every length."""

from random import Random

import pytest
from based58 import b58encode

from mintscope_devchain.addresses import text


@pytest.mark.parametrize("zeros", [0, 1, 3])
@pytest.mark.parametrize("length", [0, 1, 31, 32, 64, 65, 70, 128, 300, 700])
def test_base58_text_equals_that_of_a_native_encoder(zeros: int, length: int) -> None:
    data = bytes(zeros) + Random(length).randbytes(length)

    assert text(data) == b58encode(data).decode()
