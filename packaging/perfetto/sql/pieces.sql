INCLUDE PERFETTO MODULE unstarve.waits;

-- A row for each wait, occupant and rule. The pieces of a wait add up to it.
CREATE PERFETTO TABLE unstarve_pieces AS
SELECT
  -- The wait, as in `unstarve_waits`.
  wait.id AS wait_id,
  wait.ts AS ts,
  wait.task AS task,
  wait.tid AS tid,
  wait.cpu AS cpu,
  -- Who or what had the CPU: a task, `idle`, `irq 33 virtio0`, `softirq NET_RX`.
  extract_arg(wait.arg_set_id, replace(piece.key, '.ns', '.occupant')) AS occupant,
  -- Why.
  extract_arg(wait.arg_set_id, replace(piece.key, '.ns', '.rule')) AS rule,
  -- How long, in this wait.
  piece.int_value AS ns
FROM unstarve_waits AS wait
JOIN args AS piece ON piece.arg_set_id = wait.arg_set_id
WHERE piece.flat_key = 'debug.blame.ns';
