/// How the page may look; the caller knows the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    width: usize,
    charset: Charset,
    colours: Colours,
}

/// Whether to emit ANSI colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    /// No escape sequence at all.
    Plain,
    /// SGR sequences.
    Ansi,
}

/// What the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charset {
    /// Everything.
    Utf8,
    /// Bars of `#`, `us` for `µs`; whatever else is not ASCII is escaped.
    Ascii,
}

impl Look {
    /// Below this many columns a table cannot be read, above [`Look::MAX_WIDTH`] a sentence cannot.
    pub const MIN_WIDTH: usize = 60;
    /// See [`Look::MIN_WIDTH`].
    pub const MAX_WIDTH: usize = 160;

    /// A look for a terminal of `columns`; what is outside 60–160 is taken as the nearer end.
    pub fn new(columns: usize, charset: Charset, colours: Colours) -> Look {
        Look { width: columns.clamp(Look::MIN_WIDTH, Look::MAX_WIDTH), charset, colours }
    }

    /// Columns in use.
    pub fn width(self) -> usize {
        self.width
    }

    /// What may be shown.
    pub fn charset(self) -> Charset {
        self.charset
    }

    /// Whether colours are wanted.
    pub fn colours(self) -> Colours {
        self.colours
    }
}
