#!/usr/bin/env bash
# Runs each fuzz target for some seconds of CPU time, starting from its corpus, and keeps what it learns there. Needs a
# nightly compiler (rustup toolchain install nightly), but not cargo-fuzz.
#
#     tools/fuzz.sh [SECONDS [TARGET…]]
set -u
exec </dev/null
cd "$(dirname "$0")/../fuzz" || exit 1
seconds=${1:-60}
shift
host=$(rustc -vV | sed -n 's/^host: //p')
# What cargo-fuzz passes: coverage counters that libFuzzer reads, and the address sanitizer.
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}/fuzz
cargo +nightly build --release --target "$host" || exit 1
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(sed -n '/^\[\[bin\]\]/,$s/^name = "\(.*\)"/\1/p' Cargo.toml)
failed=0
# How many seconds of CPU time the processes took that this shell has waited for: cutime and cstime of proc_pid_stat(5).
# (`times` in a command substitution tells of that subshell's own children.)
used() {
    # Of the last line: a name may have a line break in it.
    tail -n 1 "/proc/$$/stat" | awk -v hertz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($14 + $15) / hertz) }'
}
for target in "${targets[@]}"; do
    echo "== $target for $seconds s of CPU time"
    mkdir -p "corpus/$target"
    # The fuzzer counts seconds of the clock, of which a busy machine gives it a part.
    from=$(used) rounds=0
    while left=$((seconds - $(used) + from)); ((left > 0 && rounds < 100)); do
        rounds=$((rounds + 1))
        timeout -k 10 $((left + 120)) "$CARGO_TARGET_DIR/$host/release/$target" "corpus/$target" \
            -max_total_time="$left" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 || {
            failed=1
            break
        }
    done
    echo "== $target: $(($(used) - from)) s of CPU time in $rounds rounds"
done
exit "$failed"
