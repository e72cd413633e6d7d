//! The page of `unstarve guard plan`.

use std::fmt::Write;

use unstarve_change::Value;
use unstarve_guard::decide::{Note, NoteKind, Plan};
use unstarve_guard::survey::{Starter, Survey};
use unstarve_guard::{Owner, Policy, Task, Users};
use unstarve_model::{clean, counted};

/// Formats what a policy would change, rule by rule. Names of tasks and rules are escaped.
pub fn plan_page(policy: &Policy, survey: &Survey, users: &Users) -> String {
    let mut page = String::new();
    for (index, rule) in policy.rules.iter().enumerate() {
        let lines: Vec<String> =
            survey.tasks.iter().flat_map(|(task, plan)| lines_of(policy, users, index, task, plan)).collect();
        let _ = writeln!(page, "{} ({})", clean(&rule.name), clean(&rule.place));
        for remark in rule.remarks() {
            let _ = writeln!(page, "  {remark}");
        }
        for starter in survey.starters.iter().filter(|starter| starter.rule == index) {
            let _ = writeln!(page, "  {}", starter_text(users, starter));
        }
        if lines.is_empty() {
            let _ = writeln!(page, "  no task here now");
        }
        page.extend(lines);
    }
    for found in &survey.settings {
        let name = clean(&policy.settings[found.setting].name).into_owned();
        let change = change(&found.old, &found.new);
        let _ = writeln!(page, "{name}\n  {}: {change}", clean(&found.target.to_string()));
    }
    for absent in &survey.absent {
        let _ =
            writeln!(page, "{}\n  not here: {}", clean(&policy.settings[absent.setting].name), clean(&absent.reason));
    }
    let changes = survey.changes(policy).len();
    let _ = writeln!(
        page,
        "\n{} looked at, {} named by a rule; {} to make, {} refused",
        counted(survey.looked_at as u64, "task"),
        survey.tasks.len(),
        counted(changes as u64, "change"),
        survey.refusals(),
    );
    if let Err(error) = survey.crowd.check() {
        let _ = writeln!(page, "apply, verify and run refuse: {error}");
    }
    page
}

fn lines_of(policy: &Policy, users: &Users, rule: usize, task: &Task, plan: &Plan) -> Vec<String> {
    let name = format!("{}[{}]", clean(&task.comm), task.key.tid);
    let owner = task.owner.map_or_else(|| "?".to_owned(), |owner| owner_text(users, owner));
    let who = format!("{name:<24} {:<10} {:<10}", clean(&owner), task.kind.to_string());
    let changes = plan.changes.iter().filter(|planned| planned.rule == rule);
    let mut lines: Vec<String> =
        changes.map(|planned| format!("  {who} {}\n", change(&planned.old, &planned.new))).collect();
    let kept = plan.kept.iter().filter(|planned| planned.rule == rule);
    lines.extend(kept.map(|planned| format!("  {who} {} already\n", clean(&planned.new.to_string()))));
    let notes = plan.notes.iter().filter(|note| note.rule == rule);
    lines.extend(notes.map(|note| format!("  {who} {}\n", clean(&note_text(policy, note)))));
    lines
}

/// `db`, or for a set-user-ID program `alice as root`.
pub fn owner_text(users: &Users, owner: Owner) -> String {
    match owner.sole() {
        Some(uid) => users.name(uid),
        None => format!("{} as {}", users.name(owner.real), users.name(owner.effective)),
    }
}

/// A raised program that has started a program of another user.
pub fn starter_text(users: &Users, starter: &Starter) -> String {
    let ((pid, program), (child, name)) = (&starter.program, &starter.child);
    format!(
        "warning: {}[{pid}] has started {}[{child}] of user {}: it starts programs of others; select the program that needs it",
        clean(program),
        clean(name),
        clean(&owner_text(users, starter.owner))
    )
}

fn change(old: &Value, new: &Value) -> String {
    if old.same(new) {
        return format!("{} already", clean(&new.to_string()));
    }
    // `nice 0 -> -5` reads better than `nice 0 -> nice -5`.
    let (old, new) = (old.to_string(), new.to_string());
    let shared = old.split_inclusive(' ').zip(new.split_inclusive(' ')).take_while(|(a, b)| a == b && a.ends_with(' '));
    let length = shared.map(|(a, _)| a.len()).sum::<usize>();
    let rest = if old.starts_with(|c: char| c.is_ascii_lowercase()) { &new[length..] } else { &new };
    format!("{} -> {}", clean(&old), clean(rest))
}

/// A rule's note on a task: refused and why, or decided by another rule.
pub fn note_text(policy: &Policy, note: &Note) -> String {
    match &note.kind {
        NoteKind::Refused(refusal) => format!("refused: {refusal}"),
        NoteKind::Inherited(heirloom) => format!(
            "children inherit it until the guard restores them: reset-on-fork is not set, because it would replace their {heirloom}"
        ),
        NoteKind::CannotWin(weakness) => format!("cannot win: {weakness}"),
        NoteKind::Stronger { has, wanted } => format!("{has} is already stronger than {wanted}, kept"),
        NoteKind::Shadowed { by, aspect } => {
            let by = &policy.rules[*by];
            format!("{aspect} is decided by the earlier rule `{}` ({})", by.name, by.place)
        }
    }
}
