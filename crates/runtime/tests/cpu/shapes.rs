//! Shapes of plans that mean nothing.

use rowloom_runtime::{Device, Error, RowPlan, RowShape, Tensor, Term};

fn error(terms: Vec<Term>, rows: u64, block: u32) -> Error {
    let stream = Device::cpu().stream().unwrap();
    let index = Tensor::from_slice(&stream, &vec![0u8; 600], 600, 1).unwrap();
    let views = vec![index.view().any(); terms.len()];
    let shape = RowShape { terms, offset: 0, rows, block };
    RowPlan::build(&stream, &shape, &views).map(|_| ()).unwrap_err()
}

fn term(factor: u64, pad: Option<i64>) -> Term {
    Term { name: "group".to_owned(), factor, bound: 3, pad }
}

#[test]
fn each_has_its_sentence() {
    let sentence = |terms| error(terms, 1000, 256).to_string();
    assert!(sentence(vec![term(0, None)]).starts_with("group of the plan has the factor 0"));
    assert!(sentence(vec![term(1, Some(2))]).starts_with("group of the plan has a pad inside its bound"));
    assert!(sentence(vec![term(1, Some(-1))]).starts_with("group of the plan has a pad that its type cannot hold"));
    assert!(matches!(error(vec![term(1, None); 257], 1000, 256), Error::Arguments { found: 257, .. }));
    let many = error(vec![term(1, None)], u64::from(u32::MAX) - 1, 256);
    assert!(matches!(many, Error::TooManyBlocks { blocks: 4_294_967_296, .. }), "{many}");
}
