//! Adds providers to a configuration, or replaces them there, and leaves everything else as it is.
//!
//! Comments and layout survive where the file is plain YAML: the entries are exchanged line by line. Whether that came out
//! right is not trusted to the lines but read back. What is written in another way (JSON, flow style, anchors, an old version
//! that lacks a field) is written anew.

use std::path::Path;

use keyfob_config::{Config, ProviderConfig};

use super::{
    config,
    config_file::{Verb, names},
};

/// A configuration with our providers in it.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) config: Config,
    pub(super) text: String,
    pub(super) loses_comments: bool,
    added: Vec<ProviderConfig>,
    replaced: Vec<ProviderConfig>,
    kept: Vec<ProviderConfig>,
}

impl Merged {
    /// What happens to the file, a sentence each.
    pub(super) fn changes(&self, path: &Path, verb: Verb) -> Vec<String> {
        let path = path.display();
        let mut changes = Vec::new();
        let mut change = |providers: &[ProviderConfig], what: &str| {
            if !providers.is_empty() {
                let be =
                    if providers.len() == 1 || verb == Verb::Planned { verb.is() } else { "are" };
                changes.push(format!("{} {be} {what} {path}", names(providers)));
            }
        };
        change(&self.added, "added to");
        change(&self.replaced, "replaced in");
        change(&self.kept, "kept in");
        changes
    }
}

/// Merges; nothing if the result could not be written so that it means what it should.
pub(super) fn merge(old: &[u8], config: &Config, ours: &[ProviderConfig]) -> Option<Merged> {
    let named = |list: &[ProviderConfig], each: &ProviderConfig| {
        list.iter().find(|other| other.name == each.name).cloned()
    };
    let (replaced, added): (Vec<_>, Vec<_>) =
        ours.iter().cloned().partition(|each| named(&config.providers, each).is_some());
    let mut providers: Vec<_> = config.providers.clone();
    for provider in &mut providers {
        *provider = named(&replaced, provider).unwrap_or_else(|| provider.clone());
    }
    providers.extend(added.iter().cloned());
    let merged = Config::new(providers);
    let kept: Vec<_> =
        config.providers.iter().filter(|each| named(ours, each).is_none()).cloned().collect();
    let replaced: Vec<_> =
        replaced.into_iter().filter(|each| !config.providers.contains(each)).collect();

    let means_it = |text: &String| {
        let read = Config::from_files([("merged", text)]);
        read.is_ok_and(|read| read.providers == merged.providers)
    };
    let old = str::from_utf8(old).ok()?;
    let spliced = splice(old, config, &merged).filter(means_it);
    let loses_comments = spliced.is_none() && has_comments(old);
    let text = spliced.or_else(|| Some(rewritten(old, &merged)).filter(means_it))?;
    Some(Merged { config: merged, text, loses_comments, added, replaced, kept })
}

/// The whole in today's form, in the language that the file had.
fn rewritten(old: &str, merged: &Config) -> String {
    if old.trim_start().starts_with('{') { config::json(merged) } else { merged.migrate() }
}

fn has_comments(text: &str) -> bool {
    !text.trim_start().starts_with('{') && text.contains('#')
}

/// The old text with the entries exchanged that differ, and those added that are new.
fn splice(old: &str, config: &Config, merged: &Config) -> Option<String> {
    let lines: Vec<_> = old.lines().collect();
    let list = List::find(&lines)?;
    if list.entries.len() != config.providers.len() {
        return None;
    }
    let mut new = Vec::new();
    let mut copied = 0;
    for (entry, (before, after)) in
        list.entries.iter().zip(config.providers.iter().zip(&merged.providers))
    {
        if before != after {
            new.extend(lines.get(copied..entry.start)?.iter().map(ToString::to_string));
            new.extend(entry_lines(after, list.indent));
            copied = entry.end;
        }
    }
    let end = list.entries.last()?.end;
    new.extend(lines.get(copied..end)?.iter().map(ToString::to_string));
    for added in merged.providers.get(config.providers.len()..)? {
        new.extend(entry_lines(added, list.indent));
    }
    new.extend(lines.get(end..)?.iter().map(ToString::to_string));
    Some(new.join("\n") + "\n")
}

fn entry_lines(provider: &ProviderConfig, indent: usize) -> Vec<String> {
    let whole = Config::new([provider.clone()]).migrate();
    let entry = whole.lines().skip_while(|line| *line != "providers:").skip(1);
    entry.map(|line| format!("{:indent$}{line}", "")).collect()
}

/// The block sequence below `providers:`.
struct List {
    indent: usize,
    entries: Vec<Entry>,
}

/// The lines of an entry, without comments and blank lines behind it: those mostly belong to the next.
struct Entry {
    start: usize,
    end: usize,
}

impl List {
    fn find(lines: &[&str]) -> Option<Self> {
        let head = lines.iter().position(|line| without_comment(line) == "providers:")?;
        let mut list: Option<Self> = None;
        for (number, line) in lines.iter().enumerate().skip(head + 1) {
            let text = line.trim_start();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let indent = line.len() - text.len();
            let is_entry = text.starts_with("- ") || text.trim_end() == "-";
            let list = list.get_or_insert(Self { indent, entries: Vec::new() });
            if indent < list.indent || (indent == list.indent && !is_entry) {
                break;
            }
            if indent == list.indent {
                list.entries.push(Entry { start: number, end: number });
            }
            list.entries.last_mut()?.end = number + 1;
        }
        list
    }
}

fn without_comment(line: &str) -> &str {
    line.split(" #").next().unwrap_or(line).trim_end()
}

#[cfg(test)]
mod tests {
    use keyfob_api::GoDuration;

    use super::*;

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";

    fn provider(name: &str) -> ProviderConfig {
        ProviderConfig {
            name: name.to_owned(),
            match_images: vec!["r.example".to_owned()],
            default_cache_duration: GoDuration::parse("1m").ok(),
            api_version: "credentialprovider.kubelet.k8s.io/v1".to_owned(),
            ..ProviderConfig::default()
        }
    }

    fn merged(old: &str, ours: &[&str]) -> Merged {
        let config = Config::from_files([("old", old)]).unwrap();
        let ours: Vec<_> = ours.iter().map(|name| provider(name)).collect();
        merge(old.as_bytes(), &config, &ours).unwrap()
    }

    /// An entry as it is written for `provider`.
    fn entry(name: &str) -> String {
        format!(
            "- name: \"{name}\"\n  apiVersion: \"credentialprovider.kubelet.k8s.io/v1\"\n  matchImages:\n  - \"r.example\"\n  \
             defaultCacheDuration: \"1m0s\"\n"
        )
    }

    const OTHER: &str = "- name: other # theirs\n  matchImages: [o.example] # a comment\n  defaultCacheDuration: 5m\n  \
                         apiVersion: credentialprovider.kubelet.k8s.io/v1beta1\n";

    #[test]
    fn comments_and_layout_stay_where_entries_are_added_and_replaced() {
        let old =
            format!("# top\n{HEAD}providers: # all\n# first\n{OTHER}\n# ours\n{OTHER}# end\n");
        let old =
            old.replacen("name: other", "name: ours", 2).replacen("name: ours", "name: other", 1);

        let merged = merged(&old, &["ours", "new"]);

        let (ours, new) = (entry("ours"), entry("new"));
        let want =
            format!("# top\n{HEAD}providers: # all\n# first\n{OTHER}\n# ours\n{ours}{new}# end\n");
        assert_eq!((merged.text, merged.loses_comments), (want, false));
        assert_eq!(names(&merged.config.providers), "other, ours and new");
    }

    #[test]
    fn an_indented_list_stays_indented_and_a_second_document_stays() {
        let indented = OTHER.replace("- name", "  - name").replace("\n  ", "\n    ");
        let old = format!("{HEAD}providers:\n{indented}---\nanything: else\n");

        let merged = merged(&old, &["new"]);

        let new: String = entry("new").lines().flat_map(|line| ["  ", line, "\n"]).collect();
        assert_eq!(merged.text, format!("{HEAD}providers:\n{indented}{new}---\nanything: else\n"));
    }

    #[test]
    fn what_lines_cannot_do_is_written_anew_and_means_the_same() {
        let json = r#"{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{"name":
            "other", "matchImages": ["o.example"], "defaultCacheDuration": "0s", "args": ["a"], "env": [{"name": "A",
            "value": "b"}], "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "tokenAttributes": {"cacheType": "Token",
            "serviceAccountTokenAudience": "a", "requireServiceAccount": true,
            "requiredServiceAccountAnnotationKeys": ["x/y"], "optionalServiceAccountAnnotationKeys": ["x/z"]}}]}"#;
        let flow = format!(
            "{HEAD}providers: [{{name: other, matchImages: [o.example], defaultCacheDuration: 5m, apiVersion: \
             credentialprovider.kubelet.k8s.io/v1}}] # theirs\n"
        );
        let block = format!(
            "{HEAD}providers:\n{OTHER}  args:\n  - |\n    # a text\n    - name: x\n\n    # its end\n"
        );
        let empty = format!("{HEAD}providers: []\n");
        for old in [json, &flow, &block, &empty] {
            let merged = merged(old, &["new"]);
            let read = Config::from_files([("new", &merged.text)]).unwrap();
            assert_eq!(read.providers, merged.config.providers, "{}", merged.text);
            assert_eq!(merged.loses_comments, old == flow || old == block, "{}", merged.text);
            assert_eq!(old.starts_with('{'), merged.text.starts_with('{'));
        }
    }

    #[test]
    fn an_old_version_that_lacks_a_field_becomes_todays() {
        let old =
            format!("{HEAD}providers:\n{OTHER}").replace("k8s.io/v1\nkind", "k8s.io/v1beta1\nkind");
        let mut ours = provider("new");
        ours.token_attributes = Some(keyfob_config::TokenAttributes {
            service_account_token_audience: "a".to_owned(),
            cache_type: "Token".to_owned(),
            require_service_account: Some(true),
            ..Default::default()
        });
        let config = Config::from_files([("old", &old)]).unwrap();

        let merged = merge(old.as_bytes(), &config, &[ours]).unwrap();

        assert!(merged.text.starts_with(HEAD), "{}", merged.text);
        assert!(merged.loses_comments);
    }
}
