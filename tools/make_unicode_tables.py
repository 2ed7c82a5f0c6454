"""Writes src/tokenizer/unidata.c: general categories of Unicode 16.0 (what the Oniguruma inside the `tokenizers`
library knows) and the few characters where that library's Rust side thinks otherwise, asked of the library itself.
Usage: python make_unicode_tables.py > src/tokenizer/unidata.c      (needs unicodedata2==16.0.0 and tokenizers)"""
import unicodedata
import unicodedata2 as ucd
from tokenizers import normalizers, pre_tokenizers, Regex

assert ucd.unidata_version == "16.0.0"
assert unicodedata.unidata_version == "14.0.0"    # Python 3.11; utf8proc 2.8 knows no other lower case
NAMES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs".split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def isolated(pre, chars):
    """The characters that the pre-tokenizer cuts out of a run of letters."""
    text = "".join("aa" + chr(c) for c in chars if c != 0x61)
    return {ord(p) for p, _ in pre.pre_tokenize_str(text) if len(p) == 1}


def rows(items, per):
    for i in range(0, len(items), per):
        print("    " + ", ".join(items[i:i + per]) + ",")


def table(name, why, points):
    print(f"\n// {why}\nconst struct code_range {name}[] = {{")
    rs = ranges(points)
    rows([f"{{0x{a:x}, 0x{b:x}}}" for a, b in rs], 6)
    print("};")
    print(f"const size_t {name}_n = sizeof {name} / sizeof *{name};")


cat = {c: ucd.category(chr(c)) for c in range(0x110000)}
for p in ("L", "M", "N", "P", "S", "Z"):    # the reference must agree
    cut = pre_tokenizers.Split(Regex("\\p{%s}+" % p), "removed", invert=True)
    got = {ord(c) for piece, _ in cut.pre_tokenize_str("".join(map(chr, ALL))) for c in piece}
    assert got == {c for c in ALL if cat[c][0] == p}, p

print("// Made by tools/make_unicode_tables.py: do not edit.\n// clang-format off\n#include \"tokenizer/unicode.h\"\n")
print("// The first code point of each run of one general category, shifted left by 8, and the category.")
print("const uint32_t unicode_runs[] = {")
runs, last = [], None
for c in range(0x110000):
    if cat[c] != last:
        runs.append(f"0x{c << 8 | NAMES.index(cat[c]):x}")
        last = cat[c]
rows(runs, 9)
print("};\nconst size_t unicode_runs_n = sizeof unicode_runs / sizeof *unicode_runs;")

punct = isolated(pre_tokenizers.Punctuation("isolated"), ALL)
ours = {c for c in ALL if cat[c][0] == "P" or (c < 128 and cat[c][0] == "S")}
table("unicode_not_punct", "Category P, but not to the Punctuation pre-tokenizer (an older Unicode).", ours - punct)
table("unicode_more_punct", "Punctuation only to the Punctuation pre-tokenizer.", punct - ours)
digits = isolated(pre_tokenizers.Digits(True), ALL)
ours = {c for c in ALL if cat[c][0] == "N"}
assert not ours - digits
table("unicode_more_digits", "Digits of a newer Unicode, to the Digits pre-tokenizer.", digits - ours)
pieces = pre_tokenizers.Whitespace().pre_tokenize_str("".join("a" + chr(c) + "a " for c in ALL))
word = {ord(p[1]) for p, _ in pieces if len(p) == 3 and p[0] == p[2] == "a"}
ours = {c for c in ALL if cat[c][0] in "LM" or cat[c] in ("Nd", "Nl", "Pc")}
assert not ours - word
table("unicode_more_word", "Word characters besides L, M, Nd, Nl and Pc (Alphabetic, Join_Control).", word - ours)

# The library's normalizers are of Unicode 9.
nfd, nfkd, strip, lower = normalizers.NFD(), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()
marks = {c for c in ALL if cat[c][0] == "M"}
bare = {c for c in ALL if c and strip.normalize_str("a" + chr(c)) == "a"}


def moves(c):
    """Whether a mark takes part in the canonical order."""
    return nfd.normalize_str(chr(c) + "\u0334") != chr(c) + "\u0334" or nfd.normalize_str("\u0301" + chr(c)) != "\u0301" + chr(c)


new = marks - bare
new |= {c for c in ALL if nfkd.normalize_str(chr(c)) != ucd.normalize("NFKD", chr(c))}
new |= {c for c in ALL if ucd.combining(chr(c)) and ucd.normalize("NFD", chr(c)) == chr(c) and not moves(c)}
table("unicode_inert", "Too new for the normalizers: neither a mark nor decomposed.", new)
table("unicode_more_marks", "Marks only to StripAccents.", bare - marks)
print("\n// Letters too new for utf8proc 2.8: a run of upper case and the distance to its lower case.")
print("const struct code_shift unicode_lower[] = {")
shifts = []
for c in ALL:
    low = lower.normalize_str(chr(c))
    if low == chr(c).lower():
        continue
    d = ord(low) - c
    if shifts and shifts[-1][1] == c - 1 and shifts[-1][2] == d:
        shifts[-1][1] = c
    else:
        shifts.append([c, c, d])
rows([f"{{0x{a:x}, 0x{b:x}, {d}}}" for a, b, d in shifts], 4)
print("};\nconst size_t unicode_lower_n = sizeof unicode_lower / sizeof *unicode_lower;")

# BertNormalizer, which has tables of its own, of another Unicode.
bert = lambda **k: normalizers.BertNormalizer(**{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False), **k})
clean, accents = bert(clean_text=True), bert(strip_accents=True)
gone = {c for c in ALL if clean.normalize_str("a" + chr(c) + "b") == "ab"}
ours = {c for c in ALL if cat[c] in ("Cc", "Cf", "Co")}
assert gone - ours == {0xFFFD}
table("unicode_bert_kept", "Controls and formats that BertNormalizer keeps.", ours - gone - {9, 10, 13})
bare = {c for c in ALL if accents.normalize_str("a" + chr(c)) == "a"}
marks = {c for c in ALL if cat[c] == "Mn"}
table("unicode_bert_not_mn", "Marks of category Mn, but not to BertNormalizer.", marks - bare)
table("unicode_bert_mn", "Of category Mn only to BertNormalizer.", bare - marks)
