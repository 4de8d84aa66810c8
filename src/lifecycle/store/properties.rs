//! Damaged files in the place of records: each is read as what it says, or left alone with a reason.

use proptest::prelude::*;

use super::*;
use crate::lifecycle::journal::{Act, By};
use crate::lifecycle::receipt::Receipt;
use crate::lifecycle::tether::{CapturedRecord, Last, sample};
use crate::text::noise::{cases, damaged};

fn rich() -> Tether {
    let mut tether = sample();
    let identity = tether.workload.identity.clone();
    tether.captured =
        vec![CapturedRecord { identity, membership: [crate::lifecycle::receipt::Membership::Tree].into() }];
    let verdict = crate::lifecycle::verdict::VerdictKind::Unverifiable;
    tether.last = Some(Last { verdict, reason: "nobody could tell".into(), at: 5 });
    tether.restarts = Some(crate::lifecycle::restart::Restarts::default());
    tether.renew_s = Some(60.0);
    tether
}

/// An identity that a record may name: complete, of one process, and of the record's own boot.
fn is_sound(tether: &Tether) -> bool {
    let named = [Some(&tether.spawner), tether.warden.as_ref(), tether.front.as_ref(), Some(&tether.workload.identity)];
    let captured = tether.captured.iter().map(|record| &record.identity);
    let of_its_boot = |identity: &crate::lifecycle::identity::Identity| {
        let token = identity.token.to_string();
        identity.pid.raw() > 0
            && tether
                .boot_id
                .as_ref()
                .is_none_or(|boot| !token.starts_with("procfs:") || token.starts_with(&format!("procfs:{boot}:")))
    };
    named.into_iter().flatten().chain(captured).all(of_its_boot)
        && [tether.not_after, tether.spawned_at, tether.grace_s]
            .iter()
            .all(|seconds| seconds.is_finite() && *seconds >= 0.0)
        && tether.workload.pgid > 1
}

proptest! {
    #![proptest_config(cases(300))]

    /// The same record, another sound claim, or a reason; the file itself is never touched.
    #[test]
    fn any_damaged_record_is_a_sound_claim_or_left_alone(bytes in damaged(serde_json::to_vec(&rich()).unwrap())) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let path = store.tether_path(&rich().session);
        fs::write(&path, &bytes).unwrap();
        let read = store.tether(&rich().session);
        let (tethers, quarantined) = store.load(&mut Records::default()).unwrap();
        prop_assert_eq!(tethers.len() + quarantined.len(), 1);
        match read {
            Ok(read) => {
                let read = read.unwrap();
                prop_assert!(is_sound(&read), "{:?}", read);
                prop_assert_eq!(&read.session, &rich().session);
                prop_assert_eq!(&tethers[0], &read);
                // What was read can be written, and is the same then.
                store.save(&read).unwrap();
                prop_assert_eq!(store.tether(&read.session), Ok(Some(read)));
            }
            Err(reason) => {
                prop_assert!(!reason.is_empty() && quarantined[0].reason == reason);
                prop_assert_eq!(fs::read(&path).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn any_damaged_end_is_an_end_or_none(bytes in damaged(br#"{"code":null,"signal":"KILL","at":17}"#.to_vec())) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        fs::write(store.exit_path("serve-0123abcd"), &bytes).unwrap();
        let read = store.exit("serve-0123abcd");
        prop_assert_eq!(read, serde_json::from_slice::<ExitRecord>(&bytes).ok());
        let receipt = read_json::<Receipt>(&store.exit_path("serve-0123abcd"));
        prop_assert!(receipt.is_err() || receipt.is_ok_and(|receipt| receipt.is_some()));
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Whatever stands between them, sound lines of the journal are read, and what is appended next is one of them.
    #[test]
    fn noise_in_the_journal_costs_nothing_but_itself(noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..4)) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::of(folder.path());
        let receipt = |session: &str| Receipt { session: session.into(), ..Receipt::default() };
        journal.append(By::Manager, Act::Stop, &receipt("a")).unwrap();
        let path = folder.path().join("receipts.jsonl");
        let line = fs::read(&path).unwrap();
        let mut bytes = line.clone();
        for noise in &noise {
            bytes.extend(noise);
            bytes.push(b'\n');
            bytes.extend(&line);
        }
        // The last of them was torn.
        bytes.extend(&line[..line.len() / 2]);
        fs::write(&path, &bytes).unwrap();
        journal.append(By::Warden, Act::Reap, &receipt("b")).unwrap();
        let read = journal.read(None, None).unwrap();
        let sessions: Vec<&str> = read.receipts.iter().map(|entry| entry.receipt.session.as_str()).collect();
        prop_assert_eq!(sessions.iter().filter(|session| **session == "a").count(), noise.len() + 1);
        prop_assert_eq!(sessions.last(), Some(&"b"));
    }
}
