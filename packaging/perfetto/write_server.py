#!/usr/bin/env python3
"""Writes what Perfetto's page loads as an extension server: static JSON of the modules in sql/ and of macros.json.

    write_server.py            exit code 1 if server/ is another
    write_server.py --write    writes it

The format: "Extension Server Protocol Reference" of Perfetto's documentation (docs/visualization/extension-server-protocol.md).
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
# One word: trace_processor takes what is before the first dot of a module for the package's name.
NAMESPACE = "unstarve"


def files():
    """Each file of the server by its path, as the page asks for it: without an ending."""
    manifest = {"name": "unstarve", "namespace": NAMESPACE, "features": [{"name": "macros"}, {"name": "sql_modules"}], "modules": [{"id": "default", "name": "Default"}]}
    modules = [{"name": f"{NAMESPACE}.{file.stem}", "sql": file.read_text()} for file in sorted((HERE / "sql").glob("*.sql"))]
    macros = json.loads((HERE / "macros.json").read_text())
    answers = {"manifest": manifest, "modules/default/macros": {"macros": macros}, "modules/default/sql_modules": {"sql_modules": modules}}
    return {path: json.dumps(answer, indent=1) + "\n" for path, answer in answers.items()}


def main():
    stale = []
    for path, text in files().items():
        file = HERE / "server" / path
        if not file.exists() or file.read_text() != text:
            stale.append(path)
            if sys.argv[1:] == ["--write"]:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    if stale:
        print(f"{'written' if sys.argv[1:] else 'another than sql/ and macros.json say (write_server.py --write)'}: {', '.join(stale)}")
    return 1 if stale and not sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
