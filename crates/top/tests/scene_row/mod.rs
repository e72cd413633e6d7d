//! What `top FILE` shows of a task at the end of a recording, all of which is in its window.

use unstarve_diagnose::{Recent, timeline};
use unstarve_model::{Batch, EventSource, Nanos};
use unstarve_readers::{Input, open_input};
use unstarve_timeline::Both;
use unstarve_top::{App, Row, View, ViewContext, Window};

pub fn source(text: &str) -> Box<dyn EventSource> {
    let text = Box::new(std::io::Cursor::new(text.to_owned().into_bytes()));
    open_input(Input::from_stream(text, "scene".into()).expect("text")).expect("text of ftrace")
}

pub fn row(text: &str, tid: u32) -> Option<Row> {
    let length = Nanos::from_millis(60_000);
    let mut source = source(text);
    let mut batch = Batch::default();
    let mut parts = None;
    while source.read(&mut batch).expect("it can be read") {
        let (timeline, window, recent) = parts
            .get_or_insert_with(|| (timeline(source.info()), Window::new(length), Recent::new(source.info(), length)));
        timeline.names(batch.names.drain(..));
        for event in &batch.events {
            timeline.push(event, &mut Both(&mut *window, &mut *recent));
        }
    }
    let (timeline, mut window, mut recent) = parts.expect("events");
    let nothing = ViewContext::nothing();
    let beside = ViewContext { findings: recent.findings(&timeline, nothing.is_runnable), ..nothing };
    let view = View::of(&mut window, &timeline, &App::default(), "scene", beside);
    view.all.into_iter().find(|row| row.tid == Some(tid))
}
