//! What a host did in an interval.

/// What one role waited in a real interval.
#[derive(Clone)]
pub struct Wait {
    pub role: String,
    pub kind: String,
    pub n: u64,
    pub sum: u64,
    pub max: Option<u64>,
    pub buckets: Vec<u64>,
}

/// For whom it waited.
#[derive(Clone)]
pub struct Blame {
    pub victim: String,
    pub kind: String,
    pub occupant: String,
    pub rule: String,
    pub ns: u64,
}

/// A real interval.
#[derive(Clone, Default)]
pub struct Interval {
    pub waits: Vec<Wait>,
    pub blame: Vec<Blame>,
}

impl Interval {
    /// From half to one and a half of each number; the parts of a victim still add up to its sum.
    pub fn vary(&mut self, host: u64, number: u64) {
        let mut at = 0;
        let mut scaled = |value: u64| {
            at += 1;
            let random = mix(host * 1_000 + at, number);
            value / 1024 * (512 + random % 1024) + value % 1024
        };
        for blame in &mut self.blame {
            blame.ns = scaled(blame.ns);
        }
        for wait in &mut self.waits {
            let parts = self.blame.iter().filter(|blame| blame.victim == wait.role);
            wait.sum = parts.map(|blame| blame.ns).sum();
            wait.buckets.iter_mut().for_each(|count| *count = scaled(*count * 1024) / 1024);
            wait.n = wait.buckets.iter().sum();
        }
    }

    /// As on a host with more groups: what is blamed there is there again for others, until there are so many rows.
    pub fn widen(&mut self, rows: usize) {
        let (waits, blame) = (self.waits.clone(), self.blame.clone());
        if blame.is_empty() || blame.len() >= rows {
            return;
        }
        for copy in 1..=rows {
            for (wait, number) in waits.iter().zip(0..) {
                let role = format!("/part-{copy}-{number}.slice");
                let own = blame.iter().filter(|blame| blame.victim == wait.role).take(rows - self.blame.len());
                let own: Vec<Blame> = own
                    .map(|blame| Blame { victim: role.clone(), kind: "group".to_owned(), ..blame.clone() })
                    .collect();
                let sum = own.iter().map(|blame| blame.ns).sum();
                self.waits.push(Wait { role, kind: "group".to_owned(), sum, ..wait.clone() });
                self.blame.extend(own);
                if self.blame.len() >= rows {
                    return;
                }
            }
        }
    }

    pub fn add(&mut self, victim: &str, occupant: &str, rule: &str, ns: u64) {
        let [victim, occupant, rule] = [victim, occupant, rule].map(str::to_owned);
        match self.waits.iter_mut().find(|wait| wait.role == victim) {
            Some(wait) => wait.sum += ns,
            None => self.waits.push(Wait {
                role: victim.clone(),
                kind: victim.clone(),
                n: 0,
                sum: ns,
                max: None,
                buckets: Vec::new(),
            }),
        }
        let same = |blame: &&mut Blame| blame.victim == victim && blame.occupant == occupant && blame.rule == rule;
        match self.blame.iter_mut().find(same) {
            Some(blame) => blame.ns += ns,
            None => self.blame.push(Blame { kind: victim.clone(), victim, occupant, rule, ns }),
        }
    }
}

/// Numbers that look random and are the same each time: the finaliser of MurmurHash3.
pub fn mix(one: u64, other: u64) -> u64 {
    let mut mixed = one.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(other);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 33)
}
