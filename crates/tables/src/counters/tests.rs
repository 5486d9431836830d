// SPDX-License-Identifier: BSD-2-Clause
//! Facts about the sets.

use super::*;

fn check<T: CounterFields>(elems: usize) {
    assert_eq!((T::ELEMS.len(), size_of::<T>(), align_of::<T>()), (elems, elems * 8, 8), "{}", T::NAME);
    let set = T::default();
    for (i, elem) in T::ELEMS.iter().enumerate() {
        let at = std::ptr::from_ref(set.counter(i).unwrap()).addr() - std::ptr::from_ref(&set).addr();
        assert_eq!((at, elem.oneliner.is_ascii()), (i * 8, true), "{}", elem.name);
        assert!(std::ptr::eq(set.by_name(elem.name).unwrap(), set.counter(i).unwrap()));
    }
    assert!(json_doc::<T>().is_ascii());
}

#[test]
fn sets_are_nothing_but_their_counters() {
    // After the 144 of Varnish 7.1 come those of later releases and ours, any number.
    check::<Main>(Main::ELEMS.len());
    assert_eq!(Main::ELEMS.iter().position(|elem| elem.name == "bgfetch_no_thread"), Some(144));
    check::<Mgt>(17);
    check::<Sma>(7);
    check::<Smf>(10);
    check::<Vbe>(20);
    check::<Vcp>(2);
    check::<Mempool>(11);
    check::<Lck>(5);
}

#[test]
fn where_varnish_has_them() {
    let at = |name| Main::ELEMS.iter().position(|e| e.name == name).unwrap() * 8;
    assert_eq!((at("uptime"), at("cache_hit"), at("n_test_gunzip")), (8, 112, 1144));
    assert_eq!(Vbe::ELEMS[8].name, "conn");
    assert!(Vbe::ELEMS[8].docs.contains("Concurrent connections used:"));
}

#[test]
fn a_close_reason_has_its_counter() {
    let main = Main::default();
    for reason in crate::SessClose::ALL {
        reason.counter(&main).inc();
        assert_eq!(main.by_name(&format!("sc_{}", reason.text().to_ascii_lowercase())).unwrap().get(), 1);
    }
}
