//! Opens the engine that was asked for, or the best one available.

use crate::engine::{Engine, EngineError, EngineName, Options, Tracefs};

/// An engine, and why it is not the first choice.
pub struct Opened {
    /// The engine that counts.
    pub engine: Box<dyn Engine>,
    /// Why eBPF cannot be used, if it was tried.
    pub instead: Option<EngineError>,
}

/// Opens the engine that was asked for, or the best available: eBPF, else tracefs, which decodes every event.
///
/// # Errors
/// [`EngineError::Unavailable`] if none can be used, with the reasons of both.
pub fn open(options: Options) -> Result<Opened, EngineError> {
    let first = |engine| Opened { engine, instead: None };
    match options.engine {
        Some(EngineName::Ebpf) => ebpf(options).map(first),
        Some(EngineName::Tracefs) => Ok(first(Box::new(Tracefs::open(options)?))),
        None => {
            let error = match ebpf(options) {
                Ok(engine) => return Ok(first(engine)),
                Err(error) => error,
            };
            match Tracefs::open(options) {
                Ok(engine) => Ok(Opened { engine: Box::new(engine), instead: Some(error) }),
                Err(second) => Err(both(&error, &second)),
            }
        }
    }
}

impl Opened {
    /// Name of the method, for people; if it is not eBPF, with the reason and the cost.
    pub fn words(&self) -> String {
        let name = self.engine.name();
        match &self.instead {
            None => format!("counting by {name}"),
            Some(why) => {
                format!(
                    "counting by {name}, which decodes every event and costs some percent of a CPU: {}",
                    super::error_chain(why)
                )
            }
        }
    }
}

#[cfg(feature = "bpf")]
fn ebpf(options: Options) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(crate::engine::Ebpf::open(options)?))
}

#[cfg(not(feature = "bpf"))]
fn ebpf(_: Options) -> Result<Box<dyn Engine>, EngineError> {
    let reason = "this program was built without the feature `bpf`".to_owned();
    Err(EngineError::Unavailable { engine: "eBPF", reason })
}

fn both(first: &EngineError, second: &EngineError) -> EngineError {
    let reason = |error: &EngineError| match error {
        EngineError::Unavailable { reason, .. } => reason.clone(),
        other => super::error_chain(other),
    };
    EngineError::Unavailable { engine: "eBPF", reason: format!("{}; nor tracefs: {}", reason(first), reason(second)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nothing_can_be_used_is_said_once() {
        let unavailable = |engine, reason: &str| EngineError::Unavailable { engine, reason: reason.to_owned() };
        let error = both(&unavailable("eBPF", "it needs root"), &unavailable("tracefs", "it is not mounted"));
        assert_eq!(error.to_string(), "eBPF cannot be used here: it needs root; nor tracefs: it is not mounted");
    }
}
