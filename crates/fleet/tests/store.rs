//! Whatever happens in whatever order, a reader sees each row once.
//!
//! Hosts write, late or in older forms or again; compactors run, are stopped before any effect, and run inside of each other; hours are
//! dropped. At every effect the rows that a reader gets are those of the model.

use std::rc::Rc;

use crate::world::{Event, Form, World};
use proptest::prelude::*;

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![4 => Just(Form::Today), 1 => Just(Form::Older), 1 => Just(Form::Newer), 1 => Just(Form::Wrong)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..3_u8, form(), 0..4_u8).prop_map(|(hour, form, rows)| Event::Write { hour, form, rows }),
        1 => any::<prop::sample::Index>().prop_map(|which| Event::CopyAgain { which }),
        4 => (prop::option::of(0..24_u32), prop::option::of(0..24_u32)).prop_map(|(other, stop)| Event::Compact { other, stop }),
        1 => (0..4_u8, prop::option::of(0..16_u32)).prop_map(|(keep, stop)| Event::Drop { keep, stop }),
        2 => (0..3_u8).prop_map(|hours| Event::Wait { hours }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_row_is_there_once(events in prop::collection::vec(event(), 1..24)) {
        let world = Rc::new(World::new());
        for event in &events {
            world.happen(event);
            world.check();
        }
        world.settle();
    }
}

/// The points at which a compactor can be stopped, one after another, with and without another that wants to begin meanwhile.
#[test]
fn a_compactor_may_stop_anywhere() {
    for other in [None, Some(3)] {
        for stop in (0..24).chain([99]) {
            let world = Rc::new(World::new());
            for host in 0..3 {
                world.happen(&Event::Write { hour: 0, form: Form::Today, rows: 1 + host });
            }
            world.happen(&Event::Compact { other: None, stop: None });
            world.happen(&Event::Write { hour: 0, form: Form::Older, rows: 2 });
            world.happen(&Event::Wait { hours: 2 });
            world.happen(&Event::Compact { other, stop: Some(stop) });
            world.check();
            world.happen(&Event::Write { hour: 0, form: Form::Newer, rows: 2 });
            world.settle();
        }
    }
}

/// A second compactor runs from begin to end while the first one makes what a new store lacks: neither fails.
#[test]
fn two_compactors_may_begin_in_a_new_store() {
    for other in 0..24 {
        let world = Rc::new(World::new());
        world.happen(&Event::Write { hour: 0, form: Form::Today, rows: 3 });
        world.happen(&Event::Compact { other: Some(other), stop: None });
        world.settle();
    }
}

/// A host copies a file again, long after it was merged and removed, and after more commits.
#[test]
fn a_merged_file_may_come_again() {
    let world = Rc::new(World::new());
    for _ in 0..2 {
        world.happen(&Event::Write { hour: 0, form: Form::Today, rows: 3 });
        for _ in 0..2 {
            world.happen(&Event::Compact { other: None, stop: None });
            world.happen(&Event::Wait { hours: 2 });
        }
    }
    assert_eq!(world.status().tables["blame_rollup"].superseded, 0, "both were removed");
    for _ in 0..2 {
        world.happen(&Event::CopyFirstAgain);
        world.check();
        world.happen(&Event::Compact { other: None, stop: None });
        world.check();
    }
    world.settle();
}

/// An hour of which only a file of a wrong type is left is dropped, and the run is stopped anywhere.
#[test]
fn dropping_a_file_of_a_wrong_type_may_stop_anywhere() {
    for stop in 0..24 {
        let world = Rc::new(World::new());
        world.happen(&Event::Write { hour: 2, form: Form::Today, rows: 0 });
        world.happen(&Event::Write { hour: 0, form: Form::Wrong, rows: 1 });
        world.happen(&Event::Drop { keep: 0, stop: Some(stop) });
        world.check();
        world.settle();
    }
}
