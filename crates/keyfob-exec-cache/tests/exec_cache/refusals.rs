//! Whoever was given an answer that is still good, and asks again, was refused.

use keyfob_api::{ExecCredentialSpec, ExecResponse, ExecVersion};

use super::{Ask, MINUTE, Stage};

fn client(number: u32) -> Ask {
    Ask { client: Some(number), ..Ask::default() }
}

#[tokio::test]
async fn who_asks_again_gets_another_answer_and_so_does_everybody() {
    let stage = Stage::new();
    let [ada, bob] = [client(1).on(&stage), client(2).on(&stage)];
    assert_eq!(stage.token(&ada).await.unwrap(), "hunter2-1");
    assert_eq!(stage.token(&bob).await.unwrap(), "hunter2-1");
    assert_eq!(stage.token(&ada).await.unwrap(), "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(stage.token(&bob).await.unwrap(), "hunter2-2", "refused too, and there is another");
    assert_eq!(stage.runs(), 2);
    assert_eq!(stage.token(&bob).await.unwrap(), "hunter2-3", "which is refused as well");
}

#[tokio::test]
async fn who_asks_again_after_the_end_was_not_refused() {
    let stage = Stage::new();
    let ada = client(1).on(&stage);
    assert_eq!(stage.token(&ada).await.unwrap(), "hunter2-1");
    stage.clock.advance(60 * MINUTE);
    assert_eq!(stage.token(&ada).await.unwrap(), "hunter2-2");
    assert_eq!(stage.next().await, "hunter2-2");
    assert_eq!(stage.runs(), 2);
}

#[tokio::test]
async fn what_was_refused_is_given_to_nobody_even_if_there_is_nothing_else() {
    let stage = Stage::new();
    let ada = client(1).on(&stage);
    assert_eq!(stage.token(&ada).await.unwrap(), "hunter2-1");
    stage.fails();
    stage.token(&ada).await.unwrap_err();
    stage.failure().await;
    assert_eq!((stage.runs(), stage.files("json").len()), (3, 0));
}

#[tokio::test]
async fn several_that_one_client_starts_at_once_are_one_run() {
    let stage = Stage::new();
    stage.plugin.hold();
    let ada = client(1).on(&stage);
    // All of them have asked before the first is answered.
    let release = async { stage.plugin.release(1) };
    let ask = || stage.token(&ada);
    let (one, two, three, ()) = tokio::join!(ask(), ask(), ask(), release);
    for token in [one, two, three] {
        assert_eq!(token.unwrap(), "hunter2-1");
    }
    assert_eq!(stage.runs(), 1);
}

#[tokio::test]
async fn a_client_that_says_it_was_refused_is_believed() {
    let mut stage = Stage::new();
    stage.plugin.version = ExecVersion::V1Alpha1;
    let ask = |code| {
        let response = Some(ExecResponse { code, ..ExecResponse::default() });
        let spec = ExecCredentialSpec { response, ..ExecCredentialSpec::default() };
        Ask { info: Some((ExecVersion::V1Alpha1, spec)), ..Ask::default() }.on(&stage)
    };
    let cache = stage.cache();
    cache.fetch(&ask(0)).await.unwrap();
    assert!(cache.ready(&ask(0)).is_some());
    assert!(cache.ready(&ask(401)).is_none());
    cache.fetch(&ask(401)).await.unwrap();
    assert_eq!(stage.runs(), 2);
    assert!(cache.ready(&ask(0)).is_some());
}
