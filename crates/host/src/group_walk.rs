//! The groups of a hierarchy, in such an order and number that nobody to whom some of them belong hides others'.

use std::collections::VecDeque;

use crate::Root;

/// A host has hundreds; a machine that leaks cgroups must not stall a recording.
pub(crate) const MAX_GROUPS_WALKED: usize = 20_000;
/// A user to whom a group belongs may make any number below it, and nest them. So many of one group's are given, and so many levels, as
/// `unstarve watch` looks at.
pub(crate) const MOST_BELOW: usize = 1024;
const DEEPEST: usize = 16;

/// Gives the paths of all groups but the root, parents before what is below them. The groups below a group take turns, each with all that is
/// below it: of the places that there are, who fills a part of the hierarchy takes those that the others leave.
pub(crate) struct GroupWalk<'a> {
    look: Look<'a>,
    all: Group,
    room: usize,
}

/// Where is looked, and what was seen of it.
struct Look<'a> {
    root: &'a Root,
    mount: &'a str,
    cut: Vec<Cut>,
}

struct Group {
    name: Box<str>,
    state: State,
}

/// What has become of a group.
enum State {
    Waits,
    /// Nobody has looked below it.
    Given,
    /// Those below it, whose turn is next first; not those that are through.
    Open(VecDeque<Group>),
}

/// A group below which not all were given.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Its path; that of the root is empty.
    pub path: String,
    pub why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It has more than [`MOST_BELOW`].
    TooMany,
    /// It is as deep as a walk goes.
    TooDeep,
    /// The walk has given [`MAX_GROUPS_WALKED`] by then.
    NoRoom,
}

impl<'a> GroupWalk<'a> {
    /// Of the hierarchy that is mounted there.
    pub fn new(root: &'a Root, mount: &'a str) -> GroupWalk<'a> {
        let all = Group { name: "".into(), state: State::Given };
        GroupWalk { look: Look { root, mount, cut: Vec::new() }, all, room: MAX_GROUPS_WALKED }
    }

    /// Below which groups not all were given, those nearest to the root first.
    pub fn into_cut(self) -> Vec<Cut> {
        let mut cut = self.look.cut;
        let before = cut.len();
        let mut unseen = false;
        let mut left = vec![(String::new(), self.all)];
        while let Some((path, group)) = left.pop() {
            let State::Open(turns) = group.state else {
                unseen |= matches!(group.state, State::Given);
                continue;
            };
            if turns.iter().any(|below| matches!(below.state, State::Waits)) {
                cut.push(Cut { path: path.clone(), why: Why::NoRoom });
            }
            left.extend(turns.into_iter().map(|below| (format!("{path}/{}", below.name), below)));
        }
        if unseen && cut.len() == before {
            cut.push(Cut { path: String::new(), why: Why::NoRoom });
        }
        cut.sort_by_key(|cut| cut.path.matches('/').count());
        cut
    }
}

impl Iterator for GroupWalk<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.room = self.room.checked_sub(1)?;
        self.all.next("", 0, &mut self.look)
    }
}

impl Group {
    /// The path of the next one of it and what is below it; its own is `path`.
    fn next(&mut self, path: &str, depth: usize, look: &mut Look<'_>) -> Option<String> {
        match self.state {
            State::Waits => {
                self.state = State::Given;
                return Some(path.to_owned());
            }
            State::Given => self.state = State::Open(look.below(path, depth)),
            State::Open(_) => {}
        }
        let State::Open(turns) = &mut self.state else { return None };
        while let Some(mut below) = turns.pop_front() {
            let next = below.next(&format!("{path}/{}", below.name), depth + 1, look);
            if next.is_some() {
                turns.push_back(below);
                return next;
            }
        }
        None
    }
}

impl Look<'_> {
    fn below(&mut self, path: &str, depth: usize) -> VecDeque<Group> {
        let (most, why) = if depth < DEEPEST { (MOST_BELOW, Why::TooMany) } else { (0, Why::TooDeep) };
        // One more than is given shows that there are more. A group that is gone has none.
        let directory = format!("{}{path}", self.mount);
        let mut names = self.root.directories(&directory, most + 1).unwrap_or_default();
        if names.len() > most {
            names.truncate(most);
            self.cut.push(Cut { path: path.to_owned(), why });
        }
        names.into_iter().map(|name| Group { name: name.into(), state: State::Waits }).collect()
    }
}
