#!/usr/bin/env bash
# The report page: that what is committed is what its source builds, and that it works in a real Chromium. Says what it
# skipped and why, in the words that tools/test.sh counts.
#
#     tools/test_page.sh [program [fleet_page]]    the unstarve to test, and an example of crates/html; by default those that cargo test built
set -u
exec </dev/null
cd "$(dirname "$0")/../web" || exit 1
target=${CARGO_TARGET_DIR:-$(cd .. && pwd)/target}
export UNSTARVE=${1:-$target/debug/unstarve}
# Makes pages of many hosts of what the tests give it; cargo test builds it, too.
export FLEET_PAGE=${2:-$target/debug/examples/fleet_page}

skip() { # what, why
    echo "test $1 ... ignored, $2"
}

command -v node >/dev/null || { skip "the report page" "no node here"; exit 0; }
[[ -x $FLEET_PAGE ]] || { skip "the page of many hosts" "no program at $FLEET_PAGE; run cargo test first"; FLEET_PAGE=; }
[[ -x $UNSTARVE ]] || { skip "the report page" "no program at $UNSTARVE; run cargo test first"; exit 0; }
if [[ ! -e node_modules/.package-lock.json || package-lock.json -nt node_modules/.package-lock.json ]]; then
    command -v npm >/dev/null || { skip "the report page" "no npm here"; exit 0; }
    if ! timeout -k 5 120 npm ci --no-audit --no-fund --ignore-scripts --loglevel=error; then
        skip "the report page" "npm ci could not get the packages"
        exit 0
    fi
fi

room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-page.XXXXXX") || exit 1
trap 'rm -rf "$room"' EXIT
passed=0 failed=0
check() { # what, command…
    if "${@:2}"; then
        echo "test $1 ... ok"
        passed=$((passed + 1))
    else
        echo "test $1 ... FAILED"
        failed=$((failed + 1))
    fi
}
same_as_committed() {
    node build.mjs "$room" && diff -r "$room" ../crates/html/assets
}
check "the page's types" node node_modules/typescript/bin/tsc --noEmit
check "the committed page is what web/ builds" same_as_committed
echo "test result: $passed passed; $failed failed;" | sed 's/result:/result: page./'

if node -e "import('./test/browser.mjs').then((b) => process.exit(b.chromium() ? 0 : 1))"; then
    # Into a file, not a pipe, which a browser that is left behind would keep open.
    timeout -k 10 280 node --test --test-concurrency=1 --test-reporter=spec test/*.test.mjs >"$room/log" 2>&1
    status=$?
    cat "$room/log"
    in_browser() { sed -n "s/^ℹ $1 //p" "$room/log" | tail -1; }
    bad=$(in_browser fail)
    ((status == 0)) || [[ ${bad:-0} -gt 0 ]] || bad=1
    echo "test result: browser. $(in_browser pass) passed; ${bad:-1} failed;"
    ((status == 0)) || failed=$((failed + 1))
else
    skip "the report page in a browser" "no chromium here"
fi
((failed == 0))
