#!/usr/bin/env python3
"""Whether two builds of unstarve give the same answers to the byte: before and after a change that is only to be faster.

    bench/same_answers.py BEFORE AFTER [TRACE...]

Explains (as text, as JSON, and parts of it), lists and exports (CSV) each trace with both programs; without traces, those of testdata/.
Prints what differs; exit code 1 if anything does.
"""
import os
import subprocess
import sys
import tempfile

QUESTIONS = {
    "explain": ["explain", "--fail-on", "never"],
    "explain --json": ["explain", "--json", "--fail-on", "never"],
    "explain of a part": ["explain", "--json", "--fail-on", "never", "--from", "+20ms", "--to", "+1500ms", "--cpu", "0"],
    "explain of tasks": ["explain", "--json", "--fail-on", "never", "--task", "*a*"],
    "timeline": ["timeline"],
    "export csv": ["export", "--format", "csv", "-o", "{place}"],
}
LIMIT = 600  # seconds for any one answer


def answer(program, question, trace, place):
    """Standard output, errors, exit code, and the files that were written."""
    command = [program] + [word.format(place=place) for word in question] + [trace]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    written = []
    for folder, _, names in sorted(os.walk(os.path.dirname(place))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                written.append((os.path.relpath(path, os.path.dirname(place)), file.read()))
            os.remove(path)
    own = os.path.dirname(place).encode()
    return done.returncode, done.stdout.replace(own, b""), done.stderr.replace(own, b""), written


def traces_of(folder):
    found = []
    for place, _, names in os.walk(folder):
        found += [os.path.join(place, name) for name in names if name.endswith((".dat", ".data", ".zst", ".txt", ".pftrace"))]
    return sorted(found)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    before, after = (os.path.abspath(path) for path in sys.argv[1:3])
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    traces = sys.argv[3:] or traces_of(os.path.join(here, "testdata"))
    different = 0
    for trace in traces:
        for name, question in QUESTIONS.items():
            answers = []
            for program in (before, after):
                with tempfile.TemporaryDirectory(prefix="unstarve-same-") as folder:
                    answers.append(answer(program, question, trace, os.path.join(folder, "export")))
            if answers[0] != answers[1]:
                different += 1
                print(f"{name} of {trace} differs")
    print(f"{len(traces)} traces, {len(QUESTIONS)} answers each: {different or 'none'} differ")
    sys.exit(different > 0)


main()
