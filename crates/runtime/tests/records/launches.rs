//! Every way to a launch runs what a record says, with the bytes of the default.

use std::collections::BTreeSet;
use std::sync::Arc;

use half::bf16;
use rowloom_codegen::{Choice, Subject, Verified};
use rowloom_runtime::tuning::{ChosenBy, Machine, Records};
use rowloom_runtime::{
    AnyTensor, AnyView, AnyViewMut, Call, Declaration, Device, RowPlan, Stream, Workspace, allocate_outputs, generated,
    plans, run, run_deferred, workspace_bytes,
};

use crate::made::{HIDDEN, another, backward, declared, plan_shape, record, spec, subject};
use crate::process::{again, finish, role, tell};

const S: usize = 100;

/// Tensors of calls of the forward and the backward.
struct Given {
    table: AnyTensor,
    timestep: AnyTensor,
    modality: AnyTensor,
    d_out: [AnyTensor; 2],
}

impl Given {
    fn new(stream: &Stream) -> Given {
        let values = |rows: usize, columns: u64, seed: u64| {
            let value = |at: u64| bf16::from_f32(((at * 37 + seed * 11) % 401) as f32 / 16.0 - 12.0);
            let values: Vec<bf16> = (0..rows as u64 * columns).map(value).collect();
            AnyTensor::from_slice(stream, &values, rows as u64, columns).unwrap()
        };
        let index = |step: usize| {
            let values: Vec<i64> = (0..S).map(|at| (at * step % 3) as i64).collect();
            AnyTensor::from_slice(stream, &values, S as u64, 1).unwrap()
        };
        let d_out = [3, 4].map(|seed| values(S, HIDDEN, seed));
        Given { table: values(9, 2 * HIDDEN, 1), timestep: index(5), modality: index(7), d_out }
    }

    fn inputs(&self, kernel: &Verified) -> Vec<Vec<AnyView<'_>>> {
        let view = |name: &str| match name {
            "table" => vec![self.table.view()],
            "timestep" => vec![self.timestep.view()],
            "modality" => vec![self.modality.view()],
            _ => self.d_out.iter().map(AnyTensor::view).collect(),
        };
        kernel.inputs.iter().map(|input| view(&input.name)).collect()
    }
}

fn counts(kernel: &Verified) -> &'static [(&'static str, u64)] {
    if kernel.inputs[0].name == "table" { &[] } else { &[("R", 9)] }
}

/// How a call is made.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Without plans: checked, or its plans are built.
    Unplanned,
    Planned,
    Workspace,
    Graph,
    Deferred,
    /// As a generated module calls it.
    Declared,
}

/// The bytes that a call gives.
fn call(stream: &Stream, declared: &Declaration, kernel: &Verified, way: Way) -> Vec<Vec<u16>> {
    let given = Given::new(stream);
    let inputs = given.inputs(kernel);
    let bytes = |tensor: &AnyTensor| tensor.to_vec::<bf16>(stream).unwrap().into_iter().map(bf16::to_bits).collect();
    let mut outputs = allocate_outputs(stream, kernel, &inputs, counts(kernel), None).unwrap();
    let mut views: Vec<Vec<AnyViewMut<'_>>> =
        outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
    views.iter_mut().flatten().for_each(|view| view.fill(stream, 0xFF).unwrap());
    let built = plans(stream, kernel, &inputs, counts(kernel)).unwrap();
    let built: Vec<&RowPlan> = built.iter().collect();
    let (inputs, outputs_of) = (&inputs[..], &mut views[..]);
    match way {
        Way::Unplanned => {
            run(stream, kernel, Call { inputs, outputs: outputs_of, plans: None, schedule: None, workspace: None })
                .unwrap();
        }
        Way::Planned => {
            let plans = Some(&built[..]);
            run(stream, kernel, Call { inputs, outputs: outputs_of, plans, schedule: None, workspace: None }).unwrap();
        }
        Way::Workspace | Way::Graph => {
            let plans = Some(&built[..]);
            let call = Call { inputs, outputs: &mut *outputs_of, plans, schedule: None, workspace: None };
            let needed = workspace_bytes(stream, kernel, &call).unwrap();
            let mut workspace = Workspace::with_bytes(stream, needed).unwrap();
            let mut all = || {
                let (outputs, workspace) = (&mut *outputs_of, Some(&mut workspace));
                run(stream, kernel, Call { inputs, outputs, plans, schedule: None, workspace })
            };
            all().unwrap();
            if matches!(way, Way::Graph) {
                stream.capture(all).unwrap().replay(stream).unwrap();
            }
        }
        Way::Deferred => {
            let call = Call { inputs, outputs: outputs_of, plans: None, schedule: None, workspace: None };
            run_deferred(stream, kernel, call).unwrap().wait().unwrap();
        }
        Way::Declared => {
            let flat: Vec<AnyView<'_>> = inputs.iter().flatten().copied().collect();
            let mut results = generated::forward(stream, declared, &flat, Some(&built), &[]).unwrap();
            let made: [rowloom_runtime::Tensor<bf16>; 2] = results.array().unwrap();
            let bits = |tensor: &rowloom_runtime::Tensor<bf16>| {
                tensor.to_vec(stream).unwrap().into_iter().map(bf16::to_bits).collect()
            };
            return made.iter().map(bits).collect();
        }
    }
    outputs.iter().flatten().map(bytes).collect()
}

fn sources(subject: &Subject, choices: impl IntoIterator<Item = Choice>) -> BTreeSet<[u8; 32]> {
    choices.into_iter().map(|choice| *subject.generate(&choice).unwrap().hash().as_bytes()).collect()
}

/// What is called, and how its Spec looks.
fn called(kernel: &Verified, way: Way) -> Subject {
    let mut spec = spec(kernel, S as u64);
    spec.planned = kernel.sums() || !matches!(way, Way::Unplanned | Way::Deferred);
    Subject::Kernel { kernel: kernel.clone(), spec }
}

#[test]
fn every_launch_runs_what_the_record_says_and_gives_the_same_bytes() {
    let (declared, backward) = (declared(), backward());
    let plan = Subject::Plan(plan_shape());
    let forward = declared.forward();
    let ways = [Way::Unplanned, Way::Planned, Way::Workspace, Way::Graph, Way::Deferred, Way::Declared];
    let of_forward = ways.map(|way| (forward, way));
    let of_backward = [Way::Unplanned, Way::Planned, Way::Workspace, Way::Graph].map(|way| (&*backward, way));
    let cases: Vec<(&Verified, Way)> = of_forward.into_iter().chain(of_backward).collect();
    let none = Device::emulated_with(3, Arc::new(Records::default())).unwrap();
    let expected: Vec<_> =
        cases.iter().map(|(kernel, way)| call(&none.stream().unwrap(), &declared, kernel, *way)).collect();
    for ((kernel, way), expected) in cases.into_iter().zip(expected) {
        let subject = called(kernel, way);
        let (default, winner) = (subject.default_choice().unwrap(), another(&subject));
        assert_ne!(sources(&subject, [default]), sources(&subject, [winner]));
        let folder = tempfile::tempdir().unwrap();
        let records = Records::over(None, Some(folder.path()));
        let device = Device::emulated_with(3, Arc::new(Records::over(None, Some(folder.path())))).unwrap();
        let machine = Machine::of_device(&device).unwrap();
        records.add(&record(&subject, 64, winner, &machine)).unwrap();
        records.add(&record(&plan, 64, another(&plan), &machine)).unwrap();
        let found = call(&device.stream().unwrap(), &declared, kernel, way);
        assert!(found == expected, "{way:?}");
        let loaded: BTreeSet<[u8; 32]> = device.loaded_sources().into_iter().collect();
        assert!(loaded.is_superset(&sources(&subject, [winner])), "{way:?} of {:?}", kernel.direction);
        assert!(loaded.is_disjoint(&sources(&subject, [default])), "the default's code is not made: {way:?}");
        assert!(loaded.is_superset(&sources(&plan, [another(&plan)])));
        assert!(loaded.is_disjoint(&sources(&plan, plan.default_choice())), "{way:?}");
        for (subject, winner) in [(&subject, winner), (&plan, another(&plan))] {
            let chosen = device.chosen(subject, S as u64).unwrap().unwrap();
            assert_eq!((chosen.schedule, chosen.by), (winner, ChosenBy::Record));
        }
    }
}

/// A schedule that is asked for wins; at other S the default runs.
#[test]
fn records_are_for_calls_that_ask_for_nothing() {
    let kernel = backward();
    let subject = subject(&kernel, S as u64);
    let folder = tempfile::tempdir().unwrap();
    let device = Device::emulated_with(3, Arc::new(Records::over(None, Some(folder.path())))).unwrap();
    let machine = Machine::of_device(&device).unwrap();
    let winner = another(&subject);
    let records = Records::over(None, Some(folder.path()));
    records.add(&record(&subject, 64, winner, &machine)).unwrap();
    let Some(Choice::Kernel(default)) = subject.default_choice() else { panic!("a kernel's") };
    let stream = device.stream().unwrap();
    let given = Given::new(&stream);
    let inputs = given.inputs(&kernel);
    let mut outputs = allocate_outputs(&stream, &kernel, &inputs, counts(&kernel), None).unwrap();
    let mut views: Vec<Vec<AnyViewMut<'_>>> =
        outputs.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect();
    let call = Call { inputs: &inputs, outputs: &mut views, plans: None, schedule: Some(default), workspace: None };
    run(&stream, &kernel, call).unwrap();
    let loaded: BTreeSet<[u8; 32]> = device.loaded_sources().into_iter().collect();
    assert!(loaded.is_superset(&sources(&subject, [Choice::Kernel(default)])));
    assert!(loaded.is_disjoint(&sources(&subject, [winner])));
    for (positions, by) in [(63, ChosenBy::Default), (64, ChosenBy::Record), (127, ChosenBy::Record)] {
        assert_eq!(device.chosen(&subject, positions).unwrap().unwrap().by, by, "{positions}");
    }
    assert_eq!(Device::cpu().chosen(&subject, 64).unwrap(), None);
    // What was once chosen stays, so that equal calls of a process take equal times.
    let default = Choice::Kernel(default);
    records.add(&record(&subject, 64, default, &machine)).unwrap();
    assert_eq!(device.chosen(&subject, 64).unwrap().unwrap().schedule, winner);
}

#[test]
fn the_environment_turns_records_off() {
    const TEST: &str = "launches::the_environment_turns_records_off";
    let kernel = backward();
    let subject = subject(&kernel, S as u64);
    if role().is_some() {
        let device = Device::emulated(1).unwrap();
        call(&device.stream().unwrap(), &declared(), &kernel, Way::Unplanned);
        let loaded: BTreeSet<[u8; 32]> = device.loaded_sources().into_iter().collect();
        let winner = loaded.is_superset(&sources(&subject, [another(&subject)]));
        assert_ne!(winner, loaded.is_superset(&sources(&subject, [subject.default_choice().unwrap()])));
        return tell(&serde_json::json!(winner));
    }
    let folder = tempfile::tempdir().unwrap();
    let records = Records::over(None, Some(folder.path()));
    let emulated = Device::emulated(1).unwrap();
    let machine = Machine::of_device(&emulated).unwrap();
    records.add(&record(&subject, 64, another(&subject), &machine)).unwrap();
    let misspelt = "rowloom: the environment variable ROWLOOM_TUNE is `of`; it must be off or cached";
    for (value, uses, said) in [
        (None, true, vec![]),
        (Some("cached"), true, vec![]),
        (Some(""), true, vec![]),
        (Some("off"), false, vec![]),
        (Some("of"), true, vec![misspelt.to_owned()]),
    ] {
        let mut command = again(TEST, "run");
        command.env("ROWLOOM_CACHE_DIR", folder.path());
        if let Some(value) = value {
            command.env("ROWLOOM_TUNE", value);
        }
        let (told, stderr) = finish(command.spawn().unwrap());
        assert_eq!((told, stderr), (serde_json::json!(uses), said), "{value:?}");
    }
    // A record that must not be used is said once, with both values: each of them, and the call also
    // builds a plan.
    let mut old = record(&subject, 64, another(&subject), &machine);
    old.provenance.driver = Some("580.159.04".to_owned());
    records.add(&old).unwrap();
    let plan = Subject::Plan(plan_shape());
    let mut old_plan = record(&plan, 64, another(&plan), &machine);
    old_plan.provenance.driver = Some("580.159.04".to_owned());
    records.add(&old_plan).unwrap();
    let (told, stderr) = finish(again(TEST, "run").env("ROWLOOM_CACHE_DIR", folder.path()).spawn().unwrap());
    assert_eq!((told, stderr.len()), (serde_json::json!(false), 2), "{stderr:?}");
    let words = "is not used: it was made with driver 580.159.04, and this is none; ";
    for what in ["the record of adaln backward", "the record of a plan"] {
        assert!(stderr.iter().any(|line| line.contains(what) && line.contains(words)), "{what}: {stderr:?}");
    }
}
