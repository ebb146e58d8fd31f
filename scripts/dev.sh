#!/bin/sh
# Everything a developer runs, in a virtual environment that this script makes itself: sh scripts/dev.sh VERB [ARGS].
# Needs Python 3.11 or later with venv, or uv; no root, nothing outside the checkout. Paths are relative to its root.
set -eu
cd -- "$(dirname -- "$0")/.."
root=$(pwd -P)
bin="$root/.venv/bin"
lock="$root/.venv.lock"
wanted=dev # what .venv is for: "run" has what simsys needs, "dev" also what its tests need

fail() {
    echo "simsys: $*" >&2
    exit 3
}

is_ours() { # finished, in this place (a moved one would run the old place's code), and its Python still there
    [ "$(cat .venv/.ready 2>/dev/null)" = "$root" ] && "$bin/python" -c '' 2>/dev/null
}

is_ready() { # and newer than what it is made from
    is_ours && [ -z "$(find requirements.lock requirements-run.lock pyproject.toml -newer .venv/.ready)" ] &&
        { [ "$wanted" = run ] || [ -e .venv/.dev ]; }
}

requirements() { # what for development is installed stays so
    if [ "$wanted" = dev ]; then echo requirements.lock; else echo requirements-run.lock; fi
}

find_python() { # sets $python
    lacking=
    for python in "${PYTHON:-}" python3.14 python3.13 python3.12 python3.11 python3 python; do
        [ -n "$python" ] || continue
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        "$python" -c 'import ensurepip, venv' 2>/dev/null && return
        lacking=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    done
    [ -z "$lacking" ] || fail "$lacking has no venv: install the OS package $lacking-venv (Debian, Ubuntu), or uv"
    fail "no Python 3.11 or later found: install python3 and python3-venv, or uv, or set PYTHON"
}

install_with_uv() {
    command -v uv >/dev/null || return
    [ -d .venv ] || uv venv --quiet --python "${PYTHON:->=3.11}" .venv || return
    uv pip sync --quiet --python "$bin/python" --require-hashes "$(requirements)" || return
    uv pip install --quiet --python "$bin/python" --no-deps --no-build-isolation -e .
}

install_with_pip() {
    if ! "$bin/python" -m pip --version >/dev/null 2>&1; then
        find_python
        rm -rf .venv
        "$python" -m venv .venv
    fi
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    "$bin/python" -m pip install --quiet --require-hashes -r "$(requirements)"
    "$bin/python" -m pip install --quiet --no-deps --no-build-isolation -e .
}

install_browser_tests() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$bin/python" --require-hashes -r requirements-browser.lock && return
    fi
    "$bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.lock
}

install_docs() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --python "$bin/python" --no-build-isolation -e '.[docs]' && return
    fi
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[docs]'
}

take_lock() { # one maker at a time
    tries=0
    until mkdir "$lock" 2>/dev/null; do
        [ -d "$lock" ] || fail "cannot write to $root"
        [ "$tries" -ne 0 ] || echo "simsys: another run is making .venv, waiting for it" >&2
        tries=$((tries + 1))
        sleep 1
        owner=$(cat "$lock/pid" 2>/dev/null) || owner=
        if [ -n "$owner" ]; then
            kill -0 "$owner" 2>/dev/null || [ ! -d "$lock" ] || fail "a run was killed while making .venv: rm -r '$lock'"
        elif [ "$tries" -gt 10 ] && [ -d "$lock" ]; then
            fail "a run was killed while making .venv: rm -r '$lock'"
        fi
    done
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 130' HUP INT TERM
    echo $$ >"$lock/pid"
}

make_venv() {
    is_ready && return
    take_lock
    if ! is_ready; then
        echo "simsys: preparing .venv (the first time takes about a minute)" >&2
        is_ours || rm -rf .venv
        [ ! -e .venv/.dev ] || wanted=dev
        install_with_uv || install_with_pip
        [ "$wanted" = run ] || : >.venv/.dev
        printf '%s\n' "$root" >.venv/.ready
    fi
    rm -rf "$lock"
    trap - EXIT HUP INT TERM
}

run_main_job() { # headlines; with arguments, what they say
    "$bin/simsys" run experiments/experiment_config.yaml --quiet "$@" || exit
    [ $# -eq 0 ] || return 0
    cat <<'END'

Details are in results/, a folder for each scenario. Next, type:

  . .venv/bin/activate
  simsys run experiments/experiment_config.yaml --scenario llama3-8b-1xH100-chat
  simsys report results/*   # report.html: all of it with pictures
END
}

usage() {
    echo "usage: sh scripts/dev.sh run|test|test-all|test-browser|lint|bench|bench-quick|docs|venv|clean [ARGS]" >&2
    exit 2
}

[ $# -gt 0 ] || usage
verb=$1
shift
case $verb in
run) wanted=run ;;
esac
case $verb in
run | test | test-all | test-browser | lint | bench | bench-quick | docs | venv) make_venv ;;
esac
case $verb in
test | test-all) unset PYTHONDONTWRITEBYTECODE ;; # pytest caches the tests as it rewrites them: collecting takes half as long
esac
case $verb in
run) run_main_job "$@" ;;
test) exec "$bin/python" -m pytest -n auto --maxprocesses 8 "$@" ;;
test-all) SIMSYS_THOROUGH=1 exec "$bin/python" -m pytest -n auto --maxprocesses 8 -m "not perfetto and not hta and not lab" "$@" ;;
bench) exec "$bin/python" -m pytest benchmarks -m "slow or not slow" "$@" ;;
bench-quick) exec "$bin/python" -m pytest benchmarks/bench_level_of_detail.py "$@" ;;
test-browser) # exits with 77 if it cannot be run here
    command -v chromium >/dev/null && command -v chromedriver >/dev/null || {
        echo "simsys: not run: pages in a real browser, which need chromium and chromedriver" >&2
        exit 77
    }
    if ! "$bin/python" -c 'import axe_core_python, selenium' 2>/dev/null; then
        install_browser_tests || {
            echo "simsys: not run: pages in a real browser: requirements-browser.lock cannot be installed" >&2
            exit 77
        }
    fi
    exec "$bin/python" -m pytest -n0 tests/html/test_browser.py "$@"
    ;;
lint)
    "$bin/python" -m ruff check .
    "$bin/python" -m ruff format --check .
    "$bin/python" -m mypy
    "$bin/lint-imports"
    "$bin/python" scripts/check_layout.py
    ;;
docs)
    "$bin/python" -c 'import material, mkdocstrings' 2>/dev/null || install_docs
    NO_MKDOCS_2_WARNING=1 exec "$bin/python" -m mkdocs build --strict "$@"
    ;;
venv) ;;
clean) rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks ;;
*) usage ;;
esac
