#!/usr/bin/env python3
"""Runs a page as a notebook: each block of Python in turn, in a directory with testdata/, and compares what it shows with the block of text below it.

    run_page.py PAGE            exit code 1 if a block fails or shows something else
    run_page.py PAGE --write    writes what they show
"""
import ast
import contextlib
import io
import os
import pathlib
import re
import sys
import tempfile
import traceback
from typing import Any, Dict, List

ROOT = pathlib.Path(__file__).resolve().parent.parent
CELL = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n^```text\n(?P<shown>.*?)^```\n)?", re.M | re.S)


def shown_by(code: str, names: Dict[str, Any]) -> str:
    """What a cell of a notebook shows: what it prints, and the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def main() -> int:
    page, write = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] == ["--write"]
    text, names, problems = page.read_text(encoding="utf-8"), {"__name__": "__main__"}, []  # type: ignore[var-annotated]

    def cell(found: "re.Match[str]") -> str:
        try:
            now = shown_by(found["code"], names)
        except Exception:
            problems.append(f"{found['code']}{traceback.format_exc(limit=-3)}")
            return found.group()
        if now != (found["shown"] or ""):
            problems.append(f"{found['code']}shows something else (UNSTARVE_WRITE=1 tools/test_python.sh writes it):\n{now}")
        return f"```python\n{found['code']}```\n" + (f"\n```text\n{now}```\n" if now else "")

    count = len(CELL.findall(text))
    with tempfile.TemporaryDirectory(prefix="unstarve-page.") as place:
        (pathlib.Path(place) / "testdata").symlink_to(ROOT / "testdata")
        os.chdir(place)
        new = CELL.sub(cell, text)
        os.chdir(ROOT)
    failed: List[str] = problems
    if write:
        page.write_text(new, encoding="utf-8")
        failed = [problem for problem in problems if "Traceback" in problem]
    for problem in failed:
        print(f"{page.name}: {problem}")
    print(f"{count} cells")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
