//! Decodes the bits of `sched_switch`'s `prev_state`, using the event's own `print fmt`.
//!
//! The bits moved several times (4.14 put the parked and idle states below the `+` bit; 5.x and 6.x differ in what they
//! report), so no fixed table is right for all kernels. The text has both things needed: `__print_flags(…, "|", { 0x01,
//! "S" }, …)` names the bits, and `REC->prev_state & EXPR ? "+" : ""` is the bit that the kernel sets for a task
//! preempted while runnable (`TASK_REPORT_MAX`).

use unstarve_model::{Comm, PrevState};

/// The meaning of each bit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateBits {
    named: Vec<(u64, PrevState)>,
    preempted: u64,
    /// The state of each value small enough to be an index here.
    small: Vec<PrevState>,
}

/// Since 4.14 the kernel reports one bit below this limit, or none.
const STATE_TABLE_SIZE: u64 = 1 << 9;

impl StateBits {
    /// Reads the table from `sched_switch`'s `print fmt`. Bits that the text does not name decode to
    /// [`PrevState::Unknown`].
    pub fn parse(print: &str) -> StateBits {
        let preempted = preempted_bit(print).unwrap_or(0);
        let mut bits = StateBits { named: named_bits(print), preempted, small: Vec::new() };
        bits.small = (0..STATE_TABLE_SIZE).map(|value| bits.look_up(value)).collect();
        bits
    }

    /// The state of a `prev_state` value.
    #[inline]
    pub fn decode(&self, value: u64) -> PrevState {
        let small = usize::try_from(value).ok().and_then(|value| self.small.get(value));
        small.copied().unwrap_or_else(|| self.look_up(value))
    }

    #[cold]
    fn look_up(&self, value: u64) -> PrevState {
        if value == 0 {
            return PrevState::Runnable;
        }
        if value & self.preempted != 0 {
            // Kernels before 4.14 or-ed the bit into the task's state: it was preempted all the same.
            return PrevState::Preempted;
        }
        let mut state = PrevState::Unknown;
        for &(bit, meaning) in &self.named {
            // Several bits: kernels before 4.14 reported raw states, such as `D|N` for an idle kernel thread.
            if value & bit == bit && (state == PrevState::Unknown || meaning == PrevState::Idle) {
                state = meaning;
            }
        }
        state
    }
}

/// The state of a bare number in a text that does not name its bits (`trace-cmd report -R`).
///
/// The bits below 64 mean the same in all kernels, as far as waits are concerned. 256 means "preempted" since 4.14 and
/// never occurs alone before. Older kernels used the bit above their highest state for it: 512 up to 3.8, 1024 from
/// 3.9, 2048 from 4.2, 4096 from 4.8. 512 became "parked" in 3.9, a state of per-CPU kernel threads only; 64 is
/// "parked" since 4.14 and "dead" before. Source: `TASK_STATE_TO_CHAR_STR` and `TASK_REPORT` in `include/linux/sched.h`
/// of each version.
pub fn of_bare_number(value: u64, comm: Comm) -> PrevState {
    const NO_LOAD: u64 = 1024;
    let of_one_cpu = || {
        let at = comm.as_bytes().iter().rposition(|&byte| byte == b'/');
        at.is_some_and(|at| comm.as_bytes()[at + 1..].first().is_some_and(u8::is_ascii_digit))
    };
    match value {
        0 => PrevState::Runnable,
        64 | 512 if of_one_cpu() => PrevState::Parked,
        256 | 512 | 1024 | 2048 | 4096 => PrevState::Preempted,
        128 => PrevState::Idle,
        _ if value & 2 != 0 && value & NO_LOAD != 0 => PrevState::Idle,
        _ if value & 1 != 0 => PrevState::Sleeping,
        _ if value & 2 != 0 => PrevState::Uninterruptible,
        _ if value & 0x0c != 0 => PrevState::Stopped,
        _ if value & 0x70 != 0 => PrevState::Dead,
        _ => PrevState::Unknown,
    }
}

fn meaning(letter: &str) -> PrevState {
    match letter {
        "S" => PrevState::Sleeping,
        "D" => PrevState::Uninterruptible,
        "I" | "N" => PrevState::Idle,
        "T" | "t" => PrevState::Stopped,
        "P" => PrevState::Parked,
        "X" | "x" | "Z" => PrevState::Dead,
        "R" => PrevState::Runnable,
        _ => PrevState::Unknown,
    }
}

/// A word has no more bits than this.
const MAX_NAMED: usize = 64;

fn named_bits(print: &str) -> Vec<(u64, PrevState)> {
    let Some((_, flags)) = print.split_once("__print_flags(") else { return Vec::new() };
    let mut named = Vec::new();
    let mut rest = flags;
    while let Some((_, pair)) = rest.split_once('{') {
        let Some((pair, after)) = pair.split_once('}') else { break };
        if let Some((number, letter)) = pair.split_once(',')
            && let Some(bit) = number.trim().parse_number()
            && bit != 0
            && named.len() < MAX_NAMED
        {
            named.push((bit, meaning(letter.trim().trim_matches('"'))));
        }
        rest = after;
        // The list ends with the call's parenthesis. Another list may follow for another field.
        if rest.trim_start().starts_with(')') {
            break;
        }
    }
    named
}

fn preempted_bit(print: &str) -> Option<u64> {
    let (before, _) = print.split_once("? \"+\"").or_else(|| print.split_once("?\"+\""))?;
    let (_, expression) = before.rsplit_once("REC->prev_state &")?;
    evaluate(expression)
}

trait ParseNumber {
    fn parse_number(&self) -> Option<u64>;
}

impl ParseNumber for str {
    fn parse_number(&self) -> Option<u64> {
        match self.strip_prefix("0x").or_else(|| self.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => self.parse().ok(),
        }
    }
}

/// Evaluates a constant C expression of `|`, `<<`, `+`, `-`, parentheses and numbers.
fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Expression { rest: text.trim(), depth: 0 };
    let value = parser.or()?;
    parser.rest.is_empty().then_some(value)
}

struct Expression<'a> {
    rest: &'a str,
    depth: u32,
}

impl Expression<'_> {
    /// Parentheses nest three deep in real formats. The limit protects the stack from hostile files.
    const MAX_DEPTH: u32 = 32;

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn or(&mut self) -> Option<u64> {
        let mut value = self.shift()?;
        while self.eat("|") {
            value |= self.shift()?;
        }
        Some(value)
    }

    fn shift(&mut self) -> Option<u64> {
        let mut value = self.sum()?;
        while self.eat("<<") {
            value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
        }
        Some(value)
    }

    fn sum(&mut self) -> Option<u64> {
        let mut value = self.atom()?;
        loop {
            if self.eat("+") {
                value = value.wrapping_add(self.atom()?);
            } else if self.eat("-") {
                value = value.wrapping_sub(self.atom()?);
            } else {
                return Some(value);
            }
        }
    }

    fn atom(&mut self) -> Option<u64> {
        if self.eat("(") {
            self.depth += 1;
            let value = if self.depth > Expression::MAX_DEPTH { None } else { self.or() }?;
            self.depth -= 1;
            return self.eat(")").then_some(value);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        number.trim_end_matches(['u', 'U', 'l', 'L']).parse_number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5.10, 6.1 and later (shortened where it does not matter).
    const SINCE_4_14: &str = r#""prev_state=%s%s", (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm"#;

    /// 4.9.
    const BEFORE_4_14: &str = r#""prev_state=%s%s", REC->prev_state & (4096-1) ? __print_flags(REC->prev_state & (4096-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K"}, { 256, "W" }, { 512, "P" }, { 1024, "N" }, { 2048, "n" }) : "R", REC->prev_state & 4096 ? "+" : "", REC->next_comm"#;

    #[test]
    fn bits_mean_what_the_files_own_format_says() {
        use PrevState::*;
        let new = StateBits::parse(SINCE_4_14);
        let shown: Vec<PrevState> =
            [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100].into_iter().map(|value| new.decode(value)).collect();
        assert_eq!(shown, [Runnable, Sleeping, Uninterruptible, Stopped, Stopped, Dead, Dead, Parked, Idle, Preempted]);

        let old = StateBits::parse(BEFORE_4_14);
        let shown: Vec<PrevState> =
            [0, 1, 2 | 128, 2 | 1024, 64, 512, 4096, 4097, 2048].into_iter().map(|value| old.decode(value)).collect();
        assert_eq!(shown, [Runnable, Sleeping, Uninterruptible, Idle, Dead, Parked, Preempted, Preempted, Unknown]);
    }

    #[test]
    fn a_format_without_the_table_leaves_the_state_unknown() {
        let none = StateBits::parse("");
        assert_eq!(none.decode(0), PrevState::Runnable);
        assert_eq!(none.decode(1), PrevState::Unknown);
        assert_eq!(none.decode(0x100), PrevState::Unknown);
    }

    #[test]
    fn bare_numbers_of_old_and_new_kernels() {
        use PrevState::*;
        let of = |value, comm: &str| of_bare_number(value, Comm::new(comm.as_bytes()));
        let shown: Vec<PrevState> = [0, 1, 2, 130, 1026, 4, 16, 32, 64, 128, 256, 1024, 4096, 1 << 40]
            .into_iter()
            .map(|value| of(value, "fio"))
            .collect();
        let dead = [Dead, Dead, Dead];
        assert_eq!(shown[..6], [Runnable, Sleeping, Uninterruptible, Uninterruptible, Idle, Stopped]);
        assert_eq!(shown[6..9], dead);
        assert_eq!(shown[9..], [Idle, Preempted, Preempted, Preempted, Unknown]);
        assert_eq!([of(64, "migration/3"), of(512, "watchdog/0"), of(512, "a/b")], [Parked, Parked, Preempted]);
    }

    #[test]
    fn expressions_follow_c_and_hostile_ones_end() {
        assert_eq!(evaluate("((1 | 2) + 1) << 1"), Some(8));
        assert_eq!(evaluate("4096-1"), Some(4095));
        assert_eq!(evaluate("1 << 64"), None);
        assert_eq!(evaluate("1 +"), None);
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
    }
}
