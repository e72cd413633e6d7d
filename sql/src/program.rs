//! A program that answers questions, from its begin to its exit code.

use std::process::ExitCode;

/// The exit code of what could not be done.
const FAILED: u8 = 2;

/// Does what a program is called for; an error goes to standard error, after the name.
pub fn run(name: &str, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(name, &error.into()),
    };
    let done = runtime.block_on(work);
    // What a query that was stopped still does is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(name, &error),
    }
}

/// Says something beside the answer. Names in it may be anybody's, and it goes to a terminal.
pub(crate) fn note(text: &str) {
    eprintln!("unstarve sql: {}", unstarve_model::clean(text));
}

fn complain(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("unstarve {name}: {}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    ExitCode::from(FAILED)
}
