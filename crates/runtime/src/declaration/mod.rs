//! Declared kernels: what the macro leaves in a program.

mod backward;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use backward::Backward;

use rowloom_codegen::ir::{InputId, Kernel, Order};
use rowloom_codegen::{Verified, Wants};

use crate::call::{PreparedCalls, arguments};
use crate::error::Error;

/// A declared kernel, verified, with its derived backwards.
pub struct Declaration {
    forward: Verified,
    backwards: Mutex<HashMap<Wants, Arc<Verified>>>,
    /// Calls of the forward, and of each backward by its wanted inputs.
    prepared: PreparedCalls,
    backward_calls: Mutex<Vec<Arc<Backward>>>,
}

impl Declaration {
    /// From the canonical IR text of a forward.
    ///
    /// # Errors
    /// [`Error::Parse`] and [`Error::Verify`]; never for text the macro made.
    pub fn from_ir(text: &str) -> Result<Declaration, Error> {
        Declaration::of(Kernel::parse(text)?)
    }

    fn of(kernel: Kernel) -> Result<Declaration, Error> {
        let name = kernel.name.clone();
        let forward = kernel.verify().map_err(|faults| Error::Verify { kernel: name, faults })?;
        let (backwards, prepared, backward_calls) = Default::default();
        Ok(Declaration { forward, backwards, prepared, backward_calls })
    }

    /// The user's name for it.
    pub fn name(&self) -> &str {
        &self.forward.name
    }

    /// As declared.
    pub fn forward(&self) -> &Verified {
        &self.forward
    }

    /// Its backward, pruned to what is wanted. Derived once.
    pub fn backward(&self, wants: &Wants) -> Arc<Verified> {
        let mut backwards = self.backwards.lock().unwrap_or_else(PoisonError::into_inner);
        backwards
            .entry(wants.clone())
            .or_insert_with(|| Arc::new(rowloom_codegen::backward(&self.forward, wants)))
            .clone()
    }

    /// Calls of the forward that were prepared before.
    pub(crate) fn prepared(&self) -> &PreparedCalls {
        &self.prepared
    }

    /// The backward that gives the wanted gradients, a flag for each input; `None` where
    /// none is wanted.
    ///
    /// # Errors
    /// [`Error::NoGradient`] for a flag of an index.
    pub(crate) fn backward_of(&self, wanted: &[bool]) -> Result<Option<Arc<Backward>>, Error> {
        let mut known = self.backward_calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backward) = known.iter().find(|backward| backward.wanted() == wanted) {
            return Ok(Some(backward.clone()));
        }
        let inputs = || self.forward.inputs.iter().zip(wanted).enumerate().filter(|(_, (_, wanted))| **wanted);
        if let Some((_, (input, _))) = inputs().find(|(_, (input, _))| input.is_index()) {
            return Err(Error::NoGradient { kernel: self.name().to_owned(), argument: input.name.clone() });
        }
        let Some(wants) = Wants::of(&self.forward, inputs().map(|(at, _)| InputId(at as u32))) else {
            return Ok(None);
        };
        let backward = Arc::new(Backward::of(self, wanted, wants));
        known.push(backward.clone());
        Ok(Some(backward))
    }

    /// For each input, whether the backward that gives the wanted gradients reads it; `wanted` has a flag for each
    /// input. What it does not read, a call of the backward can do without.
    ///
    /// # Errors
    /// [`Error::Arguments`] for another number of flags; [`Error::NoGradient`] for a flag of an index.
    pub fn reads(&self, wanted: &[bool]) -> Result<Vec<bool>, Error> {
        let inputs = self.forward.inputs.len();
        arguments(&self.forward, "inputs", inputs, wanted.len())?;
        let backward = self.backward_of(wanted)?;
        Ok(backward.map_or_else(|| vec![false; inputs], |backward| backward.reads_of(inputs)))
    }

    /// The same kernel with another order of sums: another meaning.
    ///
    /// # Errors
    /// [`Error::Verify`] when there is no such order.
    pub fn with_order(&self, order: Order) -> Result<Declaration, Error> {
        let mut kernel = Kernel::clone(&self.forward);
        kernel.order = order;
        Declaration::of(kernel)
    }
}

impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Declaration({})", self.name())
    }
}

/// A declared kernel as the command finds it.
pub struct Registered {
    /// The user's name for it.
    pub name: &'static str,
    /// Its signature as declared.
    pub signature: &'static str,
    /// First paragraph of its documentation.
    pub docs: &'static str,
    /// Its declaration.
    pub declaration: fn() -> &'static Declaration,
}

inventory::collect!(Registered);

/// Every kernel of the program, by name.
pub fn registered() -> impl Iterator<Item = &'static Registered> {
    let mut kernels: Vec<&'static Registered> = inventory::iter::<Registered>.into_iter().collect();
    kernels.sort_by_key(|kernel| kernel.name);
    kernels.into_iter()
}
