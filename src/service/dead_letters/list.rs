//! `dead-letters list`.

use std::{collections::VecDeque, fmt::Write as _, ops::ControlFlow};

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
    let mut found = VecDeque::new();
    let ends = super::reader(settings)?.read_all(topic, &mut |block| {
        for letter in (0..block.len()).map(|at| Description::of(block, at)).filter(|letter| wanted(letter)) {
            found.push_back(letter);
        }
        // The order between partitions is that of time, so none of this partition is the newest for certain.
        found.make_contiguous().sort_by_key(|letter| (letter.millis, letter.id));
        while found.len() > limit {
            found.pop_front();
        }
        ControlFlow::Continue(())
    })?;
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

/// Columns as wide as they have to be; the error, which may be long, is the last.
fn table(listed: &[Listed]) -> String {
    let head = ["letter", "time", "origin", "component", "attempts", "reason", "replayed", "error"].map(str::to_owned);
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
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            write!(line, "{cell:<width$}  ", width = width(column).unwrap_or(0)).unwrap_or_default();
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

    #[test]
    fn a_table_has_a_line_for_each_letter() {
        let letter = Description {
            id: LetterId { partition: 0, offset: 7 },
            time: moment::show(1_796_000_000_000),
            millis: 1_796_000_000_000,
            origin: Origin::Source { topic: "lines".into(), partition: 3, offset: 1234 },
            component: "split".into(),
            reason: "permanent".into(),
            error: "no\ntext \u{1b}[2J".into(),
            attempts: Some(1),
            has_payload: true,
        };
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
