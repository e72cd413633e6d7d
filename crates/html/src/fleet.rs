//! The page of many hosts, from the answers to some questions of `unstarve sql`, in the look of the report.
//!
//! Hosts choose the names of themselves, their roles and their episodes, so every text is hostile: text outside the
//! data is escaped, the page's program inserts the rest as text, and the content security policy is the report's.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::report::LEGEND;
use unstarve_model::counted;

use crate::PageError;
use crate::blob::Columns;
use crate::html::{Document, RuleData, document, escaped};

const PROGRAM: &str = include_str!("../assets/fleet.js");

/// What the page shows. Sums of waiting are those by rules that prefer others; a part of the time is a sum divided by `watched_ns`, and is more than the whole where
/// several tasks waited at once.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Fleet {
    /// Where the tables are.
    pub places: Vec<String>,
    /// The first moment of the rows, ms since 1970.
    pub from_ms: Option<i64>,
    /// The last.
    pub to_ms: Option<i64>,
    /// Who waits: columns of the map.
    pub roles: Vec<FleetRole>,
    /// Hosts, those first whose kernel threads wait for the greatest part of the time.
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
    /// When its last interval began, ms since 1970.
    pub last_ms: i64,
    /// For how long it was watched.
    pub watched_ns: u64,
    /// For how long each role waited, in their order.
    pub ns: Vec<u64>,
    /// For how long those did that have no column.
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
    /// For how long the host was watched in it.
    pub watched_ns: u64,
    /// For how long kernel threads waited in it.
    pub ns: u64,
}

/// Hosts that are summed up.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FleetRest {
    /// How many.
    pub hosts: u64,
    /// For how long they were watched.
    pub watched_ns: u64,
    /// For how long their kernel threads waited.
    pub ns: u64,
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
    let page = FleetPage { schema: "unstarve.fleet-page/1", generator, headline: &headline, lead: &lead, rules, fleet };
    let blob = Columns::default().finish(&page).map_err(PageError::Json)?;
    let title = format!("{} · unstarve", counted(fleet.count(), "host"));
    document(&Document { title: &title, plain: &fleet.plain(&headline, &lead), blob: &blob, program: PROGRAM })
}

impl Fleet {
    fn count(&self) -> u64 {
        self.hosts.len() as u64 + self.rest.hosts
    }

    fn headline(&self) -> String {
        let much = self.hosts.iter().filter(|host| host.kernel_share(&self.roles) >= NOTABLE_KERNEL_SHARE).count();
        match (self.count(), much) {
            (0, _) => "There are no rows of any host".to_owned(),
            (all, 0) => format!("Kernel threads wait for less than 1\u{a0}% of the time ({})", counted(all, "host")),
            (all, much) => format!(
                "On {much} of {} kernel threads wait for 1\u{a0}% of the time or more while others are preferred",
                counted(all, "host")
            ),
        }
    }

    fn lead(&self) -> String {
        let worst = self.hosts.first().map(|host| (host, host.kernel_share(&self.roles)));
        let Some((host, share)) = worst.filter(|(_, share)| *share > 0.0) else {
            return "No kernel thread waited while others were preferred.".to_owned();
        };
        let kernel = self.roles.iter().zip(&host.ns).filter(|(role, _)| role.is_kernel);
        let role = kernel.max_by_key(|(_, ns)| **ns).map_or("", |(role, _)| role.name.as_str());
        format!("Worst: {}, {}, above all {role}.", host.name, percent(share))
    }

    /// The page without its program.
    fn plain(&self, headline: &str, lead: &str) -> String {
        let mut text =
            format!("<section class=\"plain\">\n<h1>{}</h1>\n<p>{}</p>\n<ul>\n", escaped(headline), escaped(lead));
        for host in self.hosts.iter().take(MAX_NAMED_HOSTS) {
            let share = percent(host.kernel_share(&self.roles));
            let _ = writeln!(text, "<li>{}: {share}</li>", escaped(&host.name));
        }
        text + "</ul>\n</section>\n"
    }
}

impl FleetHost {
    /// The fraction of the time for which kernel threads waited.
    fn kernel_share(&self, roles: &[FleetRole]) -> f64 {
        let kernel = roles.iter().zip(&self.ns).filter(|(role, _)| role.is_kernel);
        let ns: u64 = kernel.map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        if self.watched_ns == 0 { 0.0 } else { ns as f64 / self.watched_ns as f64 }
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
        FleetHost { name: name.to_owned(), watched_ns: 1_000, ns: vec![ns, 900], ..FleetHost::default() }
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
        assert_eq!(fleet(Vec::new()).headline(), "There are no rows of any host");
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
    }
}
