//! An optional time in eight bytes.

use std::fmt;

use unstarve_model::Time;

/// A time or none in eight bytes: an `Option` takes twice that, and tasks have many.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptTime(u64);

impl OptTime {
    pub const NONE: OptTime = OptTime(u64::MAX);

    /// The largest number means none, so that time is stored as one nanosecond earlier; no event is later than that.
    #[inline(always)]
    pub fn some(time: Time) -> OptTime {
        OptTime(time.0.min(u64::MAX - 1))
    }

    #[inline(always)]
    pub fn get(self) -> Option<Time> {
        self.is_some().then_some(Time(self.0))
    }

    #[inline(always)]
    pub fn is_some(self) -> bool {
        self != OptTime::NONE
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        !self.is_some()
    }

    /// Takes the time, and leaves none.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Time> {
        std::mem::take(self).get()
    }
}

impl Default for OptTime {
    #[inline(always)]
    fn default() -> OptTime {
        OptTime::NONE
    }
}

impl From<Option<Time>> for OptTime {
    #[inline(always)]
    fn from(time: Option<Time>) -> OptTime {
        time.map_or(OptTime::NONE, OptTime::some)
    }
}

impl fmt::Debug for OptTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_once() {
        assert_eq!(OptTime::NONE.get(), None);
        assert_eq!(OptTime::some(Time(0)).get(), Some(Time(0)));
        assert_eq!(OptTime::some(Time(u64::MAX)).get(), Some(Time(u64::MAX - 1)));
        let mut time = OptTime::from(Some(Time(7)));
        assert_eq!((time.take(), time.take()), (Some(Time(7)), None));
        assert_eq!(size_of::<OptTime>(), 8);
    }
}
