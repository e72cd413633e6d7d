# shellcheck shell=bash
# For the parts of tools/test-dist.sh: exit 77 is "cannot be tried here".
set -eu

skip() {
    echo "skipped: $*"
    exit 77
}

needs() { # commands…
    local command
    for command; do
        command -v "$command" >/dev/null || skip "no $command here (tools/setup.sh dist installs it)"
    done
}

needs_root() {
    [[ $(id -u) -eq 0 ]] || skip "only root can enter another root directory"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Runs a command that may give one of some exit codes.
gives() { # codes, for example 0,1; command…
    local codes=$1 status=0
    shift
    echo "\$ $*"
    "$@" || status=$?
    [[ ,$codes, = *,$status,* ]] || fail "exit code $status, expected one of $codes: $*"
}

# What tools/setup.sh installs for Python.
export PYTHONPATH="${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/python:${PYTHONPATH-}"

# A directory that goes with this script.
room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-dist.XXXXXX")
trap 'rm -rf --one-file-system "$room"' EXIT
