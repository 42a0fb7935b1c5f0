//! The audiences that an API server puts in the place of none.
//!
//! They are told, or else read from a token that this program got without naming an audience: that of its pod. Without
//! either, they are taken to be the issuer of the tokens, which is what an API server has by default if it has one issuer.

use std::{fs, io, path::PathBuf};

use keyfob_api::{Claims, Secret};
use keyfob_control::facts::{Cluster, ClusterError};
use thiserror::Error;

use crate::match_images::shown;

/// What an API server with an odd configuration needs.
const HINT: &str = "name the API server's own audiences with --api-audiences";

/// Where they are found.
#[derive(Debug)]
pub(super) struct ApiAudiences {
    pub(super) given: Vec<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) cluster: Cluster,
}

impl ApiAudiences {
    /// What they are now, if the API server answers.
    pub(super) async fn learn(&self) -> Result<Vec<String>, ApiAudiencesError> {
        self.cluster.answers().await?;
        if !self.given.is_empty() {
            return Ok(self.given.clone());
        }
        let of_token = self.of_token()?;
        if !of_token.is_empty() {
            return Ok(of_token);
        }
        match self.cluster.issuer().await {
            Ok(issuer) if !issuer.is_empty() => Ok(vec![issuer]),
            Ok(_) => Err(ApiAudiencesError::NoIssuer),
            Err(error) => Err(ApiAudiencesError::Issuer { error }),
        }
    }

    /// Old clusters mount tokens without an audience.
    fn of_token(&self) -> Result<Vec<String>, ApiAudiencesError> {
        let Some(file) = &self.token_file else { return Ok(Vec::new()) };
        let token = fs::read_to_string(file).map(Secret::new).map_err(|source| {
            let file = shown(&file.to_string_lossy()).into_owned();
            ApiAudiencesError::TokenFile { file, source }
        })?;
        let audiences = Claims::of(&token).map(|claims| claims.audiences).unwrap_or_default();
        Ok(audiences.into_iter().filter(|audience| !audience.is_empty()).collect())
    }
}

/// Why they are not known.
#[derive(Debug, Error)]
pub(super) enum ApiAudiencesError {
    #[error(transparent)]
    NoAnswer(#[from] ClusterError),
    #[error("it names no issuer of its tokens: {HINT}")]
    NoIssuer,
    /// The error is part of the message and no source, so that the hint comes last.
    #[error("it does not name the issuer of its tokens: {error}: {HINT}")]
    Issuer { error: ClusterError },
    #[error("the token file {file} cannot be read")]
    TokenFile { file: String, source: io::Error },
}
