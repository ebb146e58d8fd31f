#!/bin/sh
# Write requirements.lock anew: the newest versions that pyproject.toml allows, with hashes, for Python 3.11 and later;
# requirements-run.lock, the part of them that simsys itself and its installation need; and requirements-browser.lock,
# what tests of pages in a browser need besides.
# Needs uv. No address of a package index is written.
set -eu
cd -- "$(dirname -- "$0")/.."
command -v uv >/dev/null || { echo "simsys: make lock needs uv (python3 -m pip install uv)" >&2; exit 3; }
compile() { # FILE [OPTIONS]
    file=$1
    shift
    UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --universal --python-version 3.11 \
        --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate "$@" \
        --output-file "$file" pyproject.toml
}
compile requirements.lock --extra dev
compile requirements-run.lock --extra editable --constraint requirements.lock
compile requirements-browser.lock --extra browser --constraint requirements.lock
if grep -nE '://|^--' requirements.lock requirements-run.lock requirements-browser.lock; then
    echo "simsys: a lock names an address (above)" >&2
    exit 1
fi
