//! Longest ways through a graph, or the cycles that make them endless. Pure, over indexes.

/// The longest way to each of `count` nodes, in edges.
///
/// # Errors
/// If there are cycles: each as its nodes in the order of the edges. Two cycles that share a node are reported as one.
pub(super) fn longest_ways(count: usize, edges: &[(usize, usize)]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let cycles = cycles(count, edges);
    if !cycles.is_empty() {
        return Err(cycles);
    }
    let mut depths = vec![0; count];
    // Each round settles one more level.
    for _ in 0..count {
        for &(from, to) in edges {
            let through = depths.get(from).map_or(0, |d: &usize| d + 1);
            if let Some(depth) = depths.get_mut(to) {
                *depth = through.max(*depth);
            }
        }
    }
    Ok(depths)
}

fn cycles(count: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut alive: Vec<usize> = (0..count).collect();
    let mut cycles = Vec::new();
    loop {
        peel(&mut alive, edges);
        let Some(&start) = alive.first() else { return cycles };
        let cycle = walk_back(start, &alive, edges);
        alive.retain(|node| !cycle.contains(node));
        cycles.push(cycle);
    }
}

/// Removes nodes that are on no cycle, until each that is left has both a way in and a way out.
fn peel(alive: &mut Vec<usize>, edges: &[(usize, usize)]) {
    loop {
        let before = alive.clone();
        let live = |node: &usize| before.contains(node);
        alive.retain(|node| {
            edges.iter().any(|(from, to)| to == node && live(from))
                && edges.iter().any(|(from, to)| from == node && live(to))
        });
        if alive.len() == before.len() {
            return;
        }
    }
}

/// Walks against the edges until a node comes again.
fn walk_back(start: usize, alive: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut way = vec![start];
    let mut node = start;
    while let Some(&(from, _)) = edges.iter().find(|(from, to)| *to == node && alive.contains(from)) {
        if let Some(at) = way.iter().position(|n| *n == from) {
            let mut cycle = way.split_off(at);
            cycle.reverse();
            // Named from the component that was declared first.
            let first = (0..cycle.len()).min_by_key(|&i| cycle.get(i)).unwrap_or(0);
            cycle.rotate_left(first);
            return cycle;
        }
        way.push(from);
        node = from;
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_way_counts_not_the_shortest() {
        assert_eq!(longest_ways(4, &[(2, 3), (0, 1), (1, 2), (0, 3)]), Ok(vec![0, 1, 2, 3]));
        assert_eq!(longest_ways(0, &[]), Ok(vec![]));
    }

    #[test]
    fn every_separate_cycle_is_found_and_nothing_beside_it() {
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (4, 4), (3, 5)];
        let cycles = longest_ways(6, &edges).unwrap_err();
        assert_eq!(cycles, [vec![1, 2], vec![4]]);
    }
}
