//! Unpacks recordings: removes compression, archives and text encodings layer by layer, each detected by content, until
//! a recording or something unknown is left.

mod archive;
mod bounded;
mod forward;
mod layer;
mod member;
mod tar_list;
mod utf16;
pub mod visit;
mod zip_list;

use std::io;

use self::archive::Choice;
pub use self::bounded::Allowance;
use self::bounded::Budget;
use self::layer::Layer;
pub use self::member::InArchive;
use crate::input::Input;
use crate::open::OpenError;

/// `trace.dat.gz.zst` is unusual, a hundred layers are an attack. An archive counts as one.
pub const MAX_LAYERS: usize = 4;

/// The content after all layers have been removed.
pub struct Unpacked {
    /// The recording, or something else.
    pub input: Input,
    /// The archive member that was chosen, if there was an archive.
    pub member: Option<InArchive>,
}

/// How to choose among the members of an archive.
#[derive(Clone, Copy)]
pub struct Tests {
    /// Whether a file with this beginning is a recording.
    pub is_recording: fn(&[u8]) -> bool,
    /// Whether a recording has any event; used if several members look like one.
    pub has_events: fn(Input) -> bool,
}

/// Removes all layers.
pub fn unpack(input: Input, tests: Tests) -> Result<Unpacked, OpenError> {
    let mut budget = Budget::default();
    let mut unpacked = Unpacked { input, member: None };
    for _ in 0..=MAX_LAYERS {
        let Unpacked { input, member } = unpacked;
        let Some(layer) = Layer::of(input.prefix()) else { return Ok(Unpacked { input, member }) };
        let name = input.name().to_owned();
        unpacked = match layer {
            Layer::Stream(stream) => Unpacked {
                input: stream.open(input, &mut budget).map_err(|source| OpenError::Io { name, source })?,
                member,
            },
            Layer::Archive(_) if member.is_some() => return Err(OpenError::ArchiveInArchive { name }),
            Layer::Archive(kind) => match kind.choose(input, &mut budget, tests)? {
                Choice::Member(input, member) => Unpacked { input, member: Some(member) },
                Choice::None(members) => return Err(OpenError::NoMember { name, members }),
            },
        };
    }
    Err(OpenError::TooManyLayers { name: unpacked.input.name().to_owned() })
}

/// Wraps the input in `decoder`, which reads all of `input`; the output is limited by `budget`.
fn through<D: io::Read + Send + 'static>(
    input: Input,
    budget: &mut Budget,
    decoder: impl FnOnce(io::BufReader<Box<dyn io::Read + Send>>) -> io::Result<D>,
) -> io::Result<Input> {
    let name = input.name().to_owned();
    let packed = budget.source(input.into_stream());
    let decoder = decoder(io::BufReader::with_capacity(1 << 16, packed))?;
    Input::from_stream(Box::new(budget.bounded(decoder)), name)
}
