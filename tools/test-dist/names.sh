#!/usr/bin/env bash
# A host name is looked up without any library of the host, whatever /etc/nsswitch.conf says.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs_root
needs unshare strace
chmod 700 "$room"
cat >"$room/watch.toml" <<END
version = 1
[listen]
address = "off"
[store]
directory = "$room/store"
[otlp]
endpoint = "http://collector.unstarve.invalid:9/v1/metrics"
interval = "1s"
END
echo "hosts: mymachines resolve myhostname files dns" >"$room/nsswitch.conf"
echo "127.0.0.1 collector.unstarve.invalid" >"$room/hosts"
export out room
# Mounts of a namespace that ends with it. The watch ends by the signal of timeout, with 0.
# shellcheck disable=SC2016
unshare --mount --propagation private bash -euc '
    mount --bind "$room/nsswitch.conf" /etc/nsswitch.conf
    mount --bind "$room/hosts" /etc/hosts
    timeout 15 strace -f -qq -e trace=openat,connect -o "$room/calls" \
        "$out/unstarve" watch --config "$room/watch.toml" --state "$room/state" || :'
grep -q '"/etc/hosts"' "$room/calls" || fail "the name was not looked up"
grep -q 'sin_port=htons(9), sin_addr=inet_addr("127.0.0.1")' "$room/calls" || fail "the name was not found"
! grep '\.so' "$room/calls" || fail "libraries of the host were loaded"
echo "looked up, and no library was opened"
