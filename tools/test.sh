#!/usr/bin/env bash
# All tests: first everything that may run side by side, and whether the answers are those that are kept; then, one after another, the
# live tests, which need root, tracefs and a quiet machine (without them they say what they miss); and last some guests of the lab. Each test
# program has a time limit of its own, and building has one apart from those. The last line adds everything up, and names what failed and
# what did not run to its end; the lines before it name each test that was skipped, and why, or has hung.
#
# Live tests and guests that passed, none left out, are not run again for the same files on the same machine: that is
# most of the time. With CI=true or UNSTARVE_TEST_AGAIN=1 everything is run.
set -u
exec </dev/null
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp "${TMPDIR:-/tmp}/unstarve-test.XXXXXX") || exit 1
trap 'rm -f "$log" "$log".*' EXIT

# A test program that hangs is ended by its runner, and says so; the others still run.
limit() {
    printf "target.'cfg(all())'.runner = ['timeout', '-k', '10', '%s']" "$1"
}

# Into a file that is only followed: a process that a test leaves behind would keep a pipe open, and us waiting.
follow() { # stage, seconds for all, command…
    local stage=$1 limit=$2 status part
    shift 2
    part=$(mktemp "$log.XXXXXX") || exit 1
    echo "\$ $*"
    timeout -k 10 "$limit" "$@" >"$part" 2>&1 &
    local tests=$!
    tail -n +1 -s 0.5 -f --pid="$tests" "$part" &
    wait "$tests"
    status=$?
    wait $!
    cat "$part" >>"$log"
    case $status in
    0) return 0 ;;
    124 | 137) incomplete+=("$stage (ended after $limit s)") ;;
    *) failed_stages+=("$stage") ;;
    esac
    return 1
}

# Builds the tests and runs them. However long the first takes, the second has its time.
run() { # stage, seconds for the tests, cargo test's arguments…
    local stage=$1 limit=$2 word build=()
    shift 2
    for word; do
        [[ $word != -- ]] || break
        build+=("$word")
    done
    if follow "build of $stage" 2400 cargo test --no-run "${build[@]}"; then
        follow "$stage" "$limit" cargo test --no-fail-fast "$@"
    else
        incomplete+=("$stage (not built)")
        return 1
    fi
}

# A name for all that decides how a test ends: our files, the compiler, the kernel, other programs.
everything() {
    {
        git ls-files -co --exclude-standard -z >"$log.files" && [[ -s $log.files ]] && xargs -0 sha256sum <"$log.files" &&
            rustc -vV && uname -a && id -u && sha256sum /var/lib/dpkg/status &&
            echo "${features[*]} ${RUSTFLAGS-} $(ls "$cache/python")"
    } 2>/dev/null >"$log.everything" && sha256sum <"$log.everything" | cut -c1-32
}

# Where a stage that passed is noted: the lab's kernels and QEMU belong to it, which the first run fetches.
note() { # stage
    echo "$cache/passed/$1-$known-$(ls -lR "$cache/lab/kernels" "$cache/lab/qemu" 2>/dev/null | sha256sum | cut -c1-16)"
}

# How a test says that it was left out.
left_out='^skipped: |\.\.\. ignored[, ] *[(a-zA-Z]'

# Runs the tests of a stage if they have not passed before for all of that.
once() { # stage, seconds for the tests, cargo test's arguments…
    local stage=$1 bytes passed
    passed=$(note "$stage")
    if [[ -n $known && ${CI-} != true && -z ${UNSTARVE_TEST_AGAIN-} && -e $passed ]]; then
        unchanged+=("$stage: passed for the same files on this machine at $(date -r "$passed" '+%F %R'), not run again (UNSTARVE_TEST_AGAIN=1 does)")
        return
    fi
    bytes=$(stat -c %s "$log")
    run "$@" && [[ -n $known && $(everything) = "$known" ]] || return
    tail -c "+$((bytes + 1))" "$log" | grep -qE "$left_out" && return
    mkdir -p "$cache/passed" && find "$cache/passed" -name "$stage-*" -mtime +30 -delete && : >"$(note "$stage")"
}

# Where tools/setup.sh has put other projects' readers.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve
export PYTHONPATH=$cache/python${PYTHONPATH:+:$PYTHONPATH}
# DuckDB's program, the engine of `unstarve sql`.
export PATH=$PATH:$cache/python/duckdb_cli
unchanged=() incomplete=() failed_stages=()
read -ra features <<<"$(tools/features.sh)"
known=$(everything) || known=
run tests 1200 --workspace "${features[@]}" --config "$(limit 420)"
# The answers to all stored recordings and to the scenes of the verdict, with the program that the tests have built.
follow answers 600 tools/same-answers compare
follow pages 420 tools/test_page.sh
# Modules and macros for Perfetto's page, by its own engine.
follow perfetto 300 packaging/perfetto/test_server.py "${CARGO_TARGET_DIR:-$PWD/target}/debug/unstarve"
# The package for Python: its wheel in a fresh environment, its sums beside the program's, the notebook of the book.
follow python 300 tools/test_python.sh
# kubectl unstarve beside a kubectl that answers as asked for; on a real cluster: make test-kubernetes.
follow kubectl 600 tools/test_kubectl.sh
# The views of many hosts' tables by DuckDB and ClickHouse; by Spark, too: make test-views, make test-spark.
follow views 600 env UNSTARVE_ENGINES=duckdb,clickhouse views/test_views.py
once live 900 --workspace "${features[@]}" --test live --config "$(limit 480)" -- --ignored --test-threads=1
# Real kernels in guests; fetched once, into the user's cache. Minutes, unless one hangs; more of them: make test-guests.
once guests 1600 --workspace "${features[@]}" --test smoke --config "$(limit 1500)" -- --ignored --test-threads=1
((${#unchanged[@]} == 0)) || printf '%s\n' "${unchanged[@]}"
# Where the time goes: the crate is the one whose sources cargo noted beside the program.
echo "slowest test programs:"
awk '
    /^     Running / { name = $0; sub(/^ *Running /, "", name) }
    /^test result: .* finished in / { time = $NF; sub(/s$/, "", time); print time, name }' "$log" | sort -rn | head -10 |
    while read -r time name; do
        program=${name##*(}
        crate=$(sed -n '1s,.*: \(crates/[^/]*\)/.*,\1,p' "${program%)}.d" 2>/dev/null)
        printf '  %7.1f s  %s %s\n' "$time" "$crate" "${name%% (*}"
    done
awk -v stages="$(IFS=, && echo "${failed_stages[*]/#/ }")" -v incomplete="$(IFS=, && echo "${incomplete[*]/#/ }")" '
    /^test result: / { passed += $4; bad += $6 }
    # Tests that say why they did not run, and those that only the second run runs.
    /\.\.\. ignored[, ] *[(a-zA-Z]/ { skipped++; sub(/^test /, ""); reasons = reasons "\n  skipped: " $0 }
    /^skipped: / { skipped++; reasons = reasons "\n  " $0 }
    # What still ran when its program was ended, or the next one began, has hung.
    /^test .* has been running for over / { running[$2] }
    /^test .* \.\.\. / { delete running[$2] }
    /^     Running / { note_hung() }
    function note_hung(name) {
        for (name in running) { bad++; reasons = reasons "\n  hung: " name; delete running[name] }
    }
    END {
        note_hung()
        if (reasons) print substr(reasons, 2)
        printf "%d passed, %d failed, %d skipped", passed, bad, skipped
        if (stages) printf "; failed:%s", stages
        if (incomplete) printf "; did not run to its end:%s", incomplete
        print ""
    }' "$log"
((${#incomplete[@]} + ${#failed_stages[@]} == 0))
