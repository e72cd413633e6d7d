INCLUDE PERFETTO MODULE unstarve.pieces;

-- Sums: a row for each victim, occupant and rule.
CREATE PERFETTO TABLE unstarve_blame AS
SELECT
  -- Who waited; all threads of this name.
  task AS victim,
  occupant,
  rule,
  -- In how many waits.
  count(*) AS waits,
  -- For how long, in all and at most in one wait, in ns.
  sum(ns) AS total_ns,
  max(ns) AS longest_ns
FROM unstarve_pieces
GROUP BY victim, occupant, rule;

-- Blame within a part of the trace: of the waits that began from `start_ts` on and before `end_ts`.
CREATE PERFETTO FUNCTION unstarve_blame_between(start_ts TIMESTAMP, end_ts TIMESTAMP)
RETURNS TABLE(victim STRING, occupant STRING, rule STRING, waits LONG, total_ns LONG, longest_ns LONG) AS
SELECT task AS victim, occupant, rule, count(*) AS waits, sum(ns) AS total_ns, max(ns) AS longest_ns
FROM unstarve_pieces
WHERE ts >= $start_ts AND ts < $end_ts
GROUP BY victim, occupant, rule;
