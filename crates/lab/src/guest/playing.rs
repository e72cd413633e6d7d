//! Plays a program: `play PROGRAM.json COSTS`.

use std::io::Write;
use std::path::Path;

use super::GuestError;
use crate::player::{Costs, play, read_program};

/// Plays it and prints what was played as JSON.
pub(super) fn run() -> Result<(), GuestError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(costs)) = (arguments.next(), arguments.next()) else {
        return Err(GuestError("expected a program's file and the costs of the player".into()));
    };
    let failed = |error: &dyn std::fmt::Display| GuestError(error.to_string());
    let program = read_program(Path::new(&file)).map_err(|error| failed(&error))?;
    let costs: Costs = serde_json::from_str(&costs).map_err(|error| failed(&error))?;
    let played = play(&program, &costs).map_err(|error| failed(&error))?;
    let text = serde_json::to_string(&played).map_err(|error| failed(&error))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(GuestError::doing("print what was played"))
}
