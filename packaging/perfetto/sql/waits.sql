-- A row for each wait for a CPU, of a trace that `unstarve export` wrote.
CREATE PERFETTO TABLE unstarve_waits AS
SELECT
  -- The slice.
  slice.id AS id,
  -- When the task became runnable, and for how long it waited, in ns.
  slice.ts AS ts,
  extract_arg(slice.arg_set_id, 'debug.wait_ns') AS dur,
  -- Who waited.
  rtrim(rtrim(track.name, '0123456789')) AS task,
  cast(replace(track.name, rtrim(track.name, '0123456789'), '') AS INT) AS tid,
  -- The CPU on which the wait ended.
  extract_arg(slice.arg_set_id, 'debug.cpu') AS cpu,
  -- The occupant of the longest piece, and the rule by which it had the CPU.
  extract_arg(slice.arg_set_id, 'debug.blame[0].occupant') AS culprit,
  extract_arg(slice.arg_set_id, 'debug.blame[0].rule') AS rule,
  -- `wakeup`, `new` or `preemption`.
  extract_arg(slice.arg_set_id, 'debug.begun') AS begun,
  -- What an equal share of the CPU would have given it meanwhile, in ns.
  extract_arg(slice.arg_set_id, 'debug.owed_ns') AS owed_ns,
  -- How long another CPU that it may use was idle, in ns; empty where that is not known.
  extract_arg(slice.arg_set_id, 'debug.idle_elsewhere_ns') AS idle_elsewhere_ns,
  -- The work item of a worker, where known.
  extract_arg(slice.arg_set_id, 'debug.work') AS work,
  slice.arg_set_id AS arg_set_id,
  slice.track_id AS track_id
FROM slice
JOIN track ON track.id = slice.track_id
JOIN track AS parent ON parent.id = track.parent_id
WHERE parent.name = 'Waits: who had the CPU, and by which rule';
