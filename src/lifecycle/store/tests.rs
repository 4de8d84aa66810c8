use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn directories_and_files_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a/state");
    let store = Store::open(&root).unwrap();
    write_json(
        &store.exit_path("serve-00000000"),
        &ExitRecord { code: Some(3), signal: None, at: 1, emptied: false, address_space: None },
    )
    .unwrap();
    for (path, mode) in
        [(root.clone(), 0o700), (root.join("sessions"), 0o700), (store.exit_path("serve-00000000"), 0o600)]
    {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
    }
    assert_eq!(store.exit("serve-00000000").unwrap().code, Some(3));
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    Store::open(&root).unwrap();
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_symlink_is_no_state_directory() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).unwrap();
    assert!(private_dir(&folder.path().join("link")).is_err());
}

#[test]
fn what_cannot_be_read_is_shown_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (name, content) in
        [("a", &b""[..]), ("b", b"{"), ("c", b"\0\0\0"), ("d", b"{\"schema_version\": 99}"), ("e", b"[]")]
    {
        fs::write(folder.path().join(format!("sessions/{name}.json")), content).unwrap();
    }
    fs::create_dir(folder.path().join("sessions/f.json")).unwrap();
    let (tethers, quarantined) = store.load(&mut Records::default()).unwrap();
    assert_eq!((tethers.len(), quarantined.len()), (0, 6));
    assert!(quarantined.iter().all(|row| row.path.exists() && !row.reason.is_empty()));
}

#[test]
fn a_failed_write_leaves_the_old_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    replace(&path, b"old").unwrap();
    assert!(replace(&folder.path().join("missing/record"), b"new").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What is in place must be whole and there, even if the power fails at any moment.
#[test]
fn a_record_is_synced_before_it_is_in_place_and_its_directory_after() {
    if let Some(folder) = std::env::var_os("TRACED_IN") {
        return replace(&Path::new(&folder).join("record"), b"new").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "lifecycle::store::tests::a_record_is_synced_before_it_is_in_place_and_its_directory_after";
    let Some(trace) = traced(name, folder.path()) else { return };
    let written = traced_line(&trace, &["write(", "/.record.", "\"new\""]);
    let synced = traced_line(&trace, &["sync(", "/.record."]);
    let renamed = traced_line(&trace, &["rename", "/record\""]);
    let directory = traced_line(&trace, &["sync(", &format!("<{}>", folder.path().display())]);
    assert!(written < synced && synced < renamed && renamed < directory, "{trace}");
}

/// Nobody may hold the proof while the record is not there.
#[test]
fn the_proof_of_a_record_comes_after_it_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let tether = super::super::tether::sample();
    for _ in 0..20 {
        let durable = store.save(&tether).unwrap();
        assert_eq!(store.tether(durable.session()).unwrap().as_ref(), Some(&tether));
        fs::remove_file(store.tether_path(&tether.session)).unwrap();
    }
    fs::remove_dir(store.sessions()).unwrap();
    assert!(store.save(&tether).is_err(), "the disk refused");
}

/// Eight writers, each with two hundred updates of one record under its lock and as many records of its own.
#[test]
fn writers_lose_no_update() {
    const WRITERS: u32 = 8;
    const UPDATES: u32 = 200;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let mut shared = super::super::tether::sample();
    shared.restarts = Some(super::super::restart::Restarts::default());
    store.save(&shared).unwrap();
    let id = shared.session.clone();
    let update = || {
        let _lock = store.lock(&id, Duration::from_secs(60)).unwrap();
        let mut tether = store.tether(&id).unwrap().unwrap();
        tether.restarts.as_mut().unwrap().attempt += 1;
        store.save(&tether).unwrap();
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, shared) = (&store, &shared);
            scope.spawn(move || {
                for number in 0..UPDATES {
                    update();
                    let session = format!("shell-{:08x}", writer * UPDATES + number);
                    store.save(&Tether { session, ..shared.clone() }).unwrap();
                }
            });
        }
    });
    let (tethers, quarantined) = store.load(&mut Records::default()).unwrap();
    assert_eq!((tethers.len(), quarantined.len()), ((WRITERS * UPDATES + 1) as usize, 0));
    let counted = store.tether(&id).unwrap().unwrap().restarts.unwrap().attempt;
    assert_eq!(counted, WRITERS * UPDATES);
    let left: Vec<_> = fs::read_dir(store.sessions()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "half files: {left:?}");
}

#[test]
fn what_dead_writers_left_goes() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let place = |name: &str| store.sessions().join(name);
    let kept = [".serve-00000000.json.9.abcd", "serve-00000000.json", "serve-00000001.json"];
    for name in [".serve-00000001.json.7.abcd", kept[0], kept[1], kept[2]] {
        let file = File::create(place(name)).unwrap();
        if name != kept[0] {
            file.set_modified(SystemTime::now() - 2 * UNFINISHED).unwrap();
        }
    }
    store.remove_unfinished();
    let mut left: Vec<_> = fs::read_dir(store.sessions()).unwrap().map(|file| file.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, kept);
}

#[test]
fn the_newest_logs_and_those_of_sessions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let name = |number: usize| format!("serve-{number:08x}");
    let long_ago = SystemTime::now() - 100 * UNFINISHED;
    let write = |path: &Path, age: u32| {
        let file = File::create(path).unwrap();
        file.set_modified(long_ago + age * Duration::from_secs(1)).unwrap();
    };
    for number in 0..LOGS_MAX + 3 {
        write(&store.log_path(&name(number)), u32::try_from(number).unwrap());
    }
    write(&store.log_path(&name(0)).with_extension("log.1"), 0);
    // One that is in a record, one that is not ours, one that is being launched.
    fs::write(store.tether_path(&name(1)), "{}").unwrap();
    write(&folder.path().join("logs/notes.log"), 0);
    store.remove_old_logs();
    let exists = |number| store.log_path(&name(number)).exists();
    assert_eq!([0, 1, 2, 3, LOGS_MAX + 2].map(exists), [false, true, false, true, true]);
    assert!(!store.log_path(&name(0)).with_extension("log.1").exists());
    assert!(folder.path().join("logs/notes.log").exists());
    let log = File::open(store.log_path(&name(3))).unwrap();
    log.set_modified(SystemTime::now()).unwrap();
    for number in 1000..1000 + LOGS_MAX {
        File::create(store.log_path(&name(number))).unwrap();
    }
    store.remove_old_logs();
    assert_eq!([3, 4, 1000].map(exists), [true, false, true], "the young ones stay, however many");
}

/// The whole directory was removed: whoever ends a session then still does so alone.
#[test]
fn a_lock_is_made_again_with_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("state")).unwrap();
    fs::remove_dir_all(store.root()).unwrap();
    let held = store.lock("serve-00000000", Duration::ZERO).unwrap();
    let refused = store.lock("serve-00000000", Duration::ZERO).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    assert_eq!(fs::metadata(store.root()).unwrap().permissions().mode() & 0o777, 0o700);
}

/// What could not be begun leaves nothing behind.
#[test]
fn a_session_begins_with_its_lock_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("state")).unwrap();
    let tether = super::super::tether::sample();
    let names = || -> Vec<_> { fs::read_dir(store.sessions()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    let invalid = Tether { not_after: f64::NAN, ..tether.clone() };
    assert!(store.begin(&invalid).is_err());
    assert_eq!(names(), [""; 0]);
    store.begin(&tether).unwrap();
    assert!(names().contains(&format!("{}.lock", tether.session).into()), "{:?}", names());
}

#[test]
fn one_lock_one_holder() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let held = store.lock("serve-00000000", Duration::ZERO).unwrap();
    let refused = store.lock("serve-00000000", Duration::from_millis(20)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    drop(held);
    store.lock("serve-00000000", Duration::ZERO).unwrap();
}
