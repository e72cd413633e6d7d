#!/usr/bin/env python3
"""Runs the steps of packaging/github/action.yml and packaging/gitlab/unstarve.gitlab-ci.yml as a runner does.

    tools/ci_steps.py PROGRAM      PROGRAM is `unstarve`

Each step runs under `bash --noprofile --norc -eo pipefail`, in an empty directory, with nothing but the environment that the runner
documents. `record` is replaced by a copy of a stored recording, `gh` and `curl` by programs that note how they are called: who has
root and a kernel to record is another test's matter (crates/cli/tests/live).
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
GOOD, WORSE, OTHER = (ROOT / "testdata/traces" / name for name in
                      ("linux-5.10-net-good.dat", "linux-5.10-net-rt.dat", "linux-6.1-idle.dat"))
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]

FAKE_UNSTARVE = """#!/bin/bash
[[ $1 == record ]] || exec "$REAL_UNSTARVE" "$@"
file=$3; shift 4
code=0; "$@" || code=$?
cp "$FAKE_RECORDING" "$file"
exit $code
"""
FAKE_GH = """#!/bin/bash
printf '%s\\n' "$*" >> "$CALLS"
[[ -z ${FAIL_CALLS-} ]] || exit 1
case "$*" in *--paginate*) echo "$EARLIER";; esac
"""
FAKE_CURL = """#!/bin/bash
printf '%s\\n' "$*" >> "$CALLS"
[[ $* != *secret* ]] || exit 9
case "${@: -1}" in
*/user) echo '{"id": 5}';;
*per_page*) echo '[{"id": 8, "author": {"id": 6}, "body": "<!-- unstarve '"$(printf latency | sha256sum | cut -c1-16)"' -->"}, {"id": 7, "author": {"id": 5}, "body": "<!-- unstarve 0 -->"}'"$EARLIER"']';;
esac
"""


def marker_of(key):
    """The first line of the comment that a job replaces."""
    return f"<!-- unstarve {hashlib.sha256(key.encode()).hexdigest()[:16]} -->"


class Runner:
    """A place with a workspace and the programs of a runner."""

    def __init__(self, place: Path, program: str):
        self.place, self.work, self.temp = place, place / "work", place / "temp"
        tools = place / "bin"
        for directory in (self.work, self.temp, tools):
            directory.mkdir()
        for name, text in (("unstarve", FAKE_UNSTARVE), ("gh", FAKE_GH), ("curl", FAKE_CURL)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self.environment = {
            "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(place), "LANG": "C.UTF-8",
            "CI": "true", "REAL_UNSTARVE": os.path.abspath(program), "CALLS": str(place / "calls"), "EARLIER": "",
        }

    def baseline(self, *recordings: Path):
        directory = self.work / ".unstarve-baseline"
        directory.mkdir(exist_ok=True)
        for index, recording in enumerate(recordings):
            (directory / f"2026010{index}.dat").write_bytes(recording.read_bytes())

    def baselines(self):
        return sorted(path.name for path in (self.work / ".unstarve-baseline").glob("*.dat"))

    def calls(self):
        path = self.place / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def bash(self, script: str, environment: dict):
        path = self.temp / "script.sh"
        path.write_text(script)
        done = subprocess.run(BASH + [str(path)], cwd=self.work, env=self.environment | environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.returncode, done.stdout


def github(runner: Runner, recording: Path, event="push", **inputs):
    """The exit code of the action, what it printed, and the outputs of its steps."""
    action = yaml.safe_load((ROOT / "packaging/github/action.yml").read_text())
    unknown = inputs.keys() - {name.replace("-", "_") for name in action["inputs"]}
    assert not unknown, unknown
    values = {f"inputs.{name}": inputs.get(name.replace("-", "_"), about.get("default", "")) for name, about in action["inputs"].items()}
    values |= {"github.event_name": event, "github.token": "secret"}
    values["inputs.token"] = "secret"
    event_file = runner.temp / "event.json"
    event_file.write_text(json.dumps({"pull_request": {"number": 7}} if event == "pull_request" else {}))
    summary = runner.temp / "summary"
    base = {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(runner.temp), "GITHUB_EVENT_PATH": str(event_file), "GITHUB_RUN_ID": "99", "GITHUB_JOB": "load-test",
            "GITHUB_REPOSITORY": "o/r", "GITHUB_STEP_SUMMARY": str(summary), "FAKE_RECORDING": str(recording)}

    def value(text):
        def one(match):
            name = match.group(1)
            assert name in values or name.startswith("steps."), name
            return values.get(name, "")
        return re.sub(r"\$\{\{ *([a-z0-9_.-]+) *\}\}", one, text)

    def is_met(condition):
        inner = re.fullmatch(r"\$\{\{ (.*) \}\}", condition).group(1)
        for part in inner.split(" && "):
            left, operator, right = re.fullmatch(r"([a-z0-9_.-]+) (==|!=) '([^']*)'", part).groups()
            if (values.get(left, "") == right) != (operator == "=="):
                return False
        return True

    printed = ""
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"], f"{step['name']}: values belong into env"
        if "if" in step and not is_met(step["if"]):
            continue
        output = runner.temp / "output"
        output.write_text("")
        environment = base | {"GITHUB_OUTPUT": str(output)} | {name: value(text) for name, text in step["env"].items()}
        code, text = runner.bash(step["run"], environment)
        printed += text
        for line in output.read_text().splitlines():
            name, _, content = line.partition("=")
            values[f"steps.{step.get('id')}.outputs.{name}"] = content
        if code != 0:
            return code, printed, values
    return 0, printed, values


def gitlab(runner: Runner, recording: Path, branch="topic", **variables):
    """The same for the job of GitLab, whose script is one script."""
    job = yaml.safe_load((ROOT / "packaging/gitlab/unstarve.gitlab-ci.yml").read_text())[".unstarve"]
    environment = {name: str(text) for name, text in job["variables"].items()}
    environment |= {"GITLAB_CI": "true", "CI_COMMIT_BRANCH": branch, "CI_DEFAULT_BRANCH": "main", "CI_PIPELINE_ID": "31", "CI_JOB_NAME": "latency",
                    "CI_API_V4_URL": "https://gitlab.invalid/api/v4", "CI_PROJECT_ID": "3", "FAKE_RECORDING": str(recording)}
    return runner.bash("\n".join(job["script"]), environment | variables)


SCENES = []


def scene(run):
    SCENES.append(run)
    return run


def equal(found, expected, printed=""):
    if found != expected:
        raise AssertionError(f"{found!r}, expected {expected!r}\n{printed}")


@scene
def the_first_run_on_main_makes_the_baseline(runner):
    code, printed, values = github(runner, GOOD, run="true", update_baseline="true")
    equal((code, values["steps.compare.outputs.verdict"]), (0, "none"), printed)
    equal(len(runner.baselines()), 1)
    equal(runner.calls(), [])


@scene
def a_pull_request_without_a_baseline_is_no_pass(runner):
    code, printed, _ = github(runner, GOOD, event="pull_request", run="true")
    equal(code, 3, printed)
    assert "no baseline" in (runner.temp / "summary").read_text()


@scene
def the_same_passes_and_is_commented(runner):
    runner.baseline(GOOD)
    code, printed, values = github(runner, GOOD, event="pull_request", run="true")
    equal((code, values["steps.compare.outputs.verdict"]), (0, "same"), printed)
    equal(runner.baselines(), ["20260100.dat"])
    calls = runner.calls()
    assert calls[-1].startswith("api --method POST repos/o/r/issues/7/comments --input "), calls
    marker = marker_of("load-test/.unstarve-baseline")
    assert f'"{marker}"' in calls[-2], calls
    results = Path(values["steps.record.outputs.results"])
    equal(json.loads((results / "body.json").read_text())["body"], f"{marker}\n{(results / 'comment.md').read_text()}")


@scene
def a_regression_fails_and_its_comment_replaces_the_earlier_one(runner):
    runner.baseline(GOOD)
    runner.environment["EARLIER"] = "42"
    code, printed, values = github(runner, WORSE, event="pull_request", run="true")
    equal((code, values["steps.compare.outputs.verdict"]), (1, "worse"), printed)
    assert runner.calls()[-1].startswith("api --method PATCH repos/o/r/issues/comments/42 "), runner.calls()
    assert "rt-starvation of ksoftirqd/*" in (runner.temp / "summary").read_text()
    results = Path(values["steps.record.outputs.results"])
    assert {"gate.xml", "gate.sarif", "new.dat"} <= {path.name for path in results.iterdir()}


@scene
def a_regression_on_main_is_not_in_the_baseline(runner):
    runner.baseline(GOOD)
    code, printed, _ = github(runner, WORSE, run="true", update_baseline="true")
    equal((code, runner.baselines()), (1, ["20260100.dat"]), printed)


@scene
def never_reports_alone(runner):
    runner.baseline(GOOD)
    code, printed, values = github(runner, WORSE, run="true", fail_on="never")
    equal((code, values["steps.compare.outputs.verdict"]), (0, "worse"), printed)


@scene
def a_fork_that_may_not_comment_has_a_summary(runner):
    runner.baseline(GOOD)
    runner.environment["FAIL_CALLS"] = "1"
    code, printed, _ = github(runner, GOOD, event="pull_request", run="true")
    equal(code, 0, printed)
    assert "the comment could not be written" in printed


@scene
def a_failing_test_ends_the_job_with_its_own_code(runner):
    runner.baseline(GOOD)
    code, printed, _ = github(runner, GOOD, event="pull_request", run="echo ran; exit 7")
    equal((code, runner.calls(), "ran" in printed), (7, [], True), printed)


@scene
def another_machine_is_undecided_and_begins_a_new_baseline(runner):
    runner.baseline(OTHER, OTHER)
    code, printed, values = github(runner, GOOD, run="true", update_baseline="true")
    equal((code, values["steps.compare.outputs.verdict"]), (3, "undecided"), printed)
    kept = runner.baselines()
    assert len(kept) == 1 and kept[0].endswith("-99.dat"), kept


@scene
def the_baseline_keeps_the_latest(runner):
    runner.baseline(GOOD, GOOD, GOOD)
    code, printed, _ = github(runner, GOOD, run="true", update_baseline="true", keep="2")
    kept = runner.baselines()
    equal((code, len(kept), kept[0]), (0, 2, "20260102.dat"), printed)


@scene
def no_input_is_run_but_the_test(runner):
    runner.baseline(GOOD)
    for name in ("task", "margin", "baseline", "keep", "fail_on", "other_machine"):
        github(runner, GOOD, run="true", update_baseline="true", **{name: "$(touch pwned)`touch pwned`;touch pwned #\" '"})
    assert not (runner.work / "pwned").exists()
    code, printed, _ = github(runner, GOOD, run="""echo "a 'quoted' $((1 + 1))"\ncat <<< lines""")
    assert "a 'quoted' 2\nlines\n" in printed, printed


@scene
def names_of_tasks_are_no_commands(runner):
    text = (ROOT / "testdata/traces/fsdevel-perf-script.txt").read_text().replace("fio", "::error::x")
    recording = runner.place / "hostile"
    recording.write_text(text)
    runner.baseline(recording)
    _, printed, _ = github(runner, recording, run="true")
    word = re.search(r"^::stop-commands::([0-9a-f]{32})$", printed, re.M).group(1)
    before, rest = printed.split(f"::stop-commands::{word}\n")
    within, after = rest.split(f"::{word}::\n")
    for line in (before + after + within).splitlines():
        assert not line.lstrip().startswith("::"), line
    comment = (runner.temp / "unstarve/comment.md").read_text()
    assert not re.search(r"^\s*::", comment, re.M), comment


@scene
def gitlab_makes_its_baseline_on_the_default_branch(runner):
    equal(gitlab(runner, GOOD, UNSTARVE_TEST="true")[0], 3)
    equal((gitlab(runner, GOOD, branch="main", UNSTARVE_TEST="true")[0], len(runner.baselines())), (0, 1))
    equal(gitlab(runner, GOOD, UNSTARVE_TEST="true")[0], 0)
    code, printed = gitlab(runner, WORSE, branch="main", UNSTARVE_TEST="true")
    equal((code, len(runner.baselines())), (1, 1), printed)
    assert (runner.work / "unstarve-results/gate.xml").exists()


@scene
def gitlab_comments_on_merge_requests(runner):
    runner.baseline(GOOD)
    asked = {"UNSTARVE_TEST": "true", "UNSTARVE_COMMENT_TOKEN": "secret", "CI_MERGE_REQUEST_IID": "4"}
    code, printed = gitlab(runner, WORSE, **asked)
    equal(code, 1, printed)
    assert "--request POST" in runner.calls()[-1] and runner.calls()[-1].endswith("/merge_requests/4/notes"), runner.calls()
    runner.environment["EARLIER"] = ', {"id": 9, "author": {"id": 5}, "body": "' + marker_of("latency") + '\\nx"}'
    equal(gitlab(runner, GOOD, **asked)[0], 0)
    assert "--request PUT" in runner.calls()[-1] and runner.calls()[-1].endswith("/notes/9"), runner.calls()
    assert not any("secret" in call for call in runner.calls()), "a token is an argument"


@scene
def gitlab_ends_with_the_code_of_a_failing_test(runner):
    runner.baseline(GOOD)
    equal(gitlab(runner, GOOD, UNSTARVE_TEST="exit 7")[0], 7)
    equal(gitlab(runner, GOOD)[0], 2)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    failed = 0
    for run in SCENES:
        with tempfile.TemporaryDirectory() as place:
            try:
                run(Runner(Path(place), sys.argv[1]))
            except AssertionError as error:
                failed += 1
                print(f"{run.__name__}: {error}", file=sys.stderr)
    print(f"{len(SCENES) - failed} of {len(SCENES)} scenes of CI jobs as expected")
    sys.exit(failed > 0)


main()
