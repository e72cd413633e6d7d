#!/bin/sh
# Three predictions on this host: a load that starves somebody on CPU 1 is recorded, each remedy predicted, and the first that `fix` offers tried
# and measured. All loads end by themselves, take at most 85 % of the CPU where they are real-time, and everything is taken back.
# Usage, as root: bench/predictions/host.sh PROGRAM LOAD DIRECTORY   (target/debug/unstarve, target/debug/unstarve-load, one of root's own)
set -eu
program=$(realpath "$1")
load=$2
directory=$(realpath "$3")

# Programs named like unstarve are not played: they are taken for the recorder.
for name in poller control; do
    install -m 755 "$load" "$directory/$name"
done
poller=$directory/poller

# try NAME: both loads are running.
try() {
    sleep 1
    "$program" record --predictable --for 5s -o "$directory/$1.dat"
    "$program" predict "$directory/$1.dat" | tee "$directory/$1.predicted" || true
    "$program" fix "$directory/$1.dat" --apply --verify 6s | tee "$directory/$1.measured" || true
    "$program" fix --undo || true
    wait
}

chrt -f 10 taskset -c 1 "$poller" hog --lasts 29000 --period 100 --busy 60 &
taskset -c 1 "$program" lab-load daemon period_us=5000 work_us=500 name=service seconds=29 >/dev/null &
try real-time-before-a-service

nice -n -20 taskset -c 1 "$poller" spin --lasts 29000 &
taskset -c 1 "$program" lab-load burn busy_ms=1000 period_ms=1000 name=worker seconds=29 >/dev/null &
try nice-20-before-a-worker

chrt -f 20 taskset -c 1 "$poller" hog --lasts 29000 --period 200 --busy 70 &
chrt -f 5 taskset -c 1 "$directory/control" hog --lasts 29000 --period 10 --busy 10 &
try real-time-before-real-time
