//! The book's pages, and the addresses of resources.

use crate::answer::{MAX_ANSWER_BYTES, beginning};

/// A page of the book.
pub struct Page {
    /// Below `docs/`.
    pub path: &'static str,
    pub title: &'static str,
    pub text: &'static str,
}

/// All of `docs/SUMMARY.md`, in its order.
pub const PAGES: &[Page] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Lists of `unstarve help` that are resources, with what they are.
pub const LISTS: [(&str, &str); 3] =
    [("findings", "All findings of explain"), ("rules", "Why another had the CPU"), ("remedies", "All remedies")];

/// The page about what is true of which kernel.
pub const FACTS: &str = "kernel-facts.md";

/// A page by its path, with or without `docs/`.
pub fn page(path: &str) -> Option<&'static Page> {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    PAGES.iter().find(|page| page.path == path)
}

/// The list of pages.
pub fn contents() -> String {
    let lines = PAGES.iter().map(|page| format!("docs/{}  {}\n", page.path, page.title));
    format!("Pages; help {{\"topic\":\"docs/NAME.md\"}} has one:\n{}", lines.collect::<String>())
}

/// What an address means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address<'a> {
    Help(&'a str),
    Page(&'a str),
}

/// `unstarve://findings`, `unstarve://help/WORD`, `unstarve://book/PAGE`, each also with `?part=N`.
pub fn address(uri: &str) -> Option<(Address<'_>, usize)> {
    let rest = uri.strip_prefix("unstarve://")?;
    let (rest, part) = match rest.split_once("?part=") {
        Some((rest, part)) => (rest, part.parse().ok().filter(|part| *part > 0)?),
        None => (rest, 1),
    };
    let address = match rest.split_once('/') {
        Some(("book", page)) => Address::Page(page),
        Some(("help", word)) => Address::Help(word),
        None if rest == "facts" => Address::Page(FACTS),
        None if LISTS.iter().any(|(name, _)| *name == rest) => Address::Help(rest),
        _ => return None,
    };
    Some((address, part))
}

/// A part of a text, of the size of an answer, with where it goes on; `None` beyond its end.
pub fn part(text: &str, uri: &str, part: usize) -> Option<String> {
    let mut rest = text;
    for _ in 1..part {
        rest = rest.get(beginning(rest, PART_BYTES).len()..).filter(|rest| !rest.is_empty())?;
    }
    let shown = beginning(rest, PART_BYTES);
    let base = uri.split("?part=").next().unwrap_or(uri);
    let goes_on = format!("\n\n(Goes on in {base}?part={})\n", part + 1);
    Some(if shown.len() < rest.len() { shown.to_owned() + &goes_on } else { shown.to_owned() })
}

const PART_BYTES: usize = MAX_ANSWER_BYTES - 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_can_be_read_in_parts() {
        assert!(PAGES.len() > 60 && page(FACTS).is_some());
        for page in PAGES {
            let uri = format!("unstarve://book/{}", page.path);
            assert_eq!(address(&uri), Some((Address::Page(page.path), 1)));
            let mut parts = (1..).map_while(|at| part(page.text, &uri, at));
            let read: String = parts
                .by_ref()
                .map(|text| {
                    assert!(text.len() <= MAX_ANSWER_BYTES);
                    text.split("\n\n(Goes on in").next().unwrap_or_default().to_owned()
                })
                .collect();
            assert_eq!(read.replace('\n', ""), page.text.replace('\n', ""), "{}", page.path);
        }
    }

    #[test]
    fn other_addresses_are_none() {
        for uri in ["file:///etc/passwd", "unstarve://", "unstarve://book", "unstarve://x/y", "unstarve://rules?part=0"]
        {
            assert_eq!(address(uri), None, "{uri}");
        }
        assert_eq!(address("unstarve://rules?part=2"), Some((Address::Help("rules"), 2)));
    }
}
