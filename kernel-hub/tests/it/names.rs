//! Names: what `publish` and `get_kernel` may be told is what a hub takes, and the other way round.
//!
//! The grammar of `OWNER/NAME` is in `kernel_plan::units` and in `kernel_hub::name`, since the hub is to be built without
//! what reads projects. Here both have to agree.

use kernel_hub::name::{RefName, RepoId};
use kernel_plan::units::{GitRef, RepoId as Planned};
use proptest::prelude::*;

/// What is an address of the hub, and so no organization of it.
fn is_reserved(told: &str) -> bool {
    told.contains("is reserved")
}

#[track_caller]
fn agree(text: &str) {
    let (hub, plan) = (text.parse::<RepoId>(), text.parse::<Planned>());
    match (&hub, &plan) {
        (Ok(hub), Ok(plan)) => assert_eq!((hub.org(), hub.name()), (plan.owner(), plan.name())),
        (Err(told), Ok(_)) => assert!(is_reserved(&told.to_string()), "{text}: {told}"),
        (Ok(_), Err(told)) => panic!("{text}: {told}"),
        (Err(_), Err(_)) => {}
    }
}

#[test]
fn the_edges_of_names_are_the_same() {
    let longest = "x".repeat(96);
    for text in [
        "me/k",
        "me/k.git",
        "me/kgit",
        "me/a.b.git",
        "me/.git",
        "api/k",
        "kernels/k",
        "me//k",
        "me/k/l",
        "a--b/k",
    ] {
        agree(text);
    }
    agree(&format!("{longest}/{longest}"));
    agree(&format!("{longest}x/k"));
    agree(&format!("me/{longest}x"));
    assert!("offline/k".parse::<RepoId>().is_err_and(|told| is_reserved(&told.to_string())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn names_are_the_same_on_both_sides(text in "[ab.-]{0,4}[A-Zé_0-9]{0,2}/?[ab._-]{0,5}(/x|\\.git|\\.lock| )?") {
        agree(&text);
    }

    #[test]
    fn a_branch_of_the_hub_is_one_that_can_be_published_to(text in "(refs/)?[ab./@-]{0,6}(\\.lock|~|é)?(/[a.]{0,3})?") {
        if text.parse::<RefName>().is_ok() {
            prop_assert!(text.parse::<GitRef>().is_ok(), "{text}");
        }
    }
}
