//! Drives that are erased, and clean steps: each once, and never guessed.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_teardown_erases_each_drive_once_follows_its_tasks_and_ends_off() {
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    let site = site(&[bmc.port()], "", "");
    let (order, listener) = site.order_with(StepKind::Destroy, None, Vec::new());
    assert_eq!(site.hardware.probe(&order).await, Probe::NotBegun);
    site.hardware.act(&order).await.unwrap();
    let is_on = bmc.state().is_on;
    let erased = bmc.state().erased.len();
    assert_eq!((is_on, erased), (false, 2));
    // A second attempt with its notes requests only power off.
    let before = bmc.changes().len();
    let (again, _) = site.order_with(StepKind::Destroy, None, notes_of(&listener));
    assert_eq!(site.hardware.probe(&again).await, Probe::UnderWay);
    site.hardware.act(&again).await.unwrap();
    let since = bmc.changes().split_off(before);
    assert!(
        since.iter().all(|line| line.contains("Session")),
        "{since:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_erase_that_ends_with_a_warning_is_no_wipe_and_its_words_are_told() {
    let bmc = Bmc::start().await;
    bmc.state().drives = vec![("D1", Erase::Warned)];
    let site = site(&[bmc.port()], "", "");
    let (order, listener) = site.order_with(StepKind::Destroy, None, Vec::new());
    let error = site.hardware.act(&order).await.unwrap_err();
    assert!(
        matches!(&error, ActError::Ambiguous(text) if text.contains("Two sectors were left out.")),
        "{error:?}"
    );
    let (again, _) = site.order_with(StepKind::Destroy, None, notes_of(&listener));
    let probe = site.hardware.probe(&again).await;
    assert!(
        matches!(&probe, Probe::Ambiguous(text) if text.contains("ended with a warning")),
        "{probe:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_teardown_that_cannot_be_ended_changes_nothing() {
    let steps = |names: &[&str]| {
        json!({"clean_steps": names
            .iter()
            .map(|name| name.split_once('.').unwrap())
            .map(|(interface, step)| CleanStep::new(interface, step))
            .collect::<Vec<_>>()})
    };
    for (lacks, drives, expected) in [
        (
            vec![],
            vec![("D1", Erase::No)],
            "cannot erase these drives: D1",
        ),
        (
            vec!["Actions"],
            vec![("D1", Erase::Yes)],
            "ComputerSystem.Reset",
        ),
    ] {
        let bmc = Bmc::start().await;
        bmc.state().is_on = true;
        bmc.state().lacks = lacks;
        bmc.state().drives = drives;
        let site = site(&[bmc.port()], "", "");
        let parameters = Some(steps(&["bios.reset_bios", "deploy.erase_devices"]));
        let (order, listener) = site.order_with(StepKind::Destroy, parameters, Vec::new());
        let error = site.hardware.act(&order).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(notes_of(&listener), Vec::<Arc<str>>::new());
        let changes = bmc.changes();
        assert!(
            changes.iter().all(|line| line.contains("Session")),
            "{changes:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_drives_that_are_named_are_erased_or_the_one_of_the_system() {
    let only = |parameters: Value| async move {
        let bmc = Bmc::start().await;
        let site = site(&[bmc.port()], "operating_system_drive: D2", "");
        let (order, _) = site.order_with(StepKind::Destroy, Some(parameters), Vec::new());
        let result = site.hardware.act(&order).await;
        let erased = bmc.state().erased.clone();
        (result.map_err(|error| error.to_string()), erased)
    };
    let named = json!({"disks": ["D1"]});
    assert_eq!(only(named).await, (Ok(()), vec!["D1"]));
    let system = json!({"preserve_local_storage": true});
    assert_eq!(only(system).await, (Ok(()), vec!["D2"]));
    let unknown = json!({"disks": ["sda"]});
    let (result, erased) = only(unknown).await;
    assert!(
        result
            .unwrap_err()
            .ends_with("it has no drive `sda` to erase")
            && erased.is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn an_erase_whose_answer_was_lost_is_found_by_its_task_or_is_ambiguous() {
    let asked = |serial: &str| {
        let note = Note::Asked {
            what: Arc::from(erase_of(&format!("{SYSTEM}/Storage/R0/Drives/D1"))),
            before: Before {
                serial: Arc::from(serial),
                power: "Off".into(),
            },
        };
        vec![Arc::from(serde_json::to_string(&note).unwrap())]
    };
    for (how, more, serial, expected) in [
        (Erase::LostAnswer, "", "serial-D1", "under way"),
        (Erase::LostRequest, "", "serial-D1", "ambiguous"),
        (
            Erase::LostRequest,
            "erase: repeatable",
            "serial-D1",
            "under way",
        ),
        (
            Erase::LostRequest,
            "erase: repeatable",
            "serial-old",
            "ambiguous",
        ),
    ] {
        let bmc = Bmc::start().await;
        bmc.state().drives = vec![("D1", how)];
        let site = site(&[bmc.port()], more, "");
        let (order, listener) = site.order_with(StepKind::Destroy, None, Vec::new());
        let error = site.hardware.act(&order).await.unwrap_err();
        assert!(matches!(error, ActError::Ambiguous(_)), "{error:?}");
        assert_eq!(notes_of(&listener), asked("serial-D1"));
        bmc.state().tasks.iter_mut().for_each(|task| task.1 = 2);
        let (again, _) = site.order_with(StepKind::Destroy, None, asked(serial));
        let told = match site.hardware.probe(&again).await {
            Probe::UnderWay => "under way",
            Probe::Ambiguous(_) => "ambiguous",
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected, "{how:?} {more} {serial}");
        if how == Erase::LostAnswer {
            site.hardware.act(&again).await.unwrap();
            let asked = bmc.changes();
            let asked = asked.iter().filter(|line| line.ends_with("SecureErase"));
            assert_eq!((asked.count(), &*bmc.state().erased), (1, &["D1"][..]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_the_last_entries_of_the_event_log_since_the_step_began() {
    let bmc = Bmc::start().await;
    bmc.state().drives = vec![("D1", Erase::Refuse)];
    let entry = |id: usize, created: &str, message: &str| {
        json!({
            "@odata.id": format!("{SYSTEM}/LogServices/Sel/Entries/{id}"), "Id": id.to_string(),
            "Created": created, "Severity": "Critical", "Message": message,
        })
    };
    let mut log = vec![
        entry(0, "2026-11-27T08:59:00Z", "Fan 3 failed."),
        entry(
            1,
            "2026-11-27T09:00:00Z",
            "Drive 1\u{1b}[31m\nis  missing for s3cret.",
        ),
        json!({"Message": "No time"}),
        json!("no entry"),
    ];
    bmc.state().log.clone_from(&log);
    let site = site(&[bmc.port()], "", "");
    let error = site.act(StepKind::Destroy).await.unwrap_err().to_string();
    let (_, told) = error.split_once("; event log of its controller: ").unwrap();
    assert!(
        told.starts_with("09:00:00Z Drive 1") && told.ends_with("(Critical)"),
        "{told}"
    );
    assert!(
        !error.contains("Fan 3") && !error.contains("s3cret"),
        "{error}"
    );
    assert!(!error.contains(char::is_control), "{error}");
    // Many are bounded, and of those the last are told.
    log = (10..60)
        .map(|second| {
            entry(
                second,
                &format!("2026-11-27T09:00:{second}Z"),
                &"x".repeat(9_000),
            )
        })
        .collect();
    bmc.state().log.clone_from(&log);
    let error = site.act(StepKind::Destroy).await.unwrap_err().to_string();
    assert!(
        error.contains("09:00:59") && !error.contains("09:00:54"),
        "{error}"
    );
    assert!(error.len() < 2_000, "{}", error.len());
    // One that has none fails as before.
    bmc.state().log.clear();
    let error = site.act(StepKind::Destroy).await.unwrap_err().to_string();
    assert!(!error.contains("event log"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_drive_that_refuses_says_why_and_nothing_is_switched_off() {
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    bmc.state().drives = vec![("D1", Erase::Refuse)];
    let site = site(&[bmc.port()], "", "");
    let (order, listener) = site.order_with(StepKind::Destroy, None, Vec::new());
    let error = site.hardware.act(&order).await.unwrap_err();
    assert!(matches!(error, ActError::Permanent(_)));
    assert!(
        error
            .to_string()
            .ends_with("400 Bad Request: The drive is part of a volume."),
        "{error}"
    );
    assert!(bmc.state().is_on);
    // It can be asked again: nothing was begun.
    let (again, _) = site.order_with(StepKind::Destroy, None, notes_of(&listener));
    assert_eq!(site.hardware.probe(&again).await, Probe::UnderWay);
    bmc.state().drives = vec![("D1", Erase::No)];
    let error = site.act(StepKind::Destroy).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("its controller cannot erase these drives: D1")
    );
}

#[tokio::test(start_paused = true)]
async fn clean_steps_run_in_their_order_and_one_that_is_not_offered_is_refused() {
    let bmc = Bmc::start().await;
    let site = site(&[bmc.port()], "", "");
    let (order, listener) = site.order_with(StepKind::Clean, None, Vec::new());
    site.hardware.act(&order).await.unwrap();
    let told = listener.progress.lock().unwrap().join("; ");
    let at = |text: &str| told.find(text).unwrap_or_else(|| panic!("{text}: {told}"));
    assert!(
        at("verify_properties") < at("verify_firmware")
            && at("verify_firmware") < at("erase_devices")
    );
    assert_eq!(bmc.state().erased.len(), 2);
    let step = CleanStep::new("bios", "reset_bios");
    let parameters = json!({"clean_steps": [step]});
    let (order, _) = site.order_with(StepKind::Clean, Some(parameters), Vec::new());
    let error = site.hardware.act(&order).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("its controller does not show its BIOS")
    );
}

#[tokio::test(start_paused = true)]
async fn a_teardown_cleans_as_planned_erases_once_and_notes_each_step_before_it_begins() {
    let planned = |names: &[(&str, &str)]| {
        json!({"clean_steps": names
            .iter()
            .map(|(interface, step)| CleanStep::new(interface, step))
            .collect::<Vec<_>>()})
    };
    let bmc = Bmc::start().await;
    bmc.state().is_on = true;
    let site = site(&[bmc.port()], "", "");
    let steps = planned(&[
        ("management", "verify_properties"),
        ("deploy", "erase_devices"),
    ]);
    let (order, listener) = site.order_with(StepKind::Destroy, Some(steps.clone()), Vec::new());
    site.hardware.act(&order).await.unwrap();
    assert_eq!(bmc.state().erased.len(), 2);
    assert!(!bmc.state().is_on);
    let notes = notes_of(&listener);
    let at = |text: &str| notes.iter().position(|note| note.contains(text)).unwrap();
    assert_eq!(
        crate::step::clean_step_of(&notes),
        Some("deploy.erase_devices")
    );
    assert!(at("clean step management.verify_properties") < at("clean step deploy.erase_devices"));
    assert!(at("clean step deploy.erase_devices") < at("erase /"));
    // An attempt after a crash repeats nothing that is noted as done.
    let (again, _) = site.order_with(StepKind::Destroy, Some(steps), notes);
    assert_eq!(site.hardware.probe(&again).await, Probe::UnderWay);
    site.hardware.act(&again).await.unwrap();
    assert_eq!(bmc.state().erased.len(), 2);
    // A step that fails ends it: nothing after it is run, and the machine is not switched off.
    bmc.state().is_on = true;
    let steps = planned(&[("bios", "reset_bios"), ("deploy", "erase_devices")]);
    let (order, listener) = site.order_with(StepKind::Destroy, Some(steps), Vec::new());
    assert!(site.hardware.act(&order).await.is_err());
    assert!(bmc.state().is_on && bmc.state().erased.len() == 2);
    assert_eq!(
        crate::step::clean_step_of(&notes_of(&listener)),
        Some("bios.reset_bios")
    );
}
