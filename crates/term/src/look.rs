//! How a page looks: width, colours, charset of the terminal.

/// The look of a page; the caller knows the terminal.
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

/// The characters that the terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charset {
    /// Everything.
    Utf8,
    /// Bars of `#`, `us` for `µs`; other characters outside ASCII are escaped.
    Ascii,
}

impl Look {
    /// Narrower tables are unreadable; sentences are unreadable above [`Look::MAX_WIDTH`].
    pub const MIN_WIDTH: usize = 60;
    /// See [`Look::MIN_WIDTH`].
    pub const MAX_WIDTH: usize = 160;

    /// A look for a terminal of `columns`, clamped to 60–160.
    pub fn new(columns: usize, charset: Charset, colours: Colours) -> Look {
        Look { width: columns.clamp(Look::MIN_WIDTH, Look::MAX_WIDTH), charset, colours }
    }

    /// The width in columns.
    pub fn width(self) -> usize {
        self.width
    }

    /// The charset.
    pub fn charset(self) -> Charset {
        self.charset
    }

    /// The colours.
    pub fn colours(self) -> Colours {
        self.colours
    }
}
