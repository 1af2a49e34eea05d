//! The words of a line of the text form.

/// What is read, or a sentence on what was found instead.
pub(super) type Parse<T> = Result<T, String>;

/// The words of one line: names and numbers (with their sign), and single signs.
pub(super) struct Words<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
}

impl<'a> Words<'a> {
    pub fn of(line: &'a str) -> Parse<Words<'a>> {
        let mut words = Vec::new();
        let mut rest = line.trim();
        while let Some(first) = rest.chars().next() {
            let length = if first == '-' || first.is_alphanumeric() || first == '_' {
                let tail = &rest[first.len_utf8()..];
                first.len_utf8() + tail.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tail.len())
            } else if "<>[](){},;:=+*/".contains(first) {
                1
            } else {
                return Err(format!("`{first}` has no meaning here"));
            };
            words.push(&rest[..length]);
            rest = rest[length..].trim_start();
        }
        Ok(Words { words: words.into_iter().peekable() })
    }

    pub fn peek(&mut self) -> Option<&'a str> {
        self.words.peek().copied()
    }

    pub fn word(&mut self) -> Parse<&'a str> {
        self.words.next().ok_or_else(|| "the line ends too early".to_owned())
    }

    pub fn name(&mut self) -> Parse<String> {
        let word = self.word()?;
        let starts = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if starts { Ok(word.to_owned()) } else { Err(format!("expected a name, found `{word}`")) }
    }

    pub fn expect(&mut self, sign: &str) -> Parse<()> {
        let word = self.word()?;
        if word == sign { Ok(()) } else { Err(format!("expected `{sign}`, found `{word}`")) }
    }

    pub fn take(&mut self, sign: &str) -> bool {
        self.words.next_if(|word| *word == sign).is_some()
    }

    pub fn number<N: std::str::FromStr>(&mut self) -> Parse<N> {
        let word = self.word()?;
        word.parse().map_err(|_| format!("expected a number, found `{word}`"))
    }

    pub fn subscript(&mut self) -> Parse<u32> {
        self.expect("[")?;
        let number = self.number()?;
        self.expect("]")?;
        Ok(number)
    }

    pub fn id(&mut self, prefix: char) -> Parse<u32> {
        let word = self.word()?;
        let number = word.strip_prefix(prefix).and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| format!("expected {prefix} and a number, found `{word}`"))
    }

    pub fn list<T>(&mut self, mut one: impl FnMut(&mut Words<'a>) -> Parse<T>) -> Parse<Vec<T>> {
        self.expect("[")?;
        let mut list = vec![one(self)?];
        while self.take(",") {
            list.push(one(self)?);
        }
        self.expect("]")?;
        Ok(list)
    }

    pub fn end(&mut self) -> Parse<()> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is too much")),
        }
    }
}
