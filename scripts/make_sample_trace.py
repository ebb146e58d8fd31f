"""Make the sample traces in experiments/traces, in the Azure LLM inference format.

Everything in them is drawn from a seed and nothing is recorded traffic: 300 requests each in about two minutes, with
bursty arrivals (gamma distributed gaps) and log-normal lengths. Chat has prompts of 500 and answers of 200 tokens on
average; code, as in completion in an editor, has prompts of 2000 and answers of 30, and comes in shorter bursts.
Running this again writes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from simsys.rng import stream
from simsys.serving.arrivals import gamma
from simsys.serving.lengths import lognormal

COUNT = 300
RATE_PER_S = 2.5
START = datetime(2026, 1, 5, 9, 0, 0)
FOLDER = Path(__file__).resolve().parents[1] / "experiments" / "traces"


@dataclass(frozen=True)
class Sample:
    """What a trace is drawn from: a seed, the shape of its gaps, and mean, sigma, least and most of its lengths."""

    seed: int
    burstiness: float
    prompts: tuple[float, float, int, int]
    outputs: tuple[float, float, int, int]


SAMPLES = {
    "chat_sample.csv": Sample(2026, 0.5, (500, 0.9, 8, 8192), (200, 0.7, 4, 2048)),
    "code_sample.csv": Sample(2027, 0.25, (2000, 0.7, 32, 7500), (30, 0.8, 1, 500)),
}


def sample_trace(sample: Sample) -> str:
    """Return the text of a trace."""
    arrival_s = gamma(RATE_PER_S, sample.burstiness, COUNT, stream(sample.seed, "arrivals"))
    prompts = lognormal(*sample.prompts, COUNT, stream(sample.seed, "prompt_tokens"))
    outputs = lognormal(*sample.outputs, COUNT, stream(sample.seed, "output_tokens"))
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for time_s, prompt, output in zip(arrival_s, prompts, outputs, strict=True):
        moment = START + timedelta(microseconds=round(time_s * 1e6))
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S.%f}0,{prompt},{output}")  # the format has seven decimals
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, sample in SAMPLES.items():
        (FOLDER / name).write_text(sample_trace(sample), encoding="utf-8", newline="\n")
