//! The search over a bench that has no device.

mod fake;

use super::*;
use crate::tuning::{Known, Outcome};
use fake::{Fake, Way};

/// A default of 100 µs and others of these.
fn beside_default(others: &[f64]) -> Vec<Way> {
    [100.0].iter().chain(others).map(|&us| Way::Us(us)).collect()
}

#[test]
fn a_faster_one_wins_however_noisy_the_machine() {
    for seed in 0..200 {
        let mut fake = Fake::noisy(seed, beside_default(&[110.0, 95.0, 101.0, 300.0, 103.0]));
        let found = fake.found();
        assert_eq!(found.winner, 2, "seed {seed}: {found:?}");
        assert!(found.winner_us < found.default_us && found.complete, "seed {seed}: {found:?}");
    }
}

#[test]
fn a_slower_one_never_wins() {
    for seed in 0..1000 {
        let others = [102.0, 102.0, 103.0, 102.0, 104.0, 102.0, 102.0, 102.0];
        let found = Fake::noisy(seed, beside_default(&others)).found();
        assert_eq!(found.winner, 0, "seed {seed}: {found:?}");
        assert_eq!(found.winner_us, found.default_us);
    }
}

#[test]
fn ties_go_to_the_default() {
    let found = Fake::new(1, beside_default(&[100.0, 99.9, 100.1])).found();
    assert_eq!(found.winner, 0);
    let won = (0..500).filter(|&seed| Fake::noisy(seed, beside_default(&[100.0; 30])).found().winner != 0).count();
    assert!(won <= 5, "of 500 searches among equals {won} did not stay with the default");
}

#[test]
fn a_noisy_moment_makes_no_winner() {
    // The machine is slow whenever the default runs in the rounds.
    struct Moody(Fake);
    impl Bench for Moody {
        type Error = String;
        fn compile(&mut self, all: &[usize], each: &mut dyn FnMut(usize, Result<(), String>)) -> Result<(), String> {
            self.0.compile(all, each)
        }
        fn gate(&mut self, candidate: usize) -> Result<Gate, String> {
            self.0.gate(candidate)
        }
        fn time(&mut self, candidate: usize) -> Result<Time, String> {
            let slow = candidate == 0 && self.0.timed.get(&0).is_none_or(|&times| times < 9);
            Ok(match self.0.time(candidate)? {
                Time::Us(us) if slow => Time::Us(us * 1.5),
                time @ (Time::Us(_) | Time::Failed(_) | Time::Late) => time,
            })
        }
        fn now(&self) -> Duration {
            self.0.now()
        }
    }
    let mut moody = Moody(Fake::noisy(5, beside_default(&[102.0, 103.0])));
    let candidates = moody.0.candidates();
    let found = search(&candidates, 0, &mut moody, Duration::from_secs(3600), &mut Journal::in_memory(), &mut |_| {});
    assert_eq!(found.expect("found").winner, 0);
}

#[test]
fn the_clearly_slower_are_dropped_early_and_the_default_never() {
    let mut fake = Fake::new(1, vec![Way::Us(200.0), Way::Us(100.0), Way::Us(101.0), Way::Us(150.0)]);
    let found = fake.found();
    assert_eq!(found.winner, 1);
    assert_eq!(fake.timed[&3], DROP_AFTER as u32);
    assert_eq!(fake.timed[&0], (ROUNDS + PAIRS) as u32);
    assert_eq!(fake.timed[&1], (ROUNDS + PAIRS) as u32);
    let rounds = |at: usize| match &found.trials[at].outcome {
        Outcome::Timed { us, rounds, bit_equal: true } => (*us, *rounds),
        outcome @ (Outcome::Timed { .. }
        | Outcome::Differs { .. }
        | Outcome::Illegal { .. }
        | Outcome::Failed { .. }) => panic!("{outcome:?}"),
    };
    assert_eq!(rounds(3), (150.0, DROP_AFTER as u32));
    assert_eq!((found.default_us, found.winner_us), (200.0, 100.0));
}

/// What a search finds, and which candidates it tells of as liars.
fn with_liars(fake: &mut Fake) -> (Found, Vec<usize>) {
    let candidates = fake.candidates();
    let mut liars = Vec::new();
    let observe = &mut |step| {
        if let Step::Liar { candidate } = step {
            liars.push(candidate);
        }
    };
    let found = search(&candidates, 0, fake, Duration::from_secs(3600), &mut Journal::in_memory(), observe);
    (found.expect("found"), liars)
}

#[test]
fn what_cannot_run_is_kept_as_data_and_the_search_goes_on() {
    let ways =
        vec![Way::Us(100.0), Way::Illegal, Way::NotCompiled, Way::Lies, Way::Hangs, Way::HangsLater, Way::Us(90.0)];
    let mut fake = Fake::new(1, ways);
    let (found, liars) = with_liars(&mut fake);
    assert_eq!((found.winner, liars), (6, vec![3]));
    let text = |at: usize| serde_json::to_value(&found.trials[at].outcome).expect("JSON");
    assert_eq!(text(1), serde_json::json!({"illegal": "it is not legal"}));
    assert_eq!(text(2), serde_json::json!({"failed": "no code"}));
    assert_eq!(text(3), serde_json::json!({"bit_equal": false, "differs": "out[3, 5]"}));
    assert_eq!(text(4), serde_json::json!({"failed": "it did not end in 5 s"}));
    assert_eq!(text(5), serde_json::json!({"failed": "it did not end in 5 s"}));
    assert_eq!(fake.timed[&5], 1);
    assert!(!fake.compiled.contains(&1));
    assert_eq!(fake.gated, [0, 3, 4, 5, 6, 6], "the winner once more");
}

#[test]
fn without_a_default_there_is_nothing_to_compare_with() {
    for (way, why) in
        [(Way::Illegal, "not legal"), (Way::NotCompiled, "no code"), (Way::Lies, "out[3, 5]"), (Way::HangsLater, "5 s")]
    {
        let mut fake = Fake::new(1, vec![way, Way::Us(1.0)]);
        let stopped = fake.search(3600.0, &mut Journal::in_memory()).expect_err("no default");
        assert!(matches!(&stopped, Stopped::Default(reason) if reason.contains(why)), "{stopped:?}");
    }
}

#[test]
fn one_candidate_needs_no_search() {
    let mut fake = Fake::new(1, vec![Way::Us(7.0), Way::Illegal]);
    let found = fake.found();
    assert_eq!((found.winner, found.default_us, found.winner_us, found.complete), (0, 7.0, 7.0, true));
    assert_eq!(fake.timed[&0], ROUNDS as u32);
}

#[test]
fn when_the_budget_runs_out_before_the_end_the_default_stays() {
    // Compiling takes 0.1 s each, comparing and timing 0.01 s.
    let others: Vec<f64> = (0..30).map(|at| if at == 20 { 50.0 } else { 100.0 }).collect();
    let mut results = Vec::new();
    for budget in [0.0, 3.0, 4.0, 4.9, 60.0] {
        let mut fake = Fake::new(1, beside_default(&others));
        let found = fake.search(budget, &mut Journal::in_memory()).expect("found");
        let untried = found.trials.iter().filter(|trial| matches!(&trial.outcome, Outcome::Failed { .. })).count();
        results.push((budget, found.winner, found.complete, untried > 0));
        // What is under way ends: 31 are compiled at once.
        let clock = fake.clock.get().as_secs_f64();
        assert!(clock <= budget + 0.1 || (budget == 3.0 && clock < 3.2), "{budget} s: {clock}");
    }
    assert_eq!(results[0], (0.0, 0, false, true));
    assert_eq!(results[1], (3.0, 0, false, true));
    // All were compared, and what is left is the run-off's.
    assert_eq!(results[2], (4.0, 0, false, true));
    // All were timed, some many times, and the run-off is missing.
    assert_eq!(results[3], (4.9, 0, false, false));
    assert_eq!(results[4], (60.0, 21, true, false));
}

#[test]
fn what_runs_when_the_budget_is_out_ends_the_search_and_has_not_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let mut fake = Fake::new(1, vec![Way::Us(100.0), Way::LateLater, Way::Us(50.0)]);
    let found = fake.search(3600.0, &mut Journal::open(&path, "s")).expect("found");
    assert_eq!((found.winner, found.complete), (0, false));
    let text = serde_json::to_value(&found.trials[1].outcome).expect("JSON");
    assert_eq!(text, serde_json::json!({"failed": "not timed: the budget had run out"}));
    // The next run knows that it was under way.
    let journal = Journal::open(&path, "s");
    assert!(journal.was_begun("source 1") && !journal.was_begun("source 0"), "{journal:?}");
    assert_eq!(journal.known("source 1"), Some(&Known::Equal));
}

#[test]
fn an_interrupted_search_goes_on_with_what_it_knew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let ways = vec![Way::Us(100.0), Way::NotCompiled, Way::Lies, Way::Hangs, Way::Us(80.0)];
    let mut fake = Fake::new(1, ways);
    // The budget is enough to compile and to compare, and for little else.
    let mut found = fake.search(1.0, &mut Journal::open(&path, "s")).expect("found");
    assert!(!found.complete);
    fake.clock.set(Duration::ZERO);
    fake.compiled.clear();
    found = fake.search(2.0, &mut Journal::open(&path, "s")).expect("found");
    assert!(found.complete, "{found:?}");
    assert_eq!(fake.compiled, [0], "only the default is looked at again");

    let interrupted = |at: usize| {
        // Interrupted while this one is gated: it has begun.
        let path = folder.path().join(format!("{at}"));
        let mut journal = Journal::open(&path, "s");
        journal.begin(&format!("source {at}"));
        drop(journal);
        let mut fake = Fake::new(1, beside_default(&[90.0, 95.0]));
        let found = fake.search(3600.0, &mut Journal::open(&path, "s")).expect("found");
        assert_eq!(fake.gated[2], at, "all others come first");
        assert_eq!(found.winner, 1);
        assert!(!path.exists(), "a search that is over leaves no journal");
    };
    interrupted(1);
    interrupted(2);
}

#[test]
fn a_failure_is_not_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let ways = vec![Way::Us(100.0), Way::Hangs, Way::HangsLater, Way::Lies, Way::Us(80.0)];
    let mut fake = Fake::new(1, ways);
    let candidates = fake.candidates();
    // Killed after the last comparison: nothing is timed.
    let mut journal = Journal::open(&path, "s");
    for (at, gate) in [(1, "hangs"), (3, "lies")] {
        let known = if gate == "hangs" { Known::Failed(gate.to_owned()) } else { Known::Differs(gate.to_owned()) };
        journal.learn(&format!("source {at}"), "", known);
    }
    drop(journal);
    let found =
        search(&candidates, 0, &mut fake, Duration::from_secs(3600), &mut Journal::open(&path, "s"), &mut |_| {});
    let found = found.expect("found");
    assert_eq!(found.winner, 4);
    assert_eq!(fake.gated, [0, 2, 4, 4]);
    assert!(matches!(&found.trials[1].outcome, Outcome::Failed { failed } if failed == "hangs"));
    assert!(matches!(&found.trials[3].outcome, Outcome::Differs { differs, .. } if differs == "lies"));
}

#[test]
fn what_fails_while_it_runs_is_tried_in_one_more_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let ways = [vec![Way::Us(100.0), Way::Hangs, Way::HangsLater, Way::NotCompiled], vec![Way::Us(90.0); 20]].concat();
    let mut fake = Fake::new(1, ways);
    let times = |list: &[usize], wanted: usize| list.iter().filter(|at| **at == wanted).count();
    let mut counts = Vec::new();
    // Each run ends in the rounds.
    for budget in [3.8, 1.0, 1.0] {
        fake.clock.set(Duration::ZERO);
        let found = fake.search(budget, &mut Journal::open(&path, "s")).expect("found");
        assert_eq!((found.winner, found.complete), (0, false));
        counts.push((times(&fake.compiled, 3), times(&fake.gated, 1), fake.timed.get(&2).copied()));
    }
    assert_eq!(counts, [(1, 1, Some(1)), (1, 2, Some(2)), (1, 2, Some(2))]);
}

#[test]
fn a_winner_that_lies_when_it_is_compared_once_more_leaves_its_place() {
    let ways = |second: f64| vec![Way::Us(100.0), Way::LiesLater(50.0), Way::Us(second), Way::Us(300.0)];
    for (second, winner) in [(51.0, 2), (100.0, 0)] {
        let mut fake = Fake::new(1, ways(second));
        let (found, liars) = with_liars(&mut fake);
        assert_eq!((found.winner, found.complete, liars), (winner, true, vec![1]));
        assert!(matches!(&found.trials[1].outcome, Outcome::Differs { differs, .. } if differs == "out[9, 9]"));
        assert_eq!(found.winner_us, if winner == 2 { second } else { 100.0 });
    }
}

#[test]
fn nobody_always_follows_the_same_neighbour() {
    let mut fake = Fake::new(1, beside_default(&[100.0; 11]));
    fake.found();
    let rounds: Vec<&[usize]> = fake.order.chunks(12).take(ROUNDS).collect();
    let mut before = vec![std::collections::HashSet::new(); 12];
    for round in &rounds {
        let mut all = round.to_vec();
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>(), "everybody once");
        for pair in round.windows(2) {
            before[pair[1]].insert(pair[0]);
        }
    }
    assert!(before.iter().all(|before| before.len() >= 4), "{rounds:?}");
    let mut again = Fake::new(2, beside_default(&[100.0; 11]));
    again.found();
    assert_eq!(again.order, fake.order, "and so in every run");
}
