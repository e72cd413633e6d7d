use crate::{Engine, EngineError, Options};

/// The best engine that is to be had here.
///
/// # Errors
/// [`EngineError::Unavailable`] if there is none.
#[cfg(feature = "bpf")]
pub fn open(options: Options) -> Result<Box<dyn Engine>, EngineError> {
    Ok(Box::new(crate::Ebpf::open(options)?))
}

/// The best engine that is to be had here.
///
/// # Errors
/// [`EngineError::Unavailable`] if there is none.
#[cfg(not(feature = "bpf"))]
pub fn open(_: Options) -> Result<Box<dyn Engine>, EngineError> {
    let reason = "this program was built without the feature `bpf`".to_owned();
    Err(EngineError::Unavailable { engine: "eBPF", reason })
}
