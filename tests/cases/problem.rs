//! A call with random arguments, and its outputs as bytes on any device.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rowloom::codegen::ir::{InputKind, OutputKind};
use rowloom::codegen::{DType, IntType, SClass, Schedule, Spec, Verified};
use rowloom::{AnyTensor, AnyViewMut, Call, ElementType, Error, RowPlan, Stream, allocate_outputs, plans, run};

/// One tensor of the host, as bytes.
#[derive(Clone)]
pub struct HostTensor {
    pub ty: ElementType,
    pub rows: u64,
    pub columns: u64,
    pub bytes: Vec<u8>,
}

/// Sizes of a call and its random inputs.
pub struct Problem {
    pub kernel: Verified,
    pub counts: Vec<u64>,
    pub positions: u64,
    pub hidden: u64,
    pub inputs: Vec<Vec<HostTensor>>,
    /// Stored type of table gradients in place of the table's own.
    pub gradient: Option<DType>,
}

impl Problem {
    /// Values with every special encoding among them; indices with one hot row, unused rows and,
    /// where it is declared, a pad.
    pub fn new(kernel: &Verified, dtype: DType, int: IntType, counts: &[u64], positions: u64, hidden: u64) -> Problem {
        let spec = Spec::contiguous(kernel, dtype, int, counts, hidden);
        let mut random = ChaCha8Rng::seed_from_u64(positions * 31 + hidden);
        let mut inputs = Vec::new();
        for input in &kernel.inputs {
            let tensors = (0..input.count).map(|_| match input.kind {
                InputKind::Rows(ty) => values(&mut random, spec.float(ty), positions, hidden),
                InputKind::Table { ty, rows, chunks } => {
                    values(&mut random, spec.float(ty), spec.extent(rows), u64::from(chunks) * hidden)
                }
                InputKind::Index { ty, bound, pad } => {
                    indices(&mut random, spec.int(ty), positions, spec.extent(bound), pad)
                }
            });
            inputs.push(tensors.collect());
        }
        Problem { kernel: kernel.clone(), counts: counts.to_vec(), positions, hidden, inputs, gradient: None }
    }

    /// The Spec of the planned call on contiguous tensors.
    pub fn spec(&self, dtype: DType, int: IntType) -> Spec {
        let mut spec = Spec::contiguous(&self.kernel, dtype, int, &self.counts, self.hidden);
        spec.s_class = SClass::of(self.positions, self.kernel.order.block);
        spec
    }

    /// The inputs on a device.
    pub fn upload(&self, stream: &Stream) -> Result<Vec<Vec<AnyTensor>>, Error> {
        self.inputs.iter().map(|tensors| tensors.iter().map(|tensor| tensor.upload(stream)).collect()).collect()
    }

    /// Every output tensor's bytes. Outputs are poisoned before.
    pub fn run(&self, stream: &Stream, schedule: Option<Schedule>, planned: bool) -> Result<Vec<Vec<u8>>, Error> {
        let tensors = self.upload(stream)?;
        let inputs: Vec<Vec<_>> = tensors.iter().map(|list| list.iter().map(AnyTensor::view).collect()).collect();
        let counts: Vec<(&str, u64)> =
            self.kernel.counts.iter().map(String::as_str).zip(self.counts.iter().copied()).collect();
        let mut outputs = allocate_outputs(stream, &self.kernel, &inputs, &counts, self.gradient)?;
        for tensor in outputs.iter_mut().flatten() {
            tensor.view_mut().fill(stream, 0xFF)?;
        }
        let built = if planned { plans(stream, &self.kernel, &inputs, &counts)? } else { vec![] };
        let given: Vec<&RowPlan> = built.iter().collect();
        let mut views: Vec<Vec<AnyViewMut<'_>>> =
            outputs.iter_mut().map(|list| list.iter_mut().map(AnyTensor::view_mut).collect()).collect();
        let call = Call {
            inputs: &inputs,
            outputs: &mut views,
            plans: planned.then_some(given.as_slice()),
            schedule,
            workspace: None,
        };
        run(stream, &self.kernel, call)?;
        outputs.iter().flatten().map(|tensor| download(stream, tensor)).collect()
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
            if let Some(at) = left.iter().zip(right).position(|(left, right)| left != right) {
                let columns = match output.kind {
                    OutputKind::Rows(_) => self.hidden,
                    OutputKind::Table { .. } => self.hidden * output.values.len() as u64,
                };
                let (name, left, right) = (&output.name, left[at], right[at]);
                return Some(format!("{name}[{tensor}] byte {at} of rows of {columns}: {left:#04x} and {right:#04x}"));
            }
        }
        None
    }
}

impl HostTensor {
    pub fn upload(&self, stream: &Stream) -> Result<AnyTensor, Error> {
        let (rows, columns) = (self.rows, self.columns);
        match self.ty {
            ElementType::Float(DType::F32) => {
                AnyTensor::from_slice(stream, &bytemuck::pod_collect_to_vec::<u8, f32>(&self.bytes), rows, columns)
            }
            ElementType::Float(DType::F16) => AnyTensor::from_slice(
                stream,
                &bytemuck::pod_collect_to_vec::<u8, half::f16>(&self.bytes),
                rows,
                columns,
            ),
            ElementType::Float(DType::Bf16) => AnyTensor::from_slice(
                stream,
                &bytemuck::pod_collect_to_vec::<u8, half::bf16>(&self.bytes),
                rows,
                columns,
            ),
            ElementType::Int(IntType::U8) => AnyTensor::from_slice(stream, &self.bytes, rows, columns),
            ElementType::Int(IntType::I32) => {
                AnyTensor::from_slice(stream, &bytemuck::pod_collect_to_vec::<u8, i32>(&self.bytes), rows, columns)
            }
            ElementType::Int(IntType::I64) => {
                AnyTensor::from_slice(stream, &bytemuck::pod_collect_to_vec::<u8, i64>(&self.bytes), rows, columns)
            }
            ElementType::U32 => {
                AnyTensor::from_slice(stream, &bytemuck::pod_collect_to_vec::<u8, u32>(&self.bytes), rows, columns)
            }
        }
    }
}

/// A tensor's bytes on the host.
pub fn download(stream: &Stream, tensor: &AnyTensor) -> Result<Vec<u8>, Error> {
    Ok(match tensor.element_type() {
        ElementType::Float(DType::F32) => bytemuck::cast_slice(&tensor.to_vec::<f32>(stream)?).to_vec(),
        ElementType::Float(DType::F16) => bytemuck::cast_slice(&tensor.to_vec::<half::f16>(stream)?).to_vec(),
        ElementType::Float(DType::Bf16) => bytemuck::cast_slice(&tensor.to_vec::<half::bf16>(stream)?).to_vec(),
        ElementType::Int(IntType::U8) => tensor.to_vec::<u8>(stream)?,
        ElementType::Int(IntType::I32) => bytemuck::cast_slice(&tensor.to_vec::<i32>(stream)?).to_vec(),
        ElementType::Int(IntType::I64) => bytemuck::cast_slice(&tensor.to_vec::<i64>(stream)?).to_vec(),
        ElementType::U32 => bytemuck::cast_slice(&tensor.to_vec::<u32>(stream)?).to_vec(),
    })
}

/// Mostly ordinary values of mixed magnitude; one in 97 is -0.0, a subnormal, an infinity or a
/// NaN with a payload.
fn values(random: &mut ChaCha8Rng, dtype: DType, rows: u64, columns: u64) -> HostTensor {
    let count = usize::try_from(rows * columns).expect("it fits");
    let mut bytes = Vec::with_capacity(count * dtype.bytes() as usize);
    for _ in 0..count {
        let special = random.random_range(0..97) == 0;
        let value = random.random_range(-1.0f32..1.0) * f32::powi(2.0, random.random_range(-6..6));
        match dtype {
            DType::F32 => {
                let specials = [0x8000_0000, 0x0000_0001, 0x7F80_0000, 0x7FA1_2345, 0x8040_0000];
                let bits = if special { specials[random.random_range(0..5)] } else { value.to_bits() };
                bytes.extend(u32::to_ne_bytes(bits));
            }
            DType::F16 => {
                let specials = [0x8000, 0x0001, 0x7C00, 0x7D23, 0x8100];
                let bits =
                    if special { specials[random.random_range(0..5)] } else { half::f16::from_f32(value).to_bits() };
                bytes.extend(u16::to_ne_bytes(bits));
            }
            DType::Bf16 => {
                let specials = [0x8000, 0x0001, 0x7F80, 0x7F81, 0x8040];
                let bits =
                    if special { specials[random.random_range(0..5)] } else { half::bf16::from_f32(value).to_bits() };
                bytes.extend(u16::to_ne_bytes(bits));
            }
        }
    }
    HostTensor { ty: ElementType::Float(dtype), rows, columns, bytes }
}

/// Indices in their bound.
pub fn indices(random: &mut ChaCha8Rng, ty: IntType, positions: u64, bound: u64, pad: Option<i64>) -> HostTensor {
    // Half of the positions are in row 0, the rest anywhere below three quarters of the bound.
    let reach = (bound * 3).div_ceil(4).max(1);
    let mut bytes = Vec::new();
    for _ in 0..positions {
        let value = if random.random_range(0..2) == 0 { 0 } else { random.random_range(0..reach) as i64 };
        let value = pad.filter(|_| random.random_range(0..7) == 0).unwrap_or(value);
        match ty {
            IntType::U8 => bytes.push(u8::try_from(value).expect("the bound fits")),
            IntType::I32 => bytes.extend(i32::try_from(value).expect("the bound fits").to_ne_bytes()),
            IntType::I64 => bytes.extend(value.to_ne_bytes()),
        }
    }
    HostTensor { ty: ElementType::Int(ty), rows: positions, columns: 1, bytes }
}
