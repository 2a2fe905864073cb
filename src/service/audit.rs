//! The command `audit`: reads input and output afresh, recounts, compares.

use std::{collections::HashSet, ops::ControlFlow, sync::Arc, time::Duration};

use serde::Serialize;

use super::{
    cli::{Audit, AuditKind},
    config::{legal_topic, no_topic},
    connect,
    dispatch::Session,
    exit::{Cause, Failure, Outcome},
    output,
    progress::{Progress, counted, grouped},
};
use crate::{
    audit::{Ledger, Verdict},
    clock::Clock,
    kafka::{DeadLetter, admin::reader::TopicReader, client::record::RecordBlock},
};

/// Longest silence of the brokers.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where a record stands: topic, partition, offset.
type Coordinates = (Arc<str>, i32, i64);

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    /// Records of the input, without those that were given up.
    input_records: u64,
    /// Records of the input that are in the dead-letter topic and therefore not expected.
    dead_letters: u64,
    /// Records of the input that hold no text: no JSON, or nothing where the pointer leads.
    unreadable_input: u64,
    /// Records of the output.
    output_records: u64,
    /// Records of the output that are no count of a word.
    malformed_output: u64,
    #[serde(flatten)]
    verdict: Verdict,
}

/// The recount as it goes on.
struct Recount<'a> {
    args: &'a Audit,
    dead: HashSet<Coordinates>,
    ledger: Ledger,
    input_records: u64,
    dead_letters: u64,
    unreadable_input: u64,
    output_records: u64,
    malformed_output: u64,
}

/// Runs the command.
///
/// # Errors
/// [`Cause::No`] if the two sides differ; if a topic is not there or no broker answers.
pub(crate) fn audit(session: &Session<'_>, args: &Audit) -> Outcome {
    let settings = session.client()?;
    let inputs = inputs(args)?;
    if args.json_pointer.as_ref().is_some_and(|pointer| !(pointer.is_empty() || pointer.starts_with('/'))) {
        return Err(Failure::new(Cause::Usage, "--json-pointer starts with /, as in /message"));
    }
    let mut reader = TopicReader::new(&connect::consumer(&settings), PATIENCE, Clock::system())?;
    let progress = Progress::new(session.global);
    let mut recount = Recount::new(args);
    if let Some(topic) = &args.dead_letters {
        read(&mut reader, std::slice::from_ref(topic), &progress, &mut |block| recount.take_dead(block))?;
    }
    read(&mut reader, &inputs, &progress, &mut |block| recount.take_input(block))?;
    read(&mut reader, std::slice::from_ref(&args.output), &progress, &mut |block| recount.take_output(block))?;
    drop(progress);
    let report = recount.report();
    tell(session, &report)?;
    if report.verdict.equal { Ok(()) } else { Err(Failure::said(Cause::No)) }
}

/// The topics to recount, each named once, and named as topics are.
fn inputs(args: &Audit) -> Result<Vec<String>, Failure> {
    let inputs: Vec<String> = args.input.iter().flat_map(|item| super::flags::topics(item)).collect();
    let usage = |sentence| Err(Failure::new(Cause::Usage, sentence));
    let others = [("--output", Some(&args.output)), ("--dead-letters", args.dead_letters.as_ref())];
    let others = others.into_iter().filter_map(|(flag, topic)| Some((flag, topic?)));
    for (flag, topic) in inputs.iter().map(|topic| ("--input", topic)).chain(others) {
        if topic.starts_with('^') {
            return usage(format!("{flag}: \"{topic}\" is a pattern; audit takes names: name each topic"));
        }
        if !legal_topic(topic) {
            return usage(format!("{flag}: {}", no_topic(topic)));
        }
    }
    if let Some(topic) = inputs.iter().enumerate().find_map(|(n, topic)| inputs[..n].contains(topic).then_some(topic)) {
        return usage(format!("--input: \"{topic}\" is there twice, and would be counted twice: name it once"));
    }
    Ok(inputs)
}

/// Reads `topics` from their beginning to the end that they have now.
fn read(
    reader: &mut TopicReader,
    topics: &[String],
    progress: &Progress,
    take: &mut dyn FnMut(&RecordBlock),
) -> Outcome {
    for topic in topics {
        let mut records = 0;
        let _ends = reader.read_all(topic, &mut |block| {
            records += block.len() as u64;
            if progress.is_shown() {
                progress.show(format!("{topic}: {} records read", grouped(records)));
            }
            take(block);
            ControlFlow::Continue(())
        })?;
    }
    Ok(())
}

impl<'a> Recount<'a> {
    fn new(args: &'a Audit) -> Self {
        Self {
            args,
            dead: HashSet::new(),
            ledger: Ledger::default(),
            input_records: 0,
            dead_letters: 0,
            unreadable_input: 0,
            output_records: 0,
            malformed_output: 0,
        }
    }

    /// Remembers which records of the input were given up: their coordinates stand in headers.
    fn take_dead(&mut self, block: &RecordBlock) {
        let sources = (0..block.len()).filter_map(|i| DeadLetter::new(block, i).source());
        self.dead.extend(sources.map(|(partition, offset)| (partition.topic, partition.partition, offset.0)));
    }

    fn take_input(&mut self, block: &RecordBlock) {
        for (i, head) in block.records().iter().enumerate() {
            let (topic, partition) = (&block.partition.topic, block.partition.partition);
            // Without dead letters nothing is looked up, so nothing is cloned a record.
            if !self.dead.is_empty() && self.dead.contains(&(Arc::clone(topic), partition, head.offset.0)) {
                self.dead_letters += 1;
                continue;
            }
            self.input_records += 1;
            let value = block.value(i).unwrap_or_default();
            match &self.args.json_pointer {
                None => self.ledger.expect_line(value),
                Some(pointer) => match text_at(value, pointer) {
                    Some(text) => self.ledger.expect_line(text.as_bytes()),
                    None => self.unreadable_input += 1,
                },
            }
        }
    }

    fn take_output(&mut self, block: &RecordBlock) {
        for i in 0..block.len() {
            self.output_records += 1;
            let (key, value) = (block.key(i), block.value(i));
            match self.args.kind {
                AuditKind::Records => match value.or(key) {
                    Some(word) => self.ledger.find_occurrence(word),
                    None => self.malformed_output += 1,
                },
                AuditKind::Counts => match (key, value.map(count)) {
                    (Some(word), Some(Some(count))) => self.ledger.find_count(word, Some(count)),
                    (Some(word), None) => self.ledger.find_count(word, None),
                    (None, _) | (_, Some(None)) => self.malformed_output += 1,
                },
            }
        }
    }

    fn report(self) -> Report {
        let mut verdict = self.ledger.verdict(self.args.limit, self.args.top);
        verdict.equal &= self.malformed_output == 0;
        Report {
            input_records: self.input_records,
            dead_letters: self.dead_letters,
            unreadable_input: self.unreadable_input,
            output_records: self.output_records,
            malformed_output: self.malformed_output,
            verdict,
        }
    }
}

fn count(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn text_at(value: &[u8], pointer: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(value).ok()?;
    json.pointer(pointer)?.as_str().map(str::to_owned)
}

fn tell(session: &Session<'_>, report: &Report) -> Outcome {
    if session.global.json {
        return output::json(report);
    }
    let part = |n: u64, what: &str| if n > 0 { format!(", {} {what}", grouped(n)) } else { String::new() };
    let head = format!(
        "input {}{}{}; output {}{}",
        counted(report.input_records, "record"),
        part(report.dead_letters, "more are dead letters"),
        part(report.unreadable_input, "of them hold no text"),
        counted(report.output_records, "record"),
        part(report.malformed_output, "of them no count of a word"),
    );
    output::data(&format!("{head}\n{}", report.verdict))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::client::{AssignmentEpoch, Offset, TopicPartition, record::push_header};

    fn args(kind: AuditKind) -> Audit {
        Audit {
            input: vec!["lines".to_owned()],
            output: "counts".to_owned(),
            kind,
            dead_letters: None,
            json_pointer: None,
            limit: 10,
            top: 0,
        }
    }

    type Record<'a> = (Option<&'a str>, Option<&'a str>, &'a [u8]);

    fn block(topic: &str, records: &[Record<'_>]) -> RecordBlock {
        let mut block = RecordBlock::new(TopicPartition::new(topic, 0), AssignmentEpoch(1));
        for (offset, (key, value, headers)) in (0..).zip(records) {
            block.push(Offset(offset), 0, key.map(str::as_bytes), value.map(str::as_bytes), headers);
        }
        block
    }

    #[test]
    fn the_last_count_of_a_word_stands() {
        let args = args(AuditKind::Counts);
        let mut recount = Recount::new(&args);
        recount.take_input(&block("lines", &[(None, Some("a b a"), &[]), (None, None, &[]), (None, Some(" "), &[])]));
        recount.take_output(&block(
            "counts",
            &[(Some("a"), Some("1"), &[]), (Some("b"), Some("1"), &[]), (Some("a"), Some("2"), &[])],
        ));
        let report = recount.report();
        assert!(report.verdict.equal);
        assert_eq!((report.input_records, report.output_records), (3, 3));
    }

    #[test]
    fn each_record_is_an_occurrence() {
        let args = args(AuditKind::Records);
        let mut recount = Recount::new(&args);
        recount.take_input(&block("lines", &[(None, Some("a b a"), &[])]));
        recount.take_output(&block("words", &[(None, Some("a"), &[]), (Some("b"), None, &[]), (None, Some("a"), &[])]));
        assert!(recount.report().verdict.equal);
    }

    #[test]
    fn what_is_no_count_is_no_agreement() {
        let args = args(AuditKind::Counts);
        let mut recount = Recount::new(&args);
        recount.take_output(&block("counts", &[(Some("a"), Some("many"), &[]), (None, Some("1"), &[])]));
        let report = recount.report();
        assert!(!report.verdict.equal);
        assert_eq!(report.malformed_output, 2);
    }

    #[test]
    fn dead_letters_are_not_expected() {
        let mut headers = Vec::new();
        for (name, value) in [("topic", "lines"), ("partition", "0"), ("offset", "1")] {
            push_header(format!("stormglass-source-{name}").as_bytes(), Some(value.as_bytes()), &mut headers);
        }
        let args = args(AuditKind::Counts);
        let mut recount = Recount::new(&args);
        recount.take_dead(&block("counts-dead-letters", &[(None, Some("bad"), &headers)]));
        recount.take_input(&block("lines", &[(None, Some("a"), &[]), (None, Some("bad"), &[])]));
        recount.take_output(&block("counts", &[(Some("a"), Some("1"), &[])]));
        let report = recount.report();
        assert!(report.verdict.equal);
        assert_eq!((report.input_records, report.dead_letters), (1, 1));
    }

    #[test]
    fn a_pointer_selects_the_text_and_what_has_none_is_counted() {
        let args = Audit { json_pointer: Some("/m/t".to_owned()), ..args(AuditKind::Counts) };
        let mut recount = Recount::new(&args);
        let lines = [r#"{"m":{"t":"a b"}}"#, r#"{"m":{"t":1}}"#, "{", ""];
        recount.take_input(&block("lines", &lines.map(|line| (None, Some(line), &[][..]))));
        let report = recount.report();
        assert_eq!((report.verdict.expected, report.unreadable_input), (2, 3));
    }
}
