//! The tree of cgroups that compete by weight.

/// Index of a cgroup in [`Groups`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(u32);

/// Cgroups that compete by weight, as a tree. The root group is not included: its tasks compete individually.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Groups(Vec<Group>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group {
    parent: Option<GroupId>,
    /// In load-weight units (cgroup `cpu.weight` 100 = 1024).
    weight: u32,
    /// 1 for a group directly below the root group.
    depth: u32,
    /// Whether it stands for several groups with this weight.
    several: bool,
}

impl Groups {
    /// Adds a group with this load weight below `parent`, or at the top level.
    pub fn add(&mut self, parent: Option<GroupId>, weight: u32) -> GroupId {
        let id = GroupId(self.0.len() as u32);
        self.0.push(Group { parent, weight, depth: self.depth(parent) + 1, several: false });
        id
    }

    /// Lets the group also stand for another one with the same weight, next to it or inside it. Two of its tasks may then be in
    /// different groups, where nice does not count, so they are taken to be equals.
    pub fn share(&mut self, id: GroupId) {
        if let Some(group) = self.0.get_mut(id.0 as usize) {
            group.several = true;
        }
    }

    /// Whether two tasks with these groups, both in the root group or both in one group, compete by their own weights.
    pub fn is_one(&self, one: Option<GroupId>, other: Option<GroupId>) -> bool {
        one == other && one.and_then(|id| self.get(id)).is_none_or(|group| !group.several)
    }

    fn get(&self, id: GroupId) -> Option<&Group> {
        self.0.get(id.0 as usize)
    }

    fn depth(&self, id: Option<GroupId>) -> u32 {
        id.and_then(|id| self.get(id)).map_or(0, |group| group.depth)
    }

    /// The load weight of the top-level group that is or contains this one.
    pub fn top_weight(&self, id: GroupId) -> Option<u32> {
        let mut group = self.get(id)?;
        while let Some(parent) = group.parent.and_then(|parent| self.get(parent)) {
            group = parent;
        }
        Some(group.weight)
    }

    /// The load weights with which two tasks compete, each given by its group and its own weight. Weights are compared where
    /// the two paths diverge: there a group competes with the other task's group, or with the other task itself. Two tasks in
    /// one group compete by their own weights.
    pub fn rivals(&self, one: (Option<GroupId>, u32), other: (Option<GroupId>, u32)) -> (u32, u32) {
        if let Some(group) =
            one.0.filter(|_| one.0 == other.0).and_then(|id| self.get(id)).filter(|group| group.several)
        {
            return (group.weight, group.weight);
        }
        let (mut one, mut other) = (one, other);
        while one.0 != other.0 {
            let (depth, its) = (self.depth(one.0), self.depth(other.0));
            if depth >= its {
                one = self.above(one);
            }
            if its >= depth {
                other = self.above(other);
            }
        }
        (one.1, other.1)
    }

    fn above(&self, (id, weight): (Option<GroupId>, u32)) -> (Option<GroupId>, u32) {
        match id.and_then(|id| self.get(id)) {
            Some(group) => (group.parent, group.weight),
            None => (None, weight),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_compared_where_two_paths_part() {
        //  /            init 1024
        //  ├ prod 1024
        //  │ ├ light 102    web
        //  │ └ heavy 10240  batch
        //  └ user 2048      shell
        let mut groups = Groups::default();
        let prod = groups.add(None, 1024);
        let light = (Some(groups.add(Some(prod), 102)), 1024);
        let heavy = (Some(groups.add(Some(prod), 10240)), 15);
        let user = (Some(groups.add(None, 2048)), 1024);
        let init = (None, 1024);
        assert_eq!(groups.rivals(light, heavy), (102, 10240));
        assert_eq!(groups.rivals(heavy, light), (10240, 102));
        assert_eq!(groups.rivals(light, user), (1024, 2048), "prod beside user");
        assert_eq!(groups.rivals(heavy, init), (1024, 1024), "prod beside init itself");
        assert_eq!(groups.rivals((light.0, 335), light), (335, 1024), "one group: nice decides");
        assert_eq!(groups.rivals((Some(prod), 88761), light), (88761, 102), "a task beside a group");
        assert_eq!(groups.top_weight(GroupId(1)), Some(1024));
        assert!(groups.is_one(light.0, light.0) && groups.is_one(None, None) && !groups.is_one(light.0, None));
    }

    #[test]
    fn nice_does_not_count_where_one_group_stands_for_several() {
        let mut groups = Groups::default();
        let pods = Some(groups.add(None, 1024));
        assert_eq!(groups.rivals((pods, 15), (pods, 1024)), (15, 1024));
        groups.share(GroupId(0));
        assert_eq!(groups.rivals((pods, 15), (pods, 1024)), (1024, 1024));
        assert!(!groups.is_one(pods, pods));
    }
}
