//! The page of many hosts from what is on standard input, as JSON: for the tests in `web/`, which know what they put in.
//!
//!     cargo run -p unstarve-html --example fleet_page <fleet.json >fleet.html

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fleet = serde_json::from_reader(std::io::stdin().lock())?;
    let page = unstarve_html::fleet_html(&fleet, "unstarve test")?;
    Ok(std::io::stdout().write_all(page.as_bytes())?)
}
