#!/usr/bin/env bash
# What `make dist` made for arm64: its packages beside those of this machine, and the program in guests with Debian's arm64 kernels (6.1, 6.12), which QEMU
# interprets on any machine. What happens inside is test-dist/inside-arm64.sh. A minute or two for each guest.
set -eu
own=$1 out=$1/arm64
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
[[ -x $out/unstarve ]] || skip "nothing was made for arm64 here: $out"
program=$out/unstarve
size=$(stat -c %s "$program")
((size <= 25 << 20)) || fail "$program has $size bytes, more than 25 MiB"
[[ $(LC_ALL=C readelf -hW "$program" | sed -n 's/ *Machine: *//p') = AArch64 ]] || fail "$program is for another machine"
! readelf -lW "$program" | grep INTERP || fail "$program asks for a loader"
LC_ALL=C readelf --string-dump=.gnu_debuglink "$program" | grep -q unstarve.debug || fail "no link to its debug symbols"
same() {
    readelf -nW "$1" | sed -n 's/.*Build ID: //p'
}
[[ -n $(same "$program") && $(same "$program") = "$(same "$out/unstarve.debug")" ]] || fail "the debug symbols are of another build"
tools/test-dist/notices.sh "$out"
strings -a "$program" >"$room/strings"
glibc=$(sed -n 's/^GNU C Library (Debian GLIBC \([^)]*\)).*/\1/p' "$room/strings")
# Not the cross compiler's own, which has no security updates.
[[ $glibc = "$(sed -n 's,.*pkg:deb/debian/glibc@\([^"]*\)".*,\1,p' "$out/unstarve.cdx.json" | head -1)" ]] || fail "another glibc than the SBOM says: $glibc"
echo "$size bytes"

needs dpkg-deb lintian rpm
deb=$(echo "$out"/unstarve_*_arm64.deb) package=$(echo "$out"/unstarve-*.aarch64.rpm)
[[ $(dpkg-deb -f "$deb" Architecture) = arm64 ]] || fail "$deb is for another machine"
lintian --fail-on error "$deb" || fail "lintian has errors"
rpm --checksig --nosignature "$package"
[[ $(rpm -qp --qf '%{NAME} %{ARCH}' "$package") = "unstarve aarch64" ]] || fail "$package is for another machine"
tar -xOf "$out/unstarve-oci.tar" --wildcards './blobs/sha256/*' | grep -aq '"architecture":"arm64"' || fail "the image is for another machine"
if [[ -e $own/unstarve ]]; then
    files() {
        dpkg-deb -c "$1" | awk '{ print $1, $2, $6 }'
    }
    cmp "$own/unstarve-man-completions.tar.gz" "$out/unstarve-man-completions.tar.gz" || fail "other man pages or completions"
    diff <(files "$(echo "$own"/unstarve_*_amd64.deb)") <(files "$deb") || fail "the debs have other files"
    diff <(rpm -qlp "$(echo "$own"/unstarve-*.x86_64.rpm)") <(rpm -qlp "$package") || fail "the rpms have other files"
    echo "deb and rpm: the same files as this machine's"
fi
if [[ -e $own/unstarve-oci-all.tar ]] && command -v skopeo >/dev/null; then
    for architecture in amd64 arm64; do
        skopeo --override-arch "$architecture" copy --quiet "oci-archive:$own/unstarve-oci-all.tar" "oci:$room/$architecture"
        skopeo inspect --config --override-arch "$architecture" "oci:$room/$architecture" | grep -q "\"architecture\": *\"$architecture\"" ||
            fail "a node of $architecture gets another image"
    done
    echo "the image for both: each gets its own"
else
    echo "skipped: the image for both: no skopeo, or made for arm64 alone"
fi

needs qemu-system-aarch64 cpio dpkg-deb
store=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/guests-arm64
suites=(bookworm trixie)
if ! APT_CONFIG=$(tools/dist/apt.sh arm64 "$store/apt" "${suites[@]}" 2>"$room/said"); then
    cat "$room/said"
    skip "Debian's packages for arm64 cannot be had here"
fi
export APT_CONFIG
fetch() { # suite, package: prints its file
    (cd "$store" && apt-get -qq download -t "$1" "$2" >&2)
    find "$store" -maxdepth 1 -name "$2_*.deb" | sort -V | tail -1
}
newest() { # suite: the name of its kernel for guests
    apt-cache depends -t "$1" linux-image-cloud-arm64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p'
}

root=$room/root
mkdir -p "$root/bin" "$root/test"
dpkg-deb --fsys-tarfile "$(fetch bookworm busybox-static)" | tar -x -C "$root" ./bin/busybox
# Busybox has no chrt.
dpkg-deb --fsys-tarfile "$(fetch bookworm util-linux)" | tar -x -C "$root" ./usr/bin/chrt
dpkg-deb --fsys-tarfile "$(fetch bookworm libc6)" | tar -x -C "$root" --wildcards './lib/ld-linux-aarch64.so.1' './lib/aarch64-linux-gnu/ld-*' './lib/aarch64-linux-gnu/libc.so.6'
cp "$program" "$root/bin/unstarve"
cp tools/test-dist/inside-arm64.sh "$root/init"
cp testdata/traces/linux-6.1-lab-granularity-compile-faulty.dat.zst "$root/test/faulty.dat.zst"
(cd "$root" && find . | cpio --quiet -o -H newc) >"$room/initrd"
for suite in "${suites[@]}"; do
    kernel=$(newest "$suite")
    mkdir "$room/$suite"
    dpkg-deb --fsys-tarfile "$(fetch "$suite" "$kernel")" | tar -x -C "$room/$suite" --wildcards './boot/vmlinuz-*'
    # A processor of servers, with the instructions that they have for atomic sums.
    timeout -k 10 900 qemu-system-aarch64 -nodefaults -no-user-config -display none -monitor none -serial "file:$room/console" \
        -M virt -cpu neoverse-n1 -accel tcg,thread=multi -smp 2 -m 1536M -no-reboot \
        -kernel "$room/$suite"/boot/vmlinuz-* -initrd "$room/initrd" \
        -append "console=ttyAMA0 quiet panic=-1 cryptomgr.notests=1" </dev/null || { cat "$room/console"; fail "the guest of $suite did not end"; }
    tr -d '\r' <"$room/console" >"$room/said"
    cat "$room/said"
    grep -q '^unstarve-try: all is well$' "$room/said" || fail "in the guest of $suite: see above"
done
