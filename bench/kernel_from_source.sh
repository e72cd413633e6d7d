#!/usr/bin/env bash
# Builds a kernel for the lab from Debian's source package, for bugs whose good or bad side no package has: the same tree with one commit and
# without it. No other run of the project needs it, and it is not part of any.
#
#     bench/kernel_from_source.sh [-p PATCH]... [-R PATCH]... NAME SERIES[=VERSION]
#
#     bench/kernel_from_source.sh plain-6.12.118 6.12=6.12.118-1
#     bench/kernel_from_source.sh -p bench/kernels/reweight-lag.patch lag-6.12.118 6.12=6.12.118-1
#
# -p applies a patch, -R takes one back. The configuration is that of Debian's cloud flavour of the same version, without debug information,
# signatures and hardware; of its modules only those that scenarios of the lab load are built. What comes of it is in
# $KERNELS/NAME (default: ~/.cache/unstarve/kernels-from-source): vmlinuz, modules/*.ko, config. The last line printed is the command that adds
# it to the lab. The tree and the objects stay in $KERNELS/tree-VERSION, so that the next patch takes minutes; remove them afterwards (2 GB).
#
# Needs gcc, make, bc, flex, bison, and the headers of libelf and OpenSSL. Packages come through apt: by the lists of the lab if
# `unstarve lab kernel available` has made any, else by the machine's own.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '5,8p' "$0" >&2; exit 2; }
patches=()
while getopts p:R: option; do
    case $option in
    p) patches+=("-p1 $(realpath "$OPTARG")") ;;
    R) patches+=("-R -p1 $(realpath "$OPTARG")") ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
(($# == 2)) || usage
name=$1 series=${2%%=*} version=${2#*=}
[[ $version != "$2" ]] || version=
for program in gcc make bc flex bison xz patch; do
    command -v $program >/dev/null || { echo "$0: $program is missing" >&2; exit 1; }
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve
kernels=${KERNELS:-$cache/kernels-from-source}
mkdir -p "$kernels"
kernels=$(realpath "$kernels")
out=$kernels/$name
rm -rf "$out"
mkdir -p "$out/modules"
say() { echo "$(date +%T) $*" >&2; }

# The lab's own lists know all suites; the archive's signatures are checked as always.
apt=()
lab=$cache/lab/apt/all
if [[ -d $lab/state/lists ]]; then
    mkdir -p "$kernels/apt/archives/partial"
    apt=(-o "Dir::State=$lab/state" -o "Dir::State::status=$lab/status" -o "Dir::Cache=$kernels/apt"
        -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$lab/etc")
fi
[[ -n $version ]] || version=$(apt-cache "${apt[@]}" madison "linux-source-$series" | awk 'NR == 1 { print $3 }')
[[ -n $version ]] || { echo "$0: apt knows no linux-source-$series" >&2; exit 1; }
tree=$kernels/tree-$version
if [[ ! -e $tree/.unpacked ]]; then
    say "fetching linux-source-$series and linux-config-$series $version"
    rm -rf "$tree" "$kernels/packages"
    mkdir -p "$tree" "$kernels/packages"
    (cd "$kernels/packages" && apt-get "${apt[@]}" -q download "linux-source-$series=$version" "linux-config-$series=$version" >&2)
    for package in "$kernels"/packages/*.deb; do dpkg-deb -x "$package" "$kernels/packages"; done
    say "unpacking"
    tar -xf "$kernels/packages/usr/src/linux-source-$series.tar.xz" -C "$tree" --strip-components=1
    xz -dc "$kernels/packages/usr/src/linux-config-$series/config.amd64_none_cloud-amd64.xz" >"$tree/cloud.config"
    rm -rf "$kernels/packages" "$kernels/apt"
    touch "$tree/.unpacked"
fi

# A tree that has the patches of an earlier call loses them first.
if [[ -s $tree/.patches ]]; then
    tac "$tree/.patches" | while read -r way; do
        case $way in
        -R*) patch -d "$tree" -s ${way#-R } ;;
        *) patch -d "$tree" -s -R $way ;;
        esac <&-
    done
fi
: >"$tree/.patches"
for way in ${patches[@]+"${patches[@]}"}; do
    file=$tree/.patch-$(sha256sum "${way##* }" | cut -c1-12)
    cp "${way##* }" "$file"
    way="${way% *} -i $file"
    patch -d "$tree" -s $way
    echo "$way" >>"$tree/.patches"
done

say "configuring"
# What scenarios load, and what those need; everything else that is a module is left out.
keep='BLK_DEV_NULL_BLK BLK_DEV_LOOP BLK_DEV_DM DM_CRYPT XFS_FS EXT4_FS BTRFS_FS CONFIGFS_FS VIRTIO_BLK VIRTIO_MMIO VETH DUMMY TUN
NVME_CORE NVME_FABRICS NVME_TCP NVME_TARGET NVME_TARGET_TCP NFS_FS NFS_V3 NFS_V4 NFSD LOCKD SUNRPC GRACE_PERIOD RPCSEC_GSS_KRB5
LIBCRC32C CRYPTO_CRC32C CRYPTO_XXHASH CRYPTO_BLAKE2B CRYPTO_AES CRYPTO_XTS CRYPTO_ESSIV CRYPTO_ECB CRYPTO_CBC XOR_BLOCKS RAID6_PQ JBD2 FS_MBCACHE'
sed -E '/^CONFIG_[A-Z0-9_]+=m$/ { s/^CONFIG_(.*)=m$/# CONFIG_\1 is not set/ }' "$tree/cloud.config" >"$tree/.config"
set_options() { # TEXT OPTION...
    local text=$1
    shift
    local names
    names=$(IFS='|' && echo "$*")
    sed -i -E "/^(# )?CONFIG_($names)( is not set|=.*)$/d" "$tree/.config"
    printf "$text\n" "$@" >>"$tree/.config"
}
for option in $keep; do
    ! grep -q "^CONFIG_$option=m" "$tree/cloud.config" || set_options 'CONFIG_%s=m' "$option"
done
set_options '# CONFIG_%s is not set' MODULE_SIG SECURITY INTEGRITY XEN HYPERV PCI_XEN NUMA_BALANCING DRM FB SOUND USB_SUPPORT INPUT_MISC WLAN WIRELESS SCSI ATA HIBERNATION SUSPEND KEXEC \
    KEXEC_FILE CRASH_DUMP EFI_MIXED NETFILTER INFINIBAND DAMON CXL_BUS VIRTUALIZATION HAMRADIO CAN BT MEDIA_SUPPORT HWMON THERMAL POWER_SUPPLY I2C SPI \
    DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT DEBUG_INFO_DWARF4 DEBUG_INFO_DWARF5 DEBUG_INFO_BTF WERROR IPV6_SEG6_LWTUNNEL TCG_TPM GCC_PLUGINS CC_OPTIMIZE_FOR_SIZE \
    LOCALVERSION_AUTO MODULE_COMPRESS MODULE_COMPRESS_ALL MODULE_COMPRESS_GZIP MODULE_COMPRESS_XZ MODULE_COMPRESS_ZSTD
set_options 'CONFIG_%s=y' DEBUG_INFO_NONE MODULE_COMPRESS_NONE
set_options 'CONFIG_%s=""' SYSTEM_TRUSTED_KEYS
set_options "CONFIG_%s=\"-$name\"" LOCALVERSION
jobs=${JOBS:-$(nproc --all)}
run() { nice -n "${NICE:-10}" make -C "$tree" -j"$jobs" -s KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_USER=lab KBUILD_BUILD_HOST=lab "$@" >&2; }
run olddefconfig
say "building with $jobs jobs"
begin=$SECONDS
run bzImage modules
say "built in $((SECONDS - begin)) s"
staging=$out/staging
run modules_install INSTALL_MOD_PATH="$staging" INSTALL_MOD_STRIP=1 DEPMOD=true
find "$staging" -name '*.ko' -exec mv -t "$out/modules" {} +
rm -rf "$staging"
compgen -G "$out/modules/virtio_blk.ko" >/dev/null || { echo "$0: virtio_blk.ko was not built" >&2; exit 1; }
cp "$tree/arch/x86/boot/bzImage" "$out/vmlinuz"
cp "$tree/.config" "$out/config"
say "$(du -sh "$out" | cut -f1) in $out, tree and objects $(du -sh "$tree" | cut -f1)"
echo "unstarve lab kernel add $out/vmlinuz --modules $out/modules --name $name"
