//! As much of protocol buffers as four of etcd's messages need.

/// A message being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn number(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value.cast_unsigned());
        self
    }

    pub(super) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn message(self, field: u64, value: Self) -> Self {
        self.bytes(field, &value.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A field of a message that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(i64),
    Bytes(&'a [u8]),
}

/// The last field with this number, if the message has one.
pub(super) fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    let mut found = None;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut message)?.cast_signed()),
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        if tag >> 3 == wanted {
            found = Some(value);
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let inner = Message::default().number(3, 300);
        let bytes = Message::default().number(1, -1).message(2, inner).bytes(9, b"x").into_bytes();
        assert_eq!(field(&bytes, 1), Some(Field::Number(-1)));
        let Some(Field::Bytes(inner)) = field(&bytes, 2) else { panic!("no message") };
        assert_eq!(field(inner, 3), Some(Field::Number(300)));
        assert_eq!(field(&bytes, 9), Some(Field::Bytes(b"x")));
        assert_eq!(field(&bytes, 8), None);
        assert_eq!(field(&bytes[..bytes.len() - 1], 9), None, "cut short");
    }
}
