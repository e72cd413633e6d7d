#!/usr/bin/env python3
"""Joins images of one version for several architectures into one OCI archive, from which each node gets its own. The same images give the same bytes.

    tools/dist/images.py INTO.tar EPOCH IMAGE.tar...
"""

import hashlib
import io
import json
import sys
import tarfile

INDEX = "application/vnd.oci.image.index.v1+json"
NAME = "org.opencontainers.image.ref.name"


def blobs_of(image: str) -> tuple[dict, dict[str, bytes]]:
    """What the archive says is in it, and its blobs by digest."""
    with tarfile.open(image) as archive:
        files = {member.name.removeprefix("./"): archive.extractfile(member).read() for member in archive if member.isfile()}
    index = json.loads(files["index.json"])
    return index, {"sha256:" + name.removeprefix("blobs/sha256/"): files[name] for name in files if name.startswith("blobs/sha256/")}


def join(images: list[str]) -> dict[str, bytes]:
    """The files of the layout that has all of them."""
    blobs: dict[str, bytes] = {}
    manifests, names = [], set()
    for image in images:
        index, its = blobs_of(image)
        blobs |= its
        for manifest in index["manifests"]:
            names.add(manifest["annotations"][NAME])
            config = json.loads(its[json.loads(its[manifest["digest"]])["config"]["digest"]])
            platform = {"architecture": config["architecture"], "os": config["os"]}
            manifests.append({key: manifest[key] for key in ("mediaType", "digest", "size")} | {"platform": platform})
    if len(names) != 1:
        sys.exit(f"images: {', '.join(images)} are of the versions {', '.join(sorted(names))}")
    both = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()
    digest = "sha256:" + hashlib.sha256(both).hexdigest()
    blobs[digest] = both
    top = {"mediaType": INDEX, "digest": digest, "size": len(both), "annotations": {NAME: names.pop()}}
    files = {"blobs/sha256/" + name.removeprefix("sha256:"): blob for name, blob in blobs.items()}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [top]}).encode()
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return files


def main() -> None:
    into, epoch, *images = sys.argv[1:]
    with tarfile.open(into, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in sorted(join(images).items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), int(epoch), 0o644
            archive.addfile(member, io.BytesIO(content))


main()
