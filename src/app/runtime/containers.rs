//! Sessions whose command starts a container: the client is theirs, the container is not, so that a stop looks
//! whether it went with its client.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::doctor::warn;
use super::gpu::Memory;
use super::probe::holder;
use super::serving::Serving;
use super::session::Session;
use crate::app::command::Check;
use crate::app::contract::CommandLine;
use crate::app::phase::{Container, container};
use crate::lifecycle::clock;
use crate::lifecycle::identity::Identity;
use crate::lifecycle::inspect::{InspectorKind, PortOwner, owner_of_port};
use crate::lifecycle::receipt::{Receipt, StillHeld};
use crate::text;

/// How long an engine may take to give a port back.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// How many of the newest receipts are looked at for containers that live on.
const RECEIPTS: usize = 200;

/// What a session was seen to have before its stop.
pub(super) struct Had {
    pub(super) gpus: BTreeMap<Identity, Memory>,
    /// What it, or a member of it, has started elsewhere.
    pub(super) container: Option<Container>,
    /// Where its recipe has a stop of its own: the ports of its members.
    pub(super) ports: Vec<u16>,
}

impl Inner {
    /// Looks what a stop did not bring back, beyond the ports of the members.
    pub(super) fn check_brought_back(&self, session: &Arc<Session>, had: &Had, receipt: &mut Receipt) {
        let begun = Instant::now();
        let captured = client_in(receipt.captured.iter().map(|row| row.command.as_str()));
        let mut awaited: Vec<u16> = session.serving.get().and_then(Serving::awaited_port).into_iter().collect();
        match united(had.container.clone(), captured) {
            Some(found) => {
                awaited.retain(|port| !found.ports.contains(port));
                self.check_container(
                    session,
                    &Container { ports: [&found.ports[..], &awaited].concat(), ..found },
                    receipt,
                );
            }
            None => self.note_strangers(session, &awaited, receipt),
        }
        self.check_ports(&had.ports, receipt);
        self.check_gpus(session, &had.gpus, receipt);
        receipt.elapsed_ms += u64::try_from(begun.elapsed().as_millis()).unwrap_or_default();
    }

    /// Returns the container that the command of a session starts, or a member of it.
    pub(super) fn container_of(&self, session: &Session) -> Option<Container> {
        let seen = {
            let state = session.state();
            client_in(state.sample.rows.values().map(|sampled| sampled.row.command.as_str()))
        };
        united(self.told_container(session), seen)
    }

    fn told_container(&self, session: &Session) -> Option<Container> {
        let tether = session.tether();
        let typed = session.request.as_ref().and_then(|request| request.command.as_ref()).map(CommandLine::argv);
        let config = self.config();
        let recipe = tether.origin.as_deref().and_then(|name| config.recipe(name));
        // With a secret in it only the masked line is left, whose words are enough.
        let argv = typed.or_else(|| recipe.map(|recipe| recipe.command.argv())).or(tether.argv);
        container(&argv.unwrap_or_else(|| tether.command.split_whitespace().map(str::to_owned).collect()))
    }

    /// Looks whether the ports that led into a container came back with the end of its client.
    fn check_container(&self, session: &Arc<Session>, found: &Container, receipt: &mut Receipt) {
        let until = Instant::now() + GIVE_BACK;
        let mut held: Vec<u16> = found.ports.clone();
        loop {
            held.retain(|port| self.is_held_elsewhere(session, *port));
            if held.is_empty() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(GIVE_BACK / 20);
        }
        for port in &held {
            let by = holder(&self.inspector, *port).unwrap_or_else(|| "a process that cannot be looked at".into());
            receipt.still_held.retain(|row| row.port != Some(*port));
            receipt.still_held.push(StillHeld { port: Some(*port), gpu_bytes: None, by });
        }
        let (config, origin) = (self.config(), session.tether().origin);
        let recipe = origin.as_deref().and_then(|name| config.recipe(name));
        let has_command = recipe.is_some_and(|recipe| recipe.stop.command.is_some());
        // podman's containers come back to the warden, and who tended this one was seen to end with it.
        let seen = receipt.dead == Some(true) && receipt.outcomes.iter().any(|row| tends(row.command.as_deref()));
        if !held.is_empty() || (receipt.escalated && !has_command && !seen) {
            receipt.notes.insert(0, lives_on(found, has_command, !held.is_empty()));
        }
        if !held.is_empty() && receipt.dead == Some(true) {
            // Its client is; what the session is about is not, and lives where nobody of ours can look.
            receipt.dead = None;
        }
    }

    /// Says who holds the port that a session was to listen on, and is none of it: that one was never its own.
    fn note_strangers(&self, session: &Arc<Session>, awaited: &[u16], receipt: &mut Receipt) {
        let told = |port: &u16, receipt: &Receipt| receipt.still_held.iter().any(|row| row.port == Some(*port));
        for port in awaited {
            if receipt.dead == Some(true) && !told(port, receipt) && self.is_held_elsewhere(session, *port) {
                let by = holder(&self.inspector, *port).unwrap_or_else(|| "a process that cannot be looked at".into());
                receipt.notes.push(format!("port {port} is held by {by}, which is none of this session"));
            }
        }
    }

    /// Says which containers live on after the stop of their sessions, where any do: no session has them any more. Asks no
    /// engine: the receipts of this boot name who held their ports, and whoever still does is shown.
    pub(super) fn container_check(&self) -> Option<Check> {
        let entries = self.store.journal().read(None, Some(RECEIPTS)).ok()?.receipts;
        let booted = clock::wall() - clock::boottime();
        #[expect(clippy::cast_precision_loss, reason = "seconds stay far below 2^52")]
        let recent = entries.iter().rev().filter(|entry| entry.at as f64 >= booted).map(|entry| &entry.receipt);
        // One process may hold the ports of all containers, those of sessions that live among them.
        let live = self.all().into_iter().filter(|session| !session.phase().0.is_over());
        let ports = |session: Arc<Session>| {
            let awaited = session.serving.get().and_then(Serving::awaited_port);
            self.container_of(&session).map(|one| one.ports.into_iter().chain(awaited))
        };
        let taken: Vec<u16> = live.filter_map(ports).flatten().collect();
        let left = recent.filter(|receipt| lives_elsewhere(receipt));
        let found: Vec<(&Receipt, &StillHeld)> =
            left.filter_map(|receipt| Some((receipt, self.still_holds(receipt, &taken)?))).collect();
        let (first, held) = *found.first()?;
        let port = held.port.unwrap_or_default();
        let what =
            format!("port {port}, which is held by {}: {} is stopped, what it started is not", held.by, first.session);
        // A session that was stopped twice has left one.
        let count = found.iter().map(|(_, held)| (held.port, &held.by)).collect::<BTreeSet<_>>().len();
        let detail = if count > 1 { format!("{count}, for example on {what}") } else { format!("one, on {what}") };
        Some(warn("containers", detail, first.notes.first().map_or("", String::as_str)))
    }

    /// Returns a port of a receipt that the same process holds which held it then; none that is `taken` since.
    fn still_holds<'a>(&self, receipt: &'a Receipt, taken: &[u16]) -> Option<&'a StillHeld> {
        let free = |port: &u16| !taken.contains(port);
        let same = |row: &&StillHeld| {
            row.port.filter(free).and_then(|port| holder(&self.inspector, port)).as_ref() == Some(&row.by)
        };
        receipt.still_held.iter().find(same)
    }

    /// Looks whether ports came back that the members of a session had before its own stop ran: who gave them back then
    /// is not in the capture that came after it.
    fn check_ports(&self, had: &[u16], receipt: &mut Receipt) {
        for port in had {
            if receipt.ports_released.contains(port) || receipt.still_held.iter().any(|row| row.port == Some(*port)) {
                continue;
            }
            match holder(&self.inspector, *port) {
                None => receipt.ports_released.push(*port),
                Some(by) => receipt.still_held.push(StillHeld { port: Some(*port), gpu_bytes: None, by }),
            }
        }
        receipt.ports_released.sort_unstable();
    }

    /// Tells whether anybody but another session of ours listens on a port.
    fn is_held_elsewhere(&self, own: &Session, port: u16) -> bool {
        if self.inspector.kind() != InspectorKind::Procfs {
            let taken = TcpListener::bind(("0.0.0.0", port)).err();
            return taken.is_some_and(|error| error.kind() == std::io::ErrorKind::AddrInUse);
        }
        match owner_of_port(&self.inspector, port) {
            PortOwner::Nobody => false,
            PortOwner::Hidden => true,
            PortOwner::Process(pid) => {
                let is_member = |session: &Arc<Session>| {
                    session.id != own.id && session.state().sample.rows.keys().any(|member| member.pid == pid)
                };
                !self.all().iter().any(is_member)
            }
        }
    }
}

/// Tells whether a receipt is of a session whose work lives where nobody of ours can look: nobody else leaves it open
/// whether everything is dead while nobody is in doubt.
fn lives_elsewhere(receipt: &Receipt) -> bool {
    receipt.dead.is_none() && receipt.unverified.is_empty() && receipt.survivors.is_empty()
}

/// Returns the container that one of some command lines starts, which are masked.
fn client_in<'a>(mut commands: impl Iterator<Item = &'a str>) -> Option<Container> {
    commands.find_map(|line| container(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()))
}

/// Puts together what a command says of its container and what the arguments of its client say: where a shell is told
/// `-p $PORT:80`, only the latter know the port.
fn united(told: Option<Container>, seen: Option<Container>) -> Option<Container> {
    match (told, seen) {
        (Some(told), Some(seen)) => {
            let ports: BTreeSet<u16> = told.ports.iter().chain(&seen.ports).copied().collect();
            let written = told.name.clone().filter(|name| !name.contains(['$', '`']));
            let name = if told.engine == seen.engine { seen.name.or(written) } else { written };
            Some(Container { ports: ports.into_iter().collect(), name, ..told })
        }
        (told, seen) => told.or(seen),
    }
}

fn tends(command: Option<&str>) -> bool {
    let program = command.and_then(|command| command.split(' ').next()).unwrap_or_default();
    Path::new(program).file_name().is_some_and(|name| name == "conmon")
}

/// Says that a container outlived its client, or may have, and what ends it.
fn lives_on(found: &Container, has_command: bool, held: bool) -> String {
    let Container { engine, client, .. } = found;
    let how = if held { "lives on" } else { "may live on: its client was killed before it could stop it" };
    if has_command {
        return format!("its container {how}, though its stop command ran; `{engine} ps` shows it");
    }
    if let Some((compose, _)) = client.rsplit_once(' ').filter(|(compose, _)| compose.ends_with("compose")) {
        let words: Vec<&str> = compose.split(' ').chain(["stop"]).collect();
        return format!(
            "`{client}` is a client, and its container {how}: end it with `{compose} stop`, and give the recipe `stop = {{ command = {words:?} }}`"
        );
    }
    let name = found.name.as_deref().map(|name| text::escape(name).into_owned());
    match name {
        Some(name) => format!(
            "`{client}` is a client, and its container {how}: end it with `{engine} stop {name}`, and give the recipe `stop = {{ command = [\"{engine}\", \"stop\", \"{name}\"] }}`"
        ),
        None => format!(
            "`{client}` is a client, and its container {how}: `{engine} ps` shows it; give it a --name, and the recipe a `stop.command` such as [\"{engine}\", \"stop\", NAME]"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_leaves_open_its_client_knows() {
        let of = |line: &str| client_in([line].into_iter());
        let told = |line: &str| container(&["sh".into(), "-c".into(), line.into()]);
        let check = |line: &str, member: &str, expected: Option<(&[u16], Option<&str>)>| {
            let found = united(told(line), of(member)).map(|found| (found.ports, found.name));
            assert_eq!(found, expected.map(|(ports, name)| (ports.to_vec(), name.map(str::to_owned))), "{line}");
        };
        let member = "docker run -p 4:80 --name a i";
        check("P=4; N=a; docker run -p $P:80 --name $N i; true", member, Some((&[4], Some("a"))));
        check("docker run -p 5:80 --name b i & $MORE", member, Some((&[4, 5], Some("a"))));
        check("docker run -p 5:80 --name b i", "sleep 1", Some((&[5], Some("b"))));
        check("P=4; docker run -p $P:80 --name $N i", "sleep 1", Some((&[], Some("$N"))));
        check("$ENGINE run", member, Some((&[4], Some("a"))));
        check("true", "sleep 1", None);
    }
}
