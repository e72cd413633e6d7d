//! Writes the product of the verdict's axes as ftrace texts into a directory: `cargo run --example verdict_scenes -- DIRECTORY`.

use std::path::PathBuf;

use unstarve_testing::verdict_scene::{
    DEADLINE, EQUAL, HEAVY, HIGHER, HOG, HOUSEKEEPING, IDLE, LAST, LAST_TOO, PEER, PROGRAMS, REAL_TIME, SERVING,
    Scenario, Task, behind_a_crowd, beside_another_idle_cpu, interrupted_by_packets, limited, on_a_stopped_cpu,
    pushed_off,
};

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("a directory to write to"));
    std::fs::create_dir_all(&directory)?;
    for (name, text) in scenes() {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = directory.join(name + ".txt");
        assert!(!path.exists(), "two scenes have one name: {}", path.display());
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Who waits × behind whom × for how long × ended, not ended, or ended with a program that slept for it; and the scenes of causes that
/// take more than two tasks.
fn scenes() -> Vec<(String, String)> {
    let kinds: [(&str, &[Task]); 5] = [
        ("serving", &SERVING),
        ("housekeeping", &HOUSEKEEPING),
        ("real-time", &REAL_TIME),
        ("program", &PROGRAMS),
        ("last", &LAST),
    ];
    let mut scenes = Vec::new();
    for (kind, victim) in kinds.iter().flat_map(|(kind, tasks)| tasks.iter().map(move |task| (kind, *task))) {
        for occupant in [HOG, HIGHER, EQUAL, HEAVY, PEER, DEADLINE, LAST_TOO, IDLE] {
            for ms in [20, 300, 20_000] {
                for (is_open, has_payer) in [(false, false), (true, false), (false, true)] {
                    let scenario = Scenario { victim, occupant, ms, is_open, has_payer };
                    scenes.push((format!("{kind} {}", scenario.name()), scenario.text()));
                }
            }
        }
        for ms in [60, 3_000] {
            let mut add =
                |cause: &str, text: String| scenes.push((format!("{kind} {} {cause} {ms} ms", victim.comm), text));
            add("pushed off", pushed_off(victim, EQUAL, ms));
            add("behind a crowd", behind_a_crowd(victim, ms));
            add("limited", limited(victim, ms));
            add("on a stopped cpu", on_a_stopped_cpu(victim, EQUAL, ms));
            add("interrupted by a device", interrupted_by_packets(victim, ms, true));
            add("interrupted by its own packets", interrupted_by_packets(victim, ms, false));
            add("beside another idle cpu", beside_another_idle_cpu(victim, HOG, ms));
        }
    }
    scenes
}
