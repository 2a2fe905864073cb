//! Which librdkafka this is.

/// Its version, as in `2.12.1`.
#[must_use]
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}
