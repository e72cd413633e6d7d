#!/usr/bin/env bash
# The rpm: what it says it holds, and installed into a root directory of its own, then erased.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
package=$(echo "$out"/*.rpm)
needs rpm
rpm --checksig --nosignature "$package"
rpm -qlp "$package" >"$room/list"
for file in /usr/bin/unstarve /usr/share/man/man1/unstarve-watch-episodes.1.gz /usr/lib/systemd/system/unstarve-guard.service /usr/bin/unstarve-upload /usr/lib/systemd/system/unstarve-compact.timer \
    /usr/share/zsh/site-functions/_unstarve /usr/share/licenses/unstarve/LICENSE-MIT; do
    grep -qx "$file" "$room/list" || fail "$file is not in the package"
done
[[ $(rpm -qcp "$package" | grep -c '^/etc/unstarve/') -ge 4 ]] || fail "files of the configuration are not marked as such"
rpm -qRp "$package" | grep -v '^rpmlib(\|^config(unstarve)\|^/bin/sh$' | grep . && fail "it asks for something"
[[ $(rpm -qp --qf '%{NAME} %{ARCH}' "$package") = "unstarve $(uname -m)" ]] || fail "another name or machine"

needs_root
root=$room/root
mkdir "$root"
# There is no shell in an empty root, which the scripts need; nor the package that has it.
rpm --root "$root" --install --nodeps --noscripts --ignoreos "$package"
"$root/usr/bin/unstarve" --version
chroot "$root" /usr/bin/unstarve explain --list | grep -q rt-starvation || fail "it does not run there"
# As rpm keeps it: a changed file stays beside the erased package.
echo "# mine" >>"$root/etc/unstarve/watch.toml"
rpm --root "$root" --verify --nodeps unstarve | grep -v 'S.5....T.  c /etc/unstarve/watch.toml' | grep . && fail "rpm --verify finds something else"
rpm --root "$root" --erase --nodeps --noscripts unstarve
grep -q '^# mine' "$root/etc/unstarve/watch.toml.rpmsave" || fail "a changed file was not kept"
[[ ! -e $root/usr/bin/unstarve ]] || fail "the program is still there"
for script in packaging/rpm/*; do
    sh -n "$script" || fail "$script"
done
echo "installed and erased, without its scripts"
