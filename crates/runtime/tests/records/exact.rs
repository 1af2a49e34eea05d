//! A record is used only where everything that it names is so again.

use std::sync::Arc;

use rowloom_codegen::ir::Order;
use rowloom_codegen::{Accumulate, Arch, Choice, DType, Source, Subject, Verified, Wants};
use rowloom_runtime::tuning::{For, Found, Machine, Record, Records, Refusal};
use rowloom_runtime::{Declaration, Error, tuning};

use crate::made::{another, backward, declared, h200, machine, other_order, plan_shape, record, spec, subject};

const S: u64 = 300;

/// What a store with one record gives.
fn find(record: &Record, subject: &Subject, machine: &Machine<'_>, positions: u64) -> Found {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::over(None, Some(folder.path()));
    records.add(record).unwrap();
    records.find(subject, machine, positions)
}

fn of_backward() -> (Subject, Record) {
    let subject = subject(&backward(), S);
    let winner = another(&subject);
    assert_ne!(Some(winner), subject.default_choice());
    let record = record(&subject, S, winner, &h200());
    (subject, record)
}

#[track_caller]
fn refused(found: Found, words: &[&str]) -> Refusal {
    let Found::Refused(refused) = found else { panic!("{found:?}") };
    let text = refused.to_string();
    let command =
        "run `rowloom tune adaln --dtype bf16 --rows 9 --hidden 16 --index i64 --positions 300 --only backward`";
    for word in words.iter().chain(&[command]) {
        assert!(text.contains(word), "{text}");
    }
    refused.why
}

#[test]
fn a_record_is_found_where_it_was_made() {
    let (subject, record) = of_backward();
    let Found::Record(found) = find(&record, &subject, &h200(), S) else { panic!("it is there") };
    assert_eq!(*found, record);
}

#[test]
fn another_gpu_has_no_record_and_may_not_use_one() {
    let (subject, record) = of_backward();
    let h100 = machine("NVIDIA H100", "580.159.04", (13, 5));
    assert!(matches!(find(&record, &subject, &h100, S), Found::None));
    let why = h100.check(&subject, &record).unwrap_err().to_string();
    assert_eq!(why, "it was made with the GPU NVIDIA H200, and this is NVIDIA H100");
}

#[test]
fn another_driver_is_refused() {
    let (subject, record) = of_backward();
    let newer = machine("NVIDIA H200", "590.1", (13, 5));
    let why = refused(find(&record, &subject, &newer, S), &["made with driver 580.159.04, and this is 590.1"]);
    assert!(matches!(why, Refusal::Other { what: "driver", .. }));
    let none = Machine::new("NVIDIA H200", None, Arch::SM_90, |_: &Source| Ok(Some((13, 5))));
    refused(find(&record, &subject, &none, S), &["made with driver 580.159.04, and this is none"]);
}

#[test]
fn another_nvrtc_is_refused() {
    let (subject, record) = of_backward();
    let older = machine("NVIDIA H200", "580.159.04", (12, 9));
    let why = refused(find(&record, &subject, &older, S), &["made with NVRTC 13.5, and this is 12.9"]);
    assert!(matches!(why, Refusal::Other { what: "NVRTC", .. }));
}

#[test]
fn where_there_is_no_code_of_it_a_record_is_refused() {
    let (subject, record) = of_backward();
    let none = |_: &Source| Err(Error::NoNvrtc { searched: vec!["nowhere".to_owned()] });
    let machine = Machine::new("NVIDIA H200", Some("580.159.04".to_owned()), Arch::SM_90, none);
    let why = refused(find(&record, &subject, &machine, S), &["its code cannot be had: no NVRTC", "nowhere"]);
    assert!(matches!(why, Refusal::NoCode(_)));
}

#[test]
fn a_source_that_is_another_now_is_refused() {
    let (subject, mut record) = of_backward();
    let today = record.provenance.source.clone();
    record.provenance.source = "0123456789abcdef".repeat(4);
    let words = ["generated the source 0123456789abcdef, and generates ", &today[..16]];
    assert!(matches!(refused(find(&record, &subject, &h200(), S), &words), Refusal::Source { .. }));
}

#[test]
fn a_schedule_that_is_not_legal_is_refused() {
    let (subject, mut record) = of_backward();
    let Choice::Kernel(mut schedule) = record.winner else { panic!("a kernel's") };
    schedule.segments.as_mut().unwrap().threads = 100;
    record.winner = Choice::Kernel(schedule);
    let words = ["its schedule is not legal: threads = 100"];
    assert!(matches!(refused(find(&record, &subject, &h200(), S), &words), Refusal::Illegal(_)));
    record.winner = Subject::Plan(plan_shape()).default_choice().unwrap();
    assert!(matches!(refused(find(&record, &subject, &h200(), S), &[]), Refusal::Illegal(_)));
}

/// Each part of the key alone is another call, for which there is no record.
#[test]
fn other_calls_have_no_record() {
    let (of_record, record) = of_backward();
    let kernel = backward();
    let with = |change: &dyn Fn(&mut rowloom_codegen::Spec)| {
        let mut spec = spec(&kernel, S);
        change(&mut spec);
        Subject::Kernel { kernel: (*kernel).clone(), spec }
    };
    let others = [
        with(&|spec| spec.floats[0] = DType::F16),
        with(&|spec| spec.counts[0] = 12),
        with(&|spec| spec.hidden = 32),
        with(&|spec| spec.inputs[0].vector_bytes /= 2),
        with(&|spec| spec.outputs[0].vector_bytes /= 2),
        with(&|spec| spec.s_class = rowloom_codegen::SClass::Long),
        with(&|spec| spec.planned = false),
        subject(declared().forward(), S),
        subject(&other_order(16).backward(&Wants::all(declared().forward())), S),
        Subject::Plan(plan_shape()),
    ];
    for (at, other) in others.iter().enumerate() {
        assert!(matches!(find(&record, other, &h200(), S), Found::None), "{at}");
    }
    let newer = Machine::new("NVIDIA H200", Some("580.159.04".to_owned()), Arch(100), |_| Ok(Some((13, 5))));
    assert!(matches!(find(&record, &of_record, &newer, S), Found::None));
}

#[test]
fn the_borders_of_a_bucket() {
    for (made_at, inside, outside) in [
        (300, [256, 511], vec![255, 512]),
        (1, [1, 1], vec![2]),
        (1 << 15, [1 << 15, (1 << 16) - 1], vec![(1 << 15) - 1, 1 << 16]),
        (u64::from(u32::MAX), [1 << 31, u64::from(u32::MAX)], vec![(1 << 31) - 1]),
    ] {
        // The Spec's own class of S is left as it is: what differs is the bucket alone.
        let subject = subject(&backward(), made_at);
        let record = record(&subject, made_at, another(&subject), &h200());
        for positions in inside {
            assert!(matches!(find(&record, &subject, &h200(), positions), Found::Record(_)), "{made_at} {positions}");
        }
        for positions in outside {
            assert!(matches!(find(&record, &subject, &h200(), positions), Found::None), "{made_at} {positions}");
        }
    }
}

#[test]
fn a_pack_comes_first_unless_its_record_is_refused() {
    let (subject, record) = of_backward();
    let (pack, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let packed = Record { date: "2026-01-01".to_owned(), ..record.clone() };
    Records::over(None, Some(pack.path())).add(&packed).unwrap();
    let find = || {
        let records = Records::over(Some(pack.path()), Some(folder.path()));
        match records.find(&subject, &h200(), S) {
            Found::Record(record) => record.date.clone(),
            Found::Refused(tuning::Refused { why, .. }) => why.to_string(),
            Found::None => String::new(),
        }
    };
    assert_eq!(find(), "2026-01-01");
    Records::over(None, Some(folder.path())).add(&record).unwrap();
    assert_eq!(find(), "2026-01-01");
    let mut old = packed;
    old.provenance.driver = Some("1".to_owned());
    Records::over(None, Some(pack.path())).add(&old).unwrap();
    assert_eq!(find(), record.date);
    std::fs::remove_dir_all(folder.path().join("tuning")).unwrap();
    assert_eq!(find(), "it was made with driver 1, and this is 580.159.04");
    let shared = Arc::new(Records::over(Some(pack.path()), None));
    assert!(shared.add(&record).unwrap_err().to_string().contains("the cache is turned off"));
}

/// Without sums the order is no part of what a kernel does, nor of its source.
#[test]
fn one_record_serves_every_order_of_what_does_not_sum() {
    let key = |declared: &Declaration, kernel: &Verified| {
        let mut spec = spec(declared.forward(), S);
        spec.planned = true;
        let spec = if kernel.sums() { crate::made::spec(kernel, S) } else { spec };
        let subject = Subject::Kernel { kernel: kernel.clone(), spec };
        let default = subject.default_choice().unwrap();
        (For::of(&subject, Arch::SM_90, S), subject.generate(&default).unwrap().hash().to_string())
    };
    let declared = declared();
    let order = declared.forward().order;
    for order in [Order { accumulate: Accumulate::F64, ..order }, Order { block: 16, ..order }] {
        let other = declared.with_order(order).unwrap();
        assert_eq!(key(&declared, declared.forward()), key(&other, other.forward()), "{order:?}");
        let backward = |declared: &Declaration| {
            let backward = declared.backward(&Wants::all(declared.forward()));
            key(declared, &backward).0
        };
        assert_ne!(backward(&declared), backward(&other), "{order:?}");
    }
}
