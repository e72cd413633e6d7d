//! Tests of decoding in child processes.

use arrow_array::cast::AsArray;
use unstarve_tables::{Cell, HOSTS, parquet_file};

use super::*;

/// A child that is a shell script: it reads questions as the real one does, and logs each start.
fn shell(starts: &std::path::Path, answers: &str) -> SandboxedDecode {
    let script = format!(
        r#"echo started >> "$0"
answer() {{
    read -r question || exit 0
    lengths=${{question#*\"files\":[}}
    lengths=${{lengths%%]*}}
    bytes=0
    for length in $(echo "$lengths" | tr , ' '); do bytes=$((bytes + length)); done
    head -c "$bytes" >/dev/null
    for line; do echo "$line"; done
}}
{answers}"#
    );
    let starts = starts.to_owned();
    SandboxedDecode::new(move || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).arg(&starts);
        command
    })
}

const FOUND: &str = r#"answer '{"found":[{"rows":1,"sum":"5","memory":8}]}'"#;

fn ask(apart: &SandboxedDecode) -> Result<u64, String> {
    apart.examine(&HOSTS, &Bytes::from_static(b"what a host wrote"), DecodeLimits::INPUT).map(|found| found.rows)
}

fn starts(path: &std::path::Path) -> usize {
    std::fs::read_to_string(path).expect("it was started").lines().count()
}

/// The result of each file: the sums of a run's files, or why one is refused.
fn rows(examine: &impl Examine, files: &[Bytes]) -> Vec<Result<Vec<u64>, String>> {
    let mut all = Vec::new();
    let asked = Asked { table: &HOSTS, files, most: DecodeLimits::INPUT, wants: Wants::Rows };
    examine.read(&asked, &|| true, &mut |answer| {
        all.push(answer.map(|run| run.files.iter().map(|file| file.sum.0).collect()));
        true
    });
    all
}

#[test]
fn a_file_that_ends_a_used_child_is_asked_of_a_new_one() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    // The first file uses up its room.
    let apart = shell(&noted, FOUND);
    assert_eq!([ask(&apart), ask(&apart), ask(&apart)], [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 3);
}

#[test]
fn a_used_childs_refusal_does_not_count() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, &format!("{FOUND}\nanswer '{{\"refused\":\"no room\"}}'\n{FOUND}"));
    assert_eq!([ask(&apart), ask(&apart)], [Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 2);
}

#[test]
fn what_a_new_child_says_counts_at_once() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, "answer '{\"refused\":\"column `ns` is Utf8\"}'");
    assert_eq!(ask(&apart), Err("column `ns` is Utf8".to_owned()));
    assert_eq!(starts(&noted), 1);
    let apart = shell(&noted, "exit 3");
    let why = ask(&apart).expect_err("refused");
    assert!(why.contains("ended the process") && why.contains("exit status: 3"), "{why}");
    assert_eq!(starts(&noted), 2);
}

#[test]
fn one_child_reads_many_files() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let apart = shell(&noted, &format!("{FOUND}\n{FOUND}\n{FOUND}"));
    assert_eq!([ask(&apart), ask(&apart), ask(&apart)], [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(starts(&noted), 1);
}

/// If a question with several files fails, the valid ones are kept. The rest is asked one by one, and a new child's answer is
/// final for each.
#[test]
fn a_file_that_ends_a_child_takes_no_other_file_along() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    // The first child answers for one file and exits. Of the later ones, the third file ends each that reads it.
    let script = r#"
case $(wc -l < "$0") in
1) answer '{"found":[{"rows":0,"sum":"1","memory":0}]}' ;;
2) answer '{"found":[{"rows":0,"sum":"2","memory":0}]}'; read -r question; exit 7 ;;
3) read -r question; exit 7 ;;
*) answer '{"found":[{"rows":0,"sum":"4","memory":0}]}' ;;
esac"#;
    let files = [b"1", b"2", b"3", b"4"].map(|file| Bytes::from_static(file));
    let found = rows(&shell(&noted, script), &files);
    assert_eq!((&found[..2], &found[3..]), (&[Ok(vec![1]), Ok(vec![2])][..], &[Ok(vec![4])][..]), "{found:?}");
    assert!(found[2].as_ref().is_err_and(|why| why.contains("exit status: 7")), "{found:?}");
    assert_eq!(starts(&noted), 4);
}

/// Rows that differ from the counted ones, and more answers than files, end a child like invalid output.
#[test]
fn a_child_that_answers_otherwise_than_it_was_asked_is_not_believed() {
    let place = tempfile::tempdir().expect("a place for files");
    let noted = place.path().join("starts");
    let two = r#"{"found":[{"rows":0,"sum":"1","memory":0},{"rows":0,"sum":"1","memory":0}]}"#;
    let files = [Bytes::from_static(b"a file")];
    for answer in [FOUND.to_owned(), format!("answer '{two}'"), "answer '{\"found\":[]}'".into(), "answer no".into()] {
        let found = rows(&shell(&noted, &answer), &files);
        assert!(found.len() == 1 && found[0].is_err(), "{answer}: {found:?}");
    }
}

/// Rows without a column: a few bytes can claim any number.
#[test]
fn a_child_gives_no_more_rows_than_it_was_asked_for() {
    use arrow_array::RecordBatchOptions;
    let place = tempfile::tempdir().expect("a place for files");
    let (noted, hollow) = (place.path().join("starts"), place.path().join("hollow"));
    for (rows, is_taken) in [(DecodeLimits::INPUT.rows, true), (DecodeLimits::INPUT.rows + 1, false)] {
        let schema = std::sync::Arc::new(arrow_schema::Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(rows as usize));
        let batch = RecordBatch::try_new_with_options(schema.clone(), Vec::new(), &options).expect("no column");
        let bytes = wire::encode(&schema, &[batch]).expect("memory");
        std::fs::write(&hollow, &bytes).expect("ours");
        let script = format!(
            r#"answer '{{"rows":{}}}'; cat '{}'; echo '{{"found":[{{"rows":{rows},"sum":"5","memory":0}}]}}'"#,
            bytes.len(),
            hollow.display()
        );
        let found = self::rows(&shell(&noted, &script), &[Bytes::from_static(b"a file")]);
        assert_eq!(found[0].is_ok(), is_taken, "{rows}: {found:?}");
    }
}

fn host(name: &str) -> Bytes {
    let bytes = parquet_file(&HOSTS, |rows| {
        let begin = [Cell::Text(name), Cell::Empty, Cell::Empty, 5.into(), Cell::Text("6.12")];
        rows.row(&[&begin[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat())
    });
    bytes.expect("it can be encoded").into()
}

/// Questions and answers with files of several sizes: all rows in their order, and the same sums as in this process.
#[test]
fn rows_come_back_as_they_are() {
    let names: Vec<String> = (0..40).map(|number| format!("host-{number}").repeat(1 + number % 3)).collect();
    let files: Vec<Bytes> = names.iter().map(|name| host(name)).collect();
    let question = Question {
        table: HOSTS.name.to_owned(),
        files: files.iter().map(Bytes::len).collect(),
        memory: DecodeLimits::INPUT.memory,
        rows: DecodeLimits::INPUT.rows,
        needed: DecodeLimits::INPUT.needed,
        seconds: 120,
        answer: Wants::Rows,
    };
    let mut asked = Vec::new();
    wire::write_line(&mut asked, &question).expect("memory");
    files.iter().for_each(|file| asked.extend_from_slice(file));
    let mut answered = Vec::new();
    crate::decode::serve::answer_without_limits(&asked[..], &mut answered).expect("it answers");

    let mut from = &answered[..];
    let (mut found, mut hosts) = (Vec::new(), Vec::new());
    while let Some(answer) = wire::read_line(&mut from).expect("an answer") {
        match answer {
            Answer::Rows(bytes) => {
                let (rows, rest) = from.split_at(bytes);
                for batch in wire::decode(rows.to_vec()).expect("rows") {
                    let names = batch.column_by_name("host").expect("a column").as_string::<i32>().clone();
                    hosts.extend(names.iter().flatten().map(str::to_owned));
                }
                from = rest;
            }
            Answer::Found(files) => found.extend(files),
            Answer::Refused(why) => panic!("{why}"),
        }
    }
    assert_eq!(hosts, names);
    let here: Vec<Examined> = files
        .iter()
        .map(|file| InProcessDecode.examine(&HOSTS, file, DecodeLimits::INPUT).expect("a good file"))
        .collect();
    assert_eq!(found, here);
}

/// Files are returned together while they have no more rows than one file may have.
#[test]
fn a_run_has_no_more_rows_than_a_file_may_have() {
    let files = ["a", "b", "c", "d", "e"].map(host);
    let question = Question {
        table: HOSTS.name.to_owned(),
        files: files.iter().map(Bytes::len).collect(),
        memory: DecodeLimits::INPUT.memory,
        rows: 2,
        needed: DecodeLimits::INPUT.needed,
        seconds: 120,
        answer: Wants::Rows,
    };
    let mut asked = Vec::new();
    wire::write_line(&mut asked, &question).expect("memory");
    files.iter().for_each(|file| asked.extend_from_slice(file));
    let mut answered = Vec::new();
    crate::decode::serve::answer_without_limits(&asked[..], &mut answered).expect("it answers");

    let (mut from, mut runs) = (&answered[..], Vec::new());
    while let Some(answer) = wire::read_line(&mut from).expect("an answer") {
        match answer {
            Answer::Rows(bytes) => from = &from[bytes..],
            Answer::Found(files) => runs.push(files.len()),
            Answer::Refused(why) => panic!("{why}"),
        }
    }
    assert_eq!(runs, [2, 2, 1]);
}

/// Rows of a large file are returned before the whole file is checked. The next file may have other columns, as during an
/// upgrade of hosts.
#[test]
fn files_with_other_columns_are_not_of_the_run_of_a_large_one() {
    let name = "h".repeat(600);
    let large = parquet_file(&HOSTS, |rows| {
        let begin = [Cell::Text(&name), Cell::Empty, Cell::Empty, 5.into(), Cell::Text("6.12")];
        let row = [&begin[..], &[Cell::Empty; 5], &[Cell::Text("0.1")]].concat();
        (0..8192).try_for_each(|_| rows.row(&row))
    });
    let large: Bytes = large.expect("it can be encoded").into();
    let newer = with_another_column(host("newer"));
    let question = Question {
        table: HOSTS.name.to_owned(),
        files: vec![large.len(), newer.len()],
        memory: DecodeLimits::INPUT.memory,
        rows: DecodeLimits::INPUT.rows,
        needed: DecodeLimits::INPUT.needed,
        seconds: 120,
        answer: Wants::Rows,
    };
    let mut asked = Vec::new();
    wire::write_line(&mut asked, &question).expect("memory");
    [&large, &newer].iter().for_each(|file| asked.extend_from_slice(file));
    let mut answered = Vec::new();
    crate::decode::serve::answer_without_limits(&asked[..], &mut answered).expect("it answers");

    let (mut from, mut columns, mut runs) = (&answered[..], Vec::new(), Vec::new());
    while let Some(answer) = wire::read_line(&mut from).expect("an answer") {
        match answer {
            Answer::Rows(bytes) => {
                let (rows, rest) = from.split_at(bytes);
                columns.extend(wire::decode(rows.to_vec()).expect("rows").iter().map(|batch| batch.num_columns()));
                from = rest;
            }
            Answer::Found(files) => runs.push((files.len(), std::mem::take(&mut columns))),
            Answer::Refused(why) => panic!("{why}"),
        }
    }
    let usual = HOSTS.columns.len();
    assert_eq!(runs, [(1, vec![usual]), (1, vec![usual + 1])]);
}

/// The same file as a newer version might write it.
fn with_another_column(file: Bytes) -> Bytes {
    let batches = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("a good file");
    let batch = batches.build().expect("a good file").next().expect("a row").expect("a row");
    let more = (
        std::sync::Arc::new(arrow_schema::Field::new("more", arrow_schema::DataType::Utf8, true)),
        arrow_array::new_null_array(&arrow_schema::DataType::Utf8, batch.num_rows()),
    );
    let fields: Vec<_> = batch.schema().fields().iter().cloned().chain([more.0]).collect();
    let schema = arrow_schema::Schema::new_with_metadata(fields, batch.schema().metadata().clone());
    let columns = batch.columns().iter().cloned().chain([more.1]).collect();
    let batch = arrow_array::RecordBatch::try_new(std::sync::Arc::new(schema), columns).expect("columns of one length");
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("memory");
    writer.write(&batch).expect("memory");
    writer.close().expect("memory");
    bytes.into()
}
