//! Settings of the scheduler as types: what can be set, to what, and how each is written.
