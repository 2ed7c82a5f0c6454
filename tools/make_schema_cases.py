#!/usr/bin/env python3
"""Makes tests/fixtures/grammar/schemas.json, and checks texts that were made under those schemas.

  make_schema_cases.py make            writes the fixture (needs PyPI jsonschema, rfc3339-validator)
  make_schema_cases.py walk PROGRAM DIR [N]
                                       runs build/bench_grammar over the fixture with the tokenizer
                                       in DIR and validates each finished text with jsonschema

Each case is a schema with texts that it allows and texts that it does not, as jsonschema says. What
is allowed is written as the grammar has it: properties in the schema's order, no property that the
schema doesn't list unless it says additionalProperties, integers without a point.
"""
import json, random, subprocess, sys
from pathlib import Path

import jsonschema

OUT = Path(__file__).resolve().parent.parent / "tests/fixtures/grammar/schemas.json"
CASES, SEED = 330, 8
rng = random.Random(SEED)
NAMES = ["a", "b", "id", "name", "kind", "value", "x y", 'q"uote', "back\\slash", "é", "tab\tbed",
         "/", "~", "a/b", "日本", "$ref", "type", "😀"]


def text(lo, hi):
    return "".join(rng.choice('abc XYZ019_é日😀"\\/\n\t') for _ in range(rng.randint(lo, hi)))


# --- each gives a schema and a function that makes a value under it ---------------------------------

def null(d):
    return {"type": "null"}, lambda: None


def boolean(d):
    return {"type": "boolean"}, lambda: rng.random() < .5


def integer(d):
    return {"type": "integer"}, lambda: rng.choice([0, -1, 7, 10**12, rng.randint(-10**6, 10**6)])


def number(d):
    return {"type": "number"}, lambda: rng.choice([0, -1, 1.5, -0.25, 1e-7, 3.0, 1e20])


def bounded_integer(d):
    lo = rng.choice([0, -5, 1, -120, 17, 99, 1000, -10**9, 123456789])
    hi = lo + rng.choice([0, 1, 9, 10, 83, 1000, 10**6, 10**12])
    s = {"type": "integer"}
    s[rng.choice(["minimum", "minimum"])] = lo
    if rng.random() < .3:
        s["exclusiveMaximum"] = hi + 1
    elif rng.random() < .8:
        s["maximum"] = hi
    return s, lambda: rng.choice([lo, hi, rng.randint(lo, hi)])


def only_above(d):
    n = rng.choice([5, -5, 0, 100])
    return {"type": "integer", "exclusiveMinimum": n}, lambda: n + rng.randint(1, 5000)


def multiple(d):
    m = rng.choice([2, 3, 7, 12, 100])
    return ({"type": "integer", "multipleOf": m, "minimum": -1000, "maximum": 5000},
            lambda: m * rng.randint(-1000 // m + 1, 5000 // m))


def bounded_number(d):
    lo = rng.choice([0, -1.5, 0.25, 10, -100, 3.125])
    hi = lo + rng.choice([0.5, 1, 10.75, 100])
    s = {"type": "number", "minimum": lo, "maximum": hi}
    if rng.random() < .4:
        s["exclusiveMinimum"] = s.pop("minimum")
    inner = lambda: round(rng.uniform(lo + .001, hi - .001), rng.randint(2, 5))

    def make():
        v = inner()
        return v if lo < v < hi else (lo + hi) / 2
    return s, make


def string(d):
    return {"type": "string"}, lambda: text(0, 12)


def length(d):
    lo = rng.randint(0, 5)
    hi = lo + rng.randint(0, 300)
    return {"type": "string", "minLength": lo, "maxLength": hi}, lambda: text(lo, min(hi, 40))


PATTERNS = [
    ("^[a-z]+$", lambda: "".join(rng.choice("abcxyz") for _ in range(rng.randint(1, 8)))),
    ("^[A-Z]{2,4}-\\d{3}$", lambda: "AB-" + "%03d" % rng.randint(0, 999)),
    ("ab", lambda: text(0, 5) + "ab" + text(0, 5)),
    ("^(foo|bar|baz)(\\.(foo|bar))*$", lambda: ".".join(["baz"] + ["foo"] * rng.randint(0, 3))),
    ("^\\S+@\\S+$", lambda: "me@x.org"),
    ("^$|^x", lambda: rng.choice(["", "x" + text(0, 4)])),
    ("[^\"\\\\]{3}$", lambda: text(0, 4) + "abc"),
    ("^.{0,20}$", lambda: text(0, 9).replace("\n", "")),
    ("^\\\\\"$", lambda: "\\\""),
    ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}$", lambda: "0123abcd-0000-1111-ffff"),
    ("(^a|b$)", lambda: rng.choice(["a" + text(0, 3), text(0, 3) + "b"])),
    ("^\\w+\\s?\\w*$", lambda: "hello world"),
    ("^[é-ü]*😀?$", lambda: "éü" + rng.choice(["", "😀"])),
]


def pattern(d):
    p, make = rng.choice(PATTERNS)
    return {"type": "string", "pattern": p}, make


def pattern_length(d):
    return ({"type": "string", "pattern": "^[ab]*c", "minLength": 3, "maxLength": 6},
            lambda: "".join(rng.choice("ab") for _ in range(rng.randint(2, 5))) + "c")


FORMATS = [
    ("date", ["2024-02-29", "1999-12-31", "2000-02-29", "0001-01-01"]),
    ("time", ["12:00:00Z", "23:59:59.5+02:00"]),
    ("date-time", ["2024-01-02T03:04:05Z", "1985-04-12T23:20:50.52-08:00"]),
    ("uuid", ["123e4567-e89b-12d3-a456-426614174000"]),
    ("email", ["a.b+c@example.org"]),
    ("ipv4", ["0.0.0.0", "255.249.10.9"]),
    ("ipv6", ["::1", "1:2:3:4:5:6:7:8", "fe80::1"]),
    ("hostname", ["example.org", "a"]),
    ("uri", ["http://example.org/a?b=c#d", "ftp://x"]),
    ("unheard-of", ["anything", ""]),
]


def formatted(d):
    f, values = rng.choice(FORMATS)
    return {"type": "string", "format": f}, lambda: rng.choice(values)


def enum(d):
    values = rng.sample([1, -2, "a", "b", "", "é\n\"", True, None, 2.5, "long " * 4,
                         [1, 2], {"k": "v"}], rng.randint(1, 6))
    return {"enum": values}, lambda: rng.choice(values)


def const(d):
    v = rng.choice([0, "x", False, None, "\\", {"a": [1]}])
    return {"const": v}, lambda: v


def some_of_enum(d):
    return {"type": ["string", "integer"], "enum": ["a", "bb", 3, None, 4.5], "minLength": 1}, \
        lambda: rng.choice(["a", "bb", 3])


def array(d):
    s, make = schema(d - 1)
    lo = rng.choice([0, 0, 1, 2])
    hi = rng.choice([None, 3, 4, 150])
    a = {"type": "array", "items": s}
    if lo:
        a["minItems"] = lo
    if hi:
        a["maxItems"] = hi
    return a, lambda: [make() for _ in range(rng.randint(lo, min(hi or 4, 5)))]


def tuple_(d):
    items = [schema(d - 1) for _ in range(rng.randint(1, 4))]
    a = {"type": "array", "prefixItems": [s for s, _ in items], "minItems": len(items) - 1}
    if rng.random() < .6:
        a["items"] = False
        return a, lambda: [m() for _, m in items][:rng.randint(len(items) - 1, len(items))]
    more, make = schema(d - 1)
    a["items"] = more
    return a, lambda: [m() for _, m in items] + [make() for _ in range(rng.randint(0, 2))]


def set_(d):
    v = rng.sample(["red", "green", "blue", "é", "w"], rng.randint(2, 5))
    return ({"type": "array", "items": {"enum": v}, "uniqueItems": True, "minItems": 1},
            lambda: rng.sample(v, rng.randint(1, len(v))))


def object_(d):
    names = rng.sample(NAMES, rng.randint(1, 6))
    kinds = {n: schema(d - 1) for n in names}
    required = [n for n in names if rng.random() < .5]
    s = {"type": "object", "properties": {n: kinds[n][0] for n in names}}
    if required:
        s["required"] = required
    if rng.random() < .6:
        s["additionalProperties"] = False
    more = None
    if "additionalProperties" not in s and rng.random() < .5:
        s["additionalProperties"], more = schema(0)

    def make():
        o = {n: kinds[n][1]() for n in names if n in required or rng.random() < .6}
        if more:
            o.update({"other %d" % i: more() for i in range(rng.randint(0, 2))})
        return o
    return s, make


def map_(d):
    s, make = schema(d - 1)
    return ({"type": "object", "additionalProperties": s},
            lambda: {text(1, 4) + str(i): make() for i in range(rng.randint(0, 3))})


def patterns(d):
    s, make = schema(0)
    t, other = schema(0)
    o = {"type": "object", "patternProperties": {"^x-": s}, "additionalProperties": t,
         "properties": {"x-own": True, "n": {"type": "integer"}}}
    return o, lambda: {"n": 3, "x-" + text(1, 3).replace("\n", ""): make(), "zz": other()}


def counted(d):
    names = ["a", "b", "c", "d"]
    return ({"type": "object", "properties": {n: {"type": "integer"} for n in names},
             "additionalProperties": False, "minProperties": 2, "maxProperties": 3},
            lambda: {n: 1 for n in sorted(rng.sample(names, rng.randint(2, 3)))})


def any_of(d):
    ways = [schema(d - 1) for _ in range(rng.randint(2, 3))]
    return {"anyOf": [s for s, _ in ways]}, lambda: rng.choice(ways)[1]()


def one_of(d):
    kinds = ["cat", "dog", "emu"][:rng.randint(2, 3)]
    ways = []
    for k in kinds:
        s, make = schema(d - 1)
        ways.append(({"type": "object", "properties": {"kind": {"const": k}, "of": s},
                      "required": ["kind", "of"]}, k, make))

    def make_one():
        _, k, make = rng.choice(ways)
        return {"kind": k, "of": make()}
    return {"oneOf": [s for s, _, _ in ways]}, make_one


def one_of_types(d):
    return {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}},
                      {"type": "null"}]}, lambda: rng.choice(["x", [True], None])


def all_of(d):
    s, make = schema(d - 1)
    return ({"allOf": [{"type": "object", "properties": {"p": s}, "required": ["p"]},
                       {"properties": {"q": {"type": "integer", "minimum": 3}}, "required": ["q"]},
                       {"properties": {"q": {"maximum": 8}}}]},
            lambda: {"p": make(), "q": rng.randint(3, 8)})


def types(d):
    return {"type": ["integer", "null", "string"], "minimum": 3, "maxLength": 2}, \
        lambda: rng.choice([3, 99, None, "", "ab"])


def tree(d):
    s, make = schema(0)

    def node(n):
        return {"v": make(), "kids": [node(n - 1) for _ in range(rng.randint(0, 2) if n else 0)]}
    return ({"$defs": {"node": {"type": "object", "required": ["v", "kids"], "properties": {
        "v": s, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "$ref": "#/$defs/node"}, lambda: node(2))


def linked(d):
    def node(n):
        return {"next": node(n - 1) if n else None}
    return ({"definitions": {"a/b": {"type": "object", "properties": {"next": {"anyOf": [
        {"type": "null"}, {"$ref": "#/definitions/a~1b"}]}}, "required": ["next"]}},
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "ignored",
        "$ref": "#/definitions/a~1b"}, lambda: node(rng.randint(0, 4)))


def anything(d):
    return rng.choice([True, {}, {"description": "anything"}]), \
        lambda: rng.choice([1, "x", [1, [2]], {"a": {"b": None}}, None, True, -0.5])


def no_type(d):
    return {"properties": {"a": {"minimum": 2}}, "required": ["a"]}, \
        lambda: {"a": rng.choice([2, 3.5])}


SIMPLE = [null, boolean, integer, number, bounded_integer, only_above, multiple, bounded_number,
          string, length, pattern, pattern_length, formatted, enum, const, some_of_enum, types,
          anything]
DEEP = [array, tuple_, set_, object_, object_, object_, map_, patterns, counted, any_of, one_of,
        one_of_types, all_of, no_type]
ROOTS = [tree, linked]


def schema(d):
    return rng.choice(SIMPLE if d <= 0 else DEEP + SIMPLE[::3])(d)


# --- values that are not allowed ---------------------------------------------------------------------

def spoil(v):
    """A value near v."""
    if isinstance(v, dict) and v and rng.random() < .8:
        k = rng.choice(list(v))
        o = dict(v)
        if rng.random() < .3:
            del o[k]
        else:
            o[k] = spoil(o[k])
        return o
    if isinstance(v, list) and v and rng.random() < .7:
        a = list(v)
        i = rng.randrange(len(a))
        if rng.random() < .3:
            return a + [a[i]]
        a[i] = spoil(a[i])
        return a
    if isinstance(v, str) and rng.random() < .6:
        return rng.choice([v + "!", v[1:], v * 3, v + "\n", " " + v, "2023-02-29", "256.1.1.1"])
    if isinstance(v, (int, float)) and not isinstance(v, bool) and rng.random() < .6:
        return rng.choice([v + 1, v - 1, -v, v * 10, v + .5, v + 10**7, v - 10**7])
    return rng.choice([None, 1, "no", [], {}, {"zzz": 1}, True, -3.5, [[]]])


REFUSED = [
    ({"not": {"type": "null"}}, "#/not"),
    ({"type": "object", "properties": {"a": {"if": {}, "then": {}}}}, "#/properties/a/if"),
    ({"$ref": "#/$defs/none"}, "#/$ref"),
    ({"$ref": "http://example.org/x"}, "#/$ref"),
    ({"$ref": "#"}, "itself"),
    ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "itself"),
    ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}},
      "$ref": "#/$defs/a"}, "itself"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#/oneOf"),
    ({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]}, "#/oneOf"),
    ({"type": "number", "multipleOf": 0.1}, "#/multipleOf"),
    ({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}, "#/uniqueItems"),
    ({"type": "array", "contains": {"type": "integer"}}, "#/contains"),
    ({"type": "string", "pattern": "(?=a)b"}, "lookahead"),
    ({"type": "string", "pattern": "(a)\\1"}, "backreferences"),
    ({"type": "string", "pattern": "\\bword"}, "#/pattern"),
    ({"type": "string", "pattern": "a("}, "#/pattern"),
    ({"type": "string", "format": "iri"}, "#/format"),
    ({"type": "strin"}, "#/type"),
    ({"type": "object", "properties": []}, "#/properties"),
    ({"items": 3, "type": "array"}, "#/items"),
    ({"type": "object", "properties": {"a/b": {"type": "array", "prefixItems": [
        {"propertyNames": {}}]}}}, "#/properties/a~1b/prefixItems/0/propertyNames"),
    ({"type": "string", "minLength": -1}, "#/minLength"),
    ({"type": "array", "maxItems": 10**9}, "#/maxItems"),
    ({"type": "object", "minProperties": 3}, "#/minProperties"),
    ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}},
      "required": ["a"]}, "no text is possible"),
    (False, "no text is possible"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "no text is possible"),
    ({"$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}},
                      "required": ["n"]}}, "$ref": "#/$defs/n"}, "no text is possible"),
    ({"enum": ["a", "b"], "type": "integer"}, "no text is possible"),
    ({"type": "object", "enum": [{"a": 1}], "properties": {"a": {"type": "string"}}}, "enum"),
    ({"unevaluatedProperties": False, "type": "object"}, "#/unevaluatedProperties"),
    ({"type": "string", "pattern": "(a|b)*a(a|b){16}"}, "#/pattern"),
    ({"type": "string", "pattern": "((a{900}){900}){900}"}, "#/pattern"),
    ({"type": "number", "minimum": 0.0000000000000000001, "maximum": 1}, "digits"),
    ({"anyOf": []}, "#/anyOf"),
    (3, "a schema must be"),
]


def dump(v):
    return json.dumps(v, ensure_ascii=False, separators=(",", ":"))


def make():
    check = jsonschema.Draft202012Validator.FORMAT_CHECKER
    cases = []
    while len(cases) < CASES:
        depth = len(cases) * 5 // CASES
        s, value = rng.choice(ROOTS)(depth) if rng.random() < .05 else schema(depth)
        v = jsonschema.validators.validator_for(s, jsonschema.Draft202012Validator)(
            s, format_checker=check)
        valid, invalid = [], []
        for _ in range(5):
            x = value()
            errors = list(v.iter_errors(x))
            assert not errors, (s, x, errors[0].message)
            t = rng.choice([dump, lambda v: json.dumps(v, ensure_ascii=False),
                            lambda v: json.dumps(v, ensure_ascii=False, indent=2)])(x) \
                if "enum" not in json.dumps(s) and "const" not in json.dumps(s) else dump(x)
            if t not in valid and len(valid) < 3 and len(t) < 600:
                valid.append(t)
        for _ in range(60):
            x = spoil(value())
            if len(invalid) < 3 and not v.is_valid(x) and dump(x) not in invalid \
                    and len(dump(x)) < 400:
                invalid.append(dump(x))
        size = len(dump(s))
        if valid and size < 1600:
            cases.append({"schema": s, "valid": valid, "invalid": invalid})
    for s, why in REFUSED:
        cases.append({"schema": s, "refused": why})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(dump(c) for c in cases) + "\n]\n")
    print(len(cases), "cases,", OUT.stat().st_size, "bytes")


def walk(program, tokenizer, n):
    cases = json.loads(OUT.read_text())
    check = jsonschema.Draft202012Validator.FORMAT_CHECKER
    run = subprocess.run([program, "walk", tokenizer, str(OUT), n], stdout=subprocess.PIPE,
                         check=True)
    done = bad = 0
    seen = set()
    for line in run.stdout.decode().splitlines():
        r = json.loads(line)
        s = cases[r["case"]]["schema"]
        v = jsonschema.validators.validator_for(s, jsonschema.Draft202012Validator)(
            s, format_checker=check)
        try:
            x = json.loads(r["text"])
            errors = [e.message for e in v.iter_errors(x)]
        except ValueError as e:
            errors = [str(e)]
        done += 1
        seen.add(r["case"])
        if errors:
            bad += 1
            print("BAD", r["case"], dump(s)[:300], r["text"][:300], errors[0][:200])
    print(done, "finished texts under", len(seen), "schemas,", bad, "not valid")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make()
    elif sys.argv[1:2] == ["walk"] and len(sys.argv) >= 4:
        sys.exit(walk(sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else "3"))
    else:
        sys.exit(__doc__)
