#!/usr/bin/env python3
"""Makes tests/fixtures/chat: templates, what goes in, and what jinja2 makes of it.

    pip install jinja2
    python tools/make_chat_fixtures.py [--published DIR]

The reference is jinja2 in the environment that transformers documents for chat templates: an
immutable sandbox with trim_blocks, lstrip_blocks and loop controls, tojson as json.dumps without
HTML escapes, raise_exception, strftime_now (here with the clock stopped), and a `generation` tag
that lets its body through.

language.jsonl   the language itself: the first line is the context of all, the others are
                 {"template", "expected"} or {"template", "error", "raised"}
talks.json       conversations: name -> messages, tools, documents, kwargs, flags
talks.jsonl      {"template", "talk", "expected"} or {..., "error", "raised"}
templates/       templates as published with their models (make_reply_cases.py has more there);
                 --published DIR copies those named in PUBLISHED from DIR first
"""
import argparse
import datetime
import functools
import json
import pathlib
import shutil

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/chat"
NOW = datetime.datetime(2026, 11, 29, 12, 34, 56)  # SOURCE_DATE_EPOCH=1795955696

PUBLISHED = """SmolLM2-135M-Instruct meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct
Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Qwen3-Coder google-gemma-2-2b-it HuggingFaceTB-SmolLM3-3B
mistralai-Mistral-Nemo-Instruct-2407 deepseek-ai-DeepSeek-V3.1 GLM-4.6 ibm-granite-granite-4.0
openai-gpt-oss-120b microsoft-Phi-3.5-mini-instruct""".split()


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("through"), [], [], body).set_lineno(line)

    def through(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


class Dict:
    """The function dict: no class, whose attributes could be reached."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args):
        return dict.fromkeys(*args)


class Namespace(jinja2.utils.Namespace):
    """One without names that begin with an underscore."""

    def __init__(*args, **kwargs):
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(args[0], attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


@functools.lru_cache(64)
def template(source):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    env.globals["dict"] = Dict()
    env.globals["namespace"] = Namespace
    return env.from_string(source)


def render(source, context):
    try:
        return {"expected": template(source).render(**context)}
    except Exception as e:  # whatever Python raises, the engine must refuse
        return {"error": str(e).split("\n")[0][:200],
                "raised": type(e) is jinja2.exceptions.TemplateError}


CONTEXT = {
    "n": 7, "f": 2.5, "t": True, "z": None, "e": [], "l": [3, 1, 2], "s": " Hello, World ",
    "u": "\u00e9\u4f60\U0001f600\u00df", "x": "<b>&'\"</b>", "lines": "a\nb\n\nc\n",
    "big": 9007199254740993, "d": {"b": 2, "a": 1, "C": 3, "items": "own"},
    "m": [{"role": "user", "content": "hi", "n": 1.0},
          {"role": "assistant", "content": None, "calls": [{"name": "f", "args": {"a": [1, None]}}]},
          {"role": "tool", "content": "42"}],
}

LANGUAGE = r"""
{{ n }} {{ f }} {{ z }} {{ t }} {{ not t }} {{ l }} {{ d }} {{ u }} {{ [u, x, lines] }} {{ ('a',) }} {{ () }}
{{ 1.0 }} {{ 1e16 }} {{ 123456789.125 }} {{ 1e-5 }} {{ 0.0001 }} {{ 0.1 + 0.2 }} {{ 1e22 }} {{ -0.0 }} {{ 1e308 * 10 }}
{{ big + 1 }} {{ 2 ** 64 }} {{ 2 ** 200 // 3 ** 50 }} {{ -(2 ** 70) % 1000 }} {{ 10 ** 30 / 7 }} {{ 2 ** 64 > 1e19 }} {{ 2**63 - 1 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ -7.5 % 2 }} {{ -7.5 // 2 }} {{ 8 / 2 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 1 // 0 }}
{{ 'a' ~ 1 ~ none ~ [1] }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ 'a' + 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ (1, 2) == [1, 2] }} {{ 'a' in d }} {{ 3 not in l }}
{{ 1 < 'a' }}
{{ 0 or 'x' }} {{ 1 and 2 }} {{ not 1 in l }} [{{ 'x' if false }}] {{ 'a' if n > 9 else 'b' if n else 'c' }}
[{{ missing }}] {{ missing is defined }} {{ d.missing }} {{ missing ~ 'a' }} {{ missing | default('x') }} {{ '' | default('x', true) }}
{{ missing.attr }}
{{ d.missing.more }}
{{ missing + 1 }}
{{ none.foo }}
{{ d.items is callable }} {{ d['items'] }} {{ d.get('a') }} {{ d.get('zz', 9) }} {{ d.keys() | list }} {{ d.items() }} {{ d.values() | sum(start=0) }}
{{ d.update({}) }}
{{ l.append(1) }}
{{ ''.__class__ }}|{{ ''.__class__.__mro__ }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}={{ x }} {% else %}none{% endfor %}|{% for x in e %}x{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a + b + c }}{% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% elif x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% set x = 0 %}{% for y in l %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(a=1) %}{% for y in l %}{% set ns.a = ns.a + y %}{% endfor %}{{ ns.a }}{{ ns }}
{% for i in [{'c': [{'c': []}, {'c': []}]}] recursive %}<{{ loop.depth }}{{ loop(i.c) }}>{% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 2) }}{% endfor %}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{% set j = joiner() %}{{ j() }}a{{ j() }}b
{% set g = l | map('string') %}{{ g | list }}{{ g | list }}{% for x in l | reverse %}{{ x }}{{ loop.last }}{% endfor %}
{% for x in n %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% set d.x = 1 %}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set c | upper | trim %} x{{ n }} {% endset %}[{{ c }}]{% with q = 1, r = n %}{{ q + r }}{% endwith %}{{ q is defined }}
{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}|{{ f(1, 2, 3, 4) }}|{{ f(a=5, z=1) }}|{{ f.name }}{{ f.arguments }}
{% macro w(l) %}{% for x in l %}<{{ caller(x) }}>{% endfor %}{% endmacro %}{% call(v) w([1, 2]) %}{{ v * n }}{% endcall %}
{% macro f(i) %}{% if i %}{{ i }}{{ f(i - 1) }}{% endif %}{% endmacro %}{{ f(5) }}{% for i in l %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=2) }}
{% filter replace('a', 'b') | upper %}banana{% endfilter %}{% generation %}x{{ n }}{% endgeneration %}{% block q %}in{% endblock %}{% print n, f %}
{% set f = {'a': 1}.get %}{{ f('a') }}{{ f(*['b', 5]) }}{{ dict(**{'k': 1}, j=2) }}
{% raw %}{{ x }} {% if %}{% endraw %}{# c #}{{ '{{' }}{{ "a\tb\x41\u00e9\'" }}{{ 'a' "b" }}
{{ l[0] }}{{ l[-1] }}{{ l[1:] }}{{ l[::-1] }}{{ l[5:] }}{{ u[1:] }}{{ u[::-1] }}{{ u[-1] }}{{ s[1:6] }}{{ l[9] is defined }}{{ range(9)[2:7:2] }}{{ (1, 2, 3)[:-1] }}
{{ l[::0] }}
{{ s.strip() }}|{{ s.lstrip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.split(None, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a b c'.rsplit(maxsplit=1) }}
{{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c', 1) }} {{ 'abcb'.find('b', 2) }} {{ 'abcb'.rfind('b') }} {{ 'aaa'.count('a') }} {{ 'a=b=c'.partition('=') }} {{ 'abc'.rpartition('x') }}
{{ u.upper() }} {{ 'ΑΣ ΑΣΑ'.lower() }} {{ 'hello wORLD'.title() }} {{ 'hELLO'.capitalize() }} {{ 'aB'.swapcase() }} {{ 'ß'.casefold() }} {{ 'ﬁ'.upper() }} {{ "they're".title() }}
{{ 'a'.isalpha() }}{{ '²'.isdigit() }}{{ '²'.isdecimal() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ 'A1'.isupper() }}{{ ''.isdigit() }}{{ 'Ab Cd'.istitle() }}{{ 'a_1'.isidentifier() }}
{{ 'ab'.center(7, '*') }}|{{ 'a'.ljust(3) }}|{{ 'é'.rjust(3, 'é') }}|{{ '-42'.zfill(5) }}|{{ 'a\tb'.expandtabs(4) }}|{{ lines.splitlines() }}{{ ','.join(['a', 'b']) }}{{ 'pre-x'.removeprefix('pre-') }}
{{ '{} {:>5}|{:<4}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:e}|{:%}'.format('a', 'r', 'l', 'c', 42, 2.5, 1234567, 255, 12345.678, 0.5) }} {{ '{0[a]}{k!r}'.format({'a': 1}, k='v') }} {{ '{:{w}}|'.format('a', w=3) }}
{{ '%s is %d, %.2f, %5s|%-5s|%05d %x %r %%' % ('a', 3.7, 2.5, 'r', 'l', 42, 255, 'q') }} {{ '%(a)s' % d }} {{ '%s' % [1, 2] }} {{ '%+d % d' % (1, 2) }} {{ '%s %s' | format(1, 2) }}
{{ '%d' % 'x' }}
{{ l | sort }} {{ ['b', 'A', 'a'] | sort }} {{ ['b', 'A', 'a'] | sort(case_sensitive=true, reverse=true) }} {{ m | map(attribute='role') | join('+') }} {{ m | map(attribute='nope', default='-') | list }} {{ m | sort(attribute='role') | map(attribute='role') | list }}
{{ m | selectattr('content') | list | length }} {{ m | selectattr('role', 'equalto', 'user') | list }} {{ m | rejectattr('role', 'in', ['user', 'tool']) | map(attribute='calls.0.args.a') | list }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }}
{{ l | first }}{{ l | last }}{{ l | min }}{{ l | max }}{{ l | sum }}{{ u | length }}{{ d | dictsort }}{{ d | items | list }}{{ [1, 1.0, true, 'a', 'A'] | unique | list }}{{ [1, 2, 3, 4, 5] | batch(2, 0) | list }}{{ [1, 2, 3, 4, 5] | slice(2) | list }}
{% for g, i in [{'k': 'b', 'v': 1}, {'k': 'A', 'v': 2}, {'k': 'B', 'v': 3}] | groupby('k') %}{{ g }}:{{ i | map(attribute='v') | list }} {% endfor %}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent('> ', blank=true) }}|{{ s | trim }}|{{ 'a b' | title }}|{{ 'aaa' | replace('a', 'b', 2) }}|{{ 'hello world foo' | truncate(9) }}|{{ 'foo bar baz' | wordwrap(7) }}|{{ 'a b' | wordcount }}
{{ '3' | int }} {{ 'x' | int(9) }} {{ '3.7' | int }} {{ '0x1F' | int(base=16) }} {{ '1_0' | int }} {{ 'x' | float }} {{ '1e3' | float }} {{ none | int }} {{ 2.5 | round }} {{ 2.675 | round(2) }} {{ 2.1 | round(method='ceil') }} {{ 7 | round }} {{ -3 | abs }} {{ 1500000 | filesizeformat }} {{ 2048 | filesizeformat(true) }}
{{ x | e }} {{ x | safe }} {{ '<' + (x | e) }} {{ (x | e) ~ '<' }} {{ ('<b>' | safe) + '<' }} {{ x | striptags }} {{ 'a&b c/d' | urlencode }} {{ {'a b': 1} | urlencode }} {{ {'a': 1, 'b': none} | xmlattr }}
{{ l | nosuchfilter }}
{{ n is nosuchtest }}
{{ m | tojson }} {{ d | tojson(indent=2) }} {{ [x, u, "\x01\x7f\n"] | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }}
{{ d | tojson(separators=(',', ':'), sort_keys=true) }} {{ [[], {}, [1]] | tojson(indent=4) }} {{ [1.0, 1e20, 1e-7, 123456789.123, true, none] | tojson }} {{ m[1] | tojson(indent='\t') }}
{{ l | map('string') | tojson }}
{{ missing | tojson }}
{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.0 is float }} {{ s is sequence }} {{ d is mapping }} {{ n is iterable }} {{ range is callable }} {{ 9 is divisibleby 3 }} {{ 'a' is in 'abc' }} {{ z is none }} {{ n is not string }} {{ 'ab' is lower }} {{ 1 is sameas true }} {{ 'upper' is filter }} {{ 'odd' is test }}
{{ raise_exception('my ' ~ n) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %j %A %d %b %y %I %p %% %-d') }}
{{ range(3) | list }} {{ range(5, 1, -2) | list }} {{ range(3) }} {{ range(0) | length }} {{ range(100000) | length }}
{{ range(100001) | length }}
{{ n() }}
{% if %}x{% endif %}
{% if t %}x
{{ n
{% for x in l %}
{% endif %}
{% nosuchtag %}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ 'abc }}
{# unclosed
{% raw %}x
{{ a b }}
{% set = 1 %}
{{ {'a' 1} }}
{{ n | }}
{% break %}
{% include 'x' %}
{{ $ }}
{{ a && b }}
{{ 'http://x.y' | urlize }} {{ 'see http://a.com/x?y=1, (www.b.org) ok' | urlize }}
{{ 'the quick-brown fox jumps over averyveryverylongword now' | wordwrap(10) }}
{{ 'the quick-brown fox  jumps over averyveryverylongword now' | wordwrap(12, false) }}
{{ 'aaa bbb ccc\n\nddd eee' | wordwrap(5, true, '|') }}
{{ '{:+d}|{: d}|{:#x}|{:#b}|{:^9}|{:*>7}|{:08.3f}|{:,.2f}|{:_}|{:g}|{:.3g}|{:E}|{:c}'.format(3, 3, 255, 5, 'mid', 'r', 3.14159, 12345.678, 1234567, 1e10, 1234.5, 0.00012, 65) }}
{{ '%5.1f|%-8s|%+05d|%x|%X|%o|%e|%g|%c|%c|%5s|%.2s' % (3.14159, 'ab', 7, 255, 255, 8, 12345.678, 0.0001, 65, 'z', 'é', 'abc') }}
{{ '%s' % (1,) }} {{ '%s %s' % ('a', none) }} {{ '%r' % 'a' }} {{ '%%' % () }}
{{ '%s %s' % ('a',) }}
{{ '%s' % ('a', 'b') }}
{{ 1e15 }} {{ 1e17 }} {{ 123456789012345678.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 0.00001234 }} {{ 1/3 }} {{ 100.0 }} {{ 2.5e-5 }}
{{ -5 // 3 }} {{ 5 // -3 }} {{ -5 % 3 }} {{ 5.5 // 2 }} {{ -5.5 // 2 }} {{ 5.5 % -2 }} {{ 0.0 // -1 }} {{ 1e300 // 1e-10 }}
{{ 2 ** 0.5 }} {{ 0 ** 0 }} {{ (-8) ** 3 }} {{ 10 ** 20 }} {{ -(10 ** 20) // 7 }} {{ -(10 ** 20) % 7 }} {{ (10 ** 20) // -7 }} {{ 10 ** 40 // 10 ** 20 }} {{ (10**40) % (10**20 + 1) }} {{ 2**100 - 2**100 + 5 }}
{{ [1, [2, {'a': (3,)}], none, 'x"y', "x'y", 'x\'"y', '\n\t\\'] }}
{{ {'a': 1}.items() }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ range(1, 5, 2) }} {{ range(9)[2:5] }}
{{ 'abc'[::-2] }} {{ 'abcdef'[1:5:2] }} {{ 'abcdef'[-2:-5:-1] }} {{ [1,2,3,4][-3:-1] }} {{ (1,2,3)[5:] }} {{ 'é你😀'[1:2] }} {{ [1,2,3][10:-10:-1] }} {{ [1,2,3][1.5:] }}
{{ 'Hello World Foo'.split(' ', 1) }} {{ 'a b c '.rsplit(' ', 1) }} {{ '  a  b '.rsplit(None, 1) }} {{ ' a b c'.split(None, 1) }} {{ 'a\u00a0b\u3000c'.split() }} {{ 'a--b--c'.rsplit('--') }}
{{ 'abc'.center(6) }}| {{ 'ab'.center(5) }}| {{ 'abc'.center(8) }}| {{ 'a'.center(4) }}|
{{ 'ab c'.title() }} {{ "it's a-b c_d 3x" | title }} {{ 'ǆ'.title() }} {{ 'ß' | upper }} {{ 'ŉa' | capitalize }} {{ 'İ'.lower() | length }} {{ 'ΣΑΣ' | lower }}
{{ 'a\tb\tc'.expandtabs() }} {{ 'x\r\ny\rz\u2028w\x0bv'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }}
{{ 12345.6789 | round(2) }} {{ 0.5 | round }} {{ 1.5 | round }} {{ -2.5 | round }} {{ 1234 | round(-2) }} {{ 1250 | round(-2) }} {{ 1.25 | round(1) }} {{ 2.71 | round(1, 'floor') }} {{ 12.3 | round(-1) }}
{{ ' 42 ' | int }} {{ '-7' | int }} {{ '1e3' | int }} {{ 'inf' | int(5) }} {{ 'nan' | float }} {{ '0b11' | int(base=2) }} {{ '0b11' | int(base=0) }} {{ 'zz' | int(base=36) }} {{ true | int }} {{ [] | int }}
{{ [3, 1, 2] | sort(reverse=true) | join }} {{ [{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b') }} {{ [{'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }}
{{ [1, 'a'] | sort }}
{{ [[1, 2], [0, 5]] | sort }} {{ ['a', 'B'] | max }} {{ [] | max }} {{ [1.0, 1] | unique | list }} {{ [1, none, 2] | select | list }} {{ [1, 2, 3] | select('gt', 1) | sum }}
{{ 'abc' | batch(2, '-') | list }} {{ [1,2,3,4,5,6,7] | slice(3, 0) | list }} {{ 'héllo' | list }} {{ {'a': 1} | list }} {{ 'a,b' | replace(',', ';') }} {{ 123 | replace(2, 'x') }}
{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, false, '...', 0) }}
{{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 123456789 | filesizeformat }} {{ '5000' | filesizeformat }} {{ 1e25 | filesizeformat }}
{{ {'a': 1, 'b': none, 'c': '"x'} | xmlattr }} {{ {'a b': 1} | xmlattr }}
{{ '<p>a &amp; b</p> <!-- c --> d' | striptags }} {{ 'a é/&' | urlencode }} {{ [('a', 1), ('b', 2)] | urlencode }}
{{ (1, 2) + (3,) }} {{ (1, 2) * 2 }} {{ 2 * [1] }} {{ -1 * 'a' }}| {{ true + true }} {{ 'a' * true }}
{{ [1] + (2,) }}
{{ 'a' < 'B' }} {{ [] < [1] }} {{ (1,) < (1, 2) }} {{ 1 in (1, 2) }} {{ 'a' in {'a': 1}.items() }} {{ none in [none] }} {{ 1 in 'abc' }}
{{ 1.5.is_integer() }} {{ n.foo is defined }} {{ l.count(1) }} {{ l.index(2) }} {{ (1, 1).count(1) }} {{ l.index(9) }}
{% for x in l %}{{ loop }}{% endfor %}
{% for x in l %}{{ loop.nextitem is defined }}{{ loop.previtem | default('-') }}{% endfor %}{{ loop is defined }}
{% macro a(x) %}{{ x }}{% endmacro %}{{ a }} {{ a.catch_kwargs }} {{ a.caller }} {{ [a] }}
{% set x %}{% for i in l %}{{ i }}{% break %}{% endfor %}{% endset %}{{ x }}
{% for i in l %}{% set q %}a{% if i == 1 %}{% break %}{% endif %}b{% endset %}{{ q }}{% endfor %}
{% for i in l %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}
{% set ns = namespace(a=1) %}{{ ns['a'] }} {{ ns.b is defined }} {{ ns }} {{ [ns] }}
{% autoescape true %}{{ x }}{% set y %}<{{ x }}>{% endset %}{{ y }}{% endautoescape %}{{ x }}
{{ dict([('a', 1)], b=2) }} {{ dict() }} {{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {(1, 2): 3}[(1, 2)] }} {{ {'a': 1} == {'a': 1.0} }}
{{ {[1]: 2} }}
{{ x | e | e }} {{ (x | e) | upper }} {{ '%s' | e }} {{ ('<' | safe) ~ '>' | e }} {{ ('a' | safe) * 2 + '<' }} {{ [x | safe] }} {{ (x|safe) is escaped }}
{{ 'a' if true }} {{ ('a' if false) is defined }} {{ 1 if 0 else 2 if 0 else 3 }} {{ not true and false }} {{ not (1 == 1) }} {{ - 2 ** 2 }} {{ 2 * -3 }} {{ 1 - -1 }}
{{ 1 is odd and 2 is even }} {{ 3 is divisibleby(3) }} {{ l is sameas l }} {{ 1 is eq(1) }} {{ 'a' is not in ['b'] }} {{ 2 is gt 1 }} {{ undefinedvar is undefined }} {{ 1.0 is integer }} {{ 'x' is filter }} {{ {} is iterable }}
{{ d | tojson(2) }}
{{ [1, {'a': []}] | tojson(indent=1) }} {{ [1] | tojson(indent=true) }} {{ 'é"\\' | tojson(true) }} {{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true, indent=2) }} {{ 1e400 | tojson }} {{ 10**25 | tojson }}
{{ {(1,): 2} | tojson }}
{{ ''.join(['a', 1 | string]) }} {{ ', '.join('abc') }} {{ ' '.join({'a': 1, 'b': 2}) }} {{ 'a'.join([]) }}
{{ 'x'.replace('x', 'y', -1) }} {{ 'aaa'.replace('a', 'b', 0) }} {{ 'abc'.find('') }} {{ 'abc'.rfind('') }} {{ 'abc'.count('') }} {{ 'abc'.find('c', -1) }} {{ 'abc'.startswith('', 5) }} {{ 'abcabc'.index('c', 3) }}
{{ 'a-b_c'.isidentifier() }} {{ 'Ⅷ'.isnumeric() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ 'ª'.isalpha() }} {{ 'ǅ'.istitle() }}
{{ namespace(x=1, **{'y': 2}).y }} {{ lipsum is callable }} {{ cycler('a').current }} {{ joiner() is callable }} {{ self is defined }}
{{ l | join(d='-') }} {{ m | join(', ', 'role') }} {{ l | map('add', 1) | list }}
{{ l | first + l | last }} {{ l | length > 2 }} {{ 'a' ~ l | length }} {{ -l | length }}
{{ 'a'.b.c }}
{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}
{% for x in l %}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}
{% for x in l %}{{ n }}{% endfor %}{% if t %}{% set n = 1 %}{% endif %}{{ n }}{% for x in l %}{{ range(2)|list }}{% endfor %}
{% for x in l %}{{ range(2)|list }}{% endfor %}{% set range = 3 %}
{% set n %}{{ n }}a{% endset %}{{ n }}{% with n = 1, f = n %}{{ n }}{{ f }}{% endwith %}
{% block a %}{{ n }}{% endblock %}{% set n = 1 %}{% block b %}{{ n }}{% endblock %}
{% set ns = namespace() %}{% block a %}{% macro m() %}{{ n }}{% endmacro %}{% set ns.m = m %}{% endblock %}{{ ns.m() }}
{{ 'a' | nosuch if false }}{% if false %}{{ 'a' | nosuch }}{{ n is nosuch }}{% include 'x' %}{% import 'x' as y %}{% from 'x' import y as z, q with context %}{% endif %}
{% for x in [] %}{{ 'a' | nosuch }}{% endfor %}
{% if false %}{% for x in [] %}{{ n is nosuch }}{% endfor %}{% endif %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% for x in l %}{% continue %}{% else %}none{% endfor %}{% for x in l %}{% break %}{% else %}none{% endfor %}{% for x in l %}{% if x == 3 %}{% break %}{% endif %}{% else %}none{% endfor %}
{{ 'ªʰⓐ'.islower() }}{{ 'Ⅷ'.isupper() }}{{ 'ǅa'.islower() }}{{ '五'.isnumeric() }}{{ '①'.isdigit() }}{{ 'a·'.isidentifier() }}{{ '℘'.isidentifier() }} {{ 'ⓐΣΣ ǅ'.title() }} {{ 'ⅷǅ aΣ'.swapcase() }} {{ 'ΑΣ.Α ΑΣ'.capitalize() }}
{{ '١٢' | int }} {{ '٣.٥' | float }} {{ '𝟙𝟚_3' | int }} {{ '٣' | int(base=2) }} {{ '12' | filesizeformat }}
{{ 'x' | filesizeformat }}
{{ 10 / big }} {{ 10**30 / 3 }} {{ (10**40 + 1) / 10**25 }} {{ 2**53 + 1 == (2**53 + 1) / 1 }} {{ 10**400 // 10**399 }}
{{ 10**400 / 3 }}
{{ (10**16 + 1) * 1.0 }} {{ {2**64: 1}[18446744073709551616.0] }} {{ 2**64 == 18446744073709551616.0 }} {{ (255).bit_length() }} {{ (-8).bit_count() }} {{ 2.5.as_integer_ratio() }} {{ 2.5.hex() }} {{ 0.0.hex() }} {{ true.real }} {{ 1.5.imag }} {{ 7 .numerator }} {{ range(1, 9, 2).stop }} {{ dict.fromkeys('ab', 1) }}
{{ 'abc'.translate({97: 'x', 98: none, 99: 100}) }} {{ 'abc'.translate(''.maketrans('ab', 'xy', 'c')) }} {{ 'a'.translate(''.maketrans({'a': 'bc'})) }} {{ ' a  b '.split(maxsplit=1) }}{{ ' a  b '.rsplit(maxsplit=1) }}
{{ 'well-known--truth e-mail a-b-c x--y' | wordwrap(6) }} {{ 'aaa bbbbbbbbb' | wordwrap(4) }} {{ '12-34-ab-cd' | wordwrap(4) }} {{ 'ab cd' | wordwrap(1) }} {{ '\u00a0 a\u00a0b c' | wordwrap(2) }} {{ 'a  bbbb' | wordwrap(3, false) }}
{{ 'me@x.org mailto:a.b@c.de (http://x.y/(z)). http://1.2.3.4:80/a https://[::1]/ a.com x-y://z ftp://q <www.q.net>, HTTP://UP.COM' | urlize(extra_schemes=['ftp:', 'x-y://']) }} {{ 'http://a.b/long' | urlize(9, true, '_x', 'b a') }}
{{ '&eacute;&notit;&amp;&#8364;&#x80;&#0;&nosuch;&lt&copy 2 &ampx' | striptags }} {{ '<!-- <b> --> a <i x=">">' | striptags }} {{ '<a' | striptags }}
{{ m | pprint }} {{ {'b': [1] * 40, 'a': 'x ' * 60} | pprint }} {{ ('w' * 90, (1,), 'a b\nc') | pprint }} {{ {1: 2, 'a': 3, none: 4} | pprint }} {{ [['deep ' * 20]] | pprint }}
{{ '{:08}|{:<08}|{:0>8}|{:x<08d}'.format('ab', 'ab', 7, 7) }} {{ '{:,}|{:010,}|{:_x}|{:09_b}|{:+,.2f}|{:=8}'.format(1234567, 1234, 65535, 10, 1234.5, -3) }} {{ '{:.3}|{:.3}|{:.1}|{:#.3}|{:z.1f}|{:n}|{:%}'.format(100.0, 1e16, 0.5, 1.0, -0.01, 5, 0.5) }} {{ '{:5}|{:c}|{!a}'.format(true, 233, 'é') }} {{ '%a %c %5.1a' % ('é', 233, 'é') }}
{{ '{:+}'.format('a') }}
{{ '{:,}'.format('a') }}
{{ '{:.2}'.format(1) }}
{{ '{:,x}'.format(1) }}
{{ '{:5}'.format(none) }}
{{ d[1:2] }}
{{ missing[1:2] }}
{{ l['a':] }}
{{ [1, 2][0.5:] is defined }} {{ (missing | truncate(5)) is defined }} {{ [1] | truncate }} {{ [1, 2] | slice(-1) | list }} {{ -0.0 | round(1, 'floor') }}
{{ missing | attr('x') }}
{{ {1: 2} | xmlattr }}
{{ d | random }}
{{ {d.items(): 1} }}
{% macro c() %}{{ caller.name }}{{ kwargs }}{% endmacro %}{% call c() %}{% endcall %}
{% include 'x' ignore missing %}
{{ [1, 'a'] | map('abs') | first }} {{ [{}, 1] | map(attribute='x.y') is defined }} {{ [1] | map('nosuch') is defined }} {% for x in [3, 'a'] | map('abs') %}{{ x }}{% break %}{% endfor %}
{% set ns = namespace(n=0) %}{% for x in l if not ns.n %}{% set ns.n = x %}{{ x }}{{ loop.index }}{% endfor %}{% for x in l if x > ns.n %}{% set ns.n = 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in l if x != 1 %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.nextitem }}{{ loop }}{% endfor %}{% for x in l | map('string') %}{{ loop.last }}{{ loop.revindex0 }}{% endfor %}
{% set g = l | map('string') %}{% for x in g %}{{ x }}{{ g | first }}{% endfor %}{{ g | list }}{{ 3 in (l | select) }}{{ [1, 2] | batch(0) | list }}{{ [1, 2, 3] | slice(2) | first }}{{ [1, 1, 2] | unique | first }}
{{ [1, 'a'] | map('abs') | list }}
""".strip().split("\n")

# White space is the point of these.
SPACE = [
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "  {{ n }}  \n", "{% if t -%}\n   x\n{%- endif %}", "a {{- n -}} b",
    "a\n\n{{- n }}\n\nb", "{#- c -#} x {# d #} y\n{# e #}\nz", "  {# c #}\n  x", "  {%+ if t %}x{% endif %}",
    "{% if t +%}\nx{% endif %}", "x\n{% set a = 1 %}\n\ny", "\n\n{{ n }}\n\n", "a\r\n{% if t %}\r\nb\r\n{% endif %}\r\n",
    "{% raw -%}\n  x\n  {%- endraw %}\ny", "{{ n\n}}{{\nf }}", "{%-if t-%}x{%-endif-%}", "\t{% for x in l %}\n\t{{ x }}\n\t{% endfor %}\n",
    "x   {% if t %}y{% endif %}   z", "{{ \"a\nb\" }}", "{#-#}\n x",
    "{% if x == 'a' -%}\n  a\n{%- elif t %}\n  b\n{% else %}c{% endif %}\n", "{%- set a = 1 -%}\n\n{{ a }}\n", "  {%- if t %} x {% endif -%}  y", "{% for x in l -%}\n  {{ x }}\n{% endfor %}",
    "{{ '\\x41\\u00e9\\101\\q\\\n' }}", "a\n    {#- x #}\n    b", "{%raw%}{{a}}{%endraw%}", "{{ [\n1,\n2,\n] }}",
    "{{ {'a':1,}['a'] }}", "{% set a, = [1] %}{{ a }}", "{% for x, in [[1]] %}{{ x }}{% endfor %}", "{{ (1,) }}{{ (1) }}",
    "{{ l[0,1] is defined }}", "{{ 1if t else 2 }}", "{{ 007 }}", "{{ 1_000.5_0 }}",
    "{{ 1e3 }} {{ 1E-2 }} {{ 1.e3 }}", "{{ a.1.5 }}", "{{ [[1,2],[3]].0.1 }}", "{{ \u00e9 }}",
    "{% set \u00e9 = 1 %}{{ \u00e9 }}", "{% if t: %}x{% endif %}", "{% set x = 1, 2 %}{{ x }}", "{{ 1, 2 }}",
    "{{ }}", "{% %}", "{{ {} }}", "{{ {{}} }}",
    "{% macro f(a=1, b) %}{% endmacro %}", "{{ f(**d) }}", "{{ f(a=1, 2) }}", "{{ true.x }}",
    "{% set true = 1 %}", "{% for loop in l %}{% endfor %}", "{{ n is not not none }}", "{{ 1 is number is number }}",
    "{{ l is in }}", "{{ n | default }}", "{{ not }}",
    "{% raw %}\nx{% endraw %}\n\ny",
]

WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather.\nIn metric units.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "as in \"Z\u00fcrich\" & <co>"},
        "days": {"type": "integer", "default": 1}}, "required": ["city"]}}}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def call(**arguments):
    return {"type": "function", "id": "call00001", "function": {"name": "weather", "arguments": arguments}}


ASK = said("user", "How is Z\u00fcrich?")
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "weather", "content": "{\"sky\": \"clear\"}"}
TALKS = {
    "one": dict(messages=[said("user", "Hi there")], generate=True),
    "no prompt": dict(messages=[said("user", "Hi there")]),
    "system": dict(messages=[said("system", "Be brief."), said("user", "Hi")], generate=True),
    "turns": dict(messages=[said("system", "Be brief."), said("user", "Hi"), said("assistant", " Yes?\n"), said("user", "  Go on  ")], generate=True),
    "markup": dict(messages=[said("user", "{{ 1 }} {% raw %} <|im_end|> [INST] <b>&amp;'\" \u4f60\U0001f600")], generate=True),
    "tools": dict(messages=[said("system", "Be brief."), ASK], tools=[WEATHER], generate=True),
    "call": dict(messages=[ASK, said("assistant", "", tool_calls=[call(city="Z\u00fcrich", days=2, part=1.0, more=[None, True])])], tools=[WEATHER]),
    "result": dict(messages=[ASK, said("assistant", "Let me see.", tool_calls=[call(city="Z\u00fcrich")]), RESULT], tools=[WEATHER], generate=True),
    "reasoning": dict(messages=[said("user", "2+2?"), said("assistant", "4", reasoning_content="Two and two."), said("user", "3+3?")], generate=True),
    "inline reasoning": dict(messages=[said("user", "2+2?"), said("assistant", "<think>\nSum.\n</think>\n\n4"), said("user", "3+3?")], generate=True),
    "no thinking": dict(messages=[said("user", "Hi")], generate=True, kwargs={"enable_thinking": False, "thinking": False}),
    "parts": dict(messages=[said("user", [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}])], generate=True),
    "continue": dict(messages=[said("user", "Count"), said("assistant", "one, two, ")], go_on=True),
    "bad order": dict(messages=[said("assistant", "I am first."), said("user", "Then I."), said("user", "Me again.")], generate=True),
    "documents": dict(messages=[said("user", "What do they say?")], documents=[{"title": "A", "text": "First \u00e9."}], generate=True),
}
TOKENS = {"bos_token": "<BOS>", "eos_token": "<EOS>"}
MARK = "CONTINUE_FINAL_MESSAGE_TAG "


def talk(source, t):
    """What transformers does around a template: null members go, reasoning has two names, and a
    message to continue is marked and cut at its mark."""
    messages = [{k: v for k, v in m.items() if v is not None} for m in t["messages"]]
    for i, m in enumerate(messages):
        said = [m[name] for name in ("reasoning_content", "thinking", "reasoning") if name in m]
        if said:
            messages[i] = {"thinking": said[0], **m, "reasoning_content": said[0]}
    if t.get("go_on"):
        messages[-1] = {**messages[-1], "content": messages[-1]["content"] + MARK}
    out = render(source, {**TOKENS, **t.get("kwargs", {}), "messages": messages, "tools": t.get("tools"),
                          "documents": t.get("documents"), "add_generation_prompt": t.get("generate", False)})
    if t.get("go_on") and "expected" in out:
        text = out["expected"]
        at = text.rfind(MARK.strip())
        if at < 0 or "content" not in source or t["messages"][-1]["content"].strip() not in text:
            return {"error": "the template does not keep the last message as it is", "raised": False}
        spaced = text[at:at + len(MARK)] == MARK
        out["expected"] = text[:at] if spaced else text[:at].rstrip()
    return out


def lines(rows):
    return "".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) + "\n" for r in rows)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--published", type=pathlib.Path, help="copy the named templates from this folder first")
    args = args.parse_args()
    (HERE / "templates").mkdir(parents=True, exist_ok=True)
    for name in PUBLISHED if args.published else []:
        shutil.copyfile(args.published / f"{name}.jinja", HERE / "templates" / f"{name}.jinja")
    rows = [{"template": s, **render(s, CONTEXT)} for s in LANGUAGE + SPACE]
    (HERE / "language.jsonl").write_text(lines([CONTEXT] + rows))
    (HERE / "talks.json").write_text(json.dumps(TALKS, ensure_ascii=True, indent=0) + "\n")
    rows = []
    for f in sorted(HERE / "templates" / f"{name}.jinja" for name in PUBLISHED):
        source = f.read_bytes().decode()
        rows += [{"template": f.name, "talk": name, **talk(source, t)} for name, t in TALKS.items()]
    (HERE / "talks.jsonl").write_text(lines(rows))
    print(f"{len(LANGUAGE) + len(SPACE)} language cases, {len(rows)} talks, {sum('error' in r for r in rows)} errors")


if __name__ == "__main__":
    main()
