//! The promise that a topology runs under.

use std::{fmt, str::FromStr};

/// What happens to a record when something fails. The topology is the same in all modes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Delivery {
    /// Offsets are committed behind completed tuple trees: nothing is lost, repeats are counted.
    #[default]
    AtLeastOnce,
    /// Offsets are committed before their records are emitted, and nothing is tracked: records in flight are lost when
    /// something fails, and none is repeated.
    AtMostOnce,
    /// Offsets are committed as records are emitted, and nothing is tracked: records may be lost *and* repeated (Storm's
    /// `NO_GUARANTEE`, or a topology without ackers). The cheapest, and what the cost of tracking is measured against.
    NoGuarantee,
}

impl Delivery {
    /// Every mode, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::AtLeastOnce, Self::AtMostOnce, Self::NoGuarantee];

    /// True if tuple trees are tracked.
    #[must_use]
    pub const fn is_tracked(self) -> bool {
        matches!(self, Self::AtLeastOnce)
    }

    /// The word that stands in a config file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at-least-once",
            Self::AtMostOnce => "at-most-once",
            Self::NoGuarantee => "no-guarantee",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Delivery {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|d| d.name() == word).ok_or_else(|| match word {
            "exactly-once" => "delivery \"exactly-once\" is not in this release; use \"at-least-once\", which counts \
                               every repeat"
                .to_owned(),
            _ => format!(
                "unknown delivery \"{word}\"; it is one of \"at-least-once\", \"at-most-once\", \"no-guarantee\""
            ),
        })
    }
}
