//! All tests of this crate that run side by side: one program, so that it is linked once.

#[cfg(feature = "columnar")]
mod hostile;
#[cfg(feature = "columnar")]
mod kinds;
mod layers;
#[cfg(feature = "columnar")]
mod refused;
#[cfg(feature = "columnar")]
mod store;
#[cfg(feature = "columnar")]
mod upload;
#[cfg(feature = "columnar")]
mod world;
