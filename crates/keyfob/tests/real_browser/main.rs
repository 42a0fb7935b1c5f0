//! The status page of a real agent with real plugins, in a real browser.
//!
//! It needs Debian's `chromium` and `chromium-driver`, and axe-core of npm: `.ci/run browser` installs them and sets `KEYFOB_AXE` to the
//! path of `axe.min.js`, without which nothing is run. `KEYFOB_SCREENSHOTS=$PWD/docs/images .ci/run browser` makes the pictures
//! of the documentation anew, which takes a quarter of an hour.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and these are the real programs"
)]

mod browser;
mod node;

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use keyfob_testkit::LeakCheck;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, NARROW, SCREENS, Screen, WIDE},
    node::{Node, OURS, PASSWORD, PRINTED, RECORDED, THEIRS, USER, keyfob},
};

/// What a page of axe-core's rules must not find.
const AXE: &str = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', \
                   'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(({violations, passes}) => done({passes: passes.length, \
                   violations: violations.map(({id, nodes}) => [id, ...nodes.map((each) => each.html)])}))";

/// Labels and parts of names that are broken although they have room, and what begins below the mark of its line.
const BROKEN: &str = "
    const lines = (node) => { const range = document.createRange(); range.selectNodeContents(node); return [...range.getClientRects()]; };
    const has_room = (node) => lines(node).reduce((sum, line) => sum + line.width, 0) < node.parentElement.clientWidth;
    const names = [...document.querySelectorAll('main :is(code, tbody th, bdi)')].flatMap((each) => [...each.childNodes]);
    const broken = names.filter((node) => /^[^\\s-]+$/.test(node.nodeValue ?? '') && lines(node).length > 1 && has_room(node));
    const labels = [...document.querySelectorAll('dt')].filter((each) => lines(each).length > 1 || each.scrollWidth > each.clientWidth);
    const marked = [...document.querySelectorAll('.mark')].filter((each) =>
        each.nextElementSibling.getBoundingClientRect().left < each.getBoundingClientRect().right);
    return [...broken, ...labels, ...marked].map((each) => each.textContent)";

/// The contrasts in the chart of responses: between the two colours without stripes, of each with the page, and of the legend's.
const CONTRASTS: &str = "
    const luminance = (color) => {
        const [r, g, b] = color.match(/[0-9]+/g).map((each) => each / 255).map((each) =>
            each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const contrast = (one, other) => Math.max(one / other, other / one);
    const of = (selector, property) => luminance(getComputedStyle(document.querySelector(selector))[property]);
    const page = of('#hour', 'backgroundColor');
    // What failed differs by its stripes from both others.
    const stripes = of('.stripe', 'fill');
    const bars = [of('path.answers', 'fill'), of('path.refused', 'fill')];
    const swatches = [of('.swatch.answers', 'backgroundColor'), of('.swatch.refused', 'backgroundColor')];
    return [bars, swatches].flatMap(([one, other]) => [contrast(one, other), contrast(one, page), contrast(other, page)])\
           .concat(contrast(stripes, page))";

/// The path of axe-core, if these tests are to be run.
fn axe() -> Option<PathBuf> {
    let path = env::var_os("KEYFOB_AXE").map(PathBuf::from);
    if path.is_none() {
        println!("KEYFOB_AXE is not set: NOT RUN; `.ci/run browser` runs it");
    }
    path
}

/// A node on which something of everything has happened, and a browser that shows it.
fn busy_node() -> (Node, Browser) {
    let node = Node::start();
    for image in [
        "registry.example/team/app:v1",
        "registry.example/team/app:v1",
        "registry.example/shop/cart:v3",
    ] {
        assert!(node.ask(image).status.success());
    }
    assert!(!node.ask("registry.example/secrets/keys").status.success());
    assert!(node.ask("git.internal.example/infra/runner").status.success());
    node.break_theirs();
    assert!(!node.ask("ci.internal.example/builder").status.success());
    reload(&node);
    let mut browser = Browser::start();
    browser.open(&node.url());
    (node, browser)
}

/// Has a wrong configuration rejected, and then the right one read. Whether that succeeds depends on who runs the tests.
fn reload(node: &Node) {
    let admin = node.path("admin.sock");
    let reload = || keyfob(&["agent", "reload", "--socket", admin.to_str().unwrap()]);
    let right = fs::read_to_string(node.path("agent.yaml")).unwrap();
    fs::write(node.path("agent.yaml"), right.replace("\"rules\"", "\"rulez\"")).unwrap();
    reload();
    fs::write(node.path("agent.yaml"), right).unwrap();
    reload();
}

/// The state of a provider, as an expression of JavaScript.
fn state_of(provider: &str) -> String {
    format!(
        "[...document.querySelectorAll('.card')].find((card) => card.querySelector('h3').textContent === '{provider}')\
         .querySelector('.state').innerText"
    )
}

fn wait_until_live(browser: &mut Browser) {
    browser.wait_for("document.getElementById('connection').textContent", "Live");
}

#[test]
fn everything_that_there_is_to_know_is_on_the_page() {
    let Some(_) = axe() else { return };
    let (_node, mut browser) = busy_node();
    wait_until_live(&mut browser);

    assert_eq!(browser.texts("main h2").len(), 7, "each section has a heading");
    let failing = format!("1 of 2 providers is failing: {THEIRS}.");
    assert_eq!(browser.texts(".verdict"), [failing]);
    let problem = browser.texts(".problems").join("");
    let effect = "Its cached answer is still given out until it expires.";
    for part in [
        "the plugin failed: exit code 3",
        effect,
        "Fix read what the plugin printed: ",
        "sudo keyfob explain ci.internal.example/builder",
    ] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    let theirs = browser.texts(".card.failing").join("");
    assert!(!theirs.contains("Fix"), "what to do is said once: {theirs}");
    for part in [
        THEIRS,
        "Failing",
        "*.internal.example",
        "failed after",
        "the plugin failed: exit code 3",
        "2, 1 failed",
    ] {
        assert!(theirs.contains(part), "{part}: {theirs}");
    }
    let ours = browser.texts(".card.working").join("");
    for part in [
        OURS,
        "Working",
        "registry.example",
        "succeeded after",
        "Last error none",
        "Next renewal in ",
        "2 answers, the first expires in ",
    ] {
        assert!(ours.contains(part), "{part}: {ours}");
    }
    let cached = browser.texts("#cached tbody tr").join("\n");
    for part in [
        "registry.example/team/app",
        "registry.example/shop/cart",
        "git.internal.example/infra/runner",
        "everybody in ",
    ] {
        assert!(cached.contains(part), "{part}: {cached}");
    }
    let decisions = browser.texts("#decisions tbody tr");
    assert_eq!(decisions.len(), 7, "{decisions:?}");
    for (decision, parts) in [
        (0, ["bad request /v1/reload ", "the old configuration stays"]),
        (1, ["failed ci.internal.example/builder ", " builders provider"]),
        (3, ["denied registry.example/secrets/keys ", "no-secrets-team"]),
    ] {
        let decision = &decisions[decision];
        assert!(parts.iter().all(|part| decision.contains(part)), "{decision}");
    }
}

#[test]
fn the_configuration_the_records_and_the_last_hour_are_on_the_page() {
    let Some(_) = axe() else { return };
    let (_node, mut browser) = busy_node();
    wait_until_live(&mut browser);

    let configuration = browser.texts("#configuration").join("");
    for part in [
        "/agent.yaml",
        "/providers.yaml",
        "sha256:",
        "no-secrets-team, builders",
        "rejected",
        "rulez: there is no field",
        "in use",
    ] {
        assert!(configuration.contains(part), "{part}: {configuration}");
    }
    let records = browser.texts("#records tbody tr").join("\n");
    assert!(records.contains(RECORDED) && records.contains("shop/cart"), "{records}");
    let charts = browser.texts("figcaption");
    assert_eq!(
        charts,
        ["Responses 7: 4 answered, 2 refused, 1 failed", "Plugin runs 4", "Failures of plugins 1"]
    );
    let bars = "[...document.querySelectorAll('figure svg[role=img] path')].map((each) => each.className.baseVal)";
    assert_eq!(browser.evaluate(bars), json!(["failed", "refused", "answers", "runs", "failures"]));
    browser.run("document.querySelector('details').open = true");
    let titles = browser.texts("#hour thead th");
    let sums = "[...document.querySelectorAll('#hour tbody tr')].map((row) => [...row.cells].slice(1).map((cell) => \
                Number(cell.innerText))).reduce((sums, row) => sums.map((sum, index) => sum + row[index]))";
    assert_eq!(
        (titles, browser.evaluate(sums)),
        (
            ["Minute", "Responses", "Refused", "Failed", "Plugin runs", "Plugin failures"]
                .map(str::to_owned)
                .to_vec(),
            json!([7, 2, 1, 4, 1])
        ),
        "the charts are a table too"
    );
    let unnamed = "[...document.querySelectorAll('table')].filter((table) => !table.caption || table.querySelector('th:not([scope])')).length";
    assert_eq!(browser.evaluate(unnamed), 0, "each table has a caption, and each heading a scope");
}

#[test]
fn a_plugin_that_fails_and_recovers_is_seen_without_a_reload() {
    let Some(_) = axe() else { return };
    let node = Node::start();
    let mut browser = Browser::start();
    browser.open(&node.url());
    wait_until_live(&mut browser);
    browser.run("window.isTheSamePage = true; document.querySelector('details').open = true; document.querySelector('summary').focus()");
    let verdict = "document.querySelector('[role=status].verdict').innerText.trim()";
    browser.wait_for(verdict, "Nothing is wrong. No provider was asked yet.");

    node.break_ours();
    assert!(!node.ask("registry.example/a").status.success());
    browser.wait_for(&state_of(OURS), "Failing");
    browser.wait_for(verdict, format!("1 of 2 providers is failing: {OURS}."));
    browser.wait_for("document.title.startsWith('(1 problem) ')", true);

    node.mend();
    assert!(node.ask("registry.example/b").status.success());
    browser.wait_for(&state_of(OURS), "Working");
    browser.wait_for(verdict, "All is well. 1 of 2 providers were asked and work.");
    browser.wait_for("document.querySelectorAll('#decisions tbody tr').length", 2);
    browser.wait_for("document.querySelectorAll('.problems').length", 0);

    assert_eq!(browser.evaluate("window.isTheSamePage"), true);
    let stays = "[document.activeElement.tagName, document.querySelector('details').open]";
    assert_eq!(browser.evaluate(stays), json!(["SUMMARY", true]), "focus and open parts stay");
    press_pause(&mut browser, "Space", "Paused");
    assert!(node.ask("registry.example/c").status.success());
    assert_eq!(browser.texts("#decisions tbody tr").len(), 2, "nothing moves while it is paused");
    press_pause(&mut browser, "Space", "Live");
    browser.wait_for("document.querySelectorAll('#decisions tbody tr').length", 3);
}

/// Reaches the button by the keyboard, presses a key in it, and waits until the page says this.
#[track_caller]
fn press_pause(browser: &mut Browser, key: &str, connection: &str) {
    browser.run("document.activeElement.blur(); document.querySelector('.skip').focus()");
    browser.press("Tab");
    assert_eq!(browser.evaluate("document.activeElement.id"), "pause");
    browser.press(key);
    browser.wait_for("document.getElementById('connection').textContent", connection);
    let pressed = "document.getElementById('pause').getAttribute('aria-pressed')";
    assert_eq!(browser.evaluate(pressed), (connection == "Paused").to_string());
}

#[test]
fn it_fits_on_small_and_large_screens_and_passes_axe_in_both_themes() {
    let Some(axe) = axe() else { return };
    let (node, mut browser) = busy_node();
    if env::var_os("KEYFOB_SCREENSHOTS").is_some() {
        live_a_while(&node);
    }
    wait_until_live(&mut browser);
    let mut backgrounds = Vec::new();
    for screen in SCREENS {
        browser.show_on(screen);
        let overflow = "[document.documentElement.scrollWidth, [...document.querySelectorAll('main *')].filter((each) => \
                        each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.hidden, thead')).length]";
        assert_eq!(
            browser.evaluate(overflow),
            json!([screen.width, 0]),
            "{screen:?}: nothing sticks out"
        );
        assert_eq!(browser.run(BROKEN), json!([]), "{screen:?}: lines are broken between parts");
        for contrast in browser.run(CONTRASTS).as_array().unwrap() {
            assert!(contrast.as_f64().unwrap() >= 3.0, "{screen:?}: {contrast}");
        }
        backgrounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
        assert_accessible(&mut browser, &axe, &format!("{screen:?}"));
        take_picture(&node, &mut browser, screen);
    }
    assert_ne!(backgrounds[0], backgrounds[1], "dark is not light");
    assert_eq!((&backgrounds[0], &backgrounds[1]), (&backgrounds[2], &backgrounds[3]));
}

/// The rules of axe-core find nothing, also in the table of the last hour.
#[track_caller]
fn assert_accessible(browser: &mut Browser, axe: &Path, what: &str) {
    browser.run("document.querySelector('details').open = true");
    browser.run(&fs::read_to_string(axe).unwrap());
    let report = browser.run_until_called_back(AXE);
    assert_eq!(report["violations"], json!([]), "{what}");
    assert!(report["passes"].as_u64().unwrap() > 20, "{what}: {report}");
    browser.run("document.querySelector('details').open = false");
}

#[test]
fn it_passes_axe_and_logs_no_error_whatever_happens() {
    let Some(axe) = axe() else { return };
    let mut node = Node::start();
    let mut browser = Browser::start();
    browser.open(&node.url());
    wait_until_live(&mut browser);
    assert_accessible(&mut browser, &axe, "nothing has happened");
    assert!(node.ask("registry.example/a").status.success());
    browser.wait_for(&state_of(OURS), "Working");
    assert_accessible(&mut browser, &axe, "all is well");
    node.break_ours();
    assert!(!node.ask("registry.example/b").status.success());
    browser.wait_for(&state_of(OURS), "Failing");
    assert_accessible(&mut browser, &axe, "a provider fails");
    node.mend();
    assert!(node.ask("registry.example/c").status.success());
    browser.wait_for(&state_of(OURS), "Working");
    assert_accessible(&mut browser, &axe, "it has recovered");
    press_pause(&mut browser, "Enter", "Paused");
    assert_accessible(&mut browser, &axe, "paused");
    press_pause(&mut browser, "Enter", "Live");
    assert_eq!(browser.console(), [""; 0]);

    node.stop();
    browser.wait_for("document.getElementById('connection').dataset.state", "lost");
    assert_accessible(&mut browser, &axe, "the connection is lost");
    // The browser's own words about the connection are no error of the page.
    let mut console = browser.console();
    console.retain(|line| !line.contains("net::ERR_"));
    assert_eq!(console, [""; 0]);
}

/// A quarter of an hour of requests, so that the pictures have something to show: a team that asks for what it must not have, a plugin that
/// fails for a minute, and another time at the end.
fn live_a_while(node: &Node) {
    const MINUTES: [(usize, usize); 14] = [
        (6, 0),
        (9, 1),
        (4, 0),
        (12, 2),
        (7, 5),
        (3, 6),
        (8, 3),
        (15, 0),
        (11, 0),
        (5, 1),
        (2, 0),
        (6, 2),
        (9, 0),
        (4, 1),
    ];
    for (minute, (allowed, refused)) in MINUTES.into_iter().enumerate() {
        node.mend();
        for request in 0..allowed {
            let repositories = [
                "shop/cart",
                "search/index",
                "billing/invoices",
                "shop/checkout",
                "platform/ingress",
                "search/frontend",
            ];
            let repository = repositories[(minute + request) % 6];
            node.ask(&format!("registry.example/{repository}:v{}", minute + 1));
        }
        for request in 0..refused {
            node.ask(
                ["registry.example/secrets/keys", "registry.example/secrets/vault"][request % 2],
            );
        }
        for image in ["git.internal.example/infra/runner", "ci.internal.example/builder"] {
            node.ask(image);
        }
        if minute == 6 {
            node.break_theirs();
            node.ask("ci.internal.example/nightly/integration-tests");
        }
        std::thread::sleep(Duration::from_mins(1));
    }
    node.break_theirs();
    for image in ["ci.internal.example/runner", "ci.internal.example/cache"] {
        node.ask(image);
    }
    node.ask_as_nobody("registry.example/billing/invoices");
}

/// A picture of the whole page for `docs/images`, if it is wanted. The test's directories are shown as those where the files usually are.
fn take_picture(node: &Node, browser: &mut Browser, Screen { width, theme }: Screen) {
    let Some(directory) = env::var_os("KEYFOB_SCREENSHOTS").map(PathBuf::from) else { return };
    let usual = [
        (node.path("kubelet"), "/var/lib/kubelet"),
        (node.path(""), "/etc/keyfob/"),
        (PathBuf::from(env!("CARGO_BIN_EXE_keyfob")), "/usr/local/bin/keyfob"),
    ];
    // As the page has them: with places where lines may be broken.
    let breakable = |path: &str| path.replace('/', "/<wbr>");
    let usual = usual.map(|(from, to)| [breakable(from.to_str().unwrap()), breakable(to)]);
    let rename = format!(
        "document.querySelector('h1').lastChild.nodeValue = ' node-1';
         const main = document.querySelector('main');
         const html = {}.reduce((html, [from, to]) => html.replaceAll(from, to), main.innerHTML);
         const is_renamed = html === main.innerHTML;
         if (!is_renamed) main.innerHTML = html;
         return is_renamed",
        json!(usual)
    );
    loop {
        browser.run(&rename);
        let picture = browser.screenshot();
        // Otherwise an update came in between.
        if browser.run(&rename) == true {
            let path = directory.join(format!("status-{width}-{theme}.png"));
            return fs::write(path, picture).unwrap();
        }
    }
}

#[test]
fn a_keyboard_is_enough() {
    let Some(_) = axe() else { return };
    let (_node, mut browser) = busy_node();
    wait_until_live(&mut browser);
    let focused = "(document.activeElement.innerText || '').trim()";
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    let mut visited = Vec::new();
    for _ in 0..9 {
        browser.press("Tab");
        visited.push(browser.evaluate(focused).as_str().unwrap().to_owned());
        assert_eq!(browser.evaluate(outline), "solid", "the focus can be seen: {visited:?}");
    }
    let interactive = "[...document.querySelectorAll('a, button, summary, input, select, [tabindex=\"0\"]')].filter((each) => \
                       !each.closest('noscript')).map((each) => each.innerText.trim())";
    assert_eq!(json!(visited), browser.evaluate(interactive), "everything is reached, in order");

    let open = "document.querySelector('details').open";
    assert_eq!(browser.evaluate(open), false);
    browser.press("Enter");
    assert_eq!(browser.evaluate(open), true);

    browser.run("document.activeElement.blur(); window.scrollTo(0, 0); document.querySelector('.skip').focus()");
    browser.press("Enter");
    browser.wait_for("document.activeElement.id", "main");
    assert_eq!(browser.evaluate("location.hash"), "#main");

    for (width, key) in [(NARROW, "Enter"), (NARROW, "Space"), (WIDE, "Enter"), (WIDE, "Space")] {
        browser.show_on(Screen { width, theme: "light" });
        press_pause(&mut browser, key, "Paused");
        press_pause(&mut browser, key, "Live");
    }
}

#[test]
fn it_asks_nobody_else_and_no_secret_reaches_the_browser() {
    let Some(_) = axe() else { return };
    let (node, mut browser) = busy_node();
    wait_until_live(&mut browser);
    node.break_ours();
    assert!(!node.ask("registry.example/x").status.success());
    browser.wait_for(&state_of(OURS), "Failing");

    let origin = node.url();
    let requested = browser.requested();
    let mut paths: Vec<&str> = requested
        .iter()
        .map(|url| url.strip_prefix(&origin).unwrap_or_else(|| panic!("it asked {url}")))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths, ["", "events", "status.css", "status.js", "status.svg"]);
    assert_eq!(browser.console(), [""; 0]);

    let dom = browser.evaluate("document.documentElement.outerHTML");
    let traffic = browser.traffic();
    assert!(
        traffic.contains("event: sections") || traffic.contains("eventSourceMessageReceived"),
        "updates are in the log"
    );
    assert!(traffic.contains("registry.example/team/app"), "bodies are in the log");
    let leaks = LeakCheck::new([PASSWORD, PRINTED, USER]);
    leaks.text("the page", dom.as_str().unwrap()).text("the traffic", &traffic);
    for path in ["/", "/metrics"] {
        let (_, body) = node.request(path, &node.host());
        leaks.text(path, &String::from_utf8(body).unwrap());
    }
    let (_, page) = node.request("/", &node.host());
    assert!(!String::from_utf8(page).unwrap().contains("credentials\""));
}

#[test]
fn it_works_without_javascript() {
    let Some(_) = axe() else { return };
    let (_node, mut browser) = busy_node();
    browser.disable_scripts();
    browser.run("0");
    let url = browser.evaluate("location.href").as_str().unwrap().to_owned();
    browser.open(&url);
    let page = browser.texts("body").join("");
    for part in [
        "this page does not update by itself. Reload it",
        "Failing",
        "ci.internal.example/builder",
        " ago",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Pause updates"), "there is nothing to pause");
}

#[test]
fn names_are_not_shown_to_every_user_unless_the_file_says_so() {
    let Some(axe) = axe() else { return };
    let node = Node::showing("summary");
    assert!(node.ask("registry.example/team/app:v1").status.success());
    node.break_theirs();
    assert!(!node.ask("ci.internal.example/builder").status.success());
    reload(&node);
    let mut browser = Browser::start();
    browser.open(&node.url());
    wait_until_live(&mut browser);
    browser.wait_for(&state_of(THEIRS), "Failing");
    assert_accessible(&mut browser, &axe, "a summary");
    assert_eq!(browser.console(), [""; 0]);
    let traffic = browser.traffic();
    for name in
        ["team/app", "ci.internal.example", RECORDED, "no-secrets-team", "rulez", "shop/cart"]
    {
        assert!(!traffic.contains(name), "{name}");
    }
    let page = browser.texts("body").join("");
    for part in [
        "the plugin failed: exit code 3",
        "1 of 2 providers is failing",
        "Who asked for which image is not shown",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn a_page_of_another_name_cannot_read_it() {
    let Some(_) = axe() else { return };
    let node = Node::start();
    for path in ["/", "/events", "/status.js"] {
        let (head, body) = node.request(path, "rebound.example");
        assert!(head.starts_with("http/1.1 421 "), "{head}");
        assert!(!String::from_utf8(body).unwrap().contains("<html"));
    }
    let (head, page) = node.request("/", &node.host());
    let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    for header in [
        policy,
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(head.lines().any(|line| line == header), "{header}: {head}");
    }
    let parts = ["/status.css", "/status.js", "/status.svg"]
        .map(|path| node.request(path, &node.host()).1.len());
    let bytes = page.len() + parts.iter().sum::<usize>();
    assert!(bytes < 100_000, "{bytes} bytes");
}

#[test]
fn the_terminal_shows_the_same() {
    let Some(_) = axe() else { return };
    let (node, mut browser) = busy_node();
    let admin = node.path("admin.sock");
    let status = keyfob(&["agent", "status", "--socket", admin.to_str().unwrap(), "-o", "json"]);
    assert!(status.status.success(), "only root is told: {status:?}");
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let names = |list: &str, field: &str| -> Vec<String> {
        let items = status[list].as_array().unwrap();
        items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
    };
    let decisions = status["decisions"].as_array().unwrap().iter();
    let subjects =
        decisions.map(|each| each["image"].as_str().or(each["request"].as_str()).unwrap());
    assert_eq!(browser.texts("#decisions tbody th"), subjects.collect::<Vec<_>>());
    let mut cached = names("cached", "key");
    cached.sort_unstable();
    let mut shown = browser.texts("#cached tbody th");
    shown.sort_unstable();
    assert_eq!(shown, cached);
    assert_eq!(browser.texts(".problems h3"), names("problems", "summary"));
}
