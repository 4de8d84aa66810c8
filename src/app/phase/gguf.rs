//! The header of a GGUF model file: whether it is one, whether it is whole, and of which architecture.
//!
//! The format is that of `ggml/docs/gguf.md`, versions 2 and 3, little-endian: magic, version, counts of
//! tensors and of key-value pairs, the pairs, what each tensor is and where its data begins. Tensor data is
//! not read.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gguf {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.type`: `model`, `adapter`, `mmproj`.
    pub kind: Option<String>,
    /// The file has at least so many bytes when it is whole.
    pub least_bytes: u64,
}

/// Why a file is no whole model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with `GGUF`; its first four bytes.
    Magic([u8; 4]),
    /// It ends too early.
    Truncated,
    /// Its numbers make no sense, or it is of another version.
    Strange,
    /// It lacks a tensor that every model of its architecture has.
    Missing(String),
    /// It is something else than what it is to be.
    OtherKind(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(_) => f.write_str("it is no GGUF file"),
            Self::Truncated => f.write_str("it is shorter than its header says"),
            Self::Strange => f.write_str("its header makes no sense"),
            Self::Missing(name) => write!(f, "it lacks the tensor {name:?}"),
            Self::OtherKind(what) => write!(f, "it is {what}"),
        }
    }
}

/// Longest text and most entries that are believed; nothing real comes near.
const TEXT_MAX: u64 = 16 << 20;
const COUNT_MAX: u64 = 16 << 20;
const ALIGNMENT: u64 = 32;
/// Architectures that llama.cpp loads only with [`EVERY`] and something of every layer (`load_tensors` in
/// `src/llama-model.cpp`).
const LIKE_LLAMA: [&str; 7] = ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3"];
const EVERY: [&str; 2] = ["token_embd.weight", "output_norm.weight"];

/// Reads a header.
///
/// # Errors
/// With what is wrong with the file.
pub fn read(from: &mut impl Read) -> Result<Gguf, Fault> {
    let mut from = Counted { from, at: 0 };
    let magic = from.bytes::<4>()?;
    if &magic != b"GGUF" {
        return Err(Fault::Magic(magic));
    }
    if !matches!(from.u32()?, 2 | 3) {
        return Err(Fault::Strange);
    }
    let (tensors, pairs) = (from.count()?, from.count()?);
    let (mut architecture, mut what, mut alignment) = (None, None, ALIGNMENT);
    let (mut layers, mut parts) = (Vec::new(), 1);
    for _ in 0..pairs {
        let key = from.text()?;
        let kind = from.u32()?;
        match (key.as_slice(), kind) {
            (b"general.architecture", STRING) => {
                architecture = Some(String::from_utf8_lossy(&from.text()?).into_owned());
            }
            (b"general.type", STRING) => what = Some(String::from_utf8_lossy(&from.text()?).into_owned()),
            (b"general.alignment", UINT32) => alignment = u64::from(from.u32()?).max(1),
            (b"split.count", UINT16) => parts = u16::from_le_bytes(from.bytes()?),
            (key, UINT32) if key.ends_with(b".block_count") => layers.push((key.to_owned(), from.u32()?)),
            _ => from.skip_value(kind)?,
        }
    }
    let (mut data_end, mut seen) = (0, Seen::default());
    for _ in 0..tensors {
        seen.take(&from.text()?);
        let dimensions = from.u32()?;
        if dimensions > 8 {
            return Err(Fault::Strange);
        }
        let mut elements = 1_u64;
        for _ in 0..dimensions {
            elements = elements.saturating_mul(from.u64()?);
        }
        let (kind, offset) = (from.u32()?, from.u64()?);
        data_end = data_end.max(offset.saturating_add(tensor_bytes(kind, elements)));
    }
    // The rest of a model in parts is in other files.
    let is_model = parts < 2 && what.as_deref().is_none_or(|what| what == "model");
    if let Some(architecture) = architecture.as_deref().filter(|name| is_model && LIKE_LLAMA.contains(name)) {
        let own = format!("{architecture}.block_count");
        let layers = layers.iter().find(|(key, _)| key == own.as_bytes()).map_or(0, |(_, count)| *count);
        if let Some(name) = seen.lacks(layers) {
            return Err(Fault::Missing(name));
        }
    }
    let data_begin = from.at.next_multiple_of(alignment);
    Ok(Gguf { architecture, kind: what, least_bytes: data_begin.saturating_add(data_end) })
}

/// Which of the tensors are there that no model like llama can be without.
#[derive(Default)]
struct Seen {
    every: [bool; EVERY.len()],
    layers: BTreeSet<u32>,
}

impl Seen {
    fn take(&mut self, name: &[u8]) {
        if let Some(index) = EVERY.iter().position(|known| known.as_bytes() == name) {
            self.every[index] = true;
        }
        let number =
            || -> Option<u32> { std::str::from_utf8(name).ok()?.strip_prefix("blk.")?.split_once('.')?.0.parse().ok() };
        self.layers.extend(number());
    }

    /// Returns the first one that is not there.
    fn lacks(&self, layers: u32) -> Option<String> {
        let every = EVERY.iter().zip(self.every).find(|(_, there)| !there).map(|(name, _)| (*name).to_owned());
        let layer = || (0..layers).find(|layer| !self.layers.contains(layer));
        every.or_else(|| layer().map(|layer| format!("blk.{layer}.*")))
    }
}

/// Returns the size of a tensor; of quantised ones a lower bound of one bit an element, of which all have more.
fn tensor_bytes(kind: u32, elements: u64) -> u64 {
    match kind {
        // F32, F16, F64, BF16.
        0 => elements.saturating_mul(4),
        1 | 30 => elements.saturating_mul(2),
        28 => elements.saturating_mul(8),
        _ => elements / 8,
    }
}

const UINT16: u32 = 2;
const UINT32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

struct Counted<'a, R> {
    from: &'a mut R,
    at: u64,
}

impl<R: Read> Counted<'_, R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|_| Fault::Truncated)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Result<u64, Fault> {
        self.u64().and_then(|count| if count <= COUNT_MAX { Ok(count) } else { Err(Fault::Strange) })
    }

    fn text(&mut self) -> Result<Vec<u8>, Fault> {
        let length = self.u64()?;
        if length > TEXT_MAX {
            return Err(Fault::Strange);
        }
        let mut text = Vec::new();
        self.from.by_ref().take(length).read_to_end(&mut text).map_err(|_| Fault::Truncated)?;
        self.at += text.len() as u64;
        if text.len() as u64 == length { Ok(text) } else { Err(Fault::Truncated) }
    }

    fn skip(&mut self, length: u64) -> Result<(), Fault> {
        let mut part = self.from.by_ref().take(length);
        let skipped = std::io::copy(&mut part, &mut std::io::sink()).map_err(|_| Fault::Truncated)?;
        self.at += skipped;
        if skipped == length { Ok(()) } else { Err(Fault::Truncated) }
    }

    fn skip_value(&mut self, kind: u32) -> Result<(), Fault> {
        match kind {
            STRING => self.text().map(drop),
            ARRAY => {
                let (inner, count) = (self.u32()?, self.count()?);
                match scalar(inner) {
                    Some(size) => self.skip(size * count),
                    None if inner == STRING => (0..count).try_for_each(|_| self.text().map(drop)),
                    // Arrays of arrays do not occur.
                    None => Err(Fault::Strange),
                }
            }
            _ => self.skip(scalar(kind).ok_or(Fault::Strange)?),
        }
    }
}

/// Returns the bytes of a value that is a number or a truth.
const fn scalar(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    const WHOLE: [&str; 4] = ["token_embd.weight", "blk.0.attn_q.weight", "blk.1.ffn_up.weight", "output_norm.weight"];

    /// A header with one architecture of two layers, one array and tensors of 4 x 8 floats, the last one at offset 64.
    fn header_of(architecture: &str, tensors: &[&str], parts: u16) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend(4_u64.to_le_bytes());
        let count = format!("{architecture}.block_count");
        bytes.extend([text(&count), UINT32.to_le_bytes().to_vec(), 2_u32.to_le_bytes().to_vec()].concat());
        bytes.extend([text("general.architecture"), STRING.to_le_bytes().to_vec(), text(architecture)].concat());
        bytes.extend([text("split.count"), UINT16.to_le_bytes().to_vec(), parts.to_le_bytes().to_vec()].concat());
        let array = [ARRAY.to_le_bytes(), STRING.to_le_bytes()].concat();
        bytes.extend([text("list"), array, 2_u64.to_le_bytes().to_vec(), text("a"), text("b")].concat());
        for name in tensors {
            bytes.extend([text(name), 2_u32.to_le_bytes().to_vec()].concat());
            bytes.extend([4_u64, 8].iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend(0_u32.to_le_bytes());
            bytes.extend(64_u64.to_le_bytes());
        }
        bytes
    }

    fn header() -> Vec<u8> {
        header_of("llama", &WHOLE, 1)
    }

    #[test]
    fn a_sound_header_tells_architecture_and_size() {
        let bytes = header();
        let least = (bytes.len() as u64).next_multiple_of(32) + 64 + 4 * 4 * 8;
        assert_eq!(
            read(&mut bytes.as_slice()),
            Ok(Gguf { architecture: Some("llama".into()), kind: None, least_bytes: least })
        );
    }

    #[test]
    fn a_tensor_that_every_model_has_is_missed() {
        let check = |architecture: &str, tensors: &[&str], parts, expected: Option<&str>| {
            let fault = expected.map(|name| Fault::Missing(name.into()));
            let found = read(&mut header_of(architecture, tensors, parts).as_slice()).err();
            assert_eq!(found, fault, "{architecture} {tensors:?} {parts}");
        };
        let but = |name: &str| -> Vec<&str> { WHOLE.into_iter().filter(|known| *known != name).collect() };
        for architecture in LIKE_LLAMA {
            check(architecture, &WHOLE, 1, None);
            check(architecture, &but("output_norm.weight"), 1, Some("output_norm.weight"));
            check(architecture, &but("token_embd.weight"), 0, Some("token_embd.weight"));
            check(architecture, &but("blk.1.ffn_up.weight"), 1, Some("blk.1.*"));
        }
        // Of a part nobody can tell, nor of a model that may be made otherwise.
        check("llama", &but("output_norm.weight"), 2, None);
        check("bert", &but("output_norm.weight"), 1, None);
    }

    #[test]
    fn what_is_no_model_is_told() {
        assert_eq!(read(&mut &b"GGXX...."[..]), Err(Fault::Magic(*b"GGXX")));
        assert_eq!(read(&mut &b"GG"[..]), Err(Fault::Truncated));
        let bytes = header();
        for end in 4..bytes.len() {
            assert_eq!(read(&mut &bytes[..end]), Err(Fault::Truncated), "{end}");
        }
        let mut strange = bytes;
        strange[4] = 9;
        assert_eq!(read(&mut strange.as_slice()), Err(Fault::Strange));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in Just(header()), at in 4_usize..300, with in any::<[u8; 8]>()) {
            let end = (at + 8).min(bytes.len());
            let count = end.saturating_sub(at);
            bytes[at.min(end)..end].copy_from_slice(&with[..count]);
            let _any = read(&mut bytes.as_slice());
        }
    }
}
