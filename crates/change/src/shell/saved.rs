//! Commands that save the old value before they change it.

use unstarve_model::Tid;
use unstarve_sched::setting::cgroup::{self, CgroupVersion};
use unstarve_sched::setting::{Aspect, File, ShellSaved, Shows};

use super::known::{CREATED, KIND, Known, NAME, OWNER, Parts};
use super::{Commands, ENDED, find_features, handlers, quoted, set_session, text, write};
use crate::Value;
use crate::change::{Change, Relative, Selector, Target, To};

/// `/autogroup-57 nice -8`; prints nothing for a thread without a session.
pub(super) const SESSION_BEFORE: &str = "sed -n 's/.* nice //p' /proc/$t/autogroup";
pub(super) fn commands(changes: &[&Change]) -> Option<Commands> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let step = step(change)?;
        match steps.last_mut() {
            Some(last) if last.body == step.body && last.can_join(&step) => last.threads.extend(step.threads),
            _ => steps.push(step),
        }
    }
    let body: Vec<String> = steps.iter().map(Step::text).collect();
    let body = body.join("; ");
    let file = format!("/run/unstarve-undo-{:08x}", fingerprint(&body));
    // In the body, `$b` is the text of a command and `$s` its output for `$t`; `$h`, `$k` and `$o` are the texts of other
    // commands.
    let text = |name: &str, text: &str| match body.contains(&format!("${name}")) {
        true => format!("{name}='{}'; ", text.replace('\'', "\"")),
        false => String::new(),
    };
    let created = text("b", CREATED) + &text("h", NAME) + &text("k", KIND) + &text("o", OWNER);
    Some(Commands {
        apply: format!("( set -Ceu; u={file}; : > $u; set +C; {created}{body} )"),
        // Undo in reverse order.
        undo: format!("tac {file} | sh -eu && rm {file}"),
    })
}

/// A body for one or several threads, or for none.
struct Step {
    /// Threads known by id, with the checks that recognise them.
    threads: Vec<(Tid, Known)>,
    /// Prints the threads, if they are not known by id.
    list: Option<String>,
    body: String,
}

impl Step {
    fn of_kernel(body: String) -> Step {
        Step { threads: Vec::new(), list: None, body }
    }

    fn can_join(&self, other: &Step) -> bool {
        self.list.is_none() && other.list.is_none() && !self.threads.is_empty() && !other.threads.is_empty()
    }

    fn text(&self) -> String {
        let parts = self.threads.iter().fold(Parts::default(), |parts, (_, known)| parts.and(known.parts()));
        // The creation time and the name always have a place in the word here.
        let all = Parts { name: true, ..parts };
        let (list, check) = match &self.list {
            // A thread that has ended by now needs no change.
            Some(list) => (list.clone(), "[ \"$s\" ] || continue".to_owned()),
            None if self.threads.is_empty() => return self.body.clone(),
            None => {
                let numbers: Vec<String> = self.threads.iter().map(|(tid, _)| tid.to_string()).collect();
                let known: Vec<String> = self.threads.iter().map(|(tid, known)| known.patterns(*tid, all)).collect();
                let name = if parts.name { "$(eval \"$h\")" } else { "" };
                let before = parts.before_number("eval \"$k\"", "eval \"$o\"");
                let check =
                    format!("case {before}$t:$s@{name} in {}) ;; *) {ENDED}; continue ;; esac", known.join("|"));
                (numbers.join(" "), check)
            }
        };
        format!("for t in {list}; do s=$(eval \"$b\"); {check}; {}; done", self.body)
    }
}

fn step(change: &Change) -> Option<Step> {
    let of_list = |list: String| Some(Step { list: Some(list), ..Step::of_kernel(save_and_set(change.to.as_ref()?)?) });
    match &change.target {
        Target::Thread(thread) => {
            let body = save_and_set(change.to.as_ref()?)?;
            Some(Step { threads: vec![(thread.tid, Known::of(thread, change.value())?)], ..Step::of_kernel(body) })
        }
        Target::Session(thread) => {
            let Value::Nice(nice) = change.value()? else { return None };
            let (back, set) = (set_session("$n"), set_session(&nice.to_string()));
            let body = format!("n=$({SESSION_BEFORE}); [ \"$n\" ] || continue; {SAVE} {back}\" >> $u; {set}");
            Some(Step { threads: vec![(thread.tid, Known::of(thread, change.value())?)], ..Step::of_kernel(body) })
        }
        Target::Threads(Selector::Process(process)) => {
            // With an empty list of threads nothing is done.
            let known = Known::of(process, change.value())?;
            let (parts, tid) = (known.parts(), process.tid);
            let (what, patterns) = match (known.start(), known.names()) {
                (Some(start), _) => ("$b", vec![start.to_string()]),
                (None, names) => ("$h", names?.to_vec()),
            };
            let (word, before) = (parts.before_number("eval \"$k\"", "eval \"$o\""), known.before_number(parts));
            let patterns: Vec<String> = patterns.iter().map(|pattern| format!("{before}{pattern}")).collect();
            let patterns = patterns.join("|");
            of_list(format!("$(t={tid}; case {word}$(eval \"{what}\") in ({patterns}) ls /proc/$t/task ;; esac)"))
        }
        // Only children of kthreadd: a program may take any name.
        Target::Threads(Selector::KernelThreads { prefix }) => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:".contains(c);
            prefix.chars().all(plain).then_some(())?;
            of_list(format!("$(pgrep -P 2 '^{}')", prefix.replace('.', "[.]")))
        }
        Target::Threads(Selector::Workers { cpus }) => {
            let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
            let cpus = if cpus.is_empty() { "[0-9]+".to_owned() } else { format!("({})", cpus.join("|")) };
            of_list(format!("$(pgrep -P 2 '^kworker/{cpus}:[0-9]+([-+]|$)')"))
        }
        Target::File { path } => {
            let (to, quoted) = (quoted(text(change.value()?)?)?, requotable(path)?);
            let body = replace_text(File::at(path)?, &quoted, &to);
            // The undo needs no check: its line is written only if the interrupt had the recorded handlers.
            Some(Step::of_kernel(handlers(path, &change.handlers)?.unless_another(body)))
        }
        Target::Feature { name } => {
            let word = quoted(text(change.value()?)?)?;
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(())?;
            let find = find_features();
            Some(Step::of_kernel(format!(
                "{find}; w=$(grep -owE '(NO_)?{name}' $f); echo \"echo $w > $f\" >> $u; echo {word} > $f"
            )))
        }
        Target::GroupWeightOf(thread) => match change.to.as_ref()? {
            To::Relative(Relative::WeightAtMost(weight)) => {
                let threads = vec![(thread.tid, Known::of(thread, None)?)];
                Some(Step { threads, ..Step::of_kernel(group_weight(*weight)) })
            }
            _ => None,
        },
        Target::Boot { .. } | Target::Advice => None,
    }
}

/// A quoted path that can be quoted again between double quotes; `None` if a shell or `echo` could interpret a part of it
/// differently.
fn requotable(path: &str) -> Option<String> {
    let quoted = quoted(path)?;
    (!quoted.contains(['$', '`', '\\', '"', '!'])).then_some(quoted)
}

fn replace_text(file: File<'_>, quoted: &str, to: &str) -> String {
    let now = match file.setting.shows {
        Shows::Value => "cat",
        Shows::Choice => "sed 's/.*(\\(.*\\)).*/\\1/'",
        Shows::WithReason => "cut -d ' ' -f 1",
    };
    let back = write(&format!("'$({now} {quoted})'"), quoted, file, "\\$");
    format!("echo \"[ ! -e {quoted} ] || {back}\" >> $u; {}", write(to, quoted, file, "$"))
}

/// Starts a line of the undo file, which applies only to the thread that was changed.
const SAVE: &str = r#"echo "t=$t; [ \"\$($b)\" != $s ] ||"#;

fn save_and_set(to: &To) -> Option<String> {
    let (row, set) = match to {
        To::Value(value) => (value.of_task()?, (value.of_task()?.shell_after_saving)(value)?),
        To::Relative(Relative::RuntimePercent(percent)) => {
            let set = format!(
                "chrt $(echo \"$c\" | awk '{{ for (i = 1; i < NF; i++) if ($i == \"--sched-runtime\") $(i + 1) = int($(i + 1) * {percent} / \
                 100); print }}') $t"
            );
            (Aspect::Class.of_task()?, set)
        }
        To::Relative(Relative::WeightAtMost(_)) => return None,
    };
    let ShellSaved { variable, read, or_continue, restore } = row.saved.as_ref()?;
    Some(format!("{variable}=$({read}); {or_continue}; {SAVE} {restore}\" >> $u; {set}"))
}

/// Sets the weight of the top-level group of `$t`, in the hierarchy with the CPU controller, wherever it is mounted.
fn group_weight(weight: u32) -> String {
    let [(shares_file, shares), (weight_file, weight)] = [CgroupVersion::V1, CgroupVersion::V2]
        .map(|version| cgroup::weight(version, cgroup::weight_in(version, weight)));
    let mount = "awk -v k=$k '$3 == k && (k == \"cgroup2\" || $4 ~ /(^|,)cpu(,|$)/) { print $2; exit }' /proc/mounts";
    let group = "awk -F: -v k=$k '(k == \"cgroup2\" ? $2 == \"\" : $2 ~ /(^|,)cpu(,|$)/) \
                 { sub(\"[^:]*:[^:]*:/\", \"\"); sub(\"/.*\", \"\"); print; exit }' /proc/$t/cgroup";
    format!(
        "for k in cgroup2 cgroup; do m=$({mount}); g=$({group}); [ \"$m\" ] && [ \"$g\" ] || continue; f=$m/$g/{weight_file}; w={weight}; \
         [ $k = cgroup2 ] || {{ f=$m/$g/{shares_file}; w={shares}; }}; case $f in *\\'*|*\\\\*) continue ;; esac; [ -e \"$f\" ] || continue; \
         o=$(cat \"$f\"); [ \"$o\" -gt $w ] || continue; echo \"[ ! -e '$f' ] || echo $o > '$f'\" >> $u; echo $w > \"$f\"; done"
    )
}

/// FNV-1a: a number that differs if the commands differ.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
