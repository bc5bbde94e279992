use super::*;
use proptest::prelude::*;

fn key(model: &str, version: u64) -> ReleaseKey {
    ReleaseKey { model: model.into(), version }
}

fn attempt(content: u8) -> Attempt {
    Attempt { digest: Digest::of(&[content]), stamp: u64::from(content) }
}

fn desired(releases: &[(&str, u64)]) -> Desired {
    let releases = releases.iter().map(|(model, version)| (key(model, *version), Some(attempt(0)))).collect();
    Desired { releases, ..Desired::default() }
}

fn run(desired: &Desired, actual: &mut Actual) {
    for step in plan(desired, actual) {
        actual.apply(&step);
    }
    actual.settle();
}

fn live(actual: &Actual) -> Vec<String> {
    actual.published.releases.keys().map(ToString::to_string).collect()
}

fn route(model: &str, version: VersionChoice) -> BTreeMap<String, RouteDoc> {
    [("score".to_string(), RouteDoc { model: model.into(), version })].into()
}

fn loads(desired: &Desired, actual: &Actual) -> Vec<String> {
    let loads = plan(desired, actual).into_iter().filter_map(|step| match step {
        Step::Load(key, _) => Some(key.to_string()),
        Step::Publish(_) => None,
    });
    loads.collect()
}

#[test]
fn the_highest_version_serves_and_replaces_the_one_before() {
    let mut actual = Actual::default();
    run(&desired(&[("m", 1)]), &mut actual);
    assert_eq!(live(&actual), ["m@1"]);
    let steps = plan(&desired(&[("m", 1), ("m", 2), ("m", 10)]), &actual);
    let [Step::Load(loaded, _), Step::Publish(_)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(*loaded, key("m", 10));
}

#[test]
fn a_rejected_version_leaves_the_old_one_and_is_not_tried_again_until_it_changes() {
    let mut actual = Actual::default();
    run(&desired(&[("m", 1)]), &mut actual);
    let mut wish = desired(&[("m", 1), ("m", 2)]);
    actual.rejected.insert(key("m", 2), attempt(0));
    assert_eq!(plan(&wish, &actual), []);
    // The same content, but written again.
    wish.releases.insert(key("m", 2), Some(Attempt { stamp: 7, ..attempt(0) }));
    assert_eq!(loads(&wish, &actual), ["m@2"]);
}

#[test]
fn from_nothing_the_highest_is_tried_and_then_the_next() {
    let wish = desired(&[("m", 1), ("m", 2)]);
    let mut actual = Actual::default();
    assert_eq!(next(&wish, &actual), Some(Step::Load(key("m", 2), attempt(0))));
    actual.rejected.insert(key("m", 2), attempt(0));
    assert_eq!(next(&wish, &actual), Some(Step::Load(key("m", 1), attempt(0))));
}

#[test]
fn a_live_release_outlives_its_folder_but_not_its_document() {
    let mut actual = Actual::default();
    run(&desired(&[("m", 1)]), &mut actual);
    let mut wish = desired(&[]);
    wish.releases.insert(key("m", 1), None);
    assert_eq!(plan(&wish, &actual), []);
    // Another content under the same name that is rejected changes nothing either.
    wish.releases.insert(key("m", 1), Some(attempt(1)));
    actual.rejected.insert(key("m", 1), attempt(1));
    assert_eq!(plan(&wish, &actual), []);
    run(&desired(&[]), &mut actual);
    assert_eq!(live(&actual), [""; 0]);
}

#[test]
fn what_is_renamed_or_rolled_back_serves_until_its_replacement_is_loaded() {
    let mut actual = Actual::default();
    run(&desired(&[("a", 3)]), &mut actual);
    for replacement in [("a", 2), ("b", 1)] {
        let wish = desired(&[replacement]);
        let mut actual = actual.clone();
        assert_eq!(next(&wish, &actual), Some(Step::Load(key(replacement.0, replacement.1), attempt(0))));
        run(&wish, &mut actual);
        assert_eq!(actual.published.releases.len(), 1);
        assert!(actual.published.releases.contains_key(&key(replacement.0, replacement.1)));
    }
}

#[test]
fn a_removed_release_serves_on_while_the_rest_of_its_model_cannot() {
    let mut actual = Actual::default();
    run(&desired(&[("m", 1)]), &mut actual);
    // Version 1 was removed before version 2 was wholly there.
    let mut wish = desired(&[]);
    wish.releases.insert(key("m", 2), None);
    assert_eq!(plan(&wish, &actual), []);
    wish.releases.insert(key("m", 2), Some(attempt(0)));
    run(&wish, &mut actual);
    assert_eq!(live(&actual), ["m@2"]);
}

#[test]
fn a_route_keeps_a_version_and_takes_effect_when_its_release_is_live() {
    let mut actual = Actual::default();
    let mut wish = desired(&[("m", 1), ("m", 2)]);
    wish.routes = route("m", VersionChoice::Number(1));
    run(&wish, &mut actual);
    assert_eq!(live(&actual), ["m@1", "m@2"]);
    // To a version that does not exist: the earlier route stays, and with it the release.
    wish.routes = route("m", VersionChoice::Number(9));
    assert_eq!(plan(&wish, &actual), []);
    // It comes, and the route follows in the same publication; version 2 is then superseded, version 1 unnamed.
    wish.releases.insert(key("m", 9), Some(attempt(0)));
    run(&wish, &mut actual);
    assert_eq!(live(&actual), ["m@9"]);
    assert_eq!(actual.published.routes, wish.routes);
    wish.routes.clear();
    run(&wish, &mut actual);
    assert_eq!(actual.published.routes, BTreeMap::new());
}

/// The release that answers an endpoint, as the server's table chooses it.
fn answer(publication: &Publication, endpoint: &str) -> Option<ReleaseKey> {
    let of_model = |model: &str| publication.releases.keys().rfind(|key| key.model == model).cloned();
    match publication.routes.get(endpoint) {
        Some(RouteDoc { model, version: VersionChoice::Latest }) => of_model(model),
        Some(RouteDoc { model, version: VersionChoice::Number(version) }) => {
            publication.releases.contains_key(&key(model, *version)).then(|| key(model, *version))
        }
        None => {
            let first = publication.releases.keys().next()?;
            of_model(&first.model).filter(|_| publication.releases.keys().all(|key| key.model == first.model))
        }
    }
}

fn answers_score(actual: &Actual) -> Option<String> {
    answer(&actual.published, "score").map(|key| key.to_string())
}

#[test]
fn a_first_route_to_what_is_not_live_leaves_the_only_model() {
    for dead in [route("m", VersionChoice::Number(2)), route("misspelt", VersionChoice::Latest)] {
        // With and without something that serves before.
        for start in [desired(&[]), desired(&[("m", 1)])] {
            let mut actual = Actual::default();
            run(&start, &mut actual);
            let mut wish = desired(&[("m", 1)]);
            wish.routes = dead.clone();
            run(&wish, &mut actual);
            assert_eq!(answers_score(&actual).as_deref(), Some("m@1"));
            assert_eq!(actual.published.routes, BTreeMap::new());
        }
    }
}

#[test]
fn a_route_waits_for_a_version_that_is_not_the_latest_and_its_removal_restores_the_latest() {
    let mut actual = Actual::default();
    let mut wish = desired(&[("m", 3)]);
    wish.routes = route("m", VersionChoice::Number(2));
    run(&wish, &mut actual);
    assert_eq!(answers_score(&actual).as_deref(), Some("m@3"));
    // It comes, is rejected, and comes again.
    wish.releases.insert(key("m", 2), Some(attempt(0)));
    actual.rejected.insert(key("m", 2), attempt(0));
    assert_eq!(plan(&wish, &actual), []);
    wish.releases.insert(key("m", 2), Some(attempt(1)));
    assert_eq!(loads(&wish, &actual), ["m@2"]);
    run(&wish, &mut actual);
    assert_eq!((answers_score(&actual).as_deref(), live(&actual)), (Some("m@2"), vec!["m@2".into(), "m@3".into()]));
    wish.routes.clear();
    run(&wish, &mut actual);
    assert_eq!((answers_score(&actual).as_deref(), live(&actual)), (Some("m@3"), vec!["m@3".into()]));
}

#[test]
fn an_endpoint_whose_routed_release_is_removed_takes_what_is_left_of_the_model() {
    let mut actual = Actual::default();
    let mut wish = desired(&[("a", 1), ("m", 1), ("m", 2)]);
    wish.routes = route("m", VersionChoice::Number(1));
    run(&wish, &mut actual);
    wish.releases.remove(&key("m", 1));
    run(&wish, &mut actual);
    assert_eq!(answers_score(&actual).as_deref(), Some("m@2"));
    assert_eq!(live(&actual), ["a@1", "m@2"]);
}

#[test]
fn a_second_model_does_not_take_an_endpoint_whose_route_waits() {
    let mut actual = Actual::default();
    run(&desired(&[("m", 1)]), &mut actual);
    let mut wish = desired(&[("a", 1), ("m", 1)]);
    wish.routes = route("a", VersionChoice::Number(2));
    run(&wish, &mut actual);
    assert_eq!((answers_score(&actual).as_deref(), live(&actual)), (Some("m@1"), vec!["a@1".into(), "m@1".into()]));
    // A server that starts with these documents knows of no earlier route: the document names the model at least.
    let mut restarted = Actual::default();
    run(&wish, &mut restarted);
    assert_eq!(answers_score(&restarted).as_deref(), Some("a@1"));
    for mut actual in [actual, restarted] {
        let mut wish = wish.clone();
        wish.releases.insert(key("a", 2), Some(attempt(0)));
        run(&wish, &mut actual);
        assert_eq!((answers_score(&actual).as_deref(), &actual.published.routes), (Some("a@2"), &wish.routes));
    }
}

#[test]
fn a_release_that_was_superseded_before_it_was_published_carries_no_route() {
    let mut actual = Actual::default();
    let mut wish = desired(&[("a", 1)]);
    wish.routes = route("a", VersionChoice::Latest);
    run(&wish, &mut actual);
    // Version 1 of `m` is loaded when version 2 appears; the route must not follow before that one is loaded.
    actual.staged.insert(key("m", 1), attempt(0).digest);
    let mut wish = desired(&[("a", 1), ("m", 1), ("m", 2)]);
    wish.routes = route("m", VersionChoice::Latest);
    assert_eq!(next(&wish, &actual), Some(Step::Load(key("m", 2), attempt(0))));
    run(&wish, &mut actual);
    assert_eq!(answers_score(&actual).as_deref(), Some("m@2"));
}

#[test]
fn policies_and_routes_do_not_wait_for_loads() {
    let mut wish = desired(&[("m", 1)]);
    let policy = PolicyDoc { name: "p".into(), version: 1, values: BTreeMap::new() };
    wish.policies.insert("p".into(), Arc::new(policy));
    assert!(matches!(next(&wish, &Actual::default()), Some(Step::Publish(p)) if p.policies.len() == 1));
}

prop_compose! {
    fn any_key()(model in prop::sample::select(vec!["a", "b"]), version in 1..4_u64) -> ReleaseKey {
        key(model, version)
    }
}

prop_compose! {
    fn any_route()(key in any_key(), latest in any::<bool>(), misspelt in prop::bool::weighted(0.2)) -> RouteDoc {
        let version = if latest { VersionChoice::Latest } else { VersionChoice::Number(key.version) };
        RouteDoc { model: if misspelt { "misspelt".into() } else { key.model }, version }
    }
}

prop_compose! {
    fn any_desired()(
        releases in prop::collection::btree_map(any_key(), prop::option::of((0..2_u8).prop_map(attempt)), 0..5),
        routes in prop::collection::btree_map(prop::sample::select(vec!["predict".to_string(), "score".to_string()]), any_route(), 0..3),
    ) -> Desired {
        Desired { releases, routes, policies: BTreeMap::new() }
    }
}

proptest! {
    #[test]
    fn carrying_out_the_plan_converges(wishes in prop::collection::vec(any_desired(), 1..4)) {
        let mut actual = Actual::default();
        for wish in &wishes {
            run(wish, &mut actual);
            prop_assert_eq!(plan(wish, &actual), []);
            let published = &actual.published;
            // Nothing without a document (unless its model has none that can serve), and of each model the highest whole
            // release in its newest content.
            for key in published.releases.keys().filter(|key| !wish.releases.contains_key(*key)) {
                prop_assert!(wish.releases.iter().any(|(k, _)| k.model == key.model), "{key} is gone");
                let served = wish.releases.iter().any(|(k, attempt)| k.model == key.model
                    && (attempt.is_some() || published.releases.contains_key(k)));
                prop_assert!(!served, "{key} is not needed");
            }
            for (key, attempt) in &wish.releases {
                let highest = wish.releases.iter().filter(|(k, a)| {
                    k.model == key.model && (a.is_some() || published.releases.contains_key(k))
                }).map(|(k, _)| k).max();
                if let (Some(attempt), true) = (attempt, highest == Some(key)) {
                    prop_assert_eq!(published.releases.get(key), Some(&attempt.digest));
                }
            }
            // A route is in force where it can be, and an endpoint has an answer where anything can be meant.
            for (endpoint, route) in &wish.routes {
                let in_force = published.routes.get(endpoint) == Some(route);
                prop_assert_eq!(in_force, published.answers(route));
                let models: BTreeSet<_> = published.releases.keys().map(|key| &key.model).collect();
                let meant = models.len() == 1 || models.contains(&route.model);
                prop_assert!(answer(published, endpoint).is_some() || !meant, "{endpoint} has no answer");
            }
            prop_assert!(published.routes.keys().all(|endpoint| wish.routes.contains_key(endpoint)));
        }
    }

    #[test]
    fn nothing_that_serves_is_dropped_before_its_replacement(
        wishes in prop::collection::vec(any_desired(), 1..5),
        fates in prop::collection::vec(any::<bool>(), 64),
    ) {
        let mut actual = Actual::default();
        let mut fates = fates.into_iter().cycle();
        for wish in &wishes {
            let mut steps = 0;
            while let Some(step) = next(wish, &actual) {
                steps += 1;
                prop_assert!(steps < 40, "does not end");
                if let Step::Load(key, attempt) = &step {
                    prop_assert_ne!(actual.rejected.get(key), Some(attempt));
                    prop_assert_eq!(wish.releases.get(key), Some(&Some(*attempt)));
                    if !fates.next().unwrap() {
                        actual.rejected.insert(key.clone(), *attempt);
                        continue;
                    }
                }
                if let Step::Publish(new) = &step {
                    let old = &actual.published;
                    let loadable = |key: &ReleaseKey| {
                        wish.releases.get(key).copied().flatten().filter(|a| actual.rejected.get(key) != Some(a))
                    };
                    let loaded = |key: &ReleaseKey, attempt: &Attempt| {
                        [old.releases.get(key), actual.staged.get(key)].contains(&Some(&attempt.digest))
                    };
                    let pending = wish.releases.keys().any(|key| {
                        let highest = wish.releases.keys().filter(|k| k.model == key.model)
                            .filter(|k| loadable(k).is_some() || old.releases.contains_key(k)).max();
                        let named = wish.routes.values()
                            .any(|r| r.model == key.model && r.version == VersionChoice::Number(key.version));
                        (highest == Some(key) || named) && loadable(key).is_some_and(|attempt| !loaded(key, &attempt))
                    });
                    for key in new.releases.keys() {
                        prop_assert!(old.releases.contains_key(key) || actual.staged.contains_key(key), "not loaded");
                    }
                    for key in old.releases.keys().filter(|key| !new.releases.contains_key(key)) {
                        let replaced = new.releases.keys().any(|k| k.model == key.model);
                        let removed = wish.releases.keys().all(|k| k != key);
                        prop_assert!(replaced || (removed && !pending), "{key} is dropped");
                    }
                    for (endpoint, route) in &new.routes {
                        prop_assert!(new.answers(route), "{endpoint} is routed to what is not live");
                    }
                    for (endpoint, route) in &wish.routes {
                        let Some(before) = answer(old, endpoint) else { continue };
                        let chosen = old.routes.contains_key(endpoint) || actual.only_model.as_ref() == Some(&before.model);
                        if chosen && new.releases.keys().any(|key| key.model == before.model) {
                            let now = answer(new, endpoint);
                            prop_assert!(now.is_some(), "{endpoint} lost its answers");
                            let moved = now.is_some_and(|now| now.model != before.model);
                            prop_assert!(!moved || new.answers(route), "{endpoint} moved before its route could");
                        }
                    }
                }
                actual.apply(&step);
            }
            actual.settle();
        }
    }
}
