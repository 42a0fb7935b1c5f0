//! The report for people: the answer first, then everything it stands on.

use super::{
    command,
    report::{
        Cache, CacheState, Claims, Command, Compared, Credential, File, GlobalAnswers, Identity,
        Object, Provider, ProviderResult, Puller, Record, Report, TokenRequest,
    },
};
use crate::{
    agent::explanation, agent_source::AgentReport, match_images::shown, page::Page,
    records::short_id,
};

/// The whole report.
pub(super) fn print(report: &Report) -> String {
    let mut page = Page::default();
    page.line(&report.verdict);
    page.line("");
    if let Some(agent) = &report.agent {
        page.agent(agent);
    }
    page.fact("image", &shown(&report.image));
    page.fact("repository", &report.repository);
    if let Some(puller) = &report.identity {
        page.fact("pulled by", &pulled_by(puller));
    }
    report.token_requests.iter().for_each(|request| page.token_request(request));
    page.facts("record", recorded(report));
    page.problems(&report.problems);
    report.files.iter().for_each(|file| page.file(file));
    report.providers.iter().for_each(|provider| page.provider(provider));
    if let Some(rules) = &report.rules {
        page.heading("the agent's rules");
        explanation(rules).lines().for_each(|line| page.line(&format!("  {line}")));
    }
    page.credentials(&report.credentials, report.anonymous);
    page.text()
}

impl Page {
    fn agent(&mut self, AgentReport { socket, rule, error, help }: &AgentReport) {
        let rule = rule.as_ref().map(|rule| format!(", rule {}", shown(rule))).unwrap_or_default();
        self.fact("agent", &format!("{}{rule}", shown(socket)));
        if let (Some(_), Some(help)) = (error, help) {
            self.fact("  do", help);
        }
    }

    fn token_request(&mut self, request: &TokenRequest) {
        if let Some(user) = &request.user {
            let groups: Vec<_> = request.groups.iter().map(|group| shown(group)).collect();
            let groups = match groups.as_slice() {
                [] => String::new(),
                groups => format!(", of {}", groups.join(", ")),
            };
            self.fact("acting as", &format!("{user}{groups}"));
        }
        if !request.is_node {
            let finding = &request.finding;
            self.fact("node", finding.strip_prefix("node ").unwrap_or(finding));
        }
    }

    fn file(&mut self, file: &File) {
        let (kind, name) = file.source.split_once(':').unwrap_or(("file", &file.source));
        self.heading(&format!("{} {}", kind.replace('-', " "), shown(name)));
        self.comparisons("key", &file.keys);
        if file.keys.is_empty() {
            self.fact("key", "none");
        }
        self.problems(&file.problems);
    }

    fn provider(&mut self, provider: &Provider) {
        self.heading(&format!("provider {}: {}", shown(&provider.name), summary(provider)));
        self.comparisons("pattern", &provider.patterns);
        if let Some(identity) = &provider.identity {
            self.identity(identity);
        }
        if let Some(GlobalAnswers { allowed, reason }) = &provider.global_answers {
            let whether = if *allowed { "allowed" } else { "refused" };
            self.fact("global", &format!("answers for every image are {whether}, {reason}"));
        }
        if let Some(command) = &provider.command {
            self.command(command);
        }
        if let Some(cache) = &provider.cache {
            self.fact("cache", &cache_line(cache));
        }
        self.comparisons("answer", &provider.keys);
        provider.notes.iter().for_each(|note| self.fact("note", note));
        self.problems(&provider.problems);
        let grant = provider.identity.as_ref().and_then(|identity| identity.grant.as_ref());
        for line in grant.iter().flat_map(|grant| grant.yaml.lines()) {
            self.line(&format!("    {line}"));
        }
    }

    fn identity(&mut self, identity: &Identity) {
        let Identity { service_account, uid, audience, annotations, .. } = identity;
        let uid = uid.as_ref().map(|uid| format!(" (uid {})", shown(uid))).unwrap_or_default();
        let account = shown(service_account);
        self.fact("account", &format!("{account}{uid}, for audience {}", shown(audience)));
        for (index, (key, value)) in annotations.iter().enumerate() {
            let name = if index == 0 { "annotation" } else { "" };
            self.fact(name, &format!("{}={}", shown(key), shown(value)));
        }
        if let (Some(expires), Some(lifetime)) = (&identity.expires, &identity.lifetime) {
            let claims =
                identity.claims.as_ref().map_or_else(|| "no JSON web token".into(), claimed);
            self.fact("token", &format!("{claims}; it ends in {lifetime}, at {expires}"));
        }
    }

    fn comparisons(&mut self, name: &str, all: &[Compared]) {
        for (index, each) in all.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let verdict = if each.matches { "matches" } else { "no match" };
            self.fact(name, &format!("{}: {verdict}: {}", shown(&each.text), each.reason));
        }
    }

    fn command(&mut self, command: &Command) {
        self.fact("command", &command::line(command));
        self.environment(&command.environment);
        if let Some(deadline) = &command.deadline {
            self.fact("deadline", &format!("killed after {deadline}"));
        }
    }

    fn credentials(&mut self, credentials: &[Credential], anonymous: Option<bool>) {
        self.heading("credentials, in the order in which they are tried");
        for (index, credential) in credentials.iter().enumerate() {
            let Credential { source, key, username } = credential;
            let username = shown(username);
            self.line(&format!(
                "  {}. user {username} from {} for {}",
                index + 1,
                shown(source),
                shown(key)
            ));
        }
        match anonymous {
            Some(true) => self.line("  none: one pull without credentials"),
            Some(false) => {}
            None => self.line("  none that this command can find out"),
        }
    }
}

/// Who has proved access, a line for each image of the name.
fn recorded(report: &Report) -> Vec<String> {
    match report.records.as_deref() {
        None => Vec::new(),
        Some([]) => vec!["none: by this name nobody has proved access".to_owned()],
        Some(records) => records
            .iter()
            .map(|Record { image_id, who }| format!("{}: for {who}", short_id(image_id)))
            .collect(),
    }
}

fn pulled_by(Puller { service_account, pod, source }: &Puller) -> String {
    let pod = pod.as_ref().map(|pod| format!(", pod {}", shown(pod))).unwrap_or_default();
    format!("{}{pod}; its account is known to {}", shown(service_account), shown(source))
}

/// What a token says of itself, in a sentence.
fn claimed(claims: &Claims) -> String {
    let text = |text: &Option<String>| text.as_deref().map_or("nobody".into(), shown).into_owned();
    let object = |Object { name, uid }: &Object| format!("{} ({})", shown(name), shown(uid));
    let pod = claims.pod.as_ref().map(|pod| format!(", bound to pod {}", object(pod)));
    let node = claims.node.as_ref().map(|node| format!(" on node {}", shown(&node.name)));
    let audiences: Vec<_> = claims.audiences.iter().map(|each| shown(each)).collect();
    let audiences = audiences.join(", ");
    format!(
        "says it is of {}, for {audiences}, issued by {}{}{}",
        text(&claims.subject),
        text(&claims.issuer),
        pod.unwrap_or_default(),
        node.unwrap_or_default()
    )
}

fn summary(provider: &Provider) -> String {
    let took = |word: &str| {
        provider.took_ms.map(|took| format!(" {word} {took:.1} ms")).unwrap_or_default()
    };
    match provider.result {
        ProviderResult::NotAsked => "not asked, since no pattern matches".to_owned(),
        ProviderResult::Skipped => "matches, and is passed over".to_owned(),
        ProviderResult::Failed => format!("matches, and failed{}", took("after")),
        ProviderResult::Cached => "matches, and had answered before".to_owned(),
        ProviderResult::Ran => format!("matches, and its plugin answered{}", took("in")),
    }
}

/// This command begins with an empty cache; what is told is what a host that goes on running would do.
fn cache_line(cache: &Cache) -> String {
    let Cache { state, scope, key, until, lifetime } = cache;
    let text = |option: &Option<String>| option.clone().unwrap_or_default();
    let kept = format!("for {}, until {}", text(lifetime), text(until));
    let under = key.as_ref().map(|key| format!(" under {key}")).unwrap_or_default();
    match state {
        CacheState::Hit => format!("used: the answer is kept per {scope}{under} {kept}"),
        CacheState::Stored => {
            format!("was empty; the answer is now kept per {scope}{under} {kept}")
        }
        CacheState::NotKept => {
            format!("was empty, and stays so: the answer (per {scope}) may not be kept")
        }
    }
}
