//! The text form, read. The grammar is the printer's, line by line; anything
//! else is an error that names the line.

use super::words::{Parse, Words};
use super::{
    CountId, Direction, Extent, FloatId, FloatParam, FloatType, IndexType, Input, InputId, InputKind, IntId, Kernel,
    Node, NodeId, Op, Order, Output, OutputKind, RowExpr, RowId, Shape, Tiles, ValueType,
};
use crate::dtype::{DType, IntType};

/// Text that is no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

pub(super) fn kernel(text: &str) -> Result<Kernel, ParseError> {
    let mut kernel = Kernel {
        name: String::new(),
        direction: Direction::Forward,
        order: Order::default(),
        tiles: Tiles::default(),
        floats: vec![],
        ints: vec![],
        counts: vec![],
        inputs: vec![],
        rows: vec![],
        nodes: vec![],
        outputs: vec![],
    };
    let mut last = None;
    for (at, line) in text.lines().enumerate() {
        let fail = |message| ParseError { line: at + 1, message };
        let mut words = Words::of(line).map_err(fail)?;
        let section = section(&mut kernel, &mut words).and_then(|section| words.end().map(|()| section));
        let section = section.map_err(fail)?;
        let starts = section == Section::Kernel;
        if starts != last.is_none() || last.is_some_and(|last| section < last) {
            return Err(fail(format!(
                "`{line}` is out of order; the form is kernel, order, tile, float, int, rows, input, row, nodes, output"
            )));
        }
        last = Some(section);
    }
    if last < Some(Section::Order) {
        return Err(ParseError {
            line: text.lines().count() + 1,
            message: "expected a kernel and its order".to_owned(),
        });
    }
    Ok(kernel)
}

/// What a line is about, in the order of the form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Kernel,
    Order,
    Tile,
    Float,
    Int,
    Rows,
    Input,
    Row,
    Node,
    Output,
}

fn section(kernel: &mut Kernel, words: &mut Words<'_>) -> Parse<Section> {
    match words.word()? {
        "kernel" => {
            kernel.name = words.name()?;
            kernel.direction = direction(words)?;
            Ok(Section::Kernel)
        }
        "order" => {
            words.expect("block")?;
            words.expect("=")?;
            kernel.order.block = words.number()?;
            words.expect(",")?;
            words.expect("accumulate")?;
            words.expect("=")?;
            kernel.order.accumulate = words.word()?.parse().map_err(|error| format!("{error}"))?;
            Ok(Section::Order)
        }
        "tile" => {
            let direction = direction(words)?;
            let field = words.name()?;
            words.expect("=")?;
            let values = words.list(|words| Ok(words.word()?.to_owned()))?;
            let tile = match direction {
                Direction::Forward => &mut kernel.tiles.forward,
                Direction::Backward => &mut kernel.tiles.backward,
            };
            tile.fields.push((field, values));
            Ok(Section::Tile)
        }
        "float" => {
            let name = words.name()?;
            let default = if words.take("=") { Some(float(kernel, words)?) } else { None };
            kernel.floats.push(FloatParam { name, default });
            Ok(Section::Float)
        }
        "int" => {
            kernel.ints.push(words.name()?);
            Ok(Section::Int)
        }
        "rows" => {
            kernel.counts.push(words.name()?);
            Ok(Section::Rows)
        }
        "input" => {
            let input = input(kernel, words)?;
            kernel.inputs.push(input);
            Ok(Section::Input)
        }
        "row" => {
            let row = row(kernel, words)?;
            kernel.rows.push(row);
            Ok(Section::Row)
        }
        "output" => {
            let output = output(kernel, words)?;
            kernel.outputs.push(output);
            Ok(Section::Output)
        }
        word => {
            numbered(word, 'v', kernel.nodes.len())?;
            let node = node(kernel, words)?;
            kernel.nodes.push(node);
            Ok(Section::Node)
        }
    }
}

fn direction(words: &mut Words<'_>) -> Parse<Direction> {
    match words.word()? {
        "forward" => Ok(Direction::Forward),
        "backward" => Ok(Direction::Backward),
        word => Err(format!("expected forward or backward, found `{word}`")),
    }
}

fn float(kernel: &Kernel, words: &mut Words<'_>) -> Parse<FloatType> {
    let word = words.word()?;
    if let Some(at) = kernel.floats.iter().position(|param| param.name == word) {
        return Ok(FloatType::Param(FloatId(at as u32)));
    }
    word.parse::<DType>().map(FloatType::Fixed).map_err(|error| error.to_string())
}

fn int(kernel: &Kernel, words: &mut Words<'_>) -> Parse<IndexType> {
    let word = words.word()?;
    if let Some(at) = kernel.ints.iter().position(|name| name == word) {
        return Ok(IndexType::Param(IntId(at as u32)));
    }
    word.parse::<IntType>().map(IndexType::Fixed).map_err(|error| error.to_string())
}

fn extent(kernel: &Kernel, words: &mut Words<'_>) -> Parse<Extent> {
    let word = words.word()?;
    if let Ok(rows) = word.parse() {
        return Ok(Extent::literal(rows));
    }
    let Some(at) = kernel.counts.iter().position(|name| name == word) else {
        return Err(format!("`{word}` is no row count"));
    };
    let mut extent = Extent::count(CountId(at as u32));
    if words.take("*") {
        extent.numerator = words.number()?;
    }
    if words.take("/") {
        extent.denominator = words.number()?;
    }
    Ok(extent)
}

fn input(kernel: &Kernel, words: &mut Words<'_>) -> Parse<Input> {
    let name = words.name()?;
    words.expect(":")?;
    let array = words.take("[");
    let kind = match words.word()? {
        "rows" => {
            words.expect("<")?;
            InputKind::Rows(float(kernel, words)?)
        }
        "table" => {
            words.expect("<")?;
            let ty = float(kernel, words)?;
            words.expect(",")?;
            let rows = extent(kernel, words)?;
            words.expect(",")?;
            InputKind::Table { ty, rows, chunks: words.number()? }
        }
        "index" => {
            words.expect("<")?;
            let ty = int(kernel, words)?;
            words.expect(",")?;
            let bound = extent(kernel, words)?;
            let pad = if words.take(",") {
                words.expect("pad")?;
                words.expect("=")?;
                Some(words.number()?)
            } else {
                None
            };
            InputKind::Index { ty, bound, pad }
        }
        word => return Err(format!("expected rows, table or index, found `{word}`")),
    };
    words.expect(">")?;
    let mut count = 1;
    if array {
        words.expect(";")?;
        count = words.number()?;
        words.expect("]")?;
    }
    Ok(Input { name, kind, count })
}

fn input_id(kernel: &Kernel, words: &mut Words<'_>) -> Parse<InputId> {
    let name = words.word()?;
    kernel.input(name).ok_or_else(|| format!("`{name}` is no input"))
}

fn row(kernel: &Kernel, words: &mut Words<'_>) -> Parse<RowExpr> {
    numbered(words.word()?, 'r', kernel.rows.len())?;
    words.expect(":")?;
    let rows = extent(kernel, words)?;
    words.expect("=")?;
    let mut row = RowExpr { terms: vec![], offset: 0, rows };
    loop {
        if let Some(offset) = words.peek().and_then(|word| word.parse().ok()) {
            words.word()?;
            row.offset = offset;
            break;
        }
        let index = input_id(kernel, words)?;
        let factor = if words.take("*") { words.number()? } else { 1 };
        row.terms.push((index, factor));
        if !words.take("+") {
            break;
        }
    }
    Ok(row)
}

fn node(kernel: &Kernel, words: &mut Words<'_>) -> Parse<Node> {
    let origin = if words.take("of") { Some(NodeId(words.id('v')?)) } else { None };
    words.expect(":")?;
    let shape = words.word()?;
    words.expect("<")?;
    let ty = match words.peek() {
        Some("f32") => {
            words.word()?;
            ValueType::F32
        }
        Some("acc") => {
            words.word()?;
            ValueType::Accumulator
        }
        Some(_) | None => {
            words.take("stored");
            ValueType::Stored(float(kernel, words)?)
        }
    };
    let shape = match shape {
        "rows" => Shape::Rows,
        "table" => {
            words.expect(",")?;
            Shape::Table(extent(kernel, words)?)
        }
        word => return Err(format!("expected rows or table, found `{word}`")),
    };
    words.expect(">")?;
    words.expect("=")?;
    let op = match words.word()? {
        "read" => {
            let input = input_id(kernel, words)?;
            Op::Read { input, element: words.subscript()? }
        }
        "gather" => {
            let table = input_id(kernel, words)?;
            let chunk = words.subscript()?;
            words.expect("at")?;
            Op::Gather { table, chunk, row: RowId(words.id('r')?) }
        }
        "cast" => Op::Cast { value: NodeId(words.id('v')?) },
        "add" => {
            let left = NodeId(words.id('v')?);
            words.expect(",")?;
            Op::Add { left, right: NodeId(words.id('v')?) }
        }
        "segment_sum" => {
            let value = NodeId(words.id('v')?);
            words.expect("at")?;
            Op::SegmentSum { value, row: RowId(words.id('r')?) }
        }
        "zero" => Op::Zero,
        word => return Err(format!("`{word}` is no operation")),
    };
    Ok(Node { op, shape, ty, origin })
}

fn output(kernel: &Kernel, words: &mut Words<'_>) -> Parse<Output> {
    let name = words.name()?;
    words.expect(":")?;
    let shape = words.word()?;
    words.expect("<")?;
    let ty = float(kernel, words)?;
    let kind = match shape {
        "rows" => OutputKind::Rows(ty),
        "table" => {
            words.expect(",")?;
            OutputKind::Table { ty, rows: extent(kernel, words)? }
        }
        word => return Err(format!("expected rows or table, found `{word}`")),
    };
    words.expect(">")?;
    words.expect("=")?;
    let values = words.list(|words| Ok(NodeId(words.id('v')?)))?;
    Ok(Output { name, kind, values })
}

fn numbered(word: &str, prefix: char, expected: usize) -> Parse<()> {
    let wanted = format!("{prefix}{expected}");
    if word == wanted { Ok(()) } else { Err(format!("expected `{wanted}`, found `{word}`")) }
}
