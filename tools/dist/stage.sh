#!/usr/bin/env bash
# Makes the tree that both packages hold: each file where it will be on a host.
#
#     tools/dist/stage.sh PROGRAM DIRECTORY SPEAKER        makes DIRECTORY/root and DIRECTORY/debian
#
# SPEAKER is a program of the same sources that runs here, whatever PROGRAM is for.
set -euo pipefail
program=$(realpath "$1") into=$2 speaker=$(realpath "$3")
cd "$(dirname "$0")/../.."
root=$into/root doc=$into/root/usr/share/doc/unstarve
rm -rf "$root" "$into/debian"
umask 022

install -D -m 755 "$program" "$root/usr/bin/unstarve"
install -m 755 packaging/unstarve-upload "$root/usr/bin"
for unit in packaging/*.service packaging/*.timer; do
    mkdir -p "$root/usr/lib/systemd/system"
    # What a package installs is not in /usr/local, and is there without being copied.
    sed -e 's,/usr/local/bin/,/usr/bin/,' -e '1,/^\[Unit\]/{ s/ Copy to .*//; /systemctl daemon-reload/d; }' \
        "$unit" >"$root/usr/lib/systemd/system/${unit##*/}"
done

mkdir -p "$root/usr/share/man/man1"
"$speaker" generate pages | while IFS=$'\t' read -r page words; do
    # shellcheck disable=SC2086
    "$speaker" generate man $words | gzip -9n >"$root/usr/share/man/man1/$page.gz"
done
completions() { # shell, file
    mkdir -p "$root/usr/share/${2%/*}"
    "$speaker" generate "$1" >"$root/usr/share/$2"
}
completions bash bash-completion/completions/unstarve
completions fish fish/vendor_completions.d/unstarve.fish
completions zsh zsh/_unstarve

mkdir -p "$root/etc/unstarve/policies"
install -m 644 examples/policies/*.toml "$root/etc/unstarve/policies"
# Everything but the version is a comment: what is installed changes nothing.
sed -e '/^version = /b' -e 's/^\([^#]\)/# \1/' examples/watch.toml >"$root/etc/unstarve/watch.toml"

mkdir -p "$doc/docs/start" "$doc/docs/use" "$doc/examples"
install -m 644 README.md SECURITY.md "$doc"
for part in . start use; do
    install -m 644 docs/$part/*.md "$doc/docs/$part"
done
rm "$doc/docs/SUMMARY.md"
install -m 644 docs/llms.txt "$doc/docs"
install -m 644 examples/skills/unstarve/SKILL.md "$doc/examples/skill-unstarve.md"
install -m 644 examples/watch.toml packaging/prometheus/*.yml packaging/nginx/*.conf packaging/grafana/*.json "$doc/examples"

read -r _ epoch <<<"$(tools/commit.sh)"
version=$("$speaker" --version | cut -d' ' -f2)
mkdir -p "$into/debian"
gzip -9nc CHANGELOG.md >"$into/debian/changelog.gz"
gzip -9n >"$into/debian/changelog.Debian.gz" <<END
unstarve ($version-1) unstable; urgency=medium

  * See changelog.gz.

 -- ${DEBFULLNAME:-The unstarve authors} <${DEBEMAIL:-unstarve@example.org}>  $(LC_ALL=C date -uR -d "@${SOURCE_DATE_EPOCH:-${epoch:-0}}")
END
