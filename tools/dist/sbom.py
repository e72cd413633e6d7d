#!/usr/bin/env python3
"""Makes of what cargo-cyclonedx wrote the same bytes each time, and adds the C libraries: lines of a Debian source package and its version on
standard input.

    tools/dist/sbom.py FILE DIRECTORY        DIRECTORY is where the sources were, and is in no name
"""

import json
import os
import sys
from datetime import datetime, timezone
from pathlib import Path

text = Path(sys.argv[1]).read_text().replace("file://" + sys.argv[2], "file://.")
sbom = json.loads(text)
# A new one each time.
sbom.pop("serialNumber", None)
moment = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
sbom["metadata"]["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
for line in sys.stdin:
    name, version = line.split()
    reference = f"pkg:deb/debian/{name}@{version}"
    sbom["components"].append(
        {"type": "library", "bom-ref": reference, "name": name, "version": version, "scope": "required", "purl": reference}
    )
json.dump(sbom, sys.stdout, indent=1)
print()
