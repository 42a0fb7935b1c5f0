//! When a token is asked for anew, by a manager of its own.

use std::{sync::Arc, time::Duration};

use keyfob_host::{IdentityError, PodReference, ServiceAccountsError, TokenManager, TokenRequest};
use keyfob_testkit::{LeakCheck, LogCapture, ManualClock};

use crate::cluster::{Cluster, HOUR, Mood, SECRET};

struct Managed {
    clock: ManualClock,
    cluster: Cluster,
    manager: Arc<TokenManager>,
}

impl Managed {
    /// Without jitter.
    fn new() -> Self {
        Self::with_jitter(|| Duration::ZERO)
    }

    fn with_jitter(jitter: fn() -> Duration) -> Self {
        let clock = ManualClock::default();
        let cluster = Cluster::new(&clock);
        let manager = TokenManager::new(Arc::new(cluster.clone()), Arc::new(clock.clone()));
        Self { clock, cluster, manager: Arc::new(manager.jitter(jitter)) }
    }

    /// The number of the token that is given out.
    async fn number(&self) -> usize {
        self.number_of(&request()).await.unwrap()
    }

    async fn number_of(&self, request: &TokenRequest) -> Result<usize, IdentityError> {
        let token = self.manager.token(request).await?;
        Ok(token.token.expose().rsplit('-').next().unwrap().parse().unwrap())
    }

    fn lives(&self, lifetime: Option<Duration>, expires_in: Duration) {
        let mut state = self.cluster.state();
        (state.lifetime, state.expires_in) = (lifetime, expires_in);
    }

    fn fails(&self) {
        self.cluster.state().token =
            Mood::Failing(IdentityError::Unavailable(ServiceAccountsError::new("down")));
    }
}

fn request() -> TokenRequest {
    TokenRequest {
        namespace: "team".into(),
        service_account: "puller".into(),
        service_account_uid: "uid".into(),
        audiences: vec!["registry".into()],
        expiration_seconds: None,
        pod: Some(PodReference { name: "web".into(), uid: "uid-of-web".into() }),
    }
}

#[tokio::test]
async fn a_token_is_renewed_in_the_last_fifth_of_its_life() {
    let managed = Managed::new();
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(Duration::from_mins(48));
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(Duration::from_nanos(1));
    assert_eq!(managed.number().await, 2);
    assert_eq!(managed.number().await, 2);
}

#[tokio::test]
async fn a_token_is_renewed_after_a_day_however_long_it_lives() {
    let managed = Managed::new();
    managed.lives(Some(HOUR * 200), HOUR * 200);
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(HOUR * 24);
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(Duration::from_nanos(1));
    assert_eq!(managed.number().await, 2);
}

#[tokio::test]
async fn jitter_makes_both_times_sooner() {
    let managed = Managed::with_jitter(|| Duration::from_secs(10));
    let sooner = |hours: u64, minutes: u64| Duration::from_secs((hours * 60 + minutes) * 60 - 10);
    for (lifetime, due) in [(HOUR, sooner(0, 48)), (HOUR * 200, sooner(24, 0))] {
        managed.lives(Some(lifetime), lifetime);
        managed.manager.forget_pod("uid-of-web");
        let first = managed.number().await;
        managed.clock.advance(due);
        assert_eq!(managed.number().await, first);
        managed.clock.advance(Duration::from_nanos(1));
        assert_eq!(managed.number().await, first + 1);
    }
}

#[tokio::test]
async fn without_a_known_lifetime_a_token_is_renewed_only_when_it_has_expired() {
    let managed = Managed::new();
    managed.lives(None, HOUR * 60);
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(HOUR * 60);
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(Duration::from_nanos(1));
    assert_eq!(managed.number().await, 2);
}

#[tokio::test]
async fn the_old_token_serves_while_it_is_valid_if_there_is_no_newer() {
    let logs = LogCapture::start();
    let managed = Managed::new();
    assert_eq!(managed.number().await, 1);
    managed.fails();
    managed.clock.advance(HOUR);
    assert_eq!(managed.number().await, 1);
    managed.clock.advance(Duration::from_nanos(1));
    let error = managed.number_of(&request()).await.unwrap_err();
    assert!(matches!(&error, IdentityError::Unavailable(why) if why.to_string() == "down"));

    managed.cluster.state().token = Mood::Well;
    assert_eq!(managed.number().await, 4);
    LeakCheck::new([SECRET]).text("the log", &logs.text()).debug("the manager", &managed.manager);
}

#[tokio::test]
async fn a_clock_that_is_set_back_ends_trust_in_what_is_kept() {
    let managed = Managed::new();
    managed.clock.advance(HOUR * 24);
    assert_eq!(managed.number().await, 1);
    managed.clock.set_back(Duration::from_secs(30));
    assert_eq!(managed.number().await, 1, "a little is no matter");
    managed.clock.set_back(HOUR);
    assert_eq!(managed.number().await, 2);

    managed.clock.set_back(HOUR);
    managed.fails();
    assert!(managed.number_of(&request()).await.is_err(), "nor is it an old one");
}

#[tokio::test]
async fn a_new_token_is_given_out_even_if_the_clock_says_that_it_has_ended() {
    let managed = Managed::new();
    managed.lives(Some(HOUR), Duration::ZERO);
    assert_eq!(managed.number().await, 1);
    assert_eq!(managed.number().await, 2, "but not twice");
}

#[tokio::test]
async fn expired_tokens_are_swept_by_whoever_asks_at_most_every_minute() {
    let managed = Managed::new();
    let another = TokenRequest { audiences: vec!["other".into()], ..request() };
    managed.lives(Some(HOUR), Duration::from_secs(20));
    managed.number().await;
    managed.clock.advance(Duration::from_secs(59));
    managed.lives(Some(HOUR), HOUR);
    managed.number_of(&another).await.unwrap();
    assert_eq!(managed.manager.kept(), 2);
    managed.clock.advance(Duration::from_secs(1));
    managed.number_of(&another).await.unwrap();
    assert_eq!(managed.manager.kept(), 1);
}

#[tokio::test]
async fn every_part_of_a_request_makes_it_another_and_a_pod_takes_its_tokens_along() {
    let managed = Managed::new();
    let pod = |name: &str, uid: &str| Some(PodReference { name: name.into(), uid: uid.into() });
    let requests = [
        request(),
        TokenRequest { namespace: "other".into(), ..request() },
        TokenRequest { service_account: "other".into(), ..request() },
        TokenRequest { service_account_uid: "other".into(), ..request() },
        TokenRequest { audiences: vec!["other".into()], ..request() },
        TokenRequest { audiences: vec!["registry".into(), "other".into()], ..request() },
        TokenRequest { audiences: vec!["registry\", \"other".into()], ..request() },
        TokenRequest { expiration_seconds: Some(600), ..request() },
        TokenRequest { pod: pod("other", "uid-of-web"), ..request() },
        TokenRequest { pod: pod("web", "other"), ..request() },
        TokenRequest { pod: None, ..request() },
    ];
    for _ in 0..2 {
        for (number, request) in requests.iter().enumerate() {
            assert_eq!(managed.number_of(request).await.unwrap(), number + 1);
        }
    }
    let none_said = TokenRequest { expiration_seconds: Some(0), ..request() };
    assert_eq!(managed.number_of(&none_said).await.unwrap(), 1);

    managed.manager.forget_pod("uid-of-web");
    assert_eq!(managed.manager.kept(), 2);
    assert_eq!(managed.number_of(&requests[10]).await.unwrap(), 11);
}

#[tokio::test]
async fn callers_at_once_make_one_request_and_may_leave() {
    let managed = Arc::new(Managed::new());
    let ask = || {
        let managed = managed.clone();
        tokio::spawn(async move { managed.number().await })
    };
    managed.cluster.state().token = Mood::Silent;
    let asking = [ask(), ask(), ask(), ask()];
    tokio::task::yield_now().await;
    assert_eq!(managed.cluster.asked().1, 1);

    managed.cluster.state().token = Mood::Well;
    let [first, others @ ..] = asking;
    first.abort();

    for other in others {
        assert_eq!(other.await.unwrap(), 2, "one of those who stayed asked again");
    }
}

#[tokio::test]
async fn the_number_of_tokens_is_bounded() {
    let managed = Managed::new();
    for number in 0..5_000 {
        let request = TokenRequest { service_account: number.to_string(), ..request() };
        managed.number_of(&request).await.unwrap();
    }
    assert!(managed.manager.kept() <= 4096, "{}", managed.manager.kept());
}
