-- rows by the hour where others were preferred: for sums, which need no finer time
select * from marked_hourly where is_starved
