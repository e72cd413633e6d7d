//! Advice to the author of a rule that does not depend on the tasks of a machine.

use unstarve_model::Glob;

use super::breadth::is_many_users;
use super::kernel_names::{self, Names};
use super::launchers::{self, Starts};
use super::select::{Parent, Selector};
use super::{Rule, Want};
use crate::task::Kind;
use unstarve_change::Value;

/// Advice about a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remark {
    /// It has names of kernel threads, so it applies only to them.
    ImpliedKthread,
    /// It raises tasks, and any user can start a task that it matches.
    Forgeable {
        /// The conditions that any user can satisfy.
        by: Vec<By>,
        /// A kernel thread's name that it also matches.
        kernel_name: Option<&'static str>,
    },
    /// It raises programs that start other users' programs.
    StartsOthers {
        /// The programs, and what they start.
        programs: Vec<Starts>,
        /// Whether their children are raised, too.
        children: Children,
    },
}

/// What the children of a raised program get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// Nothing, unless the rule matches them.
    Ordinary,
    /// The raised values: the rule has `reset-on-fork = false`.
    Inherit,
    /// The raised values: the rule matches a unit or cgroup that the children are in, too.
    Meant,
}

/// A condition that any user can satisfy.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum By {
    /// A unit that every login session has, with its pattern.
    Login(String),
    /// A cgroup that users can create.
    Cgroup,
    /// The task's name.
    Comm,
    /// The command line.
    Cmdline,
    /// The parent's name.
    Parent,
    /// The affinity.
    Affinity,
    /// A set of users so large that it means everybody.
    ManyUsers,
    /// No condition except that it is a program.
    Program,
}

impl By {
    fn what(&self) -> &'static str {
        match self {
            By::Login(_) => "a unit that every login session has",
            By::Cgroup => "a cgroup that users can make",
            By::Comm => "the name",
            By::Cmdline => "the command line",
            By::Parent => "the name of the parent",
            By::Affinity => "the affinity",
            By::ManyUsers => "a wide range of users",
            By::Program => "being a program",
        }
    }
}

impl Remark {
    /// Whether to show it before the rule is carried out, not only in an inspection.
    pub fn is_warning(&self) -> bool {
        match self {
            Remark::ImpliedKthread => false,
            Remark::Forgeable { .. } | Remark::StartsOthers { .. } => true,
        }
    }
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Remark::StartsOthers { programs, children } => {
                let starts: Vec<String> =
                    programs.iter().map(|starts| format!("{} starts {}", starts.program, starts.what)).collect();
                write!(f, "warning: {}; ", starts.join(", "))?;
                f.write_str(match children {
                    Children::Ordinary => {
                        "their children are ordinary, except those that the rule matches; select the program that needs it"
                    }
                    Children::Inherit => {
                        "with reset-on-fork = false their children inherit what the rule sets, until they do not match it; remove \
                         that, or select the program that needs it"
                    }
                    Children::Meant => {
                        "the rule matches their children too, as long as they stay in the unit or group; add comm = \"…\" or \
                         user = \"…\""
                    }
                })
            }
            Remark::ImpliedKthread => f.write_str(
                "kind = \"kthread\" is implied: only kernel threads have such names by right; for a program write kind = \"user\"",
            ),
            Remark::Forgeable { by, kernel_name } => {
                match by.as_slice() {
                    [By::Login(unit)] if unit.contains(['*', '?']) => write!(
                        f,
                        "warning: every login session matches unit = \"{}\", so any user can have a process raised; add \
                         user = \"…\"",
                        unit.escape_debug()
                    )?,
                    [By::Comm] => f.write_str(
                        "warning: any user can start a process with this name and have it raised; add user = \"…\" or \
                         unit = \"…\"",
                    )?,
                    by => {
                        let what: Vec<&str> = by.iter().map(By::what).collect();
                        write!(
                            f,
                            "warning: this rule goes by {} alone; any user can start a process that it matches and have it \
                             raised; add user = \"…\" or unit = \"…\"",
                            what.join(" and ")
                        )?;
                    }
                }
                match kernel_name {
                    Some(name) => write!(f, "; for kernel threads (`{name}`) write kind = \"kthread\""),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Cgroups that a user's own service manager creates and names.
const DELEGATED: &str = "/user.slice/user-*.slice/user@*.service/*";
/// Units that every login gets.
const LOGINS: [&str; 2] = ["user@*.service", "session-*.scope"];

impl Rule {
    /// Advice about this rule.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if self.implied_kthread {
            remarks.push(Remark::ImpliedKthread);
        }
        if self.raises()
            && let Some(by) = forgeable(&self.selector)
        {
            let kernel_name = match self.selector.comm.as_ref().map(kernel_names::judge) {
                Some(Names::Both(name)) if self.selector.kind.is_none() => Some(name),
                _ => None,
            };
            remarks.push(Remark::Forgeable { by, kernel_name });
        }
        let programs = if self.raises() { launchers::among(&self.selector) } else { Vec::new() };
        if !programs.is_empty() {
            remarks.push(Remark::StartsOthers { programs, children: self.children() });
        }
        remarks
    }

    fn children(&self) -> Children {
        let selector = &self.selector;
        if self.set.contains(&Want::Value(Value::ResetOnFork(false))) {
            Children::Inherit
        } else if selector.comm.is_none() && selector.owner.is_none() {
            Children::Meant
        } else {
            Children::Ordinary
        }
    }

    /// Whether the rule raises tasks above the defaults.
    fn raises(&self) -> bool {
        self.set.iter().any(Want::raises)
    }
}

/// The conditions of a rule for programs if any user can satisfy all of them; `None` if one is under the system's control.
fn forgeable(selector: &Selector) -> Option<Vec<By>> {
    // The kernel marks kernel threads by flags, and only workers execute work items.
    if !matches!(selector.kind, None | Some(Kind::User)) || selector.asks_for_work() {
        return None;
    }
    if selector.owner.as_ref().is_some_and(|set| !is_many_users(set)) || matches!(selector.parent, Some(Parent::Pid(_)))
    {
        return None;
    }
    let mut by = Vec::new();
    match &selector.unit {
        Some(unit) if !is_login(unit) => return None,
        Some(unit) => by.push(By::Login(unit.to_string())),
        None => {}
    }
    match &selector.cgroup {
        Some(cgroup) if !is_delegated(cgroup) => return None,
        Some(_) => by.push(By::Cgroup),
        None => {}
    }
    let named = [
        (selector.comm.is_some(), By::Comm),
        (selector.cmdline.is_some(), By::Cmdline),
        (selector.parent.is_some(), By::Parent),
        (selector.cpu.is_some(), By::Affinity),
        (selector.owner.is_some(), By::ManyUsers),
    ];
    by.extend(named.into_iter().filter_map(|(is, what)| is.then_some(what)));
    if by.is_empty() {
        by.push(By::Program);
    }
    Some(by)
}

/// Whether a unit is that of any login. `user@1001.service` is one user's, so the rule means that user; a pattern means any
/// user, and so does a session number.
fn is_login(unit: &Glob) -> bool {
    let one_user = unit.literal().is_some_and(|name| name.starts_with("user@"));
    !one_user && LOGINS.iter().any(|login| unit.overlaps(&Glob::new(login)))
}

fn is_delegated(cgroup: &Glob) -> bool {
    let prefix = cgroup.beginning();
    let one_user = prefix.strip_prefix("/user.slice/user-").and_then(|rest| rest.split_once(".slice/")).is_some();
    !one_user && cgroup.overlaps(&Glob::new(DELEGATED))
}
