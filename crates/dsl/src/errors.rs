//! Places in the user's tokens, and the list of everything wrong with them.

use std::cell::RefCell;
use std::fmt::Display;
use std::thread;

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;

/// The first and the last of a run of the user's tokens. An error at both is
/// underlined from one to the other, also where spans cannot be joined.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    start: Span,
    end: Span,
}

impl Site {
    /// Where these tokens are.
    pub fn of(tokens: impl ToTokens) -> Site {
        let mut spans = tokens.into_token_stream().into_iter().map(|token| token.span());
        let start = spans.next().unwrap_or_else(Span::call_site);
        let end = spans.last().unwrap_or(start);
        Site { start, end }
    }
}

impl From<Span> for Site {
    fn from(span: Span) -> Site {
        Site { start: span, end: span }
    }
}

impl ToTokens for Site {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        for span in [self.start, self.end] {
            Ident::new("here", span).to_tokens(tokens);
        }
    }
}

/// Every error of one declaration. It must be asked: dropping it unasked panics,
/// so that no stage can lose an error.
pub struct Errors {
    /// `None` once asked.
    list: RefCell<Option<Vec<syn::Error>>>,
}

impl Errors {
    /// Nothing wrong yet.
    pub fn new() -> Errors {
        Errors { list: RefCell::new(Some(Vec::new())) }
    }

    /// One more error: what is wrong, and what to write instead.
    pub fn at(&self, site: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(site, message));
    }

    /// One more error, of the Rust syntax itself.
    pub fn push(&self, error: syn::Error) {
        if let Some(list) = self.list.borrow_mut().as_mut() {
            list.push(error);
        }
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.list.borrow().as_ref().is_none_or(Vec::is_empty)
    }

    /// All errors as one, or none.
    pub fn check(self) -> syn::Result<()> {
        let list = self.list.borrow_mut().take().unwrap_or_default();
        list.into_iter()
            .reduce(|mut all, error| {
                all.combine(error);
                all
            })
            .map_or(Ok(()), Err)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        if !thread::panicking() && self.list.borrow().is_some() {
            panic!("errors of a declaration were dropped without being checked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Errors;

    #[test]
    #[should_panic(expected = "without being checked")]
    fn dropped_errors_panic() {
        drop(Errors::new());
    }
}
