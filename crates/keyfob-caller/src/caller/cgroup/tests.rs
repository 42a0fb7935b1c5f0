//! Paths as runtimes and service managers make them, and as others would like to.

use super::*;

const ID: &str = "b2a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd2004a2";
const INNER: &str = "00a102854b4969b2ce98dc329c86b4fb2b06e4ad2cc8da9d8a7578c9cd200400";
const POD: &str = "72f7f152-440c-46ac-9084-e0fc1d8a910c";
const STATIC_POD: &str = "e3d5bd2ea7f2b1f2b3f7e2d4c8a6f901";

/// Fills in the ids of a text.
fn fill(text: &str) -> String {
    text.replace("$ID", ID)
        .replace("$INNER", INNER)
        .replace("$POD_", &POD.replace('-', "_"))
        .replace("$POD", POD)
        .replace("$STATIC", STATIC_POD)
}

fn cgroups(text: &str) -> Cgroups {
    Cgroups::parse(fill(text).as_bytes()).unwrap()
}

/// Where a process is, as text.
fn describe(caller: &str, host: &str) -> String {
    described(cgroups(caller).locate(&cgroups(host)))
}

fn described(located: Result<CgroupLocation, AttestError>) -> String {
    match located {
        Ok(CgroupLocation::Host { unit }) => format!("host {}", unit.unwrap_or_default()),
        Ok(CgroupLocation::Container { id, pod_uid }) => {
            let pod = pod_uid.map(|it| it.replace(POD, "POD").replace(STATIC_POD, "STATIC"));
            let id = id.map(|it| it.replace(ID, "ID").replace(INNER, "INNER"));
            format!("pod {} container {}", pod.unwrap_or_default(), id.unwrap_or_default())
        }
        Ok(CgroupLocation::Invisible) => "invisible".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(rows: &[(&str, &str)]) {
    for (path, place) in rows {
        let found = describe(&format!("0::{path}\n"), "0::/init.scope\n");
        assert_eq!(found.trim_end(), *place, "{path}");
    }
}

#[test]
fn a_unit_is_the_first_name_below_slices() {
    check(&[
        ("/", "host"),
        ("/init.scope", "host init.scope"),
        ("/system.slice/docker.service", "host docker.service"),
        ("/system.slice/foo.service/sub", "host foo.service"),
        ("/system.slice/foo.service/docker.service", "host foo.service"),
        ("/system.slice/system-getty.slice/getty@tty1.service", "host getty@tty1.service"),
        ("/system.slice/_cpu.service", "host cpu.service"),
        ("/kubelet.slice/kubelet.service", "host kubelet.service"),
        ("/user.slice/user-1000.slice/session-3.scope", "host session-3.scope"),
        // Not below slices only: somebody else made these.
        ("/custom/docker.service", "host"),
        ("/system.slice", "host"),
        ("/system.slice/docker", "host"),
        ("/docker.servicex", "host"),
        // The process that watches over a container.
        ("/lxc.monitor.web", "host"),
        ("/process_api/4477a83d9790546bcede14daf099aa18", "host"),
    ]);
}

#[test]
fn a_unit_of_a_user_is_not_one_of_the_system() {
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for below in
        ["", "/app.slice/docker.service", "/docker.service", "/system.slice/docker.service"]
    {
        check(&[(&*format!("{user}{below}"), "host user@1000.service")]);
    }
}

#[test]
fn pods_of_either_cgroup_driver_are_recognised() {
    check(&[
        ("/kubepods/burstable/pod$POD/$ID", "pod POD container ID"),
        ("/kubepods/besteffort/pod$POD/$ID", "pod POD container ID"),
        ("/kubepods/pod$POD/$ID", "pod POD container ID"),
        ("/kubepods/pod$STATIC/$ID", "pod STATIC container ID"),
        ("/kubepods/pod$POD/crio-$ID", "pod POD container ID"),
        ("/kubelet/kubepods/burstable/pod$POD/$ID/init.scope", "pod POD container ID"),
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod$POD_.slice/cri-containerd-$ID.scope",
            "pod POD container ID",
        ),
        ("/kubepods.slice/kubepods-pod$POD_.slice/crio-$ID.scope", "pod POD container ID"),
        ("/kubepods.slice/kubepods-pod$POD_.slice/docker-$ID.scope/sub", "pod POD container ID"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$STATIC.slice/crio-$ID.scope",
            "pod STATIC container ID",
        ),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod$POD_.slice/cri-containerd-$ID.scope",
            "pod POD container ID",
        ),
        (
            "/system.slice/containerd.service/kubepods-besteffort-pod$POD_.slice:cri-containerd:$ID",
            "pod POD container ID",
        ),
        ("/kubepods-pod$POD_.slice:cri-containerd:$ID", "pod POD container ID"),
        ("/system.slice/k3s.service/kubepods/pod$POD/$ID", "pod POD container ID"),
        // In the pod, but in none of its containers.
        ("/kubepods.slice/kubepods-pod$POD_.slice", "pod POD container"),
        ("/kubepods/burstable/pod$POD", "pod POD container"),
    ]);
}

#[test]
fn what_is_almost_a_pod_is_a_container_of_no_pod() {
    check(&[
        ("/kubepods", "pod  container"),
        ("/kubepods.slice/kubepods-burstable.slice", "pod  container"),
        ("/kubepods/burstable/podx/$ID", "pod  container ID"),
        ("/kubepods/burstable/pod$POD.x/$ID", "pod  container ID"),
        ("/kubepods/other/pod$POD/$ID", "pod  container ID"),
        ("/kubepods/burstable/burstable/pod$POD/$ID", "pod  container ID"),
        ("/other/pod$POD/$ID", "pod  container ID"),
        ("/xkubepods-pod$POD_.slice/crio-$ID.scope", "pod  container ID"),
        ("/kubepods.slice/kubepods-pod$POD.slice/crio-$ID.scope", "pod  container ID"),
        ("/kubepods.slice/kubepods-other-pod$POD_.slice/crio-$ID.scope", "pod  container ID"),
    ]);
}

#[test]
fn containers_of_other_runtimes_are_recognised() {
    check(&[
        ("/docker/$ID", "pod  container ID"),
        ("/docker/$ID/init.scope", "pod  container ID"),
        ("/docker/buildx", "pod  container"),
        ("/docker", "pod  container"),
        ("/system.slice/docker-$ID.scope", "pod  container ID"),
        ("/system.slice/docker-$ID.scope/docker.service", "pod  container ID"),
        ("/machine.slice/libpod-$ID.scope/container", "pod  container ID"),
        ("/libpod_parent/libpod-$ID", "pod  container ID"),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-$ID.scope/container",
            "pod  container ID",
        ),
        ("/default/$ID", "pod  container ID"),
        ("/default/web", "pod  container web"),
        ("/system.slice/nerdctl-$ID.scope", "pod  container ID"),
        ("/lxc/web/init.scope", "pod  container web"),
        ("/lxc.payload.web/system.slice/ssh.service", "pod  container web"),
        ("/lxc.payload/web", "pod  container web"),
        ("/buildkit/w3ns9ej5mpgz0gmmcgb1xpnbb", "pod  container w3ns9ej5mpgz0gmmcgb1xpnbb"),
        ("/machine.slice/machine-web.scope", "pod  container"),
        ("/actions_job/$ID", "pod  container ID"),
        ("/custom/$ID", "pod  container ID"),
    ]);
}

#[test]
fn nobody_but_root_of_the_host_can_pretend_to_be_in_a_pod() {
    check(&[
        // A container that may write its own part of the tree.
        ("/docker/$ID/kubepods/burstable/pod$POD/$INNER", "pod  container ID"),
        ("/system.slice/docker-$ID.scope/kubepods/pod$POD/$INNER", "pod  container ID"),
        ("/lxc.payload.web/kubepods/pod$POD/$ID", "pod  container web"),
        // Another pod.
        ("/kubepods/pod$STATIC/$ID/kubepods/pod$POD/$INNER", "pod STATIC container ID"),
        // A user, or a service that has a part of the tree.
        (
            "/user.slice/user-1000.slice/user@1000.service/kubepods/burstable/pod$POD/$ID",
            "pod  container ID",
        ),
        ("/user.slice/kubepods-pod$POD_.slice/crio-$ID.scope", "pod  container ID"),
        (
            "/system.slice/ci.service/kubepods-pod$POD_.slice:cri-containerd:$ID",
            "pod  container ID",
        ),
        ("/system.slice/run-u1.scope/kubepods/pod$POD/$ID", "pod  container ID"),
    ]);
}

#[test]
fn the_container_that_the_host_is_in_does_not_count() {
    let kind = "0::/docker/$ID/init.scope\n";
    for (path, place) in [
        ("/docker/$ID/kubelet.slice/kubelet.service", "host kubelet.service"),
        ("/docker/$ID", "host "),
        ("/docker/$ID/kubelet/kubepods/burstable/pod$POD/$INNER", "pod POD container INNER"),
        ("/docker/$ID/kubepods/pod$POD/$INNER/kubepods/pod$STATIC/$ID", "pod POD container INNER"),
        ("/docker/$INNER/kubepods/pod$POD/$ID", "pod  container INNER"),
        ("/system.slice/docker.service", "host docker.service"),
    ] {
        assert_eq!(describe(&format!("0::{path}\n"), kind), place, "{path}");
    }
    // A node in a pod.
    let nested = "0::/kubepods/pod$POD/$ID\n";
    let inner = "0::/kubepods/pod$POD/$ID/kubepods/pod$STATIC/$INNER\n";
    assert_eq!(describe(inner, nested), "pod STATIC container INNER");
    assert_eq!(describe("0::/kubepods/pod$POD/$INNER\n", nested), "pod POD container INNER");
}

#[test]
fn paths_outside_of_the_cgroup_namespace_say_nothing() {
    check(&[
        ("/..", "invisible"),
        ("/../system.slice/docker.service", "invisible"),
        ("/../../pod$POD/$ID", "invisible"),
        ("/kubepods/pod$POD/../$ID", "invisible"),
    ]);
}

#[test]
fn one_hierarchy_of_version_1_is_enough_for_a_container() {
    let host = "2:cpu,cpuacct:/\n1:name=systemd:/init.scope\n0::/\n";
    for (text, place) in [
        (
            "2:cpu,cpuacct:/user.slice\n1:name=systemd:/system.slice/foo.service\n0::/system.slice/bar.service\n",
            "host foo.service",
        ),
        ("2:cpu,cpuacct:/system.slice/foo.service\n1:name=systemd:/\n0::/\n", "host "),
        (
            "2:cpu,cpuacct:/docker/$ID\n1:name=systemd:/system.slice/foo.service\n",
            "pod  container ID",
        ),
        ("2:cpu,cpuacct:/kubepods/pod$POD/$ID\n1:name=systemd:/\n0::/\n", "pod POD container ID"),
        (
            "2:cpu,cpuacct:/kubepods/pod$POD/$ID\n1:name=systemd:/kubepods.slice/kubepods-pod$POD_.slice/crio-$ID.scope\n",
            "pod POD container ID",
        ),
        ("2:cpu,cpuacct:/kubepods/pod$POD/$ID\n1:name=systemd:/kubepods\n", "pod POD container ID"),
        ("2:cpu,cpuacct:/kubepods/pod$POD/$ID\n1:name=systemd:/..\n", "invisible"),
    ] {
        assert_eq!(describe(text, host), place, "{text}");
    }
    let contradiction = AttestError::Ambiguous.to_string();
    for text in [
        "2:cpu:/kubepods/pod$POD/$ID\n1:name=systemd:/kubepods/pod$STATIC/$ID\n",
        "2:cpu:/kubepods/pod$POD\n1:name=systemd:/kubepods/pod$STATIC\n",
        "2:cpu:/kubepods/pod$POD/$ID\n1:name=systemd:/docker/$INNER\n",
        "0::/kubepods/pod$POD/kubepods/pod$STATIC/$ID\n",
    ] {
        assert_eq!(describe(text, host), contradiction, "{text}");
    }
}

#[test]
fn a_text_that_the_kernel_would_not_write_is_refused() {
    let mut refused: Vec<Vec<u8>> =
        ["", "\n", "0::/", "0:/\n", "0::relative\n", "x::/\n", "-1::/\n", "0::/a//b\n", "0::/a/\n"]
            .map(Into::into)
            .into();
    refused.push(b"0::/\n\n".to_vec());
    refused.push(b"0::/\n0::/system.slice\n".to_vec());
    refused.push(b"0::/\xff\n".to_vec());
    for text in refused {
        assert_eq!(Cgroups::parse(&text), None, "{}", String::from_utf8_lossy(&text));
    }
    // Colons belong to the path.
    assert_eq!(cgroups("0::/a:b\n").0[0].path, ["a:b"]);
}

/// A server in a pod, in a cgroup namespace of its own.
#[test]
fn relative_paths_are_known_by_the_root_of_the_servers_namespace() {
    let root: Vec<String> = fill("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$POD_.slice/cri-containerd-$INNER.scope")
        .split('/')
        .map(str::to_owned)
        .collect();
    let host = cgroups("0::/../../../../init.scope\n");
    assert!(host.leaves_the_namespace());
    let host = host.in_whole_hierarchy(&root);
    for (path, place) in [
        ("/", "pod POD container INNER"),
        ("/sub", "pod POD container INNER"),
        ("/../cri-containerd-$ID.scope", "pod POD container ID"),
        (
            "/../../../kubepods-besteffort.slice/kubepods-besteffort-pod$POD_.slice/cri-containerd-$ID.scope",
            "pod POD container ID",
        ),
        ("/../../../../system.slice/kubelet.service", "host kubelet.service"),
        ("/../../../../init.scope", "host init.scope"),
        // Above the root of the hierarchy, which no kernel writes.
        ("/../../../../../system.slice/kubelet.service", "invisible"),
        ("/../x/../../../../system.slice/kubelet.service", "invisible"),
    ] {
        let caller = cgroups(&format!("0::{path}\n")).in_whole_hierarchy(&root);
        assert_eq!(described(caller.locate(&host)), place, "{path}");
    }
}
