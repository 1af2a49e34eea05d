//! The tensors that a call made.

use crate::element::Element;
use crate::error::Error;
use crate::tensor::{AnyTensor, Tensor};

/// The tensors a call made, taken in the order of the kernel's outputs.
pub struct Results(std::vec::IntoIter<AnyTensor>);

impl Results {
    /// One after the other.
    pub(super) fn new(tensors: Vec<AnyTensor>) -> Results {
        Results(tensors.into_iter())
    }

    /// The next output, of one tensor.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn one<E: Element>(&mut self) -> Result<Tensor<E>, Error> {
        let [tensor] = self.array()?;
        Ok(tensor)
    }

    /// The next output, if it was wanted.
    ///
    /// # Errors
    /// [`Error::ElementType`] when it holds another type.
    pub fn wanted<E: Element>(&mut self, wanted: bool) -> Result<Option<Tensor<E>>, Error> {
        wanted.then(|| self.one()).transpose()
    }

    /// The next output, of N tensors.
    ///
    /// # Errors
    /// [`Error::ElementType`] when they hold another type.
    ///
    /// # Panics
    /// If the kernel has no such output; the macro has counted.
    pub fn array<E: Element, const N: usize>(&mut self) -> Result<[Tensor<E>; N], Error> {
        let tensors: Result<Vec<Tensor<E>>, Error> = self.0.by_ref().take(N).map(AnyTensor::typed).collect();
        let array = <[Tensor<E>; N]>::try_from(tensors?);
        Ok(array.unwrap_or_else(|_| panic!("the macro counted {N} tensors in this output")))
    }
}
