//! Which Python judges, and which torch it has.

use super::*;

#[test]
fn releases_compare_as_numbers() {
    assert!(release("2.11.0+cu130") > release("2.9"));
    assert_eq!(release("2.11"), Some((2, 11)));
    assert_eq!(release("main"), None);
}

#[test]
fn a_line_is_asked_for_exactly_or_as_a_floor() {
    assert!(Torch::AtLeast("2.9").takes("2.11.0+cu130"));
    assert!(!Torch::AtLeast("2.12").takes("2.11.0"));
    assert!(Torch::Exactly("2.11").takes("2.11.3+cpu"));
    assert!(!Torch::Exactly("2.9").takes("2.11.0"));
}

#[test]
fn a_python_without_wheels_is_told_which_ones_have_them() {
    let python = |version: &str| -> Interpreter {
        serde_json::from_value(serde_json::json!({
            "program": "/opt/python", "version": version, "tag": "", "headers": "", "sites": [], "torch": null,
            "torch_dir": null, "numpy": false, "client": null, "why": "",
        }))
        .unwrap()
    };
    let pins = pins::load();
    let torch = pins.torch("2.15").unwrap();
    assert!(served(&python("3.11.7"), torch).is_ok());
    assert!(served(&python("3.15.0rc1"), torch).is_ok());
    let error = served(&python("3.10.2"), torch).unwrap_err();
    assert_eq!(
        error.to_string(),
        "PyTorch 2.15.0 has no wheels for Python 3.10.2 (`/opt/python`); supported: 3.11 to 3.15"
    );
}

#[test]
fn any_torch_that_was_fetched_before_spares_another_download() {
    let cache = files::scratch().unwrap();
    let report = crate::base::report::Report::new(crate::base::report::MessageFormat::Human, true);
    let session = Session { report, cache: cache.path().to_owned(), offline: true, jobs: 1 };
    let python: Interpreter = serde_json::from_value(serde_json::json!({
        "program": "/opt/python", "version": "3.12.1", "tag": "cp312", "headers": "", "sites": [], "torch": null,
        "torch_dir": null, "numpy": false, "client": null, "why": "",
    }))
    .unwrap();
    let pins = pins::load();
    let line = |torch| chosen(&session, &pins, &python, torch).unwrap().line.clone();
    assert_eq!(line(Torch::Preferably("2.11")), "2.11", "nothing is there");
    let fetch = |line: &str| {
        let folder = folder(&session, &python, &pins, pins.torch(line).unwrap());
        files::write(&folder.join(MARKER), "{}").unwrap();
    };
    fetch("2.10");
    assert_eq!(line(Torch::Preferably("2.11")), "2.10", "it serves as well, and is here");
    assert_eq!(line(Torch::AtLeast("2.11")), "2.11");
    assert_eq!(line(Torch::Exactly("2.11")), "2.11");
    fetch("2.11");
    assert_eq!(line(Torch::Preferably("2.11")), "2.11");
    assert!(Torch::Preferably("2.11").takes("2.10.0") && !Torch::Preferably("2.11").takes("2.9.1"));
    assert_eq!(pins.torch[0].line, OLDEST, "the oldest that is known");
}
