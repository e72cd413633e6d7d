#!/usr/bin/env bash
# Puts what tools/test_kubernetes.sh runs into a directory: the programs of Kubernetes as one, built from its Go module, and the etcd, containerd, runc,
# CNI plugins and old kubectl of Debian, unpacked there and installed nowhere. What is there already is kept.
#
#     tools/kubernetes/setup.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")"
into=$1
version=$(sed -n 's,.*k8s.io/kubernetes \(v[0-9.]*\).*,\1,p' go.mod | head -n 1)
mkdir -p "$into"
if [[ ! -x $into/root/usr/bin/containerd ]]; then
    command -v apt-get >/dev/null || { echo "kubernetes: no apt-get here: containerd, runc, etcd and CNI plugins come from Debian" >&2 && exit 1; }
    debs=$(mktemp -d)
    trap 'rm -rf "$debs"' EXIT
    chmod 755 "$debs"
    (cd "$debs" && timeout -k 10 300 apt-get download -q containerd runc etcd-server containernetworking-plugins kubernetes-client >/dev/null)
    rm -rf "$into/root.part"
    for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$into/root.part"; done
    mv "$into/root.part" "$into/root"
fi
# Of another release it is built anew.
if [[ $("$into/kubelet" --version 2>/dev/null || :) != "Kubernetes $version" ]]; then
    command -v go >/dev/null || { echo "kubernetes: no go here, which builds Kubernetes" >&2 && exit 1; }
    echo "kubernetes: building Kubernetes $version, which takes long" >&2
    number=${version#v}
    flags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
    flags+=" -X k8s.io/component-base/version.gitMajor=${number%%.*} -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$number")"
    CGO_ENABLED=0 GOFLAGS=-modcacherw nice timeout -k 10 5400 go build -trimpath -ldflags "$flags" -o "$into/programs" .
    for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -sf programs "$into/$name"; done
fi
