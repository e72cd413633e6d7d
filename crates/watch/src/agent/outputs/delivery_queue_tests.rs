//! Tests of queues with retries and a deadline.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

fn word(id: &str) -> Message {
    Message::Episode(Arc::new(Episode { id: id.to_owned(), ..Episode::default() }))
}

fn queue_until(until: Option<Instant>) -> Queue {
    let waiting = Waiting { until, ..Waiting::default() };
    Queue { output: WEBHOOK, waiting: Mutex::new(waiting), changed: Condvar::new() }
}

#[test]
fn what_may_help_is_tried_again_and_the_rest_is_not() {
    let queue = queue_until(None);
    let fared = |deliver: &mut dyn FnMut() -> Tried| {
        let fared = queue.persist(&word("a"), &mut |_: &Message, _| deliver(), Duration::ZERO);
        match fared {
            Fared::Delivered => None,
            Fared::GivenUp(why) => Some(why),
            Fared::Left => panic!("nothing ends"),
        }
    };
    let mut tries = 0;
    let later = || Tried::Later("busy".into());
    assert_eq!(
        fared(&mut || {
            tries += 1;
            if tries < 3 { later() } else { Tried::Done }
        }),
        None
    );
    assert_eq!(tries, 3);
    let mut tries = 0;
    let refused = fared(&mut || {
        tries += 1;
        Tried::Refused("no".into())
    });
    assert_eq!((refused.as_deref(), tries), (Some("no"), 1));
    assert_eq!(fared(&mut || later()).as_deref(), Some("busy"));
}

/// The message of an attempt, and its time limit.
type Try = (String, Duration);

/// A queue with the outcome of each attempt decided by the test.
fn queue() -> (DeliveryQueue, Deliveries, Receiver<Try>, Sender<Tried>) {
    let (tries, tried) = channel();
    let (answers, answer) = channel();
    let queue = DeliveryQueue::start(WEBHOOK, Arc::new(Board::default()), move |word: &Message, within| {
        let _ = tries.send((word.episode().expect("an episode").id.clone(), within));
        answer.recv().unwrap_or(Tried::Later("gone".into()))
    });
    let (queue, deliveries) = (queue.expect("a thread"), Deliveries::default());
    deliveries.add(&queue);
    (queue, deliveries, tried, answers)
}

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn how_an_output_of_a_former_configuration_fares_is_no_problem() {
    let (queue, mut published) = (queue_until(None), Published::default());
    queue.note(&mut published, Some("refused".into()));
    assert_eq!(published.problems.get(WEBHOOK).map(String::as_str), Some("webhook: refused"));
    queue.replace();
    queue.note(&mut published, None);
    assert!(published.problems.contains_key(WEBHOOK), "it says nothing of the one that holds");
    published.problems.clear();
    queue.note(&mut published, Some("refused".into()));
    assert!(published.problems.is_empty());
    assert_eq!(published.counts.undelivered.get(WEBHOOK), Some(&2), "what is lost is counted");
}

#[test]
fn all_but_those_of_the_newest_configuration_are_replaced() {
    let deliveries = Deliveries::default();
    let queues: Vec<_> =
        (0..3).map(|_| DeliveryQueue::start(WEBHOOK, Arc::default(), |_: &Message, _| Tried::Done)).collect();
    let queues: Vec<_> = queues.into_iter().map(|queue| queue.expect("a thread")).collect();
    queues.iter().for_each(|queue| deliveries.add(queue));
    let former = || queues.iter().map(|queue| queue.queue.lock().is_former).collect::<Vec<_>>();
    deliveries.replace_all_but(2);
    assert_eq!(former(), [true, false, false]);
    deliveries.replace_all_but(0);
    assert_eq!(former(), [true; 3]);
}

#[test]
fn what_waits_is_delivered_before_the_end() {
    let (queue, deliveries, tried, answers) = queue();
    ["a", "b", "c"].into_iter().for_each(|id| queue.send(word(id)));
    (0..3).for_each(|_| answers.send(Tried::Done).expect("it waits"));
    let until = Instant::now() + TEST_TIMEOUT;
    deliveries.end(until);
    drop(queue);
    assert_eq!(deliveries.finish(until), Undelivered::default());
    assert!(Instant::now() < until, "no longer than it takes");
    let ids: Vec<String> = tried.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[test]
fn who_does_not_answer_by_the_end_leaves_what_waits() {
    let (queue, deliveries, tried, answers) = queue();
    ["a", "b", "c"].into_iter().for_each(|id| queue.send(word(id)));
    assert_eq!(tried.recv_timeout(TEST_TIMEOUT).expect("tried").0, "a");
    answers.send(Tried::Done).expect("it waits");
    assert_eq!(tried.recv_timeout(TEST_TIMEOUT).expect("tried").0, "b");
    // The attempt hangs.
    let until = Instant::now() + Duration::from_millis(200);
    deliveries.end(until);
    let left = deliveries.finish(until);
    let ids: Vec<&str> = left.words.iter().map(|word| word.id.as_str()).collect();
    assert_eq!(ids, ["b", "c"], "that it may have come all the same is no loss");
    queue.send(word("d"));
    assert_eq!(queue.board.read().counts.undelivered.get(WEBHOOK), Some(&1), "what comes later is counted");
}

#[test]
fn a_try_has_no_longer_than_there_is_time_and_the_end_ends_a_pause() {
    let (queue, deliveries, tried, answers) = queue();
    queue.send(word("a"));
    assert_eq!(tried.recv_timeout(TEST_TIMEOUT).expect("tried").1, LONGEST_TRY);
    // Three failures: the next pause is 8 s.
    for _ in 0..2 {
        answers.send(Tried::Later("busy".into())).expect("it waits");
        tried.recv_timeout(TEST_TIMEOUT).expect("tried");
    }
    answers.send(Tried::Later("busy".into())).expect("it waits");
    let until = Instant::now() + Duration::from_secs(4);
    deliveries.end(until);
    answers.send(Tried::Done).expect("it waits");
    let (id, within) = tried.recv_timeout(Duration::from_secs(3)).expect("at once");
    assert!(id == "a" && within <= Duration::from_secs(4), "{within:?}");
    assert_eq!(deliveries.finish(until), Undelivered::default());
}

#[test]
fn an_old_queue_delivers_on_and_is_waited_for() {
    let (queue, deliveries, tried, answers) = queue();
    queue.send(word("a"));
    // The configuration was replaced.
    drop(queue);
    assert_eq!(tried.recv_timeout(TEST_TIMEOUT).expect("tried").0, "a");
    assert!(!deliveries.is_idle(WEBHOOK));
    let until = Instant::now() + TEST_TIMEOUT;
    deliveries.end(until);
    answers.send(Tried::Done).expect("it waits");
    assert_eq!(deliveries.finish(until), Undelivered::default());
}

/// The trace writer can end after the queue gives up: its last episodes are saved for the next watch too.
#[test]
fn what_comes_after_it_has_given_up_is_left_with_the_rest() {
    let (queue, deliveries, tried, answers) = queue();
    queue.send(word("a"));
    tried.recv_timeout(TEST_TIMEOUT).expect("tried");
    let until = Instant::now() + TEST_TIMEOUT;
    deliveries.end(until);
    // Two more attempts since the end, after the one in progress.
    (0..3).for_each(|_| answers.send(Tried::Later("busy".into())).expect("it waits"));
    deliveries.all().iter().for_each(|queue| queue.wait(until));
    queue.send(word("b"));
    let left = deliveries.finish(until);
    let ids: Vec<&str> = left.words.iter().map(|word| word.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(queue.board.read().counts.undelivered.get(WEBHOOK), None, "nothing is lost");
}

#[test]
fn an_end_during_a_try_shortens_the_pause_after_it() {
    let (queue, deliveries, tried, answers) = queue();
    queue.send(word("a"));
    for _ in 0..2 {
        tried.recv_timeout(TEST_TIMEOUT).expect("tried");
        answers.send(Tried::Later("busy".into())).expect("it waits");
    }
    // After the third attempt, the pause would be 8 s.
    tried.recv_timeout(TEST_TIMEOUT).expect("tried");
    let until = Instant::now() + TEST_TIMEOUT;
    deliveries.end(until);
    answers.send(Tried::Later("busy".into())).expect("it waits");
    tried.recv_timeout(Duration::from_secs(5)).expect("soon");
    answers.send(Tried::Done).expect("it waits");
    assert_eq!(deliveries.finish(until), Undelivered::default());
}

#[test]
fn what_another_watch_has_left_takes_no_room_from_new_words() {
    let (queue, deliveries, tried, answers) = queue();
    queue.send_first((0..100).map(|number| word(&format!("left-{number}"))));
    assert_eq!(tried.recv_timeout(TEST_TIMEOUT).expect("tried").0, "left-0");
    let undelivered = || queue.board.read().counts.undelivered.get(WEBHOOK).copied().unwrap_or(0);
    (0..QUEUE).for_each(|number| queue.send(word(&format!("new-{number}"))));
    assert_eq!(undelivered(), 0, "as many as without them");
    queue.send(word("one more"));
    assert_eq!(undelivered(), 1);
    let all = 100 + QUEUE;
    (0..all).for_each(|_| answers.send(Tried::Done).expect("it waits"));
    let until = Instant::now() + TEST_TIMEOUT;
    deliveries.end(until);
    assert_eq!(deliveries.finish(until), Undelivered::default(), "in their order");
    let ids: Vec<String> = tried.iter().map(|(id, _)| id).take(all - 1).collect();
    assert_eq!((ids[98].as_str(), ids[99].as_str()), ("left-99", "new-0"));
}

/// Metrics are sums since the start: during an outage the newest are worth the most.
#[test]
fn of_metrics_the_newest_stay() {
    let (tries, is_tried) = channel();
    let (answers, answer) = channel::<()>();
    let deliver = move |_: &Message, _: Duration| {
        let _ = tries.send(());
        let _ = answer.recv();
        Tried::Done
    };
    let queue = DeliveryQueue::start(WEBHOOK, Arc::new(Board::default()), deliver).expect("a thread");
    let metrics = |number: u64| Message::Metrics(Arc::new(Published { version: number, ..Published::default() }));
    queue.send(metrics(0));
    is_tried.recv().expect("the first is on its way");
    (1..=QUEUE as u64 + 3).for_each(|number| queue.send(metrics(number)));
    assert_eq!(queue.board.read().counts.undelivered.get(WEBHOOK), Some(&3), "the oldest that wait");
    let waiting: Vec<u64> = queue
        .queue
        .lock()
        .messages
        .iter()
        .map(|message| match message {
            Message::Metrics(published) => published.version,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((waiting[0], waiting[1], waiting[waiting.len() - 1]), (0, 4, QUEUE as u64 + 3));
    drop(answers);
}

/// The next watch sends what is kept by the webhook.
#[test]
fn what_another_output_has_left_is_counted_and_not_kept() {
    let board = Arc::new(Board::default());
    let (begun, is_begun) = std::sync::mpsc::channel();
    let deliver = move |_: &Message, _: Duration| {
        let _ = begun.send(());
        Tried::Later("not now".to_owned())
    };
    let (queue, deliveries) = (DeliveryQueue::start("other", board, deliver).expect("a thread"), Deliveries::default());
    deliveries.add(&queue);
    queue.send(word("a"));
    is_begun.recv().expect("a try");
    let until = Instant::now() + Duration::from_millis(100);
    deliveries.end(until);
    assert_eq!(deliveries.finish(until), Undelivered { words: Vec::new(), others: vec![("other", 1)] });
}
