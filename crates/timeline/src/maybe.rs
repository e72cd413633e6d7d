use std::fmt;
use std::marker::PhantomData;

use unstarve_model::{Nanos, Time};

/// A moment or a length, or none, in eight bytes: an `Option` takes twice that, and tasks have many.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maybe<T> {
    nanoseconds: u64,
    what: PhantomData<T>,
}

/// What is a number of nanoseconds.
pub(crate) trait Nanoseconds: Copy {
    fn number(self) -> u64;
    fn of(number: u64) -> Self;
}

impl Nanoseconds for Time {
    #[inline(always)]
    fn number(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn of(number: u64) -> Time {
        Time(number)
    }
}

impl Nanoseconds for Nanos {
    #[inline(always)]
    fn number(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn of(number: u64) -> Nanos {
        Nanos(number)
    }
}

impl<T: Nanoseconds> Maybe<T> {
    pub const NONE: Maybe<T> = Maybe { nanoseconds: u64::MAX, what: PhantomData };

    /// The largest number is taken for the one before it; no event is later than that.
    #[inline(always)]
    pub fn some(value: T) -> Maybe<T> {
        Maybe { nanoseconds: value.number().min(u64::MAX - 1), what: PhantomData }
    }

    #[inline(always)]
    pub fn get(self) -> Option<T> {
        self.is_some().then(|| T::of(self.nanoseconds))
    }

    #[inline(always)]
    pub fn is_some(self) -> bool {
        self.nanoseconds != u64::MAX
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        !self.is_some()
    }

    /// The value, of which nothing stays.
    #[inline(always)]
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).get()
    }
}

impl<T: Nanoseconds> Default for Maybe<T> {
    #[inline(always)]
    fn default() -> Maybe<T> {
        Maybe::NONE
    }
}

impl<T: Nanoseconds> From<Option<T>> for Maybe<T> {
    #[inline(always)]
    fn from(value: Option<T>) -> Maybe<T> {
        value.map_or(Maybe::NONE, Maybe::some)
    }
}

impl<T: Nanoseconds + fmt::Debug> fmt::Debug for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_once() {
        assert_eq!(Maybe::<Time>::NONE.get(), None);
        assert_eq!(Maybe::some(Time(0)).get(), Some(Time(0)));
        assert_eq!(Maybe::some(Time(u64::MAX)).get(), Some(Time(u64::MAX - 1)));
        let mut length = Maybe::from(Some(Nanos(7)));
        assert_eq!((length.take(), length.take()), (Some(Nanos(7)), None));
        assert_eq!(size_of::<Maybe<Time>>(), 8);
    }
}
