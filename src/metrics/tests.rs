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
fn the_page_of_metrics_is_the_table() {
    let page = include_str!("../../docs/metrics.md");
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `stormglass_")).collect();
    let row = |d: &Definition| {
        let kind = match d.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Timestamp => "gauge",
            Kind::Duration => "histogram",
        };
        let labels: Vec<_> = d.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | {kind} | {} | {} |", d.name, labels.join(", "), d.help)
    };
    assert_eq!(rows, TABLE.iter().map(row).collect::<Vec<_>>());
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
    assert_eq!(metrics.total_lag(), Some(10));
    metrics.forget_partition("lines", 3);
    assert_eq!(metrics.total_lag(), Some(1));
    assert!(!metrics.render().unwrap().contains(r#"partition="3""#));
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_counts_is_shown_to_whom_asked_for_it() {
    let metrics = Metrics::new("2.12.1").unwrap();
    assert!(!metrics.render().unwrap().contains("process_cpu_seconds_total"));
    metrics.show_process().unwrap();
    assert!(metrics.render().unwrap().contains("process_cpu_seconds_total"));
    assert!(metrics.show_process().is_err());
}

#[test]
fn another_life_counts_on_and_is_not_ready() {
    let one = Metrics::new("2.12.1").unwrap();
    one.readiness().set_draining();
    let next = one.for_another_life();
    next.late_acks().add(3);
    assert!(one.render().unwrap().contains("stormglass_late_acks_total 3"));
    assert_eq!(next.readiness().check(), Err(Unready::BrokersUnreachable));
}
