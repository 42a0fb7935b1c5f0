//! How else the name of an image is written.

use keyfob_api::ImageRef;

/// A repository's name in every way that means it, the full one first. Docker Hub's have several: `nginx` is
/// `library/nginx`, `docker.io/nginx` and more.
pub(crate) fn spellings(repository: &str) -> Vec<String> {
    let Some(path) = repository.strip_prefix("docker.io/") else {
        return vec![repository.to_owned()];
    };
    let official = path.strip_prefix("library/").filter(|name| !name.contains('/'));
    let paths = [Some(path), official].into_iter().flatten();
    let spelled = paths.flat_map(|path| {
        ["docker.io/", "", "index.docker.io/"].map(|host| format!("{host}{path}"))
    });
    // A short name may look like that of another registry.
    spelled
        .filter(|name| ImageRef::parse(name).is_ok_and(|image| image.repository() == repository))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_means_the_same_repository() {
        let rows: [(&str, &[&str]); 5] = [
            (
                "docker.io/library/nginx",
                &[
                    "docker.io/library/nginx",
                    "library/nginx",
                    "index.docker.io/library/nginx",
                    "docker.io/nginx",
                    "nginx",
                    "index.docker.io/nginx",
                ],
            ),
            ("docker.io/ada/app", &["docker.io/ada/app", "ada/app", "index.docker.io/ada/app"]),
            (
                "docker.io/library/team/app",
                &[
                    "docker.io/library/team/app",
                    "library/team/app",
                    "index.docker.io/library/team/app",
                ],
            ),
            (
                "docker.io/localhost/app",
                &["docker.io/localhost/app", "index.docker.io/localhost/app"],
            ),
            ("r.io:5000/app", &["r.io:5000/app"]),
        ];
        for (repository, expected) in rows {
            assert_eq!(spellings(repository), expected);
        }
    }
}
