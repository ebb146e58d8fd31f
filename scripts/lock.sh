#!/bin/sh
# Write requirements.lock anew: the newest versions that pyproject.toml allows, with hashes, for Python 3.11 and later.
# Needs uv. No address of a package index is written.
set -eu
cd -- "$(dirname -- "$0")/.."
command -v uv >/dev/null || { echo "simsys: make lock needs uv (python3 -m pip install uv)" >&2; exit 3; }
UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --universal --python-version 3.11 --extra dev --upgrade \
    --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
    --output-file requirements.lock pyproject.toml
if grep -nE '://|^--' requirements.lock; then
    echo "simsys: requirements.lock names an address (above)" >&2
    exit 1
fi
