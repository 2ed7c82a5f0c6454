"""Writes src/tokenizer/uniscripts.c: the script of each code point as the UnicodeScripts pre-tokenizer of the `tokenizers`
library sees it, asked of the library itself: two characters have the same script when it doesn't cut between them.
Usage: python make_script_table.py > src/tokenizer/uniscripts.c      (needs tokenizers; takes a minute)"""
from tokenizers import pre_tokenizers

pre = pre_tokenizers.UnicodeScripts()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def same(a, b):
    return len(pre.pre_tokenize_str(chr(a) + chr(b))) == 1


# Characters of any script (the space, and what has none) cut nowhere: alone they are no piece at all. Number 0.
run, runs, faces = None, [], [None]                   # faces: one code point of each script
for c in ALL:
    if not pre.pre_tokenize_str(chr(c)):
        s = 0
    elif run and same(faces[run], c):
        s = run
    else:
        s = next((i for i, f in enumerate(faces) if f is not None and same(f, c)), len(faces))
        if s == len(faces):
            faces.append(c)
    if s != run:
        runs.append((c, s))
    run = s
print("// Made by tools/make_script_table.py: do not edit.\n// clang-format off\n#include \"tokenizer/unicode.h\"\n")
print(f"// The first code point of each run of one of {len(faces) - 1} scripts, shifted left by 8, and its number. The\n// numbers mean nothing but themselves; Hiragana and\n// Katakana count as Han; 0 is any script.")
print("const uint32_t unicode_scripts[] = {")
items = [f"0x{a << 8 | s:x}" for a, s in runs]
for i in range(0, len(items), 9):
    print("    " + ", ".join(items[i:i + 9]) + ",")
print("};\nconst size_t unicode_scripts_n = sizeof unicode_scripts / sizeof *unicode_scripts;")
