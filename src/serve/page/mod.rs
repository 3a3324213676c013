//! pages
use std::sync::Arc;
use axum::Router;
use super::shared::Shared;
pub(super) fn routes() -> Router<Arc<Shared>> { Router::new() }
