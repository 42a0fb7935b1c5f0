//! The type of futures behind a trait or a service.

use std::pin::Pin;

/// A future in a box, which any thread may poll. The same type as that of this name in `futures`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
