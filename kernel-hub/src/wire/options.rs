//! What the query of a request asks for beside its address: more about each file, or another page.
//!
//! Owns: the names that huggingface_hub uses. Never: fails; an option that is not known is none.

use super::route;

/// Options of a request that reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Files with the commit that changed them last.
    pub expand: bool,
    /// Files of a kernel with their sizes and digests.
    pub blobs: bool,
    /// Commits with their messages as HTML.
    pub formatted: bool,
    /// The page, from 0.
    pub page: usize,
    /// Entries of a page.
    pub limit: Option<usize>,
}

/// Reads the query of a target.
pub fn parse(target: &str) -> Options {
    let mut options = Options::default();
    let (_, query) = target.split_once('?').unwrap_or_default();
    for (key, value) in route::pairs(query).flatten() {
        match key.as_str() {
            "expand" => options.expand = route::is_true(&value),
            "expand[]" if value == "formatted" => options.formatted = true,
            "blobs" => options.blobs = route::is_true(&value),
            "p" => options.page = value.parse().unwrap_or_default(),
            "limit" => options.limit = value.parse().ok(),
            _ => {}
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_the_client_writes_them() {
        let options = parse("/api/kernels/me/k?expand=True&blobs=1&expand%5B%5D=formatted&p=2&limit=50&x=y");
        let page = Options { page: 2, limit: Some(50), ..Options::default() };
        assert_eq!(options, Options { expand: true, blobs: true, formatted: true, ..page });
        assert_eq!(parse("/api/kernels/me/k?expand=false&p=x&limit=-1&%zz"), Options::default());
    }
}
