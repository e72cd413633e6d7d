#!/usr/bin/env bash
# Sets up apt for another architecture with state of its own, and fetches the lists: this machine's dpkg and apt hear nothing of it. Prints the file to
# name in APT_CONFIG.
#
#     tools/dist/apt.sh arm64 DIRECTORY [SUITE…]        Debian's suites; by default those that this machine has its own packages from
set -euo pipefail
architecture=$1 into=$2
shift 2
mkdir -p "$into"/{state/lists/partial,cache/archives/partial}
into=$(realpath "$into")
# Debian's archive and its security updates, as this machine has them; other archives have nothing that is wanted here.
apt-get indextargets --format $'$(LABEL)\t$(COMPONENT)\t$(REPO_URI)\t$(CODENAME)' 'Created-By: Packages' |
    awk -F'\t' -v suites="$*" '
        $1 !~ /^Debian/ || $2 != "main" { next }
        !suites { print $3, $4 }
        suites && $1 == "Debian" { count = split(suites, suite, " "); for (i = 1; i <= count; i++) print $3, suite[i] }' |
    sort -u | sed 's,.*,deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] & main,' >"$into/sources.list"
[[ -s $into/sources.list ]] || { echo "dist: this machine has its packages from no archive of Debian" >&2; exit 1; }
: >"$into/status"
cat >"$into/conf" <<CONF
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Update::Pre-Invoke "";
APT::Update::Post-Invoke "";
APT::Update::Post-Invoke-Success "";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "60";
Debug::NoLocking "1";
Dir::State "$into/state";
Dir::State::status "$into/status";
Dir::Cache "$into/cache";
Dir::Etc::sourcelist "$into/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
CONF
APT_CONFIG=$into/conf apt-get -qq update >&2
echo "$into/conf"
