//! Texts as they arrive: wrapped, quoted, escaped, reversed.
