# Shared by the stand-ins: a thread is a file of assignments, $MODEL/threads/TID, from which its files in /proc are written.

read_thread() { # tid; fails if there is none
    case $1 in '' | *[!0-9]*) return 1 ;; esac
    [ -e "$MODEL/threads/$1" ] || return 1
    tid=$1
    . "$MODEL/threads/$1"
}

write_thread() {
    printf "tgid=%s parent=%s policy=%s prio=%s nice=%s allowed=%s fixed=%s reset=%s times=%s start=%s\n" \
        "$tgid" "$parent" "$policy" "$prio" "$nice" "$allowed" "$fixed" "$reset" "$times" "$start" >"$MODEL/threads/$tid"
    show_thread
}

show_thread() { # proc_pid_stat(5), proc_pid_status(5)
    case $policy in
    SCHED_FIFO) number=1 ;; SCHED_RR) number=2 ;; SCHED_BATCH) number=3 ;;
    SCHED_IDLE) number=5 ;; SCHED_DEADLINE) number=6 ;; SCHED_EXT) number=7 ;; *) number=0 ;;
    esac
    case $policy in
    SCHED_FIFO | SCHED_RR) shown=$((-1 - prio)) ;; SCHED_DEADLINE) shown=-101 ;; *) shown=$((20 + nice)) ;;
    esac
    [ "$parent" = 2 ] && memory=0 || memory=4096
    printf '%s (%s) S %s 0 0 0 -1 0 0 0 0 0 0 0 0 0 %s %s 1 0 %s %s 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 %s %s 0 0 0 0 0 0 0 0 0 0 0\n' \
        "$tid" "$(cat "/proc/$tid/comm")" "$parent" "$shown" "$nice" "$start" "$memory" "$prio" "$number" >"/proc/$tid/stat"
    printf 'Name:\t%s\nTgid:\t%s\nPid:\t%s\nPPid:\t%s\nCpus_allowed_list:\t%s\n' \
        "$(cat "/proc/$tid/comm")" "$tgid" "$tid" "$parent" "$allowed" >"/proc/$tid/status"
}

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}
