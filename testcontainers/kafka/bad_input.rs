//! Input that no one wishes for: each kind has an outcome, and nothing else is lost over it.

use std::io::Write as _;

use libtest_mimic::Trial;

use crate::{
    broker::{Broker, Isolation, Record},
    process::{Finished, Job, stormglass, web_server},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        null_and_empty_values_and_spaces_are_lines_without_words,
        what_is_no_utf8_is_a_dead_letter_that_says_where_it_was,
        what_is_no_utf8_passes_if_it_is_wanted,
        one_malformed_json_in_a_thousand_is_a_dead_letter,
        a_topic_of_nothing_but_malformed_json_is_all_dead_letters,
        json_without_text_is_a_dead_letter,
        a_line_of_900_kb_is_counted,
        a_word_of_900_kb_is_counted,
        a_word_that_no_store_takes_is_a_dead_letter_and_the_rest_is_counted,
        a_line_of_200_000_words_is_one_tree,
        a_thousand_headers_do_not_matter,
        a_record_without_a_timestamp_is_counted,
        an_output_that_is_too_large_is_a_dead_letter_and_the_rest_goes_on,
        a_topic_cannot_be_read_and_written,
        a_topic_that_does_not_exist_has_no_end,
        an_address_at_which_a_web_server_answers_is_refused,
    )
}

fn bytes(value: &[u8]) -> Record {
    Record { value: Some(value.to_vec()), ..Record::default() }
}

/// A job that reads a topic of one partition with these records.
fn job<R: Into<Record>>(broker: &Broker, records: impl IntoIterator<Item = R>, flags: &[&str]) -> Job {
    let topic = broker.topic("strange", 1, &[]);
    broker.produce(&topic, records);
    Job::new(broker, &topic, flags)
}

/// Runs it to the end: everything is done, committed and exact.
#[track_caller]
fn exact(broker: &Broker, job: &Job) -> Finished {
    let run = job.to_the_end().succeeded();
    let records = broker.read(&job.input, Isolation::ReadCommitted).len();
    assert_eq!(broker.committed(&job.group, &job.input), [Some(i64::try_from(records).unwrap())]);
    assert_eq!(run.number("restarts"), 0, "{run:#?}");
    run
}

/// A header's value as text; `""` if there is none.
fn header<'a>(record: &'a Record, name: &str) -> &'a str {
    let value = record.headers.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.as_deref());
    std::str::from_utf8(value.unwrap_or_default()).unwrap()
}

fn null_and_empty_values_and_spaces_are_lines_without_words(broker: &Broker) {
    let keyed =
        |value: Option<&str>| Record { key: Some(b"k".to_vec()), ..value.map_or_else(Record::default, Record::from) };
    let records =
        [Record::from("a b"), keyed(Some("b")), keyed(None), Record::default(), "".into(), " \t  ".into(), "a".into()];
    let job = job(broker, records, &[]);
    let run = exact(broker, &job);
    assert_eq!((run.number("records"), run.number("dead_lettered")), (7, 0));
    assert_eq!(job.is_exact(&[]).number("expected"), 4);
}

fn what_is_no_utf8_is_a_dead_letter_that_says_where_it_was(broker: &Broker) {
    let strange = Record {
        key: Some(b"k\xff".to_vec()),
        headers: vec![("h".into(), Some(b"1".to_vec()))],
        ..bytes(b"a \xff\xfe b")
    };
    let job = job(broker, [Record::from("a"), strange.clone(), "b".into()], &[]);
    assert_eq!(exact(broker, &job).number("dead_lettered"), 1);
    let letters = broker.read(&job.dead_letters(), Isolation::ReadCommitted);
    let [letter] = &letters[..] else { panic!("{letters:#?}") };
    // As it came, with where it came from and why.
    assert_eq!((&letter.key, &letter.value, &letter.headers[0]), (&strange.key, &strange.value, &strange.headers[0]));
    let about = ["source-topic", "source-partition", "source-offset", "reason"]
        .map(|name| header(letter, &format!("stormglass-{name}")));
    assert_eq!(about, [job.input.as_str(), "0", "1", "not_utf8"]);
    assert!(header(letter, "stormglass-error").starts_with("the value is no UTF-8"), "{letter:#?}");
    let audit = job.is_exact(&["--dead-letters", &job.dead_letters()]);
    assert_eq!((audit.number("expected"), audit.number("dead_letters")), (2, 1));
}

fn what_is_no_utf8_passes_if_it_is_wanted(broker: &Broker) {
    let job = job(broker, [bytes(b"a \xff\xfe b"), bytes(b"c\xff")], &["--set", "source.non_utf8=lossy"]);
    assert_eq!(exact(broker, &job).number("dead_lettered"), 0);
    assert_eq!(job.is_exact(&[]).number("expected"), 4);
}

const JSON: [&str; 4] = ["--format", "json", "--json-pointer", "/text"];

fn one_malformed_json_in_a_thousand_is_a_dead_letter(broker: &Broker) {
    let record = |n: usize| {
        let whole = format!(r#"{{"text":"word{} and"}}"#, n % 100);
        Record::from(if n % 1000 == 500 { whole.trim_end_matches('}') } else { &whole })
    };
    let job = job(broker, (0..20_000).map(record), &JSON);
    let run = exact(broker, &job);
    assert_eq!((run.number("records"), run.number("dead_lettered")), (20_000, 20));
    let letters = broker.read(&job.dead_letters(), Isolation::ReadCommitted);
    assert_eq!(letters.len(), 20);
    assert!(letters.iter().all(|letter| header(letter, "stormglass-reason") == "malformed_json"));
    let audit = job.is_exact(&["--json-pointer", "/text", "--dead-letters", &job.dead_letters()]);
    assert_eq!(audit.number("expected"), 2 * (20_000 - 20));
}

fn a_topic_of_nothing_but_malformed_json_is_all_dead_letters(broker: &Broker) {
    let job = job(broker, (0..5000).map(|n| Record::from(format!("{{ {n}").as_str())), &JSON);
    let run = exact(broker, &job);
    assert_eq!(run.number("dead_lettered"), 5000);
    let mut offsets: Vec<u64> = broker
        .read(&job.dead_letters(), Isolation::ReadCommitted)
        .iter()
        .map(|letter| header(letter, "stormglass-source-offset").parse().unwrap())
        .collect();
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(0..5000));
    assert!(broker.read(&job.output, Isolation::ReadCommitted).is_empty());
}

fn json_without_text_is_a_dead_letter(broker: &Broker) {
    let values = [r#"{"text":"a"}"#, r#"{"text":null}"#, r#"{"text":["a"]}"#, r#"{"other":"a"}"#, r#"{"text":1}"#, "3"];
    let job = job(broker, values, &JSON);
    let run = exact(broker, &job);
    assert_eq!(run.number("dead_lettered"), 5, "{run:#?}");
    // No retry makes text of it.
    assert_eq!(run.number("replayed"), 0, "{run:#?}");
    let audit = job.is_exact(&["--json-pointer", "/text", "--dead-letters", &job.dead_letters()]);
    assert_eq!(audit.number("dead_letters"), 5);
}

fn a_line_of_900_kb_is_counted(broker: &Broker) {
    let line = "stormglass ".repeat(900_000 / 11);
    let job = job(broker, ["before", &line, "after"], &[]);
    exact(broker, &job);
    assert_eq!(job.is_exact(&[]).number("expected"), 900_000 / 11 + 2);
}

fn a_word_of_900_kb_is_counted(broker: &Broker) {
    let word = "x".repeat(900_000);
    for topology in ["word-count", "split-words"] {
        let job = job(broker, ["before", &word, "after"], &["--topology", topology]);
        assert_eq!(exact(broker, &job).number("dead_lettered"), 0);
        let kind = if topology == "word-count" { "counts" } else { "records" };
        assert_eq!(job.is_exact(&["--kind", kind]).number("expected"), 3);
    }
}

fn a_word_that_no_store_takes_is_a_dead_letter_and_the_rest_is_counted(broker: &Broker) {
    let topic = broker.topic("huge", 1, &[("max.message.bytes", "5000000")]);
    let mut lines = tempfile::NamedTempFile::new().unwrap();
    writeln!(lines, "before\n{}\nafter", "x".repeat(1_500_000)).unwrap();
    let file = lines.path().to_str().unwrap();
    let large = ["-X", "message.max.bytes=3000000"];
    stormglass(broker, "load", &[&["--topic", &topic, "--file", file], &large[..]].concat()).succeeded();
    let job = Job::new(broker, &topic, &[]);
    let run = job.to_the_end().succeeded();
    assert_eq!((run.number("records"), run.number("dead_lettered"), run.number("restarts")), (3, 1, 0), "{run:#?}");
    let letters = broker.read(&job.dead_letters(), Isolation::ReadCommitted);
    assert_eq!(header(&letters[0], "stormglass-reason"), "permanent");
    assert!(header(&letters[0], "stormglass-error").contains("too large for a store"), "{:?}", letters[0].headers);
    let letters = job.dead_letters();
    assert_eq!(job.is_exact(&["--dead-letters", &letters]).number("expected"), 2);
}

fn a_line_of_200_000_words_is_one_tree(broker: &Broker) {
    let line: String = (0..200_000).map(|n| format!("{:02x} ", n % 256)).collect();
    for topology in ["word-count", "split-words"] {
        let job = job(broker, ["before", &line, "after"], &["--topology", topology]);
        let run = exact(broker, &job);
        assert_eq!((run.number("acked"), run.number("failed"), run.number("timed_out")), (3, 0, 0));
        let kind = if topology == "word-count" { "counts" } else { "records" };
        assert_eq!(job.is_exact(&["--kind", kind]).number("expected"), 200_002);
    }
}

fn a_thousand_headers_do_not_matter(broker: &Broker) {
    let headers = |value: &[u8]| Record {
        headers: (0..1000).map(|n| (format!("header-{n}"), (n % 3 > 0).then(|| n.to_string().into_bytes()))).collect(),
        ..bytes(value)
    };
    let job = job(broker, [headers(b"a b"), headers(b"\xff"), "a".into()], &[]);
    assert_eq!(exact(broker, &job).number("dead_lettered"), 1);
    assert_eq!(job.is_exact(&["--dead-letters", &job.dead_letters()]).number("expected"), 3);
    let letter = &broker.read(&job.dead_letters(), Isolation::ReadCommitted)[0];
    assert_eq!(letter.headers[..1000], headers(b"").headers[..]);
}

fn a_record_without_a_timestamp_is_counted(broker: &Broker) {
    let job = job(broker, [Record { timestamp: Some(-1), ..Record::from("a b") }], &[]);
    assert_eq!(broker.read(&job.input, Isolation::ReadCommitted)[0].timestamp, None);
    exact(broker, &job);
    assert_eq!(job.is_exact(&[]).number("expected"), 2);
}

fn an_output_that_is_too_large_is_a_dead_letter_and_the_rest_goes_on(broker: &Broker) {
    let word = "x".repeat(5000);
    for (topology, kind) in [("word-count", "counts"), ("split-words", "records")] {
        let job = Job {
            output: broker.topic("small", 1, &[("max.message.bytes", "2000")]),
            ..job(broker, ["before", &format!("beside {word} beside"), "after"], &["--topology", topology])
        };
        let run = exact(broker, &job);
        assert_eq!(run.number("dead_lettered"), 1, "{topology}: {run:#?}");
        let audit = job.audit(&["--kind", kind]);
        let missing = (audit.number("missing"), audit.number("surplus"), audit.number("found"));
        assert_eq!(missing, (1, 0, 4), "{topology}: {audit:#?}");
        let letter = &broker.read(&job.dead_letters(), Isolation::ReadCommitted)[0];
        let about = ["reason", "target-topic"].map(|name| header(letter, &format!("stormglass-{name}")));
        assert_eq!(about, ["too_large", &job.output], "{topology}: {letter:#?}");
    }
}

fn a_topic_cannot_be_read_and_written(broker: &Broker) {
    let topic = broker.topic("both", 1, &[]);
    let run = Job { output: topic.clone(), ..Job::new(broker, &topic, &[]) }.to_the_end();
    assert_eq!(run.code, Some(78), "{run:#?}");
    assert!(run.stderr.contains(&topic) && run.stdout.is_empty(), "{run:#?}");
}

fn a_topic_that_does_not_exist_has_no_end(broker: &Broker) {
    let missing = broker.unique("missing");
    let job = Job::new(broker, &missing, &[]);
    let run = job.to_the_end();
    assert_eq!(run.code, Some(66), "{run:#?}");
    assert!(run.stderr.contains(&format!("topic \"{missing}\" does not exist")) && run.stdout.is_empty(), "{run:#?}");
    // Nor was an output made for it.
    let audit = job.audit(&[]);
    assert_eq!(audit.code, Some(66), "{audit:#?}");
}

fn an_address_at_which_a_web_server_answers_is_refused(broker: &Broker) {
    let address = web_server();
    let job = Job { brokers: address.clone(), ..Job::new(broker, "lines", &[]) };
    for run in [job.to_the_end(), job.audit(&[])] {
        assert_eq!(run.code, Some(78), "{run:#?}");
        let sentence =
            format!("what answers at {address} does not speak Kafka's protocol (its answer begins with \"HTTP\")");
        assert!(run.stderr.contains(&sentence) && !run.stderr.contains("waiting for Kafka"), "{run:#?}");
    }
    // Where another broker is named, that one may still come.
    let job = Job { brokers: format!("{address},{}", broker.bootstrap()), ..job };
    assert_eq!(job.to_the_end().code, Some(66));
}
