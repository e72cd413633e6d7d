#!/usr/bin/env python3
"""Makes docs/numbers.md from the tables of measurements.

    tools/numbers.py            writes the page
    tools/numbers.py --check    exits 1 if the page is not what the tables say
"""
import csv
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "numbers.md"
KERNELS = ["5.10", "6.1", "6.12", "7.2"]
MARKS = {"helped": "helped", "harmed": "did harm", "no-difference": "no difference", "not-shown": "not shown", "not-made": "not made"}
HEAD = """\
# Today's numbers

Made by `tools/numbers.py` from `bench/results/today.tsv`, `crates/diagnose/data/proofs.tsv` and `testdata/truth/wrong.txt`: do not edit.
Each number has the commit and the command that measured it. The logs of all measurements are in `bench/results/`.
Seconds differ between machines; ratios of one run differ less.
"""


def rows(name):
    with open(ROOT / name, encoding="utf-8") as table:
        return list(csv.DictReader((line for line in table if not line.startswith("#")), delimiter="\t", quoting=csv.QUOTE_NONE))


def measurements():
    lines, group = [], None
    for row in rows("bench/results/today.tsv"):
        if row["group"] != group:
            group = row["group"]
            lines += [f"\n## {group}\n", "| what | unstarve | beside it | measured |", "|---|---|---|---|"]
        measured = ", ".join(part for part in [row["machine"], row["commit"], f"`{row['command']}`"] if part)
        lines.append(f"| {row['what']} | **{row['unstarve']}** | {row['beside it']} | {measured} |")
    return lines + wrong_verdicts()


def wrong_verdicts():
    names = [line.strip() for line in (ROOT / "testdata/truth/wrong.txt").read_text().splitlines() if line.strip() and not line.startswith("#")]
    listed = ", ".join(f"`{name}`" for name in names)
    return ["\n## Verdicts that are still wrong\n", f"Still wrong are {len(names)} of the kept recordings: {listed}. [Accuracy](truth.md) says why."]


def remedies():
    lines = [
        "\n## Remedies, tried in guests\n",
        "`unstarve lab prove` applies each remedy of a recording's report in a second guest (`make proofs`). The table counts the cases: a case is a scenario and a kind of victim.",
        "*Helped*: the scenario's main metric is better by 3 % or more, and the 95 % interval excludes zero. All rows with effects and intervals: `bench/results/proofs.md`.",
        "",
        "| finding | remedy | " + " | ".join(KERNELS) + " |",
        "|---|---|" + "---|" * len(KERNELS),
    ]
    cases = {}
    for row in rows("crates/diagnose/data/proofs.tsv"):
        cell = cases.setdefault((row["finding"], row["remedy"]), {}).setdefault(row["kernel"], {})
        cell[row["answer"]] = cell.get(row["answer"], 0) + 1
    for (finding, remedy), kernels in sorted(cases.items()):
        unknown = set(kernels) - set(KERNELS)
        assert not unknown, f"KERNELS lacks {unknown}"
        shown = [", ".join(f"{n} × {MARKS[word]}" for word in MARKS if (n := kernels.get(kernel, {}).get(word))) or "–" for kernel in KERNELS]
        lines.append(f"| `{finding}` | `{remedy}` | " + " | ".join(shown) + " |")
    return lines


def main():
    page = HEAD + "\n".join(measurements() + remedies()) + "\n"
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page:
            sys.exit("docs/numbers.md is not what the tables say: run tools/numbers.py")
    elif not sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
    else:
        sys.exit(__doc__)


main()
