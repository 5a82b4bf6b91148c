//! SHA-256, to compare with the digests of the manifest.

/// Returns the digest in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let constants = fractions(64, |p| f64::from(p).cbrt(), 3);
    let mut state: Vec<u32> = fractions(8, |p| f64::from(p).sqrt(), 2);
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let end = padded.len() - 8;
    let mut bits = (8 * bytes.len() as u64).to_le_bytes();
    bits.reverse();
    padded[end..].copy_from_slice(&bits);
    for block in padded.chunks_exact(64) {
        compress(&mut state, &constants, block);
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

fn compress(state: &mut [u32], constants: &[u32], block: &[u8]) {
    let mut w: Vec<u32> =
        block.chunks_exact(4).map(|b| u32::from_le_bytes([b[3], b[2], b[1], b[0]])).collect();
    for i in 16..64 {
        let (a, b) = (w[i - 15], w[i - 2]);
        let low = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
        let high = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
        w.push(w[i - 16].wrapping_add(low).wrapping_add(w[i - 7]).wrapping_add(high));
    }
    let mut s: [u32; 8] = state.try_into().unwrap();
    for (k, w) in constants.iter().zip(w) {
        let [a, b, c, d, e, f, g, h] = s;
        let high = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let sum1 = h.wrapping_add(high).wrapping_add((e & f) ^ (!e & g));
        let sum1 = sum1.wrapping_add(*k).wrapping_add(w);
        let low = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let sum2 = low.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        s = [sum1.wrapping_add(sum2), a, b, c, d.wrapping_add(sum1), e, f, g];
    }
    for (old, new) in state.iter_mut().zip(s) {
        *old = old.wrapping_add(new);
    }
}

/// Returns the first 32 bits of the fractions of roots of the first primes, exact by integer
/// arithmetic.
fn fractions(n: usize, root: impl Fn(u32) -> f64, power: u32) -> Vec<u32> {
    let primes = (2_u32..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    let exact = |p: u32| {
        // floor(root * 2^32): approximated in f64, then corrected.
        let mut value = (root(p) * 4_294_967_296.0) as u128;
        let target = u128::from(p) << (32 * (power - 1)) << 32;
        let exceeds =
            |value: u128| if power == 2 { value * value > target } else { cube_over(value, p) };
        while exceeds(value) {
            value -= 1;
        }
        while !exceeds(value + 1) {
            value += 1;
        }
        value as u32
    };
    primes.take(n).map(exact).collect()
}

/// Returns whether (value / 2^32)^3 exceeds p; value is below 2^36, so its cube is below 2^108.
fn cube_over(value: u128, p: u32) -> bool {
    value * value * value > u128::from(p) << 96
}
