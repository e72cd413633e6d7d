//! A program as a scenario of the lab.

use unstarve_diagnose::report::Finding;
use unstarve_sim::Program;

use crate::player::PLAYER;

/// The program's file in the guest.
const PROGRAM_FILE: &str = "/program.toml";

/// A scenario in which a program is played that was taken from a recording with this finding.
pub fn scenario_of(program: &Program, finding: &Finding) -> String {
    let quoted = |text: &str| toml::Value::String(unstarve_model::clean(text).into_owned()).to_string();
    let seconds = (program.length.as_secs_f64() + 1.0).min(60.0);
    let text = toml::Value::String(program.written()).to_string();
    let mut out = format!("title = {}\nsource = \"a recording\"\n", quoted(&finding.headline));
    out += &format!("cpus = {}\nseconds = {seconds:.1}\n\n", program.cpus.len().max(1));
    out += &format!("[[load]]\nname = \"{PLAYER}\"\nargv = [\"{PLAYER}\", \"{PROGRAM_FILE}\"]\n\n");
    out += &format!("[expect]\nfinding = [{}]\n", quoted(finding.id.as_str()));
    if let Some(culprit) = finding.culprits.first() {
        out += &format!("culprit = {}\n", quoted(&culprit.comm));
    }
    out + &format!("\n[[file]]\npath = \"{PROGRAM_FILE}\"\ntext = {text}\n")
}
