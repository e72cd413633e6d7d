-- the intervals in which hosts were watched, each once
select distinct host, kernel, labels, ts, span_ns from wait_rollup
