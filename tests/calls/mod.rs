//! Calls as a user makes them, on any device: modes, workspaces, streams, graphs.
//! The op is the AdaLN gather over small whole numbers, so that sums are exact.
#![allow(dead_code, reason = "each suite uses its part")]

pub mod graphs;
pub mod modes;
pub mod streams;

use rowloom::{Device, Error, Pending, RowPlan, Stream, Tensor, Workspace};
use rowloom_op_adaln::adaln_row_gather::{self, Cotangents, GradientsMut, Inputs, Outputs, OutputsMut};

pub const POSITIONS: usize = 600;
pub const HIDDEN: usize = 24;
pub const ROWS: usize = 9;

/// What a test reads and writes, on one stream's device.
pub struct Packed {
    pub stream: Stream,
    pub table: Tensor<f32>,
    pub timestep: Tensor<i64>,
    pub modality: Tensor<i64>,
    pub cotangents: [Tensor<f32>; 6],
    host: Host,
}

/// The same on the host.
#[derive(Clone)]
struct Host {
    table: Vec<f32>,
    rows: Vec<usize>,
    cotangents: [Vec<f32>; 6],
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 61) as f32 - 30.0).collect()
}

/// One row of several blocks, and all others.
fn indices(seed: usize) -> (Vec<i64>, Vec<i64>) {
    let each = |factor: usize| {
        let index = |at| if at < 300 { 0 } else { ((at * factor + seed) / 5 % 3) as i64 };
        (0..POSITIONS).map(index).collect()
    };
    (each(7), each(11))
}

impl Host {
    fn new(seed: usize) -> Host {
        let (timestep, modality) = indices(seed);
        Host {
            table: numbers(ROWS * 6 * HIDDEN, seed),
            rows: timestep.iter().zip(&modality).map(|(t, m)| (t * 3 + m) as usize).collect(),
            cotangents: std::array::from_fn(|chunk| numbers(POSITIONS * HIDDEN, seed + chunk + 1)),
        }
    }

    fn forward(&self) -> [Vec<f32>; 6] {
        std::array::from_fn(|chunk| {
            let row = |row: &usize| &self.table[(row * 6 + chunk) * HIDDEN..][..HIDDEN];
            self.rows.iter().flat_map(row).copied().collect()
        })
    }

    fn backward(&self) -> Vec<f32> {
        let mut sums = vec![0.0; ROWS * 6 * HIDDEN];
        for (chunk, cotangent) in self.cotangents.iter().enumerate() {
            for (row, values) in self.rows.iter().zip(cotangent.chunks(HIDDEN)) {
                for (sum, value) in sums[(row * 6 + chunk) * HIDDEN..].iter_mut().zip(values) {
                    *sum += value;
                }
            }
        }
        sums
    }
}

impl Packed {
    pub fn new(stream: &Stream, seed: usize) -> Packed {
        let (host, (timestep, modality)) = (Host::new(seed), indices(seed));
        let column = |index: &[i64]| Tensor::from_slice(stream, index, POSITIONS as u64, 1).unwrap();
        let rows = |values: &Vec<f32>| Tensor::from_slice(stream, values, POSITIONS as u64, HIDDEN as u64).unwrap();
        Packed {
            stream: stream.clone(),
            table: Tensor::from_slice(stream, &host.table, ROWS as u64, 6 * HIDDEN as u64).unwrap(),
            timestep: column(&timestep),
            modality: column(&modality),
            cotangents: host.cotangents.each_ref().map(rows),
            host,
        }
    }

    pub fn inputs(&self) -> Inputs<'_, f32, i64> {
        Inputs { table: self.table.view(), timestep: self.timestep.view(), modality: self.modality.view() }
    }

    pub fn cotangents(&self) -> Cotangents<'_, f32> {
        Cotangents { out: self.cotangents.each_ref().map(Tensor::view) }
    }

    pub fn plan(&self) -> RowPlan {
        let terms = [(self.timestep.view().any(), 3, 3), (self.modality.view().any(), 1, 3)];
        RowPlan::affine(&self.stream, &terms).unwrap()
    }

    /// Other values of the same tensors.
    pub fn refill(&mut self, seed: usize) {
        self.host = Host { rows: self.host.rows.clone(), ..Host::new(seed) };
        copy(&self.stream, &mut self.table, &self.host.table);
        for (tensor, values) in self.cotangents.iter_mut().zip(&self.host.cotangents) {
            copy(&self.stream, tensor, values);
        }
    }

    /// The same without waiting: values that lie on the device already.
    pub fn copy_from(&mut self, other: &Packed) {
        self.host = Host { rows: self.host.rows.clone(), ..other.host.clone() };
        let theirs = other.cotangents.iter().chain([&other.table]);
        for (tensor, other) in self.cotangents.iter_mut().chain([&mut self.table]).zip(theirs) {
            tensor.view_mut().any().copy_from(&self.stream, other.view().any()).unwrap();
        }
    }

    /// Poisoned outputs.
    pub fn outputs(&self) -> [Tensor<f32>; 6] {
        std::array::from_fn(|_| poisoned(&self.stream, POSITIONS, HIDDEN))
    }

    /// A poisoned gradient of the table.
    pub fn gradient(&self) -> Tensor<f32> {
        poisoned(&self.stream, ROWS, 6 * HIDDEN)
    }

    /// A workspace that a planned forward and backward on `stream` need.
    pub fn workspace(&self, stream: &Stream, plan: &RowPlan) -> Workspace {
        let (mut out, mut gradient) = (self.outputs(), self.gradient());
        let outputs = OutputsMut { out: out.each_mut().map(Tensor::view_mut) };
        let forward = adaln_row_gather::forward_workspace_bytes(stream, &self.inputs(), plan, outputs).unwrap();
        let gradients = GradientsMut { table: Some(gradient.view_mut()) };
        let (inputs, cotangents) = (self.inputs(), self.cotangents());
        let backward =
            adaln_row_gather::backward_workspace_bytes(stream, &inputs, &cotangents, plan, gradients).unwrap();
        Workspace::with_bytes(stream, forward.max(backward)).unwrap()
    }

    pub fn forward_into(
        &self,
        stream: &Stream,
        plan: Option<&RowPlan>,
        out: &mut [Tensor<f32>; 6],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let out = out.each_mut().map(Tensor::view_mut);
        adaln_row_gather::forward_into(stream, &self.inputs(), plan, OutputsMut { out }, workspace)
    }

    pub fn backward_into(
        &self,
        stream: &Stream,
        plan: Option<&RowPlan>,
        gradient: &mut Tensor<f32>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let gradients = GradientsMut { table: Some(gradient.view_mut()) };
        adaln_row_gather::backward_into(stream, &self.inputs(), &self.cotangents(), plan, gradients, workspace)
    }

    pub fn forward_deferred(&self) -> Result<Pending<'_, Outputs<f32>>, Error> {
        adaln_row_gather::forward_deferred(&self.stream, &self.inputs())
    }

    pub fn check_forward(&self, stream: &Stream, out: &[Tensor<f32>; 6]) {
        let found = out.each_ref().map(|tensor| tensor.to_vec(stream).unwrap());
        assert!(found == self.host.forward(), "the forward differs");
    }

    pub fn check_backward(&self, stream: &Stream, gradient: &Tensor<f32>) {
        assert!(gradient.to_vec(stream).unwrap() == self.host.backward(), "the backward differs");
    }
}

/// An (S, H) tensor of NaN.
pub fn poisoned(stream: &Stream, rows: usize, columns: usize) -> Tensor<f32> {
    Tensor::from_slice(stream, &vec![f32::NAN; rows * columns], rows as u64, columns as u64).unwrap()
}

/// Replaces all elements of a tensor.
pub fn copy(stream: &Stream, tensor: &mut Tensor<f32>, values: &[f32]) {
    let source = Tensor::from_slice(stream, values, tensor.rows(), tensor.columns()).unwrap();
    tensor.view_mut().any().copy_from(stream, source.view().any()).unwrap();
}

/// A modality that is wrong at position 59.
pub fn wrong(stream: &Stream) -> Tensor<i64> {
    let (_, mut modality) = indices(0);
    modality[59..].fill(3);
    Tensor::from_slice(stream, &modality, POSITIONS as u64, 1).unwrap()
}

/// Every check that any device passes.
pub fn check_all(device: &Device) {
    modes::each_mode_recovers(device);
    modes::workspaces_are_what_they_say(device);
    modes::sums_into_given_tensors_need_plans(device);
    modes::deferred_errors_surface_later(device);
    modes::gradients_in_f32(device);
}
