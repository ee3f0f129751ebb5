"""`make bench`: every figure, each file in a process of its own, one after the other."""

import subprocess
import sys

MODULES = (
    "bench.decode",
    "bench.engine",
    "bench.http",
    "bench.freshness",
    "bench.payments",
    "bench.accounts",
)


DATA = (
    "made: transactions of the project's own chain, the same in every clone; recorded: mainnet's,\n"
    "where ../shared/data is; all other figures: seeded random numbers or traffic of their own.\n"
)


def main() -> int:
    print(DATA)
    print(f"{'what':44} {'who':34} {'value':>14} {'unit':14} {'ours is':>11}  goal")
    codes = [
        subprocess.run([sys.executable, "-m", module], check=False).returncode for module in MODULES
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
