//! Checks the settings of a policy that are not about tasks: cgroups, interrupts, tunables and features.

use std::collections::BTreeSet;

use toml::Spanned;
use unstarve_model::Glob;
use unstarve_sched::setting::{
    File, beginnings_of_sysctls, called_in_policies, check_harm, feature, path_of_tunable, policy_keys,
};

use super::breadth::is_every_group;
use super::compile::cpus;
use super::error::{PolicyError, Source};
use super::file::{CgroupTable, FeatureTable, IrqTable, TunableTable, TunableValue};
use super::{Setting, SettingKind};

/// One setting for each key besides the path.
pub(super) fn cgroup(source: &Source, table: &Spanned<CgroupTable>) -> Result<Vec<Setting>, PolicyError> {
    let CgroupTable(keys) = table.get_ref();
    let at = table.span().start;
    let path = keys.get("path").ok_or_else(|| source.wrong(at, "missing field `path`"))?;
    let text = text_of(path.get_ref());
    if !text.starts_with('/') || text == "/" || text.split('/').any(|part| part == "..") {
        let message = format!("cgroup path \"{text}\"; expected one below the root group, such as \"/kubepods\"");
        return Err(source.wrong(path.span().start, message));
    }
    if is_every_group(&Glob::new(&text)) {
        let given: Vec<&str> = keys.keys().map(String::as_str).filter(|key| *key != "path").collect();
        let given = given.join(" and ");
        let message =
            format!("this gives every group the same {given}, and takes away what others have set; name groups");
        return Err(source.wrong(path.span().start, message));
    }
    let of_key = |(key, value): (&String, &Spanned<TunableValue>)| {
        let to = text_of(value.get_ref());
        let mut settings = called_in_policies(key).peekable();
        let Some((_, known)) = settings.peek() else {
            let keys: BTreeSet<&str> = policy_keys().map(|(_, key)| key.name).collect();
            let message =
                format!("unknown field `{key}`; expected path, {}", keys.into_iter().collect::<Vec<_>>().join(", "));
            return Err(source.wrong(value.span().start, message));
        };
        let (key, takes) = (known.name, known.takes);
        if !settings.all(|(_, key)| (key.to_file)(&to).is_some()) {
            return Err(source.wrong(value.span().start, format!("{key} = {to}; expected {takes}")));
        }
        // The name of a weight has no key, because older journals and logs have it so.
        let name = if key == "weight" { format!("cgroup {text}") } else { format!("cgroup {text} {key}") };
        let what = SettingKind::Cgroup { path: Glob::new(&text), key, value: to };
        Ok(Setting { name, place: source.line(at), what })
    };
    let settings = keys.iter().filter(|(key, _)| *key != "path").map(of_key).collect::<Result<Vec<_>, _>>()?;
    if settings.is_empty() {
        return Err(source.wrong(at, "this sets nothing; expected weight or another setting beside path"));
    }
    Ok(settings)
}

pub(super) fn irq(source: &Source, table: &Spanned<IrqTable>) -> Result<Setting, PolicyError> {
    let IrqTable { action, affinity } = table.get_ref();
    Ok(Setting {
        name: format!("irq {action}"),
        place: source.line(table.span().start),
        what: SettingKind::IrqAffinity { action: Glob::new(action), cpus: cpus(source, affinity)? },
    })
}

pub(super) fn tunable(source: &Source, table: &Spanned<TunableTable>) -> Result<Setting, PolicyError> {
    let TunableTable { name, value } = table.get_ref();
    let text = text_of(value.get_ref());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let written = name.get_ref();
    if written.is_empty() || !written.chars().all(plain) || written.contains("..") || written.starts_with('/') {
        let message = format!("tunable \"{written}\"; expected a name such as \"kernel.sched_rt_runtime_us\"");
        return Err(source.wrong(name.span().start, message));
    }
    if written.contains('.') && File::at(&path_of_tunable(written)).is_none() {
        let message = format!(
            "tunable \"{written}\" is none of the scheduler's; expected a name that begins with {}, or one of \
             /sys/kernel/debug/sched",
            beginnings_of_sysctls().collect::<Vec<_>>().join(", ")
        );
        return Err(source.wrong(name.span().start, message));
    }
    if feature::is_file(written) {
        let message =
            "this file has all features in one, and could not be put back; use [[feature]] with a name and on = …";
        return Err(source.wrong(name.span().start, message));
    }
    if text.is_empty() || text.chars().any(char::is_control) || text.len() > 256 {
        return Err(source.wrong(value.span().start, "a tunable's value is a number or one short line"));
    }
    let (name, place) = (written.clone(), source.line(table.span().start));
    Ok(Setting { name: format!("tunable {name}"), place, what: SettingKind::Tunable { name, value: text } })
}

/// Refuses a value that would harm the machine. A related setting that this policy does not set is assumed to be the kernel's
/// default here, and read from the machine before the value is set.
pub(super) fn check_tunable(
    source: &Source,
    table: &Spanned<TunableTable>,
    settings: &[Setting],
) -> Result<(), PolicyError> {
    let TunableTable { name, value } = table.get_ref();
    let checked = check_harm(name.get_ref(), &text_of(value.get_ref()), |other| value_in(settings, other));
    checked.map_err(|harm| source.wrong(value.span().start, format!("{} would harm: {harm}", name.get_ref())))
}

/// The value that a policy gives a scheduler sysctl.
pub(crate) fn value_in(settings: &[Setting], wanted: &str) -> Option<String> {
    settings.iter().find_map(|setting| match &setting.what {
        SettingKind::Tunable { name, value } if name.strip_prefix("kernel.") == Some(wanted) => Some(value.clone()),
        _ => None,
    })
}

fn text_of(value: &TunableValue) -> String {
    match value {
        TunableValue::Number(number) => number.to_string(),
        TunableValue::Decimal(number) => number.to_string(),
        TunableValue::Text(text) => text.clone(),
    }
}

pub(super) fn feature(source: &Source, table: &Spanned<FeatureTable>) -> Result<Setting, PolicyError> {
    let FeatureTable { name, on } = table.get_ref();
    let text = name.get_ref();
    if text.is_empty() || text.starts_with("NO_") || !text.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
        let message = format!("feature \"{text}\"; expected a name such as \"WA_WEIGHT\", without NO_, and on = false");
        return Err(source.wrong(name.span().start, message));
    }
    let place = source.line(table.span().start);
    Ok(Setting { name: format!("feature {text}"), place, what: SettingKind::Feature { name: text.clone(), on: *on } })
}
