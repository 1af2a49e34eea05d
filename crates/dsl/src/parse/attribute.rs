//! `order(block = 256, accumulate = f32), tile(forward(threads = [96, 128]))`.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use rowloom_codegen::schedule::Tile;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Lit, Token, bracketed, parenthesized};

use crate::decl::Options;
use crate::errors::{Errors, Site};
use crate::symbol;

const PARTS: &str = "write `order(...)` for the order of sums, `tile(...)` for the schedules";
const ORDER_FORM: &str = "write `order(block = 256, accumulate = f32)`";
const TILE_FORM: &str = "write `tile(forward(threads = [96, 128]))`, or `backward(...)`";
const FIELD_FORM: &str = "write the values allowed in brackets, as in `threads = [96, 128]`";

/// `key`, `key = value`, `key(entries)`.
struct Entry {
    key: Ident,
    value: Value,
}

enum Value {
    None,
    Word(Word),
    List(Vec<Word>, Site),
    Entries(Vec<Entry>),
}

/// A name or a literal.
struct Word {
    text: String,
    site: Site,
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Entry> {
        let key = input.call(Ident::parse_any)?;
        let content;
        let value = if input.peek(syn::token::Paren) {
            parenthesized!(content in input);
            Value::Entries(entries(&content)?)
        } else if input.parse::<Option<Token![=]>>()?.is_none() {
            Value::None
        } else if input.peek(syn::token::Bracket) {
            let bracket = bracketed!(content in input);
            let words = Punctuated::<Word, Token![,]>::parse_terminated(&content)?;
            Value::List(words.into_iter().collect(), bracket.span.join().into())
        } else {
            Value::Word(input.parse()?)
        };
        Ok(Entry { key, value })
    }
}

impl Parse for Word {
    fn parse(input: ParseStream<'_>) -> syn::Result<Word> {
        let tokens = if input.peek(Lit) {
            input.parse::<Lit>()?.into_token_stream()
        } else {
            input.call(Ident::parse_any)?.into_token_stream()
        };
        Ok(Word { text: tokens.to_string(), site: Site::of(tokens) })
    }
}

fn entries(input: ParseStream<'_>) -> syn::Result<Vec<Entry>> {
    Ok(Punctuated::<Entry, Token![,]>::parse_terminated(input)?.into_iter().collect())
}

/// What the attribute says; what is at fault keeps its default.
pub fn options(tokens: TokenStream, errors: &Errors) -> Options {
    let mut options = Options::default();
    let parts = match syn::parse::Parser::parse2(entries, tokens) {
        Ok(parts) => parts,
        Err(error) => {
            errors.at(Site::from(error.span()), format!("this is not understood here; {PARTS}"));
            return options;
        }
    };
    no_duplicates(&parts, errors);
    for part in &parts {
        match (part.key.to_string().as_str(), &part.value) {
            (symbol::ORDER, Value::Entries(fields)) => {
                options.order_site = Some(Site::of(&part.key));
                order(fields, &mut options, errors);
            }
            (symbol::TILE, Value::Entries(directions)) => tiles(directions, &mut options, errors),
            (symbol::ORDER, _) => errors.at(&part.key, format!("`order` has parts; {ORDER_FORM}")),
            (symbol::TILE, _) => errors.at(&part.key, format!("`tile` has parts; {TILE_FORM}")),
            (other, _) => errors.at(&part.key, format!("`#[kernel]` knows no `{other}`; {PARTS}")),
        }
    }
    options
}

fn no_duplicates(entries: &[Entry], errors: &Errors) {
    for (at, entry) in entries.iter().enumerate() {
        if entries[..at].iter().any(|earlier| earlier.key == entry.key) {
            errors.at(&entry.key, format!("`{}` is said twice; keep one", entry.key));
        }
    }
}

fn order(fields: &[Entry], options: &mut Options, errors: &Errors) {
    no_duplicates(fields, errors);
    for field in fields {
        let word = match &field.value {
            Value::Word(word) => word,
            Value::None | Value::List(..) | Value::Entries(_) => {
                errors.at(&field.key, format!("`{}` has one value; {ORDER_FORM}", field.key));
                continue;
            }
        };
        match field.key.to_string().as_str() {
            symbol::BLOCK => match word.text.parse() {
                Ok(block) if block > 0 => options.order.block = block,
                _ => errors.at(word.site, "a block is a number of positions, at least 1; write `block = 256`"),
            },
            symbol::ACCUMULATE => match word.text.parse() {
                Ok(accumulate) => options.order.accumulate = accumulate,
                Err(_) => errors.at(word.site, "sums run in `f32` or `f64`; write `accumulate = f32`"),
            },
            other => errors.at(&field.key, format!("`order` knows no `{other}`; {ORDER_FORM}")),
        }
    }
}

fn tiles(directions: &[Entry], options: &mut Options, errors: &Errors) {
    no_duplicates(directions, errors);
    for direction in directions {
        let tile = match direction.key.to_string().as_str() {
            symbol::FORWARD => &mut options.tiles.forward,
            symbol::BACKWARD => &mut options.tiles.backward,
            other => {
                errors.at(&direction.key, format!("`tile` knows no `{other}`; {TILE_FORM}"));
                continue;
            }
        };
        match &direction.value {
            Value::Entries(fields) => *tile = self::tile(fields, errors),
            Value::None | Value::Word(_) | Value::List(..) => {
                errors.at(&direction.key, format!("`{}` has parts; {TILE_FORM}", direction.key));
            }
        }
    }
}

/// The tile of one direction. Whether the words mean anything is for
/// [`Tile::check`] to say; here it is pointed at.
fn tile(fields: &[Entry], errors: &Errors) -> Tile {
    no_duplicates(fields, errors);
    let mut tile = Tile::default();
    let mut sites = Vec::new();
    for field in fields {
        let words = match &field.value {
            Value::List(words, _) if !words.is_empty() => words,
            Value::List(_, site) => {
                errors.at(*site, format!("no value is left for `{}`; {FIELD_FORM}", field.key));
                continue;
            }
            Value::Word(word) => {
                let instead = format!("write `{} = [{}]`", field.key, word.text);
                errors.at(word.site, format!("the values allowed stand in brackets; {instead}"));
                continue;
            }
            Value::None | Value::Entries(_) => {
                errors.at(&field.key, format!("`{}` has values; {FIELD_FORM}", field.key));
                continue;
            }
        };
        tile.fields.push((field.key.to_string(), words.iter().map(|word| word.text.clone()).collect()));
        sites.push((&field.key, words));
    }
    for fault in tile.check().err().into_iter().flatten() {
        let (key, words) = sites[fault.field];
        match fault.value {
            Some(value) => errors.at(words[value].site, fault.message),
            None => errors.at(key, fault.message),
        }
    }
    tile
}
