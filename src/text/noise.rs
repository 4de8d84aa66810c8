//! Damaged bytes for the property tests of every parser of foreign bytes. (Fuzzing with coverage needs a nightly
//! compiler; these need none.)

use proptest::collection::vec;
use proptest::prelude::*;

/// So many cases in a plain run; `PROPTEST_CASES` asks for more.
pub(crate) fn cases(few: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    if asked { default } else { ProptestConfig { cases: few, ..default } }
}

#[derive(Clone, Debug)]
enum Damage {
    Cut,
    Flip(u8),
    Replace(u8),
    Insert(Vec<u8>),
    Remove(usize),
    Repeat(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let token = prop::sample::select(
        &["\"", "{", "}", "[", "]", ",", ":", "\\", "\n", "-1", "0", "1e999", "null", " ", "\0"][..],
    );
    prop_oneof![
        1 => Just(Damage::Cut),
        2 => (0_u8..8).prop_map(|bit| Damage::Flip(1 << bit)),
        2 => any::<u8>().prop_map(Damage::Replace),
        3 => (b'0'..=b'9').prop_map(Damage::Replace),
        2 => token.prop_map(|text| Damage::Insert(text.as_bytes().to_vec())),
        1 => vec(any::<u8>(), 1..9).prop_map(Damage::Insert),
        2 => (1_usize..40).prop_map(Damage::Remove),
        1 => (1_usize..40).prop_map(Damage::Repeat),
    ]
}

/// Returns `base` with one to three damages.
pub(crate) fn damaged(base: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    vec((any::<prop::sample::Index>(), damage()), 1..4).prop_map(move |damages| {
        let mut bytes = base.clone();
        for (at, damage) in damages {
            let at = at.index(bytes.len() + 1);
            let end = |length: usize| (at + length).min(bytes.len());
            match damage {
                Damage::Cut => bytes.truncate(at),
                Damage::Flip(bit) => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit),
                Damage::Replace(with) => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = with),
                Damage::Insert(more) => drop(bytes.splice(at..at, more)),
                Damage::Remove(length) => drop(bytes.drain(at..end(length))),
                Damage::Repeat(length) => {
                    let again = bytes[at..end(length)].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        bytes
    })
}

/// Returns `bytes` cut into pieces of these lengths, and the rest; a length of 0 is an empty piece.
pub(crate) fn pieces<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::with_capacity(lengths.len() + 1);
    for length in lengths {
        let (piece, rest) = bytes.split_at((*length).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

#[test]
fn noise_is_noise() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let base = b"{\"a\": 1}".to_vec();
    let strategy = damaged(base.clone());
    let values: std::collections::BTreeSet<Vec<u8>> =
        (0..200).map(|_| strategy.new_tree(&mut runner).expect("a value").current()).collect();
    assert!(values.len() > 100 && values.iter().filter(|value| **value != base).count() > 100);
    assert_eq!(pieces(b"abcde", &[2, 0, 9]), [&b"ab"[..], b"", b"cde", b""]);
}
