#!/usr/bin/env bash
# The deb under a real systemd: a guest with Debian's kernel and root, in which systemd is the first process, installs it, starts its units, kills them,
# upgrades and purges. What happens inside is test-dist/inside-systemd.sh. Some ten minutes without KVM.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs_root
needs mmdebstrap cpio dpkg-deb
lab=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/lab
kernel=$lab/kernels/6.1/vmlinuz
[[ -r $kernel ]] || "$out/unstarve" lab kernel add 6.1 || skip "Debian's kernel 6.1 cannot be had here"
qemu=(qemu-system-x86_64)
if ! command -v qemu-system-x86_64 >/dev/null; then
    [[ -x $lab/qemu/usr/bin/qemu-system-x86_64 ]] || "$out/unstarve" lab qemu add || skip "QEMU cannot be had here"
    export LD_LIBRARY_PATH=$lab/qemu/usr/lib/x86_64-linux-gnu:$lab/qemu/lib/x86_64-linux-gnu
    qemu=("$lab/qemu/usr/bin/qemu-system-x86_64" -L "$lab/qemu/usr/share/qemu" -L "$lab/qemu/usr/share/seabios")
fi

root=$room/root
sources=
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [[ -n $sources || ! -r $file ]] || sources=$file
done
LD_LIBRARY_PATH='' mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,runc \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm "$root" ${sources:+"$sources"} || skip "no Debian 12 can be had here"
# What was excluded above would be from the deb, too.
rm -rf "$root"/etc/dpkg/dpkg.cfg.d/* "$root"/var/lib/apt/lists/* "$root"/var/cache/*
mkdir -p "$root/test"
cp "$(echo "$out"/*.deb)" "$root/test/one.deb"
dpkg-deb -R "$root/test/one.deb" "$room/next"
sed -i 's/^Version: .*/&+next/' "$room/next/DEBIAN/control"
dpkg-deb -Zgzip -b --root-owner-group "$room/next" "$root/test/next.deb" >/dev/null
cp tools/test-dist/inside-systemd.sh "$root/test/inside.sh"
if command -v umoci >/dev/null && python3 -c 'import yaml' 2>/dev/null && [[ -r $out/unstarve-oci.tar ]]; then
    tools/test-dist/bundle.sh "$out/unstarve-oci.tar" "$root/test/bundle"
    # Of a pod that systemd made a slice for; what is planted is in another.
    tools/test-dist/pod.py packaging/kubernetes/watch.yaml watch "$root/test/bundle" \
        /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice/cri-containerd-own.scope \
        /var/lib/unstarve=/test/store /run/unstarve=/test/state --root "$root" --config /test/watch.toml
else
    echo "skipped: the container in the guest: no umoci, no PyYAML or no unstarve-oci.tar"
fi
cat >"$root/etc/systemd/system/unstarve-try.service" <<'END'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /test/inside.sh
StandardOutput=tty
StandardError=inherit
TTYPath=/dev/ttyS0
ExecStopPost=/bin/systemctl reboot -ff
END
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s ../unstarve-try.service "$root/etc/systemd/system/multi-user.target.wants/unstarve-try.service"
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
echo guest >"$root/etc/hostname"
(cd "$root" && find . -xdev | cpio --quiet -o -H newc) >"$room/initrd"
rm -rf --one-file-system "$root" "$room/next"

# UNSTARVE_KVM=1 where KVM runs ordinary kernels: in a guest it may not (docs/lab.md).
machine=(-accel tcg,thread=multi -cpu max,-erms,-fsrm)
[[ ${UNSTARVE_KVM-} != 1 ]] || machine=(-accel kvm -cpu host,-arch-capabilities)
timeout -k 10 1500 "${qemu[@]}" -nodefaults -no-user-config -display none -monitor none -serial "file:$room/console" \
    -M q35 -no-reboot "${machine[@]}" -smp 2 -m 1536M \
    -kernel "$kernel" -initrd "$room/initrd" \
    -append "console=ttyS0 quiet panic=-1 reboot=t mitigations=off cryptomgr.notests=1 rdinit=/lib/systemd/systemd systemd.show_status=no TERM=dumb" ||
    { cat "$room/console"; fail "the guest did not end"; }
tr -d '\r' <"$room/console" | sed -n '/^unstarve-try: begins/,$p'
tr -d '\r' <"$room/console" | grep -q '^unstarve-try: all is well$' || { tail -40 "$room/console"; fail "see above"; }
