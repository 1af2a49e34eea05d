//! Lines with indentation.

use std::fmt::Display;

#[derive(Default)]
pub(super) struct Writer {
    pub text: String,
    depth: usize,
}

impl Writer {
    pub fn line(&mut self, line: impl Display) {
        let line = line.to_string();
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", self.depth));
            self.text += &line;
        }
        self.text.push('\n');
    }

    /// `head {`, the lines of `inside`, `}`. An empty head opens a scope.
    pub fn block(&mut self, head: impl Display, inside: impl FnOnce(&mut Writer)) {
        self.open(head);
        inside(self);
        self.close();
    }

    pub fn open(&mut self, head: impl Display) {
        let head = head.to_string();
        self.line(if head.is_empty() { "{".to_owned() } else { format!("{head} {{") });
        self.depth += 1;
    }

    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// An entry that may be launched early: it waits first.
    pub fn early_entry(
        &mut self,
        bounds: impl Display,
        name: &str,
        params: &[String],
        inside: impl FnOnce(&mut Writer),
    ) {
        self.entry(bounds, name, params, |writer| {
            writer.line("rl_begin();");
            inside(writer);
        });
    }

    /// An entry with its launch bounds: one parameter a line.
    pub fn entry(&mut self, bounds: impl Display, name: &str, params: &[String], inside: impl FnOnce(&mut Writer)) {
        self.line("");
        self.line(format!("RL_ENTRY({bounds}) {name}("));
        self.depth += 1;
        for (at, param) in params.iter().enumerate() {
            let end = if at + 1 == params.len() { ") {" } else { "," };
            self.line(format!("{param}{end}"));
        }
        inside(self);
        self.close();
    }
}
