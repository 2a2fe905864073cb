//! Topologies that come with the product, by name.
//!
//! It is what a config file can choose from, and examples of how to draw a topology of one's own. It knows nothing of
//! Kafka: what stands at the two ends is given to it.
//!
//! Files in reading order: `split` and `word_count` (the bolts and the topology `word-count`), `split_words`, `registry`
//! (from a name and options to a topology).

mod registry;
mod split;
mod split_words;
#[cfg(test)]
mod tests;
mod word_count;

pub(crate) use registry::Numbers;
pub use registry::{Ends, KNOWN, Known, TopologyError, TopologyOptions, check, topology};
pub use split::{Split, words};
pub use word_count::{Count, EmitMode};
