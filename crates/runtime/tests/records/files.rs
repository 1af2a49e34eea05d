//! Files of records: written whole, read with mistrust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier};

use rowloom_codegen::{Arch, SClass, Subject};
use rowloom_runtime::tuning::{Added, For, Found, Record, Records, Sheet};
use serde_json::Value;

use crate::made::{another, backward, h200, machine, plan_shape, record, subject};

fn one(positions: u64) -> (Subject, Record) {
    let subject = subject(&backward(), positions);
    let record = record(&subject, positions, another(&subject), &h200());
    (subject, record)
}

fn store(folder: &Path) -> Records {
    Records::over(None, Some(folder))
}

fn file(folder: &Path) -> PathBuf {
    folder.join("tuning/kernel-adaln-NVIDIA_H200.json")
}

#[test]
fn records_are_readable_and_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let records = store(folder.path());
    let ((subject, first), (_, second)) = (one(300), one(3000));
    assert_eq!(records.add(&first).unwrap(), Added::New);
    assert_eq!(records.add(&second).unwrap(), Added::New);
    assert_eq!(records.add(&first).unwrap(), Added::Same);
    let plan = Subject::Plan(plan_shape());
    let of_plan = record(&plan, 300, another(&plan), &h200());
    records.add(&of_plan).unwrap();
    let mut faster = first.clone();
    faster.winner_us = 0.1 + 0.2;
    assert_eq!(records.add(&faster).unwrap(), Added::Replaced(Arc::new(first)));
    let (kept, damaged) = store(folder.path()).all();
    let kept: Vec<(PathBuf, Record)> = kept.into_iter().map(|kept| (kept.file, (*kept.record).clone())).collect();
    let of_plans = folder.path().join("tuning/plan-NVIDIA_H200.json");
    let (own, text) = (file(folder.path()), fs::read_to_string(file(folder.path())).unwrap());
    assert_eq!(kept, [(own.clone(), faster.clone()), (own, second), (of_plans, of_plan)]);
    assert!(damaged.is_empty());
    // This process, and the next one.
    for records in [records, store(folder.path())] {
        let Found::Record(found) = records.find(&subject, &h200(), 300) else { panic!("it is there") };
        assert_eq!(*found, faster);
    }
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["format"], 1);
    assert_eq!(json["of"], serde_json::json!({"kernel": {"name": "adaln", "product": "NVIDIA H200"}}));
    assert_eq!(json["records"][0]["for"]["kernel"]["positions"], serde_json::json!({"from": 256, "to": 511}));
    assert_eq!(json["records"][0]["provenance"]["driver"], "580.159.04");
    assert_eq!(json["records"][0]["candidates"][2]["illegal"], "threads = 7 is not legal");
    let names: Vec<_> =
        folder.path().join("tuning").read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "neither a lock nor a temporary file stays: {names:?}");
}

/// What is wrong with a file is no launch's fault: there is no record, and the file stays.
#[test]
fn files_that_are_none_are_done_without() {
    let ((subject, own), (_, later)) = (one(300), one(3000));
    let folder = tempfile::tempdir().unwrap();
    store(folder.path()).add(&own).unwrap();
    let good = fs::read_to_string(file(folder.path())).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let half = good[..good.len() / 2].to_owned();
    for (text, words) in [
        ("", "EOF"),
        (&*half, "EOF"),
        ("{", "EOF"),
        ("\u{0}\u{1}", "expected value"),
        ("[]", "it is no file of records"),
        (r#"{"code": []}"#, "it is no file of records"),
        (&with("\"format\": 1", "\"format\": 2"), "its format is 2, and this rowloom reads 1"),
        (&with("\"records\"", "\"more\": 1, \"records\""), "unknown field `more`"),
        (&with("\"seconds\"", "\"minutes\""), "unknown field `minutes`"),
        (&with("\"from\": 256", "\"from\": -1"), "invalid value"),
        (&with("\"product\": \"NVIDIA H200\"", "\"product\": \"NVIDIA H100\""), "it holds a record of something else"),
        (&good.replace("NVIDIA H200", "NVIDIA H100"), "it must be called kernel-adaln-NVIDIA_H100.json"),
    ] {
        fs::write(file(folder.path()), text).unwrap();
        let records = store(folder.path());
        assert!(matches!(records.find(&subject, &h200(), 300), Found::None), "{words}");
        let (kept, damaged) = records.all();
        assert_eq!((kept.len(), damaged.len()), (0, 1), "{words}");
        assert!(damaged[0].path == file(folder.path()) && damaged[0].reason.contains(words), "{}", damaged[0].reason);
        let error = records.add(&later).unwrap_err().to_string();
        assert!(error.contains("kernel-adaln-NVIDIA_H200.json: ") && error.contains(words), "{error}");
        assert!(error.ends_with("move it away"), "{error}");
        assert_eq!(fs::read_to_string(file(folder.path())).unwrap(), text, "nothing of it is lost");
    }
}

#[test]
fn whatever_lies_in_the_place_of_a_file_nobody_waits() {
    let (subject, own) = one(300);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("tuning")).unwrap();
    let path = file(folder.path());
    let make: [&dyn Fn(); 3] = [
        &|| assert!(Command::new("mkfifo").arg(&path).status().unwrap().success()),
        &|| fs::create_dir(&path).unwrap(),
        &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
    ];
    for make in make {
        make();
        let (folder, subject, own) = (folder.path().to_owned(), subject.clone(), own.clone());
        let (told, answer) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let records = store(&folder);
            let none = matches!(records.find(&subject, &h200(), 300), Found::None);
            let reason = records.all().1[0].reason.clone();
            told.send((none, reason, records.add(&own).unwrap_err().to_string()))
        });
        let (none, reason, error) = answer.recv_timeout(std::time::Duration::from_secs(60)).expect("nobody waits");
        assert!(none && error.contains("it is no regular file"), "{error}");
        assert_eq!(reason, "it is no regular file");
        fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
    }
    // A folder that is none, and a link that leads nowhere.
    fs::remove_dir(folder.path().join("tuning")).unwrap();
    fs::write(folder.path().join("tuning"), "kept").unwrap();
    let records = store(folder.path());
    assert!(matches!(records.find(&subject, &h200(), 300), Found::None));
    assert!(records.add(&own).is_err());
    assert!(records.all().0.is_empty());
}

#[test]
fn writers_at_once_lose_nothing() {
    const WRITERS: u32 = 12;
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let start = Barrier::new(WRITERS as usize);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (folder, start) = (folder.path(), &start);
                scope.spawn(move || {
                    let records = store(folder);
                    start.wait();
                    records.add(&one(1 << (writer + 3)).1).unwrap();
                    // All write this one.
                    records.add(&one(2).1).unwrap();
                });
            }
        });
        let (kept, damaged) = store(folder.path()).all();
        assert_eq!((kept.len(), damaged.len()), (WRITERS as usize + 1, 0));
    }
}

#[test]
fn what_a_killed_writer_has_left_goes() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("tuning");
    fs::create_dir_all(&part).unwrap();
    fs::write(part.join(".new-2f8Uxq"), "{\"format\"").unwrap();
    fs::write(part.join("records.lock"), "").unwrap();
    store(folder.path()).add(&one(300).1).unwrap();
    let names: Vec<_> = part.read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["kernel-adaln-NVIDIA_H200.json"]);
}

#[test]
fn products_have_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let records = store(folder.path());
    let (subject, own) = one(300);
    let h100 = machine("NVIDIA H100", "580.159.04", (13, 5));
    let other = record(&subject, 300, subject.default_choice().unwrap(), &h100);
    assert_eq!(records.add_all(&[Arc::new(own.clone()), Arc::new(other.clone())]).unwrap(), [Added::New, Added::New]);
    for (machine, expected) in [(h200(), own), (h100, other)] {
        let Found::Record(found) = records.find(&subject, &machine, 300) else { panic!("it is there") };
        assert_eq!(*found, expected);
    }
    let sheet = Sheet::read(&file(folder.path())).unwrap().unwrap();
    assert_eq!(sheet.records.len(), 1);
}

/// What no search writes is used by no launch, and each way to look at it says why.
#[test]
fn records_that_no_search_writes_are_refused() {
    let (subject, own) = one(300);
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 11] = [
        (|it| it["positions"] = 700.into(), "it was measured at S = 700, which is not in 256..=511"),
        (|it| it["for"]["kernel"]["positions"]["to"] = 600.into(), "S = 256..=600 is not from a power of two"),
        (|it| it["for"]["kernel"]["positions"] = serde_json::json!({"from": 0, "to": 0}), "S = 0..=0 is not"),
        (|it| it["for"]["kernel"]["spec"]["s_class"] = "long".into(), "is of another class"),
        (|it| it["for"]["kernel"]["kernel"] = "x".into(), "its kernel by what is no hash"),
        (|it| it["provenance"]["source"] = "0123".into(), "its source is named by what is no hash"),
        (|it| it["default_us"] = (-1.0).into(), "-1 us is no time"),
        (|it| it["winner_us"] = 0.0.into(), "0 us is no time"),
        (|it| it["candidates"][0]["us"] = (-3.0).into(), "-3 us is no time"),
        (|it| it["seconds"] = (-2.5).into(), "the search took -2.5 s"),
        (|it| it["for"]["kernel"]["positions"]["from"] = 300.into(), "S = 300..=511 is not"),
    ];
    for (change, words) in changes {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path()).add(&own).unwrap();
        let mut sheet: Value = serde_json::from_str(&fs::read_to_string(file(folder.path())).unwrap()).unwrap();
        change(&mut sheet["records"][0]);
        fs::write(file(folder.path()), sheet.to_string()).unwrap();
        let records = store(folder.path());
        assert!(matches!(records.find(&subject, &h200(), 300), Found::None), "{words}");
        let (kept, damaged) = records.all();
        assert_eq!((kept.len(), damaged.len()), (1, 0));
        let why = kept[0].record.check().unwrap_err().to_string();
        assert!(why.starts_with("it is no record of a search: ") && why.contains(words), "{why}");
        assert_eq!(h200().check(&subject, &kept[0].record).unwrap_err().to_string(), why);
    }
    // What only the kernel and the machine tell.
    let mut other = own.clone();
    let For::Kernel { spec, .. } = &mut other.key else { panic!("a kernel's") };
    spec.arch = Arch(100);
    assert_eq!(
        h200().check(&subject, &other).unwrap_err().to_string(),
        "it was made with the architecture sm_100, and this is sm_90"
    );
    let mut other = own;
    other.positions = 300;
    let Subject::Kernel { kernel, mut spec } = subject else { panic!("a kernel's") };
    spec.s_class = SClass::OneBlock;
    let why = h200().check(&Subject::Kernel { kernel, spec }, &other).unwrap_err().to_string();
    assert!(why.contains("is of another class"), "{why}");
}

#[test]
fn a_file_that_is_far_too_large_is_not_read() {
    let (subject, own) = one(300);
    let folder = tempfile::tempdir().unwrap();
    store(folder.path()).add(&own).unwrap();
    fs::File::create(file(folder.path())).unwrap().set_len(3 << 30).unwrap();
    let start = std::time::Instant::now();
    let records = store(folder.path());
    assert!(matches!(records.find(&subject, &h200(), 300), Found::None));
    assert_eq!(records.all().1[0].reason, "it is larger than 32 MiB");
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}
