//! The header of a GGUF model file: whether it is one, whether it is whole, and of which architecture.
//!
//! The format is that of `ggml/docs/gguf.md`, versions 2 and 3, little-endian: magic, version, counts of
//! tensors and of key-value pairs, the pairs, what each tensor is and where its data begins. Tensor data is
//! not read.

use std::io::Read;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gguf {
    /// `general.architecture`.
    pub architecture: Option<String>,
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
}

/// Longest text and most entries that are believed; nothing real comes near.
const TEXT_MAX: u64 = 16 << 20;
const COUNT_MAX: u64 = 16 << 20;
const ALIGNMENT: u64 = 32;

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
    let (mut architecture, mut alignment) = (None, ALIGNMENT);
    for _ in 0..pairs {
        let key = from.text()?;
        let kind = from.u32()?;
        match (key.as_slice(), kind) {
            (b"general.architecture", STRING) => {
                architecture = Some(String::from_utf8_lossy(&from.text()?).into_owned());
            }
            (b"general.alignment", UINT32) => alignment = u64::from(from.u32()?).max(1),
            _ => from.skip_value(kind)?,
        }
    }
    let mut data_end = 0;
    for _ in 0..tensors {
        from.text()?;
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
    let data_begin = from.at.next_multiple_of(alignment);
    Ok(Gguf { architecture, least_bytes: data_begin.saturating_add(data_end) })
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

    /// A header with one architecture, one array and one tensor of 4 x 8 floats at offset 64.
    fn header() -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(3_u64.to_le_bytes());
        bytes.extend([text("general.architecture"), STRING.to_le_bytes().to_vec(), text("llama")].concat());
        bytes.extend([text("x"), UINT32.to_le_bytes().to_vec(), 7_u32.to_le_bytes().to_vec()].concat());
        let array = [ARRAY.to_le_bytes(), STRING.to_le_bytes()].concat();
        bytes.extend([text("list"), array, 2_u64.to_le_bytes().to_vec(), text("a"), text("b")].concat());
        bytes.extend([text("t"), 2_u32.to_le_bytes().to_vec()].concat());
        bytes.extend([4_u64, 8].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(64_u64.to_le_bytes());
        bytes
    }

    #[test]
    fn a_sound_header_tells_architecture_and_size() {
        let bytes = header();
        let least = (bytes.len() as u64).next_multiple_of(32) + 64 + 4 * 4 * 8;
        assert_eq!(read(&mut bytes.as_slice()), Ok(Gguf { architecture: Some("llama".into()), least_bytes: least }));
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
        fn no_bytes_make_it_panic(mut bytes in Just(header()), at in 4_usize..120, with in any::<[u8; 8]>()) {
            let end = (at + 8).min(bytes.len());
            let count = end.saturating_sub(at);
            bytes[at.min(end)..end].copy_from_slice(&with[..count]);
            let _any = read(&mut bytes.as_slice());
        }
    }
}
