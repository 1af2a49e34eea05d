//! Tensors of a call: views of the program's own memory, or copies on a device.

use rowloom_codegen::{DType, IntType};
use rowloom_runtime::baseline::{Baseline, Rows};
use rowloom_runtime::{AnyTensor, AnyView, AnyViewMut, Device, ElementType, Stream};

use crate::error::{Error, Result};

use super::host::{Elements, HostTensor, with_elements};
use super::inputs::Batch;

/// The inputs of a call where its device can read them.
pub enum Inputs<'b> {
    /// The program's own memory.
    Host(&'b Batch),
    /// Copies.
    Device(Vec<Vec<AnyTensor>>),
}

impl<'b> Inputs<'b> {
    /// Puts a batch where the stream's device can read it.
    pub fn place(stream: &Stream, batch: &'b Batch) -> Result<Inputs<'b>> {
        if stream.device() == Device::cpu() {
            return Ok(Inputs::Host(batch));
        }
        let copy = |tensor: &HostTensor| {
            let (rows, columns) = (tensor.rows as u64, tensor.columns as u64);
            with_elements!(&*tensor.elements, values => AnyTensor::from_slice(stream, values, rows, columns))
        };
        let inputs = batch.inputs.iter().map(|tensors| tensors.iter().map(copy).collect());
        Ok(Inputs::Device(inputs.collect::<std::result::Result<_, _>>().map_err(Error::failed)?))
    }

    /// Views of them, as a call takes them.
    pub fn views(&self) -> Result<Vec<Vec<AnyView<'_>>>> {
        match self {
            Inputs::Host(batch) => host_views(batch),
            Inputs::Device(tensors) => Ok(views(tensors)),
        }
    }
}

/// Views of a batch in the program's own memory.
pub fn host_views(batch: &Batch) -> Result<Vec<Vec<AnyView<'_>>>> {
    let views = batch.inputs.iter().map(|tensors| tensors.iter().map(host_view).collect());
    views.collect::<std::result::Result<_, _>>().map_err(Error::failed)
}

fn host_view(tensor: &HostTensor) -> std::result::Result<AnyView<'_>, rowloom_runtime::Error> {
    let (rows, columns) = (tensor.rows as u64, tensor.columns as u64);
    with_elements!(&*tensor.elements, values => AnyView::from_slice(values, rows, columns))
}

/// Views of tensors, as a call takes them.
pub fn views(tensors: &[Vec<AnyTensor>]) -> Vec<Vec<AnyView<'_>>> {
    tensors.iter().map(|tensors| tensors.iter().map(AnyTensor::view).collect()).collect()
}

/// The same, to be written.
pub fn views_mut(tensors: &mut [Vec<AnyTensor>]) -> Vec<Vec<AnyViewMut<'_>>> {
    tensors.iter_mut().map(|tensors| tensors.iter_mut().map(AnyTensor::view_mut).collect()).collect()
}

/// Its elements, in the program's own memory.
pub fn read(stream: &Stream, tensor: &AnyTensor) -> Result<HostTensor> {
    let elements = match tensor.element_type() {
        ElementType::Float(DType::F32) => tensor.to_vec(stream).map(Elements::F32),
        ElementType::Float(DType::F16) => tensor.to_vec(stream).map(Elements::F16),
        ElementType::Float(DType::Bf16) => tensor.to_vec(stream).map(Elements::Bf16),
        ElementType::Int(IntType::I64) => tensor.to_vec(stream).map(Elements::I64),
        other @ (ElementType::Int(IntType::U8 | IntType::I32) | ElementType::U32) => {
            return Err(Error::failed(format!("an output of a kernel holds {other}, which no kernel writes")));
        }
    };
    let elements = elements.map_err(Error::failed)?;
    Ok(HostTensor::new(tensor.rows() as usize, tensor.columns() as usize, elements))
}

/// Some rows of a tensor, where it lies.
pub fn picked(baseline: &Baseline, tensor: &AnyTensor, rows: Rows<'_>) -> Result<AnyTensor> {
    let ty = tensor.element_type();
    let mut picked = AnyTensor::uninit(baseline.stream(), ty, rows.count(), tensor.columns()).map_err(Error::failed)?;
    baseline.gather(&mut picked.view_mut(), tensor.view(), rows).map_err(Error::failed)?;
    Ok(picked)
}
