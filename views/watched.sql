-- the intervals in which machines were watched, each once
select distinct host, machine_id, kernel, labels, ts, span_ns from wait_rollup
