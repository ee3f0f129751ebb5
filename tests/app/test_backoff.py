"""A failed task restarts after waits that grow, and that begin again after a steady run."""

from mintscope.app.running.processes import LONGEST_S, STEADY_S, Backoff


def test_waits_double_from_50_ms_up_to_a_maximum() -> None:
    backoff = Backoff()

    waits = [backoff.after(0.1) for _ in range(100)]

    assert waits[:4] == [0.05, 0.1, 0.2, 0.4]
    assert waits[10:] == [LONGEST_S] * 90


def test_a_steady_run_resets_the_waits() -> None:
    backoff = Backoff()
    for _ in range(10):
        backoff.after(0.1)

    assert backoff.after(STEADY_S) == 0.05
    assert backoff.after(0.1) == 0.1
