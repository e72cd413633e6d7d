//! What a recording is wrapped in: compression, archives, other encodings of text. Layers are removed from the outside,
//! each told by its content, until a recording or something unknown is left.

mod archive;
mod bounded;
mod layer;
mod member;
mod tar_list;
mod utf16;
mod zip_list;

use std::io;

use self::archive::Choice;
use self::bounded::Budget;
use self::layer::Layer;
pub use self::member::InArchive;
use crate::input::Input;
use crate::open::OpenError;

/// `trace.dat.gz.zst` is odd, a hundred layers are an attack. An archive is one.
pub const MAX_LAYERS: usize = 4;

/// What is left when all layers are off.
pub struct Unpacked {
    /// The recording, or what is none.
    pub input: Input,
    /// The member of an archive that it is.
    pub member: Option<InArchive>,
}

/// What chooses among an archive's members.
#[derive(Clone, Copy)]
pub struct Tests {
    /// Whether something that begins so can be read.
    pub is_recording: fn(&[u8]) -> bool,
    /// Whether a recording has any event; asked where several files look like one.
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

/// An input that goes through `decoder`, which reads from all of `input` and is charged to `budget`.
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
