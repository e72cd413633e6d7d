//! All tests of this crate that run side by side: one program, so that it is linked once.

mod audit;
mod comparison;
mod first_screen;
mod page;
mod timehist;
mod words;
