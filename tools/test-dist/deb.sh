#!/usr/bin/env bash
# The deb: lintian, and in a fresh minimal Debian installed, used, upgraded, removed and purged.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
deb=$(echo "$out"/*.deb)
needs dpkg-deb lintian mmdebstrap
lintian --fail-on error "$deb" || fail "lintian has errors"

needs_root
# shellcheck disable=SC1091
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Of the machine's own sources, those of its release: only their first line differs from one mirror to another.
sources=
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [[ -n $sources || ! -r $file ]] || sources=$file
done
root=$room/root
mmdebstrap --quiet --variant=minbase "$codename" "$root" $sources || skip "no Debian $codename can be had here"
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}
files() {
    (cd "$root" && find . -xdev \( -path ./tmp -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg \) -prune -o -print | sort)
}
# It is systemd's, and stays.
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
files >"$room/before"

cp "$deb" "$root/tmp/one.deb"
# The same as the next version, with one line more in a file of the configuration.
dpkg-deb -R "$deb" "$room/next"
sed -i 's/^Version: .*/&+next/' "$room/next/DEBIAN/control"
echo "# of the next version" >>"$room/next/etc/unstarve/policies/oplog.toml"
echo "# of the next version" >>"$room/next/etc/unstarve/watch.toml"
dpkg-deb -b --root-owner-group "$room/next" "$root/tmp/next.deb" >/dev/null

inside dpkg -i /tmp/one.deb
inside unstarve --version
# Other users may read what is not theirs to write.
inside sh -c 'unstarve explain --list | grep -q rt-starvation'
gives 0,1 inside unstarve check
[[ $(inside unstarve watch --print-config --config /etc/unstarve/watch.toml) = "$(inside unstarve watch --print-config)" ]] ||
    fail "the installed watch.toml changes what holds"
gives 0 inside unstarve guard plan --policy /etc/unstarve/policies/dio-workers.toml
inside test -r /usr/share/bash-completion/completions/unstarve
! find "$root/etc/systemd" -name 'unstarve*' 2>/dev/null | grep . || fail "a unit is enabled"
zcat "$root"/usr/share/man/man1/unstarve-watch-episodes.1.gz | grep -q 'TH unstarve-watch-episodes' || fail "no man page"

echo "# mine" >>"$root/etc/unstarve/watch.toml"
inside dpkg --force-confdef --force-confold -i /tmp/next.deb
grep -q '^# mine' "$root/etc/unstarve/watch.toml" || fail "the upgrade has overwritten a changed file"
grep -q '^# of the next' "$root/etc/unstarve/policies/oplog.toml" || fail "the upgrade has not replaced an unchanged file"
inside unstarve --version

mkdir -p "$root/var/lib/unstarve/watch/episode" "$root/run/unstarve"
# As systemctl enable makes it.
ln -s /lib/systemd/system/unstarve-watch.service "$root/etc/systemd/system/multi-user.target.wants/"
inside dpkg -r unstarve
[[ -e $root/etc/unstarve/watch.toml && -e $root/var/lib/unstarve/watch ]] || fail "removal without purge has removed too much"
[[ ! -e $root/usr/bin/unstarve ]] || fail "the program is still there"
inside dpkg -P unstarve
files | diff "$room/before" - || fail "the purge has left something"
echo "installed, used, upgraded, removed and purged in Debian $codename"
