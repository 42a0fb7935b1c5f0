//! `ecr-credential-provider`.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyfob_testkit::{Internet, Request, Response};
use serde_json::{Value, json};

use super::{Plugin, Spoken};
use crate::{Check, fact, same, text};

pub(super) const CHECKS: &[(&str, &str, Check)] = &[
    ("providers/ecr-api-endpoints.json", "cases", endpoint),
    ("providers/ecr-cache-duration.json", "cases", cache_duration),
    ("providers/ecr-get-credentials.json", "cases", get_credentials),
    ("providers/ecr-helper-server-url.json", "cases", server_url),
    ("providers/ecr-host.json", "cases", host),
    ("providers/ecr-image-host.json", "cases", image_host),
];

/// What the fake AWS issues.
#[derive(Clone)]
struct Issued {
    token_plain: Option<String>,
    expires_at: Option<u64>,
    api_error: Option<String>,
    sts_error: Option<String>,
}

impl Default for Issued {
    fn default() -> Self {
        let token_plain = Some("user:pass".into());
        Self { token_plain, expires_at: None, api_error: None, sts_error: None }
    }
}

fn aws(issued: Issued) -> Internet {
    Internet::start(move |request| {
        if request.host.starts_with("sts.") { issued.role(request) } else { issued.token(request) }
    })
}

impl Issued {
    fn token(&self, request: &Request) -> Response {
        if let Some(message) = &self.api_error {
            return Response::json(
                json!({"__type": "ServerException", "message": message}).to_string(),
            )
            .with_status(400);
        }
        let mut data = json!({});
        if let Some(plain) = &self.token_plain {
            data["authorizationToken"] = BASE64_STANDARD.encode(plain).into();
        }
        if let Some(end) = self.expires_at {
            data["expiresAt"] = end.into();
        }
        let public =
            request.header("x-amz-target").is_some_and(|target| target.contains("Spencer"));
        let data = if public { data } else { json!([data]) };
        Response::json(json!({"authorizationData": data}).to_string())
    }

    fn role(&self, _request: &Request) -> Response {
        if let Some(message) = &self.sts_error {
            let error = format!(
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>{message}</Message></Error></ErrorResponse>"
            );
            return Response::text(error).with_status(403);
        }
        Response::text(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
             <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
        )
    }
}

fn plugin(internet: &Internet) -> Plugin {
    Plugin::new("ecr")
        .through(internet)
        .env("AWS_ACCESS_KEY_ID", "AKIA")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_EC2_METADATA_DISABLED", "true")
}

fn hosts(internet: &Internet) -> Vec<String> {
    internet.requests().into_iter().map(|request| request.host).collect()
}

/// Refused, and before anyone was asked.
fn is_refused(internet: &Internet, spoken: &Spoken) -> Result<(), String> {
    spoken.fails_with("")?;
    fact("asked", &hosts(internet), &Vec::<String>::new())
}

fn host(_file: &Value, row: &Value) -> Result<(), String> {
    let host = text(row, "host");
    let internet = aws(Issued::default());
    let spoken = plugin(&internet).ask(&format!("{host}/app"), row);
    // Names of hosts have no case, as the row's own note says.
    let another_case = host.chars().any(char::is_uppercase) && row["note"].as_str().is_some();
    if row["matches"] == false && !another_case {
        return is_refused(&internet, &spoken);
    }
    let region = row["region"].as_str().unwrap_or("us-west-2");
    if region.contains('_') {
        // The host is read, but no region of AWS has such a name, and its library knows that.
        return spoken.fails_with("region");
    }
    fact("keys", &spoken.keys()?, &vec![host.to_owned()])?;
    let asked = hosts(&internet).concat();
    fact("region", &asked.split('.').any(|label| label == region), &true)?;
    let fips = row["fips"].as_bool().unwrap_or(host.contains("-fips"));
    fact("fips", &asked.contains("-fips"), &fips)
}

fn endpoint(_file: &Value, row: &Value) -> Result<(), String> {
    let region = text(row, "region");
    let (fips, dual_stack) = (row["fips"] == true, row["dual_stack"] == true);
    let fips = if fips { "-fips" } else { "" };
    let domain = match region {
        cn if cn.starts_with("cn-") && dual_stack => "on.amazonwebservices.com.cn",
        cn if cn.starts_with("cn-") => "amazonaws.com.cn",
        eu if eu.starts_with("eusc-") => "amazonaws.eu",
        iso if iso.starts_with("us-iso-") => "c2s.ic.gov",
        iso if iso.starts_with("us-isob-") => "sc2s.sgov.gov",
        iso if iso.starts_with("eu-isoe-") => "cloud.adc-e.uk",
        iso if iso.starts_with("us-isof-") => "csp.hci.ic.gov",
        _ if dual_stack => "on.aws",
        _ => "amazonaws.com",
    };
    let service = if dual_stack { "dkr-ecr" } else { "dkr.ecr" };
    let image = format!("123456789012.{service}{fips}.{region}.{domain}/app");
    let internet = aws(Issued::default());
    plugin(&internet).ask(&image, row).answer()?;
    let expected = text(row, "url").trim_start_matches("https://");
    same(&hosts(&internet), &vec![expected.to_owned()])
}

fn server_url(_file: &Value, row: &Value) -> Result<(), String> {
    let internet = aws(Issued::default());
    let spoken = plugin(&internet).arg("get").say(text(row, "serverURL").as_bytes());
    let asked = hosts(&internet);
    if row["error"] == true {
        fact("code", &spoken.code, &1)?;
        return fact("asked", &asked, &Vec::<String>::new());
    }
    let login: Value = serde_json::from_str(&spoken.stdout).map_err(|_| format!("{spoken:?}"))?;
    fact("login", &login["Secret"], "pass")?;
    let asked = asked.concat();
    fact("public", &asked.contains("ecr-public"), &(row["service"] == "ecr-public"))?;
    if let Some(region) = row["region"].as_str() {
        fact("region", &asked.contains(region), &true)?;
        fact("fips", &asked.contains("-fips"), &(row["fips"] == true))?;
    }
    Ok(())
}

/// The rows keep no port; such a key can never be used, so ours keeps it.
fn image_host(_file: &Value, row: &Value) -> Result<(), String> {
    let image = text(row, "image");
    let internet = aws(Issued::default());
    let spoken = plugin(&internet).ask(image, row);
    if let Some(error) = row["error_contains"].as_str() {
        return spoken.fails_with(error);
    }
    if !text(row, "host").contains("amazonaws") {
        return is_refused(&internet, &spoken);
    }
    let expected = image.split('/').next().unwrap();
    same(&spoken.keys()?, &vec![expected.to_owned()])
}

#[expect(clippy::disallowed_methods, reason = "the plugin reads the same clock")]
fn cache_duration(_file: &Value, row: &Value) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expires_in = row["expires_in_seconds"].as_i64();
    let expires_at = expires_in.map(|seconds| now.saturating_add_signed(seconds));
    let internet = aws(Issued { expires_at, ..Issued::default() });
    let spoken = plugin(&internet).ask("123456789012.dkr.ecr.eu-west-1.amazonaws.com/app", row);
    match expires_in {
        // The clock goes on between the issuer and the plugin.
        Some(long) if long > 1 => {
            let duration = spoken.answer()?["cacheDuration"].clone();
            let close = ["6h0m0s", "5h59m59s", "5h59m58s"].iter().any(|near| duration == *near);
            if close { Ok(()) } else { Err(format!("{duration}")) }
        }
        None => same(&spoken.answer()?["cacheDuration"], "0s"),
        // A token that has ended, or is about to, is kept by no one.
        Some(1) if spoken.code == 0 => same(&spoken.answer()?["cacheDuration"], "0s"),
        Some(_) => spoken.fails_with("ended at"),
    }
}

fn get_credentials(_file: &Value, row: &Value) -> Result<(), String> {
    let some = |field: &str| row[field].as_str().map(str::to_owned);
    let token_plain = if row["name"] == "token missing" {
        None
    } else {
        Some(some("token_plain").unwrap_or("user:pass".into()))
    };
    let (api_error, sts_error) = (some("api_error"), some("sts_error"));
    let nothing = row["name"] == "nil api output";
    let internet = if nothing {
        Internet::start(|_| Response::json("{}"))
    } else {
        aws(Issued { token_plain, expires_at: None, api_error, sts_error })
    };
    let image = row["image"].as_str().unwrap_or("123456789123.dkr.ecr.us-west-2.amazonaws.com/x");
    let mut plugin = plugin(&internet);
    for (name, value) in row["env"].as_object().into_iter().flatten() {
        plugin = plugin.env(name, value.as_str().unwrap());
    }
    let spoken = plugin.ask(image, row);
    if let Some(error) = row["expect_error"].as_str() {
        // STS says it through an error code of its own.
        return error.split(": ").try_for_each(|part| spoken.fails_with(part));
    }
    expected(&row["expect"], &spoken, &internet)
}

fn expected(expect: &Value, spoken: &Spoken, internet: &Internet) -> Result<(), String> {
    let answer = spoken.answer()?;
    let asked = internet.requests();
    for field in ["cacheKeyType", "cacheDuration"] {
        if !expect[field].is_null() {
            fact(field, &answer[field], &expect[field])?;
        }
    }
    for (key, login) in expect["auth"].as_object().into_iter().flatten() {
        fact("login", &json!(spoken.login(key)?), login)?;
    }
    if let Some(key) = expect["auth_key"].as_str() {
        fact("keys", &spoken.keys()?, &vec![key.to_owned()])?;
    }
    if let Some(service) = expect["service"].as_str() {
        let public = asked.iter().any(|request| request.host.contains("ecr-public"));
        fact("public", &public, &(service == "ecr-public"))?;
    }
    let sts = asked.iter().find(|request| request.host.starts_with("sts."));
    match expect.get("sts") {
        Some(Value::Null) => fact("STS asked", &sts.is_some(), &false),
        Some(sent) => {
            let role = text(sent, "RoleArn").replace(':', "%3A");
            fact("role", &sts.is_some_and(|sts| sts.body.contains(&role)), &true)
        }
        None => Ok(()),
    }
}
