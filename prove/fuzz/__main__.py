"""`make fuzz`: each target gets generated input for FUZZ_S seconds (60 by default).

A target is allowed to raise the exceptions in its `refusals`.  Any other exception is a find: its
input is made as short as possible, and printed.  Options: `make fuzz ARGS="--only base58"`.
"""

import argparse
import logging
import os
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import structlog
from hypothesis import HealthCheck, Phase, Verbosity, given, settings

from prove.fuzz import chains, claims, clients, payments, prices, requests
from prove.fuzz.outcome import KEPT, Fuzzed
from prove.fuzz.target import Target

TARGETS: Final = {
    **payments.TARGETS,
    **chains.TARGETS,
    **prices.TARGETS,
    **clients.TARGETS,
    **requests.TARGETS,
    **claims.TARGETS,
}
USUAL_S: Final = 60
BATCH: Final = 1_000  # the number of inputs between two reads of the clock


def fuzz(target: Target, seconds: float) -> Fuzzed:
    """Try inputs of *target* for *seconds*, or until one raises an unexpected exception."""
    began_s = time.monotonic()
    tried, is_found = 0, False

    @settings(
        max_examples=BATCH,
        print_blob=False,
        verbosity=Verbosity.quiet,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def attempt(inputs: list[bytes]) -> None:
        nonlocal tried, is_found
        if not is_found and time.monotonic() - began_s >= seconds:
            return  # after a find, its input is shortened without a time limit
        for each in inputs:
            tried += 1
            try:
                with suppress(*target.refusals):
                    target.examine(each)
            except Exception as find:
                is_found = True
                find.add_note(f"The input was {each!r}")
                raise

    uncaught = ""
    while not uncaught and time.monotonic() - began_s < seconds:
        try:
            attempt()
        except Exception as find:  # noqa: BLE001 - whatever it is, it is what we look for
            uncaught = "".join(traceback.format_exception(find))
    return Fuzzed(tried, time.monotonic() - began_s, uncaught)


def main() -> int:
    """Fuzz the chosen targets; print a line for each; return 1 if one raised unexpectedly."""
    parser = argparse.ArgumentParser(prog="python -m prove.fuzz", description="Fuzz the edges.")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), metavar="TARGET")
    names = parser.parse_args().only or list(TARGETS)
    seconds = _seconds(os.environ)  # noqa: TID251 - how long is no setting of the service
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    outcomes = {}
    for name in names:
        outcome = outcomes[name] = fuzz(TARGETS[name], seconds)
        rate = outcome.examples / outcome.seconds
        found = "1 uncaught" if outcome.uncaught else "0 uncaught"
        print(f"{name:24} {outcome.examples:10,} examples {rate:10,.0f} /s  {found}", flush=True)
        if outcome.uncaught:
            print(outcome.uncaught, flush=True)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_bytes(msgspec.json.encode(outcomes))
    uncaught = sum(bool(outcome.uncaught) for outcome in outcomes.values())
    print(f"{len(names)} targets, {uncaught} uncaught")
    return 1 if uncaught else 0


def _seconds(environment: Mapping[str, str]) -> float:
    return float(environment.get("FUZZ_S", USUAL_S))


if __name__ == "__main__":
    sys.exit(main())
