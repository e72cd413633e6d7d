//! The policy file as written: the shape that serde reads and that the JSON schema is made from.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use unstarve_sched::setting::{Given, PolicyKey, RuleKey, Takes, policy_keys, rule_keys};

use crate::task::Kind;

/// A policy for `unstarve guard`.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "unstarve guard policy")]
pub struct PolicyFile {
    /// The version of this format: 1.
    #[schemars(with = "u32", range(min = 1, max = 1))]
    pub version: Spanned<i64>,
    /// Other policy files, relative to this one, whose rules come before this one's.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub include: Vec<Spanned<String>>,
    /// Limits that no rule can pass.
    #[serde(default)]
    pub limits: LimitsTable,
    /// Tasks and what they shall have. For each thing that can be set, the first rule that matches wins.
    #[serde(default, rename = "rule")]
    #[schemars(with = "Vec<RuleTable>")]
    pub rules: Vec<Spanned<RuleTable>>,
    /// Weights and other settings of cgroups.
    #[serde(default, rename = "cgroup")]
    #[schemars(with = "Vec<CgroupTable>")]
    pub cgroups: Vec<Spanned<CgroupTable>>,
    /// Affinities of interrupts.
    #[serde(default, rename = "irq")]
    #[schemars(with = "Vec<IrqTable>")]
    pub irqs: Vec<Spanned<IrqTable>>,
    /// Tunables below /proc/sys or in debugfs.
    #[serde(default, rename = "tunable")]
    #[schemars(with = "Vec<TunableTable>")]
    pub tunables: Vec<Spanned<TunableTable>>,
    /// Scheduler features (debugfs).
    #[serde(default, rename = "feature")]
    #[schemars(with = "Vec<FeatureTable>")]
    pub features: Vec<Spanned<FeatureTable>>,
}

/// Limits that no rule can pass.
#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsTable {
    /// The highest real-time priority that a rule may give; 49 by default, below the interrupt threads. At most 90.
    #[schemars(with = "Option<u32>", range(min = 1, max = 90))]
    pub rt_priority: Option<Spanned<i64>>,
    /// Names that no rule touches, as anchored globs.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The part of a CPU, in per cent, that all tasks made real-time by rules may take of it for a second; 90 by default.
    #[schemars(with = "Option<u32>", range(min = 1, max = 99))]
    pub rt_budget: Option<Spanned<i64>>,
    /// Seconds without a sign of life after which everything is rolled back; 10 by default.
    #[schemars(with = "Option<u32>", range(min = 2, max = 600))]
    pub dead_man: Option<Spanned<i64>>,
    /// How often a task is put back within a minute before the other writer is left to win; 3 by default.
    #[schemars(with = "Option<u32>", range(min = 1, max = 60))]
    pub corrections: Option<Spanned<i64>>,
}

/// One rule.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleTable {
    /// A name for messages, the journal and metrics.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Which tasks: all that are named here must hold.
    #[serde(rename = "match")]
    pub selector: SelectorTable,
    /// What they shall have.
    pub set: SetTable,
    /// What to do when somebody else changes it; `yield` by default.
    #[serde(default)]
    pub on_drift: OnDrift,
}

/// What to do when somebody else changes what a rule has set.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "kebab-case")]
pub enum OnDrift {
    /// Put it back, a few times.
    Keep,
    /// Leave it to them from now on.
    #[default]
    Yield,
    /// Leave it, and say so each time.
    Report,
}

/// Which tasks. Names are anchored globs: `*` and `?`.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SelectorTable {
    /// What the task is; `kthread` if `comm` is a kernel thread's name, else `any`.
    pub kind: Option<KindName>,
    /// Its name, without what a worker works on.
    pub comm: Option<String>,
    /// Its process's arguments, joined by blanks.
    pub cmdline: Option<String>,
    /// Its group in the CPU controller's hierarchy: `/kubepods*`.
    pub cgroup: Option<String>,
    /// The system's unit (a service or scope), not one of a user's own manager or of a container.
    pub unit: Option<String>,
    /// A kernel worker that runs items of this workqueue: `dio/*`.
    pub workqueue: Option<String>,
    /// A kernel worker that runs items of this function: `iomap_dio_complete_work`.
    pub work: Option<String>,
    /// A task that may run on these CPUs alone, such as a per-CPU thread: `0-1`.
    #[schemars(with = "Option<String>")]
    pub cpu: Option<Spanned<String>>,
    /// The parent of its process: a name, or `pid:1234`.
    #[schemars(with = "Option<String>")]
    pub parent: Option<Spanned<String>>,
    /// Its user, by the name in /etc/passwd: the real, the effective and the saved id must all be that user's.
    #[schemars(with = "Option<String>")]
    pub user: Option<Spanned<String>>,
    /// Its user's id, or a set such as `0,1000-1999`.
    #[schemars(with = "Option<UidText>")]
    pub uid: Option<Spanned<UidText>>,
}

/// Ids of users: a number, or a set as a text.
#[derive(Deserialize, JsonSchema, Debug, Clone)]
#[serde(untagged, expecting = "expected a user's id such as 1000, or a set such as \"0,1000-1999\"")]
pub enum UidText {
    /// A number.
    Number(i64),
    /// `0,1000-1999`.
    Set(String),
}

/// The kinds that a rule may name.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum KindName {
    /// Programs and kernel threads, whatever `comm` is.
    Any,
    /// A thread of a program.
    User,
    /// Any kernel thread.
    Kthread,
    /// A workqueue's worker.
    Kworker,
    /// Runs the softirqs of a CPU.
    Ksoftirqd,
    /// Runs timers where interrupts are threads.
    Ktimers,
    /// Makes all other kernel threads.
    Kthreadd,
    /// Reclaims memory.
    Kswapd,
    /// RCU's own threads.
    Rcu,
    /// Handles one interrupt.
    IrqThread,
    /// Polls a network queue.
    Napi,
}

impl KindName {
    /// The kind; `None` for any.
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            KindName::Any => return None,
            KindName::User => Kind::User,
            KindName::Kthread => Kind::Kthread,
            KindName::Kworker => Kind::Kworker,
            KindName::Ksoftirqd => Kind::Ksoftirqd,
            KindName::Ktimers => Kind::Ktimers,
            KindName::Kthreadd => Kind::Kthreadd,
            KindName::Kswapd => Kind::Kswapd,
            KindName::Rcu => Kind::Rcu,
            KindName::IrqThread => Kind::IrqThread,
            KindName::Napi => Kind::Napi,
        })
    }
}

/// What a task shall have; what is not named stays.
#[derive(Debug, Default)]
pub struct SetTable {
    /// The keys, what each is set to, and where that is in the file.
    pub given: Vec<(&'static str, usize, Given)>,
    /// Whether a task that is stronger already is made weaker.
    pub lower: bool,
}

const LOWER: &str = "lower";

impl<'de> Deserialize<'de> for SetTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SetTable, D::Error> {
        deserializer.deserialize_map(SetVisitor)
    }
}

struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = SetTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct SetTable")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SetTable, A::Error> {
        let mut table = SetTable::default();
        while let Some(key) = map.next_key::<SetKey>()? {
            let Some(key) = key.0 else {
                table.lower = map.next_value()?;
                continue;
            };
            let (at, given) = match key.takes {
                Takes::Number(..) => spanned(map.next_value()?, Given::Number),
                Takes::Duration(..) | Takes::Cpus(_) => spanned(map.next_value()?, Given::Text),
                Takes::Flag(_) => spanned(map.next_value()?, Given::Flag),
                Takes::Word(words, _) => (0, Given::Text(map.next_value_seed(OneOf(words))?)),
            };
            table.given.push((key.name, at, given));
        }
        Ok(table)
    }
}

fn spanned<T>(value: Spanned<T>, given: fn(T) -> Given) -> (usize, Given) {
    (value.span().start, given(value.into_inner()))
}

/// A key of a `set` table; `None` for `lower`.
struct SetKey(Option<&'static RuleKey>);

impl<'de> Deserialize<'de> for SetKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SetKey, D::Error> {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| rule_keys().map(|key| key.name).chain([LOWER]).collect());
        let name = String::deserialize(deserializer)?;
        let key = rule_keys().find(|key| key.name == name);
        if key.is_some() || name == LOWER { Ok(SetKey(key)) } else { Err(D::Error::unknown_field(&name, &NAMES)) }
    }
}

/// One of these words.
struct OneOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for OneOf {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        let word = String::deserialize(deserializer)?;
        if self.0.contains(&word.as_str()) { Ok(word) } else { Err(D::Error::unknown_variant(&word, self.0)) }
    }
}

impl JsonSchema for SetTable {
    fn schema_name() -> Cow<'static, str> {
        "SetTable".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        const ABOUT_LOWER: &str = "Whether a task that is stronger already is made weaker: by default, a real-time priority, a nice below 0 \
                                   and an\nuclamp-min never do that.";
        let key = |key: &RuleKey| match &key.takes {
            Takes::Number(range, ..) => json_schema!({
                "description": key.about, "type": ["integer", "null"],
                "format": if *range.start() < 0 { "int32" } else { "uint32" },
                "maximum": range.end(), "minimum": range.start()
            }),
            Takes::Duration(..) | Takes::Cpus(_) => {
                json_schema!({ "description": key.about, "type": ["string", "null"] })
            }
            Takes::Word(words, _) => {
                json_schema!({ "description": key.about, "type": "string", "default": null, "enum": words })
            }
            Takes::Flag(_) => json_schema!({ "description": key.about, "type": ["boolean", "null"] }),
        };
        let lower = json_schema!({ "description": ABOUT_LOWER, "type": "boolean", "default": false });
        let properties: BTreeMap<&str, Schema> =
            rule_keys().map(|known| (known.name, key(known))).chain([(LOWER, lower)]).collect();
        json_schema!({
            "description": "What a task shall have; what is not named stays.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false
        })
    }
}

/// Settings of cgroups: `path`, and a key for each.
#[derive(Deserialize, Debug)]
#[serde(transparent)]
pub struct CgroupTable(pub BTreeMap<String, Spanned<TunableValue>>);

impl JsonSchema for CgroupTable {
    fn schema_name() -> Cow<'static, str> {
        "CgroupTable".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        const PATH: &str =
            "Its path from the mount point, an anchored glob: `/kubepods`. It must lie below the root group.";
        let key = |key: &PolicyKey| match key.range {
            Some((least, greatest)) => json_schema!({
                "description": key.about, "type": "integer", "format": "uint32", "minimum": least, "maximum": greatest
            }),
            None => json_schema!({ "description": key.about, "type": ["number", "string"] }),
        };
        let of_settings = policy_keys().map(|(_, known)| (known.name, key(known)));
        let path = ("path", json_schema!({ "description": PATH, "type": "string" }));
        let properties: BTreeMap<&str, Schema> = of_settings.chain([path]).collect();
        json_schema!({
            "description": "Settings of cgroups.",
            "type": "object",
            "properties": properties,
            "required": ["path"],
            "minProperties": 2,
            "additionalProperties": false
        })
    }
}

/// The affinity of interrupts.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IrqTable {
    /// The name of one of its handlers, an anchored glob: `eth0-*`.
    pub action: String,
    /// The CPUs that may serve it.
    #[schemars(with = "String")]
    pub affinity: Spanned<String>,
}

/// A tunable.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TunableTable {
    /// `kernel.sched_rt_runtime_us` or the name of a file in /sys/kernel/debug/sched.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What to write.
    #[schemars(with = "String")]
    pub value: Spanned<TunableValue>,
}

/// The value of a tunable or of a cgroup's setting: a number or a text.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged, expecting = "expected a number, or a text in quotes")]
pub enum TunableValue {
    /// A whole number.
    Number(i64),
    /// A number such as 12.5.
    Decimal(f64),
    /// A text of one line.
    Text(String),
}

/// A scheduler feature.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FeatureTable {
    /// `WA_WEIGHT`, without `NO_`.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Whether it shall be on.
    pub on: bool,
}
