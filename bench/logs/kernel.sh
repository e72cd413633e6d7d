#!/bin/sh
# Builds a small kernel with the workqueue watchdog from Debian's source package and adds it to the lab:
#   bench/logs/kernel.sh UNSTARVE SERIES WORK_DIRECTORY [OPTION…]
# SERIES is that of a `linux-source-SERIES` that apt can download, or whose .deb lies in WORK_DIRECTORY; the kernel is
# called SERIES-wq, or with LAB_NAME in the environment that. OPTIONs (`CONFIG_HZ_1000=y`) come after kernel.config.
# Needs gcc, make, bc, bison, flex, libelf-dev, about 2 GB and some minutes.
set -eu
unstarve=$1 series=$2 work=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
name=${LAB_NAME:-$series-wq}
mkdir -p "$work" && cd "$work"
tree=linux-source-$series
if [ ! -d "$tree" ]; then
    [ -n "$(ls linux-source-"$series"_*.deb 2>/dev/null)" ] || apt-get download "linux-source-$series"
    dpkg-deb --fsys-tarfile linux-source-"$series"_*.deb | tar -xO --wildcards "./usr/src/linux-source-$series.tar.*" | tar -xJ
fi
cd "$tree"
out=$work/build-$name
mkdir -p "$out"
{ cat "$here/kernel.config"; for option; do printf '%s\n' "$option"; done; } >"$out/fragment"
make -s O="$out" tinyconfig
KCONFIG_CONFIG="$out/.config" scripts/kconfig/merge_config.sh -m -O "$out" "$out/.config" "$out/fragment" >"$out/merge.log"
make -s O="$out" olddefconfig
KBUILD_BUILD_USER=lab KBUILD_BUILD_HOST=unstarve make -s O="$out" -j"${JOBS:-$(nproc)}" bzImage modules
rm -rf "$out/modules"
make -s O="$out" INSTALL_MOD_PATH="$out/modules" DEPMOD=true modules_install
rm -rf "$out/hogging_work"
cp -r "$here/hogging_work" "$out/hogging_work"
make -s O="$out" M="$out/hogging_work" modules
cp "$out/hogging_work/hogging_work.ko" "$out"/modules/lib/modules/*/kernel/
"$unstarve" lab kernel add "$out/arch/x86/boot/bzImage" --modules "$out"/modules/lib/modules/* --name "$name"
