# shellcheck shell=bash
# For tools/test_kubernetes.sh, which has made the cluster: node-a with a kubelet, node-b without.
passed=0 failed=0
ok() { # what, command…
    if "${@:2}" >"$room/said" 2>&1; then
        echo "test $1 ... ok"
        passed=$((passed + 1))
    else
        head -n 60 "$room/said" | cat -v
        echo "test $1 ... FAILED"
        failed=$((failed + 1))
    fi
    rm -rf "$room/bundle"
}
asked() { # exit code, pattern, arguments…
    local code=0
    timeout -k 5 180 kubectl unstarve "${@:3}" >"$room/out" 2>"$room/err" || code=$?
    cat "$room/out" "$room/err" 2>/dev/null
    [[ $code = "$1" ]] || { echo "exit code $code instead of $1"; return 1; }
    grep -qE -- "$2" "$room/out" "$room/err" || { echo "does not say: $2"; return 1; }
}
by() { # who, command…
    KUBECONFIG=$room/$1.conf "${@:2}"
}
one_pod() { # name, instance, image, arguments: a pod that looks like one of the watch
    kubectl apply -f - <<END
{apiVersion: v1, kind: Pod, metadata: {name: $1, namespace: unstarve, labels: {app.kubernetes.io/name: unstarve, app.kubernetes.io/component: watch, app.kubernetes.io/instance: $2}},
 spec: {nodeName: node-a, containers: [{name: watch, image: "$3", imagePullPolicy: Never, command: $4}]}}
END
}
watch_pod=$(on_node_a)
dump() {
    kubectl -n unstarve exec "$watch_pod" -c watch -- /usr/bin/unstarve watch dump --json
}
has_trace() {
    asked 0 'trace_bytes' episodes node-a --json
}
copies() {
    asked 0 'wrote' explain node-a --trace "$room/copy.dat" && "$program" explain --json --fail-on never "$room/copy.dat" | grep -o 'unstarve.explain/1' &&
        kubectl unstarve explain node-a --trace - 2>/dev/null | cmp - "$room/copy.dat" &&
        cmp "$room/copy.dat" "$room/host/var/lib/unstarve/watch/$(sed -n 's/.*last episode with a trace: //p' "$room/err")/trace.dat"
}
page() {
    kubectl unstarve page node-a --port 19846 2>"$room/err" &
    local asking=$! time got=1
    for ((time = 0; time < 40 && got; time++)); do
        curl -sf http://127.0.0.1:19846/metrics | grep -q '^unstarve_' && got=0
        sleep 0.25
    done
    kill "$asking"
    wait "$asking"
    [[ $? = 143 && $got = 0 ]] || { cat "$room/err"; return 1; }
    ! curl -sf http://127.0.0.1:19846/metrics
}
bundle() { # layout
    asked 1 'node-b .*not whole' must-gather --layout "$1" -o "$room/bundle" && grep 'node-a .* whole' "$room/bundle/unstarve-summary.txt" || return
    (
        cd "$room/bundle" || exit
        case $1 in
        must-gather) grep "Next: unstarve explain $room/bundle/nodes/node-a/unstarve/2" "$room/err" ;;
        harvester) unzip -q nodes/node-a.zip && test -d node-a/unstarve ;;
        rancher) cat node-a-*.tar.gz | tar -xz ;;
        esac
    ) || return
    # What was recorded is explained here; settings are judged.
    find "$room/bundle" -name trace.dat >"$room/found"
    [[ -s $room/found ]] || return
    "$program" explain --json --fail-on never "$(head -n 1 "$room/found")" | grep -o 'unstarve.explain/1' && find "$room/bundle" -name snapshot.json -exec "$program" check --json --snapshot {} \; | grep -o 'unstarve.check/1'
}
image() {
    MUST_GATHER_DIR=$room/bundle KUBECTL=kubectl UNSTARVE_PLUGIN=$plugin MUST_GATHER_SINCE=1h0m0s "$here/packaging/must-gather/gather" && cat "$room/bundle/version" &&
        [[ -n $(find "$room/bundle/nodes/node-a/unstarve" -name trace.dat -size +0) ]]
}
interrupted() {
    timeout --foreground -s INT 2 kubectl unstarve must-gather -o "$room/bundle"
    [[ ! -e $room/bundle && -z $(ls -d "$room"/bundle.part* 2>/dev/null) ]]
}
hostile() {
    local name
    for name in -oyaml '$(id)' $'a\nb' '../x' 'node-a,metadata.name=x' ''; do
        asked 2 'unknown option|is no name of a node|which node' status "$name" || return
    done
}

echo "kubectl: $(kubectl version --client | head -n 1); server: $(kubectl version -o json | sed -n '/serverVersion/,$s/.*"gitVersion": "\(.*\)".*/\1/p')"
for old in '' "$cache/root/usr/bin/kubectl"; do
    which=
    if [[ -n $old ]]; then
        # Debian 12's, of 1.20: it finds the plugin, too, which calls the same kubectl.
        command -v "$old" >/dev/null || { echo "test an old kubectl ... ignored, no $old here"; continue; }
        mkdir -p "$room/old" && ln -sf "$old" "$room/old/kubectl"
        PATH=$room/old:$PATH
        hash -r
        which="$(kubectl version --client --short 2>/dev/null | cut -d' ' -f3): "
    fi
    ok "${which}nodes: node-a runs, node-b does not" asked 1 'node-b +(no|\?) .*Pending' nodes
    ok "${which}status" asked 0 'counts by' status node-a
    ok "${which}status of all" asked 2 'node-b: the pod .* does not run: Pending' status --all-nodes
    ok "${which}doctor" asked 1 'record' doctor node-a
    ok "${which}check" eval 'asked 0 "" check node-a --json || asked 1 "" check node-a --json'
    ok "${which}top" asked 0 'unstarve top' top node-a --window 1s
    ok "${which}a recording is kept" dump
    ok "${which}episodes" has_trace
    ok "${which}explain of the last episode" asked 0 'What explain says' explain node-a
    ok "${which}its trace comes here as it is" copies
    ok "${which}the page by port-forward" page
    for layout in must-gather harvester rancher; do
        ok "${which}must-gather ($layout)" bundle $layout
    done
    ok "${which}the script of the must-gather image" image
    ok "${which}Ctrl-C leaves no bundle" interrupted
    ok "${which}hostile names" hostile
    ok "${which}without rights" by eve asked 2 'pods/exec, pods/portforward' status node-a
    ok "${which}with those of access.yaml" by bob asked 1 'node-b .*Pending' nodes
    ok "${which}with those of access.yaml, exec" by bob asked 0 'counts by' status node-a
    ok "${which}with those of access.yaml, the page" by bob page
    ok "${which}with those of access.yaml, must-gather" by bob asked 1 'node-a .* whole' must-gather -o "$room/bundle"
    # Roles that lack exec.
    kubectl -n unstarve get role unstarve-ask -o json | sed 's,"pods/exec","pods/none",; s,"pods/exec",,' | kubectl apply -f - >/dev/null 2>&1
    kubectl -n unstarve patch role unstarve-ask --type=json -p '[{"op":"remove","path":"/rules/1"}]' >/dev/null 2>&1
    ok "${which}without exec" by bob asked 2 'verbs: \[get, create\]' status node-a
    kubectl apply -f "$here/packaging/kubectl/access.yaml" >/dev/null
done
PATH=${PATH#"$room/old:"}
hash -r
ok "a second installation that crashes" eval 'one_pod crash crash docker.io/library/unstarve:0.1.0 "[/usr/bin/unstarve, nonsense]" &&
    within 60 asked 2 "several pods of the watch" status node-a && within 90 asked 2 "crash of node node-a does not run: (CrashLoopBackOff|Error)" status node-a --instance crash &&
    asked 0 counts.by status node-a --instance unstarve && asked 1 "crash  not whole" must-gather -o "$room/bundle" && ls "$room/bundle/nodes/node-a" | grep unstarve-crash'
ok "a pod of another image" eval 'one_pod other other unstarve.test/pause:1 "[/usr/bin/sleep, infinity]" && within 60 asked 2 "has no /usr/bin/unstarve" status node-a --instance other'
# What would be a node whose kubelet is dead, while its pod is still called running.
kill "${daemons[-1]}"
ok "a dead kubelet" eval 'sleep 2 && asked 2 "does not reach the node" status node-a --instance unstarve'
ok "a dead kubelet in a bundle" asked 1 'node-a .* not whole' must-gather -o "$room/bundle"
echo "test result: kubernetes. $passed passed; $failed failed;"
((failed == 0))
