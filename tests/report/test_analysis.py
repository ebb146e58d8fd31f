"""An analysis as text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from simsys.analysis.analyze import Analysis, analyze
from simsys.report.analysis import analysis_text
from tests.helpers.planted import planted


@cache
def analysis() -> Analysis:
    return analyze(planted("tiny-batch"))[0]


def test_the_bottleneck_is_the_headline_and_remedies_have_gain_and_price() -> None:
    text = analysis_text(analysis())
    lines = text.splitlines()
    assert re.match(r"tiny-batch: compute takes 6\d\.\d % of", lines[0])
    assert "largest losses" in lines
    assert any(line.startswith("  1. training.batch_size_per_gpu: 16 and") for line in lines)
    words = " ".join(text.split())
    assert re.search(
        r"\dx the throughput; compute 6\d\.\d % -> \d\.\d % of the time before; 0\.0\d+x the price of a token", words
    )
    assert max(map(len, lines[1:])) <= 80


def test_resources_without_losses_and_further_remedies_are_listed_on_request() -> None:
    found = analysis()
    many = replace(found, remedies=[*found.remedies, *found.remedies])
    assert "bubble" not in analysis_text(many)
    assert "3 more with --all" in analysis_text(many)
    assert "bubble: 0.0 % (minor)" in analysis_text(many, everything=True)
    assert "more with" not in analysis_text(many, everything=True)


def test_notes_jobs_gpus_and_a_lack_of_remedies_are_stated() -> None:
    found = analysis()
    remedy = replace(found.remedies[0], gpus=2, note="more GPUs, fewer bits per number", usd_ratio=None)
    jobs = [replace(each, job="a") for each in found.findings]
    text = " ".join(analysis_text(replace(found, remedies=[remedy], findings=jobs, notes=["a doubt"])).split())
    assert "2 more GPUs; fewer bits per number" in text
    assert "price" not in text
    assert text.startswith("tiny-batch: a: compute takes")
    assert "note: a doubt" in text
    assert "none of 6 simulated settings helps" in analysis_text(replace(found, remedies=[]))
    assert analysis_text(replace(found, findings=[])).startswith("tiny-batch: no time is lost")
