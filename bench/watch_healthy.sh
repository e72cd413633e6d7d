#!/usr/bin/env bash
# Runs `unstarve watch` beside healthy loads: each has to end without an episode.
#
#     bench/watch_healthy.sh UNSTARVE [SECONDS [LOAD...]]
#
# Loads: idle, compile, fio, pgbench, redis, nginx; all of them if none is named. Needs root and, for the loads, Debian's packages fio,
# postgresql, redis-server, redis-tools, nginx and apache2-utils. `compile` builds the kernel tree in $UNSTARVE_KERNEL_TREE (Debian's
# linux-source-*, configured). A load whose program is not there is skipped, with the reason.
# Prints for each load: seconds, episodes, the watch's CPU time and its largest resident set. Exit code 1 if there was an episode.
set -uo pipefail
# Servers run as other users, who may not enter root's directory.
unstarve=$(readlink -f "${1:?the program}")
cd /
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
loads=("$@")
((${#loads[@]})) || loads=(idle compile fio pgbench redis nginx)
work=$(mktemp -d /root/.unstarve-healthy.XXXXXX)
watch=
server=()
end() {
    [[ -z $watch ]] || kill "$watch" 2>/dev/null
    for pid in "${server[@]}"; do kill "$pid" 2>/dev/null; done
    wait
    rm -rf "$work"
}
trap end EXIT
skip() { echo "$1: skipped: $2"; return 75; }
needs() { # LOAD PROGRAM...
    local load=$1 program
    shift
    for program; do command -v "$program" >/dev/null || { skip "$load" "no $program"; return; }; done
}

idle() { sleep "$seconds"; }

compile() {
    local tree=${UNSTARVE_KERNEL_TREE:-}
    [[ -f $tree/.config ]] || { skip compile "UNSTARVE_KERNEL_TREE is not a configured kernel tree"; return; }
    make -s -C "$tree" clean >/dev/null 2>&1
    timeout "$seconds" make -s -C "$tree" -j"$(($(nproc) * 2))" >"$work/log" 2>&1
    local result=$?
    # 124: still at it when its time was over.
    ((result == 0 || result == 124))
}

fio() {
    needs fio fio || return
    command fio --name=healthy --directory="$work" --size=256m --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --direct=1 --numjobs=4 \
        --time_based --runtime="$seconds" --group_reporting --output="$work/log"
}

pgbench() {
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
    [[ -n $bin ]] || { skip pgbench "no PostgreSQL"; return; }
    local data
    data=$(mktemp -d /var/tmp/unstarve-pg.XXXXXX)
    chown postgres "$data"
    as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
    as "$bin/initdb" -D "$data/db" >"$work/log" 2>&1 || return
    as "$bin/postgres" -D "$data/db" -k "$data" -c listen_addresses= >>"$work/log" 2>&1 &
    local pid=$!
    server+=("$pid")
    for _ in $(seq 50); do as "$bin/pg_isready" -q -h "$data" && break; sleep 0.2; done
    as "$bin/createdb" -h "$data" bench && as "$bin/pgbench" -q -i -s 10 -h "$data" bench >>"$work/log" 2>&1
    as "$bin/pgbench" -c 16 -j 4 -T "$seconds" -h "$data" bench >>"$work/log" 2>&1
    local result=$?
    kill "$pid"
    wait "$pid" 2>/dev/null
    rm -rf "$data"
    return "$result"
}

redis() {
    needs redis redis-server redis-benchmark || return
    redis-server --port 0 --unixsocket "$work/redis" --dir "$work" --save 5 1 >"$work/log" 2>&1 &
    local pid=$!
    server+=("$pid")
    sleep 1
    local until=$((SECONDS + seconds))
    while ((SECONDS < until)); do redis-benchmark -s "$work/redis" -q -n 200000 -c 50 -d 512 -t set,get,lpush >>"$work/log" 2>&1 || return; done
    kill "$pid"
    wait "$pid" 2>/dev/null
}

nginx() {
    needs nginx nginx ab || return
    head -c 16384 /dev/zero >"$work/page"
    cat >"$work/nginx.conf" <<CONF
user root; daemon off; worker_processes 2; pid $work/nginx.pid; error_log $work/nginx.log;
events {}
http { access_log off; server { listen 127.0.0.1:18099; location / { root $work; } } }
CONF
    command nginx -c "$work/nginx.conf" >"$work/log" 2>&1 &
    local pid=$!
    server+=("$pid")
    sleep 1
    ab -q -k -c 32 -t "$seconds" -n 100000000 http://127.0.0.1:18099/page >>"$work/log" 2>&1
    local result=$?
    kill "$pid"
    wait "$pid" 2>/dev/null
    return "$result"
}

failed=0
for load in "${loads[@]}"; do
    state=$work/state-$load
    mkdir -p "$state"
    printf 'version = 1\n[store]\ndirectory = "%s"\n[listen]\naddress = "off"\n[sinks]\nlog = "stderr"\n' "$work/store-$load" >"$work/$load.toml"
    "$unstarve" watch --config "$work/$load.toml" --state "$state" >"$work/$load.out" 2>"$work/$load.err" &
    watch=$!
    sleep 2
    if ! kill -0 "$watch" 2>/dev/null; then cat "$work/$load.err" >&2; exit 2; fi
    began=$SECONDS
    "$load"
    result=$?
    took=$((SECONDS - began))
    sleep 1
    # utime and stime follow the name, which may have anything in it, a line break too.
    used=$(tail -n 1 "/proc/$watch/stat" | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{printf "%.2f", ($12 + $13) / hz}')
    size=$(awk '/^VmHWM/ {printf "%.1f", $2 / 1024}' "/proc/$watch/status")
    kill "$watch"
    wait "$watch"
    watch=
    if ((result == 75)); then continue; fi
    if ((result)); then echo "$load: the load failed (exit code $result):" >&2; tail -5 "$work/log" >&2; failed=2; continue; fi
    episodes=$("$unstarve" watch episodes --json --store "$work/store-$load" 2>/dev/null | wc -l)
    printf '%-8s %4d s  %d episodes  %s s of CPU (%.2f %% of one)  %s MiB resident\n' "$load" "$took" "$episodes" "$used" \
        "$(awk -v used="$used" -v took="$((took + 3))" 'BEGIN {print 100 * used / took}')" "$size"
    if ((episodes)); then
        failed=1
        "$unstarve" watch episodes --store "$work/store-$load" 2>/dev/null || cat "$work/store-$load/episodes.jsonl"
        [[ -z ${UNSTARVE_KEEP:-} ]] || cp -r "$work/store-$load" "$UNSTARVE_KEEP/"
    fi
done
exit "$failed"
