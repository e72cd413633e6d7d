#!/usr/bin/env bash
# The package for Python (python/): that its classes are what the program's schemas say, its types, the wheel in a fresh environment without any
# library, its sums beside the program's in every library, and the notebook of the book. Says what it skipped and why, in the words that
# tools/test.sh counts.
#
#     tools/test_python.sh [program]     by default the one that cargo test built; UNSTARVE_WRITE=1 writes classes and pages that are not as they should be
set -u
exec </dev/null
cd "$(dirname "$0")/.." || exit 1
program=${1:-${CARGO_TARGET_DIR:-$PWD/target}/debug/unstarve}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve
# pandas, polars and what builds and checks (tools/python.txt), then pyarrow and DuckDB (tools/engines.txt).
libraries=$cache/notebook:$cache/engines
write=()
[[ -z ${UNSTARVE_WRITE-} ]] || write=(--write)

skip() { # what, why
    echo "test $1 ... ignored, $2"
}
[[ -x $program ]] || { skip "the package for Python" "no program at $program; run cargo test first"; exit 0; }
program=$(realpath "$program")
room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-python.XXXXXX") || exit 1
trap 'rm -rf "$room"' EXIT
passed=0 failed=0
check() { # what, command…
    if timeout -k 5 200 "${@:2}" >"$room/log" 2>&1; then
        grep '^skipped: ' "$room/log"
        echo "test $1 ... ok"
        passed=$((passed + 1))
    else
        cat "$room/log"
        echo "test $1 ... FAILED"
        failed=$((failed + 1))
    fi
}
has() { # module…
    PYTHONPATH=$libraries python3 -c "import $1" 2>"$room/log" || { skip "$2" "$(tail -n 1 "$room/log"); tools/setup.sh test installs it"; return 1; }
}
# Only the program in the wheel, or the one that is named; no library.
alone=(env -u UNSTARVE -u PYTHONPATH PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1)
of_sources=(UNSTARVE="$program" PYTHONPATH=src)
# The oldest and the newest Python that is here, and can run it.
pythons() {
    for each in "$HOME"/.pyenv/versions/3.*/bin/python3 /usr/bin/python3; do
        "$each" -c 'import sys; sys.version_info < (3, 9) or print(*sys.version_info[:3], sep=".", end=" " + sys.executable + "\n")' 2>/dev/null
    done | sort -V | sed -n '1p;$p' | uniq
}

check "classes are what the schemas say" python3 python/write_model.py "$program" "${write[@]}"
if has mypy "the package's types"; then
    # Types of libraries do not count: what they give is `Any`.
    check "the package's types" env PYTHONPATH="$cache/notebook" MYPY_CACHE_DIR="$room/mypy" sh -c 'cd python && exec python3 -m mypy'
fi

# With the program inside; without its debug symbols, which are most of it.
if has hatchling "the wheel"; then
    check "the program's symbols are stripped" strip --strip-all -o "$room/unstarve" "$program"
    check "the wheel is made" sh -c "tools/wheel.sh '$room/wheels' '$room/unstarve'"
    check "the wheel is installed" sh -c "python3 -m venv --without-pip '$room/venv' &&
        python3 -m pip -q --disable-pip-version-check --python '$room/venv/bin/python' install --no-index --no-deps '$room'/wheels/unstarve-*.whl"
    cd python || exit 1
    check "the program came with it" sh -c "'$room/venv/bin/unstarve' explain --fail-on never ../testdata/traces/linux-5.10-net-rt.dat | grep -q 'is starved by'"
    check "what is found, without any library" "${alone[@]}" "$room/venv/bin/python" -m unittest tests.test_trouble
    cd ..
fi
cd python || exit 1
while read -r version python; do
    check "what is found, by Python $version" "${alone[@]}" "${of_sources[@]}" "$python" -m unittest tests.test_trouble
done < <(pythons)
cd ..
if has "pyarrow, pandas, polars, duckdb" "tables in Python"; then
    check "sums by every library" env PYTHONPATH="src:$libraries" UNSTARVE="$program" PYTHONDONTWRITEBYTECODE=1 sh -c 'cd python && exec python3 -m unittest tests.test_sums'
    check "the notebook of the book" env PYTHONPATH="python/src:$libraries" UNSTARVE="$program" PYTHONDONTWRITEBYTECODE=1 python3 python/run_page.py docs/notebook.md "${write[@]}"
fi
echo "test result: python. $passed passed; $failed failed;"
((failed == 0))
