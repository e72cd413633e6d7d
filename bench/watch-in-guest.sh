#!/usr/bin/bash
# In a guest of the lab: runs the watch as on a host until SECONDS are over and its episodes are explained. Standard output is a tar
# archive of what it left.
#
#     watch-in-guest.sh SECONDS [EVERY]
#
# With EVERY, each so many seconds a line of `samples`: uptime, CPU ticks of the watch, resident set in KiB, open files.
PATH=/usr/bin
left=/run/watch
seconds=$1 every=${2:-$1}
mkdir -p "$left"
cd "$left" || exit 1
unstarve watch --config /etc/unstarve/watch.toml 2>said &
watch=$!

uptime() { read -r up _ </proc/uptime; echo "$up"; }
count() { grep -c "\"stage\":\"$1\"" store/episodes.jsonl 2>/dev/null || true; }
recorded() { unstarve watch status --json 2>/dev/null | grep -q '"recorder": *"recording"'; }
sample() {
    local fields line files resident
    # A name may have a line break in it; there is no end of a line to be read to.
    read -rd '' line </proc/$watch/stat
    [[ $line ]] || return
    read -ra fields <<<"${line##*) }"
    files=(/proc/"$watch"/fd/*)
    while read -r key value _; do [[ $key = VmRSS: ]] && resident=$value; done </proc/$watch/status
    echo "$(uptime) ${fields[11]} ${fields[12]} $resident ${#files[@]}" >>samples
}

began=$SECONDS
uptime >times
for ((tries = 0; tries < 150; tries++)); do
    recorded && break
    sleep 0.1
done
uptime >>times
sample
while ((SECONDS - began < seconds)); do
    rest=$((seconds - (SECONDS - began)))
    sleep $((rest < every ? rest : every))
    sample
done
for ((tries = 0; tries < 240 && $(count begun) > $(count complete); tries++)); do
    sleep 0.5
done
uptime >>times
exec 3<>/dev/tcp/127.0.0.1/9846 && {
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    cat <&3 >metrics
}
unstarve watch status --json >status
kill -TERM "$watch"
wait "$watch"
echo $? >exit
exec tar -cf - --exclude=report.html -C "$left" .
