//! Tests of what is on the disk after a crash.

use std::process::Command;

use super::*;

/// Set in the process that runs under strace(1).
const TRACED: &str = "UNSTARVE_TRACED_STORE";

/// Keeps an episode as a watch does, and explains it.
fn keep_and_explain(path: &Path) {
    let store = Store::open(path, LIMITS).expect("a store");
    let unfinished = store.begin(&episode(1), 10_u64).expect("begun");
    fs::write(unfinished.trace(), [7; 10]).expect("written");
    let whole = Episode { trace_bytes: Some(10), ..episode(1) };
    unfinished.finish(&store, &whole, &[episode(2)]).expect("finished");
    store.note(&whole).expect("noted");
    store.logbook().add(&whole).expect("logged");
    store.outbox().note(&Unsent { words: vec![whole], ..Unsent::default() }).expect("noted");
}

/// Operations in the store, in order: `fsync NAME`, `rename NAME`. Generated names are shown as `*`.
fn effects(calls: &str, path: &Path) -> Vec<String> {
    let inside = |text: &str| {
        let name = text.strip_prefix(path.to_str()?)?.trim_start_matches('/');
        let last = name.rsplit('/').next().unwrap_or_default();
        let is_made_up = last.starts_with(unstarve_files::target::UNFINISHED_PREFIX);
        Some(if is_made_up { format!("{}*", name.strip_suffix(last)?) } else { name.to_owned() })
    };
    let effect = |line: &str| {
        // `12 fsync(4</store/x>) = 0`, `12 renameat(4</store>, "a", 4</store>, "b") = 0`, `12 rename("/store/a", "/store/b") = 0`
        let (call, _) = line.strip_suffix(" = 0")?.trim_end().rsplit_once(')')?;
        let (head, arguments) = call.split_once('(')?;
        let name = head.rsplit(' ').next()?;
        let within = |text: &str| {
            text.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| path.to_owned())
        };
        let to = arguments.rsplit('"').nth(1).map(str::to_owned);
        match name {
            "fsync" | "fdatasync" => Some(format!("sync {}", inside(&within(arguments)?)?)),
            "rename" => Some(format!("name {}", inside(&to?)?)),
            "renameat" | "renameat2" => {
                let directory = within(
                    arguments
                        .rsplit_once(", \"")
                        .map_or(arguments, |(before, _)| before.rsplit(' ').next().unwrap_or(before)),
                )?;
                Some(format!("name {}", inside(&format!("{directory}/{}", to?))?))
            }
            _ => None,
        }
    };
    calls.lines().filter_map(effect).collect()
}

/// A crash loses what was not synced: so the order of the system calls is tested.
#[test]
fn all_of_an_episode_is_on_the_disk_before_it_has_its_name() {
    if let Ok(path) = std::env::var(TRACED) {
        return keep_and_explain(Path::new(&path));
    }
    let (around, path) = place();
    let calls = around.path().join("calls");
    let this = std::env::current_exe().expect("this program");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-y", "-qq", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-e", "signal=none", "-o"])
        .arg(&calls);
    let test = "agent::store::tests::durable::all_of_an_episode_is_on_the_disk_before_it_has_its_name";
    let ran = strace.arg(this).args(["--exact", test]).env(TRACED, &path).output();
    match ran {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return unstarve_testing::not_possible_here("no strace");
        }
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("PTRACE") => {
            return unstarve_testing::not_possible_here("no ptrace");
        }
        ran => assert!(ran.expect("strace runs").status.success()),
    }
    let calls = fs::read_to_string(calls).expect("calls");
    let id = episode(1).id;
    let expected = [
        "sync .new-ID/trace.dat",
        "sync .new-ID/*",
        "name .new-ID/episode.json",
        "sync .new-ID/*",
        "name .new-ID/along.json",
        "sync .new-ID",
        "name ID",
        "sync ",
        // Explained, with the names of its report.
        "sync ID/*",
        "name ID/episode.json",
        "sync ID",
        // The log, which is new.
        "sync ",
        "sync episodes.jsonl",
        "name ID/logged",
        "sync *",
        "name unsent.json",
        "sync ",
    ];
    let expected: Vec<String> = expected.iter().map(|effect| effect.replace("ID", &id)).collect();
    assert_eq!(effects(&calls, &path), expected, "{calls}");
}

fn tear(store: &Path, id: &str, name: &str, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(store.join(id).join(name)).expect("there");
    file.set_len(bytes).expect("cut");
}

/// A store as an earlier version left it, which did not sync everything, or a disk that drops data that it has confirmed.
#[test]
fn what_is_half_there_at_the_start_is_unfinished_and_said() {
    let (_around, path) = place();
    let store = Store::open(&path, Limits { episodes: 20, ..LIMITS }).expect("a store");
    assert_eq!(store.torn(), [] as [&str; 0]);
    let unexplained = |number: u64| {
        let unfinished = store.begin(&episode(number), 10_u64).expect("begun");
        fs::write(unfinished.trace(), [7; 10]).expect("written");
        let whole = Episode { trace_bytes: Some(10), ..episode(number) };
        unfinished.finish(&store, &whole, &[]).expect("finished");
        store.logbook().add(&episode(number).announced()).expect("begun");
        whole.id
    };
    let [whole, no_trace, half, no_description, half_description] = [1, 2, 3, 4, 5].map(unexplained);
    fs::remove_file(path.join(&no_trace).join(TRACE)).expect("removed");
    tear(&path, &half, TRACE, 9);
    fs::remove_file(path.join(&no_description).join(EPISODE)).expect("removed");
    tear(&path, &half_description, EPISODE, 30);
    // Logged episodes are not removed: their remains may be useful.
    let told = [6, 7].map(|number| keep(&store, number, 10).expect("kept"));
    tear(&path, &told[0], TRACE, 0);
    fs::remove_file(path.join(&told[1]).join(TRACE)).expect("removed by hand");
    drop(store);

    let store = Store::open(&path, LIMITS).expect("a store");
    let stopped = "the machine stopped before they were on the disk";
    let removed = [&no_trace, &half, &no_description, &half_description].map(String::as_str).join(", ");
    let expected =
        [format!("removed, not whole: {stopped}: {removed}"), format!("not whole, because {stopped}: {}", told[0])];
    assert_eq!(store.torn(), expected);
    let left = store.unexplained().expect("read");
    let ids: Vec<&str> = left.iter().map(|left| left.episode.id.as_str()).collect();
    assert_eq!(ids, [&whole, &no_trace, &half, &no_description, &half_description]);
    assert!(left[0].episode.problem.is_none(), "it is explained");
    let problems = left[1..].iter().filter_map(|left| left.episode.problem.as_deref());
    assert_eq!(problems.filter(|problem| problem.starts_with("no trace")).count(), 4, "the log ends with them");
}
