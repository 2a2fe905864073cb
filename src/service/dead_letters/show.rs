//! `dead-letters show`: one letter, whole.

use std::{fmt::Write as _, ops::ControlFlow};

use serde_json::{Value, json};

use super::letters::{Description, LetterId};
use crate::{
    kafka::client::record::RecordBlock,
    service::{
        cli::DeadLetterShow,
        config::ClientSettings,
        dispatch::Session,
        exit::{Cause, Failure, Outcome},
        output,
    },
};

pub(super) fn show(session: &Session<'_>, settings: &ClientSettings, topic: &str, args: &DeadLetterShow) -> Outcome {
    let LetterId { partition, offset } = args.letter;
    let mut shown = None;
    let _ends = super::reader(settings)?.read_all(topic, &mut |block| {
        if block.partition.partition != partition {
            return ControlFlow::Continue(());
        }
        let Some(at) = block.records().iter().position(|head| head.offset.0 == offset) else {
            return ControlFlow::Continue(());
        };
        shown = Some(if session.global.json { as_json(block, at).to_string() + "\n" } else { as_text(block, at) });
        ControlFlow::Break(())
    })?;
    match shown {
        Some(text) => output::data(&text),
        None => {
            let sentence = format!("topic \"{topic}\" has no letter {}: see dead-letters list", args.letter);
            Err(Failure::new(Cause::NoInput, sentence))
        }
    }
}

fn as_text(block: &RecordBlock, at: usize) -> String {
    let letter = Description::of(block, at);
    let mut text = format!("letter   {}:{}\ntime     {}\n", block.partition.topic, letter.id, letter.time);
    let mut line = |name: &str, bytes| writeln!(text, "{name:<8} {}", bytes_as_text(bytes)).unwrap_or_default();
    for (name, value) in block.headers(at) {
        line(&format!("header   {}:", name.escape_ascii()), value);
    }
    line("key", block.key(at));
    line("value", block.value(at));
    text
}

/// Text in quotes if it is text; else its bytes in hexadecimal.
fn bytes_as_text(bytes: Option<&[u8]>) -> String {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => "null".to_owned(),
        Some((_, Ok(text))) => format!("{text:?}"),
        Some((bytes, Err(_))) => format!("hex {}", hex(bytes)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

fn as_json(block: &RecordBlock, at: usize) -> Value {
    let letter = Description::of(block, at);
    let header = |(name, value)| json!({ "name": String::from_utf8_lossy(name), "value": bytes_as_json(value) });
    json!({
        "topic": *block.partition.topic,
        "partition": letter.id.partition,
        "offset": letter.id.offset,
        "time": letter.time,
        "headers": block.headers(at).map(header).collect::<Vec<_>>(),
        "key": bytes_as_json(block.key(at)),
        "value": bytes_as_json(block.value(at)),
    })
}

/// A text, null, or `{"hex": ...}` for what is no UTF-8.
fn bytes_as_json(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => json!(text),
        Some((bytes, Err(_))) => json!({ "hex": hex(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::client::{AssignmentEpoch, Offset, TopicPartition, record::push_header};

    #[test]
    fn a_letter_is_shown_whole_and_what_is_no_text_in_hexadecimal() {
        let mut headers = Vec::new();
        push_header(b"h", Some(b"a \"b\"\n"), &mut headers);
        push_header(b"null", None, &mut headers);
        let mut block = RecordBlock::new(TopicPartition::new("dead", 0), AssignmentEpoch(0));
        block.push(Offset(7), 1_796_000_000_000, Some(b"k"), Some(b"a \xff"), &headers);
        insta::assert_snapshot!(as_text(&block, 0), @r#"
        letter   dead:0:7
        time     2026-11-30T00:53:20Z
        header   h: "a \"b\"\n"
        header   null: null
        key      "k"
        value    hex 6120ff
        "#);
        insta::assert_snapshot!(as_json(&block, 0), @r#"{"headers":[{"name":"h","value":"a \"b\"\n"},{"name":"null","value":null}],"key":"k","offset":7,"partition":0,"time":"2026-11-30T00:53:20Z","topic":"dead","value":{"hex":"6120ff"}}"#);
    }
}
