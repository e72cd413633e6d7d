//! Perfetto's protos for kernel events and the machine, shared by reader and exporter. Source of the field numbers:
//! `protos/perfetto/trace/ftrace/*.proto` and `protos/perfetto/trace/system_info.proto` of the Perfetto repository,
//! which never reuses one.
//!
//! Task names are `string` there and bytes here. The encoding is the same, and the kernel does not promise UTF-8.

#![allow(missing_docs, reason = "they are Perfetto's, which documents them")]

crate::proto_messages! {
    message SystemInfo {
        optional message Utsname utsname = 1;
        optional uint32 num_cpus = 8;
    }

    message Utsname {
        optional string release = 3;
    }

    message FtraceEvent {
        optional uint64 timestamp = 1;
        optional uint32 pid = 2;
        optional uint32 common_flags = 5;
        oneof Kind event {
            SchedSwitch(SchedSwitch) = 4;
            SchedWakeup(SchedWakeup) = 17;
            SchedWaking(SchedWakeup) = 20;
            SoftirqEntry(Softirq) = 24;
            SoftirqExit(Softirq) = 25;
            SoftirqRaise(Softirq) = 26;
            IrqHandlerEntry(IrqHandlerEntry) = 36;
            IrqHandlerExit(IrqHandlerExit) = 37;
            BlockRqIssue(BlockRq) = 45;
            WorkqueueExecuteEnd(WorkqueueExecute) = 57;
            WorkqueueExecuteStart(WorkqueueExecute) = 58;
            WorkqueueQueueWork(WorkqueueQueueWork) = 59;
            SchedWakeupNew(SchedWakeup) = 114;
            BlockRqComplete(BlockRq) = 125;
            BlockRqInsert(BlockRq) = 126;
            TaskNewtask(TaskNewtask) = 235;
            TaskRename(TaskRename) = 236;
            SchedProcessExec(SchedProcessExec) = 237;
            SchedProcessExit(SchedProcessExit) = 238;
            SchedProcessFork(SchedProcessFork) = 239;
            SchedMigrateTask(SchedMigrateTask) = 491;
        }
    }

    message SchedSwitch {
        optional bytes prev_comm = 1;
        optional int32 prev_pid = 2;
        optional int32 prev_prio = 3;
        optional int64 prev_state = 4;
        optional bytes next_comm = 5;
        optional int32 next_pid = 6;
        optional int32 next_prio = 7;
    }

    /// `sched_waking`, `sched_wakeup` and `sched_wakeup_new` have the same fields.
    message SchedWakeup {
        optional bytes comm = 1;
        optional int32 pid = 2;
        optional int32 prio = 3;
        optional int32 success = 4;
        optional int32 target_cpu = 5;
    }

    message Softirq {
        optional uint32 vec = 1;
    }

    message IrqHandlerEntry {
        optional int32 irq = 1;
        optional bytes name = 2;
    }

    message IrqHandlerExit {
        optional int32 irq = 1;
        optional int32 ret = 2;
    }

    message WorkqueueExecute {
        optional uint64 work = 1;
        optional uint64 function = 2;
    }

    message WorkqueueQueueWork {
        optional uint64 work = 1;
        optional uint64 function = 2;
        optional bytes workqueue = 3;
    }

    /// The common part of `block_rq_insert`, `block_rq_issue` and `block_rq_complete`.
    message BlockRq {
        optional uint64 dev = 1;
        optional uint64 sector = 2;
        optional uint32 nr_sector = 3;
    }

    message TaskNewtask {
        optional int32 pid = 1;
        optional bytes comm = 2;
    }

    message TaskRename {
        optional int32 pid = 1;
        optional bytes newcomm = 3;
    }

    message SchedProcessExec {
        optional bytes filename = 1;
        optional int32 pid = 2;
    }

    message SchedProcessExit {
        optional bytes comm = 1;
        optional int32 pid = 2;
    }

    message SchedProcessFork {
        optional int32 parent_pid = 2;
        optional bytes child_comm = 3;
        optional int32 child_pid = 4;
    }

    message SchedMigrateTask {
        optional bytes comm = 1;
        optional int32 pid = 2;
        optional int32 prio = 3;
        optional int32 orig_cpu = 4;
        optional int32 dest_cpu = 5;
    }
}
