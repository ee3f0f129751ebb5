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


def main() -> int:
    print(f"{'what':44} {'who':34} {'value':>14} {'unit':14} {'ours is':>11}  goal")
    codes = [
        subprocess.run([sys.executable, "-m", module], check=False).returncode for module in MODULES
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
