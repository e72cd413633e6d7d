//! Merges a store as `unstarve fleet compact` does, without building all of `unstarve`, and says how long it took:
//!
//!     cargo run --release -p unstarve-fleet --features columnar --example compact -- DIRECTORY

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use unstarve_fleet::{Options, SandboxedDecode, Store, compact, serve};
use unstarve_model::WallTime;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["examine-files"] => Ok(serve(std::io::stdin().lock(), std::io::stdout().lock())?),
        [directory] => merge(Path::new(directory)),
        _ => Err("expected DIRECTORY".into()),
    }
}

#[allow(clippy::print_stdout)]
fn merge(directory: &Path) -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let apart = SandboxedDecode::new(move || {
        let mut command = Command::new(&program);
        command.arg("examine-files");
        command
    });
    let store = Store::open(directory)?.examined_by(Box::new(apart));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let (settle, grace) = (Duration::ZERO, Duration::from_secs(3600));
    let options = Options { now: WallTime(u64::try_from(now.as_nanos())?), settle, grace, keep: None };
    let begun = Instant::now();
    let done = compact(&store, &options)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} rows of {} files in {seconds:.2} s", done.rows, done.inputs);
    for problem in &done.problems {
        println!("{}: {}", problem.path.display(), problem.why);
    }
    Ok(())
}
