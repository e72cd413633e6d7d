//! Man pages and completions are made from the same definition as the help.

use std::process::Command;

fn unstarve(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_unstarve")).args(arguments).output().expect("it can be started");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Each page's file and the words of its command.
fn pages() -> Vec<(String, Vec<String>)> {
    let list = unstarve(&["generate", "pages"]);
    list.lines()
        .map(|line| {
            let (file, words) = line.split_once('\t').expect("a file, a tab and words");
            (file.to_owned(), words.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

/// Long options that a help lists: at the beginning of its lines, maybe after a short one.
fn options(help: &str) -> Vec<String> {
    help.lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let line = line.split_once(", ").filter(|(short, _)| short.len() == 2).map_or(line, |(_, long)| long);
            let name = line.strip_prefix("--")?;
            Some(
                name.split(|end: char| !end.is_ascii_lowercase() && !end.is_ascii_digit() && end != '-')
                    .next()?
                    .to_owned(),
            )
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn each_command_has_a_man_page_with_all_options_of_its_help() {
    let pages = pages();
    for wanted in ["unstarve.1", "unstarve-explain.1", "unstarve-watch-episodes.1", "unstarve-lab-kernel-add.1"] {
        assert!(pages.iter().any(|(file, _)| file == wanted), "{wanted} is not in {pages:?}");
    }
    assert!(pages.iter().all(|(file, _)| !file.contains("lab-load") && !file.contains("generate")), "hidden ones are");
    for (file, words) in &pages {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let page = unstarve(&[&["generate", "man"], words.as_slice()].concat());
        let name = file.strip_suffix(".1").expect("of section 1");
        assert!(page.contains(&format!(".TH {name} 1 ")), "{file} is titled otherwise: {page}");
        // Everything after `sql` goes to another program, `--help` included.
        if words == ["sql"] {
            continue;
        }
        let help = unstarve(&[words.as_slice(), &["--help"]].concat());
        for option in options(&help) {
            let written = format!("--{option}").replace('-', "\\-");
            assert!(page.contains(&written), "--{option} is not in {file}");
        }
    }
}

#[test]
fn a_page_of_nothing_is_refused() {
    for words in [["nothing"], ["lab-load"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_unstarve"))
            .args(["generate", "man"])
            .args(words)
            .output()
            .expect("it can be started");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no command of unstarve"), "{words:?}");
    }
}

#[test]
fn bash_completes_commands_by_it() {
    let bash = |script: &str, input: &str| {
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", script, "bash", input]).output()
    };
    let script = r#"eval "$1"; COMP_WORDS=(unstarve watch epi) COMP_CWORD=2
        _unstarve unstarve epi watch; echo "${COMPREPLY[@]}""#;
    match bash(script, &unstarve(&["generate", "bash"])) {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "episodes", "{output:?}"),
        Err(_) => unstarve_testing::not_possible_here("no bash"),
    }
    for shell in ["fish", "zsh"] {
        assert!(unstarve(&["generate", shell]).contains("episodes"), "{shell}");
    }
}
