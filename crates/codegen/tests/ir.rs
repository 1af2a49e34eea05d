//! The text form round-trips, the verifier passes what is right, and the
//! backward of each kernel in `tests/kernels` is what its snapshot shows.

use rowloom_codegen::{Kernel, Wants, backward};

#[test]
fn every_kernel_round_trips_and_derives() {
    insta::glob!("kernels/*.txt", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let kernel = Kernel::parse(&text).unwrap();
        assert_eq!(kernel.to_string(), text);
        let verified = kernel.verify().unwrap();
        let derived = backward(&verified, &Wants::all(&verified));
        let derived_text = derived.to_string();
        assert_eq!(Kernel::parse(&derived_text).unwrap(), *derived);
        insta::assert_snapshot!(derived_text);
    });
}
