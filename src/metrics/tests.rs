use super::*;

#[test]
fn names_follow_prometheus_rules() {
    for d in TABLE {
        let ends = match d.kind {
            Kind::Counter => d.name.ends_with("_total"),
            Kind::Gauge => !d.name.ends_with("_total"),
            Kind::Timestamp => d.name.ends_with("_timestamp_seconds"),
            Kind::Duration => d.name.ends_with("_seconds"),
        };
        assert!(ends, "{}: the name does not say its unit", d.name);
        assert!(d.help.ends_with('.'), "{}: the help is no sentence", d.name);
    }
}

#[test]
fn series_known_beforehand_start_at_zero() {
    let text = Metrics::new("2.12.1").unwrap().render().unwrap();
    for series in [
        r#"stormglass_records_replayed_total{reason="timeout"} 0"#,
        r#"stormglass_duplicates_total{outcome="visible"} 0"#,
        r#"stormglass_dead_letters_total{reason="not_utf8"} 0"#,
        r#"stormglass_kafka_commits_total{result="committed"} 0"#,
        r#"stormglass_kafka_rebalances_total{event="lost"} 0"#,
        "stormglass_ready 0",
        concat!(r#"stormglass_build_info{librdkafka="2.12.1",version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
    ] {
        assert!(text.lines().any(|l| l == series), "{series} is not in:\n{text}");
    }
}

#[test]
fn handles_of_one_component_share_their_values() {
    let metrics = Metrics::new("x").unwrap();
    metrics.component("count").executed.add(3);
    metrics.clone().component("count").executed.add(4);
    assert_eq!(metrics.component("count").executed.get(), 7);
}

#[test]
fn a_partition_that_left_is_exported_no_more() {
    let metrics = Metrics::new("x").unwrap();
    metrics.partition("lines", 3).lag.set(9);
    metrics.partition("lines", 4).lag.set(1);
    assert_eq!(metrics.total_lag(), 10);
    metrics.forget_partition("lines", 3);
    assert_eq!(metrics.total_lag(), 1);
    assert!(!metrics.render().unwrap().contains(r#"partition="3""#));
}
