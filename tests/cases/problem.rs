//! A call with random arguments, and its outputs as bytes on any device.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rowloom::codegen::ir::{InputKind, OutputKind};
use rowloom::codegen::{Arch, DType, IntType, SClass, Schedule, Spec, Verified};
use rowloom::{
    AnyView, AnyViewMut, Call, Device, ElementType, Error, RowPlan, Stream, Workspace, plans, run, spec,
    workspace_bytes,
};

use super::lay::{HostTensor, Lay, POISON, Placed};

/// Sizes of a call and its random inputs.
pub struct Problem {
    pub kernel: Verified,
    pub dtype: DType,
    pub int: IntType,
    pub counts: Vec<u64>,
    pub positions: u64,
    pub hidden: u64,
    pub inputs: Vec<Vec<HostTensor>>,
    /// Stored type of table gradients in place of the table's own.
    pub gradient: Option<DType>,
    pub lays: Lays,
}

/// How the tensors of a call lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lays {
    pub rows: Lay,
    pub tables: Lay,
    pub indices: Lay,
    pub outputs: Lay,
}

impl Lays {
    pub const PACKED: Lays =
        Lays { rows: Lay::Packed, tables: Lay::Packed, indices: Lay::Packed, outputs: Lay::Packed };

    fn of(&self, kind: &InputKind) -> Lay {
        match kind {
            InputKind::Rows(_) => self.rows,
            InputKind::Table { .. } => self.tables,
            InputKind::Index { .. } => self.indices,
        }
    }
}

impl Problem {
    /// Values with every special encoding among them; indices with one hot row, unused rows and,
    /// where it is declared, a pad. Everything packed.
    pub fn new(kernel: &Verified, dtype: DType, int: IntType, counts: &[u64], positions: u64, hidden: u64) -> Problem {
        Problem::laid(kernel, dtype, int, counts, positions, hidden, Lays::PACKED)
    }

    /// The same with tensors that lie otherwise.
    pub fn laid(
        kernel: &Verified,
        dtype: DType,
        int: IntType,
        counts: &[u64],
        positions: u64,
        hidden: u64,
        lays: Lays,
    ) -> Problem {
        let spec = Spec::contiguous(kernel, dtype, int, counts, hidden);
        let mut random = ChaCha8Rng::seed_from_u64(positions * 31 + hidden);
        let mut inputs = Vec::new();
        for input in &kernel.inputs {
            let tensors = (0..input.count).map(|_| {
                let mut tensor = match input.kind {
                    InputKind::Rows(ty) => values(&mut random, spec.float(ty), positions, hidden),
                    InputKind::Table { ty, rows, chunks } => {
                        values(&mut random, spec.float(ty), spec.extent(rows), u64::from(chunks) * hidden)
                    }
                    InputKind::Index { ty, bound, pad } => {
                        indices(&mut random, spec.int(ty), positions, spec.extent(bound), pad)
                    }
                };
                if lays.of(&input.kind) == Lay::Repeated {
                    tensor.repeat_first_row();
                }
                tensor
            });
            inputs.push(tensors.collect());
        }
        let (kernel, counts) = (kernel.clone(), counts.to_vec());
        Problem { kernel, dtype, int, counts, positions, hidden, inputs, gradient: None, lays }
    }

    /// The Spec of the planned call on packed tensors.
    pub fn spec(&self) -> Spec {
        let mut spec = Spec::contiguous(&self.kernel, self.dtype, self.int, &self.counts, self.hidden);
        if let Some(gradient) = self.gradient {
            for (param, ty) in self.kernel.floats.iter().zip(&mut spec.floats) {
                if param.default.is_some() {
                    *ty = gradient;
                }
            }
            let outputs = self.kernel.outputs.iter().map(|output| match output.kind {
                OutputKind::Rows(ty) | OutputKind::Table { ty, .. } => spec.widest(ty),
            });
            spec.outputs = outputs.collect();
        }
        spec.s_class = SClass::of(self.positions, self.kernel.order.block);
        spec
    }

    /// What every engine must give: the CPU executor's bytes, indices checked by itself, on packed tensors.
    pub fn expected(&self) -> Vec<Vec<u8>> {
        let stream = Device::cpu().stream().expect("there is a CPU");
        let mut on_cpu = Placement::new(self, &stream, Lays::PACKED).expect("the problem is legal");
        on_cpu.run(None, false).expect("the problem is legal")
    }

    /// The tensors on a device, outputs poisoned.
    pub fn place(&self, stream: &Stream) -> Result<Placement<'_>, Error> {
        Placement::new(self, stream, self.lays)
    }

    /// Row counts by their names.
    pub fn named_counts(&self) -> Vec<(&str, u64)> {
        self.kernel.counts.iter().map(String::as_str).zip(self.counts.iter().copied()).collect()
    }

    /// Where and how two results differ first.
    pub fn difference(&self, left: &[Vec<u8>], right: &[Vec<u8>]) -> Option<String> {
        assert_eq!(left.len(), right.len(), "every output tensor is compared");
        let outputs = self.kernel.outputs.iter();
        let names = outputs.flat_map(|output| (0..output.tensors()).map(move |tensor| (output, tensor)));
        for ((left, right), (output, tensor)) in left.iter().zip(right).zip(names) {
            if left.len() != right.len() {
                return Some(format!("{}[{tensor}]: {} bytes and {} bytes", output.name, left.len(), right.len()));
            }
            if left == right {
                continue;
            }
            let at = left.iter().zip(right).position(|(left, right)| left != right);
            let at = at.expect("equal lengths, different bytes");
            let columns = match output.kind {
                OutputKind::Rows(_) => self.hidden,
                OutputKind::Table { .. } => self.hidden * output.values.len() as u64,
            };
            let (name, left, right) = (&output.name, left[at], right[at]);
            return Some(format!("{name}[{tensor}] byte {at} of rows of {columns}: {left:#04x} and {right:#04x}"));
        }
        None
    }

    /// A line that tells it apart.
    pub fn name(&self) -> String {
        let Problem { kernel, dtype, int, counts, positions, hidden, gradient, lays, .. } = self;
        let (name, way, sum) = (&kernel.name, kernel.direction, kernel.order.accumulate);
        let gradient = gradient.map_or_else(String::new, |ty| format!(", gradients {ty}"));
        let lays = if *lays == Lays::PACKED { String::new() } else { format!(", {lays:?}") };
        format!("{name} {way} {dtype} {int} {sum}, R = {counts:?}, S = {positions}, H = {hidden}{gradient}{lays}")
    }
}

/// The tensors and plans of a problem on a device.
pub struct Placement<'p> {
    problem: &'p Problem,
    stream: Stream,
    inputs: Vec<Vec<Placed>>,
    outputs: Vec<Vec<Placed>>,
    /// Empty until a planned call.
    plans: Vec<RowPlan>,
    /// Scratch memory of the last planned call.
    pub workspace_bytes: u64,
}

impl<'p> Placement<'p> {
    fn new(problem: &'p Problem, stream: &Stream, lays: Lays) -> Result<Placement<'p>, Error> {
        let kernel = &problem.kernel;
        let spec = problem.spec();
        let place = |(kind, tensors): (&InputKind, &Vec<HostTensor>)| {
            tensors.iter().map(|tensor| Placed::of(stream, tensor, lays.of(kind))).collect::<Result<Vec<_>, _>>()
        };
        let kinds = kernel.inputs.iter().map(|input| &input.kind);
        let inputs = kinds.zip(&problem.inputs).map(place).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = Vec::new();
        for output in &kernel.outputs {
            let (ty, rows, columns) = match output.kind {
                OutputKind::Rows(ty) => (ty, problem.positions, problem.hidden),
                OutputKind::Table { ty, rows } => (ty, spec.extent(rows), problem.hidden * output.values.len() as u64),
            };
            let ty = ElementType::Float(spec.float(ty));
            let poison = |_| Placed::poison(stream, ty, rows, columns, lays.outputs);
            outputs.push((0..output.tensors()).map(poison).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Placement { problem, stream: stream.clone(), inputs, outputs, plans: Vec::new(), workspace_bytes: 0 })
    }

    /// What the call's code is made for.
    pub fn spec(&self, planned: bool) -> Spec {
        let arch = self.stream.device().arch().unwrap_or(Arch::SM_90);
        let spec = spec(&self.problem.kernel, &views(&self.inputs), &views(&self.outputs), planned, arch);
        spec.expect("the problem is legal")
    }

    /// Every legal schedule of the call, the default first.
    pub fn schedules(&self, planned: bool) -> Vec<Schedule> {
        let (kernel, spec) = (&self.problem.kernel, self.spec(planned));
        let mut space = Schedule::space(kernel, &spec);
        space.retain(|schedule| schedule.check(kernel, &spec).is_ok());
        space
    }

    /// Every output tensor's bytes. Outputs are poisoned before; what lies around them must be
    /// poison after, and inputs what they were.
    pub fn run(&mut self, schedule: Option<Schedule>, planned: bool) -> Result<Vec<Vec<u8>>, Error> {
        for placed in self.outputs.iter_mut().flatten() {
            placed.fill(&self.stream)?;
        }
        if planned && self.plans.is_empty() {
            let (kernel, counts) = (&self.problem.kernel, self.problem.named_counts());
            self.plans = plans(&self.stream, kernel, &views(&self.inputs), &counts)?;
        }
        let inputs = views(&self.inputs);
        let given: Vec<&RowPlan> = self.plans.iter().collect();
        let mut views: Vec<Vec<AnyViewMut<'_>>> =
            self.outputs.iter_mut().map(|list| list.iter_mut().map(Placed::view_mut).collect()).collect();
        let plans = planned.then_some(given.as_slice());
        let (kernel, stream) = (&self.problem.kernel, &self.stream);
        let call = Call { inputs: &inputs, outputs: &mut views, plans, schedule, workspace: None };
        // As many bytes as the call says, and poison in them.
        let mut workspace = match plans {
            Some(_) => Some(Workspace::with_bytes(stream, workspace_bytes(stream, kernel, &call)?)?),
            None => None,
        };
        if let Some(workspace) = &mut workspace {
            workspace.fill(POISON)?;
        }
        run(stream, kernel, Call { workspace: workspace.as_mut(), ..call })?;
        self.workspace_bytes = workspace.map_or(0, |workspace| workspace.bytes());
        let mut found = Vec::new();
        for placed in self.outputs.iter().flatten() {
            let (bytes, untouched) = placed.read(&self.stream)?;
            assert!(untouched, "{}: wrote between the rows of an output", self.problem.name());
            found.push(bytes);
        }
        Ok(found)
    }

    /// Inputs are what they were.
    pub fn check_inputs(&self) {
        for (placed, tensor) in self.inputs.iter().flatten().zip(self.problem.inputs.iter().flatten()) {
            let (bytes, untouched) = placed.read(&self.stream).expect("it can be read");
            assert!(bytes == tensor.bytes && untouched, "{}: an input was written", self.problem.name());
        }
    }

    /// The bytes under a schedule are `expected`.
    pub fn check(&mut self, expected: &[Vec<u8>], schedule: Option<Schedule>, planned: bool) {
        let name = self.problem.name();
        let shown = schedule.map_or_else(|| "the default schedule".to_owned(), |schedule| schedule.to_string());
        let found = self.run(schedule, planned);
        let found = found.unwrap_or_else(|error| panic!("{name}, planned {planned}, {shown}: {error}"));
        assert_eq!(self.problem.difference(expected, &found), None, "{name}, planned {planned}: {shown}");
    }
}

fn views(lists: &[Vec<Placed>]) -> Vec<Vec<AnyView<'_>>> {
    lists.iter().map(|list| list.iter().map(Placed::view).collect()).collect()
}

impl HostTensor {
    fn repeat_first_row(&mut self) {
        let row = self.bytes[..(self.columns * self.ty.bytes()) as usize].to_vec();
        for other in self.bytes.chunks_exact_mut(row.len()) {
            other.copy_from_slice(&row);
        }
    }
}

/// Numbers drawn before they repeat: a prime, so that neither rows nor tiles repeat with them.
const DRAWN: usize = 1_048_573;

/// Mostly ordinary values of mixed magnitude; one in 128 is -0.0, a subnormal, an infinity or a
/// NaN with a payload.
pub fn values(random: &mut ChaCha8Rng, dtype: DType, rows: u64, columns: u64) -> HostTensor {
    let count = usize::try_from(rows * columns).expect("it fits");
    let mut bytes = Vec::with_capacity(count * dtype.bytes() as usize);
    for _ in 0..count.min(DRAWN) {
        let draw = random.next_u64();
        let special = draw >> 57 == 0;
        let which = (draw >> 41) as usize % 5;
        // The sign, 23 bits of fraction and an exponent of -6..6.
        let exponent = (127 - 6 + (draw >> 32) as u32 % 12) << 23;
        let value = f32::from_bits((draw as u32 & 0x807F_FFFF) | exponent);
        match dtype {
            DType::F32 => {
                let specials: [u32; 5] = [0x8000_0000, 0x0000_0001, 0x7F80_0000, 0x7FA1_2345, 0x8040_0000];
                bytes.extend((if special { specials[which] } else { value.to_bits() }).to_ne_bytes());
            }
            DType::F16 => {
                let specials: [u16; 5] = [0x8000, 0x0001, 0x7C00, 0x7D23, 0x8100];
                let bits = if special { specials[which] } else { half::f16::from_f32(value).to_bits() };
                bytes.extend(bits.to_ne_bytes());
            }
            DType::Bf16 => {
                let specials: [u16; 5] = [0x8000, 0x0001, 0x7F80, 0x7F81, 0x8040];
                let bits = if special { specials[which] } else { half::bf16::from_f32(value).to_bits() };
                bytes.extend(bits.to_ne_bytes());
            }
        }
    }
    let whole = count * dtype.bytes() as usize;
    while bytes.len() < whole {
        let more = (whole - bytes.len()).min(DRAWN * dtype.bytes() as usize);
        bytes.extend_from_within(..more);
    }
    HostTensor { ty: ElementType::Float(dtype), rows, columns, bytes }
}

/// Indices in their bound.
pub fn indices(random: &mut ChaCha8Rng, ty: IntType, positions: u64, bound: u64, pad: Option<i64>) -> HostTensor {
    // Half of the positions are in row 0, the rest anywhere below three quarters of the bound.
    let largest = match ty {
        IntType::U8 => u64::from(u8::MAX),
        IntType::I32 => i32::MAX as u64,
        IntType::I64 => i64::MAX as u64,
    };
    let reach = (bound * 3).div_ceil(4).clamp(1, largest);
    let drawn = (0..positions).map(|_| {
        let value = if random.random_range(0..2) == 0 { 0 } else { random.random_range(0..reach) as i64 };
        pad.filter(|_| random.random_range(0..7) == 0).unwrap_or(value)
    });
    column(ty, drawn)
}

/// One number a position.
pub fn column(ty: IntType, values: impl IntoIterator<Item = i64>) -> HostTensor {
    let mut bytes = Vec::new();
    for value in values {
        match ty {
            IntType::U8 => bytes.push(u8::try_from(value).expect("it fits")),
            IntType::I32 => bytes.extend(i32::try_from(value).expect("it fits").to_ne_bytes()),
            IntType::I64 => bytes.extend(value.to_ne_bytes()),
        }
    }
    HostTensor { ty: ElementType::Int(ty), rows: bytes.len() as u64 / u64::from(ty.bytes()), columns: 1, bytes }
}
