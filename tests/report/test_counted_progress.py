from __future__ import annotations

import io

from simsys.report.counted_progress import CountedProgress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_has_a_line_a_minute() -> None:
    now_s, log = [0.0], io.StringIO()
    with CountedProgress("toy", "points", log, lambda: now_s[0]) as progress:
        for second in range(150):
            now_s[0] = float(second)
            progress(10 * second, 3000)
    assert log.getvalue().splitlines() == [
        "toy: 600 of 3,000 points (20%), 10 points/s, 4 min 0 s left",
        "toy: 1,200 of 3,000 points (40%), 10 points/s, 3 min 0 s left",
    ]


def test_a_resumed_sweep_counts_its_own_rate() -> None:
    now_s, log = [0.0], io.StringIO()
    progress = CountedProgress("toy", "points", log, lambda: now_s[0])
    progress(900, 1000)
    now_s[0] = 100.0
    progress(910, 1000)
    assert log.getvalue() == "toy: 910 of 1,000 points (91%), 6 points/min, 15 min 0 s left\n"


def test_a_terminal_has_one_line_that_is_removed() -> None:
    now_s, terminal = [0.0], _Terminal()
    with CountedProgress("toy", "points", terminal, lambda: now_s[0]) as progress:
        progress(0, 7200)
        now_s[0] = 1.0
        progress(1, 7200)
    assert "\n" not in terminal.getvalue()
    assert "1 of 7,200 points (0%), 1 points/s, 1 h 59 min left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_closed_stream_does_not_stop_the_sweep() -> None:
    now_s, log = [0.0], io.StringIO()
    progress = CountedProgress("toy", "points", log, lambda: now_s[0])
    progress(0, 10)
    log.close()
    now_s[0] = 100.0
    progress(1, 10)


def test_another_round_counts_its_own_rate() -> None:
    now_s, log = [0.0], io.StringIO()
    progress = CountedProgress("fit", "runs", log, lambda: now_s[0])
    progress(0, 100)
    now_s[0] = 50.0
    progress(100, 100)
    progress(1, 400)
    now_s[0] = 100.0
    progress(101, 400)
    assert log.getvalue() == "fit: 101 of 400 runs (25%), 2 runs/s, 2 min 30 s left\n"
