#!/usr/bin/env python3
"""Writes which licences the crates inside of the program have, with the texts that they bring, as plain text.

    tools/dist/licences.py FEATURES TARGET

Ends with 1 if a crate has a licence that is not in ACCEPTED: the author of such a change decides whether it may be shipped.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ACCEPTED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CDDL-1.0", "CDLA-Permissive-2.0", "ISC",
    "LGPL-2.1-only", "LLVM-exception", "MIT", "Unicode-3.0", "Unlicense", "Zlib", "bzip2-1.0.6",
}
TEXTS = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def inside(features: str, target: str) -> list[dict]:
    """The packages that the program is linked from: no build scripts' and no tests' dependencies."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target,
               "--manifest-path", "crates/cli/Cargo.toml", "--features", features]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    seen, to_do = set(), [metadata["resolve"]["root"]]
    while to_do:
        package = to_do.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                to_do.append(dependency["pkg"])
    packages = [package for package in metadata["packages"] if package["id"] in seen]
    return sorted(packages, key=lambda package: (package["name"], package["version"]))


def texts(package: dict) -> list[str]:
    """The licence files in the crate's own directory."""
    directory = Path(package["manifest_path"]).parent
    files = sorted(file for file in directory.iterdir() if file.is_file() and TEXTS.search(file.name) and file.suffix != ".rs")
    return [file.read_text(errors="replace").strip() for file in files]


def main() -> int:
    crates = [package for package in inside(*sys.argv[1:3]) if package["source"]]
    refused = 0
    used_by: dict[str, list[str]] = {}
    print("The program contains these crates, each under the licence named:\n")
    for package in crates:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or f"see {package['license_file']}"
        unknown = set(re.findall(r"[\w.+-]+", licence)) - ACCEPTED - {"OR", "AND", "WITH"}
        if unknown:
            print(f"licences: {name} has {licence}: is that to be shipped?", file=sys.stderr)
            refused += 1
        found = texts(package)
        for text in found:
            used_by.setdefault(text, []).append(name)
        print(f"{name}: {licence}" + ("" if found else " (brings no text: see its repository)"))
        print(f"    {package['repository'] or 'https://crates.io/crates/' + package['name']}")
    for text, names in used_by.items():
        print(f"\n{'=' * 100}\n{', '.join(names)}\n{'=' * 100}\n\n{text}")
    return 1 if refused else 0


sys.exit(main())
