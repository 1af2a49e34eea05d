//! The command in a refusal makes a record of the very key that was refused.

use rowloom_codegen::spec::Access;
use rowloom_codegen::{Arch, DType, IntType, SClass, Spec, Subject, Verified, Wants};
use rowloom_runtime::Declaration;
use rowloom_runtime::tuning::{Found, Record, Records};

use crate::made::{h200, machine, record};

const TWO: &str = "\
kernel two forward
order block = 256, accumulate = f32
float T
int I
rows R
rows N
input left: table<T, R, 1>
input right: table<T, N, 1>
input at: index<I, R>
input by: index<I, N>
row r0: R = at
row r1: N = by
v0: rows<T> = gather left[0] at r0
v1: rows<T> = gather right[0] at r1
output out: rows<T> = [v0, v1]
";

/// What a refused record of these sizes says is to be done.
fn remedy(kernel: &Verified, spec: &Spec, positions: u64) -> String {
    let subject = Subject::Kernel { kernel: kernel.clone(), spec: spec.clone() };
    let mut record: Record = record(&subject, positions, subject.default_choice().unwrap(), &h200());
    record.provenance.driver = Some("1".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let records = Records::over(None, Some(folder.path()));
    records.add(&record).unwrap();
    let here = machine("NVIDIA H200", "580.159.04", (13, 5));
    let Found::Refused(refused) = records.find(&subject, &here, positions) else { panic!("its driver is another") };
    refused.to_string().rsplit("; ").next().unwrap().to_owned()
}

#[test]
fn every_flag_is_in_it_that_the_key_depends_on() {
    let declared = Declaration::from_ir(TWO).unwrap();
    let forward = declared.forward();
    let backward = declared.backward(&Wants::all(forward));
    let spec = |kernel: &Verified, index, counts: &[u64], positions| {
        let mut spec = Spec::contiguous(kernel, DType::F16, index, counts, 24);
        spec.arch = Arch::SM_90;
        spec.s_class = SClass::of(positions, kernel.order.block);
        spec
    };
    // Both in buckets that begin in another class.
    for (positions, class) in [(300, SClass::Short), (20_000, SClass::Long)] {
        let spec = spec(forward, IntType::I64, &[9, 9], positions);
        assert_eq!(spec.s_class, class);
        assert_eq!(
            remedy(forward, &spec, positions),
            format!(
                "run `rowloom tune two --dtype f16 --rows 9 --hidden 24 --index i64 --positions {positions} \
                 --only forward`"
            )
        );
    }
    let mut stored = spec(&backward, IntType::I32, &[9, 4], 300);
    let own =
        "run `rowloom tune two --dtype f16 --rows R=9,N=4 --hidden 24 --index i32 --positions 300 --only backward`";
    assert_eq!(remedy(&backward, &stored, 300), own);
    rowloom_runtime::sources::store_gradients_as(&backward, &mut stored, DType::F32);
    assert_eq!(remedy(&backward, &stored, 300), own.replace("i32 ", "i32 --gradient f32 "));
    // What `rowloom tune` does not measure.
    let mut strided = spec(forward, IntType::I64, &[9, 9], 300);
    strided.inputs[0] = Access { vector_bytes: 2 };
    assert_eq!(
        remedy(forward, &strided, 300),
        "`rowloom tune` does not measure such calls: do so with the program that made it"
    );
}
