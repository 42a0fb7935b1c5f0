//! What goes wrong on command, as a client sees it.

use std::time::Duration;

use http::Method;
use keyfob_playground::registry::{Access, Fault, ImageToMake, Options, Registry, Storage, User};
use tokio::{net::TcpStream, time::timeout};

use super::{PASSWORD, Rig, bytes, refusal, reply, sha256};

/// What comes of a blob until the connection ends, and whether all of it came.
async fn pieces(rig: &Rig, path: &str) -> (Vec<u8>, bool) {
    let reading = async {
        let mut response = rig.ask(Method::GET, path).send().await.unwrap();
        let mut read = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(piece)) => read.extend_from_slice(&piece),
                Ok(None) => return (read, true),
                Err(_) => return (read, false),
            }
        }
    };
    timeout(Duration::from_secs(20), reading).await.expect("an end")
}

#[tokio::test]
async fn a_connection_is_cut_at_the_byte_and_the_rest_can_be_fetched() {
    let directory = tempfile::tempdir().unwrap();
    for storage in [Storage::memory(), Storage::directory(directory.path())] {
        let options = Options { access: Access::Anonymous, storage, ..Options::default() };
        let rig = Rig::start(options).await;
        let content = bytes(5_000_000);
        let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &content).await);
        for cut in [0, 1, 4_321_000] {
            rig.registry.inject(Fault::cut_blob(cut));
            let (begun, complete) = pieces(&rig, &path).await;
            assert_eq!((begun.len() as u64, complete), (cut, false));
            let rest = rig.ask(Method::GET, &path).header("range", format!("bytes={cut}-"));
            assert!([begun, reply(rest).await.body].concat() == content, "{cut}");
        }
        rig.registry.inject(Fault::cut_blob(6_000_000));
        assert!(pieces(&rig, &path).await == (content, true), "it is not as long");
        rig.end().await;
    }
}

#[tokio::test]
async fn one_layer_can_be_cut_every_time_and_the_others_come() {
    let rig = Rig::open().await;
    let (cut, whole) = (rig.push_blob("a", &bytes(1000)).await, rig.push_blob("a", b"x").await);
    rig.registry.inject(Fault::cut_blob(10).only(cut.clone()).always());
    for _ in 0..3 {
        assert_eq!(pieces(&rig, &format!("/v2/a/blobs/{cut}")).await, (bytes(10), false));
        assert_eq!(pieces(&rig, &format!("/v2/a/blobs/{whole}")).await, (b"x".to_vec(), true));
    }
    rig.registry.clear_faults();
    assert_eq!(pieces(&rig, &format!("/v2/a/blobs/{cut}")).await, (bytes(1000), true));
    rig.end().await;
}

#[tokio::test]
async fn a_status_comes_as_often_as_it_is_told() {
    let rig = Rig::open().await;
    rig.registry.inject(Fault::status(503).times(2));
    rig.registry.inject(Fault::status(429).retry_after(7).only("/tags/").after(1));
    let mut seen = Vec::new();
    for path in ["/v2/", "/v2/", "/v2/", "/v2/a/tags/list", "/v2/a/tags/list", "/v2/a/tags/list"] {
        let said = rig.get(path).await;
        seen.push((said.status, said.header("retry-after").to_owned()));
    }
    let want = [(503, ""), (503, ""), (200, ""), (404, ""), (429, "7"), (404, "")];
    assert_eq!(seen, want.map(|(status, after)| (status, after.to_owned())));
    rig.registry.inject(Fault::status(429));
    assert_eq!(rig.get("/v2/").await.refusal(), refusal(429, "TOOMANYREQUESTS"));
    rig.end().await;
}

#[tokio::test]
async fn a_request_or_a_blob_stalls_until_the_registry_stops() {
    let rig = Rig::open().await;
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &bytes(1000)).await);
    rig.registry.inject(Fault::stall());
    let (request, soon) = (rig.ask(Method::GET, "/v2/"), Duration::from_millis(100));
    let stalled = tokio::spawn(request.send());
    while rig.seen().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.seen()[1], "GET /v2/ - -", "there was no answer");
    assert!(!stalled.is_finished());

    rig.registry.inject(Fault::stall_blob(10));
    let mut response = rig.ask(Method::GET, &path).send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), bytes(10));
    assert!(timeout(soon, response.chunk()).await.is_err(), "nothing more comes");
    let stopped = timeout(Duration::from_secs(4), rig.end());
    assert!(stopped.await.is_ok(), "nobody who is stalled holds the registry up");
    assert_eq!(stalled.await.unwrap().unwrap().status(), 503);
    assert!(response.chunk().await.is_err());
}

#[tokio::test]
async fn bytes_are_wrong_and_ranges_ignored() {
    let rig = Rig::open().await;
    let content = bytes(1000);
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &content).await);
    rig.registry.inject(Fault::wrong_blob().times(2));
    let wrong = rig.get(&path).await;
    assert_eq!((wrong.body[0], &wrong.body[1..]), (!content[0], &content[1..]));
    let part = || rig.ask(Method::GET, &path).header("range", "bytes=500-");
    let wrong = reply(part()).await.body;
    assert_eq!((wrong[0], &wrong[1..]), (!content[500], &content[501..]));

    rig.registry.inject(Fault::ignore_range());
    assert_eq!(rig.get(&path).await.status, 200, "nobody asked for a part");
    let whole = reply(part()).await;
    assert_eq!((whole.status, whole.header("content-range"), &whole.body), (200, "", &content));
    assert_eq!(reply(part()).await.status, 206);

    let image = rig.registry.push_image("a", "v1", &ImageToMake::default()).await.unwrap();
    rig.registry.inject(Fault::wrong_manifest());
    let manifest = rig.get("/v2/a/manifests/v1").await;
    assert_eq!(manifest.header("docker-content-digest"), image.digest);
    assert_ne!(sha256(&manifest.body), image.digest);
    let right = rig.get("/v2/a/manifests/v1").await;
    assert_eq!((right.json(), sha256(&right.body)), (manifest.json(), image.digest));
    rig.end().await;
}

#[tokio::test]
async fn tokens_end_in_the_middle_of_a_pull() {
    let users = vec![User::new("ada", PASSWORD).may_pull("a")];
    let mut rig = Rig::start(Options { users, ..Options::default() }).await;
    rig.registry.push_image("a", "v1", &ImageToMake::default()).await.unwrap();
    rig.registry.inject(Fault::end_tokens().after(2));
    let mut seen = Vec::new();
    for _ in 0..2 {
        let asked = rig.ask(Method::GET, "/token?scope=repository:a:pull");
        let said = reply(asked.basic_auth("ada", Some(PASSWORD))).await.json();
        let token = said["token"].as_str().unwrap().to_owned();
        for _ in 0..3 {
            let asked = rig.ask(Method::GET, "/v2/a/manifests/v1").bearer_auth(&token);
            seen.push(reply(asked).await.status);
        }
        rig.secrets.push(token);
    }
    assert_eq!(seen, [200, 200, 401, 200, 200, 200]);
    rig.end().await;
}

#[tokio::test]
async fn a_registry_that_nobody_holds_stops() {
    let registry = Registry::start(Options::default()).await.unwrap();
    let address = registry.address();
    drop(registry);
    let stopped = async { while TcpStream::connect(address).await.is_ok() {} };
    assert!(timeout(Duration::from_secs(20), stopped).await.is_ok());
}

#[tokio::test]
async fn a_registry_that_went_away_comes_back_with_its_images() {
    let options = Options { access: Access::Anonymous, ..Options::default() };
    let rig = Rig::start(options.clone()).await;
    let pushed = rig.registry.push_image("a", "v1", &ImageToMake::default()).await.unwrap();
    let (address, client) = (rig.registry.address(), rig.client.clone());
    rig.end().await;
    let url = format!("http://{address}/v2/a/manifests/v1");
    assert!(client.get(&url).send().await.unwrap_err().is_connect());
    let back = Registry::start(Options { listen: address, ..options }).await.unwrap();
    let found = client.get(&url).send().await.unwrap();
    assert_eq!(found.headers()["docker-content-digest"], pushed.digest.as_str());
    back.stop().await;
}

#[tokio::test]
async fn a_registry_may_lie_about_its_blobs() {
    let rig = Rig::open().await;
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &bytes(1000)).await);
    let part = || reply(rig.ask(Method::GET, &path).header("range", "bytes=10-19"));

    rig.registry.inject(Fault::wrong_range());
    assert_eq!(part().await.header("content-range"), "bytes 0-19/1001");
    assert_eq!(part().await.header("content-range"), "bytes 10-19/1000");
    rig.registry.inject(Fault::zero_blobs());
    assert_eq!(part().await.body, [0; 10]);
    assert_eq!(rig.get(&path).await.body, [0; 1000]);
    rig.registry.inject(Fault::hide_blobs().only("/a/blobs/"));
    assert_eq!(rig.get(&path).await.status, 404);
    rig.end().await;
}

#[tokio::test]
async fn an_answer_may_come_byte_by_byte() {
    let rig = Rig::open().await;
    let path = format!("/v2/a/blobs/{}", rig.push_blob("a", &bytes(10)).await);
    rig.registry.inject(Fault::trickle(Duration::from_millis(1)));

    let mut response = rig.ask(Method::GET, &path).send().await.unwrap();

    assert_eq!(response.content_length(), Some(10));
    let mut read = Vec::new();
    while let Some(piece) = response.chunk().await.unwrap() {
        read.extend_from_slice(&piece);
    }
    assert_eq!(read, bytes(10));
    rig.end().await;
}
