"""`make age`: measures steps on stores of three sizes (ages), on both engines.

`python -m bench.age [--scale 0.01] [--in FOLDER] [--engine NAME] [--share NUMBER]`: scale 1 has 1
million mints, of which 100,000 are tracked, 105 million candles and 100 million entries of the
journal: 20 GB on SQLite, 40 GB on PostgreSQL.  The three ages have 1/16, 1/4 and all of this.

`--keep FOLDER` only creates the stores, which takes most of the time; `--from FOLDER` measures
copies of them, within a month after their creation.

Each store is created in the form of an older version.  Then it is upgraded, used by a real ingest
on a chain that trades, and read by commands, audits and HTTP.  The exit code is 1 if the cost of a
step grows faster than its store, if a step exceeds its timeout, or if a start takes or can take
over 5 s on an idle machine.
"""

import argparse
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from bench.age.costs import Cost, Start, TooSlow, cost_so_far, ran, running
from bench.age.filling import Age, address
from bench.age.places import (
    DAY,
    FOLDED,
    LEFT,
    NEW_DAY,
    NEWEST,
    NO_ACTIVITY,
    NOT_BEGUN,
    PLACES,
    SNAPSHOTS,
    TIME,
    TRADED,
    Place,
    SqlitePlace,
    Traded,
)
from bench.process import free_port, python_running
from mintscope.kit.clock import SystemClock
from mintscope.market.engine.fold import read_state
from mintscope.market.follow.list_cache import MINTS_MIN
from mintscope.solana.blocks import WSOL

FULL: Final = Age(1_000_000, 100_000, 105_000_000, 100_000_000)
SHARES: Final = (1 / 16, 1 / 4, 1.0)
SCALE: Final = 0.01
MADE: Final = "made.json"  # a file in the folder of each store, with its share and its sizes
READY_S: Final = 5.0
FRESH_S: Final = 10.0  # the largest age of the newest block if ingest has caught up
PART_S: Final = 5.0  # the timeout of a statement on PostgreSQL
ANSWER_S: Final = 1.0
FOLLOWED_S_MAX: Final = 900.0  # seconds; in its first run, ingest reads the whole chain
STEP_S_MAX: Final = 7_200.0
PAUSE_S: Final = 0.05
SETTLED_S: Final = 2.0
# The allowed growth of a step, divided by the growth of its store; above 1 because of other load
GROWS: Final = 1.5
NOISE_S: Final = 0.5
COMMANDS: Final = {
    "doctor": ("doctor",),
    "credits list": ("credits", "list"),
    "users list": ("users", "list"),
    "tokens list": ("tokens", "list"),
}
HEAD: Final = (
    f"{'engine':11} {'step':22} {'age':>5} {'wall s':>9} {'if idle':>9} {'limit s':>8}"
    f" {'CPU s':>9} {'MB':>8}  note"
)


class Measured(NamedTuple):
    """The cost of one step on a store.

    share   the size of the store divided by that of the largest store
    """

    engine: str
    step: str
    share: float
    cost: Cost


class Limit(NamedTuple):
    """The time limit of a step in seconds.

    is_noted   whether the limit is for the seconds that the step prints, not for its whole duration
    """

    most_s: float
    is_noted: bool = False


LIMITS: Final = {
    "ingest, to a new block": Limit(READY_S),
    "api, first start": Limit(READY_S),
    "api, to ready": Limit(READY_S),
    "audit": Limit(PART_S, is_noted=True),
    "audit of the day": Limit(PART_S, is_noted=True),
    "statement": Limit(ANSWER_S, is_noted=True),
    "cold report": Limit(ANSWER_S),
}


def until(is_so: Callable[[], bool], what: str, within_s: float) -> None:
    """Wait until *is_so* returns True.  Raises TooSlow, with *what*, after *within_s* seconds."""
    end_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > end_s:
            raise TooSlow(f"{what}: not within {within_s:.0f} s")
        time.sleep(PAUSE_S)


def answer(port: int, path: str, token: str = "") -> tuple[int, bytes]:
    """Send a GET request to the api process on *port*; return the status and the body.

    Without an answer, they are 0 and b"".
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request("GET", path, headers=headers)
        got = connection.getresponse()
        return got.status, got.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


@contextmanager
def followed(place: Place, settings: Mapping[str, str]) -> Iterator[None]:
    """Run an ingest process; the `with` block begins when it has caught up."""
    before = place.asked(NEWEST)
    with running(settings, "ingest"):
        until(lambda: place.asked(NEWEST) > before, "ingest", FOLLOWED_S_MAX)
        until(
            lambda: place.asked(TIME) > SystemClock().now() / 1_000 - FRESH_S,
            "ingest",
            FOLLOWED_S_MAX,
        )
        yield


def traded() -> Traded:
    """Run a service with a market until it has a report; return the stored state of a mint."""
    with TemporaryDirectory() as folder, python_running("bench.market") as chain_port:
        place = SqlitePlace(Path(folder))
        api_port = free_port()
        settings = settings_of(place, chain_port, api_port, "first")
        token = ran(settings, "-m", "mintscope", "credits", "issue", "9", timeout_s=60)[1].strip()
        with running(settings, "ingest"), running(settings, "api"):
            until(
                lambda: answer(api_port, f"/v1/token/{WSOL}", token)[0] == http.client.OK,
                "a first report",
                FOLLOWED_S_MAX,
            )
            until(lambda: place.asked(TRADED) is not None, "a first state", FOLLOWED_S_MAX)
            return Traded(*place.asked(TRADED))


def aged(sample: Traded, age: Age) -> Traded:
    """Return *sample* as if its mint had the one-minute candles of *age*, and no wider candles."""
    state = read_state(sample.state)
    state["frames"]["count"] = 0
    state["frames"]["count"][0, 0] = age.candles_each
    return sample._replace(state=state.tobytes())


def settings_of(
    place: Place, chain_port: int, api_port: int, start: str = "latest"
) -> dict[str, str]:
    """Return the settings for processes that use the store *place*, as environment variables.

    start   the slot at which a new log begins, as in `MINTSCOPE_CHAIN__START`
    """
    return {
        **place.settings,
        "MINTSCOPE_CHAIN__RPC_URL": f"http://127.0.0.1:{chain_port}",
        "MINTSCOPE_CHAIN__START": start,
        "MINTSCOPE_API__PORT": str(api_port),
    }


class Scene:
    """Runs and measures all steps of `make age` on one store."""

    def __init__(self, place: Place, age: Age, settings: Mapping[str, str], api_port: int) -> None:
        self._place = place
        self._age = age
        self._settings = settings
        self._port = api_port

    def steps(self) -> Iterator[tuple[str, Cost]]:
        """Run all steps, in the order in which an operator meets them; yield the cost of each."""
        yield "upgrade", self._command("migrate")
        for step in ("audit", "audit of the day"):
            yield step, self._step("audit")
        token = self._token()
        with followed(self._place, self._settings):  # creates the swap log
            until(lambda: self._place.asked(FOLDED) > 0, "a final block", FOLLOWED_S_MAX)
        # Again, now that the store has a swap log, like a real store
        yield "upgrade, the list", self._command("upgrade")
        yield from self._served(token)
        yield "statement", self._step("statement")
        for name, words in COMMANDS.items():
            yield name, self._command(*words)
        with TemporaryDirectory(dir=self._settings["MINTSCOPE_DATA_DIR"]) as within:
            yield "backup", self._command("backup", f"{within}/backup")

    def _served(self, token: str) -> Iterator[tuple[str, Cost]]:
        before = self._place.asked(NEWEST)
        start = self._start()
        with running(self._settings, "ingest") as ingest:
            until(lambda: self._place.asked(NEWEST) > before, "ingest", FOLLOWED_S_MAX)
            yield "ingest, to a new block", self._since(start, ingest)
            with self._ready_api() as (api, start):
                yield "api, first start", self._since(start, api)
                if self._age.followed >= MINTS_MIN:
                    until(lambda: self._place.asked(SNAPSHOTS) > 0, "a snapshot of the list", 600)
            with self._ready_api() as (api, start):
                yield "api, to ready", self._since(start, api)
                until(lambda: answer(self._port, "/v1/tokens")[0] == http.client.OK, "list", 600)
                yield "first list", self._since(start, api)
                yield "cold report", self._report(token)
        yield "midnight", self._midnight()

    @contextmanager
    def _ready_api(self) -> "Iterator[tuple[subprocess.Popen[bytes], Start]]":
        """Run an api process; when it is ready, yield the process, and the moment of its start."""
        start = self._start()
        with running(self._settings, "api") as api:
            until(lambda: answer(self._port, "/readyz")[0] == http.client.OK, "api", STEP_S_MAX)
            yield api, start

    def _start(self) -> Start:
        return Start.now(self._place.server_pids())

    def _since(self, start: Start, process: "subprocess.Popen[bytes]", note: str = "") -> Cost:
        return cost_so_far(process, start, self._place.server_pids(), note)

    def _report(self, token: str) -> Cost:
        begun_s = time.monotonic()
        status, body = answer(self._port, f"/v1/token/{address(self._age.followed // 2)}", token)
        if status != http.client.OK:
            raise RuntimeError(f"expected a report; was {status}: {body[:300]!r}")
        took_s = time.monotonic() - begun_s
        return Cost(took_s, 0, 0, f"{len(json.loads(body)['data'])} fields")

    def _midnight(self) -> Cost:
        """Begin a new day; return the cost for ingest until it has deleted the untracked mints."""
        day = self._place.asked(DAY)
        self._place.asked(NO_ACTIVITY.format(day=day))
        # Repeatedly, because the server can still commit statements of an ingest that has ended
        while self._place.asked(DAY) == day:
            self._place.asked(NEW_DAY.format(day=day))
            time.sleep(SETTLED_S)
        left = LEFT.format(count=self._age.seen)
        slot = self._place.asked(NEWEST)
        start = self._start()
        longest_s = 0.0
        moved_s = start.at_s
        with running(self._settings, "ingest") as ingest:
            while self._place.asked(left):
                if self._place.asked(NOT_BEGUN.format(day=day)):
                    self._place.asked(NEW_DAY.format(day=day))
                newest = self._place.asked(NEWEST)
                now_s = time.monotonic()
                if newest > slot:
                    longest_s = max(longest_s, now_s - moved_s)
                    slot = newest
                    moved_s = now_s
                if now_s - start.at_s > STEP_S_MAX:
                    raise TooSlow(f"midnight: not within {STEP_S_MAX:.0f} s")
                time.sleep(PAUSE_S)
            return self._since(start, ingest, f"{longest_s:.1f} s without a new block")

    def _token(self) -> str:
        words = ("-m", "mintscope", "credits", "issue", "1000")
        return ran(self._settings, *words, timeout_s=60)[1].strip()

    def _command(self, *words: str) -> Cost:
        return self._cost("-m", "mintscope", *words)[0]

    def _step(self, name: str) -> Cost:
        cost, printed = self._cost("-m", "bench.age.steps", name)
        return replace(cost, note=printed.strip().splitlines()[-1])

    def _cost(self, *words: str) -> tuple[Cost, str]:
        before_s = self._place.server_cpu_s()
        cost, printed = ran(self._settings, *words, timeout_s=STEP_S_MAX)
        server_s = self._place.server_cpu_s() - before_s
        return replace(cost, cpu_s=cost.cpu_s + server_s), printed


def make(engine: str, share: float, age: Age, sample: Traded, folder: Path) -> Measured:
    """Create a store of several years in the new folder *folder*; return the time this took.

    A file in the folder has *share* and the sizes of *age*.
    """
    folder.mkdir(parents=True)
    begun_s = time.monotonic()
    with PLACES[engine](folder) as place:
        place.make(age, aged(sample, age), SystemClock().now())
        note = f"{place.disk_mb():,.0f} MB"
    (folder / MADE).write_text(json.dumps({"share": share, "sizes": age.sizes}))
    return Measured(engine, "(made)", share, Cost(time.monotonic() - begun_s, 0, 0, note))


def measure(engine: str, folder: Path) -> Iterator[Measured]:
    """Run all steps on the store in *folder*, which they change; yield the cost of each."""
    made = json.loads((folder / MADE).read_text())
    age = Age(*made["sizes"])
    with python_running("bench.market") as chain_port, PLACES[engine](folder) as place:
        api_port = free_port()
        scene = Scene(place, age, settings_of(place, chain_port, api_port), api_port)
        for step, cost in scene.steps():
            yield Measured(engine, step, made["share"], cost)


def copied(kept: Path, store: Path) -> None:
    """Copy the folder *kept* to *store*, with the owner and the times of each file."""
    subprocess.run(["cp", "--archive", "--reflink=auto", str(kept), str(store)], check=True)


def shown(measured: Iterable[Measured]) -> Iterator[Measured]:
    """Yield *measured* unchanged; print each result as soon as it is known."""
    for each in measured:
        print(line(each), flush=True)
        yield each


def measure_all(asked: argparse.Namespace, folder: Path) -> tuple[list[Measured], list[str]]:
    """Create and measure the stores that *asked* selects; return the results and the failed steps.

    If `asked.keep` is set, only create the stores; if `asked.kept` is set, measure copies of
    existing ones.
    """
    found: list[Measured] = []
    problems: list[str] = []
    largest = FULL.times(asked.scale)
    sample = None if asked.kept else traded()
    for engine in asked.engine or PLACES:
        for share in asked.share or SHARES:
            store = folder / f"{engine}-{share:.2f}"
            try:
                if sample is not None:
                    made = make(engine, share, largest.times(share), sample, store)
                    found += shown([made])
                # Measure a copy: the slots of each new chain are lower than those of a used store.
                else:
                    copied(asked.kept / store.name, store)
                if not asked.keep:
                    found += shown(measure(engine, store))
            except TooSlow as error:
                problems.append(f"{engine}, {share:.2f}: {error}")
            if not asked.keep:
                shutil.rmtree(store)
    return found, problems


def missed(found: list[Measured]) -> list[str]:
    """Return a line for each step that exceeded its limit, or grew faster than its store.

    If the step could have kept its limit on an idle machine, the line says so.
    """
    problems = []
    for each in found:
        limit = LIMITS.get(each.step)
        if limit is None:
            continue
        took_s = float(each.cost.note.split()[0]) if limit.is_noted else each.cost.wall_s
        least_s, most_s = each.cost.idle_s or (took_s, took_s)
        name = f"{each.engine}, {each.step}, {each.share:.2f}"
        if least_s > limit.most_s:
            problems.append(f"{name}: {least_s:.1f} s, not {limit.most_s:.0f} s")
        elif most_s > limit.most_s:
            problems.append(f"{name}: {least_s:.1f} to {most_s:.1f} s if idle: too busy to judge")
    by_step: dict[tuple[str, str], list[Measured]] = {}
    for each in found:
        by_step.setdefault((each.engine, each.step), []).append(each)
    for (engine, step), ages in by_step.items():
        for younger, older in pairwise(ages):
            most = GROWS * older.share / younger.share
            for name, was, now in (
                ("CPU s", younger.cost.cpu_s, older.cost.cpu_s),
                ("MB", younger.cost.peak_mb, older.cost.peak_mb),
            ):
                if now > most * max(was, NOISE_S):
                    problems.append(
                        f"{engine}, {step}: {was:.1f} to {now:.1f} {name}, worse than linear"
                    )
    return problems


def line(each: Measured) -> str:
    """Return a line of the table with the cost of a step and its limit."""
    cost = each.cost
    limit = LIMITS.get(each.step)
    of_all = f"{limit.most_s:g}" if limit is not None and not limit.is_noted else ""
    of_note = f" (limit {limit.most_s:g} s)" if limit is not None and limit.is_noted else ""
    idle = "{:.1f}-{:.1f}".format(*cost.idle_s) if cost.idle_s is not None else ""
    return (
        f"{each.engine:11} {each.step:22} {each.share:5.2f} {cost.wall_s:9.2f} {idle:>9}"
        f" {of_all:>8} {cost.cpu_s:9.2f} {cost.peak_mb:8.0f}  {cost.note}{of_note}"
    ).rstrip()


def main() -> int:
    """Measure all stores, and print a table and the missed goals; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.age", description=__doc__)
    parser.add_argument("--scale", type=float, default=SCALE, help="share of the full size")
    parser.add_argument("--in", dest="within", type=Path, help="folder of the stores")
    parser.add_argument("--keep", type=Path, help="only make the stores, in this folder")
    parser.add_argument("--from", dest="kept", type=Path, help="measure copies of those")
    parser.add_argument("--engine", choices=PLACES, action="append")
    parser.add_argument("--share", type=float, action="append", help="share of --scale: an age")
    asked = parser.parse_args()
    busy, *_ = os.getloadavg()
    size = "kept" if asked.kept else FULL.times(asked.scale)
    print(f"largest: {size}; load of the machine: {busy:.1f}\n{HEAD}", flush=True)
    with TemporaryDirectory(prefix="age-", dir=asked.within) as folder:
        # PostgreSQL runs as an unprivileged user, who must be able to enter the folder
        Path(folder).chmod(0o711)
        found, problems = measure_all(asked, asked.keep or Path(folder))
    problems += missed(found)
    for problem in problems:
        print(f"missed: {problem}", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
