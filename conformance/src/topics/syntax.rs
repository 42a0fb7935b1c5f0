//! What Go's decoders say of a text that they cannot read at all. Keyfob says it in its own words, so that only the step is compared.

/// Whether these are the words of `encoding/json` about a text that is not JSON.
pub(super) fn is_no_json(words: &str) -> bool {
    words == "unexpected end of JSON input" || words.starts_with("invalid character ")
}

/// Whether these are the words of `sigs.k8s.io/yaml` about a text that is not YAML, or that JSON cannot express.
pub(super) fn is_no_yaml(words: &str) -> bool {
    const STARTS: [&str; 3] =
        ["yaml: ", "unsupported map key of type: ", "json: unsupported value: "];
    STARTS.iter().any(|start| words.starts_with(start))
}
