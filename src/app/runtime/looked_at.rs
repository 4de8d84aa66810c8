//! Which sessions somebody looks at: all of them, until a screen says that it is one, or none.

use std::sync::{Mutex, PoisonError};

use super::{Inner, Runtime};

/// Which sessions somebody looks at.
#[derive(Debug, Default)]
pub(super) struct LookedAt(Mutex<Looks>);

#[derive(Debug, Default)]
enum Looks {
    #[default]
    Everywhere,
    At(Option<String>),
}

impl LookedAt {
    pub(super) fn includes(&self, session: &str) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Looks::Everywhere => true,
            Looks::At(one) => one.as_deref() == Some(session),
        }
    }
}

impl Runtime {
    /// Says that a person looks at this session and at no other one; `None` is nobody.
    pub fn look_at(&self, session: Option<&str>) {
        let Inner { looked_at, .. } = &*self.inner;
        *looked_at.0.lock().unwrap_or_else(PoisonError::into_inner) = Looks::At(session.map(str::to_owned));
    }
}
