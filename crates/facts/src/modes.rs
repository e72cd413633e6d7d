//! Preemption modes, distributions, and other modes of a kernel.

use unstarve_model::clean;

use crate::{Facts, Holds};

/// The distribution of a kernel, as far as it changes defaults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Debian.
    Debian,
    /// Ubuntu.
    Ubuntu,
    /// Red Hat Enterprise Linux and its rebuilds.
    RedHat,
    /// Another one.
    Other,
}

/// When the kernel may preempt a task that runs kernel code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreemptMode {
    /// Only on return to user space.
    None,
    /// Also at explicit preemption points.
    Voluntary,
    /// Anywhere, but for fair tasks only at the next tick or on return to user space (6.13 and later).
    Lazy,
    /// Anywhere.
    Full,
    /// Anywhere, with interrupt handlers in threads (PREEMPT_RT).
    Realtime,
}

impl PreemptMode {
    /// The value for `preempt=`.
    pub fn word(self) -> &'static str {
        match self {
            PreemptMode::None => "none",
            PreemptMode::Voluntary => "voluntary",
            PreemptMode::Lazy => "lazy",
            PreemptMode::Full => "full",
            PreemptMode::Realtime => "PREEMPT_RT",
        }
    }

    /// The mode for a `preempt=` value.
    pub fn of_word(word: &str) -> Option<PreemptMode> {
        use PreemptMode::{Full, Lazy, None, Voluntary};
        [None, Voluntary, Lazy, Full].into_iter().find(|mode| mode.word() == word)
    }
}

impl Facts<'_> {
    /// The kernel's distribution; `None` without a snapshot.
    ///
    /// Source: the distributions' `uname -v` and `uname -r`.
    pub fn distribution(&self) -> Option<Distribution> {
        let kernel = &self.snapshot?.kernel;
        let release = kernel.release.as_deref()?;
        Some(if kernel.version.as_deref().is_some_and(|text| text.contains(" Debian ")) {
            Distribution::Debian
        } else if kernel.signature.is_some() || kernel.version.as_deref().is_some_and(|text| text.contains("-Ubuntu")) {
            Distribution::Ubuntu
        } else if release.contains(".el") {
            Distribution::RedHat
        } else {
            Distribution::Other
        })
    }

    /// The current preemption mode: from debugfs, otherwise from the boot line if the kernel obeys it, otherwise from
    /// the build.
    ///
    /// Source: `sched_dynamic_mode()` and `sched_dynamic_show()` in kernel/sched/core.c and debug.c of 6.12 and 7.2.
    pub fn preempt_mode(&self) -> Option<PreemptMode> {
        let snapshot = self.snapshot?;
        let version = snapshot.kernel.version.as_deref().unwrap_or_default();
        if version.split(' ').any(|word| word == "PREEMPT_RT") || snapshot.config("PREEMPT_RT") == Some("y") {
            return Some(PreemptMode::Realtime);
        }
        // `none voluntary (full)`.
        let chosen = snapshot.setting("sched/preempt").and_then(|(_, text)| {
            let (_, tail) = text.split_once('(')?;
            PreemptMode::of_word(tail.split_once(')')?.0)
        });
        chosen.or_else(|| self.preempt_mode_of_boot()).or_else(|| self.preempt_mode_of_build())
    }

    fn preempt_mode_of_boot(&self) -> Option<PreemptMode> {
        let snapshot = self.snapshot?;
        let dynamic = snapshot.config("PREEMPT_DYNAMIC") == Some("y")
            || snapshot.kernel.version.as_deref().is_some_and(|text| text.contains("PREEMPT_DYNAMIC"));
        let mode = PreemptMode::of_word(self.boot_parameter("preempt")?)?;
        (dynamic && self.preempt_parameter_is_heeded(mode) != Holds::No).then_some(mode)
    }

    fn preempt_mode_of_build(&self) -> Option<PreemptMode> {
        let snapshot = self.snapshot?;
        let options = [
            ("PREEMPT_LAZY", PreemptMode::Lazy),
            ("PREEMPT_VOLUNTARY", PreemptMode::Voluntary),
            ("PREEMPT_NONE", PreemptMode::None),
            ("PREEMPT", PreemptMode::Full),
        ];
        options.into_iter().find(|(option, _)| snapshot.config(option) == Some("y")).map(|(_, mode)| mode)
    }

    /// The last value of a boot parameter of the running kernel; `None` if it is not on the boot line.
    pub fn boot_parameter(&self, name: &str) -> Option<&str> {
        let line = self.snapshot?.kernel.cmdline.as_deref()?;
        let words = line.split_ascii_whitespace().take_while(|word| *word != "--");
        words.filter_map(|word| word.split_once('=')).filter(|(key, _)| *key == name).last().map(|(_, value)| value)
    }

    /// Whether the kernel obeys `preempt=` with this mode. If not, it logs a line and keeps its built-in mode.
    ///
    /// Source: `sched_dynamic_mode()` in kernel/sched/core.c of 6.12 (none, voluntary, full) and 7.2 (full, lazy if the
    /// architecture has PREEMPT_LAZY); commit 7dadeaa6e851 (7.0). `preempt=` exists since 5.12.
    pub fn preempt_parameter_is_heeded(&self, mode: PreemptMode) -> Holds {
        if self.since(5, 12) == Holds::No {
            return Holds::No;
        }
        match (self.since(7, 0), mode) {
            (Holds::Yes, PreemptMode::None | PreemptMode::Voluntary) => Holds::when(!self.has_lazy_architecture()),
            (Holds::Yes, _) => Holds::Yes,
            (Holds::No, PreemptMode::Lazy) => match self.since(6, 13) {
                Holds::Yes => Holds::Depends("whether this kernel was built with PREEMPT_LAZY"),
                other => other,
            },
            (Holds::No, _) => Holds::Yes,
            (unknown, _) => unknown,
        }
    }

    /// Whether a kernel 7.0 or later has only lazy and full preemption on this architecture.
    ///
    /// Source: ARCH_HAS_PREEMPT_LAZY in arch/*/Kconfig of 7.2.
    pub fn has_lazy_architecture(&self) -> bool {
        const LAZY: [&str; 8] = ["x86_64", "i686", "aarch64", "s390x", "ppc64le", "ppc64", "riscv64", "loongarch64"];
        self.snapshot
            .and_then(|snapshot| snapshot.kernel.machine.as_deref())
            .is_none_or(|machine| LAZY.contains(&machine))
    }

    /// Whether autogroup is on: tasks of the root group are then scheduled by session.
    ///
    /// Source: kernel/sched/autogroup.c of 5.10, 6.1, 6.12, 7.2.
    pub fn autogroup(&self) -> Option<bool> {
        Some(self.setting_number("sched_autogroup_enabled")? != 0)
    }

    /// knfsd wakes one idle thread at a time, the one that was busy last.
    ///
    /// Source: commit 5b80147e0c70 (6.7); net/sunrpc/svc_xprt.c of 6.1, 6.12 and 7.2.
    pub fn nfsd_wakes_one_at_a_time(&self) -> Holds {
        self.since(6, 7)
    }

    /// Unused quota of a cgroup expires on each CPU, so that groups are throttled below their limit.
    ///
    /// Source: commit 512ac999d275 (4.18), undone by de53fd7aedb1 (5.4 and stable 5.3.9).
    pub fn quota_expires(&self) -> Holds {
        self.has_bug("quota-expiry")
    }

    /// The kernel's short name: `Linux 6.12.107`.
    pub fn name(&self) -> String {
        match (self.version, self.snapshot.and_then(|snapshot| snapshot.kernel.release.as_deref())) {
            (Some(version), _) => format!("Linux {version}"),
            (None, Some(release)) => format!("Linux {}", clean(release)),
            (None, None) => "this kernel".to_owned(),
        }
    }
}

/// The text to write to a file to keep its current value. `sched/preempt` lists all modes with the current one in
/// parentheses (`none voluntary (full)`), but accepts only a single mode.
pub fn chosen<'a>(path: &str, text: &'a str) -> &'a str {
    let word = || text.split_ascii_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
    path.ends_with("/preempt").then(word).flatten().unwrap_or(text)
}
