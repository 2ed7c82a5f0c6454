#!/usr/bin/env python3
"""Writes src/chat/jinja/letter_data.c: what Python's str knows of characters and utf8proc's general
categories and simple case mappings do not tell, and the named entities of HTML.

    python tools/make_letter_tables.py      (needs libutf8proc.so.2)
"""
import ctypes
import html.entities
import pathlib
import unicodedata

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/chat/jinja/letter_data.c"
LIB = ctypes.CDLL("libutf8proc.so.2")
NAMES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
# Characters that only one of the two knows yet are left to utf8proc.
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
CAT = {c: NAMES[LIB.utf8proc_category(c)] for c in ALL}


def of(*categories):
    return {c for c in ALL if CAT[c] in categories}


def where(test):
    return {c for c in ALL if test(chr(c))}


def rows(items, per):
    return "".join("    " + ", ".join(items[i:i + per]) + ",\n" for i in range(0, len(items), per))


def table(name, points):
    runs = []
    for c in sorted(points):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return f"const struct letters {name} = {{(const struct letter_run[]){{\n" + rows([f"{{0x{a:x}, 0x{b:x}}}" for a, b in runs], 5) + f"}}, {len(runs)}}};\n\n"


def casing():
    """Letters that become several in upper or title case."""
    out = []
    for c in ALL:
        up, title = chr(c).upper(), chr(c).title()
        if len(up) > 1 or len(title) > 1:
            out.append("{0x%x, {%s}, {%s}}" % (c, *(", ".join(f"0x{ord(x):x}" for x in s) for s in (up, title))))
    return f"const struct casing casings[] = {{\n{rows(out, 2)}}};\nconst size_t casings_n = {len(out)};\n\n"


def quoted(text):
    return '"' + "".join(c if " " <= c < "\x7f" and c not in '"\\' else "".join(f"\\{b:03o}" for b in c.encode()) for c in text) + '"'


def entities():
    named = sorted(html.entities.html5.items(), key=lambda e: e[0].encode())
    return f"const struct entity entities[] = {{\n{rows([f'{{{quoted(k)}, {quoted(v)}}}' for k, v in named], 4)}}};\nconst size_t entities_n = {len(named)};\n"


for mine, theirs in ((LIB.utf8proc_tolower, str.lower), (LIB.utf8proc_toupper, str.upper), (LIB.utf8proc_totitle, str.title)):
    assert all(ord(theirs(chr(c))) == mine(c) for c in ALL if len(theirs(chr(c))) == 1)
assert where(str.isalpha) == of("Lu", "Ll", "Lt", "Lm", "Lo") and where(str.isdecimal) == of("Nd")
digit = where(str.isdigit)
ignorable = where(lambda c: ("a\u03a3" + c + "a").lower()[1] == "\u03c3" and ("a\u03a3" + c).lower()[1] == "\u03c2")
assert not of("Mn", "Me", "Cf", "Lm", "Sk") - ignorable
start, further = where(str.isidentifier) - {ord("_")}, where(lambda c: ("a" + c).isidentifier())
plain = of("Lu", "Ll", "Lt", "Lm", "Lo", "Nl")
more = of("Mn", "Mc", "Nd", "Pc")
OUT.write_text("// Made by tools/make_letter_tables.py: do not edit.\n// clang-format off\n#include \"chat/jinja/letters.h\"\n\n" + "".join([
    table("other_lower", where(str.islower) - of("Ll")),
    table("other_upper", where(str.isupper) - of("Lu")),
    table("more_ignorable", ignorable - of("Mn", "Me", "Cf", "Lm", "Sk")),
    table("more_digits", digit - of("Nd")),
    table("more_numeric", where(str.isnumeric) - digit - of("Nl", "No")),
    table("more_starts", start - plain), table("no_starts", plain - start),
    table("more_further", further - plain - more), table("no_further", (plain | more) - further),
    casing(), entities()]))
