//! Visits every file in a file: compression and archives come off, to any member, without writing any to disk.

use std::io;
use std::ops::ControlFlow;

use super::archive::{ArchiveKind, Member, Packing};
use super::bounded::{Allowance, Budget};
use super::forward::Forward;
use super::layer::Layer;
use super::{MAX_LAYERS, tar_list, zip_list};
use crate::input::Input;

/// A zip archive has its list at its end. One that is a member of another archive is held in memory, up to this size.
const MAX_ZIP_IN_MEMORY: u64 = 256 << 20;

/// What is done with the files.
pub trait Visitor {
    /// Takes a file, without its compression. It is named like a file below its archive: `bundle.tar.gz/var/log/messages`.
    fn file(&mut self, input: Input);
    /// Something is not read.
    fn left_out(&mut self, name: &str, why: LeftOut);
}

/// Why something in a file is not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LeftOut {
    /// A link, a device or a FIFO.
    Special,
    /// An encrypted or sparse member, or one with a compression that is not supported.
    Unsupported,
    /// More archives in archives, or layers of compression, than allowed.
    TooDeep,
    /// More members than allowed.
    TooMany,
    /// It is damaged, cut, or refused as a decompression bomb.
    Damaged(io::Error),
}

/// How far to go.
#[derive(Clone, Debug)]
pub struct Depth {
    /// Archives within archives.
    pub archives: usize,
    /// Members that may still be visited, in all archives.
    pub members: u64,
    /// Bytes and time, for all archives.
    pub allowance: Allowance,
}

/// Visits the file, or all files in it. `Break` if a limit of all files together is reached.
pub fn visit(input: Input, depth: &mut Depth, visitor: &mut dyn Visitor) -> ControlFlow<()> {
    let budget = Budget::within(depth.allowance.clone());
    layers(input, budget, depth.archives, depth, visitor)
}

fn layers(
    mut input: Input,
    mut budget: Budget,
    archives: usize,
    depth: &mut Depth,
    visitor: &mut dyn Visitor,
) -> ControlFlow<()> {
    let name = input.name().to_owned();
    for _ in 0..=MAX_LAYERS {
        match Layer::of(input.prefix()) {
            None => {
                visitor.file(input);
                return go_on(depth);
            }
            Some(Layer::Stream(stream)) => match stream.open(input, &mut budget) {
                Ok(inner) => input = inner,
                Err(error) => {
                    visitor.left_out(&name, LeftOut::Damaged(error));
                    return go_on(depth);
                }
            },
            Some(Layer::Archive(kind)) => {
                let Some(archives) = archives.checked_sub(1) else { break };
                let done = match kind {
                    ArchiveKind::Tar => tar(input, &budget, archives, depth, visitor),
                    ArchiveKind::Zip => zip(input, &budget, archives, depth, visitor),
                };
                if let Err(error) = done {
                    visitor.left_out(&name, LeftOut::Damaged(error));
                }
                return go_on(depth);
            }
        }
    }
    visitor.left_out(&name, LeftOut::TooDeep);
    go_on(depth)
}

fn go_on(depth: &Depth) -> ControlFlow<()> {
    if depth.allowance.is_spent() || depth.members == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Reads a tar archive as a stream, in one pass.
fn tar(input: Input, budget: &Budget, archives: usize, depth: &mut Depth, visitor: &mut dyn Visitor) -> io::Result<()> {
    let name = input.name().to_owned();
    let stream = Forward::new(input.into_stream());
    tar_list::each(stream.again(), |entry| {
        let member = match entry {
            tar_list::Entry::File(member) => member,
            tar_list::Entry::Special(member) => {
                visitor.left_out(&below(&name, &member), LeftOut::Special);
                return count(depth, &name, visitor);
            }
        };
        count(depth, &name, visitor)?;
        let below = below(&name, &member);
        if member.packing == Packing::Unreadable {
            visitor.left_out(&below, LeftOut::Unsupported);
            return ControlFlow::Continue(());
        }
        let part = Box::new(stream.part(member.begin, member.end));
        match Input::from_stream(part, below.clone()) {
            Ok(inner) => layers(inner, budget.clone(), archives, depth, visitor),
            Err(error) => {
                visitor.left_out(&below, LeftOut::Damaged(error));
                go_on(depth)
            }
        }
    })
}

fn zip(input: Input, budget: &Budget, archives: usize, depth: &mut Depth, visitor: &mut dyn Visitor) -> io::Result<()> {
    let name = input.name().to_owned();
    let file = input.into_positioned_in_memory(MAX_ZIP_IN_MEMORY)?;
    let limit = usize::try_from(depth.members).unwrap_or(usize::MAX);
    for member in zip_list::members(&file, limit)? {
        if count(depth, &name, visitor).is_break() {
            break;
        }
        let below = below(&name, &member);
        let mut budget = budget.clone();
        let done = match member.open_as(&file, below.clone(), &mut budget) {
            Ok(inner) => layers(inner, budget, archives, depth, visitor),
            Err(error) => {
                let is_unsupported = error.kind() == io::ErrorKind::Unsupported;
                visitor.left_out(&below, if is_unsupported { LeftOut::Unsupported } else { LeftOut::Damaged(error) });
                go_on(depth)
            }
        };
        if done.is_break() {
            break;
        }
    }
    Ok(())
}

/// Counts a member; `Break` if it is one too many.
fn count(depth: &mut Depth, name: &str, visitor: &mut dyn Visitor) -> ControlFlow<()> {
    depth.members = depth.members.saturating_sub(1);
    if depth.members == 0 {
        visitor.left_out(name, LeftOut::TooMany);
        return ControlFlow::Break(());
    }
    ControlFlow::Continue(())
}

/// A member's name below its archive's. It is only shown and compared: steps up and roots say nothing.
fn below(archive: &str, member: &Member) -> String {
    let mut name = archive.to_owned();
    for step in member.name.split('/').filter(|step| !matches!(*step, "" | "." | "..")) {
        name.push('/');
        name.push_str(step);
    }
    name
}
