//! Placeholder until the first real code.
