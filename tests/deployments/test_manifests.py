"""Commands of containers: Kubernetes and Docker Compose, with images, variables and shells."""

from __future__ import annotations

import pytest

from simsys.deployments.manifests import is_manifest, manifest_commands
from simsys.errors import UsageError

POD = """
apiVersion: v1
kind: Pod
spec:
  initContainers:
    - {name: wait, image: busybox, command: [sh, -c, "sleep 1 && echo done"]}
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0
      env:
        - {name: MODEL, value: meta-llama/Llama-3.1-8B}
        - {name: TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
      args: ["--model", "$(MODEL)", "--max-num-seqs", "64", "--token", "$(TOKEN)"]
---
apiVersion: v1
kind: Service
metadata: {name: server}
"""
SERVICES = """
services:
  server:
    image: vllm/vllm-openai:latest
    environment: {MODEL: a b}
    command: --model 'x y' --max-num-seqs 4
"""


def _words(text: str) -> list[list[str]]:
    return [command.words for command in manifest_commands(text, {})]


def test_a_container_is_its_image_command_and_arguments() -> None:
    assert is_manifest(POD)
    assert _words(POD) == [
        ["sleep", "1"],
        ["echo", "done"],
        [
            *("vllm/vllm-openai:v0.11.0", "--model", "meta-llama/Llama-3.1-8B"),
            *("--max-num-seqs", "64", "--token", "$(TOKEN)"),
        ],
    ]


def test_a_service_has_its_command_as_text() -> None:
    assert is_manifest(SERVICES)
    (command,) = _words(SERVICES)
    assert command == ["vllm/vllm-openai:latest", "--model", "x y", "--max-num-seqs", "4"]


def test_a_script_in_a_shell_has_its_own_variables() -> None:
    text = POD.replace(
        '["--model", "$(MODEL)", "--max-num-seqs", "64", "--token", "$(TOKEN)"]', "[bash, -c, serve $MODEL]"
    )
    assert _words(text)[-1] == ["serve", "meta-llama/Llama-3.1-8B"]


def test_other_texts_are_no_manifests_and_broken_ones_are_refused() -> None:
    assert not is_manifest("vllm serve x --kind y")
    assert not is_manifest("kind: scenario\n")
    with pytest.raises(UsageError, match="no YAML"):
        manifest_commands("services: {a: [", {})


@pytest.mark.parametrize(
    ("text", "replicas"),
    [
        (POD, 1),
        (SERVICES, 1),
        (SERVICES + "    scale: 2\n", 2),
        (SERVICES + "    deploy: {replicas: 3, resources: {}}\n", 3),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 4, template: {containers: [{image: x}]}}", 4),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: null, template: {containers: [{image: x}]}}", 1),
        ("services: {a: {image: x, deploy: {replicas: '${N:-2}'}}}", "${N:-2}"),
    ],
)
def test_replicas_are_those_around_the_container(text: str, replicas: object) -> None:
    assert manifest_commands(text, {})[-1].replicas == replicas


def test_replicas_of_one_document_are_not_those_of_another() -> None:
    other = "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 4, template: {containers: [{image: x}]}}"
    assert [command.replicas for command in manifest_commands(f"{other}\n---{POD}", {})] == [4, 1, 1, 1]
