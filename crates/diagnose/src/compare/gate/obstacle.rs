//! What keeps recordings from deciding.

use serde::{Deserialize, Serialize};
use unstarve_model::Nanos;

use super::rate::{FLOOR_RATE, missing_role, ran};
use super::{Machines, Named, Terms};

/// A shorter recording need not contain one second of a real-time task's limit, nor a stall that comes once a second.
const MIN_LENGTH: Nanos = Nanos::from_millis(2000);
/// Recordings whose lengths differ by more show rare findings with different chances.
const MAX_LENGTH_RATIO: u64 = 2;
/// Less work than this part of the base's is another load, which waits less for that reason alone.
const MIN_WORK: f64 = 0.5;

/// What an obstacle can forbid to claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Claim {
    WorseByFinding,
    WorseByWaits,
    Same,
    Better,
}

/// A kind of obstacle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObstacleKind {
    /// Base and new have different kernels or numbers of CPUs.
    OtherMachine,
    /// A recording cannot show that nobody is starved.
    TooLittle,
    /// Events were lost.
    LostEvents,
    /// A recording is shorter than two seconds.
    TooShort,
    /// The new recordings have a long wait of unknown reason, and the base has none.
    Unexplained,
    /// The new recordings have less than half of the base's work.
    LessWork,
    /// A role that waits in each recording of the base is in none of some new one.
    RoleMissing,
    /// The longest recording is more than twice as long as the shortest.
    UnlikeLengths,
}

impl ObstacleKind {
    /// All of them, as in the table of decision 0624.
    #[cfg(test)]
    pub(super) const ALL: [ObstacleKind; 8] = [
        ObstacleKind::OtherMachine,
        ObstacleKind::TooLittle,
        ObstacleKind::LostEvents,
        ObstacleKind::TooShort,
        ObstacleKind::Unexplained,
        ObstacleKind::LessWork,
        ObstacleKind::RoleMissing,
        ObstacleKind::UnlikeLengths,
    ];

    /// Its word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            ObstacleKind::OtherMachine => "other-machine",
            ObstacleKind::TooLittle => "too-little",
            ObstacleKind::LostEvents => "lost-events",
            ObstacleKind::TooShort => "too-short",
            ObstacleKind::Unexplained => "unexplained",
            ObstacleKind::LessWork => "less-work",
            ObstacleKind::RoleMissing => "role-missing",
            ObstacleKind::UnlikeLengths => "unlike-lengths",
        }
    }

    /// Whether nothing may be claimed of this sort while there is such an obstacle.
    pub(super) fn forbids(self, claim: Claim) -> bool {
        use Claim::{Better, Same, WorseByFinding, WorseByWaits};
        let forbidden: &[Claim] = match self {
            ObstacleKind::OtherMachine | ObstacleKind::TooLittle => &[WorseByFinding, WorseByWaits, Same, Better],
            ObstacleKind::LostEvents => &[WorseByWaits, Same, Better],
            ObstacleKind::TooShort | ObstacleKind::Unexplained | ObstacleKind::LessWork | ObstacleKind::RoleMissing => {
                &[Same, Better]
            }
            ObstacleKind::UnlikeLengths => &[WorseByFinding, Better],
        };
        forbidden.contains(&claim)
    }
}

/// Something that keeps the recordings from deciding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Obstacle {
    /// What sort.
    pub kind: ObstacleKind,
    /// In a sentence, without its full stop.
    pub text: String,
    /// What to record instead.
    pub advice: String,
}

/// The obstacles of these recordings.
pub(super) fn obstacles(base: &[Named<'_>], new: &[Named<'_>], terms: &Terms) -> Vec<Obstacle> {
    let every = || base.iter().chain(new);
    let mut found = Vec::new();
    let mut add = |kind, text: String, advice: &str| found.push(Obstacle { kind, text, advice: advice.to_owned() });
    if terms.machines == Machines::MustBeAlike
        && let Some(text) = every().find_map(|one| unlike(&base[0], one))
    {
        let advice = "record the base on the same machine, or say --other-machine if the difference is what you test";
        add(ObstacleKind::OtherMachine, text, advice);
    }
    for one in every() {
        let trace = &one.side.report.trace;
        if let Some(reason) = trace.too_little.as_deref().filter(|_| !trace.rates_hold) {
            add(ObstacleKind::TooLittle, format!("{}: {reason}", one.name), "record it again, or leave it out");
        } else if length(one) < MIN_LENGTH {
            let text = format!("{}: it covers {}, less than {MIN_LENGTH}", one.name, length(one));
            add(ObstacleKind::TooShort, text, "record longer: all of the test run, or --for 10s");
        }
        if trace.lost > 0 {
            let text = format!("{}: {} events were lost", one.name, unstarve_model::grouped(trace.lost));
            add(ObstacleKind::LostEvents, text, "record with a larger --buffer-size");
        }
    }
    let doubt = |one: &Named<'_>| one.side.report.trace.too_little.clone().filter(|_| one.side.report.trace.rates_hold);
    if let Some((name, doubt)) = new.iter().find_map(|one| Some((one.name, doubt(one)?)))
        && base.iter().all(|one| doubt_of(one).is_none())
    {
        add(ObstacleKind::Unexplained, format!("{name}: {doubt}"), "record the new run again, and more of the base");
    }
    let work = |side: &[Named<'_>]| side.iter().map(|one| ran(&one.side.profile)).collect::<Vec<f64>>();
    let least = work(base).into_iter().fold(f64::INFINITY, f64::min);
    let most = work(new).into_iter().fold(0.0, f64::max);
    if least >= FLOOR_RATE && most < MIN_WORK * least {
        let shown = |rate: f64| Nanos(rate.max(0.0) as u64);
        let text = format!("tasks ran {} of each second, {} in the base", shown(most), shown(least));
        add(ObstacleKind::LessWork, text, "look whether the test ran; record the same load as in the base");
    }
    if let Some((role, name)) = missing_role(base, new) {
        let role = unstarve_model::clean(&role.name);
        let text = format!("{name}: nothing of {role} is in it, which waits in each recording of the base");
        add(ObstacleKind::RoleMissing, text, "record the same load; after renaming threads, record the base again");
    }
    let lengths: Vec<u64> = every().map(|one| length(one).0).collect();
    let (shortest, longest) = (lengths.iter().min().copied(), lengths.iter().max().copied());
    if let (Some(shortest), Some(longest)) = (shortest, longest)
        && longest > shortest.saturating_mul(MAX_LENGTH_RATIO)
    {
        let text = format!("the recordings cover {} to {}", Nanos(shortest), Nanos(longest));
        add(ObstacleKind::UnlikeLengths, text, "record base and new for as long as each other");
    }
    found
}

fn doubt_of<'a>(one: &Named<'a>) -> Option<&'a str> {
    one.side.report.trace.too_little.as_deref()
}

fn length(one: &Named<'_>) -> Nanos {
    let trace = &one.side.report.trace;
    Nanos(trace.end_ns.saturating_sub(trace.start_ns))
}

/// How the machines of two recordings differ, as far as both say it.
fn unlike(one: &Named<'_>, other: &Named<'_>) -> Option<String> {
    let (a, b) = (&one.side.report.trace, &other.side.report.trace);
    let text = |what: &str, of_a: &str, of_b: &str| {
        format!("{} has {what} {of_a}, {} has {of_b}: it is another machine", one.name, other.name)
    };
    if a.cpus != b.cpus {
        return Some(format!("{} has {} CPUs, {} has {}: it is another machine", one.name, a.cpus, other.name, b.cpus));
    }
    match (&a.kernel, &b.kernel) {
        (Some(of_a), Some(of_b)) if of_a != of_b => Some(text("Linux", of_a, of_b)),
        _ => None,
    }
}
