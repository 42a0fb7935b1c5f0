//! The status page and its live updates, as HTTP. What a browser makes of them is tested in `real_browser` of the binary.

use std::{path::Path, sync::Arc, time::Duration};

use keyfob_images::{PullAccess, PullRecords, RecordsOptions};
use keyfob_keyring::ServiceAccountCoordinates;
use keyfob_testkit::{LeakCheck, ManualClock};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    time::timeout,
};

use crate::{
    plugins::SECRET,
    rig::{APP, AgentFile, Reply, Rig, RunningAgent, eventually, own_uid, provider, rule},
};

/// How long an update may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A reader of the stream of updates.
struct Follower(Lines<BufReader<TcpStream>>);

impl Follower {
    async fn of(agent: &RunningAgent) -> Self {
        let mut stream = TcpStream::connect(agent.http.unwrap()).await.unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        Self(BufReader::new(stream).lines())
    }

    /// The next line that begins like this; nothing once the stream has ended.
    async fn line(&mut self, start: &str) -> Option<String> {
        let found = async {
            loop {
                match self.0.next_line().await.unwrap_or_default() {
                    Some(line) if line.starts_with(start) => return Some(line),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        timeout(PATIENCE, found).await.expect("a line in time")
    }

    /// The next update: the parts of the page by their names.
    async fn update(&mut self) -> Option<Value> {
        let line = self.line("data: ").await?;
        let update: Value = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        Some(update["sections"].clone())
    }

    /// Waits for an update in which a part of the page has this text.
    async fn sees(&mut self, section: &str, text: &str) {
        loop {
            let update = self.update().await.expect("the stream goes on");
            if update[section].as_str().is_some_and(|html| html.contains(text)) {
                return;
            }
        }
    }
}

/// The page, without the places where lines may be broken: names are looked for in it.
async fn page(agent: &RunningAgent) -> Reply {
    let mut page = agent.http_get("/").await;
    for tag in ["<wbr>", "<bdi>", "</bdi>"] {
        page.body = page.body.replace(tag, "");
    }
    page
}

fn full() -> AgentFile {
    let http = "{address: \"127.0.0.1:0\", statusPage: full}".to_owned();
    AgentFile { http, ..AgentFile::default() }
}

#[tokio::test]
async fn the_page_shows_who_got_what_only_if_the_file_says_so() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    let summary = page(&agent).await;
    assert_eq!(summary.status, 200);
    assert!(summary.body.contains("Working") && !summary.body.contains(APP), "{}", summary.body);
    agent.stop().await;

    rig.write(&full());
    let agent = rig.start();
    agent.users(APP).await;
    let page = page(&agent).await;
    let rows = page.body.matches(&format!("data-label=\"Image\">{APP}</th>")).count();
    assert_eq!(rows, 1, "{}", page.body);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'\r\n",
        "referrer-policy: no-referrer\r\n",
        "x-content-type-options: nosniff\r\n",
        "cache-control: no-store\r\n",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    for part in ["/status.css", "/status.js", "/status.svg"] {
        let part = agent.http_get(part).await;
        assert!(part.status == 200 && part.head.contains(" nosniff"), "{}", part.head);
    }
    LeakCheck::new([SECRET]).text("the page", &page.body);
    assert!(!page.body.contains("ada"), "no user name either");
    rig.finish(agent).await;
}

#[tokio::test]
async fn what_others_wrote_is_escaped() {
    let name = "<script>alert(1)</script>";
    let rig = Rig::new();
    rig.write(&AgentFile {
        rules: rule(&format!("\"{name}\""), &format!("{{uids: [{}]}}", own_uid()), "Allow"),
        ..full()
    });
    let agent = rig.start();
    agent.users(APP).await;
    let page = page(&agent).await;
    assert!(!page.body.contains(name), "{}", page.body);
    assert!(page.body.contains("&#60;script&#62;alert(1)"), "{}", page.body);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_follower_sees_a_failure_a_recovery_and_the_end_of_the_agent() {
    let rig = Rig::new();
    rig.write(&full());
    let agent = rig.start();
    let mut follower = Follower::of(&agent).await;
    let first = follower.update().await.unwrap();
    assert_eq!(first.as_object().unwrap().len(), 7, "first the whole page: {first}");

    rig.plugins.fail("one");
    agent.users("registry.example/a").await;
    follower.sees("verdict", "The provider one is failing.").await;
    rig.plugins.login("one", "ada");
    agent.users("registry.example/b").await;
    follower.sees("verdict", "All is well.").await;

    agent.begin_to_stop();
    while follower.update().await.is_some() {}
    // This fails if somebody waits for a reader.
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_number_of_followers_is_bounded() {
    let rig = Rig::new();
    let agent = rig.start();
    let mut followers = Vec::new();
    for _ in 0..16 {
        let mut follower = Follower::of(&agent).await;
        assert!(follower.line("HTTP/1.1 200").await.is_some());
        followers.push(follower);
    }
    let refused = agent.http_get("/events").await;
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(agent.http_get("/").await.status, 200, "the page itself is served");
    drop(followers.pop());
    eventually("a place is free again", || async {
        let mut follower = Follower::of(&agent).await;
        follower.line("HTTP/1.1 ").await.is_some_and(|status| status.contains(" 200 "))
    })
    .await;
    drop(followers);
    rig.finish(agent).await;
}

#[tokio::test]
async fn the_page_is_small_however_much_there_is_to_show() {
    // The second has five bytes in HTML.
    for (filler, least_rows) in [("a", 10), ("\"", 2)] {
        let page = largest_page(filler).await;
        let rows = |id: &str| {
            let section = page.body.split_once(&format!("<section id=\"{id}\"")).unwrap().1;
            section.split("</section>").next().unwrap().matches("<tr role=\"row\"").count() - 1
        };
        for (id, lists) in [("decisions", 1), ("cached", 1), ("configuration", 2), ("records", 1)] {
            assert!(rows(id) >= least_rows / lists, "{} rows of {id}", rows(id));
        }
        let minutes = page.body.matches("<tr><th scope=\"row\">").count();
        assert_eq!(minutes, 60, "each minute is a row");
        for part in ["Failing, ", "rejected", "in use", "denied", "answered", "pods of the service"]
        {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
    }
}

/// The page of an agent with many providers, rules and images, whose names are long and have this in them, after an hour full of failures,
/// denials, answers and reloads. All its files together have less than 100,000 bytes.
async fn largest_page(filler: &str) -> Reply {
    let rig = Rig::new();
    let (long, padding) = ("a".repeat(200), filler.repeat(200));
    let callers = format!("{{uids: [{}]}}", own_uid());
    let rules = [("denied", "Deny, images: [denied.example]"), ("allowed", "Allow")]
        .map(|(name, rest)| rule(&format!("'{name}{padding}'"), &callers, rest));
    let mut providers = String::new();
    for number in 0..60 {
        let patterns = (0..20).map(|part| format!("registry-{number}.example/{long}{part}"));
        let patterns = patterns.collect::<Vec<_>>().join("\", \"");
        let name = format!("provider-{number}-{padding}");
        providers += &provider(&name, &patterns);
        match number % 2 {
            0 => rig.plugins.fail(&name),
            _ => rig.plugins.login(&name, "ada"),
        }
    }
    rig.write_providers(&providers);
    let file = AgentFile { rules: rules.concat(), ..full() };
    let text = format!("pullRecords: {}\n{}", rig.path("records").display(), rig.text(&file));
    std::fs::write(rig.file(), &text).unwrap();
    write_records(&rig.path("records"), &long);

    let agent = rig.start();
    for number in 0..60 {
        rig.clock.advance(Duration::from_mins(1));
        for image in [1, 2] {
            agent.users(&format!("registry-{number}.example/{long}{image}")).await;
        }
        agent.users(&format!("denied.example/{long}{number}")).await;
        if number % 5 == 0 {
            // Rejected, with a reason that quotes it, or with other providers.
            let is_wrong = number % 10 == 0;
            let nonsense = if is_wrong { format!("'{padding}': {long}\n") } else { String::new() };
            std::fs::write(rig.file(), nonsense + &text).unwrap();
            rig.write_providers(&providers.replacen("1h", &format!("{}m", 60 + number), 3));
            agent.admin.call("POST", "/v1/reload", "").await;
        }
    }
    let page = agent.http_get("/").await;
    let mut bytes = page.body.len();
    for path in ["/status.css", "/status.js", "/status.svg"] {
        let part = agent.http_get(path).await;
        assert_eq!(part.status, 200);
        bytes += part.body.len();
    }
    assert!((50_000..100_000).contains(&bytes), "{bytes} bytes of {filler:?}");
    rig.finish(agent).await;
    page
}

/// Records of more images than are shown, which pods of three service accounts with long names may use.
fn write_records(directory: &Path, long: &str) {
    let clock = Arc::new(ManualClock::default());
    let records = PullRecords::open(directory, RecordsOptions::default(), clock).unwrap();
    let account = |number: usize| ServiceAccountCoordinates {
        uid: number.to_string(),
        namespace: format!("namespace-{long}"),
        name: format!("account-{long}"),
    };
    let access = PullAccess { service_accounts: (0..3).map(account).collect(), ..<_>::default() };
    for number in 0..25 {
        let id = format!("sha256:{number:064}");
        let image = format!("registry.example/{long}{number}");
        records.record_pulled(&image, &id, Some(&access)).unwrap();
    }
}

#[tokio::test]
async fn root_is_told_everything_about_a_failure_but_what_the_plugin_printed() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.plugins.fail("one");
    agent.users("registry.example/a").await;
    agent.users("registry.example/b").await;
    let status = agent.status().await;
    let provider = &status["providers"][0];
    let facts = ["state", "runs", "failures", "failuresInARow", "failingSince"];
    let facts: Vec<_> = facts.into_iter().map(|field| provider[field].clone()).collect();
    let expected = json!(["failing", 2, 2, 2, "2030-03-17T17:46:40Z"]);
    assert_eq!(json!(facts), expected);
    let error = &provider["lastError"];
    assert_eq!(error["image"], "registry.example/b");
    assert!(error["message"].as_str().unwrap().starts_with("the plugin failed: "), "{error}");
    let problem = &status["problems"][0];
    assert_eq!(problem["kind"], "providerFailing");
    assert_eq!(problem["command"], "sudo keyfob explain registry.example/b");
    let last = status["minutes"].as_array().unwrap().last().unwrap();
    let expected = json!({
        "start": "2030-03-17T17:46:00Z", "responses": 2, "refused": 0, "failed": 2, "pluginRuns": 2, "pluginFailures": 2,
    });
    assert_eq!(last, &expected);
    assert_eq!(status["decisions"].as_array().unwrap().len(), 2);
    rig.finish(agent).await;
}

#[tokio::test]
async fn pull_records_are_shown_if_a_directory_is_configured() {
    let rig = Rig::new();
    let text = std::fs::read_to_string(rig.file()).unwrap();
    let records = rig.path("records");
    std::fs::write(rig.file(), format!("pullRecords: {}\n{text}", records.display())).unwrap();
    let agent = rig.start();
    let status = agent.status().await;
    assert_eq!(status["pullRecords"]["directory"], records.display().to_string());
    assert_eq!(status["pullRecords"]["errors"].as_array().unwrap().len(), 1, "there are none");
    let page = page(&agent).await;
    assert!(page.body.contains(&records.display().to_string()), "{}", page.body);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_port_that_cannot_be_had_is_a_problem_until_it_is_free() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let rig = Rig::new();
    rig.write(&AgentFile { http: format!("{{address: \"{address}\"}}"), ..AgentFile::default() });
    let agent = rig.start();
    let kinds = async || {
        let status = agent.status().await;
        let problems = status["problems"].as_array().unwrap().clone();
        problems.iter().map(|problem| problem["kind"].clone()).collect::<Vec<_>>()
    };
    eventually("it is a problem", || async { kinds().await == ["portUnavailable"] }).await;
    drop(taken);
    eventually("it is none any more", || async { kinds().await.is_empty() }).await;
    rig.finish(agent).await;
}
