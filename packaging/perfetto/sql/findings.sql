-- A row for each finding, worst first, of a trace that `unstarve export` wrote.
CREATE PERFETTO TABLE unstarve_findings AS
SELECT
  -- The slice.
  slice.id AS id,
  -- Its kind: `rt-starvation`, `weight-starvation`, …
  slice.category AS finding,
  extract_arg(slice.arg_set_id, 'debug.severity') AS severity,
  -- For people: who is starved by whom, and what it cost.
  extract_arg(slice.arg_set_id, 'debug.says') AS says,
  -- The victim's waits: how many, for how long in all, the longest, in ns.
  extract_arg(slice.arg_set_id, 'debug.waits') AS waits,
  extract_arg(slice.arg_set_id, 'debug.total_ns') AS total_ns,
  extract_arg(slice.arg_set_id, 'debug.max_ns') AS longest_ns,
  -- Who had the CPU most of that time, by which rule, for how long.
  extract_arg(slice.arg_set_id, 'debug.blame[0].occupant') AS culprit,
  extract_arg(slice.arg_set_id, 'debug.blame[0].rule') AS rule,
  extract_arg(slice.arg_set_id, 'debug.blame[0].ns') AS culprit_ns,
  -- What to do first, its risk, and the commands that make it and take it back.
  extract_arg(slice.arg_set_id, 'debug.remedies[0].do') AS remedy,
  extract_arg(slice.arg_set_id, 'debug.remedies[0].risk') AS risk,
  extract_arg(slice.arg_set_id, 'debug.remedies[0].apply') AS apply,
  extract_arg(slice.arg_set_id, 'debug.remedies[0].undo') AS undo,
  slice.track_id AS track_id
FROM slice
JOIN track ON track.id = slice.track_id
JOIN track AS parent ON parent.id = track.parent_id
WHERE parent.name = 'Findings'
ORDER BY slice.id;

-- The worst instances of each finding, with the same start and length as the waits that they are.
CREATE PERFETTO TABLE unstarve_worst_waits AS
SELECT
  slice.id AS id,
  slice.ts AS ts,
  slice.dur AS dur,
  extract_arg(slice.arg_set_id, 'debug.cpu') AS cpu,
  -- The finding, as in `unstarve_findings`.
  finding.id AS finding_id,
  finding.finding AS finding
FROM slice
JOIN track ON track.id = slice.track_id
JOIN unstarve_findings AS finding ON finding.track_id = track.parent_id;
