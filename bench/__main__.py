"""`make bench`: every figure, each file in a process of its own, one after the other."""

import argparse
import subprocess
import sys

from bench.figure import KEPT

NAMES = ("decode", "engine", "http", "freshness", "payments", "accounts", "forgot")
FLOODS = "floods"


DATA = (
    "made: transactions of the project's own chain, the same in every clone; recorded: mainnet's,\n"
    "where ../shared/data is; all other figures: seeded random numbers or traffic of their own.\n"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure, and print every figure beside its peer."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one or more of {', '.join(NAMES)}, by default all of them; or floods: a minute each",
    )
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - {*NAMES, FLOODS}:
        parser.error(f"expected names of {', '.join(NAMES)}; there were {', '.join(unknown)}")
    print(DATA)
    print(f"{'what':44} {'who':34} {'value':>14} {'unit':14} {'ours is':>11}  goal")
    for name in names:  # what was kept of an earlier run is no figure of this one
        (KEPT / f"{name}.jsonl").unlink(missing_ok=True)
    codes = [
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        for name in names
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
