use crate::{Engine, EngineError, EngineName, Options, Tracefs};

/// The engine that was asked for, or the best that is to be had here: eBPF, else tracefs, which decodes every event.
///
/// # Errors
/// [`EngineError::Unavailable`] if there is none, with the reasons of both.
pub fn open(options: Options) -> Result<Box<dyn Engine>, EngineError> {
    match options.engine {
        Some(EngineName::Ebpf) => ebpf(options),
        Some(EngineName::Tracefs) => Ok(Box::new(Tracefs::open(options)?)),
        None => {
            let first = match ebpf(options) {
                Ok(engine) => return Ok(engine),
                Err(error) => error,
            };
            let tracefs = Tracefs::open(options);
            tracefs.map(|engine| Box::new(engine) as Box<dyn Engine>).map_err(|second| both(&first, &second))
        }
    }
}

#[cfg(feature = "bpf")]
fn ebpf(options: Options) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(crate::Ebpf::open(options)?))
}

#[cfg(not(feature = "bpf"))]
fn ebpf(_: Options) -> Result<Box<dyn Engine>, EngineError> {
    let reason = "this program was built without the feature `bpf`".to_owned();
    Err(EngineError::Unavailable { engine: "eBPF", reason })
}

fn both(first: &EngineError, second: &EngineError) -> EngineError {
    EngineError::Unavailable { engine: "an engine", reason: format!("{first}; {second}") }
}
