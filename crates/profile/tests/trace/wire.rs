//! Reads Protocol Buffers by their wire format alone, knowing no more than numbers of fields: an oracle that shares nothing with what
//! writes them.

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A message.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(Vec<(u32, Value<'a>)>);

impl<'a> Fields<'a> {
    /// The fields of a message, as many as are whole, and how many bytes these are.
    pub fn until_torn(bytes: &'a [u8]) -> (Self, usize) {
        let mut fields = Vec::new();
        let mut at = 0;
        while let Some((field, next)) = field(bytes, at) {
            fields.push(field);
            at = next;
        }
        (Self(fields), at)
    }

    /// The fields of a whole message.
    pub fn of(bytes: &'a [u8]) -> Self {
        let (fields, read) = Self::until_torn(bytes);
        assert_eq!(read, bytes.len(), "{bytes:?}");
        fields
    }

    /// A number; 0 where it isn't there.
    pub fn number(&self, wanted: u32) -> u64 {
        let mut values = self.0.iter().filter(|(number, _)| *number == wanted);
        values.next_back().map_or(0, |(_, value)| match value {
            Value::Number(value) => *value,
            Value::Bytes(bytes) => panic!("field {wanted} is {bytes:?}"),
        })
    }

    /// Whether it is there.
    pub fn has(&self, wanted: u32) -> bool {
        self.0.iter().any(|(number, _)| *number == wanted)
    }

    /// Texts or messages of a number, in their order.
    pub fn all(&self, wanted: u32) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(number, _)| *number == wanted).map(move |(_, value)| match value {
            Value::Bytes(bytes) => *bytes,
            Value::Number(value) => panic!("field {wanted} is {value}"),
        })
    }

    /// The message of a number.
    pub fn message(&self, wanted: u32) -> Option<Fields<'a>> {
        self.all(wanted).next().map(Fields::of)
    }

    /// The text of a number; empty where it isn't there.
    pub fn text(&self, wanted: u32) -> String {
        self.all(wanted).next().map_or_else(String::new, |bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }
}

fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        value |= u64::from(byte & 0x7f) << shift;
        at += 1;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
    }
    panic!("a number of more than ten bytes");
}

fn field(bytes: &[u8], at: usize) -> Option<((u32, Value<'_>), usize)> {
    let (tag, at) = varint(bytes, at)?;
    let number = u32::try_from(tag >> 3).unwrap();
    match tag & 7 {
        0 => varint(bytes, at).map(|(value, next)| ((number, Value::Number(value)), next)),
        2 => {
            let (length, begin) = varint(bytes, at)?;
            let end = begin + usize::try_from(length).unwrap();
            Some(((number, Value::Bytes(bytes.get(begin..end)?)), end))
        }
        kind => panic!("a field of kind {kind}, which traces don't have"),
    }
}
