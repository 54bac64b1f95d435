//! Builds the applications of a plan.

use std::sync::Arc;

use anabranch_host::{Application, Bulk, HttpServer, Paced, Player, Reader, Serve, Session};
use anabranch_plugin::Registry;
use anabranch_units::{Duration, Instant, Rate};

use crate::fault::PlanError;
use crate::media::Media;
use crate::plan::{ApplicationKind, ApplicationPlan, CrossKind, CrossPlan, Plan};

/// A factory of applications of the server.
pub type Make = dyn Fn() -> Box<dyn Application>;

/// Returns the factory of the application that the server runs on each connection.
pub fn serve(plan: &ApplicationPlan, media: &Media) -> Box<Make> {
    let &ApplicationPlan { kind, bytes, rate_bps, .. } = plan;
    let files = Arc::clone(&media.files);
    Box::new(move || match kind {
        ApplicationKind::Bulk => Box::new(Bulk::new(bytes)),
        ApplicationKind::Paced => Box::new(Paced::new(rate(rate_bps), bytes)),
        ApplicationKind::Progressive | ApplicationKind::Adaptive => {
            Box::new(HttpServer::new(Arc::clone(&files)))
        }
    })
}

/// Returns a client's application.
///
/// # Errors
/// Returns an error for a player without a film or ladder, or an ABR rule that cannot be built.
pub fn client(
    plan: &Plan,
    media: &Media,
    id: u32,
    start: Instant,
    registry: &Registry,
) -> Result<Box<dyn Application>, PlanError> {
    let application = &plan.application;
    let session = Session::new(id, start, application.duration_ns.map(Duration::from_nanos))
        .bearing_wrong_bytes(plan.changes_payload());
    let missing = || PlanError::Invalid("a player needs a film or a ladder").at("application");
    Ok(match application.kind {
        ApplicationKind::Bulk | ApplicationKind::Paced => Box::new(Reader::new(session)),
        ApplicationKind::Progressive => {
            let film = media.film.clone().ok_or_else(missing)?;
            Box::new(Player::progressive(session, application.player.clone(), film))
        }
        ApplicationKind::Adaptive => {
            let adaptive = application.adaptive.as_ref().ok_or_else(missing)?;
            let ladder = media.ladder.clone().ok_or_else(missing)?;
            let rule = adaptive.rule(registry)?;
            Box::new(Player::adaptive(session, &adaptive.player, ladder, rule))
        }
    })
}

/// Returns the factory of the applications that a cross-traffic server runs.
pub fn serve_across(group: &CrossPlan) -> Box<Serve> {
    let &CrossPlan { kind, bytes, rate_bps, .. } = group;
    Box::new(move |_, _| match kind {
        CrossKind::Paced => Box::new(Paced::new(rate(rate_bps), bytes)),
        _ => Box::new(Bulk::new(bytes)),
    })
}

/// Returns the rate of a paced application, which [`Plan::from_json`] has checked.
fn rate(bps: Option<u64>) -> Rate {
    Rate::from_bps(bps.unwrap_or(0))
}
