//! The page of many hosts, from the answers to some questions of `unstarve sql`, in the look of the report.
//!
//! Hosts choose the names of themselves, their roles and their episodes, so every text is hostile: text outside the
//! data is escaped, the page's program inserts the rest as text, and the content security policy is the report's.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::report::LEGEND;
use unstarve_model::{Nanos, counted, grouped};

use crate::PageError;
use crate::blob::Columns;
use crate::html::{Document, RuleData, document, escaped};

const PROGRAM: &str = include_str!("../assets/fleet.js");
const STYLE: &str = include_str!("../assets/fleet.css");

/// What the page shows. Sums of waiting are those by rules that prefer others; a part of the time is a sum divided by `watched_ns`, and is more than the whole where
/// several tasks waited at once. What no row says is `None`, never 0: a table that is not there is no health.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Fleet {
    /// Where the tables are.
    pub places: Vec<String>,
    /// Tables that have no row there.
    pub missing: Vec<FleetTable>,
    /// The first moment of the rows, ms since 1970.
    pub from_ms: Option<i64>,
    /// The last.
    pub to_ms: Option<i64>,
    /// Who waits: columns of the map.
    pub roles: Vec<FleetRole>,
    /// Hosts of which any table has a row: those first whose kernel threads wait for the greatest part of the time, then those of which only the sum is known, then the others.
    pub hosts: Vec<FleetHost>,
    /// Hosts that have no row of their own.
    pub rest: FleetRest,
    /// When something was changed on all hosts, ms since 1970, where who asks says so.
    pub changed_ms: Option<i64>,
    /// Kernel threads of all hosts, hour by hour.
    pub hours: Vec<FleetHour>,
    /// Who is preferred to others, worst first.
    pub culprits: Vec<FleetCulprit>,
    /// The longest episodes.
    pub episodes: Vec<FleetEpisode>,
    /// How many there are in all.
    pub episodes_in_all: u64,
}

/// The tables that the page is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum FleetTable {
    /// For how long hosts were watched.
    WaitRollup,
    /// Who waited for whom.
    BlameRollup,
    /// Starvations that were recorded.
    Episodes,
    /// What hosts are.
    Hosts,
}

/// Somebody who waits.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetRole {
    /// `ksoftirqd`, or the path of a top-level cgroup.
    pub name: String,
    /// Whether its tasks are threads of the kernel.
    pub is_kernel: bool,
}

/// A host.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetHost {
    /// Its name.
    pub name: String,
    /// The `ts` of its last row in any of the tables, ms since 1970.
    pub last_ms: i64,
    /// For how long it was watched; `None` without a row of `wait_rollup`.
    pub watched_ns: Option<u64>,
    /// For how long each role waited, in their order; `None` without a row of `blame_rollup`, by whatever rule.
    pub ns: Option<Vec<u64>>,
    /// For how long those did that have no column; 0 where `ns` is `None`.
    pub others_ns: u64,
    /// What it ran, in the order of time.
    pub periods: Vec<FleetPeriod>,
}

/// A time in which nothing of a host's kernel and labels changed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetPeriod {
    /// `uname -r`, where known.
    pub kernel: Option<String>,
    /// `key=value`, apart by commas.
    pub labels: Option<String>,
    /// Whether it was after the change on all hosts.
    pub is_after: bool,
    /// When it began, ms since 1970.
    pub first_ms: i64,
    /// For how long the host was watched in it; `None` without a row of `wait_rollup`.
    pub watched_ns: Option<u64>,
    /// For how long kernel threads waited in it; `None` without a row of `blame_rollup`.
    pub ns: Option<u64>,
    /// How its hours differ, where that was asked; without it a change of one host is judged by its size alone.
    pub hourly: Option<FleetHourly>,
}

/// How the hours of a period differ.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetHourly {
    /// Hours in which the host was watched.
    pub hours: u64,
    /// The sample standard deviation, over these hours, of the part of the time for which kernel threads waited.
    pub deviation: f64,
}

/// Hosts that have no row of their own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetRest {
    /// How many.
    pub hosts: u64,
    /// Of how many of these it is not known for which part of the time their kernel threads waited.
    pub unknown: u64,
}

/// An hour of all hosts.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetHour {
    /// When it began, ms since 1970.
    pub at_ms: i64,
    /// For how long kernel threads waited.
    pub ns: u64,
    /// On how many hosts.
    pub hosts: u64,
}

/// Who is preferred to others.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetCulprit {
    /// A role.
    pub occupant: String,
    /// By which rule.
    pub rule: String,
    /// On how many hosts.
    pub hosts: u64,
    /// For how long others waited.
    pub ns: u64,
}

/// An episode.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetEpisode {
    /// When it was seen, ms since 1970.
    pub at_ms: i64,
    /// On which host.
    pub host: String,
    /// Its name there.
    pub id: String,
    /// What `explain` found.
    pub finding: Option<String>,
    /// Who waited.
    pub victim: Option<String>,
    /// Who had the CPU.
    pub culprit: Option<String>,
    /// Why.
    pub rule: Option<String>,
    /// For how long.
    pub ns: u64,
    /// What to do first.
    pub remedy: Option<String>,
    /// Where its trace is.
    pub trace: Option<String>,
    /// Where its report page is, if that is on a server; by whoever made this page, never by a host.
    pub link: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct FleetPage<'a> {
    schema: &'static str,
    generator: &'a str,
    /// What is found, in a sentence.
    headline: &'a str,
    /// The worst of it.
    lead: &'a str,
    /// What is not known, because tables have no row: a sentence for each.
    gaps: Vec<&'static str>,
    /// All rules, in the order of the legend.
    rules: Vec<RuleData>,
    fleet: &'a Fleet,
}

/// Kernel threads of a host that wait for this fraction of the time are mentioned in the headline.
const NOTABLE_KERNEL_SHARE: f64 = 0.01;
/// Maximum hosts named where no program runs.
const MAX_NAMED_HOSTS: usize = 20;

/// Makes the page. `generator` names the program (`unstarve 0.1.0`).
///
/// # Errors
/// As [`crate::html`].
pub fn fleet_html(fleet: &Fleet, generator: &str) -> Result<String, PageError> {
    let (headline, lead) = (fleet.headline(), fleet.lead());
    let rules = RuleData::all(&LEGEND);
    let gaps = fleet.gaps();
    let plain = fleet.plain(&headline, &lead);
    let page =
        FleetPage { schema: "unstarve.fleet-page/1", generator, headline: &headline, lead: &lead, gaps, rules, fleet };
    let blob = Columns::default().finish(&page).map_err(PageError::Json)?;
    let title = format!("{} · unstarve", counted(fleet.count(), "host"));
    document(&Document { title: &title, plain: &plain, blob: &blob, program: PROGRAM, more_style: STYLE })
}

impl FleetTable {
    /// What is not known without a row of it.
    fn gap(self) -> &'static str {
        match self {
            FleetTable::WaitRollup => {
                "wait_rollup has no rows here: it says for how long hosts were watched, so what waited stands in seconds, not as a part of the time."
            }
            FleetTable::BlameRollup => "blame_rollup has no rows here: it says who waited for whom.",
            FleetTable::Episodes => {
                "episodes has no rows here: either nothing was recorded, or the table did not get here."
            }
            FleetTable::Hosts => "hosts has no rows here: a host that wrote nothing else is not listed.",
        }
    }
}

impl Fleet {
    fn count(&self) -> u64 {
        self.hosts.len() as u64 + self.rest.hosts
    }

    /// Of how many hosts it is known for which part of the time their kernel threads waited.
    fn known(&self) -> u64 {
        let listed = self.hosts.iter().filter(|host| host.kernel_share(&self.roles).is_some()).count();
        listed as u64 + self.rest.hosts.saturating_sub(self.rest.unknown)
    }

    /// A claim about a part of the time needs a host of which both the sum and the time are known.
    fn headline(&self) -> String {
        let all = counted(self.count(), "host");
        let known = self.known();
        if self.count() == 0 {
            return "There are no rows of any host".to_owned();
        }
        if known == 0 {
            return match self.waited() {
                Some(ns) => format!(
                    "Kernel threads waited {} on {all} while others were preferred; for how long these were watched is not known",
                    seconds(ns)
                ),
                None => format!("It is not known how long kernel threads waited ({all})"),
            };
        }
        let shares = self.hosts.iter().filter_map(|host| host.kernel_share(&self.roles));
        match shares.filter(|share| *share >= NOTABLE_KERNEL_SHARE).count() {
            0 => format!("Kernel threads wait for less than 1\u{a0}% of the time ({})", counted(known, "host")),
            much => format!(
                "On {much} of {} kernel threads wait for 1\u{a0}% of the time or more while others are preferred",
                counted(known, "host")
            ),
        }
    }

    fn lead(&self) -> String {
        let known = self.known();
        let unknown = self.count() - known;
        let mut text = if known > 0 { self.worst() } else { self.most() };
        if known > 0 && unknown > 0 {
            let _ = write!(text, " Of {} it is not known.", counted(unknown, "more host"));
        }
        text
    }

    /// The host whose kernel threads wait for the greatest part of the time.
    fn worst(&self) -> String {
        let shares = self.hosts.iter().filter_map(|host| Some((host, host.kernel_share(&self.roles)?)));
        // Of equals the first.
        let worst = shares.rev().max_by(|(_, one), (_, other)| one.total_cmp(other)).filter(|(_, share)| *share > 0.0);
        let Some((host, share)) = worst else {
            let of = if self.known() < self.count() { " on hosts of which that is known" } else { "" };
            return format!("No kernel thread waited while others were preferred{of}.");
        };
        format!("Worst: {}, {}, above all {}.", host.name, percent(share), host.worst_role(&self.roles))
    }

    /// The host whose kernel threads waited longest, where no part of the time is known.
    fn most(&self) -> String {
        let sums = self.hosts.iter().filter_map(|host| Some((host, host.kernel_ns(&self.roles)?)));
        match sums.rev().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns > 0) {
            Some((host, ns)) => {
                format!("Most: {}, {}, above all {}.", host.name, seconds(ns), host.worst_role(&self.roles))
            }
            None => "What is here does not say whether hosts are well.".to_owned(),
        }
    }

    /// For how long kernel threads of all listed hosts waited, if any host has a sum.
    fn waited(&self) -> Option<u64> {
        self.hosts.iter().filter_map(|host| host.kernel_ns(&self.roles)).reduce(u64::saturating_add)
    }

    fn gaps(&self) -> Vec<&'static str> {
        self.missing.iter().map(|table| table.gap()).collect()
    }

    /// The page without its program.
    fn plain(&self, headline: &str, lead: &str) -> String {
        let mut text = format!("<section class=\"plain\">\n<h1>{}</h1>\n<p>{}</p>\n", escaped(headline), escaped(lead));
        for gap in self.gaps() {
            let _ = writeln!(text, "<p>{}</p>", escaped(gap));
        }
        text.push_str("<ul>\n");
        for host in self.hosts.iter().take(MAX_NAMED_HOSTS) {
            let waited = match (host.kernel_share(&self.roles), host.kernel_ns(&self.roles)) {
                (Some(share), _) => percent(share),
                (None, Some(ns)) => seconds(ns),
                (None, None) => "not known".to_owned(),
            };
            let _ = writeln!(text, "<li>{}: {waited}</li>", escaped(&host.name));
        }
        text + "</ul>\n</section>\n"
    }
}

impl FleetHost {
    /// For how long kernel threads waited.
    fn kernel_ns(&self, roles: &[FleetRole]) -> Option<u64> {
        let kernel = roles.iter().zip(self.ns.as_ref()?).filter(|(role, _)| role.is_kernel);
        Some(kernel.map(|(_, ns)| *ns).fold(0, u64::saturating_add))
    }

    /// The fraction of the time for which kernel threads waited.
    fn kernel_share(&self, roles: &[FleetRole]) -> Option<f64> {
        let watched_ns = self.watched_ns.filter(|ns| *ns > 0)?;
        Some(self.kernel_ns(roles)? as f64 / watched_ns as f64)
    }

    /// The kernel's role that waited longest.
    fn worst_role<'a>(&self, roles: &'a [FleetRole]) -> &'a str {
        let kernel = roles.iter().zip(self.ns.iter().flatten()).filter(|(role, _)| role.is_kernel);
        kernel.max_by_key(|(_, ns)| **ns).map_or("", |(role, _)| role.name.as_str())
    }
}

/// As the page's program says it: from a thousand on in whole seconds with their thousands apart.
fn seconds(ns: u64) -> String {
    match ns / 1_000_000_000 {
        1_000.. => format!("{} s", grouped(ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000))),
        _ => Nanos(ns).to_string(),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        value if value > 0.0 && value < 0.05 => "< 0.1\u{a0}%".to_owned(),
        value if value < 9.95 && value > 0.0 => format!("{value:.1}\u{a0}%"),
        value => format!("{value:.0}\u{a0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, ns: u64) -> FleetHost {
        FleetHost {
            name: name.to_owned(),
            watched_ns: Some(1_000_000_000_000),
            ns: Some(vec![ns * 1_000_000_000, 900_000_000_000]),
            ..FleetHost::default()
        }
    }

    fn fleet(hosts: Vec<FleetHost>) -> Fleet {
        let role = |name: &str, is_kernel| FleetRole { name: name.to_owned(), is_kernel };
        Fleet { roles: vec![role("direct-io", true), role("/batch.slice", false)], hosts, ..Fleet::default() }
    }

    #[test]
    fn the_headline_counts_hosts_whose_kernel_threads_wait() {
        let found = fleet(vec![host("web1", 41), host("web2", 10), host("web3", 9)]);
        assert_eq!(
            found.headline(),
            "On 2 of 3 hosts kernel threads wait for 1\u{a0}% of the time or more while others are preferred"
        );
        assert_eq!(found.lead(), "Worst: web1, 4.1\u{a0}%, above all direct-io.");
        let calm = fleet(vec![host("web1", 0)]);
        assert_eq!(calm.headline(), "Kernel threads wait for less than 1\u{a0}% of the time (1 host)");
        assert_eq!(calm.lead(), "No kernel thread waited while others were preferred.");
    }

    const TABLES: [FleetTable; 4] =
        [FleetTable::WaitRollup, FleetTable::BlameRollup, FleetTable::Episodes, FleetTable::Hosts];

    /// What is found of three hosts if only these tables have rows.
    fn fleet_of_tables(there: &[FleetTable], ns: u64) -> Fleet {
        let is = |table: FleetTable| there.contains(&table);
        let one = |name: &str, ns: u64| {
            let all = host(name, ns);
            FleetHost {
                watched_ns: all.watched_ns.filter(|_| is(FleetTable::WaitRollup)),
                ns: all.ns.filter(|_| is(FleetTable::BlameRollup)),
                ..all
            }
        };
        let hosts = if there.is_empty() { Vec::new() } else { vec![one("a", ns), one("b", 0), one("c", 0)] };
        let missing = TABLES.into_iter().filter(|table| !is(*table)).collect();
        Fleet { missing, episodes_in_all: u64::from(is(FleetTable::Episodes)), ..fleet(hosts) }
    }

    /// Each set of tables that have rows: what is said of hosts that wait (41 of 1,000 s), and of hosts that do not. `E` and `H` add no claim about waiting.
    #[test]
    fn no_table_is_health() {
        let waited = "while others were preferred; for how long these were watched is not known";
        let unknown = "It is not known how long kernel threads waited (3 hosts)";
        let silent = "What is here does not say whether hosts are well.";
        let few = "There are no rows of any host";
        let much = "On 1 of 3 hosts kernel threads wait for 1\u{a0}% of the time or more while others are preferred";
        let little = "Kernel threads wait for less than 1\u{a0}% of the time (3 hosts)";
        let (some, none) = (
            format!("Kernel threads waited 41.0 s on 3 hosts {waited}"),
            format!("Kernel threads waited 0 ns on 3 hosts {waited}"),
        );
        let worst = "Worst: a, 4.1\u{a0}%, above all direct-io.";
        let most = "Most: a, 41.0 s, above all direct-io.";
        let calm = "No kernel thread waited while others were preferred.";
        for bits in 0..16_usize {
            let there: Vec<FleetTable> =
                TABLES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, table)| *table).collect();
            let is = |table: FleetTable| there.contains(&table);
            let (busy, idle) = match (is(FleetTable::WaitRollup), is(FleetTable::BlameRollup)) {
                (true, true) => ([much, worst], [little, calm]),
                (false, true) => ([some.as_str(), most], [none.as_str(), silent]),
                (_, false) if there.is_empty() => ([few, silent], [few, silent]),
                (_, false) => ([unknown, silent], [unknown, silent]),
            };
            for (ns, expected) in [(41, busy), (0, idle)] {
                let fleet = fleet_of_tables(&there, ns);
                assert_eq!([fleet.headline(), fleet.lead()], expected, "{there:?}, {ns}");
                let page = fleet_html(&fleet, "test").expect("a page");
                for table in TABLES {
                    assert_eq!(page.contains(&escaped(table.gap())), !is(table), "{there:?}: {table:?}");
                }
            }
        }
    }

    #[test]
    fn hosts_of_which_nothing_is_known_are_counted_apart() {
        let unknown = |name: &str| FleetHost { watched_ns: None, ..host(name, 500) };
        let mut found = fleet(vec![host("web1", 0), unknown("web2")]);
        assert_eq!(found.headline(), "Kernel threads wait for less than 1\u{a0}% of the time (1 host)");
        assert_eq!(
            found.lead(),
            "No kernel thread waited while others were preferred on hosts of which that is known. Of 1 more host it is not known."
        );
        found.rest = FleetRest { hosts: 5, unknown: 2 };
        found.hosts[0] = host("web1", 41);
        assert_eq!(
            found.headline(),
            "On 1 of 4 hosts kernel threads wait for 1\u{a0}% of the time or more while others are preferred"
        );
        assert_eq!(found.lead(), "Worst: web1, 4.1\u{a0}%, above all direct-io. Of 3 more hosts it is not known.");
        let never_watched = FleetHost { watched_ns: Some(0), ..host("web1", 500) };
        assert!(fleet(vec![never_watched]).headline().starts_with("Kernel threads waited 500 s on 1 host"));
        assert_eq!(seconds(183_699_400_000_000), "183,699 s");
    }

    #[test]
    fn no_name_becomes_markup() {
        let evil = "</script></title><img src=x onerror=alert(1)>\u{202e}";
        let page = fleet_html(&fleet(vec![host(evil, 500)]), evil).expect("a page");
        assert_eq!(page.to_ascii_lowercase().matches("</script").count(), 2, "the data and the program");
        assert!(!page.contains("<img") && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;img src=x") && page.contains("Content-Security-Policy"));
    }

    #[test]
    fn the_program_cannot_end_its_element() {
        assert!(!PROGRAM.to_ascii_lowercase().contains("</script"));
        assert!(!PROGRAM.contains("<!--") && PROGRAM.is_ascii());
        assert!(!STYLE.contains("</"));
    }
}
