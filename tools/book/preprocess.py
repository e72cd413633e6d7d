#!/usr/bin/env python3
"""What mdBook asks before it renders the book (book.toml): JSON comes in, the same with chapters changed goes out.

* `<!-- help: fix -->`                  the text of `unstarve fix --help`, and of its parts
* `<!-- print json: unstarve … -->`     what the command prints
* `<!-- include: SECURITY.md -->`       a page that is not below docs/
* a console block                       is run, so that its output is today's (examples.py)
* links that leave the book             become file names: the book does not know where the sources are on the network
* decisions                             all of them are chapters below their index

A link to a page or a heading that does not exist ends the build. UNSTARVE names the program.

    tools/book/preprocess.py --check      only the links, and whether each page is in docs/SUMMARY.md: without mdBook and the program
"""
import json
import os
import pathlib
import posixpath
import re
import sys

from examples import FENCE, ROOT, Examples, attributes

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(?:```.*?^```$)|`[^`\n]+`", re.M | re.S)
HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchor(heading):
    """As mdBook names a heading."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return "".join("-" if c.isspace() else c for c in text if c.isalnum() or c in "_-" or c.isspace())


class Book:
    def __init__(self, examples=None):
        self.examples = examples
        self.problems = []
        self.pages = {}

    def help(self, words):
        """The help of a command, and of the commands below it."""
        text = self.examples.shell(f"unstarve {words} --help").stdout.rstrip()
        parts = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
        names = re.findall(r"^  ([a-z][a-z-]*) ", parts.group(1), re.M) if parts else []
        below = [f"\n### {words} {name}\n\n{self.help(f'{words} {name}')}" for name in names if name != "help"]
        return "\n".join([f"```text\n{text}\n```", *below])

    def printed(self, kind, command):
        done = self.examples.shell(command)
        if done.returncode != 0:
            self.problems.append(f"`{command}` failed: {done.stdout}")
        return f"```{kind}\n{done.stdout.rstrip()}\n```"

    def included(self, name):
        """A page of the root: its links are as seen from there."""
        text = (ROOT / name).read_text(encoding="utf-8")
        return LINK.sub(lambda m: f"{m[1]}[{m[2]}]({posixpath.relpath(m[3], 'docs') if '://' not in m[3] and not m[3].startswith('#') else m[3]})", text)

    def fill(self, text, path):
        text = re.sub(r"<!-- include: (\S+) -->", lambda m: self.included(m[1]), text)
        if self.examples is None:
            return text
        text = re.sub(r"<!-- help: ([a-z -]+) -->", lambda m: self.help(m[1]), text)
        text = re.sub(r"<!-- print (\w+): (.+?) -->", lambda m: self.printed(m[1], m[2]), text)

        def block(found):
            info, body = found.groups()
            if attributes(info) is None:
                return found.group()
            return f"```text\n{self.examples.run(info, body, path)}```"

        return FENCE.sub(block, text)

    def link(self, found, path):
        bang, text, target = found.groups()
        if "://" in target or target.startswith("mailto:"):
            return found.group()
        file, _, heading = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
        if place.startswith("../"):
            outside = place.removeprefix("../")
            if not (ROOT / outside).exists():
                self.problems.append(f"{path}: {target} does not exist")
            shown = text.strip("`")
            return f"`{outside}`" if shown in outside else f"{text} (`{outside}`)"
        if not place.endswith(".md"):
            if not (ROOT / "docs" / place).exists():
                self.problems.append(f"{path}: {target} does not exist")
            return f"`docs/{place}`" if (ROOT / "docs" / place).is_dir() else found.group()
        if place not in self.pages:
            self.problems.append(f"{path}: {target} is no page of the book")
        elif heading and heading not in {anchor(line) for line in HEADING.findall(self.pages[place])}:
            self.problems.append(f"{path}: {target}: no such heading")
        return found.group()

    def links(self, text, path):
        """Outside of code."""
        out, at = [], 0
        for code in CODE.finditer(text):
            out += [LINK.sub(lambda m: self.link(m, path), text[at : code.start()]), code.group()]
            at = code.end()
        return "".join(out) + LINK.sub(lambda m: self.link(m, path), text[at:])


def program():
    if "UNSTARVE" in os.environ:
        return os.environ["UNSTARVE"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for path in (target / "release/unstarve", target / "debug/unstarve") if path.exists()]
    if not built:
        sys.exit("the book shows what the program prints: build it first (make build), or name it in UNSTARVE")
    return max(built, key=lambda path: path.stat().st_mtime)


def chapters(items):
    for item in items:
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            yield chapter
            yield from chapters(chapter["sub_items"])


def add_decisions(chapter):
    """All decisions below their index, and in it."""
    newer = []
    for path in sorted((ROOT / "docs/decisions").glob("0*.md")):
        text = path.read_text(encoding="utf-8")
        name = f"decisions/{path.name}"
        title = re.sub(r"^(\d+)[.:] ", lambda m: f"{int(m[1]):04}: ", text.partition("\n")[0].removeprefix("# "))
        chapter["sub_items"].append({"Chapter": {
            "name": title, "content": text, "number": None, "sub_items": [], "path": name, "source_path": name, "parent_names": [chapter["name"]],
        }})
        if f"({path.name})" not in chapter["content"]:
            newer.append(f"* [{title}]({path.name})")
    if newer:
        chapter["content"] += "\n".join(["\n## Not sorted in yet\n", *newer, ""])


def contents():
    """The chapters of docs/SUMMARY.md, as mdBook would give them."""
    items = []
    for name, path in re.findall(r"^ *-? ?\[([^\]]+)\]\(([^)]+)\)", (ROOT / "docs/SUMMARY.md").read_text(encoding="utf-8"), re.M):
        text = (ROOT / "docs" / path).read_text(encoding="utf-8")
        items.append({"Chapter": {"name": name, "content": text, "sub_items": [], "source_path": path}})
    return items


def outside_problems():
    """Links of pages that are not in the book, to files that are not there."""
    for pattern in ("*.md", "bench/results/*.md", "crates/*/README.md", "testdata/*/README.md"):
        for path in sorted(ROOT.glob(pattern)):
            for _, _, target in LINK.findall(CODE.sub("", path.read_text(encoding="utf-8"))):
                file = target.partition("#")[0]
                if file and "://" not in file and not (path.parent / file).exists():
                    yield f"{path.relative_to(ROOT)}: {target} does not exist"


def check(book, items):
    """Fills the pages, and ends the program if something is wrong with them."""
    for chapter in list(chapters(items)):
        if chapter["source_path"] == "decisions/README.md":
            add_decisions(chapter)
    for chapter in chapters(items):
        chapter["content"] = book.fill(chapter["content"], chapter["source_path"])
        book.pages[chapter["source_path"]] = chapter["content"]
    for chapter in chapters(items):
        chapter["content"] = book.links(chapter["content"], chapter["source_path"])
    missing = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")} - set(book.pages) - {"SUMMARY.md"}
    problems = book.problems + (book.examples.problems if book.examples else [])
    problems += [f"docs/{name} is not in docs/SUMMARY.md" for name in sorted(missing)]
    problems += outside_problems()
    if problems:
        sys.exit("\n".join(["the book has problems:", *problems]))


def main():
    if sys.argv[1:] == ["--check"]:
        return check(Book(), contents())
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    check(Book(Examples(program())), book.get("items", book.get("sections")))
    json.dump(book, sys.stdout)


main()
