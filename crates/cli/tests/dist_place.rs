//! Where a release may be written: `tools/dist/place.sh`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn place(directory: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/dist/place.sh");
    Command::new("bash").arg(script).arg(directory).output().expect("bash can be started")
}

#[test]
fn a_release_is_written_only_where_nobody_else_can_put_links() {
    let directory = tempfile::tempdir().expect("a directory");
    let good = directory.path().join("a/b");
    let output = place(&good);
    assert!(output.status.success(), "{output:?}");
    let real = fs::canonicalize(&good).expect("it was made");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), real.to_string_lossy());

    let shared = directory.path().join("shared");
    fs::create_dir(&shared).expect("a directory");
    for mode in [0o777, 0o775, 0o1777] {
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("it is ours");
        let output = place(&shared);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("other users can change"), "{mode:o}: {output:?}");
    }
    // Below one that others may write without limits they can exchange it.
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("it is ours");
    assert!(!place(&shared.join("below")).status.success());
    assert!(!shared.join("below").exists(), "nothing was made there");
    // A link leads to where it leads.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&shared, &link).expect("a link");
    assert!(!place(&link).status.success());
}
