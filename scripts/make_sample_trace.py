"""Make experiments/traces/chat_sample.csv, a small request trace in the Azure LLM inference format.

Everything in it is drawn from a seed and nothing is recorded traffic: about two minutes of 300 chat requests with
bursty arrivals (gamma distributed gaps of shape 0.5, 2.5 requests per second) and log-normal lengths (mean 500
prompt and 200 output tokens). Running this again writes the same bytes.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from simsys.rng import stream
from simsys.serving.arrivals import gamma
from simsys.serving.lengths import lognormal

COUNT = 300
SEED = 2026
START = datetime(2026, 1, 5, 9, 0, 0)
TARGET = Path(__file__).resolve().parents[1] / "experiments" / "traces" / "chat_sample.csv"


def sample_trace() -> str:
    """Return the text of the trace."""
    arrival_s = gamma(2.5, 0.5, COUNT, stream(SEED, "arrivals"))
    prompts = lognormal(500, 0.9, 8, 8192, COUNT, stream(SEED, "prompt_tokens"))
    outputs = lognormal(200, 0.7, 4, 2048, COUNT, stream(SEED, "output_tokens"))
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for time_s, prompt, output in zip(arrival_s, prompts, outputs, strict=True):
        moment = START + timedelta(microseconds=round(time_s * 1e6))
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S.%f}0,{prompt},{output}")  # the format has seven decimals
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(sample_trace(), encoding="utf-8", newline="\n")
