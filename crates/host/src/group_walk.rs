//! Lists the cgroups of a hierarchy in a bounded and fair order: users who create many groups cannot hide the groups of
//! others.

use std::collections::VecDeque;

use crate::Root;

/// A host has hundreds of groups. A machine that leaks cgroups must not delay a recording.
pub(crate) const MAX_GROUPS_WALKED: usize = 20_000;
/// A user who owns a group may create and nest any number below it. At most this many children of a group, and this
/// many levels, are listed, as in `unstarve watch`.
pub(crate) const MAX_CHILDREN: usize = 1024;
const MAX_DEPTH: usize = 16;

/// Yields the paths of all groups but the root, parents before children. The children of a group take turns, each with
/// its whole subtree, so a subtree with many groups only gets the places that others leave.
pub(crate) struct GroupWalk<'a> {
    look: Look<'a>,
    all: Group,
    room: usize,
}

/// The state of a walk.
struct Look<'a> {
    root: &'a Root,
    mount: &'a str,
    cut: Vec<Cut>,
}

struct Group {
    name: Box<str>,
    state: State,
}

/// How far a group's children have been listed.
enum State {
    Waits,
    /// The group has been listed, its children have not been read.
    Given,
    /// Its children in the order of their turns, without those that are finished.
    Open(VecDeque<Group>),
}

/// A group of whose descendants some were not listed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Its path; empty for the root.
    pub path: String,
    pub why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// It has more than [`MAX_CHILDREN`] children.
    TooMany,
    /// It is at the maximum depth.
    TooDeep,
    /// The walk had already yielded [`MAX_GROUPS_WALKED`] groups.
    NoRoom,
}

impl<'a> GroupWalk<'a> {
    /// A walk of the hierarchy mounted at `mount`.
    pub fn new(root: &'a Root, mount: &'a str) -> GroupWalk<'a> {
        let all = Group { name: "".into(), state: State::Given };
        GroupWalk { look: Look { root, mount, cut: Vec::new() }, all, room: MAX_GROUPS_WALKED }
    }

    /// The groups with unlisted descendants, those nearest to the root first.
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
    /// The next path in the subtree of a group whose own path is `path`.
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
        let (most, why) = if depth < MAX_DEPTH { (MAX_CHILDREN, Why::TooMany) } else { (0, Why::TooDeep) };
        // One more than are listed shows that there are more. A group that has vanished has none.
        let directory = format!("{}{path}", self.mount);
        let mut names = self.root.directories(&directory, most + 1).unwrap_or_default();
        if names.len() > most {
            names.truncate(most);
            self.cut.push(Cut { path: path.to_owned(), why });
        }
        names.into_iter().map(|name| Group { name: name.into(), state: State::Waits }).collect()
    }
}
