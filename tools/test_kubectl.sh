#!/usr/bin/env bash
# kubectl-unstarve, the must-gather image's script and what krew installs, beside a kubectl that notes how it is called and answers as asked for:
# hostile names, forbidden and dead nodes, endless output, signals. By each POSIX shell that is here. A real cluster: make test-kubernetes.
#
#     tools/test_kubectl.sh
# shellcheck disable=SC2015,SC2016
set -u
exec </dev/null
cd "$(dirname "$0")/.." || exit 1
plugin=$PWD/packaging/kubectl/kubectl-unstarve
room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-kubectl.XXXXXX") || exit 1
trap 'rm -rf "$room"' EXIT
passed=0 failed=0
ok() { # what, command…
    rm -rf "$room"/bundle* "$room"/tmp/*
    if "${@:2}" >"$room/why" 2>&1; then
        echo "test $1 ... ok"
        passed=$((passed + 1))
    else
        cat "$room/why" "$room/out" "$room/err" 2>/dev/null | head -n 60 | cat -v
        echo "test $1 ... FAILED"
        failed=$((failed + 1))
    fi
}

mkdir "$room/bin" "$room/tmp"
cat >"$room/bin/kubectl" <<'END'
#!/bin/bash
{ printf '<%s>' "$@" && echo; } >>"$CALLS"
state='Running||unstarve|true|'
case " $* " in
*" get pods "*)
    case $FAKE in
    none) ;;
    forbidden) echo 'Error from server (Forbidden): pods is forbidden: User "eve" cannot list resource "pods"' >&2 && exit 1 ;;
    old) echo 'Error: unknown flag: --field-selector' >&2 && exit 1 ;;
    crash) echo 'node-a|pod-a|Running||unstarve|false|CrashLoopBackOff' ;;
    pending) echo 'node-a|pod-a|Pending||unstarve|' ;;
    two) printf 'node-a|pod-%s\n' "a|$state" 'b|Running||other|true|' ;;
    error) printf 'node-a|pod-%s\n' 'a|Running||unstarve|false|Error' 'b|Failed||unstarve|false|Error' ;;
    rolling) printf 'node-a|pod-%s\n' 'old|Running|2026-11-30T00:00:00Z|unstarve|true|' "new|$state" ;;
    hostile) printf '%s\n' "node-a|pod-a|$state" "../../up|pod-b|$state" "-oyaml|pod-c|$state" '$(id)|pod-d|'"$state" "node-b|../pod|$state" \
        "node-c|-oyaml|$state" "node d|pod|$state" $'no\e[31mde'"|pod|$state" "a..b|pod|$state" "/etc|pod|$state" 'node-e|pod-e|$(id)|$(id)|$(id)|$(id)|$(id)' ;;
    many) for number in {1..20}; do echo "node-$number|pod-$number|$state"; done ;;
    *) printf '%s\n' "node-b|pod-b|$state" "node-a|pod-a|$state" ;;
    esac
    ;;
*" get nodes "*conditions*) printf '%s\n' 'node-a|True' 'node-b|True' 'node-z|False' ;;
*" get nodes "*) printf '%s\n' node-a node-b node-z '../../up' -oyaml ;;
*" get pod "*) echo "kind: Pod" ;;
*" logs "*) echo "a log" ;;
*" port-forward "*) echo "Forwarding" && exec sleep 100 ;;
*" exec "*)
    case $FAKE in
    exec-forbidden) echo 'Error from server (Forbidden): pods "pod-a" is forbidden: User "eve" cannot create resource "pods/exec"' >&2 && exit 1 ;;
    hang) exec sleep 100 ;;
    huge) exec yes 'a line that does not end' ;;
    escapes) printf 'a\e]0;owned\a\e[2Jb\rc\xc2\x9b31md\x00e\n\ttab\n' && printf '\e[31mred\n' >&2 && exit 0 ;;
    finding) echo found && echo 'command terminated with exit code 1' >&2 && exit 1 ;;
    dead) [[ $* != *pod-b* ]] || { echo 'Error from server: error dialing backend: dial tcp: connect: connection refused' >&2 && exit 1; } ;;
    tar) echo '../../../escape' && exit 0 ;;
    esac
    case "$*" in
    *'episodes --json'*)
        printf '{"id":"%s","trace_bytes":5}\n' 20261130-154643-189 ../../../escape '20261130-154643-189/../x' '-rf' 20261130-154650-001-2 '$(id)'
        echo '{"id":"20261130-154655-002","trace_of":"20261130-154650-001-2"}'
        ;;
    *--trace=-*) printf 'bytes\0\1\e[2J' ;;
    *) echo "said ${*: -3}" ;;
    esac
    ;;
esac
END
chmod +x "$room/bin/kubectl"
export CALLS=$room/calls TMPDIR=$room/tmp
cd "$room" || exit 1

run() { # expected exit code, FAKE, arguments…
    : >"$CALLS"
    local code=0
    FAKE=$2 PATH=$room/bin:$PATH timeout -k 5 60 $shell "$plugin" "${@:3}" >"$room/out" 2>"$room/err" || code=$?
    [[ $code = "$1" ]] || { echo "exit code $code instead of $1: $*"; return 1; }
    # Nothing is left, and no control character reaches a terminal.
    [[ -z $(ls -A "$room/tmp") ]] || { echo "left in TMPDIR: $(ls "$room/tmp")"; return 1; }
    [[ ${*: -1} = - ]] || ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$room/out" "$room/err" || { echo "control characters"; return 1; }
}
says() { # pattern, then as run
    run "${@:2}" && grep -qE -- "$1" "$room/out" "$room/err" || { echo "does not say: $1"; return 1; }
}
calls() { # what the last call is, then as run
    run "${@:2}" && [[ $(tail -n 1 "$CALLS") = "$1" ]] || { echo "called: $(tail -n 1 "$CALLS")"; return 1; }
}
asks_nothing() { # then as run
    run "$@" && [[ ! -s $CALLS ]] || { echo "kubectl was called: $(cat "$CALLS")"; return 1; }
}
tree() { # directory
    (cd "$1" && find . ! -type d | LC_ALL=C sort | paste -sd' ')
}

hostile=(-oyaml --all '$(touch pwned)' '`touch pwned`' '; touch pwned' '../../etc/passwd' 'a/b' $'node\nb' $'no\e[31mde' 'node a' '' '*' 'a..b' '.a' "$(printf 'a%.0s' {1..300})" 'node-a,metadata.name=x' 'Node')
of() { # pod, words…
    printf '<--namespace=unstarve><exec><%s><-c><watch><--></usr/bin/unstarve>' "$1"
    printf '<%s>' "${@:2}"
}
each_hostile() { # arguments before the name …
    local name
    for name in "${hostile[@]}"; do
        case $name in
        # What looks like an option is one, and none is known.
        -*) asks_nothing 2 ok "$@" "$name" && asks_nothing 2 ok "$@" "--namespace=$name" || return ;;
        *) asks_nothing 2 ok "$@" "$name" || return ;;
        esac
        [[ ! -e pwned ]] || return
    done
}
each_hostile_value() {
    local name option
    for name in "${hostile[@]}"; do
        for option in --namespace --instance --since --window --timeout --layout --traces --max-mib --port; do
            # An empty one is as if it were not given.
            [[ -n $name ]] || continue
            # These are names of something else.
            [[ $option$name != --instance@(Node|a..b) && $option$name != --@(since|window)@(-oyaml|--all|a..b|.a|Node) ]] || continue
            asks_nothing 2 ok top node-a "$option" "$name" || return
        done
    done
    asks_nothing 2 ok explain node-a '../../x' && asks_nothing 2 ok explain node-a '20261130-154643-189/..' && asks_nothing 2 ok explain node-a -- && asks_nothing 2 ok status node-a --context $'a\nb'
}
stays_an_option() {
    calls "$(of pod-a watch episodes --since=-oyaml)" 0 ok episodes node-a --since -oyaml &&
        calls '<--context=-oyaml><--as=$(id)>'"$(of pod-a watch status)" 0 ok status node-a --context -oyaml --as '$(id)'
}
ids_of_ours_alone() {
    run 1 ok must-gather -o bundle && [[ ! -e $room/escape && ! -e $room/../escape ]] || return
    local file of_node
    of_node=$(for file in 20261130-154643-189/trace.dat 20261130-154650-001-2/trace.dat check.json doctor.txt episodes.jsonl fix.json gather.log pod.yaml snapshot.json status.json watch.log watch.previous.log; do
        printf './nodes/NODE/unstarve/%s ' "$file"
    done)
    [[ $(tree bundle) = "${of_node//NODE/node-a}${of_node//NODE/node-b}./unstarve-summary.txt" ]] && grep -qx 'node-z  -  no pod of the watch' bundle/unstarve-summary.txt || { tree bundle; return 1; }
    cmp "bundle/nodes/node-a/unstarve/20261130-154643-189/trace.dat" <(printf 'bytes\0\1\e[2J') || return
    [[ $(stat -c %a bundle) = 700 ]] || return
    # Again it is refused, and stays.
    says 'already there' 2 ok must-gather -o bundle && [[ -d bundle/nodes ]] && ls -d bundle.part* 2>/dev/null && return 1
    rm -rf bundle
}
dead_node() { # layout, files of the dead node
    says 'node-b  pod-b  not whole' 1 dead must-gather node-a node-b --layout "$1" -o bundle && grep -q 'node-a  pod-a  whole' bundle/unstarve-summary.txt || return
    # It is asked once, not for each answer.
    [[ $(grep -c '<exec><pod-b>' "$CALLS") = 1 ]] || return
    case $1 in
    harvester) [[ $(unzip -Z1 bundle/nodes/node-a.zip | grep -c '^node-a/unstarve/') -gt 8 && -s bundle/metadata.yaml && -s bundle/logs/unstarve/pod-a/watch.log ]] && grep -q node-b bundle/bundleGenerationError.log ;;
    rancher) [[ $(tar -tzf bundle/node-a-*.tar.gz | grep -c '^./node-a-2[0-9_-]*/unstarve/[a-z2]') -gt 8 ]] ;;
    *) [[ -s bundle/nodes/node-b/unstarve/watch.log && ! -e bundle/nodes/node-b/unstarve/status.json ]] ;;
    esac || { tree bundle; return 1; }
    rm -rf bundle
}
no_pod_there() {
    says 'node-z  -  no pod of the watch' 1 many must-gather node-1 node-z -o bundle && [[ $(ls bundle/nodes) = node-1 ]] && rm -rf bundle
}
bounded_in_size() {
    run 1 huge must-gather -o bundle --max-mib 8 || return
    local kib
    kib=$(du -sk bundle | cut -f1)
    rm -rf bundle
    ((kib < 9 * 1024)) || { echo "$kib KiB"; return 1; }
}
bounded_in_time() {
    SECONDS=0
    run 1 hang must-gather -o bundle --timeout 2 --node-timeout 3 && ((SECONDS < 15)) && grep -q 'ended after 2 s' bundle/nodes/node-a/unstarve/gather.log && rm -rf bundle
}
# A signal to the plugin alone, and one to its group as a terminal sends it: soon over, nothing left, no kubectl left.
leaves_nothing() { # signal, to whom, arguments…
    : >"$CALLS"
    FAKE=hang PATH=$room/bin:$PATH python3 - "$1" "$2" "$plugin" "$shell" "${@:3}" <<'END' || return
import os, signal, subprocess, sys, time
number = getattr(signal, "SIG" + sys.argv[1])
child = subprocess.Popen(sys.argv[4].split() + [sys.argv[3]] + sys.argv[5:], start_new_session=True, stderr=subprocess.DEVNULL,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
end = time.time() + 20
while "<exec>" not in open(os.environ["CALLS"]).read() and time.time() < end:
    time.sleep(0.05)
time.sleep(0.2)
begin = time.time()
os.killpg(child.pid, number) if sys.argv[2] == "group" else child.send_signal(number)
code = child.wait(timeout=20)
assert code == 128 + number, code
assert time.time() - begin < 4, time.time() - begin
def left():
    mine = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(each)) == child.pid and b"sleep\0" + b"100\0" in open(f"/proc/{each}/cmdline", "rb").read():
                mine.append(each)
        except OSError:
            pass
    return mine
end = time.time() + 3
while left() and time.time() < end:
    time.sleep(0.1)
assert not left(), left()
END
    [[ -z $(ls -A "$room/tmp") && -z $(ls -d bundle* 2>/dev/null) ]] || { ls -A "$room/tmp" bundle*; return 1; }
}
# While it starts to ask its nodes.
ends_early() {
    local delay child
    for delay in 0.04 0.08 0.16 0.32 0.64; do
        FAKE=many PATH=$room/bin:$PATH $shell "$plugin" must-gather -o bundle 2>/dev/null &
        child=$!
        sleep $delay
        kill "$child" 2>/dev/null
        wait "$child" 2>/dev/null
    done
    # What was begun and nobody ended would be there again by now.
    sleep 2
    [[ -z $(ls -A "$room/tmp") && -z $(ls -d bundle* 2>/dev/null) ]] || { ls -A "$room/tmp" bundle*; return 1; }
}
# A reader that goes first.
ends_with_its_reader() {
    FAKE=many PATH=$room/bin:$PATH timeout -k 5 60 $shell "$plugin" must-gather -o bundle 2>&1 | head -n 1 >out
    FAKE=ok PATH=$room/bin:$PATH timeout -k 5 60 $shell "$plugin" episodes --all-nodes 2>&1 | true
    [[ -z $(ls -A "$room/tmp") && -z $(ls -d bundle.part* 2>/dev/null) ]] || { ls "$room/tmp" bundle*; return 1; }
}
explains_a_trace() {
    calls "$(of pod-a watch show 20261130-154650-001-2)" 0 ok explain node-a &&
        calls "$(of pod-a watch show 20261130-154643-189 --json)" 0 ok explain node-a 20261130-154643-189 --json &&
        run 0 ok explain node-a --trace -x.dat && cmp -- ./-x.dat <(printf 'bytes\0\1\e[2J') && [[ -z $(ls -d -- *.part.* 2>/dev/null) ]] && rm ./-x.dat &&
        run 0 ok explain node-a --trace - && cmp out <(printf 'bytes\0\1\e[2J') &&
        run 2 ok explain node-a --trace /nowhere/there
}
names_are_checked() {
    says '9 pods left out' 1 hostile nodes && [[ $(awk '{ print $1 }' out | paste -sd' ') = 'NODE node-a node-b node-e node-z' ]] && run 1 hostile must-gather -o bundle &&
        [[ $(ls bundle/nodes) = $'node-a\nnode-e' ]] && [[ ! -e up && ! -e ../../up ]] && rm -rf bundle
}
the_image() {
    mkdir -p gathered
    : >"$CALLS"
    FAKE=dead PATH=$room/bin:$PATH KUBECTL=kubectl MUST_GATHER_DIR=$room/gathered UNSTARVE_PLUGIN=$plugin MUST_GATHER_SINCE=8h0m0s bash "${plugin%/*}/../must-gather/gather" >out 2>err || return
    [[ $(cat gathered/version) = $'unstarve/must-gather\n'$("$plugin" --version | cut -d' ' -f2) ]] && grep -q '<--since=28800s>' "$CALLS" && [[ -s gathered/nodes/node-a/unstarve/check.json && -s gathered/unstarve-summary.txt && -s gathered/unstarve-gather.log ]] || { tree gathered; return 1; }
    # Ended in the middle it keeps what is whole; a second run does not mix with it.
    ! FAKE=dead PATH=$room/bin:$PATH KUBECTL=kubectl MUST_GATHER_DIR=$room/gathered UNSTARVE_PLUGIN=$plugin bash "${plugin%/*}/../must-gather/gather" >out 2>err || return
    FAKE=none PATH=$room/bin:$PATH KUBECTL=kubectl MUST_GATHER_DIR=$room/gathered2 UNSTARVE_PLUGIN=$plugin bash "${plugin%/*}/../must-gather/gather" >out 2>err
    [[ $? = 2 ]] && grep -q 'no pod of the watch' gathered2/unstarve-gather.log && rm -rf gathered gathered2
}
manifest() {
    local krew=${plugin%/packaging/*}/tools/dist/krew.sh
    mkdir -p one two
    "$krew" one https://example.org/v0/ https://example.org/home && "$krew" two https://example.org/v0 https://example.org/home && cmp one/unstarve-kubectl.tar.gz two/unstarve-kubectl.tar.gz &&
        cmp one/unstarve.yaml two/unstarve.yaml && ! grep -q '@' one/unstarve.yaml && grep -q "uri: https://example.org/v0/unstarve-kubectl.tar.gz" one/unstarve.yaml &&
        grep -q "sha256: $(sha256sum one/unstarve-kubectl.tar.gz | cut -d' ' -f1)\$" one/unstarve.yaml &&
        [[ $(tar -tvzf one/unstarve-kubectl.tar.gz | grep -c '^-rwxr-xr-x 0/0 .* kubectl-unstarve$') = 1 ]] || return
    local bad
    for bad in http://example.org 'https://e/|e touch pwned|' $'https://e\nbin: x' 'https://e/ b'; do
        ! "$krew" one "$bad" https://example.org && ! "$krew" one https://example.org "$bad" || return
    done
}

by_each_shell=(sh)
for candidate in "bash --posix" "busybox sh" "ksh" "mksh"; do
    command -v "${candidate%% *}" >/dev/null && by_each_shell+=("$candidate")
done
for shell in "${by_each_shell[@]}"; do
    ok "$shell: commands reach the node's pod" eval '
        calls "$(of pod-a top --once --window=10s)" 0 ok top node-a &&
        calls "$(of pod-a top --once --window=2s --json)" 0 ok top node-a --window=2s --json &&
        calls "$(of pod-b watch episodes --since=2h)" 0 ok episodes node-b --since 2h &&
        calls "$(of pod-a doctor)" 0 ok doctor node-a && calls "$(of pod-a check --json)" 0 ok check node-a --json'
    ok "$shell: an episode is explained or copied" explains_a_trace
    ok "$shell: all nodes, each with its own answer" eval 'run 2 dead episodes --all-nodes && grep -q "== node-a" out && grep -q "said" out && grep -q "node-b: .*connection refused" err'
    ok "$shell: no hostile name of a node reaches kubectl" each_hostile status
    ok "$shell: nor one for must-gather" each_hostile must-gather
    ok "$shell: nor a hostile value" each_hostile_value
    ok "$shell: a value stays behind its option" stays_an_option
    ok "$shell: names from the cluster are checked" names_are_checked
    ok "$shell: no control character of a pod reaches the terminal" eval 'run 0 escapes status node-a && grep -q "a?\]0;owned" out'
    ok "$shell: the exit code is the pod's" says found 1 finding doctor node-a
    ok "$shell: no pod: how to install" says 'helm install' 2 none status node-a
    ok "$shell: no right to list" says 'pods/exec, pods/portforward' 2 forbidden status node-a
    ok "$shell: no right to exec" says 'verbs: \[get, create\]' 2 exec-forbidden status node-a
    ok "$shell: an old kubectl" says 'too old' 2 old status node-a
    ok "$shell: a pod in CrashLoopBackOff" says 'CrashLoopBackOff' 2 crash episodes node-a
    ok "$shell: a pod whose container ended, beside an evicted one" says 'pod-a of node node-a does not run: Error' 2 error episodes node-a
    ok "$shell: a pod that is not there yet" says 'does not run: Pending' 2 pending status node-a
    ok "$shell: two installations on a node" says '[-][-]instance other' 2 two status node-a
    ok "$shell: a pod that is being replaced is not asked" calls "$(of pod-new watch status)" 0 rolling status node-a
    ok "$shell: endless output ends" says 'more than may be printed' 2 huge status node-a
    ok "$shell: no answer in time" says 'no answer in time' 2 hang status node-a --timeout 1
    ok "$shell: a bundle has files of ours alone" ids_of_ours_alone
    for layout in must-gather harvester rancher; do
        ok "$shell: a dead node is named in a bundle ($layout)" dead_node $layout
    done
    ok "$shell: a node without a pod is named" no_pod_there
    ok "$shell: twenty nodes, a few at once" eval 'run 1 many must-gather -o bundle && [[ $(ls bundle/nodes | wc -l) = 20 ]] && rm -rf bundle'
    ok "$shell: a bundle is bounded in size" bounded_in_size
    ok "$shell: and in time" bounded_in_time
    for signal in INT TERM HUP; do
        ok "$shell: SIG$signal leaves nothing" leaves_nothing $signal self must-gather -o bundle
    done
    ok "$shell: Ctrl-C leaves nothing" leaves_nothing INT group must-gather -o bundle
    ok "$shell: SIGTERM while it starts leaves nothing" ends_early
    ok "$shell: a reader that goes first leaves nothing" ends_with_its_reader
    ok "$shell: Ctrl-C of one command" leaves_nothing INT group status node-a
done
shell=sh
ok "the must-gather image's script" the_image
ok "what krew installs" manifest
if command -v shellcheck >/dev/null; then
    ok "shellcheck" shellcheck "$plugin" "${plugin%/*}/../must-gather/gather" "${plugin%/packaging/*}/tools/dist/krew.sh"
else
    echo "test shellcheck ... ignored, no shellcheck here; tools/setup.sh test installs it"
fi
echo "test result: kubectl. $passed passed; $failed failed;"
((failed == 0))
