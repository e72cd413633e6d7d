#!/usr/bin/env python3
"""Writes the classes of what the program prints as JSON, from the schemas that the program itself prints.

    write_model.py PROGRAM            exit code 1 if a module is not what the schemas say, and names it
    write_model.py PROGRAM --write    writes the modules

A field that the schema requires is required here; `null` and what may be absent are `None`, never a made-up 0. Words (`rule`, `severity`) are
`str`: later versions may add some. What is one of several shapes of an object stays JSON (`Json`).
"""
import json
import pathlib
import subprocess
import sys
import textwrap
from typing import Any, Dict, List, Tuple

MODULES = pathlib.Path(__file__).resolve().parent / "src" / "unstarve"
# A module for each schema: their types have the same names.
SCHEMAS = {"explain": "report", "compare": "comparison", "timeline": "timeline"}
# Classes that are shown in a line, not with all that they have (_shown.py).
SHOWN = {"Report": "ShownReport", "Finding": "ShownFinding", "Remedy": "ShownRemedy", "Comparison": "ShownComparison"}
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
WIDTH = 140
Schema = Dict[str, Any]


def merged(schema: Schema) -> Schema:
    """An object of which some fields are there in some cases alone: those of all cases, as fields that may be absent."""
    properties, required = dict(schema.get("properties", {})), set(schema.get("required", []))
    cases = [case for case in schema.get("oneOf", []) if case.get("type") == "object"]
    for case in cases:
        for name, field in case.get("properties", {}).items():
            properties.setdefault(name, {"type": field["type"]} if "const" in field else field)
    if cases:
        required |= set.intersection(*(set(case.get("required", [])) for case in cases))
    return {**schema, "properties": properties, "required": sorted(required)}


def is_class(schema: Schema) -> bool:
    """Whether it is an object with names of its own; cases that are told apart by their only name are not."""
    cases = schema.get("oneOf", [])
    if any(case.get("type") != "object" or case.get("additionalProperties") is False for case in cases):
        return False
    return bool(cases) or (schema.get("type") == "object" and bool(schema.get("properties")))


class Module:
    def __init__(self, name: str, root: Schema) -> None:
        self.name = name
        self.types: Dict[str, Schema] = root.get("$defs", {})
        self.classes = {each: merged(schema) for each, schema in self.types.items() if is_class(schema)}
        self.classes[root["title"]] = merged(root)
        self.root: str = root["title"]

    def type_of(self, field: Schema) -> Tuple[str, bool]:
        """Python's type of a field, and whether it may be `null`."""
        if "anyOf" in field:
            alternatives = [each for each in field["anyOf"] if each.get("type") != "null"]
            inner = self.type_of(alternatives[0])[0] if len(alternatives) == 1 else "Json"
            return inner, len(alternatives) < len(field["anyOf"])
        if "$ref" in field:
            return self.type_of_reference(field["$ref"].rpartition("/")[2])
        kinds = field.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        kind = next((each for each in kinds if each != "null"), None)
        if kind == "array":
            several = field.get("prefixItems")
            items = ", ".join(self.type_of(each)[0] for each in several) if several else f"{self.type_of(field['items'])[0]}, ..."
            return f"Tuple[{items}]", "null" in kinds
        return SCALARS.get(str(kind), "Json"), "null" in kinds

    def type_of_reference(self, name: str) -> Tuple[str, bool]:
        if name in self.classes:
            return name, False
        schema = self.types[name]
        words = schema.get("oneOf", [])
        if words and all(each.get("type") == "string" for each in words):
            return "str", False
        return SCALARS.get(str(schema.get("type")), "Json"), False

    def decoded(self, kind: str, value: str) -> str:
        """An expression that makes a `kind` of JSON."""
        if kind in self.classes:
            return f"{kind}.from_json({value})"
        if kind.startswith("Tuple["):
            item = kind[len("Tuple[") : -1].replace(", ...", "")
            return f"tuple({self.decoded(item, 'item')} for item in {value})" if item in self.classes else f"tuple({value})"
        return value

    def field(self, name: str, field: Schema, is_required: bool) -> Tuple[bool, List[str], str]:
        """Whether it has a default, its lines, and the expression that makes it."""
        kind, may_be_null = self.type_of(field)
        get = f'data["{name}"]' if is_required else f'data.get("{name}")'
        default = ""
        if not is_required and "default" in field and field["default"] in ([], ""):
            empty = "()" if field["default"] == [] else '""'
            get, default = f'data.get("{name}", {empty})', f" = {empty}"
            made = self.decoded(kind, get)
        elif may_be_null or not is_required:
            made = get if kind in SCALARS.values() or kind == "Json" else f"None if {get} is None else {self.decoded(kind, 'data[' + json.dumps(name) + ']')}"
            kind, default = f"Optional[{kind}]", "" if is_required else " = None"
        else:
            made = self.decoded(kind, get)
        lines = [f"    {name}: {kind}{default}", *documented(field.get("description", ""), "    ")]
        return bool(default), lines, f"            {name}={made},"

    def text_of_class(self, name: str) -> str:
        schema = self.classes[name]
        fields = [self.field(each, field, each in schema["required"]) for each, field in schema["properties"].items()]
        fields.sort(key=lambda field: field[0])
        base, options = (f"({SHOWN[name]})", "frozen=True, repr=False") if name in SHOWN else ("", "frozen=True")
        lines = [f"@dataclass({options})", f"class {name}{base}:", *documented(schema.get("description", name), "    ", always=True), ""]
        for _, of_field, _ in fields:
            lines += of_field
        lines += ["", "    @classmethod", f'    def from_json(cls, data: Json) -> "{name}":', '        """Of what the program prints. `KeyError` and `TypeError` where that is something else."""']
        lines += ["        return cls(", *(made for _, _, made in fields), "        )", ""]
        return "\n".join(lines)

    def text(self) -> str:
        shown = sorted(SHOWN[name] for name in self.classes if name in SHOWN)
        body = "\n\n".join(self.text_of_class(name) for name in [self.root, *sorted(set(self.classes) - {self.root})])
        # What is named by a class has to be there only when it is called.
        typing = ", ".join(word for word in ("Any", "Dict", "Optional", "Tuple") if word in ("Any", "Dict") or f"{word}[" in body)
        head = [f'"""What `unstarve schema {self.name}` describes. Made by write_model.py: do not edit."""', "from __future__ import annotations", "", "from dataclasses import dataclass",
                f"from typing import {typing}"]  # fmt: skip
        head += ["", f"from ._shown import {', '.join(shown)}"] if shown else []
        return "\n".join([*head, "", "# An object as it was printed.", "Json = Dict[str, Any]", "", "", body])


def documented(text: str, indent: str, always: bool = False) -> List[str]:
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if not text and not always:
        return []
    if text.endswith('"'):
        text += " "
    return textwrap.wrap(f'"""{text}"""', WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main() -> int:
    program, write = sys.argv[1], sys.argv[2:] == ["--write"]
    stale = []
    for name, module in SCHEMAS.items():
        schema = json.loads(subprocess.run([program, "schema", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
        made, file = Module(name, schema).text(), MODULES / f"{module}.py"
        if not file.exists() or file.read_text(encoding="utf-8") != made:
            stale.append(file.name)
            if write:
                file.write_text(made, encoding="utf-8")
    if stale:
        print(f"{'written' if write else 'not what the schemas say (UNSTARVE_WRITE=1 tools/test_python.sh writes them)'}: {', '.join(stale)}")
    return 0 if write or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
