//! Groups tasks with similar names into one row.

use std::collections::BTreeMap;

use crate::view::{Piece, Row};

/// One row for all tasks whose names differ only in numbers.
pub(crate) fn grouped(rows: Vec<Row>) -> Vec<Row> {
    let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(stem(&row.victim)).or_default().push(row);
    }
    groups.into_iter().filter_map(|(name, members)| together(name, members)).collect()
}

/// A name with each number replaced by a star: `kworker/*:*`.
pub(crate) fn stem(name: &str) -> String {
    let mut stem = String::with_capacity(name.len());
    for c in name.chars() {
        if !c.is_ascii_digit() {
            stem.push(c);
        } else if !stem.ends_with('*') {
            stem.push('*');
        }
    }
    stem
}

fn together(name: String, mut members: Vec<Row>) -> Option<Row> {
    members.sort_by_key(|row| std::cmp::Reverse(row.wait_ns));
    let one_cpu = members.iter().all(|row| row.cpu == members[0].cpu);
    let mut members = members.into_iter();
    let mut all = members.next()?;
    all.mean_waiting = Some(all.share);
    for row in members {
        all.victim.clone_from(&name);
        all.tasks += row.tasks;
        all.wait_ns += row.wait_ns;
        all.longest_ns = all.longest_ns.max(row.longest_ns);
        all.waits += row.waits;
        all.mean_waiting = all.mean_waiting.map(|mean| mean + row.share);
        all.share = all.share.max(row.share);
        if all.history.len() < row.history.len() {
            all.history.resize(row.history.len(), 0);
        }
        all.history.iter_mut().zip(row.history).for_each(|(sum, more)| *sum += more);
        all.waiting_ns = all.waiting_ns.max(row.waiting_ns);
        if row.severity > all.severity {
            (all.severity, all.finding) = (row.severity, row.finding);
        }
        row.blame.into_iter().for_each(|piece| add(&mut all.blame, piece));
    }
    all.blame.sort_by(|a, b| (b.ns, &a.occupant, a.rule.word()).cmp(&(a.ns, &b.occupant, b.rule.word())));
    let worst = all.blame.first();
    all.rule = worst.map(|piece| piece.rule);
    all.culprit = worst.map(|piece| piece.occupant.clone());
    all.culprit_tid = worst.and_then(|piece| piece.tid);
    all.cpu = all.cpu.filter(|_| one_cpu);
    Some(all)
}

fn add(blame: &mut Vec<Piece>, piece: Piece) {
    match blame
        .iter_mut()
        .find(|known| known.rule == piece.rule && known.occupant == piece.occupant && known.tid == piece.tid)
    {
        Some(known) => known.ns += piece.ns,
        None => blame.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn numbers_do_not_tell_tasks_apart() {
        assert_eq!(stem("kworker/12:3H"), "kworker/*:*H");
        assert_eq!(stem("fio"), "fio");
    }
}
