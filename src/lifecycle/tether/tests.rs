use super::*;
use crate::lifecycle::identity::Pid;

#[test]
fn a_sound_record_validates_and_round_trips() {
    let tether = sample();
    assert_eq!(tether.validate(), Ok(()));
    let text = serde_json::to_string(&tether).expect("serializes");
    assert_eq!(serde_json::from_str::<Tether>(&text).expect("parses"), tether);
}

#[test]
fn records_that_could_hurt_do_not_validate() {
    type Spoil = fn(&mut Tether);
    let cases: [(&str, Spoil); 19] = [
        ("newer", |t| t.schema_version = 2),
        ("id", |t| t.session = "../x".into()),
        ("nan", |t| t.not_after = f64::NAN),
        ("inf", |t| t.not_after = f64::INFINITY),
        ("negative", |t| t.not_after = -1.0),
        ("zero", |t| t.not_after = 0.0),
        ("grace", |t| t.grace_s = -0.5),
        ("group 0", |t| t.workload.pgid = 0),
        ("group 1", |t| t.workload.pgid = 1),
        ("group -1", |t| t.workload.pgid = -1),
        ("init", |t| t.workload.identity.pid = Pid::new(1).expect("positive")),
        ("init captured", |t| {
            let identity = Identity { pid: Pid::new(1).expect("positive"), ..t.spawner.clone() };
            t.captured.push(CapturedRecord { identity, membership: BTreeSet::new() });
        }),
        ("renewal", |t| t.renew_s = Some(f64::INFINITY)),
        ("no renewal", |t| t.renew_s = Some(0.0)),
        ("no ceiling", |t| t.ceiling_s = Some(0.0)),
        ("negative ceiling", |t| t.ceiling_s = Some(-1.0)),
        ("nan ceiling", |t| t.ceiling_s = Some(f64::NAN)),
        ("boot", |t| t.boot_id = Some("other".into())),
        ("restart", |t| t.restarts = Some(Restarts { next_at: Some(f64::NAN), ..Restarts::default() })),
    ];
    for (what, spoil) in cases {
        let mut record = sample();
        spoil(&mut record);
        assert!(record.validate().is_err(), "{what}");
    }
}

fn adopted() -> Tether {
    let ours = sample();
    let roots = [9, 10].map(|raw| Identity { pid: Pid::new(raw).expect("positive"), ..ours.spawner.clone() });
    let panes = roots.map(|identity| PaneRoot { pane_id: format!("%{}", identity.pid), identity }).to_vec();
    Tether {
        host: "tmux".into(),
        lifetime: "background".into(),
        adopted: true,
        adoption: Some(Adoption { tmux_name: "main".into(), panes, task: None }),
        warden: None,
        tmux: Some(TmuxRecord {
            socket: "/tmp/s".into(),
            server: ours.spawner.clone(),
            session_id: "$0".into(),
            pane_id: "%9".into(),
        }),
        ..ours
    }
}

#[test]
fn an_adopted_session_has_panes_and_no_warden() {
    type Spoil = fn(&mut Tether);
    assert_eq!(adopted().validate(), Ok(()));
    let cases: [(&str, Spoil); 9] = [
        ("warden", |t| t.warden = Some(t.spawner.clone())),
        ("front", |t| t.front = Some(t.spawner.clone())),
        ("restarts", |t| t.restarts = Some(Restarts::default())),
        ("no tmux", |t| t.tmux = None),
        ("pty", |t| t.host = "pty".into()),
        ("grant", |t| t.lifetime = "grant".into()),
        ("not said", |t| t.adopted = false),
        ("no panes", |t| t.adoption.as_mut().expect("adopted").panes.clear()),
        ("init", |t| {
            t.adoption.as_mut().expect("adopted").panes[1].identity.pid = Pid::new(1).expect("positive");
        }),
    ];
    for (what, spoil) in cases {
        let mut record = adopted();
        spoil(&mut record);
        assert!(record.validate().is_err(), "{what}");
    }
}

#[test]
fn another_namespace_is_named() {
    let tether = Tether { pidns_inode: Some(1), timens_inode: Some(2), ..sample() };
    let check = |pid, time, expected: &str| {
        assert!(tether.elsewhere(pid, time).unwrap_or_default().contains(expected), "{pid:?} {time:?}");
        assert_eq!(tether.elsewhere(pid, time).is_some(), !expected.is_empty(), "{pid:?} {time:?}");
    };
    check(Some(1), Some(2), "");
    check(None, None, "");
    check(Some(3), Some(2), "pid namespace 1, and ours is 3");
    check(Some(1), Some(3), "time namespace 2, and ours is 3");
    // One that does not say where it was made may name anybody here.
    let silent = Tether { pidns_inode: None, ..tether.clone() };
    assert!(silent.elsewhere(Some(1), Some(2)).is_some_and(|why| why.contains("which pid namespace")));
    assert_eq!(silent.elsewhere(None, Some(2)), None, "nor can we say where we are");
    let silent = Tether { timens_inode: None, ..tether.clone() };
    assert!(silent.elsewhere(Some(1), Some(2)).is_some_and(|why| why.contains("which time namespace")));
}

#[test]
fn what_went_to_another_session_is_out_of_scope() {
    let tether = adopted();
    let roots: Vec<Identity> = tether.pane_roots().cloned().collect();
    let all = tether.scope(roots.clone());
    assert_eq!((all.workload.as_ref(), &all.panes), (Some(&roots[0]), &roots));
    let left = tether.scope(roots[1..].to_vec());
    assert_eq!((left.workload, left.panes), (None, roots[1..].to_vec()));
    assert_eq!((all.warden, all.front, all.marker), (None, None, None));
}

#[test]
fn pids_that_address_groups_do_not_parse() {
    let text = serde_json::to_string(&sample()).expect("serializes");
    for bad in ["0", "-1", "-9", "9.5", "null", "\"9\""] {
        let spoiled = text.replace("\"workload\":{\"pid\":9", &format!("\"workload\":{{\"pid\":{bad}"));
        assert_ne!(spoiled, text);
        assert!(serde_json::from_str::<Tether>(&spoiled).is_err(), "{bad}");
    }
}

#[test]
fn ids_have_one_shape() {
    for good in ["serve-0123abcd", "cookbook-ffffffff"] {
        assert!(is_session_id(good), "{good}");
    }
    for bad in ["serve-0123ABCD", "serve-123", "x-0123abcd", "serve-0123abcd/", "serve_0123abcd", "", "-01234567"] {
        assert!(!is_session_id(bad), "{bad}");
    }
}

/// A stop that somebody died over is finished by another one, which knows of everybody; one that was finished is over.
#[test]
fn whom_an_unfinished_stop_had_captured_stays() {
    let record = |raw| CapturedRecord {
        identity: Identity { pid: Pid::new(raw).expect("positive"), ..sample().spawner },
        membership: BTreeSet::new(),
    };
    let pids = |records: &[CapturedRecord]| records.iter().map(|one| one.identity.pid.raw()).collect::<Vec<_>>();
    let mut tether = sample();
    assert!(tether.begun().is_empty());
    tether.capture(&[record(20), record(21)]);
    tether.stopping = true;
    tether.capture(&[record(21), record(22)]);
    assert_eq!(pids(tether.begun()), [21, 22, 20]);
    tether.keep((VerdictKind::Owned, "pid 22 survived".into()), &Receipt::default(), 7);
    assert!(tether.begun().is_empty());
    tether.capture(&[record(22)]);
    assert_eq!(pids(&tether.captured), [22]);
}
