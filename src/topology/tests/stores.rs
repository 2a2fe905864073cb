//! Stores in calls: what a call has written stays when it succeeds, and is gone when it fails.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use proptest::prelude::*;

use super::{
    build::Nothing,
    harness::{Harness, value},
};
use crate::{
    state::{Changes, MAX_ENTRY_BYTES},
    topology::{
        ComponentError, ComponentResult, Delivery, Grouping, Handled, Input, Output, StoreHandle, TaskContext,
        TopologyBuilder, changelog::StoreId,
    },
    tuple::{KeyHash, Value},
};

type Sums = StoreHandle<i64, i64>;
type Names = StoreHandle<(String, i64), String>;

fn topology(tasks: u16) -> TopologyBuilder {
    let mut t = TopologyBuilder::new("t");
    t.spout("s", || Nothing).fields(["x"]);
    t.acking_bolt("a", || Nothing)
        .tasks(tasks)
        .reads("s", Grouping::fields(["x"]))
        .fields(["x"])
        .store::<i64, i64>("sums")
        .store::<(String, i64), String>("names");
    t.acking_bolt("b", || Nothing).reads("a", Grouping::Shuffle);
    t
}

fn context(t: &TopologyBuilder, task: usize) -> TaskContext {
    let plan = t.build().unwrap();
    plan.context(plan.tasks().nth(task).unwrap(), Delivery::AtLeastOnce)
}

struct Stores {
    h: Harness,
    sums: Sums,
    names: Names,
}

impl Stores {
    fn new() -> Self {
        let t = topology(1);
        let context = context(&t, 1);
        Self { h: Harness::new(&t, 2), sums: context.store("sums").unwrap(), names: context.store("names").unwrap() }
    }

    /// One execution for each of these values.
    fn execute(
        &mut self,
        values: &[i64],
        mut call: impl for<'a> FnMut(Input<'a>, &mut Output) -> ComponentResult<Handled<'a>>,
    ) {
        (0..).zip(values).for_each(|(id, value)| self.h.root(id, *value));
        self.h.execute(1, |input, out| call(input, out));
    }

    fn output(&mut self) -> &mut Output {
        &mut self.h.outputs[1]
    }

    fn sums(&mut self) -> BTreeMap<i64, i64> {
        let (sums, mut found) = (self.sums, BTreeMap::new());
        self.output().scan(&sums, |_, key, value| found.extend([(key, value)]));
        found
    }

    fn flush(&mut self) -> Vec<(StoreId, Changes)> {
        let mut changed = Vec::new();
        self.output().begin_unanchored();
        self.output().end_flush().unwrap();
        self.output().drain_changes(&mut changed);
        changed
    }
}

fn hash(key: i64) -> KeyHash {
    KeyHash::of(&[Value::Int(key)])
}

fn no() -> ComponentError {
    ComponentError::new("no")
}

#[test]
fn a_handle_is_found_by_name_and_by_the_types_that_were_declared() {
    let context = context(&topology(1), 1);
    let refused = |result: ComponentResult<Sums>| result.unwrap_err().to_string();
    assert!(context.store::<i64, i64>("sums").is_ok());
    assert_eq!(refused(context.store("sum")), "\"a\" declares no store \"sum\": add .store::<K, V>(\"sum\") to it");
    assert_eq!(
        refused(context.store("names")),
        "store \"names\" of \"a\" is declared from (text, int) to text and asked for from int to int: use the same types"
    );
}

#[test]
fn a_call_reads_what_it_has_written_and_so_do_the_next_ones() {
    let mut s = Stores::new();
    let (sums, names) = (s.sums, s.names);
    let mut updated = Vec::new();
    s.execute(&[1, 2, 1], |input, out| {
        let (key, by) = (value(*input.tuple()), input.tuple().key());
        updated.push(out.store(&sums).update(by, key, |sum| sum.unwrap_or(10) + key));
        out.store(&sums).delete(by, key);
        assert_eq!(out.store(&sums).get(by, key), None);
        out.store(&sums).put(by, key, 7);
        let name = out.store(&names).get(by, ("name", key)).unwrap_or_default() + "x";
        out.store(&names).put(by, ("name", key), name);
        Ok(input.ack())
    });
    assert_eq!(updated, [11, 12, 8]);
    assert_eq!(s.sums(), BTreeMap::from([(1, 7), (2, 7)]));
    assert_eq!(s.output().store(&names).get(hash(1), ("name", 1)).as_deref(), Some("xx"));
    assert_eq!(s.output().entries(), 4);
}

#[test]
fn a_call_that_fails_has_written_nothing() {
    let mut s = Stores::new();
    let sums = s.sums;
    let sum = |out: &mut Output, by| out.store(&sums).update(by, 1, |sum| sum.unwrap_or(0) + 1);
    s.execute(&[1, 1, 1, 1, 1], {
        let mut calls = 0;
        move |input, out| {
            calls += 1;
            let by = input.tuple().key();
            sum(out, by);
            sum(out, by);
            match calls {
                2 => Err(no()),
                // What cannot be emitted fails the call as well.
                3 => {
                    out.emit(&[]);
                    Ok(input.ack())
                }
                // The call itself succeeds, though the input fails.
                4 => Ok(input.fail(no())),
                _ => Ok(input.ack()),
            }
        }
    });
    assert_eq!(s.sums(), BTreeMap::from([(1, 6)]));
    assert_eq!(s.h.deliver(), [(0, "done"), (1, "failed"), (2, "failed"), (3, "failed"), (4, "done")]);
}

#[test]
fn an_entry_that_no_changelog_takes_fails_its_call_for_good() {
    let mut s = Stores::new();
    let (names, long) = (s.names, "x".repeat(MAX_ENTRY_BYTES));
    s.execute(&[1, 2], |input, out| {
        let i = value(*input.tuple());
        let name = if i == 1 { long.clone() } else { "x".repeat(MAX_ENTRY_BYTES / 2) };
        out.store(&names).put(input.tuple().key(), ("a", i), name);
        Ok(input.ack())
    });
    assert_eq!(s.h.deliver(), [(0, "failed"), (1, "done")]);
}

#[test]
fn what_a_call_has_deleted_comes_back_when_it_fails() {
    let mut s = Stores::new();
    let sums = s.sums;
    for fails in [false, true] {
        s.execute(&[1], |input, out| {
            let by = input.tuple().key();
            out.store(&sums).put(by, 1, 5 + i64::from(fails));
            out.store(&sums).put(by, 1, 9);
            if fails {
                out.store(&sums).delete(by, 1);
                return Err(no());
            }
            Ok(input.ack())
        });
    }
    assert_eq!(s.sums(), BTreeMap::from([(1, 9)]));
}

#[test]
fn a_tick_and_a_panic_that_fail_have_written_nothing() {
    let mut s = Stores::new();
    let sums = s.sums;
    s.h.tick(1, |out| out.store(&sums).put(hash(1), 1, 1));
    s.output().begin_unanchored();
    s.output().store(&sums).put(hash(1), 1, 2);
    s.output().discard_call();
    s.output().begin_unanchored();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let out = &mut s.h.outputs[1];
        out.store(&sums).put(hash(2), 2, 2);
        out.store(&sums).update(hash(1), 1, |_| panic!("in the middle of an update"))
    }));
    assert!(panic.is_err());
    s.output().fail_call(no());
    assert_eq!(s.sums(), BTreeMap::from([(1, 1)]));
}

#[test]
fn a_key_of_another_task_is_refused_and_nothing_of_the_call_stays() {
    let t = topology(2);
    let mut h = Harness::new(&t, 2);
    let sums: Sums = context(&t, 2).store("sums").unwrap();
    let key_of = |task: usize| {
        let groups = crate::tuple::KeyGroups::new(16, 2);
        (0..).find(|key| groups.owner(hash(*key)) == task).unwrap()
    };
    let (own, other) = (key_of(1), key_of(0));
    h.outputs[2].begin_unanchored();
    h.outputs[2].store(&sums).put(hash(own), own, 1);
    h.outputs[2].store(&sums).put(hash(other), other, 1);
    assert_eq!(h.outputs[2].store(&sums).update(hash(other), other, |old| old.unwrap_or(3)), 3);
    let said = h.outputs[2].end_root().unwrap_err();
    insta::assert_snapshot!(said.to_string(), @r#"store "sums": the key is of key group 0 and this task has the groups 8 to 15: reach a store by the hash of the tuple's own grouping key, tuple.key()"#);
    assert!(!said.is_retriable());
    assert_eq!(h.outputs[2].entries(), 0);
}

#[test]
fn a_handle_of_no_store_fails_the_call() {
    let mut s = Stores::new();
    s.output().begin_unanchored();
    assert_eq!(s.output().store(&Sums::default()).get(hash(1), 1), None);
    let said = s.output().end_root().unwrap_err().to_string();
    assert_eq!(said, "the handle is of no store of this bolt: get one from the context, in prepare");
}

#[test]
fn a_scan_goes_by_key_and_may_emit_and_write_to_other_stores() {
    let mut s = Stores::new();
    let (sums, names) = (s.sums, s.names);
    s.h.tick(1, |out| {
        // One hash, so one key group: the order is that of the keys.
        [3, -1, 2].into_iter().for_each(|key| out.store(&sums).put(hash(0), key, 10 * key));
        out.scan(&sums, |out, key, value| {
            out.store(&names).put(hash(0), ("n", key), value.to_string());
            out.emit_unanchored(crate::topology::OutStream::DEFAULT, &[Value::Int(value)]);
        });
    });
    assert_eq!(s.h.values(2), [-10, 20, 30]);
    let mut found = Vec::new();
    s.output().scan(&names, |_, (name, key), value| found.push((name.to_owned(), key, value)));
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], ("n".to_owned(), -1, "-10".to_owned()));
}

#[test]
fn a_store_is_not_changed_while_it_is_scanned() {
    let mut s = Stores::new();
    let sums = s.sums;
    s.h.tick(1, |out| out.store(&sums).put(hash(1), 1, 1));
    s.output().begin_unanchored();
    s.output().scan(&sums, |out, key, _| out.store(&sums).put(hash(key), key, 2));
    let said = s.output().end_root().unwrap_err().to_string();
    insta::assert_snapshot!(said, @r#"store "sums" is being scanned: remember what is to be changed, and change it after the scan"#);
    s.output().begin_unanchored();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let out = &mut s.h.outputs[1];
        out.scan(&sums, |_, _, _| panic!("in the middle of a scan"));
    }));
    assert!(panic.is_err());
    s.output().fail_call(no());
    assert_eq!(s.sums(), BTreeMap::from([(1, 1)]), "the store is in its place again");
}

#[test]
fn a_flush_shows_and_hands_over_what_has_changed_since_the_one_before() {
    let mut s = Stores::new();
    let sums = s.sums;
    let put = |s: &mut Stores, key, value| s.h.tick(1, |out| out.store(&sums).put(hash(key), key, value));
    put(&mut s, 1, 1);
    put(&mut s, 2, 1);
    put(&mut s, 1, 2);
    s.output().begin_unanchored();
    s.output().store(&sums).put(hash(3), 3, 3);
    s.output().discard_call();
    let mut shown = Vec::new();
    s.output().scan_changed(&sums, |_, key, value| shown.push((key, value)));
    assert_eq!(shown, [(1, Some(2)), (2, Some(1))]);
    let changed = s.flush();
    assert_eq!(changed.iter().map(|(id, changes)| (id.0, changes.len())).collect::<Vec<_>>(), [(0, 2)]);
    assert_eq!(s.flush(), []);
    s.h.tick(1, |out| out.store(&sums).delete(hash(2), 2));
    shown.clear();
    s.output().scan_changed(&sums, |_, key, value| shown.push((key, value)));
    assert_eq!(shown, [(2, None)]);
    assert_eq!(s.flush()[0].1.get(0).unwrap().value, None);
}

#[test]
fn a_flush_that_nobody_took_is_forgotten_by_the_next() {
    let mut s = Stores::new();
    let sums = s.sums;
    s.h.tick(1, |out| out.store(&sums).put(hash(1), 1, 1));
    s.output().begin_unanchored();
    s.output().end_flush().unwrap();
    assert_eq!(s.flush(), []);
}

#[test]
fn a_flush_that_fails_hands_nothing_over() {
    let mut s = Stores::new();
    let sums = s.sums;
    s.h.tick(1, |out| out.store(&sums).put(hash(1), 1, 1));
    s.output().begin_unanchored();
    s.output().store(&sums).put(hash(2), 2, 2);
    s.output().emit(&[]);
    assert!(s.output().end_flush().is_err());
    let changed = s.flush();
    assert_eq!(changed[0].1.len(), 1, "only what succeeded calls have written");
}

#[test]
fn what_is_handed_over_is_restored_in_another_task_of_the_same_store() {
    let mut s = Stores::new();
    let (sums, names) = (s.sums, s.names);
    s.h.tick(1, |out| {
        (0..20).for_each(|key| out.store(&sums).put(hash(key), key, -key));
        out.store(&names).put(hash(1), ("a\0b", 1), "x".to_owned());
        out.store(&names).put(hash(2), ("c", 2), "y".to_owned());
    });
    let mut changed = s.flush();
    s.h.tick(1, |out| out.store(&names).delete(hash(2), ("c", 2)));
    changed.extend(s.flush());
    let mut other = Stores::new();
    for (store, entry) in changed.iter().flat_map(|(store, changes)| changes.iter().map(move |entry| (store, entry))) {
        let mut one = Changes::default();
        assert!(one.push(entry.group, entry.key, entry.value));
        other.output().restore(*store, entry.group, &one).unwrap();
    }
    assert_eq!(other.sums(), s.sums());
    assert_eq!(other.output().store(&names).get(hash(1), ("a\0b", 1)).as_deref(), Some("x"));
    assert_eq!(other.output().store(&sums).get(hash(7), 7), Some(-7), "by the hash that a tuple brings");
    assert_eq!((other.output().entries(), other.flush()), (21, vec![]));
}

proptest! {
    #[test]
    fn stores_are_what_the_succeeded_calls_have_made_of_them(
        calls in prop::collection::vec((any::<bool>(), prop::collection::vec((0..4_i64, prop::option::of(0..100_i64)), 0..5)), 0..40)
    ) {
        let mut s = Stores::new();
        let sums = s.sums;
        let mut naive = BTreeMap::new();
        for (succeeds, writes) in calls {
            let before = naive.clone();
            s.output().begin_unanchored();
            for (key, value) in writes {
                let seen = s.output().store(&sums).get(hash(key), key);
                prop_assert_eq!(seen, naive.get(&key).copied());
                match value {
                    Some(value) => {
                        s.output().store(&sums).update(hash(key), key, |old| old.unwrap_or(0) + value);
                        *naive.entry(key).or_default() += value;
                    }
                    None => {
                        s.output().store(&sums).delete(hash(key), key);
                        naive.remove(&key);
                    }
                }
            }
            if succeeds {
                s.output().end_root().unwrap();
            } else {
                s.output().discard_call();
                naive = before;
            }
            prop_assert_eq!(s.sums(), naive.clone());
        }
    }
}
