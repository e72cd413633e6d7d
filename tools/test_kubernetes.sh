#!/usr/bin/env bash
# kubectl-unstarve on a real cluster of one node: kube-apiserver, controller manager, scheduler and kubelet of one release, etcd, containerd and runc,
# all in a network and mount namespace of their own, with an image that holds the program. `exec` goes from kubectl by the API server, the kubelet and
# containerd into the container. A second node has no kubelet: one that is down. Needs root, Go (it builds Kubernetes once, which takes long and
# 4 GB) and Debian's packages of the rest; what is missing is said.
#
#     tools/test_kubernetes.sh [program]      by default the one that cargo test built
#     UNSTARVE_SHELL=1 tools/test_kubernetes.sh      a shell beside the cluster instead of the tests
set -u
cd "$(dirname "$0")/.." || exit 1
program=${1:-${CARGO_TARGET_DIR:-$PWD/target}/debug/unstarve}
cache=${UNSTARVE_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/kubernetes}
skip() {
    echo "skipped: $*"
    echo "test result: kubernetes. 0 passed; 0 failed;"
    exit 0
}
[[ $(id -u) = 0 ]] || skip "a kubelet needs root"
[[ -x $program ]] || skip "no program at $program; run cargo test first"
program=$(realpath "$program")

# --- What runs --------------------------------------------------------------------------------------------------------------------------------

PATH=$PATH:$cache/root/usr/bin:$cache/root/usr/sbin:/usr/sbin:/sbin
tools/kubernetes/setup.sh "$cache" || skip "Kubernetes or what it needs could not be had (see above)"
for needed in kube-apiserver etcd containerd runc openssl ip unshare strip; do
    [[ -x $cache/$needed ]] || command -v "$needed" >/dev/null || skip "no $needed here"
done
# Everything else in namespaces of its own.
if [[ ${UNSTARVE_INSIDE-} != 1 ]]; then
    export UNSTARVE_INSIDE=1
    exec unshare --net --mount --propagation private -- "$0" "$program"
fi

room=$(mktemp -d /tmp/unstarve-kubernetes.XXXXXX) || exit 1
group=unstarve-kubernetes-$$
daemons=()
# By the cgroups that are ours: each hierarchy of version 1, or the one of version 2.
hierarchies=()
while read -r _ at type _; do
    case $type in cgroup | cgroup2) hierarchies+=("$at") ;; esac
done </proc/mounts
cleanup() {
    trap '' INT TERM
    local at pid time
    # The kubelet first, which would start again what is ended; then containers and their shims.
    for ((time = 0; time < 50; time++)); do
        local any=
        ((${#daemons[@]} == 0)) || kill "${daemons[@]}" 2>/dev/null
        for at in "${hierarchies[@]}"; do
            while read -r pid; do
                [[ $pid != "$$" && $pid != 0 ]] || continue
                any=1
                kill -9 "$pid" 2>/dev/null
            done < <(find "$at/$group" -name cgroup.procs -exec cat {} + 2>/dev/null)
        done
        [[ -n $any ]] || break
        sleep 0.2
    done
    wait 2>/dev/null
    for at in "${hierarchies[@]}"; do
        find "$at/$group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    cd /
    findmnt -rno TARGET | grep "^$room/" | sort -r | xargs -r -n 1 umount -l 2>/dev/null
    rm -rf --one-file-system "$room" || ls "$room"
    # Mount points that were not there before.
    for at in "${made[@]}"; do umount -l "$at" 2>/dev/null; rmdir "$at" 2>/dev/null; done
}
made=()
trap cleanup EXIT
trap 'exit 130' INT TERM
fail() {
    echo "kubernetes: $*" >&2
    for log in "$room"/*.log; do echo "== $log" && tail -n 15 "$log"; done >&2
    exit 1
}
within() { # seconds, command…
    local end=$((SECONDS + $1))
    until "${@:2}" >"$room/within" 2>&1; do
        ((SECONDS < end)) || { cat "$room/within" >&2 && fail "not within $1 s: ${*:2}"; }
        sleep 0.5
    done
}

# --- The machine ------------------------------------------------------------------------------------------------------------------------------

# The API server speaks to the node's address, which is of this namespace alone.
ip link set lo up
ip link add node type veth peer name nowhere || skip "no veth devices here"
ip addr add 192.0.2.10/25 dev node && ip link set node up && ip link set nowhere up && ip route add default dev node
for at in "${hierarchies[@]}"; do
    mkdir -p "$at/$group/daemons" "$at/$group/pods"
    # cpuset of version 1 takes no task before it has these.
    for file in cpuset.cpus cpuset.mems; do
        for each in "$at/$group" "$at/$group/daemons" "$at/$group/pods"; do
            [[ ! -e $each/$file || -s $each/$file && -n $(cat "$each/$file") ]] || cat "$at/$file" >"$each/$file" 2>/dev/null
        done
    done
done
# Hosts' directories of the manifest, which are not for a test to write.
for each in /run/unstarve /var/lib/unstarve /var/log/containers /var/log/pods /var/lib/kubelet /etc/cni /run/containerd /var/lib/containerd /opt; do
    [[ -d $each ]] || made=("$each" "${made[@]}")
    mkdir -p "$each" "$room/host$each"
    mount --bind "$room/host$each" "$each"
done
mount --make-rshared /
daemon() { # name, program, arguments…
    (
        for at in "${hierarchies[@]}"; do echo $BASHPID >"$at/$group/daemons/cgroup.procs"; done 2>/dev/null
        exec "${@:2}"
    ) >"$room/$1.log" 2>&1 </dev/null &
    daemons+=($!)
    disown
}

# --- Certificates and kubeconfigs -------------------------------------------------------------------------------------------------------------

cd "$room" || exit 1
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt 2>/dev/null
certificate() { # file, subject, names
    openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile <(echo "subjectAltName=${3:-DNS:none}") -out "$1.crt" 2>/dev/null
}
certificate server /CN=kube-apiserver DNS:localhost,IP:127.0.0.1,IP:10.96.0.1
certificate admin /O=system:masters/CN=admin
certificate controller /CN=system:kube-controller-manager
certificate scheduler /CN=system:kube-scheduler
certificate node /O=system:nodes/CN=system:node:node-a DNS:node-a,IP:192.0.2.10
certificate to-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client
certificate eve /O=strangers/CN=eve
certificate bob /O=unstarve-ask/CN=bob
openssl genrsa -out accounts.key 2048 2>/dev/null
for who in admin controller scheduler node eve bob; do
    cat >$who.conf <<END
{apiVersion: v1, kind: Config, current-context: here, contexts: [{name: here, context: {cluster: here, user: me}}],
 clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443", certificate-authority: $room/ca.crt}}],
 users: [{name: me, user: {client-certificate: $room/$who.crt, client-key: $room/$who.key}}]}
END
done
export KUBECONFIG=$room/admin.conf HOME=$room
PATH=$cache:$PATH
kubectl version --client | head -n 1

# --- The cluster ------------------------------------------------------------------------------------------------------------------------------

daemon etcd etcd --data-dir "$room/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
daemon apiserver "$cache/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range=10.96.0.0/16 --bind-address=127.0.0.1 \
    --advertise-address=192.0.2.10 --tls-cert-file="$room/server.crt" --tls-private-key-file="$room/server.key" --client-ca-file="$room/ca.crt" \
    --kubelet-client-certificate="$room/to-kubelet.crt" --kubelet-client-key="$room/to-kubelet.key" --kubelet-certificate-authority="$room/ca.crt" \
    --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC --allow-privileged \
    --service-account-issuer=https://kubernetes --service-account-key-file="$room/accounts.key" --service-account-signing-key-file="$room/accounts.key"
within 90 kubectl get --raw /readyz
daemon controller "$cache/kube-controller-manager" --kubeconfig="$room/controller.conf" --service-account-private-key-file="$room/accounts.key" \
    --use-service-account-credentials --root-ca-file="$room/ca.crt" --leader-elect=false --bind-address=127.0.0.1
daemon scheduler "$cache/kube-scheduler" --kubeconfig="$room/scheduler.conf" --leader-elect=false --bind-address=127.0.0.1

cat >containerd.toml <<END
version = 2
root = "$room/containerd"
state = "$room/containerd-state"
[grpc]
address = "$room/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "unstarve.test/pause:1"
# Where root may not lower it (containers, sandboxes), pods have that of containerd.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$cache/root/usr/lib/cni"
conf_dir = "$room/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
END
mkdir cni
# Pods have loopback and an address that leads nowhere.
echo '{"cniVersion": "0.4.0", "name": "pods", "type": "ptp", "ipam": {"type": "host-local", "subnet": "192.0.2.128/25"}}' >cni/pods.conf
PATH=$cache/root/usr/bin:$cache/root/usr/sbin:$PATH daemon containerd containerd --config "$room/containerd.toml"
ctr() {
    command ctr -a "$room/containerd.sock" -n k8s.io "$@"
}
within 30 ctr version

# Images: the program with the libraries that it asks for, and one that waits.
image() { # name, root, entrypoint
    local layout=$room/layout layer
    rm -rf "$layout" && mkdir -p "$layout"
    tar -C "$2" --numeric-owner --owner=0 --group=0 -cf "$layout/layer.tar" .
    layer=$(sha256sum "$layout/layer.tar" | cut -d' ' -f1)
    printf '{"architecture":"amd64","os":"linux","config":{"Entrypoint":[%s],"Env":["PATH=/usr/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$3" "$layer" >"$layout/config.json"
    printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$1" >"$layout/manifest.json"
    tar -C "$layout" -cf "$room/image.tar" manifest.json config.json layer.tar
    ctr images import "$room/image.tar" >/dev/null || fail "the image $1 cannot be imported"
}
root_of() { # directory, program, name
    mkdir -p "$1/usr/bin" "$1"/{dev,etc/unstarve,proc,run/unstarve,sys,tmp,var/lib/unstarve}
    strip -o "$1/usr/bin/$3" "$2" 2>/dev/null || cp "$2" "$1/usr/bin/$3"
    chmod 755 "$1/usr/bin/$3"
    { ldd "$2" 2>/dev/null || :; } | grep -o '/[^ ]*' | while read -r library; do
        install -D -m 755 "$library" "$1$library"
    done
}
root_of "$room/program" "$program" unstarve
root_of "$room/pause" "$(command -v sleep)" sleep
image docker.io/library/unstarve:0.1.0 "$room/program" '"/usr/bin/unstarve"'
image unstarve.test/pause:1 "$room/pause" '"/usr/bin/sleep","infinity"'

cat >kubelet.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 192.0.2.10
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $room/ca.crt}}
authorization: {mode: AlwaysAllow}
tlsCertFile: $room/node.crt
tlsPrivateKeyFile: $room/node.key
cgroupDriver: cgroupfs
cgroupRoot: /$group/pods
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$room/containerd.sock
staticPodPath: ""
resolvConf: ""
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, nodefs.inodesFree: "1", imagefs.available: 1Mi}
imageGCHighThresholdPercent: 100
podLogsDir: /var/log/pods
END
daemon kubelet "$cache/kubelet" --config="$room/kubelet.yaml" --kubeconfig="$room/node.conf" --hostname-override=node-a --node-ip=192.0.2.10 --root-dir="$room/kubelet" --cert-dir="$room/kubelet-certs"
within 90 kubectl wait --for=condition=Ready node/node-a --timeout=1s
# A node that is down.
kubectl apply -f - >/dev/null <<END
{apiVersion: v1, kind: Node, metadata: {name: node-b, labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}, spec: {}}
END
kubectl patch node node-b --subresource=status -p '{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.11"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},"capacity":{"cpu":"2","memory":"4Gi","pods":"10"}}}' >/dev/null

here=$OLDPWD
kubectl apply -f "$here/packaging/kubernetes/watch.yaml" -f "$here/packaging/kubectl/access.yaml" >/dev/null || fail "the manifests are refused"
on_node_a() {
    kubectl -n unstarve get pods --field-selector spec.nodeName=node-a -l app.kubernetes.io/component=watch -o name | grep .
}
within 60 on_node_a
within 180 kubectl -n unstarve wait --for=condition=Ready "$(on_node_a)" --timeout=1s
kubectl get nodes,pods -A -o wide
export plugin=$here/packaging/kubectl/kubectl-unstarve
ln -s "$plugin" "$room/kubectl-unstarve"
export PATH=$room:$PATH room here program
if [[ ${UNSTARVE_SHELL-} = 1 ]]; then
    bash </dev/tty
    exit
fi
if [[ -n ${UNSTARVE_SCRIPT-} ]]; then
    bash "$UNSTARVE_SCRIPT"
    exit
fi
# shellcheck source=tools/kubernetes/tests.sh
. "$here/tools/kubernetes/tests.sh"
