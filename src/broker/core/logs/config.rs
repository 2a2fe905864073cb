//! The configs of topics: which there are, their defaults, and what a topic goes by. Names, types, defaults and bounds
//! are those of Kafka's `LogConfig`.

use std::collections::BTreeMap;

use kafka_protocol::records::Compression;

/// The type of a config; numbers are those of DescribeConfigs.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(super) enum Kind {
    Boolean,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Of 32 bits, from a bound to a bound.
    Int(i64, i64),
    /// Of 64 bits, from a bound to the largest.
    Long(i64),
    /// Of 32 bits, within bounds, or -1 for the codec's own default.
    Level(i64, i64),
    /// From 0 to 1.
    Ratio,
    /// Some of these, with commas between them.
    List(&'static [&'static str]),
}

impl Kind {
    /// The number that DescribeConfigs gives it.
    pub(super) const fn number(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::Choice(_) => 2,
            Self::Int(..) | Self::Level(..) => 3,
            Self::Long(_) => 5,
            Self::Ratio => 6,
            Self::List(_) => 7,
        }
    }

    /// A value that was checked, as it is kept: of a list each item once, where it stands first.
    fn stored(self, value: &str) -> String {
        let Self::List(_) = self else { return value.to_owned() };
        let mut items: Vec<&str> = Vec::new();
        for item in list(value) {
            if !items.contains(&item) {
                items.push(item);
            }
        }
        items.join(",")
    }

    fn check(self, value: &str) -> Result<(), String> {
        let within = |number: i64, low: i64, high: i64| match number {
            _ if number < low => Err(format!("Value must be at least {low}")),
            _ if number > high => Err(format!("Value must be no more than {high}")),
            _ => Ok(()),
        };
        let no_number = |_| "Not a number of type INT".to_owned();
        match self {
            Self::Boolean if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => Ok(()),
            Self::Boolean => Err("Expected value to be either true or false".to_owned()),
            Self::Choice(choices) if choices.contains(&value) => Ok(()),
            Self::Choice(choices) => Err(format!("String must be one of: {}", choices.join(", "))),
            Self::Int(low, high) => within(value.parse::<i32>().map_err(no_number)?.into(), low, high),
            Self::Long(low) => {
                within(value.parse().map_err(|_| "Not a number of type LONG".to_owned())?, low, i64::MAX)
            }
            Self::Level(..) if value == "-1" => Ok(()),
            Self::Level(low, high) => within(value.parse::<i32>().map_err(no_number)?.into(), low, high)
                .map_err(|_| format!("Value must be between {low} and {high} or equal to -1")),
            Self::Ratio => match value.parse::<f64>() {
                Ok(ratio) if ratio < 0.0 => Err("Value must be at least 0".to_owned()),
                Ok(ratio) if ratio > 1.0 => Err("Value must be no more than 1".to_owned()),
                Ok(ratio) if !ratio.is_nan() => Ok(()),
                _ => Err("Not a number of type DOUBLE".to_owned()),
            },
            Self::List(_) if !value.is_empty() && value.split(',').any(|item| item.trim().is_empty()) => {
                Err("Values must not be empty".to_owned())
            }
            Self::List(choices) => match list(value).find(|item| !choices.contains(item)) {
                Some(_) => Err(format!("String must be one of: {}", choices.join(", "))),
                None => Ok(()),
            },
        }
    }
}

/// The items of a list.
pub(super) fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// One config.
#[derive(Copy, Clone, Debug)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    /// What Kafka calls it for all topics of a broker, where that has the default; "": it has another unit there.
    pub(super) synonym: &'static str,
    pub(super) documentation: &'static str,
}

const INT: i64 = i32::MAX as i64;
const NO_EFFECT: &str = "Accepted for clients that set it; without effect on logs that are in memory.";
const NO_LEVEL: &str = "Accepted for clients that set it; batches are packed at the level of the codec's own choice.";

const fn define(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    synonym: &'static str,
    documentation: &'static str,
) -> Definition {
    Definition { name, kind, default, synonym, documentation }
}

/// Every config of a topic, by name.
#[rustfmt::skip]
pub(super) const TOPIC: &[Definition] = &[
    define("cleanup.policy", Kind::List(&["compact", "delete"]), "delete", "log.cleanup.policy",
        "Whether old segments are deleted, compacted by key, or both."),
    define("compression.gzip.level", Kind::Level(1, 9), "-1", "compression.gzip.level", NO_LEVEL),
    define("compression.lz4.level", Kind::Int(1, 17), "9", "compression.lz4.level", NO_LEVEL),
    define("compression.type", Kind::Choice(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), "producer",
        "compression.type", "The codec that batches are kept in; producer: that in which they came."),
    define("compression.zstd.level", Kind::Int(-131_072, 22), "3", "compression.zstd.level", NO_LEVEL),
    define("delete.retention.ms", Kind::Long(0), "86400000", "log.cleaner.delete.retention.ms",
        "How long compaction keeps a tombstone after it first met it."),
    define("file.delete.delay.ms", Kind::Long(0), "60000", "log.segment.delete.delay.ms", NO_EFFECT),
    define("flush.messages", Kind::Long(1), "9223372036854775807", "log.flush.interval.messages", NO_EFFECT),
    define("flush.ms", Kind::Long(0), "9223372036854775807", "", NO_EFFECT),
    define("index.interval.bytes", Kind::Int(0, INT), "4096", "log.index.interval.bytes", NO_EFFECT),
    define("max.compaction.lag.ms", Kind::Long(1), "9223372036854775807", "log.cleaner.max.compaction.lag.ms",
        "How long a record may wait for compaction, whatever the ratio."),
    define("max.decompressed.message.bytes", Kind::Int(1, INT), "2147483639", "max.decompressed.message.bytes",
        "The bytes that a batch may unpack to; the broker has a bound of its own."),
    define("max.message.bytes", Kind::Int(0, INT), "1048588", "message.max.bytes",
        "The largest batch that is taken, in bytes, as it is on the wire."),
    define("message.timestamp.after.max.ms", Kind::Long(0), "3600000", "log.message.timestamp.after.max.ms",
        "How far in the future a record may be dated."),
    define("message.timestamp.before.max.ms", Kind::Long(0), "9223372036854775807",
        "log.message.timestamp.before.max.ms", "How far in the past a record may be dated."),
    define("message.timestamp.type", Kind::Choice(&["CreateTime", "LogAppendTime"]), "CreateTime",
        "log.message.timestamp.type", "Whether the producer dates records or the log does."),
    define("min.cleanable.dirty.ratio", Kind::Ratio, "0.5", "log.cleaner.min.cleanable.ratio",
        "The share of bytes not yet compacted from which compaction is worth it."),
    define("min.compaction.lag.ms", Kind::Long(0), "0", "log.cleaner.min.compaction.lag.ms",
        "How long a record is safe from compaction."),
    define("min.insync.replicas", Kind::Int(1, INT), "1", "min.insync.replicas",
        "Never more than there are replicas, which is one."),
    define("preallocate", Kind::Boolean, "false", "log.preallocate", NO_EFFECT),
    define("retention.bytes", Kind::Long(i64::MIN), "-1", "log.retention.bytes",
        "The bytes from which a partition's oldest segments are deleted; negative: never."),
    define("retention.ms", Kind::Long(-1), "604800000", "",
        "The age at which segments are deleted; -1: none."),
    define("segment.bytes", Kind::Int(1 << 20, INT), "1073741824", "log.segment.bytes",
        "The size of a segment: retention and compaction leave the last one alone."),
    define("segment.index.bytes", Kind::Int(4, INT), "10485760", "log.index.size.max.bytes", NO_EFFECT),
    define("segment.jitter.ms", Kind::Long(0), "0", "", NO_EFFECT),
    define("segment.ms", Kind::Long(1), "604800000", "",
        "The span of time, by its records, after which a segment is ended."),
    define("unclean.leader.election.enable", Kind::Boolean, "false", "unclean.leader.election.enable", NO_EFFECT),
];

/// Goes before `segment.bytes` where it is set; not told, as at Kafka. For tests, which cannot wait for a mebibyte.
const INTERNAL_SEGMENT_BYTES: &Definition =
    &define("internal.segment.bytes", Kind::Int(14, INT), "", "", "The size of a segment, for tests.");

/// The definition of a config of topics.
pub(super) fn defined(name: &str) -> Option<&'static Definition> {
    TOPIC.iter().chain([INTERNAL_SEGMENT_BYTES]).find(|definition| definition.name == name)
}

/// What was set for a topic, by name.
pub(super) type Overrides = BTreeMap<&'static str, String>;

/// The longest value of a config, as Java counts characters: longer ones Kafka could not write down.
const LONGEST: usize = 32_767;

/// Checks one setting; the message is Kafka's.
pub(super) fn check(name: &str, value: Option<&str>) -> Result<(&'static str, String), String> {
    if value.is_some_and(|value| value.encode_utf16().count() > LONGEST) {
        return Err(format!(
            "The configuration value cannot be added because it exceeds the maximum value size of {LONGEST} bytes."
        ));
    }
    let definition = defined(name).ok_or_else(|| format!("Unknown topic config name: {name}"))?;
    let value = value.ok_or_else(|| format!("Null value not supported for topic configs: {name}"))?.trim();
    match definition.kind.check(value) {
        Ok(()) => Ok((definition.name, definition.kind.stored(value))),
        Err(why) => Err(format!("Invalid value {value} for configuration {name}: {why}")),
    }
}

/// What a topic goes by: its settings as values.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Settings {
    pub(super) compact: bool,
    pub(super) delete: bool,
    /// `None`: as the producer did.
    pub(super) compression: Option<Compression>,
    pub(super) delete_retention_ms: i64,
    pub(super) max_compaction_lag_ms: i64,
    pub(super) max_message_bytes: usize,
    pub(super) max_unpacked: usize,
    pub(super) timestamp_after_max_ms: i64,
    pub(super) timestamp_before_max_ms: i64,
    pub(super) log_append_time: bool,
    pub(super) min_dirty_ratio: f64,
    pub(super) min_compaction_lag_ms: i64,
    /// `None`: not by size.
    pub(super) retention_bytes: Option<usize>,
    /// `None`: not by time.
    pub(super) retention_ms: Option<i64>,
    pub(super) segment_bytes: usize,
    pub(super) segment_ms: i64,
}

impl Settings {
    /// Checks what settings say together.
    pub(super) fn check(set: &Overrides) -> Result<(), String> {
        let settings = Self::new(set);
        let (least, most) = (settings.min_compaction_lag_ms, settings.max_compaction_lag_ms);
        if least > most {
            return Err(format!(
                "conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            ));
        }
        Ok(())
    }

    /// The settings of a topic that has these set and the defaults else.
    pub(super) fn new(set: &Overrides) -> Self {
        let value = |name: &str| {
            set.get(name).map_or_else(|| defined(name).map_or("", |definition| definition.default), String::as_str)
        };
        // Checked when it was set.
        let long = |name: &str| value(name).parse::<i64>().unwrap_or(-1);
        let size = |name: &str| usize::try_from(long(name)).ok();
        let policy: Vec<&str> = list(value("cleanup.policy")).collect();
        Self {
            compact: policy.contains(&"compact"),
            delete: policy.contains(&"delete"),
            compression: match value("compression.type") {
                "uncompressed" => Some(Compression::None),
                "gzip" => Some(Compression::Gzip),
                "snappy" => Some(Compression::Snappy),
                "lz4" => Some(Compression::Lz4),
                "zstd" => Some(Compression::Zstd),
                _ => None,
            },
            delete_retention_ms: long("delete.retention.ms"),
            max_compaction_lag_ms: long("max.compaction.lag.ms"),
            max_message_bytes: size("max.message.bytes").unwrap_or(0),
            max_unpacked: size("max.decompressed.message.bytes").unwrap_or(usize::MAX),
            timestamp_after_max_ms: long("message.timestamp.after.max.ms"),
            timestamp_before_max_ms: long("message.timestamp.before.max.ms"),
            log_append_time: value("message.timestamp.type") == "LogAppendTime",
            min_dirty_ratio: value("min.cleanable.dirty.ratio").parse().unwrap_or(1.0),
            min_compaction_lag_ms: long("min.compaction.lag.ms"),
            retention_bytes: size("retention.bytes"),
            retention_ms: Some(long("retention.ms")).filter(|ms| *ms >= 0),
            segment_bytes: size("internal.segment.bytes").or_else(|| size("segment.bytes")).unwrap_or(usize::MAX),
            segment_ms: long("segment.ms"),
        }
    }
}
