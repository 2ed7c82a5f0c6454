#!/usr/bin/env python3
"""Compares `mlxcel template` with jinja2, over more cases than tests/fixtures could hold.

    pip install jinja2
    python tools/compare_jinja.py random [--seed N] [--count N]   # made-up templates
    python tools/compare_jinja.py templates DIR                   # DIR/*.jinja, many conversations

The reference is that of make_chat_fixtures.py. Where both refuse, they agree: messages differ.
Differences are printed; the exit code says whether there were any. With --keep FILE, `random`
writes the cases on which both agree there, as a test reads them (tests/fixtures/chat/random.jsonl
is such a sample).
"""
import argparse
import copy
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import make_chat_fixtures as fixtures

CONTEXT = {
    **fixtures.CONTEXT,
    "i": -3, "zero": 0, "g": 0.1, "huge": 1e300, "no": False, "w": "caf\u00e9 \u1e9e \u0130\u01c5\ufb01 \u03a3\u03a3. \u2160\u24b6\u00aa\u0661\u00b2\u00bd",
    "sp": "\x1c a\u00a0\u2028b\x85\t ", "q": "it's \"q\" \\ \x07\u200b\U000e0001", "text": "The quick brown-fox jumps over the lazy dog, twice. And\nthen some\n\n  more.",
    "ll": [[1, 2], [3], []], "ds": [{"k": "b", "v": 2, "o": {"p": "x"}}, {"k": "A", "v": 1, "o": {"p": "Y"}}, {"k": "B", "v": 2, "o": {"p": None}}],
    "mixed": [1, "1", 1.0, True, None, [1], {"a": 1}], "words": ["b", "A", "a", "B", "\u00e9", ""], "html": "<p>a &amp; b &lt;c&gt;</p> <!-- x --> http://a.org/x?y=1&z=2 me@b.co",
}

WORDS = ["a", "abc", "Hello World", " x ", "", "a,b,,c", "\u00e9\u4f60\U0001f600", "\u00df\ufb01\u0149", "\u0130I\u0131", "\u0391\u03a3 \u03a3", "\u01c5x \u01c6",
         "%s-%d", "{} {0}", "<b>&\"'</b>", "a\\nb\\n", "\\ta\\r\\nb", "x\\u2028y\\x85z\\x1c", "'", "12", "-7", " 42 ", "3.5", "1e3", "0x1F", "0b11", "1_0", "inf", "nan",
         "\u0661\u0662", "\u00b2", "\u00bd", "\u2167", "\u24b6\u24d0", "\u00aa\u02b0", "aB cD", "THE END", "lower", "a-b_c d", "a.b.c", "k", "v", "role", "\u200b", "\\x00", "\U0001d7d8", "\u0345", "\u1f80"]


class Maker:
    """Makes expressions and templates, most of which are meaningful."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = []

    def one(self, *of):
        return self.r.choice(of)

    def text(self, depth):
        r = self.r.random()
        if depth <= 0 or r < .5:
            if self.r.random() < .4:
                return self.one("s", "u", "x", "lines", "w", "sp", "q", "text", "html", "words[2]", "m[0].role")
            quote = self.one("'", '"')
            return quote + self.r.choice(WORDS).replace(quote, "") + quote
        if r < .7:
            return self.method(depth)
        if r < .9:
            return self.filtered(depth)
        return self.one(f"({self.text(depth - 1)} ~ {self.any(depth - 1)})", f"({self.text(depth - 1)} + {self.text(depth - 1)})",
                        f"{self.text(depth - 1)}[{self.slice(depth)}]", f"({self.text(depth - 1)} * {self.small()})",
                        f"({self.text(depth - 1)} if {self.any(depth - 1)} else {self.text(depth - 1)})",
                        f"('{self.percent()}' % ({self.any(depth - 1)},))", f"'{self.braces()}'.format({self.any(depth - 1)}, k={self.any(depth - 1)})")

    def percent(self):
        return self.one("%", "%-", "%+", "% ", "%0", "%#", "%05", "%8", "%-8", "%.2", "%8.3", "%+.0", "%#.0", "%08.2") + self.one(*"sdrfxXoegGEciaF")

    def braces(self):
        field = self.one("", "0", "k", "0!r", "k!s", "0!a", "k!r")
        spec = self.one("", ":", ":5", ":>8", ":^9", ":*<7", ":=+8", ":08", ":,", ":_", ":+", ": ", ":#", ":.2", ":.0", ":10.3", ":-<+9,", ":x^12_")
        return "<{" + field + spec + (self.one("", *"sdfxXobegGE%cnF") if spec else "") + "}>"

    def small(self):
        return self.one("0", "1", "2", "3", "-1", "-2", "5", "7", "n", "i", "zero", "true", "l|length")

    def number(self, depth):
        r = self.r.random()
        if depth <= 0 or r < .5:
            return self.one(self.small(), "f", "g", "big", "2.5", "1e16", "0.1", "1e-7", "10", "100", "-0.0", "huge", "255", "1.0", "2.675", "123456789.125")
        if r < .8:
            return self.one(f"({self.number(depth - 1)} {self.one('+', '-', '*', '/', '//', '%')} {self.number(depth - 1)})", f"({self.number(0)} ** {self.small()})")
        return self.one(f"(-{self.number(depth - 1)})", f"({self.text(depth - 1)}|length)", f"({self.number(depth - 1)}|round({self.small()}))",
                        f"({self.number(depth - 1)}|abs)", f"({self.any(depth - 1)}|int)", f"({self.any(depth - 1)}|float)", f"({self.list(depth - 1)}|sum)",
                        f"({self.text(depth - 1)}|int(base={self.one('2', '8', '10', '16', '0', '36')}))", f"{self.text(depth - 1)}.{self.one('find', 'rfind', 'count', 'index')}({self.text(0)})",
                        f"({self.number(depth - 1)}|round({self.small()}, '{self.one('ceil', 'floor', 'common')}'))")

    def list(self, depth):
        r = self.r.random()
        if depth <= 0 or r < .5:
            return self.one("l", "e", "m", "ll", "ds", "mixed", "words", "[1, 2, 3]", "(1, 2)", "['b', 'A']", "range(5)", "d", "ds[0]", "()", "d.keys()", "d.items()", "words[1:4]")
        if r < .7:
            return "[" + ", ".join(self.any(depth - 1) for _ in range(self.r.randrange(4))) + "]"
        return self.one(f"({self.filtered_list(depth)})", f"{self.list(depth - 1)}[{self.slice(depth)}]", f"({self.list(depth - 1)} + {self.list(depth - 1)})",
                        f"({self.list(depth - 1)} * {self.small()})", f"{self.text(depth - 1)}.{self.one('split', 'rsplit')}({self.split_args()})",
                        f"{self.text(depth - 1)}.{self.one('partition', 'rpartition')}({self.text(0)})", f"{self.text(depth - 1)}.splitlines({self.one('', 'true')})",
                        f"range({self.small()}, {self.small()}, {self.small()})")

    def split_args(self):
        return self.one("", "None", "','", "' '", "None, 1", "',', 1", "' ', maxsplit=2", "sep=','", "maxsplit=1", "'b'", self.text(0), f"{self.text(0)}, {self.small()}")

    def slice(self, depth):
        part = lambda: self.one("", "", self.small(), "none", str(self.r.randrange(-9, 9)))
        return self.one(str(self.r.randrange(-4, 5)), f"{part()}:{part()}", f"{part()}:{part()}:{part()}", f"::{part()}")

    def dict(self, depth):
        if depth <= 0 or self.r.random() < .5:
            return self.one("d", "ds[0]", "m[1]", "{}", "{'a': 1}", "ds[1].o", "{1: 'x', none: 2, 1.5: [], true: 'y'}")
        return "{" + ", ".join(f"{self.one(self.text(0), self.number(0))}: {self.any(depth - 1)}" for _ in range(self.r.randrange(4))) + "}"

    def any(self, depth):
        r = self.r.random()
        if self.names and r < .15:
            return self.r.choice(self.names)
        if r < .45:
            return self.text(depth)
        if r < .6:
            return self.number(depth)
        if r < .75:
            return self.list(depth)
        if r < .82:
            return self.dict(depth)
        if r < .9 or depth <= 0:
            return self.one("true", "none", "false", "missing", "t", "z", "no", "d.missing", "(none)", "m[1].content")
        return self.one(self.logic(depth), self.access(depth), f"({self.any(depth - 1)}|{self.one('default', 'd')}({self.any(depth - 1)}{self.one('', ', true')}))")

    def logic(self, depth):
        a, b = self.any(depth - 1), self.any(depth - 1)
        return "(" + self.one(f"{a} and {b}", f"{a} or {b}", f"not {a}", f"{a} {self.one('==', '!=', '<', '>', '<=', '>=')} {b}", f"{a} {self.one('in', 'not in')} {b}",
                              f"{a} is {self.one('', 'not ')}{self.test(depth)}", f"{a} if {b}", f"{a} < {b} <= {self.number(0)}") + ")"

    def test(self, depth):
        return self.one("defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping", "sequence", "iterable", "callable", "odd", "even",
                        "lower", "upper", "escaped", "filter", "test", f"divisibleby({self.small()})", f"divisibleby {self.small()}", f"sameas({self.any(0)})", f"in({self.list(0)})",
                        f"in {self.list(0)}", f"eq({self.any(0)})", f"equalto {self.any(0)}", f"ne({self.any(0)})", f"gt({self.number(0)})", f"ge {self.number(0)}", f"lt({self.any(0)})", "le(2)",
                        f"greaterthan 1", f"lessthan({self.number(0)})", "==(1)", "nosuch")

    def access(self, depth):
        of = self.one(self.list, self.dict, self.any)(depth - 1)
        return of + self.one("[0]", "[-1]", ".k", ".o.p", "['k']", ".a", "[1]", ".get('a')", f".get({self.any(0)}, {self.any(0)})", ".items()", ".keys()", ".values()", f"[{self.any(0)}]", ".0",
                             f".count({self.any(0)})", f".index({self.any(0)})", ".copy()", ".append(1)", ".pop()", ".update({})", ".real", ".imag", ".is_integer()", ".bit_length()", ".__class__", "._x",
                             ".numerator", ".as_integer_ratio()", ".conjugate()", ".hex()", ".denominator", ".bit_count()", ".start", ".stop", ".step", ".sort()", ".nosuch", ".setdefault('a')", "['items']")

    def method(self, depth):
        of = self.text(depth - 1)
        t = lambda: self.text(depth - 2)
        return of + "." + self.one(
            "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", f"strip({self.one('', t())})", f"lstrip({self.one('', t())})", f"rstrip({self.one('', t())})",
            f"replace({t()}, {t()})", f"replace({t()}, {t()}, {self.small()})", f"join({self.one(t(), 'words', self.list(depth - 1))})", f"center({self.small()}{self.one('', ', ' + t())})",
            f"ljust({self.one('9', self.small())}{self.one('', ', ' + t())})", f"rjust({self.one('9', self.small())}, '*')", f"zfill({self.one('9', self.small())})", f"expandtabs({self.one('', self.small())})",
            f"removeprefix({t()})", f"removesuffix({t()})", f"startswith({self.one(t(), '(' + t() + ', ' + t() + ')')}{self.one('', ', ' + self.small())})", f"endswith({t()})",
            *[f"is{c}()" for c in ("alpha", "digit", "decimal", "numeric", "alnum", "space", "upper", "lower", "title", "identifier", "printable", "ascii")],
            f"count({t()}{self.one('', ', 1', ', -3, -1')})", f"find({t()}{self.one('', ', 1', ', -3')})", f"split({self.split_args()})", f"format({t()}, k=1)", f"format_map({self.dict(0)})",
            f"translate({self.one('{97: 98}', '{97: none, 98: 120}', '{}', self.dict(0))})", f"index({t()})", f"rindex({t()})", f"maketrans({t()}, {t()})")

    FILTERS = """upper lower title capitalize trim trim($t) trim(chars=$t) string e escape forceescape safe striptags wordcount length count first last list list|length reverse|list
    center center($i) center(width=20) indent indent($i) indent($i,true) indent(2,blank=true) indent($t) indent(first=true) replace($t,$t) replace($t,$t,$i) replace('',$t) truncate
    truncate($n) truncate($n,true) truncate($n,false,$t) truncate(9,leeway=0) truncate(length=5,end='',leeway=$i) wordwrap wordwrap($n) wordwrap($n,false) wordwrap(8,wrapstring='|')
    wordwrap($n,break_on_hyphens=false) urlencode urlize urlize(12) urlize(10,true) urlize(target='_blank') urlize(rel='a',nofollow=true) urlize(extra_schemes=['ftp:','x-y://']) int int($a)
    int(0,16) int(base=$i) float float($a) float(default=$a) round round($i) round($i,'floor') round(precision=1,method='ceil') abs default($a) default($a,true) default(default_value=$a,boolean=true)
    d d($a) join join($t) join($t,attribute='k') join(', ','v') sort sort(true) sort(reverse=true,case_sensitive=true) sort(attribute='k') sort(attribute='o.p') sort(attribute='v,k') sort(false,true,'k')
    unique|list unique(true)|list unique(attribute='v')|list min max min(true) max(attribute='v') min(attribute='k',case_sensitive=true) sum sum('v') sum(attribute='v') sum(start=$a) sum(start=[])
    map('$f')|list map(attribute='$k')|list map(attribute='$k',default=$a)|list map('$f',$a)|list map('default',$a)|join(',') select|list reject|list select('$T')|list reject('$T')|list select('$T',$a)|list
    selectattr('$k')|list rejectattr('$k')|list selectattr('$k','$T')|list rejectattr('$k','$T',$a)|list selectattr('$k','equalto',$a)|list groupby('$k')|list groupby('$k',default=$a)|list
    groupby(attribute='$k',case_sensitive=true)|list batch($n)|list batch($n,$a)|list batch(linecount=2,fill_with=0)|list slice($n)|list slice($n,$a)|list dictsort dictsort(true) dictsort(false,'value')
    dictsort(by='value',reverse=true) dictsort(reverse=true) items|list attr('$k') attr('upper') filesizeformat filesizeformat(true) filesizeformat(binary=$a) format($a) format($a,$a) format(a=$a)
    pprint tojson tojson(indent=$i) tojson(indent=2) tojson(ensure_ascii=true) tojson(sort_keys=true) tojson(separators=(',',':')) tojson(2) tojson(true) tojson(indent=$t) xmlattr xmlattr(false)
    first|upper last|default($a) select('defined')|map('upper')|list map('length')|list map('first')|list map('int')|sum map('trim')|join('-') list|last list|sort nosuch upper($a) length($a) join($t,$t,$t)
    map|list select($a)|list trim($a,$a) replace($a) sort(foo=1) reverse first|first string|length batch(3)|map('join')|list map('string')|map('upper')|list slice(2)|map('list')|list
    map('$f')|first map(attribute='$k')|first select('$T')|first selectattr('$k','$T',$a)|first unique|first batch($n)|first slice($n)|first items|first map('$f',$a)|join map('$f')|map('$f')|first
    select('$T')|map('$f')|first select|unique|batch(2)|map('join')|join('/') groupby('$k')|map(attribute='grouper')|join map('abs')|sum""".split()

    def fill(self, f, depth):
        sub = {"t": lambda: self.text(depth - 2), "i": self.small, "n": lambda: self.one("1", "2", "3", "5", "8", "11", "16", "20", self.small()), "a": lambda: self.any(depth - 2),
               "f": lambda: self.one("upper", "string", "length", "int", "float", "abs", "trim", "first", "tojson", "list", "round", "title", "replace", "default", "nosuch", "e", "string"),
               "k": lambda: self.one("k", "v", "o.p", "o", "role", "content", "0", "1", "a", "nope", "k.0", "calls.0.name", "n"),
               "T": lambda: self.one("odd", "even", "string", "none", "defined", "number", "mapping", "eq", "gt", "lt", "in", "equalto", "true", "divisibleby", "sameas", "nosuch", "ne", "iterable", "lower", "escaped")}
        return re.sub(r"\$(\w)", lambda m: sub[m[1]](), f)

    def filtered(self, depth):
        return f"({self.any(depth - 1)}|{self.fill(self.r.choice(self.FILTERS), depth)})"

    def filtered_list(self, depth):
        f = self.fill(self.r.choice([f for f in self.FILTERS if "list" in f or "sort" in f]), depth)
        return f"{self.list(depth - 1)}|{f}"

    # Statements

    def space(self):
        return self.one("", "", " ", "\n", "\n\n", "  ", "\n  ", "\t", " \n ", "a\n", "x ", "\n y\n", "z", "\r\n", "  \n\t")

    def tag(self, inside):
        return "{%" + self.one("", "", "", "-", "+") + self.one(" ", " ", "") + inside + self.one(" ", " ", "") + self.one("", "", "", "-", "+") + "%}"

    def body(self, depth, inner=None):
        kept = list(self.names)
        if inner:
            self.names += inner
        out = self.space()
        for _ in range(self.r.randrange(1, 4)):
            out += self.statement(depth) + self.space()
        self.names = kept
        return out

    def say(self, depth):
        return "{{" + self.one("", "-", "", " ") + " " + self.any(depth) + " " + self.one("", "-", "", " ") + "}}"

    def statement(self, depth):
        r = self.r.random()
        if depth <= 0 or r < .3:
            return self.say(min(depth, 2))
        if r < .4:
            more = "".join(self.tag(f"elif {self.any(1)}") + self.body(depth - 1) for _ in range(self.r.randrange(2)))
            more += self.tag("else") + self.body(depth - 1) if self.r.random() < .5 else ""
            return self.tag(f"if {self.any(2)}") + self.body(depth - 1) + more + self.tag("endif")
        if r < .6:
            return self.loop(depth)
        if r < .7:
            name = self.one("v1", "v2", "n", "s")
            self.names.append(name)
            return self.one(self.tag(f"set {name} = {self.any(2)}"), self.tag(f"set {name}{self.one('', ' | upper', ' | trim | replace(1, 2)')}") + self.body(depth - 1) + self.tag("endset"),
                            self.tag(f"set {name}, v3 = {self.any(1)}, {self.any(1)}"), self.tag(f"set {name} = {self.any(1)}, {self.any(1)}"))
        if r < .76:
            return self.tag(f"with {self.one('v4 = ' + self.any(1), 'v4 = 1, v5 = v4', '')}") + self.body(depth - 1, ["v4"]) + self.tag("endwith")
        if r < .86:
            return self.macro(depth)
        if r < .88:
            return self.tag("set ns = namespace(a=0, b=l|map('string'))") + self.tag(f"for c in {self.list(1)}{self.one('', '|map(' + chr(39) + 'string' + chr(39) + ')')} if {self.one('ns.a < 2', 'not ns.a', 'c != ns.a', 'c in ns.b')}") + \
                self.tag("set ns.a = ns.a + 1") + "{{ " + self.r.choice(self.LOOP) + " }}" + self.tag("endfor") + "{{ ns.a }}{{ ns.b|first }}{{ ns.b|join }}"
        if r < .9:
            return self.tag("set ns = namespace(a=0, b=[])") + self.tag(f"for c in {self.list(1)}") + self.tag(f"set ns.a = {self.one('ns.a + 1', 'c', 'loop.index', self.any(1))}") + \
                self.tag("set ns.b = ns.b + [c]") + self.tag("endfor") + "{{ ns.a }}{{ ns.b }}"
        return self.one("{#" + self.one("", "-", "+") + " c " + self.one("", "-", "+") + "#}", self.tag("raw") + "{{ a }}" + self.space() + "{% x %}" + self.tag("endraw"),
                        self.tag(f"filter {self.one('upper', 'trim', 'replace(1, 2) | lower', 'indent(2)', 'e', 'wordwrap(5)')}") + self.body(depth - 1) + self.tag("endfilter"),
                        self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"), self.tag(f"block b{self.r.randrange(99)}{self.one('', ' scoped')}") + self.body(depth - 1) + self.tag("endblock"),
                        self.tag(f"autoescape {self.one('true', 'false')}") + self.body(depth - 1) + self.tag("endautoescape"), self.tag(f"print {self.any(1)}, {self.any(1)}"))

    LOOP = ["loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.first", "loop.last", "loop.length", "loop.depth", "loop.depth0", "loop.previtem", "loop.nextitem",
            "loop.cycle('x', 'y')", "loop.changed(c)", "c", "loop.nosuch", "loop"]

    def loop(self, depth):
        jump = self.one("", "", "", self.tag(f"if {self.one('loop.index == 2', 'c == 1', self.any(1))}") + self.tag(self.one("break", "continue")) + self.tag("endif"))
        other = self.tag("else") + self.body(depth - 1) if self.r.random() < .3 else ""
        head = self.one(f"for c in {self.list(2)}", f"for c in {self.any(2)}", f"for c in {self.list(1)} if {self.one('c', 'c is string', 'loop is defined', self.any(1))}", f"for c, k in {self.one('d.items()', 'ds|map(attribute=' + chr(39) + 'o' + chr(39) + ')', 'll', 'd|dictsort')}",
                        f"for k, c in {self.list(1)}|{self.one('batch(2)', 'groupby(' + chr(39) + 'k' + chr(39) + ')', 'items')}", f"for c in {self.list(2)}|{self.fill(self.one('map(' + chr(39) + '$f' + chr(39) + ')', 'select(' + chr(39) + '$T' + chr(39) + ')', 'reverse', 'unique', 'batch(2)', 'slice(3)'), 1)}")
        if self.r.random() < .1:
            return self.tag("for c in [[1, [2]], [], [[[3]]]] recursive") + "<{{ loop.depth }}{{ loop(c) if c is iterable else c }}>" + jump + self.tag("endfor")
        body = "".join("{{ " + self.r.choice(self.LOOP) + " }}," for _ in range(self.r.randrange(4)))
        return self.tag(head) + body + jump + self.body(depth - 1, ["c"]) + other + self.tag("endfor")

    def macro(self, depth):
        name, v = f"m{self.r.randrange(3)}", self.any(0)
        params = self.one("", "a", "a, b=2", "a=c, b=a", f"a={v}, b={self.any(0)}", "a, b")
        args = self.one("", "1", self.any(1), f"{self.any(1)}, {self.any(1)}", "b=1, a=2", "1, 2, 3", "x=1", "*l", "**d", "*[1], **{'b': 3}", "1, *words")
        inside = self.one("", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1, a) }}", "{{ a }}{{ b }}", "{{ caller is defined }}")
        out = self.tag(f"macro {name}({params})") + inside + self.body(depth - 1, ["a", "b"]) + self.tag("endmacro")
        if self.r.random() < .4:
            return out + self.tag(f"call{self.one('', '(p)', '(p, q=3)', '(*p)')} {name}({args})") + "{{ p }}" + self.body(depth - 1) + self.tag("endcall")
        return out + "{{ " + self.one(f"{name}({args})", f"{name}({args}) | upper", f"{name}.{self.one('name', 'arguments', 'catch_kwargs', 'catch_varargs', 'caller', 'nope')}", f"{name} is callable") + " }}"

    def template(self):
        self.names = []
        return self.one(lambda: "{{ " + self.any(3) + " }}", lambda: "{{ " + self.filtered(2) + " }}", lambda: "{{ " + self.method(2) + " }}", lambda: self.body(2), lambda: self.body(3))()


def engine(program, flags, rows):
    """What mlxcel makes of the rows: one object each."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1795955696"}
    with tempfile.TemporaryFile("w+b") as f:
        for r in rows:
            f.write(json.dumps(r).encode() + b"\n")
        f.seek(0)
        out = subprocess.run([program, "template", *flags], stdin=f, stdout=subprocess.PIPE, env=env, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def agree(want, got):
    if "expected" in want:
        return want["expected"] == got.get("text")
    return "error" in got and (not want["raised"] or want["error"] == got["error"].split("\n")[0][:200])


def show(name, source, want, got):
    print(f"--- {name}\n{source if len(source) < 2000 else ''}\n want: {want.get('expected', '')!r} {want.get('error', '')}\n got:  {got.get('text', '')!r} {got.get('error', '')}")


def shown_address(want):
    return re.search(r" at 0x[0-9a-f]|<(function|bound|built-in|generator|class|method)", want.get("expected", "") + want.get("error", ""))


def random_cases(args):
    maker, rows = Maker(args.seed), []
    while len(rows) < args.count:
        t = maker.template()
        try:
            t.encode()
        except UnicodeEncodeError:
            continue
        rows.append(t)
    context = json.loads(json.dumps(CONTEXT))
    got = engine(args.mlxcel, ["--raw"], [{"template": t, "context": context} for t in rows])
    bad, kept, both = 0, [], 0
    for t, g in zip(rows, got):
        want = fixtures.render(t, copy.deepcopy(context))  # filters such as indent change lists
        if shown_address(want) or "limit" in g.get("error", "") or "\ud800" <= max(want.get("expected", "") or "a") <= "\udfff":
            continue
        both += "error" in want
        if agree(want, g):
            kept.append({"template": t, **({"expected": want["expected"]} if "expected" in want else want)})
        else:
            bad += 1
            if bad <= args.show:
                show("", t, want, g)
    print(f"{len(rows)} templates, {both} refused by jinja2, {bad} differ")
    if args.keep:
        maker.r.shuffle(kept)
        short = [k for k in kept if len(k["template"]) < 300 and len(k.get("expected", "")) < 300]
        size = list(itertools.accumulate(len(json.dumps(k)) + 1 for k in short))
        args.keep.write_text(fixtures.lines([context] + [k for k, n in zip(short, size) if n < args.keep_bytes]))
    return bad


def talks():
    """Conversations: those of the fixtures, and each with other flags, tools and variables."""
    out = {}
    extra = {"": {}, " think": {"kwargs": {"enable_thinking": True, "thinking": True, "reasoning_effort": "high", "thinking_budget": 512}},
             " no think": {"kwargs": {"enable_thinking": False, "thinking": False, "reasoning_effort": "low", "thinking_budget": 0}},
             " tools": {"tools": [fixtures.WEATHER, *MORE_TOOLS]}, " date": {"kwargs": {"date_string": "01 Jan 2027", "current_date": "2027-01-01", "keep_past_thinking": True, "builtin_tools": ["web_search"], "model_identity": "I", "xml_tools": MORE_TOOLS, "custom_instructions": "C", "truncate_history_thinking": False, "clear_thinking": False, "preserve_thinking": True}},
             " documents": {"documents": [{"title": "A", "text": "First \u00e9.", "doc_id": "1"}, {"title": "B", "text": "Second", "doc_id": "2"}], "kwargs": {"citation_mode": "accurate", "citations": True, "safety_mode": "STRICT"}}}
    for name, t in {**fixtures.TALKS, **MORE_TALKS}.items():
        for more, e in extra.items():
            if more and t.get("go_on"):
                continue
            for generate in ([False] if t.get("go_on") else [False, True]):
                out[f"{name}{more}{' >' if generate else ''}"] = {**t, **e, "generate": generate, "kwargs": {**t.get("kwargs", {}), **e.get("kwargs", {})}}
    return out


MORE_TOOLS = [
    {"type": "function", "function": {"name": "search", "description": "Search the web.", "parameters": {"type": "object", "properties": {
        "query": {"type": "string", "description": "What to look for"}, "sites": {"type": "array", "items": {"type": "string"}, "description": "Only these"},
        "filter": {"type": "object", "properties": {"lang": {"type": ["string", "null"]}, "safe": {"type": "boolean", "default": True}, "score": {"type": "number", "default": 1.0}}, "required": ["lang"]},
        "kind": {"enum": ["a", "b"], "type": "string"}, "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "null": {"type": "string", "nullable": True}}, "required": ["query", "filter"]},
        "return": {"type": "object", "properties": {"hits": {"type": "array"}}}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}},
]


def more_talks():
    said, call = fixtures.said, fixtures.call
    search = {"type": "function", "id": "call00002", "function": {"name": "search", "arguments": {"query": "a \"b\" <c> & 'd' \\ \n\u00e9\U0001f600", "sites": ["x"], "filter": {"lang": None, "safe": True, "score": 1.0},
              "n": 0, "big": 9007199254740993, "small": 1e-07, "neg": -2.5, "empty": {}, "none": []}}}
    bare = {"name": "weather", "arguments": {"city": "Paris"}}
    image = [{"type": "image"}, {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "video"}, {"type": "audio"}]
    result = lambda text, id="call00001": {"role": "tool", "tool_call_id": id, "name": "weather", "content": text}
    return {
        "system only": dict(messages=[said("system", "Be brief.")]),
        "two systems": dict(messages=[said("system", "One."), said("system", "Two."), said("user", "Hi"), said("system", "Three."), said("user", "Go")]),
        "developer": dict(messages=[said("developer", "Rules."), said("user", "Hi")]),
        "narrator": dict(messages=[said("user", "Hi"), said("narrator", "A door opens.")]),
        "empty": dict(messages=[said("system", ""), said("user", ""), said("assistant", ""), said("user", "x")]),
        "spaces": dict(messages=[said("system", "  \n system \n\n"), said("user", "\n\n  hi\t\r\n\u00a0\u3000"), said("assistant", " \n there \n"), said("user", " ")]),
        "parallel": dict(messages=[fixtures.ASK, said("assistant", "", tool_calls=[call(city="Paris"), search]), result("rain"), result("none", "call00002"), said("assistant", "Rain."), said("user", "Thanks")], tools=[fixtures.WEATHER, *MORE_TOOLS]),
        "call text arguments": dict(messages=[fixtures.ASK, said("assistant", "", tool_calls=[{**call(), "function": {"name": "weather", "arguments": "{\"city\": \"Paris\"}"}}]), result("rain")], tools=[fixtures.WEATHER]),
        "call without content": dict(messages=[fixtures.ASK, said("assistant", None, tool_calls=[call(city="Paris")]), result("rain"), said("assistant", "It rains."), said("user", "And now?")], tools=[fixtures.WEATHER]),
        "bare call": dict(messages=[fixtures.ASK, said("assistant", "", tool_calls=[bare]), result("rain")], tools=[fixtures.WEATHER["function"]]),
        "function call": dict(messages=[fixtures.ASK, said("assistant", "", function_call=bare), {"role": "function", "name": "weather", "content": "rain"}, {"role": "ipython", "content": "x"}]),
        "no arguments": dict(messages=[said("user", "Time?"), said("assistant", "", tool_calls=[{"type": "function", "id": "call00003", "function": {"name": "now", "arguments": {}}}]), result("12:00", "call00003"), said("assistant", "Noon.")], tools=MORE_TOOLS),
        "result object": dict(messages=[fixtures.ASK, said("assistant", "", tool_calls=[call(city="Paris")]), {**result(""), "content": {"sky": "clear", "t": [1.0, None]}}, said("assistant", "Ok")], tools=[fixtures.WEATHER]),
        "odd contents": dict(messages=[said("user", 3), said("assistant", [1, "x"]), said("user", {"a": 1})]),
        "result parts": dict(messages=[fixtures.ASK, said("assistant", [{"type": "text", "text": "Let me."}], tool_calls=[call(city="Paris")]), {**result(""), "content": [{"type": "text", "text": "rain"}, {"type": "text", "text": "y"}]}], tools=[fixtures.WEATHER]),
        "orphan result": dict(messages=[said("user", "Hi"), result("stray")]),
        "reasoning and call": dict(messages=[said("system", "Be exact."), fixtures.ASK, said("assistant", "", reasoning_content="I need it.", tool_calls=[call(city="Paris")]), result("rain"), said("assistant", "It rains.", reasoning_content="So.\n")], tools=[fixtures.WEATHER]),
        "thinking": dict(messages=[said("user", "2+2?"), said("assistant", "4", thinking="Older name."), said("user", "ok")]),
        "thinking parts": dict(messages=[said("user", "2+2?"), said("assistant", [{"type": "thinking", "thinking": "Two."}, {"type": "text", "text": "4"}]), said("user", "ok")]),
        "unclosed thought": dict(messages=[said("user", "2+2?"), said("assistant", "more</think>6"), said("user", "?"), said("assistant", "<think>x")]),
        "media": dict(messages=[said("user", image), said("assistant", [{"type": "text", "text": "A cat."}]), said("user", [{"type": "text", "text": "Sure?"}])]),
        "text parts": dict(messages=[said("system", [{"type": "text", "text": "S1"}, {"type": "text", "text": "S2"}]), said("user", ["a", "b"]), said("assistant", [{"type": "text", "text": "x"}])]),
        "no content": dict(messages=[{"role": "user"}]),
        "names": dict(messages=[{**said("user", "Hi"), "name": "Zo\u00eb"}, {**said("assistant", "Yes"), "name": "Bot", "weight": 0, "prefix": True}]),
        "continue system": dict(messages=[said("system", "x"), said("user", "Count"), said("assistant", "one, two")], go_on=True),
        "long": dict(messages=[m for i in range(12) for m in (said("user", f"Question {i}?"), said("assistant", f"Answer {i}.", **({"reasoning_content": "r"} if i % 3 == 0 else {})))] + [said("user", "End")]),
    }


MORE_TALKS = more_talks()


def template_cases(args):
    cases, bad, total, refused = talks(), 0, 0, 0
    files = sorted(args.folder.glob("*.jinja"))
    for path in files:
        source = path.read_bytes().decode()
        want = [fixtures.talk(source, t) for t in cases.values()]
        got = engine(args.mlxcel, ["--jsonl"], [
            {"template": source, "messages": t["messages"], "tools": t.get("tools"), "documents": t.get("documents"), "add_generation_prompt": t["generate"],
             "continue_final_message": t.get("go_on", False), "kwargs": {**fixtures.TOKENS, **t["kwargs"]}} for t in cases.values()])
        wrong = [(name, w, g) for name, w, g in zip(cases, want, got) if not agree(w, g)]
        total += len(cases)
        refused += sum("error" in w for w in want)
        bad += len(wrong)
        for name, w, g in wrong[:args.show]:
            show(f"{path.name}: {name}", "", w, g)
    print(f"{len(files)} templates, {total} cases, {refused} refused by jinja2, {bad} differ")
    return bad


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--mlxcel", default=str(pathlib.Path(__file__).resolve().parent.parent / "build/mlxcel"))
    args.add_argument("--show", type=int, default=20, help="how many differences to print (of each template)")
    kinds = args.add_subparsers(dest="kind", required=True)
    r = kinds.add_parser("random")
    r.add_argument("--seed", type=int, default=1)
    r.add_argument("--count", type=int, default=5000)
    r.add_argument("--keep", type=pathlib.Path)
    r.add_argument("--keep-bytes", type=int, default=150000)
    kinds.add_parser("templates").add_argument("folder", type=pathlib.Path)
    args = args.parse_args()
    return (random_cases if args.kind == "random" else template_cases)(args) > 0


if __name__ == "__main__":
    sys.exit(main())
