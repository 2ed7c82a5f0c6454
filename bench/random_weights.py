"""Random weights for files that are timed, which may be large: a block of each kind is made once,
and repeated. No block is a whole number of rows long, so that rows differ."""
import array
import random
import struct

SPREAD = 0.02  # of the weights, as in mlxcel's dummies
COUNT = 1048583  # of a block; a prime
_random = random.Random(1)


def _normal():
    return array.array("f", (_random.gauss(0, SPREAD) for _ in range(COUNT)))


def bf16(values):
    """The upper halves of f32."""
    whole = array.array("f", values).tobytes()
    half = bytearray(len(whole) // 2)
    half[0::2], half[1::2] = whole[2::4], whole[3::4]
    return bytes(half)


def normal_bf16():
    return bf16(_normal())


def normal_f16():
    return struct.pack(f"<{COUNT}e", *_normal())


def normal_f32():
    return _normal().tobytes()


def codes():
    return _random.randbytes(4 * COUNT)


def scaled_codes(size, levels):
    """Blocks of `size` bytes: an f16 scale, then codes of so many levels."""
    data = bytearray(_random.randbytes(size * COUNT))
    data[0::size], data[1::size] = (bytes([b]) * COUNT for b in struct.pack(
        "<e", SPREAD * 12**0.5 / levels))
    return bytes(data)


def write_repeated(f, block, size):
    for _ in range(size // len(block)):
        f.write(block)
    f.write(memoryview(block)[:size % len(block)])
