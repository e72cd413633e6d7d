//! Ids of findings and remedies as they appear in reports.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FindingKind, RemedyKind};

/// An id from a registry. A report may come from a newer version with more kinds, so an id that was read is kept even if it is
/// unknown.
macro_rules! id {
    ($(#[$docs:meta])* $name:ident of $kind:ident) => {
        $(#[$docs])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The id as it appears in reports.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<$kind> for $name {
            fn from(kind: $kind) -> $name {
                $name(kind.id.to_owned())
            }
        }

        impl PartialEq<$kind> for $name {
            fn eq(&self, kind: &$kind) -> bool {
                self.0 == kind.id
            }
        }

        /// An id read from a report.
        impl From<&str> for $name {
            fn from(id: &str) -> $name {
                $name(id.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

id! {
    /// The id of a finding: `rt-starvation`. Compared with a [`FindingKind`].
    FindingId of FindingKind
}

id! {
    /// The id of a remedy: `raise-worker`. Compared with a [`RemedyKind`].
    RemedyId of RemedyKind
}
