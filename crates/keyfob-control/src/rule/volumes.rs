//! Which audiences a pod's volumes ask for.
//!
//! A projected volume names its audience. Any other leads to a CSI driver, if at all: by itself, through a claim and the
//! volume bound to it, or because its in-tree kind migrated; and the driver names its audiences.
//!
//! Upstream: `podReferencesAudience` in `plugin/pkg/admission/noderestriction`.

use std::fmt;

use k8s_openapi::api::core::v1::{PersistentVolume, Pod, Volume};
use keyfob_api::Quoted;

use super::{Clause, Facts, Found, Question, in_tree};

/// What a volume of a pod offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The volume's name in the pod.
    pub volume: String,
    /// Where its audiences come from.
    pub through: Through,
    /// The audiences, or why they could not be learnt: in upstream's words, which are all that the verdict shows of it.
    pub offered: Result<Vec<String>, String>,
}

/// `volume "a", through driver "d": "x", "y"`.
impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {}, {}: ", Quoted(&self.volume), self.through)?;
        match &self.offered {
            Err(error) => f.write_str(error),
            Ok(audiences) if audiences.is_empty() => f.write_str("no audience"),
            Ok(audiences) => {
                let quoted: Vec<String> =
                    audiences.iter().map(|each| Quoted(each).to_string()).collect();
                f.write_str(&quoted.join(", "))
            }
        }
    }
}

/// Where a volume's audiences come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Through {
    /// A CSI driver, this way.
    Driver(Path),
    /// The volume itself, which projects tokens.
    Projected,
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(path) => write!(f, "through {path}"),
            Self::Projected => f.write_str("projected"),
        }
    }
}

/// How a volume leads to a CSI driver, as far as it was followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Path {
    /// The claim.
    pub claim: Option<String>,
    /// The persistent volume that is bound to it.
    pub persistent_volume: Option<String>,
    /// The in-tree kind that migrated, by the name of its field.
    pub in_tree: Option<&'static str>,
    /// The driver.
    pub driver: Option<String>,
}

/// `claim "c", persistent volume "v", driver "d"`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |what: &str, name: &Option<String>| {
            name.as_ref().map(|name| format!("{what} {}", Quoted(name)))
        };
        let steps = [
            named("claim", &self.claim),
            named("persistent volume", &self.persistent_volume),
            self.in_tree.map(|field| format!("in-tree {field}")),
            named("driver", &self.driver),
        ];
        f.write_str(&steps.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A pod whose volumes are looked at for an audience.
pub(super) struct Volumes<'a> {
    pub(super) pod: &'a Pod,
    pub(super) pod_name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) audience: &'a str,
    pub(super) facts: &'a Facts,
}

/// What keeps a volume from being followed.
enum Stop {
    Needs(Question),
    Fails(String),
}

impl From<Question> for Stop {
    fn from(question: Question) -> Self {
        Self::Needs(question)
    }
}

impl Volumes<'_> {
    /// The clause of the first volume that asks for the audience. What was seen on the way is kept, errors too.
    pub(super) fn scan(&self, seen: &mut Vec<Seen>) -> Result<Option<Clause>, Question> {
        let spec = self.pod.spec.as_ref();
        for volume in spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default() {
            for one in self.look_at(volume)? {
                let clause = self.clause(&one);
                seen.push(one);
                if clause.is_some() {
                    return Ok(clause);
                }
            }
        }
        Ok(None)
    }

    fn clause(&self, seen: &Seen) -> Option<Clause> {
        let offered = seen.offered.as_ref().ok()?;
        offered.iter().any(|each| each == self.audience).then(|| {
            let volume = seen.volume.clone();
            match &seen.through {
                Through::Projected => Clause::ProjectedVolume { volume },
                Through::Driver(path) => Clause::CsiDriver { volume, path: path.clone() },
            }
        })
    }

    fn look_at(&self, volume: &Volume) -> Result<Vec<Seen>, Question> {
        let mut seen = Vec::new();
        let mut add = |through, offered| {
            seen.push(Seen { volume: volume.name.clone(), through, offered });
        };
        let projected = projected(volume);
        let decides = projected.iter().any(|each| each == self.audience);
        if !projected.is_empty() {
            add(Through::Projected, Ok(projected));
        }
        if !decides {
            let mut path = Path::default();
            let offered = match self.follow(volume, &mut path) {
                Ok(audiences) => Ok(audiences),
                Err(Stop::Fails(error)) => Err(error),
                Err(Stop::Needs(question)) => return Err(question),
            };
            if path != Path::default() {
                add(Through::Driver(path), offered);
            }
        }
        Ok(seen)
    }

    /// The audiences of the driver that a volume leads to. A volume that leads to none leaves the path empty.
    fn follow(&self, volume: &Volume, path: &mut Path) -> Result<Vec<String>, Stop> {
        if let Some(claim) = self.claim(volume) {
            path.claim = Some(claim.clone());
            self.follow_claim(&claim, path)?;
        } else if let Some(csi) = &volume.csi {
            path.driver = Some(csi.driver.clone());
        } else if let Some(migrated) = in_tree::of_volume(volume) {
            migrate(migrated, path)?;
        }
        match path.driver.as_deref() {
            Some(driver) if !driver.is_empty() => self.token_requests(driver),
            _ => Ok(Vec::new()),
        }
    }

    /// The claim of an ephemeral volume is named after its pod and itself.
    fn claim(&self, volume: &Volume) -> Option<String> {
        let template =
            volume.ephemeral.as_ref().and_then(|each| each.volume_claim_template.as_ref());
        if template.is_some() {
            return Some(format!("{}-{}", self.pod_name, volume.name));
        }
        volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone())
    }

    fn follow_claim(&self, name: &str, path: &mut Path) -> Result<(), Stop> {
        let namespace = self.namespace.to_owned();
        let claim = self.facts.claim(namespace, name.to_owned())?;
        let claim = known(claim, "persistentvolumeclaim", name)?;
        let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
        let volume = volume.unwrap_or_default();
        path.persistent_volume = Some(volume.clone());
        let bound = known(self.facts.volume(volume.clone())?, "persistentvolume", &volume)?;
        follow_bound(bound, path)
    }

    fn token_requests(&self, name: &str) -> Result<Vec<String>, Stop> {
        let driver = self.facts.driver(name.to_owned())?;
        let driver = known(driver, "csidriver.storage.k8s.io", name)?;
        let requests = driver.spec.token_requests.as_deref().unwrap_or_default();
        Ok(requests.iter().map(|request| request.audience.clone()).collect())
    }
}

fn projected(volume: &Volume) -> Vec<String> {
    let sources = volume.projected.as_ref().and_then(|each| each.sources.as_deref());
    let tokens =
        sources.unwrap_or_default().iter().filter_map(|each| each.service_account_token.as_ref());
    tokens.map(|token| token.audience.clone().unwrap_or_default()).collect()
}

fn follow_bound(bound: &PersistentVolume, path: &mut Path) -> Result<(), Stop> {
    let csi = bound.spec.as_ref().and_then(|spec| spec.csi.as_ref());
    if let Some(csi) = csi {
        path.driver = Some(csi.driver.clone());
    } else if let Some(migrated) = in_tree::of_persistent_volume(bound) {
        migrate(migrated, path)?;
    }
    Ok(())
}

fn migrate(migrated: in_tree::Migrated, path: &mut Path) -> Result<(), Stop> {
    path.in_tree = Some(migrated.field);
    path.driver = Some(migrated.driver.map_err(Stop::Fails)?.to_owned());
    Ok(())
}

/// An object that must be there, or else what upstream says of it.
fn known<'a, T>(found: &'a Found<T>, resource: &str, name: &str) -> Result<&'a T, Stop> {
    match found {
        Found::Yes(object) => Ok(object),
        Found::No => Err(Stop::Fails(format!("{resource} {} not found", Quoted(name)))),
        Found::Unknown(error) => Err(Stop::Fails(error.clone())),
    }
}
