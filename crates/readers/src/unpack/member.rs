//! Reports which member of an archive was read, and which other recordings are in it.

use unstarve_model::{Batch, EventSource, Loss, LossKind, SourceError, TraceInfo};

use super::archive::{ArchiveKind, MAX_MEMBERS_NAMED};

/// The member of an archive that is read.
#[derive(Clone, Debug)]
pub struct InArchive {
    pub(super) name: String,
    /// The other recordings in the archive.
    pub(super) others: Vec<String>,
    pub(super) archive: String,
    pub(super) kind: ArchiveKind,
}

impl InArchive {
    /// Wraps `source` so that it names the member and reports the other recordings.
    pub fn name(self, source: Box<dyn EventSource>) -> Box<dyn EventSource> {
        let mut named = Named { info: TraceInfo::default(), member: self, source, begun: false };
        named.update();
        Box::new(named)
    }

    fn loss(&self) -> Option<Loss> {
        let count = self.others.len();
        if count == 0 {
            return None;
        }
        let shown = self.others.iter().take(MAX_MEMBERS_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if count > MAX_MEMBERS_NAMED { ", …" } else { "" };
        let (extract, archive) = (self.kind.extract(), &self.archive);
        let detail = format!(
            "{shown}{more}; read another one with `{extract} {archive} MEMBER | unstarve explain -`; several members to \
             {extract} join the parts of a text that was split"
        );
        Some(Loss::new(LossKind::OtherRecordings, count as u64).with_detail(detail))
    }
}

struct Named {
    info: TraceInfo,
    member: InArchive,
    source: Box<dyn EventSource>,
    begun: bool,
}

impl Named {
    fn update(&mut self) {
        self.info = self.source.info().clone();
        self.info.format = format!("{} from {}", self.info.format, self.member.name);
    }
}

impl EventSource for Named {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.source.read(batch)?;
        // Readers complete their info with the first events and at the end.
        if !more || !self.begun {
            self.begun = true;
            self.update();
        }
        Ok(more)
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.source.losses();
        losses.extend(self.member.loss());
        losses
    }
}
