#!/bin/sh
# ticket.sh BEFORE AFTER [KEY…]: collects in a guest what a ticket contains. Takes the list of threads and of run
# queues BEFORE seconds after its start (while a thread is kept from running, then), presses the SysRq KEYs, and shows
# the kernel's log AFTER seconds later: its first two lines (version, command line) and all since this script started.
set -u
before=$1 after=$2
shift 2
logged=$(dmesg | wc -l)
sleep "$before"
echo "=== ps"
ps -eLo pid,tid,cls,rtprio,ni,psr,stat,pcpu,wchan:24,comm
echo "=== sched_debug"
cat /proc/sched_debug 2>/dev/null || cat /sys/kernel/debug/sched/debug
for key; do echo "$key" >/proc/sysrq-trigger; done
sleep "$after"
echo "=== dmesg"
dmesg | head -n 2
dmesg | tail -n "+$((logged + 1))"
# The same as other tools print it: with the time of day, and with facility and level.
echo "=== dmesg-ctime"
dmesg --ctime | tail -n "+$((logged + 1))"
echo "=== dmesg-decoded"
dmesg --decode | tail -n "+$((logged + 1))"
