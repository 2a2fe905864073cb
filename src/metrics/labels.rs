//! The values that labels can take: all of them known beforehand.

macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The value as it stands in the export.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

label! {
    /// How a tree ended.
    TreeOutcome {
        /// Every tuple of it was acked.
        Acked = "acked",
        /// A bolt failed one of its tuples.
        Failed = "failed",
        /// It made no progress for the tree timeout.
        TimedOut = "timed_out",
    }
}

label! {
    /// Why a record was emitted again.
    ReplayReason {
        /// Its tree failed.
        Fail = "fail",
        /// Its tree timed out.
        Timeout = "timeout",
        /// Its partition came back in a rebalance with the record not committed.
        Rebalance = "rebalance",
        /// The generation was started again with the record not committed.
        Restart = "restart",
    }
}

label! {
    /// Whether anybody outside can see that something happened twice.
    DuplicateOutcome {
        /// The repetition had an effect.
        Visible = "visible",
    }
}

label! {
    /// Why a record went to the dead-letter topic.
    DeadLetterReason {
        /// Its value is no UTF-8.
        NotUtf8 = "not_utf8",
        /// Its value is no JSON.
        MalformedJson = "malformed_json",
        /// The JSON pointer leads to no text.
        MissingField = "missing_field",
        /// Its value is null or empty, and the policy refuses that.
        Empty = "empty",
        /// A bolt said that no replay can cure its failure.
        Permanent = "permanent",
        /// It failed once more than `max_retries`.
        RetriesExhausted = "retries_exhausted",
        /// An output is larger than the broker accepts.
        TooLarge = "too_large",
    }
}

label! {
    /// What the broker answered to a record.
    ProduceResult {
        /// It is stored.
        Acknowledged = "acknowledged",
        /// It is not, for good.
        Failed = "failed",
    }
}

label! {
    /// What the broker answered to a commit.
    CommitResult {
        /// It stands.
        Committed = "committed",
        /// A rebalance took the partitions meanwhile.
        Refused = "refused",
        /// It failed in a way that ends the generation.
        Failed = "failed",
    }
}

label! {
    /// How the assignment changed.
    RebalanceEvent {
        /// Partitions came.
        Assigned = "assigned",
        /// Partitions left, with time to commit.
        Revoked = "revoked",
        /// Partitions were gone already.
        Lost = "lost",
    }
}
