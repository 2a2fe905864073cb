//! Keys of a store: Rust types whose bytes sort as their values do.

use super::{
    KeyType,
    key_type::{PartType, end, escape, take_part},
    scalar::{DecodeError, Scalar, ScalarType},
};

/// One part of a key: a [`Scalar`], or an `Option` of one, with `None` before all others.
pub trait KeyPart: 'static {
    /// A value as it is given and taken.
    type Ref<'a>: Copy;
    /// The part's type.
    const TYPE: PartType;

    /// Appends the bytes of a value.
    fn write(value: Self::Ref<'_>, out: &mut Vec<u8>);

    /// The bytes of a value, in `scratch` only if the value is not its own bytes.
    #[inline]
    fn bytes<'s, 'k: 's>(value: Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        scratch.clear();
        Self::write(value, scratch);
        scratch
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The bytes are not what [`KeyPart::bytes`] makes.
    fn read(bytes: &[u8]) -> Result<Self::Ref<'_>, DecodeError>;
}

macro_rules! part {
    ($($scalar:ty),*) => {$(
        impl KeyPart for $scalar {
            type Ref<'a> = <$scalar as Scalar>::Ref<'a>;
            const TYPE: PartType = PartType { scalar: <$scalar as Scalar>::TYPE, optional: false };

            #[inline]
            fn write(value: Self::Ref<'_>, out: &mut Vec<u8>) {
                <$scalar as Scalar>::write(value, out);
            }

            #[inline]
            fn bytes<'s, 'k: 's>(value: Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
                <$scalar as Scalar>::bytes(value, scratch)
            }

            #[inline]
            fn read(bytes: &[u8]) -> Result<Self::Ref<'_>, DecodeError> {
                <$scalar as Scalar>::read(bytes)
            }
        }
    )*};
}

part!(String, Vec<u8>, i64, u64, bool);

/// Numbers that are equal are one key: -0 is written as 0.
impl KeyPart for f64 {
    type Ref<'a> = f64;
    const TYPE: PartType = PartType { scalar: <f64 as Scalar>::TYPE, optional: false };

    fn write(value: f64, out: &mut Vec<u8>) {
        <f64 as Scalar>::write(value + 0.0, out);
    }

    fn read(bytes: &[u8]) -> Result<f64, DecodeError> {
        <f64 as Scalar>::read(bytes)
    }
}

impl<P: KeyPart + Scalar> KeyPart for Option<P> {
    type Ref<'a> = Option<<P as KeyPart>::Ref<'a>>;
    const TYPE: PartType = PartType { scalar: <P as Scalar>::TYPE, optional: true };

    fn write(value: Self::Ref<'_>, out: &mut Vec<u8>) {
        out.push(value.is_some().into());
        if let Some(value) = value {
            <P as KeyPart>::write(value, out);
        }
    }

    fn read(bytes: &[u8]) -> Result<Self::Ref<'_>, DecodeError> {
        PartType::unwrap(bytes)?.map(<P as KeyPart>::read).transpose()
    }
}

/// The type of a store's keys: a [`KeyPart`], or two or three of them. `docs/state-format.md` has the bytes.
pub trait StateKey: 'static {
    /// A key as it is given and taken: `&str` for `String`, `(&str, u64)` for `(String, u64)`.
    type Ref<'a>: Copy;

    /// Whether a key is its own bytes, as one text or bytes are: then the hash of a tuple that is grouped by it is the
    /// hash of its bytes.
    const IS_ITS_BYTES: bool = false;

    /// The type as a value.
    fn key_type() -> KeyType;

    /// The key's bytes: the key's own if it is one text or bytes, else written to `scratch`.
    fn encode<'s, 'k: 's>(key: Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8];

    /// Reads a key; parts that were escaped are unescaped to `scratch`.
    ///
    /// # Errors
    /// The bytes are not what [`StateKey::encode`] makes.
    fn decode<'s>(bytes: &'s [u8], scratch: &'s mut Vec<u8>) -> Result<Self::Ref<'s>, DecodeError>;
}

impl<P: KeyPart> StateKey for P {
    type Ref<'a> = <P as KeyPart>::Ref<'a>;
    const IS_ITS_BYTES: bool =
        matches!(P::TYPE, PartType { scalar: ScalarType::Text | ScalarType::Bytes, optional: false });

    fn key_type() -> KeyType {
        KeyType::of(vec![P::TYPE])
    }

    #[inline]
    fn encode<'s, 'k: 's>(key: Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        P::bytes(key, scratch)
    }

    #[inline]
    fn decode<'s>(bytes: &'s [u8], _: &'s mut Vec<u8>) -> Result<Self::Ref<'s>, DecodeError> {
        P::read(bytes)
    }
}

/// Appends a part that others follow.
fn write_part<P: KeyPart>(value: P::Ref<'_>, out: &mut Vec<u8>) {
    let mut part = Vec::new();
    escape(P::bytes(value, &mut part), out);
    end(out);
}

impl<A: KeyPart, B: KeyPart> StateKey for (A, B) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>);

    fn key_type() -> KeyType {
        KeyType::of(vec![A::TYPE, B::TYPE])
    }

    fn encode<'s, 'k: 's>((a, b): Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        scratch.clear();
        write_part::<A>(a, scratch);
        B::write(b, scratch);
        scratch
    }

    fn decode<'s>(bytes: &'s [u8], scratch: &'s mut Vec<u8>) -> Result<Self::Ref<'s>, DecodeError> {
        scratch.clear();
        let last = take_part(bytes, scratch)?;
        Ok((A::read(scratch)?, B::read(last)?))
    }
}

impl<A: KeyPart, B: KeyPart, C: KeyPart> StateKey for (A, B, C) {
    type Ref<'a> = (A::Ref<'a>, B::Ref<'a>, C::Ref<'a>);

    fn key_type() -> KeyType {
        KeyType::of(vec![A::TYPE, B::TYPE, C::TYPE])
    }

    fn encode<'s, 'k: 's>((a, b, c): Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        scratch.clear();
        write_part::<A>(a, scratch);
        write_part::<B>(b, scratch);
        C::write(c, scratch);
        scratch
    }

    fn decode<'s>(bytes: &'s [u8], scratch: &'s mut Vec<u8>) -> Result<Self::Ref<'s>, DecodeError> {
        scratch.clear();
        let rest = take_part(bytes, scratch)?;
        let middle = scratch.len();
        let last = take_part(rest, scratch)?;
        let (a, b) = scratch.split_at(middle);
        Ok((A::read(a)?, B::read(b)?, C::read(last)?))
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Ordering, fmt::Debug};

    use proptest::prelude::*;

    use super::*;

    fn bytes<K: StateKey>(key: K::Ref<'_>) -> Vec<u8> {
        K::encode(key, &mut Vec::new()).to_vec()
    }

    /// A key comes back as it was, and two keys sort as their bytes do.
    fn check<'k, K: StateKey>(a: K::Ref<'k>, b: K::Ref<'k>, order: Ordering) -> Result<(), TestCaseError>
    where
        for<'a> K::Ref<'a>: Debug,
    {
        let (a_bytes, mut scratch) = (bytes::<K>(a), Vec::new());
        let back = K::decode(&a_bytes, &mut scratch).unwrap();
        prop_assert_eq!(format!("{:?}", back), format!("{:?}", a));
        prop_assert_eq!(a_bytes.cmp(&bytes::<K>(b)), order);
        // The runtime form knows the same bytes.
        let kind = K::key_type();
        prop_assert_eq!(kind.parse(&kind.print(&a_bytes).unwrap()).unwrap(), a_bytes);
        prop_assert_eq!(kind.to_string().parse(), Ok(kind));
        Ok(())
    }

    fn text() -> impl Strategy<Value = String> {
        "[a\u{0}\u{1}ÿ]{0,4}|.{0,9}"
    }

    fn raw() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..6)
    }

    fn float() -> impl Strategy<Value = f64> {
        use prop::num::f64;
        f64::NEGATIVE | f64::POSITIVE | f64::NORMAL | f64::SUBNORMAL | f64::INFINITE
    }

    proptest! {
        #[test]
        fn simple_keys_come_back_and_sort_as_their_bytes(
            (s, t) in (text(), text()), (x, y) in (raw(), raw()), (i, j) in any::<(i64, i64)>(),
            (u, v) in any::<(u64, u64)>(), (f, g) in (float(), float()), (p, q) in any::<(bool, bool)>(),
        ) {
            check::<String>(&s, &t, s.cmp(&t))?;
            check::<Vec<u8>>(&x, &y, x.cmp(&y))?;
            check::<i64>(i, j, i.cmp(&j))?;
            check::<u64>(u, v, u.cmp(&v))?;
            check::<f64>(f + 0.0, g + 0.0, (f + 0.0).total_cmp(&(g + 0.0)))?;
            check::<bool>(p, q, p.cmp(&q))?;
        }

        #[test]
        fn composite_keys_come_back_and_sort_as_tuples(
            a in (text(), raw(), prop::option::of(any::<i64>())), b in (text(), raw(), prop::option::of(any::<i64>())),
        ) {
            let (x, y) = ((a.0.as_str(), a.1.as_slice(), a.2), (b.0.as_str(), b.1.as_slice(), b.2));
            check::<(String, Vec<u8>, Option<i64>)>(x, y, x.cmp(&y))?;
            let (x, y) = ((a.2, a.0.as_str()), (b.2, b.0.as_str()));
            check::<(Option<i64>, String)>(x, y, x.cmp(&y))?;
            let (x, y) = ((Some(a.1.as_slice()), a.0.as_str()), (b.2.map(|_| b.1.as_slice()), b.0.as_str()));
            check::<(Option<Vec<u8>>, String)>(x, y, x.cmp(&y))?;
        }

        #[test]
        fn what_is_read_as_a_key_is_what_would_be_written(bytes in raw()) {
            let mut scratch = Vec::new();
            if let Ok(key) = <(Option<Vec<u8>>, bool)>::decode(&bytes, &mut scratch) {
                prop_assert_eq!(self::bytes::<(Option<Vec<u8>>, bool)>(key), bytes);
            }
        }
    }

    #[test]
    fn a_text_key_is_its_own_bytes() {
        let word = "größe";
        let mut scratch = Vec::new();
        assert!(std::ptr::eq(String::encode(word, &mut scratch), word.as_bytes()));
    }

    #[test]
    fn the_bytes_of_keys_are_pinned() {
        assert_eq!(bytes::<i64>(-1), [0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(bytes::<u64>(258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(bytes::<f64>(-0.0), [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes::<f64>(-1.0), [0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
        assert_eq!(bytes::<(String, bool)>(("a\0b", true)), [b'a', 0, 255, b'b', 0, 1, 1]);
        assert_eq!(bytes::<(Option<String>, Option<String>)>((None, Some("x"))), [0, 255, 0, 1, 1, b'x']);
        assert_eq!(<(String, Option<i64>, Vec<u8>)>::key_type().to_string(), "(text, int?, bytes)");
    }

    #[test]
    fn bytes_of_another_type_are_told() {
        let mut scratch = Vec::new();
        assert_eq!(i64::decode(b"abc", &mut scratch), Err(DecodeError::Length { kind: "int", bytes: 3 }));
        assert_eq!(String::decode(b"ab\xff", &mut scratch), Err(DecodeError::NotUtf8 { valid: 2 }));
        assert_eq!(bool::decode(&[2], &mut scratch), Err(DecodeError::NotBool { byte: 2 }));
        assert_eq!(<Option<i64>>::decode(&[], &mut scratch), Err(DecodeError::Length { kind: "optional", bytes: 0 }));
        assert_eq!(<Option<i64>>::decode(&[0, 1], &mut scratch), Err(DecodeError::Length { kind: "null", bytes: 1 }));
        for bytes in [&b"a"[..], &[b'a', 0], &[b'a', 0, 2, 1]] {
            assert_eq!(<(String, bool)>::decode(bytes, &mut scratch), Err(DecodeError::NoEnd));
        }
    }
}
