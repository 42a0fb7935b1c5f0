//! A pod's image is pulled through each of our plugins, installed as `docs/plugins.md` says.

use crate::{
    containerd::Runtime,
    node::{Node, NodeOptions},
    registry::{Access, Registry},
    world::World,
};

pub(crate) fn without_a_provider_the_pull_is_refused(world: &mut World) {
    let registry =
        Registry::start(world, "registry.example.com", Access::password("ada", "hunter2"));
    let image = registry.push("team/app:v1");
    for runtime in Runtime::ALL {
        let _node = Node::start(world, &NodeOptions::new(runtime));
        let pod = world.pod(&format!("app-{runtime:?}").to_lowercase(), &image).create();
        pod.wait_until_waiting("ErrImagePull");
        println!("{:#?}", pod.event_lines());
    }
    let registry = Registry::start(world, "open.example.com", Access::Everybody);
    let image = registry.push("team/app:v1");
    let _node = Node::start(world, &NodeOptions::new(Runtime::Containerd21));
    world.pod("open", &image).create().wait_until_running();
}
