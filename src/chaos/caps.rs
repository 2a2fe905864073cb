//! Caps of a process: what its spouts may have open bounds everything else.

use super::words::WORDS_OF_A_LINE;

/// Tuples of one tree that may wait at the same time: a line, or its words.
const TUPLES_OF_A_TREE: usize = WORDS_OF_A_LINE as usize;

/// Whether a process keeps to its caps: `trees` are open, and `waiting` tuples are in queues that have no bound of their own.
pub(super) fn check(process: usize, (trees, waiting): (usize, usize), max_pending: usize) -> Result<(), String> {
    // A flush has a tree too.
    let most = max_pending + 1;
    if trees > most {
        return Err(format!("process {process} has {trees} open trees of {max_pending}"));
    }
    if waiting > TUPLES_OF_A_TREE * most {
        return Err(format!("process {process} has {waiting} tuples waiting, with {max_pending} trees at most"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_flush_and_its_trees_open_and_no_more() {
        assert_eq!(check(0, (17, 34), 16), Ok(()));
        insta::assert_snapshot!(check(0, (18, 0), 16).unwrap_err(), @"process 0 has 18 open trees of 16");
        insta::assert_snapshot!(check(2, (0, 35), 16).unwrap_err(), @"process 2 has 35 tuples waiting, with 16 trees at most");
    }
}
