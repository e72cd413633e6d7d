#!/usr/bin/env python3
"""Checks what helm rendered against the schemas of Kubernetes (strictly: no field that they do not know), and packaging/kubernetes against it.

    manifests.py ALL.yaml OLD.yaml PACKAGING
"""
import re
import sys

import kubernetes_validate
import yaml

NEW, OLD = ["1.30", "1.34", "1.37"], ["1.25", "1.29"]


def objects(path):
    with open(path) as file:
        found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(file) if one}
    assert found, path
    return found


def check(path, versions):
    for (kind, name), one in objects(path).items():
        # Not of Kubernetes itself: https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PodMonitor
        if kind == "PodMonitor":
            assert set(one["spec"]) == {"selector", "podMetricsEndpoints"}, one
            assert set(one["spec"]["podMetricsEndpoints"][0]) == {"port", "path", "interval"}, one
            continue
        for version in versions:
            kubernetes_validate.validate(one, version, strict=True)
            print(f"{path.rsplit('/', 1)[-1]}: {kind} {name} is valid for {version}")


def rights(manifest, name):
    pod = next(one for (kind, _), one in objects(manifest).items() if kind == "DaemonSet")["spec"]["template"]["spec"]
    return next(one for one in pod["containers"] if one["name"] == name)["securityContext"]["capabilities"]["add"]


def of_unit(path):
    with open(path) as file:
        line = re.search(r"^CapabilityBoundingSet=(.*)$", file.read(), re.M)[1]
    return {word.removeprefix("CAP_") for word in line.split()}


def main():
    rendered, old, packaging = sys.argv[1:]
    check(rendered, NEW)
    check(old, OLD)
    plain = {}
    for name in ("watch", "guard"):
        path = f"{packaging}/kubernetes/{name}.yaml"
        check(path, NEW)
        plain |= objects(path)
    del plain["Namespace", "unstarve"]
    expected = objects(rendered)
    assert plain.keys() == expected.keys(), (plain.keys(), expected.keys())
    for key, one in expected.items():
        assert plain[key] == one, f"{key}: {plain[key]}\nis not what the chart renders:\n{one}"
    # The live tests take each of the unit's away; the guard's pod has no use of netlink (docs/guard.md).
    assert set(rights(f"{packaging}/kubernetes/watch.yaml", "watch")) == of_unit(f"{packaging}/unstarve-watch.service")
    assert set(rights(f"{packaging}/kubernetes/guard.yaml", "guard")) | {"NET_ADMIN"} == of_unit(f"{packaging}/unstarve-guard.service")


main()
