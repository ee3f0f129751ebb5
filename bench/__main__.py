"""`make bench`: measures all figures, each file in a separate process, one after the other."""

import argparse
import subprocess
import sys

from bench import head
from bench.compare import compare
from bench.figure import HEAD, KEPT

NAMES = (
    *("decode", "catch_up", "engine", "slots", "http", "batch", "series"),
    *("lists", "screen", "backtest", "signals", "streams", "freshness", "page"),
    *("payments", "accounts", "forgot", "starting", "limits", "debits", "replicas"),
)
FLOODS = "floods"


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
    parser.add_argument(
        "--compare", metavar="REV", help="a revision to run beside this one: figure by figure"
    )
    asked = parser.parse_args()
    names = asked.names or NAMES
    if unknown := set(names) - {*NAMES, FLOODS}:
        parser.error(f"expected names of {', '.join(NAMES)}; there were {', '.join(unknown)}")
    for what, which in head.rows():
        print(f"{what:12} {which}")
    print(flush=True)
    for name in names:  # remove the stored figures of an earlier run
        (KEPT / f"{name}.jsonl").unlink(missing_ok=True)
    if asked.compare:
        return compare(asked.compare, names)
    print(HEAD, flush=True)
    codes = [
        subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        for name in names
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
