//! Lists of arrays, plans and counts, as Python passes them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rowloom::PlanSizes;
use smallvec::SmallVec;

use crate::error::Refused;

/// The objects of a sequence, held: on the stack, for kernels of a usual size.
pub(crate) struct Items<'py>(pub(crate) SmallVec<[Bound<'py, PyAny>; 16]>);

impl<'py> FromPyObject<'_, 'py> for Items<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Items<'py>> {
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return Ok(Items(tuple.iter().collect()));
        }
        if let Ok(list) = object.cast::<PyList>() {
            return Ok(Items(list.iter().collect()));
        }
        Ok(Items(object.try_iter()?.collect::<PyResult<_>>()?))
    }
}

/// Sizes of a plan, as Python sees them.
pub(crate) type Sizes = (u64, u64, u32, u64, u64, u64);

/// A plan as plain data.
pub(crate) struct PlanData<'py> {
    pub(crate) state: Bound<'py, PyAny>,
    pub(crate) sizes: PlanSizes,
}

impl<'py> FromPyObject<'_, 'py> for PlanData<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<PlanData<'py>> {
        let (state, sizes): (Bound<'py, PyAny>, Sizes) = object.extract()?;
        let (positions, rows, block, blocks, partials, rowless) = sizes;
        Ok(PlanData { state, sizes: PlanSizes { positions, rows, block, blocks, partials, rowless } })
    }
}

/// One for each row expression.
pub(crate) struct Plans<'py>(pub(crate) SmallVec<[PlanData<'py>; 2]>);

impl<'py> FromPyObject<'_, 'py> for Plans<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Plans<'py>> {
        let Items(items) = object.extract()?;
        Ok(Plans(items.iter().map(|item| item.extract()).collect::<PyResult<_>>()?))
    }
}

/// Row counts by name.
#[derive(Default)]
pub(crate) struct Counts(SmallVec<[(String, u64); 2]>);

impl Counts {
    pub(crate) fn of(counts: &Bound<'_, PyDict>) -> Result<Counts, Refused> {
        let mut all = Counts::default();
        for (name, value) in counts {
            let name: String = name.extract()?;
            let refused =
                |_| Refused::Number { argument: name.clone(), found: value.to_string(), expected: "a number of rows" };
            let value = value.extract().map_err(refused)?;
            all.0.push((name, value));
        }
        Ok(all)
    }

    pub(crate) fn pairs(&self) -> SmallVec<[(&str, u64); 2]> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }
}
