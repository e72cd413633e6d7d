//! What a program is, taken from recordings and changed.
