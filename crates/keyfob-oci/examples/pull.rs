//! Pulls an image without credentials: `pull IMAGE DIRECTORY`.

use std::{
    error::Error,
    io::{Write as _, stdout},
};

use keyfob_api::ImageRef;
use keyfob_exec::SystemEnvironment;
use keyfob_oci::{Client, Layout, Puller};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let image = ImageRef::parse(&arguments.next().ok_or("which image?")?)?;
    let layout = Layout::create(arguments.next().ok_or("into which directory?")?)?;

    let client = Client::builder(&SystemEnvironment).build();
    let puller = Puller::builder(client, layout).build();
    let stored = puller.pull_image(&image, &image, None).await?;

    writeln!(stdout(), "{} {}", stored.id, stored.size)?;
    Ok(())
}
