#!/usr/bin/env python3
"""Writes what an OCI runtime gets to run a container of a manifest, as a kubelet with containerd would on cgroup v2: the capabilities, mounts and
arguments of the manifest, a cgroup namespace of its own, /proc/sys read-only, some files masked.

    pod.py MANIFEST CONTAINER BUNDLE CGROUP [HOST-PATH=DIRECTORY...] [--config FILE] [--without CAP] [--root DIRECTORY] [-- ARGUMENT...]

BUNDLE has rootfs. A hostPath of the manifest may be another directory; the ConfigMap's file is written to FILE if it is not there.
--root: paths are those of a guest whose root this directory will be.
Arguments replace those of the manifest.
"""
import json
import os
import sys

import yaml

# containerd v1.7, pkg/cri/server: what a container gets that is not privileged; /sys/fs/cgroup only where no volume is.
DEFAULT_MOUNTS = [
    ("/proc", "proc", "proc", ["nosuid", "noexec", "nodev"]),
    ("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
    ("/dev/shm", "tmpfs", "shm", ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
    ("/sys", "sysfs", "sysfs", ["nosuid", "noexec", "nodev", "ro"]),
    ("/sys/fs/cgroup", "cgroup", "cgroup", ["nosuid", "noexec", "nodev", "relatime", "ro"]),
]
MASKED = ["/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
          "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]


def main():
    words = sys.argv[1:]
    arguments = None
    if "--" in words:
        at = words.index("--")
        words, arguments = words[:at], words[at + 1:]
    options = {}
    for name in ("--config", "--without", "--root"):
        if name in words:
            at = words.index(name)
            options[name] = words[at + 1]
            del words[at:at + 2]
    manifest, name, bundle, cgroup, *places = words
    places = dict(place.split("=", 1) for place in places)

    with open(manifest) as file:
        objects = [one for one in yaml.safe_load_all(file) if one]
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet"]
    pod, container = next((pod, container) for pod in pods
                          for container in pod["containers"] + pod.get("initContainers", []) if container["name"] == name)
    maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
    assert pod["hostPID"] and not pod["automountServiceAccountToken"]
    security = container["securityContext"]
    assert not security["privileged"] and not security["allowPrivilegeEscalation"] and security["readOnlyRootFilesystem"]
    assert security["capabilities"]["drop"] == ["ALL"]

    root = options.get("--root", "")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    taken = {mount["mountPath"] for mount in container["volumeMounts"]}
    mounts = [dict(destination=destination, type=kind, source=source, options=how)
              for destination, kind, source, how in DEFAULT_MOUNTS if destination not in taken]
    for mount in sorted(container["volumeMounts"], key=lambda mount: mount["mountPath"]):
        volume = volumes[mount["name"]]
        how = ["rbind", "rprivate", "ro" if mount.get("readOnly") else "rw"]
        if "hostPath" in volume:
            path = volume["hostPath"]["path"]
            source = places.get(path, path)
            if volume["hostPath"]["type"] == "DirectoryOrCreate":
                os.makedirs(root + source, exist_ok=True)
            assert root or os.path.isdir(source), f"{source}: the kubelet would not start this pod"
            mounts.append(dict(destination=mount["mountPath"], type="bind", source=source, options=how))
        elif "configMap" in volume:
            source = options["--config"]
            if not os.path.exists(root + source):
                with open(root + source, "w") as file:
                    file.write(maps[volume["configMap"]["name"]][mount["subPath"]])
            os.chmod(root + source, volume["configMap"]["defaultMode"])
            mounts.append(dict(destination=mount["mountPath"], type="bind", source=source, options=how))
        else:
            assert "emptyDir" in volume, volume
            mounts.append(dict(destination=mount["mountPath"], type="tmpfs", source="tmpfs", options=["nosuid", "nodev", "mode=777"]))

    rights = ["CAP_" + right for right in security["capabilities"]["add"] if right != options.get("--without")]
    kinds = ["mount", "ipc", "uts", "cgroup"] + ([] if pod.get("hostNetwork") else ["network"])
    with open(os.path.join(bundle, "image.json")) as file:
        image = json.load(file)["process"]
    config = {
        "ociVersion": "1.0.2",
        "hostname": "pod",
        "process": {
            "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
            "args": image["args"][:1] + (container["args"] if arguments is None else arguments),
            "env": image["env"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {kind: rights for kind in ("bounding", "effective", "permitted")},
            "oomScoreAdj": 1000,
        },
        "root": {"path": "rootfs", "readonly": True},
        "mounts": mounts,
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [{"type": kind} for kind in kinds],
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "resources": {"memory": {"limit": int(container["resources"]["limits"]["memory"].removesuffix("Mi")) << 20}},
        },
    }
    with open(os.path.join(bundle, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


main()
