//! A page in Markdown, as far as the tests need to understand it.

/// A fenced block: what stands behind the opening fence, the number of its first line, and its lines.
pub(crate) struct Block<'a> {
    /// The language, such as `console` or `yaml`.
    pub(crate) language: &'a str,
    /// The second word behind the fence: the name of the file that the block shows.
    pub(crate) file: Option<&'a str>,
    pub(crate) line: usize,
    pub(crate) lines: Vec<&'a str>,
}

/// All fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(info), None) => {
                let mut words = info.split_whitespace();
                open = Some(Block {
                    language: words.next().unwrap_or_default(),
                    file: words.next(),
                    line: index + 2,
                    lines: Vec::new(),
                });
            }
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

/// The lines of a page that are outside of its fenced blocks, with their numbers.
pub(crate) fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

/// The names by which links reach the headings of a page, as GitHub makes them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(page).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| heading(line)).collect()
}
