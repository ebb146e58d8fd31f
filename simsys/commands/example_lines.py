"""The examples in the help of each command; tests carry them out."""

from __future__ import annotations

import click

EXAMPLES = {
    "init": ("simsys init --serving",),
    "run": ("simsys run serving.yaml --fail-on 'p99_ttft_ms>1000'", "simsys run --preset small"),
    "sweep": ("simsys sweep serving.yaml --set 'sweep={over: {hardware.num_nodes: [1, 2]}}'",),
    "sweep run": ("simsys sweep run serving.yaml --set 'sweep={over: {hardware.num_nodes: [1, 2]}}'",),
    "sweep status": ("simsys sweep status results/my-service",),
    "sweep export": ("simsys sweep export results/my-service --to table.csv",),
    "sweep merge": ("simsys sweep merge all first/my-service second/my-service",),
    "search": ("simsys search search.yaml --scenario llama3-8b-16xH100 --top 3 --simulations 20",),
    "check": ("simsys check serving.yaml",),
    "memory": ("simsys memory training.yaml --remedies",),
    "collectives": ("simsys collectives training.yaml --op all_gather --sizes 1MiB..1GiB",),
    "topology": ("simsys topology cluster.yaml",),
    "import-command": (
        "simsys import-command 'vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 64' --on dgx-h100 --out mine.yaml",
    ),
    "import-trace": ("simsys import-trace requests.csv --rate-scale 2 --out faster.csv",),
    "import-topology": ("simsys import-topology topo.txt --name my-node --out .",),
    "chakra": ("simsys chakra export training.yaml --out traces",),
    "chakra export": ("simsys chakra export training.yaml --out traces",),
    "chakra show": ("simsys chakra show traces/my-training",),
    "chakra replay": ("simsys chakra replay replay.yaml",),
    "lod": ("simsys lod training.yaml --repeats 1",),
    "compare": ("simsys compare serving.yaml --change hardware.profile=dgx-a100",),
    "conform": ("simsys conform serving.yaml steps.jsonl",),
    "analyze": ("simsys analyze training.yaml",),
    "scale": ("simsys scale training.yaml --nodes 1,2,4,8",),
    "report": ("simsys report results/my-service --out report.html",),
    "plot": ("simsys plot results/my-service latencies --out latencies.svg",),
    "validate": ("simsys validate nccl.csv", "simsys validate bench.json --on serving.yaml"),
    "calibrate": ("simsys calibrate nccl.csv --out my_profiles",),
    "emit": ("simsys emit serving.yaml --for vllm",),
    "measure": ("simsys measure training.yaml --out my-machine",),
    "lab": ("simsys lab compare lab.yaml",),
    "lab train": ("simsys lab train lab.yaml",),
    "lab compare": ("simsys lab compare lab.yaml",),
    "lab bench": ("simsys lab bench lab.yaml --ranks 1,2",),
    "completion": ("simsys completion bash",),
    "list": ("simsys list models", "simsys list settings"),
    "show": ("simsys show gpu H100", "simsys show settings serving.max_num_seqs"),
}
"""Commands by the path of each, as a user types them in a folder with the files that they name."""


def add_examples(group: click.Group, path: str = "") -> None:
    """Let the help of each command end with its examples."""
    for name, command in group.commands.items():
        own = f"{path} {name}".strip()
        lines = EXAMPLES[own]
        title = "Examples" if len(lines) > 1 else "Example"
        command.epilog = "\n".join([f"{title}:", "", "\b", *(f"  {line}" for line in lines)])
        if isinstance(command, click.Group):
            add_examples(command, own)
