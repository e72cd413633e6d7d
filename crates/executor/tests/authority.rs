//! Who may have what changed on whose word: each row of the table in `authority.rs`, tried by a plan on a host in memory; and each
//! claim of a recording against what the host shows.

use unstarve_change::{Change, Selector, Target, Thread, Value};
use unstarve_executor::authority::{Author, Authority, Named, Thing};
use unstarve_executor::claim::{Contradiction, Direction, Live, Verdict, compare};
use unstarve_executor::plan::{Ids, Look, Obstacle, plan, refusals_to_print};
use unstarve_model::{SchedPolicy, Tid};
use unstarve_testing::fake_host::FakeHost;

/// Who could have written the recording.
const AUTHOR: u32 = 1001;
const SOMEBODY: u32 = 1002;
const GROUP: &str = "/sys/fs/cgroup/g";
const WEIGHT: &str = "/sys/fs/cgroup/g/cpu.weight";
const SYSCTL: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The rows of the documentation: what is changed, to what, and what each author needs.
fn rows() -> Vec<[String; 4]> {
    let text = include_str!("../src/authority.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.map(|row| row.trim_end_matches(" |").split(" | ").map(str::to_owned).collect::<Vec<_>>());
    cells.skip(1).map(|cells| cells.try_into().expect("four cells")).collect()
}

fn fifo() -> Value {
    Value::Class { policy: SchedPolicy::Fifo, rt_priority: 9, slice: None }
}

/// A host, a change of it that is what a row says, and what names its subject.
struct Case {
    host: FakeHost,
    change: Change,
    thing: Thing,
}

fn case(what: &str, to: &str) -> Case {
    let value = match to {
        "before all ordinary tasks" => fifo(),
        "more" => Value::Nice(-5),
        "no more" => Value::Nice(5),
        "within its bounds" => Value::content("900000"),
        other => panic!("{other}"),
    };
    let is_theirs = what.ends_with("of who could have written it");
    let thread = |host: FakeHost| {
        let change =
            Change::of(Target::Thread(Thread { start: Some(70), ..Thread::known_by(Tid(7), "x") }), value.clone());
        Case { host, change, thing: Thing::Task(Tid(7)) }
    };
    match what {
        "a kernel thread" => thread(FakeHost::default().kernel_thread(7, 70, "x")),
        "a program" | "another program" => thread(FakeHost::default().program(7, 70, "x").of_user(7, SOMEBODY)),
        "a program of who could have written it" => thread(FakeHost::default().program(7, 70, "x").of_user(7, AUTHOR)),
        "a program of another host, in print" => thread(FakeHost::default()),
        "a setting of the machine" => Case {
            host: FakeHost::default().file(SYSCTL, "950000"),
            change: Change::of(Target::File { path: SYSCTL.to_owned() }, value),
            thing: Thing::Task(Tid(1)),
        },
        "a cgroup" | "another cgroup" | "a cgroup of who could have written it" => Case {
            host: FakeHost::default().file(WEIGHT, "100").owned_by(GROUP, if is_theirs { AUTHOR } else { SOMEBODY }),
            change: Change::file(WEIGHT, if to == "more" { "200" } else { "50" }),
            thing: Thing::Group(GROUP.to_owned()),
        },
        other => panic!("{other}"),
    }
}

/// The least that has to be named, in the words of the table.
fn least(case: &Case, what: &str, author: Author) -> &'static str {
    let other = [Thing::Task(Tid(8)), Thing::Group("/sys/fs/cgroup".to_owned())];
    let allows = |named: Named| {
        let in_print = what.ends_with("in print");
        let ids = if in_print { Ids::AreStrange } else { Ids::Hold };
        let (authority, changes) = (Authority { ids, author, named }, std::slice::from_ref(&case.change));
        let to_print = refusals_to_print(&plan(&case.host, changes, "", &authority), &authority);
        if in_print {
            return to_print.is_empty();
        }
        let planned = plan(&case.host, changes, "test", &authority).remove(0);
        assert_eq!(planned.steps.is_empty(), planned.obstacle.is_some(), "{what}: {:?}", planned.obstacle);
        assert_eq!(to_print.is_empty(), planned.obstacle.is_none(), "what is not done is not printed: {to_print:?}");
        planned.obstacle.is_none()
    };
    if allows(Named::Nothing) {
        "by default"
    } else if allows(Named::Remedy(other.to_vec())) {
        "if the remedy is named"
    } else if allows(Named::Remedy(vec![case.thing.clone()])) {
        if what.contains("cgroup") { "if the group is named, too" } else { "if the thread is named, too" }
    } else {
        "refused"
    }
}

#[test]
fn each_row_of_the_table_is_what_a_plan_does() {
    let rows = rows();
    assert!(rows.len() >= 13, "{rows:?}");
    for [what, to, trusted, untrusted] in &rows {
        let case = case(what, to);
        assert_eq!(least(&case, what, Author::Trusted), trusted, "trusted: {what}: {to}");
        assert_eq!(least(&case, what, Author::User(AUTHOR)), untrusted, "{what}: {to}");
        // Of nobody in particular nothing is theirs.
        let anybody = match untrusted.as_str() {
            "if the remedy is named" if what.ends_with("of who could have written it") && what.contains("cgroup") => {
                "if the group is named, too"
            }
            "if the remedy is named" if what.ends_with("of who could have written it") => "if the thread is named, too",
            same => same,
        };
        assert_eq!(least(&case, what, Author::Anybody), anybody, "{what}: {to}");
    }
}

#[test]
fn root_s_own_tasks_are_nobody_s_who_wrote_a_recording() {
    let lower = case("a program", "no more").change;
    let host = FakeHost::default().program(7, 70, "x");
    let of = |author| {
        let authority = Authority { ids: Ids::Hold, author, named: Named::Remedy(Vec::new()) };
        plan(&host, std::slice::from_ref(&lower), "test", &authority).remove(0).obstacle.map(|why| why.to_string())
    };
    let expected = "x (task 7), uid 0: nice 0 -> nice 5: uid 1001 could have written this into the recording; name it to \
                    allow it: --remedy N --target 7";
    assert_eq!(of(Author::User(AUTHOR)).as_deref(), Some(expected));
    assert!(of(Author::Anybody).is_some_and(|why| why.contains("anybody could have written this")));
    assert_eq!(of(Author::Trusted), None);
}

#[test]
fn a_process_is_named_for_all_its_threads_and_a_session_by_its_thread() {
    let host = FakeHost::default().program(7, 70, "x").of_user(7, SOMEBODY).in_session(7, 3, 0);
    let thread = Thread { start: Some(70), ..Thread::known_by(Tid(7), "x") };
    for target in [Target::Threads(Selector::Process(thread.clone())), Target::Session(thread)] {
        let change = Change::of(target, Value::Nice(-5));
        let with = |things: &[Thing]| {
            let authority =
                Authority { ids: Ids::Hold, author: Author::User(AUTHOR), named: Named::Remedy(things.to_vec()) };
            let planned = plan(&host, std::slice::from_ref(&change), "test", &authority).remove(0);
            (planned.obstacle.map(|why| why.to_string()), planned.users.get(&Tid(7)).copied())
        };
        let (why, _) = with(&[Thing::Task(Tid(8))]);
        assert!(why.as_ref().is_some_and(|why| why.contains("--target 7")), "{why:?}");
        assert_eq!(with(&[Thing::Task(Tid(7))]), (None, Some(SOMEBODY)));
    }
}

#[test]
fn what_may_be_named_is_a_number_or_a_directory() {
    assert_eq!("812".parse(), Ok(Thing::Task(Tid(812))));
    assert_eq!("/sys/fs/cgroup/g/".parse(), Ok(Thing::Group("/sys/fs/cgroup/g".to_owned())));
    for name in ["postgres", "", "0", "-1", "g/x"] {
        assert!(name.parse::<Thing>().is_err_and(|why| why.contains("names are taken by anybody")), "{name:?}");
    }
}

#[test]
fn more_of_a_cgroup_is_more_by_each_of_its_files() {
    for (file, old, new, is_more) in [
        ("cpu.weight", "100", "200", true),
        ("cpu.weight", "200", "100", false),
        ("cpu.shares", "1024", "2048", true),
        ("cpu.max", "5000 10000", "max 100000", true),
        ("cpu.max", "max 100000", "5000 10000", false),
        ("cpu.max", "50000 100000", "20000 20000", true),
        ("cpu.cfs_quota_us", "-1", "1000", false),
        ("cpu.cfs_quota_us", "1000", "-1", true),
        ("cpu.idle", "1", "0", true),
        ("cpu.idle", "0", "1", false),
        // What cannot be compared counts as more.
        ("cpu.max", "50000 0", "20000 20000", true),
        ("cpu.cfs_period_us", "100000", "200000", true),
    ] {
        let path = format!("{GROUP}/{file}");
        let host = FakeHost::default().file(&path, old).owned_by(GROUP, AUTHOR);
        let change = Change::file(&path, new);
        let authority = Authority { ids: Ids::Hold, author: Author::User(AUTHOR), named: Named::Remedy(Vec::new()) };
        let obstacle = plan(&host, &[change], "test", &authority).remove(0).obstacle;
        assert_eq!(obstacle.is_some(), is_more, "{file}: {old} -> {new}: {obstacle:?}");
    }
}

#[test]
fn each_claim_is_compared_with_the_live_thread() {
    use Contradiction::{Another, Kernel, Program, ProgramByName, Renamed, User};
    use Verdict::{Agreed, Unknown};
    let refused = Verdict::Refused;
    let program = |comm: &str| Live { start: 70, comm: comm.to_owned(), is_kernel: false, user: Some(SOMEBODY) };
    let kernel = |comm: &str| Live { start: 70, comm: comm.to_owned(), is_kernel: true, user: Some(0) };
    let named = |comm: &str| Thread::known_by(Tid(7), comm);
    let claim = |comm: &str, is_kernel: Option<bool>, user: Option<u32>| Thread {
        start: Some(70),
        kernel_thread: is_kernel,
        user,
        ..named(comm)
    };
    let later = |thread: Thread| Thread { start: Some(71), ..thread };
    // Claim, host, verdict where it would be raised, and otherwise.
    for (claims, live, raised, otherwise) in [
        (claim("db", Some(false), Some(SOMEBODY)), program("db"), Agreed, Agreed),
        (claim("db", None, None), program("db"), Unknown, Unknown),
        (later(claim("db", Some(false), Some(SOMEBODY))), program("db"), refused(Another), refused(Another)),
        (named("db"), program("db"), Unknown, Unknown),
        (named("db"), program("other"), refused(Another), refused(Another)),
        (claim("ksoftirqd/1", Some(true), None), kernel("ksoftirqd/1"), Unknown, Unknown),
        (claim("ksoftirqd/1", Some(true), None), program("ksoftirqd/1"), refused(Program), refused(Program)),
        (claim("x", Some(false), None), kernel("x"), refused(Kernel), refused(Kernel)),
        (named("ksoftirqd/1"), kernel("ksoftirqd/1"), Unknown, Unknown),
        (named("ksoftirqd/1"), program("ksoftirqd/1"), refused(ProgramByName), Unknown),
        (claim("db", None, Some(0)), program("db"), refused(User { was: 0, now: SOMEBODY }), Unknown),
        (claim("db", Some(false), Some(SOMEBODY)), program("evil"), refused(Renamed), Unknown),
        // A worker's name says what it works on.
        (claim("kworker/0:1", Some(true), None), kernel("kworker/0:1-events"), Unknown, Unknown),
    ] {
        assert_eq!(compare(&claims, &live, Direction::Raised), raised, "{claims:?} {live:?}");
        assert_eq!(compare(&claims, &live, Direction::Otherwise), otherwise, "{claims:?} {live:?}");
    }
}

#[test]
fn what_the_host_contradicts_is_refused_whatever_is_named() {
    let host = FakeHost::default()
        .program(7, 70, "ksoftirqd/1")
        .of_user(7, AUTHOR)
        .kernel_thread(8, 80, "x")
        .program(9, 90, "db")
        .of_user(9, SOMEBODY);
    let thread = |tid: u32, comm: &str, is_kernel, user| Thread {
        start: Some(u64::from(tid) * 10),
        kernel_thread: is_kernel,
        user,
        ..Thread::known_by(Tid(tid), comm)
    };
    let lower = Value::Nice(5);
    for (thread, value, reason) in [
        (
            thread(7, "ksoftirqd/1", Some(true), None),
            fifo(),
            "is a program, and the recording says that it is a kernel",
        ),
        (thread(7, "ksoftirqd/1", Some(true), None), lower.clone(), "is a program, and the recording says"),
        (thread(7, "ksoftirqd/1", None, None), fifo(), "calls itself ksoftirqd/1"),
        (thread(8, "x", Some(false), None), lower, "is a kernel thread, and the recording says that it is a program"),
        (thread(9, "db", Some(false), Some(0)), Value::Nice(-5), "runs for uid 1002, and the recording says for uid 0"),
        (thread(9, "was", Some(false), None), Value::Nice(-5), "is called db, and was was when it was recorded"),
    ] {
        let named = Named::Remedy([7, 8, 9].map(|tid| Thing::Task(Tid(tid))).to_vec());
        for author in [Author::Trusted, Author::User(AUTHOR), Author::Anybody] {
            let authority = Authority { ids: Ids::Hold, author, named: named.clone() };
            for target in [Target::Thread(thread.clone()), Target::Threads(Selector::Process(thread.clone()))] {
                let change = Change::of(target, value.clone());
                let obstacle = plan(&host, std::slice::from_ref(&change), "test", &authority).remove(0).obstacle;
                let said = obstacle.as_ref().map(Obstacle::to_string).unwrap_or_default();
                assert!(said.contains(reason), "{reason}: {said}");
                let to_print = refusals_to_print(&plan(&host, &[change], "", &authority), &authority);
                assert!(to_print.iter().any(|why| why.to_string() == said), "{to_print:?}");
            }
        }
    }
}

/// `apply` asks whose a directory is before it writes there, and a write follows links.
#[test]
fn a_link_does_not_make_another_ones_directory_ones_own() {
    if !rustix::process::geteuid().is_root() {
        return unstarve_testing::not_possible_here("only root gives a link to somebody else");
    }
    let place = tempfile::tempdir().expect("a directory");
    let (group, link) = (place.path().join("group"), place.path().join("link"));
    std::fs::create_dir(&group).expect("made");
    std::os::unix::fs::symlink(&group, &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).expect("given away");
    let file = link.join("cpu.shares").display().to_string();
    assert_eq!(unstarve_executor::host::ThisHost.owner_of_directory(&file), Some(0));
}
