//! `dead-letters list`.

use std::{fmt::Write as _, ops::ControlFlow};

use serde::Serialize;

use super::{letters::Description, progress::Progress};
use crate::{
    clock::wall_millis,
    kafka::client::TopicPartition,
    service::{
        cli::DeadLetterList,
        config::ClientSettings,
        dispatch::Session,
        exit::{Cause, Failure, Outcome},
        moment, output,
    },
};

const HEAD: [&str; 8] = ["letter", "time", "origin", "component", "attempts", "reason", "replayed", "error"];

/// What `--json` prints of a letter.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    letter: Description,
    replayed: bool,
}

pub(super) fn list(session: &Session<'_>, settings: &ClientSettings, topic: &str, args: &DeadLetterList) -> Outcome {
    let since = args.since.as_deref().map(|text| moment::parse(text, wall_millis())).transpose();
    let since = since.map_err(|sentence| Failure::new(Cause::Usage, format!("--since: {sentence}")))?;
    let wanted = |letter: &Description| {
        args.topic.as_deref().is_none_or(|topic| letter.origin.topic() == Some(topic))
            && since.is_none_or(|since| letter.millis >= since)
    };
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let ends = super::reader(settings)?.read_all(topic, &mut |block| {
        for letter in (0..block.len()).map(|at| Description::of(block, at)).filter(|letter| wanted(letter)) {
            found.push(letter);
        }
        // Not for each block: so what it costs is shared by as many letters as are kept.
        if found.len() / 2 > limit {
            keep_newest(&mut found, limit);
        }
        ControlFlow::Continue(())
    })?;
    keep_newest(&mut found, limit);
    let partitions: Vec<TopicPartition> = ends.into_iter().map(|w| w.partition).collect();
    let committed = super::group(settings, topic)?.committed(&partitions)?;
    let progress: Vec<_> = committed.iter().map(|committed| Progress::read(committed.as_ref())).collect();
    let replayed = |letter: &Description| {
        let of = usize::try_from(letter.id.partition).ok().and_then(|at| progress.get(at));
        // What has nothing to replay is passed over.
        letter.has_payload && of.is_some_and(|progress| progress.has(letter.id.offset))
    };
    let listed: Vec<_> = found.into_iter().map(|letter| Listed { replayed: replayed(&letter), letter }).collect();
    if session.global.json {
        return output::json(&listed);
    }
    output::data(&table(&listed))
}

/// The newest `limit` letters in the order of time, which is the one between partitions.
fn keep_newest(found: &mut Vec<Description>, limit: usize) {
    found.sort_by_key(|letter| (letter.millis, letter.id));
    found.drain(..found.len().saturating_sub(limit));
}

/// Columns as wide as they have to be; the error, which may be long, is the last.
fn table(listed: &[Listed]) -> String {
    let head = HEAD.map(str::to_owned);
    let row = |listed: &Listed| {
        let letter = &listed.letter;
        [
            letter.id.to_string(),
            letter.time.clone(),
            letter.origin.to_string(),
            letter.component.clone(),
            letter.attempts.map_or_else(String::new, |n| n.to_string()),
            letter.reason.clone(),
            if listed.replayed { "yes" } else { "no" }.to_owned(),
            letter.error.clone(),
        ]
        .map(|cell| one_line(&cell))
    };
    let rows: Vec<_> = std::iter::once(head).chain(listed.iter().map(row)).collect();
    let mut widths = [0; HEAD.len()];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:<width$}  ").unwrap_or_default();
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What a record says is data of others: it moves no cursor.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::letters::{LetterId, Origin},
        *,
    };

    fn letter(offset: i64, millis: i64) -> Description {
        Description {
            id: LetterId { partition: 0, offset },
            time: moment::show(millis),
            millis,
            origin: Origin::Source { topic: "lines".into(), partition: 3, offset: 1234 },
            component: "split".into(),
            reason: "permanent".into(),
            error: "no\ntext \u{1b}[2J".into(),
            attempts: Some(1),
            has_payload: true,
        }
    }

    #[test]
    fn the_newest_letters_are_kept_in_the_order_of_time() {
        let kept = |limit| {
            let mut found = vec![letter(1, 30), letter(2, 10), letter(0, 20), letter(3, 30)];
            keep_newest(&mut found, limit);
            found.iter().map(|letter| letter.id.offset).collect::<Vec<_>>()
        };
        assert_eq!(kept(usize::MAX), [2, 0, 1, 3]);
        assert_eq!((kept(2), kept(0)), (vec![1, 3], vec![]));
    }

    #[test]
    fn a_table_of_many_letters_takes_no_longer_for_each() {
        // With a look at all rows for each cell it took ten minutes.
        let listed: Vec<_> = (0..50_000).map(|n| Listed { letter: letter(n, n), replayed: false }).collect();
        assert_eq!(table(&listed).lines().count(), 50_001);
    }

    #[test]
    fn a_table_has_a_line_for_each_letter() {
        let letter = letter(7, 1_796_000_000_000);
        let output =
            Description { origin: Origin::Target { target_topic: "counts".into() }, attempts: None, ..letter.clone() };
        let listed = [Listed { letter, replayed: true }, Listed { letter: output, replayed: false }];
        insta::assert_snapshot!(table(&listed), @r"
        letter  time                  origin        component  attempts  reason     replayed  error
        0:7     2026-11-30T00:53:20Z  lines-3-1234  split      1         permanent  yes       no text  [2J
        0:7     2026-11-30T00:53:20Z  -> counts     split                permanent  no        no text  [2J
        ");
    }
}
