#!/usr/bin/env bash
# Chart and manifests: rendered by helm, linted, checked against the schemas of Kubernetes, and the same objects. With UNSTARVE_WRITE=1 it writes the
# manifests from the chart.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs helm
python3 -c 'import yaml, kubernetes_validate' 2>/dev/null || skip "no kubernetes-validate for Python here (tools/setup.sh dist installs it)"
chart=packaging/helm/unstarve
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
grep -qx "appVersion: \"$version\"" $chart/Chart.yaml || fail "the chart is of another version than $version"

render() { # name, options…
    helm template unstarve $chart --namespace unstarve "${@:2}" >"$room/$1.yaml" || fail "helm template $*"
}
guarded=(--set guard.enabled=true --set-file guard.policy=examples/policies/dio-workers.toml)
metrics=(--set metrics.enabled=true --set metrics.annotations=true --set metrics.podMonitor.enabled=true)
if [[ ${UNSTARVE_WRITE-} = 1 ]]; then
    for part in watch guard; do
        sed -n '/^#/p' "packaging/kubernetes/$part.yaml" | sed '/^# Source/,$d' >"$room/head"
        sed -n '/^---$/q; /^#/!p' "packaging/kubernetes/$part.yaml" >"$room/namespace"
        {
            cat "$room/head" "$room/namespace"
            helm template unstarve $chart --namespace unstarve --kube-version 1.37.0 "${guarded[@]}" --show-only "templates/$part.yaml" |
                sed '/^# Source/d; s/[[:space:]]*$//'
        } >"$room/$part"
        cp "$room/$part" "packaging/kubernetes/$part.yaml"
    done
fi
helm lint --strict $chart
helm lint --strict $chart "${guarded[@]}" "${metrics[@]}"
render all --kube-version 1.37.0 "${guarded[@]}"
render old --kube-version 1.29.0 "${guarded[@]}" "${metrics[@]}" --set debugfs=true --set hostNetwork=true --set 'seLinuxOptions.type=spc_t' \
    --set 'podAnnotations.a=b' --set 'podLabels.c=d' --set 'image.pullSecrets[0].name=e' --set priorityClassName=system-node-critical
! helm template unstarve $chart --kube-version 1.37.0 --set guard.enabled=true >"$room/none" 2>&1 || fail "a guard without a policy was rendered"
grep -q 'a guard needs a policy' "$room/none" || fail "$(cat "$room/none")"

python3 tools/test-dist/manifests.py "$room/all.yaml" "$room/old.yaml" packaging
python3 - "$room" <<'END'
import sys, yaml
room = sys.argv[1]
for name in ("all", "old"):
    for one in yaml.safe_load_all(open(f"{room}/{name}.yaml")):
        if one and one["kind"] == "ConfigMap":
            for file, text in one["data"].items():
                open(f"{room}/{name}-{file}", "w").write(text)
END
for name in all old; do
    "$out/unstarve" watch --print-config --config "$room/$name-watch.toml" >"$room/config" || fail "the watch's configuration is wrong"
    "$out/unstarve" guard plan --policy "$room/$name-guard.toml" >/dev/null || fail "the guard's policy is wrong"
done
grep -q '0.0.0.0:9846' "$room/config" || fail "metrics are not where they are scraped"
echo "the chart and packaging/kubernetes are the same objects"
