//! Nothing but a guest's init, recorder and loads: with `--init`, guests stay the same byte by byte whatever else changes in `unstarve`.

use std::process::ExitCode;

use unstarve_lab::guest::Role;

fn main() -> ExitCode {
    unstarve_files::ThisProgram::take_name();
    match Role::of_this_process() {
        Some(role) => ExitCode::from(role.play()),
        None => {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"unstarve-guest runs in guests alone: unstarve lab table --init unstarve-guest\n",
            );
            ExitCode::from(2)
        }
    }
}
