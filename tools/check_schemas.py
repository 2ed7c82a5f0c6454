#!/usr/bin/env python3
"""Asks a running mlxcel-server for answers under 300 JSON schemas of growing nastiness, and validates
every finished one with PyPI's jsonschema (Draft 2020-12, with formats).

  check_schemas.py URL [FIRST [LAST]]    http://127.0.0.1:8080; the schemas' numbers
  check_schemas.py print                 the schemas, a line each
  check_schemas.py keep URL              writes tests/fixtures/grammar/nasty.json: some of the schemas
                                         with answers and what is near to them

The schemas are the same each time. Temperature 2 without other samplers: a model of random weights
then writes whatever it may. What the server refuses is listed with its reason. Needs
jsonschema[format] (and rfc3339-validator with it).
"""
import collections, json, random, sys, urllib.error, urllib.request

import jsonschema

import make_schema_cases as cases

COUNT, ANSWERS, TOKENS, SEED = 300, 3, 1200, 20


def refs(r, d):
    """Definitions that lead to each other, some with keywords beside the reference."""
    n = r.randint(2, 4)
    defs = {}
    for i in range(n):
        inner, _ = cases.schema(d - 1)
        defs["d%d" % i] = {"type": "object", "properties": {
            "v": inner, "to": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d%d" % ((i + 1) % n)}]}},
            "required": ["to"] if r.random() < .5 else ["v", "to"]}
    if r.random() < .5:
        defs["d0"]["additionalProperties"] = False
    return {"$defs": defs, "$ref": "#/$defs/d0",
            "title": "a ring", "description": "of %d" % n}


def pydantic(r, d):
    """As Pydantic writes a model."""
    kinds = {"name": {"title": "Name", "type": "string"},
             "tags": {"items": {"type": "string", "maxLength": 9}, "title": "Tags", "type": "array",
                      "maxItems": 4},
             "level": {"$ref": "#/$defs/Level"},
             "boss": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}], "default": None},
             "born": {"anyOf": [{"format": "date", "type": "string"}, {"type": "null"}]},
             "mail": {"format": "email", "type": "string"},
             "score": {"exclusiveMaximum": 10, "minimum": 0, "type": "number"},
             "size": {"maxItems": 2, "minItems": 2, "type": "array",
                      "prefixItems": [{"type": "integer"}, {"type": "string", "pattern": "^cm|in$"}]},
             "more": {"additionalProperties": {"type": "integer"}, "type": "object"}}
    names = r.sample(sorted(kinds), r.randint(3, 9))
    person = {"properties": {n: kinds[n] for n in names}, "title": "Person", "type": "object",
              "required": [n for n in names if r.random() < .6]}
    return {"$defs": {"Level": {"enum": ["low", "mid", "high"], "title": "Level", "type": "string"},
                      "Person": person}, "$ref": "#/$defs/Person"}


def expression(r, d):
    """A grammar of expressions: a union that recurs in several places."""
    e = {"$ref": "#/$defs/e"}
    ops = r.sample(["+", "-", "*", "/", "not", "if"], r.randint(1, 4))
    ways = [{"type": "number", "minimum": -9, "maximum": 99},
            {"type": "string", "pattern": "^[a-z]{1,3}$"}]
    ways += [{"type": "object", "properties": {"op": {"const": o}, "args": {
        "type": "array", "items": e, "minItems": 1, "maxItems": r.randint(1, 3)}},
        "required": ["op", "args"], "additionalProperties": False} for o in ops]
    return {"$defs": {"e": {r.choice(["anyOf", "oneOf"]): ways}}, **e}


def bounds(r, d):
    kind = r.choice(["integer", "number"])
    s = {"type": kind}
    lo = r.choice([0, -1, -999, 0.1, -0.001, 12.5, 1e3, 99999999, -1e9, 3.0])
    hi = lo + r.choice([0.5, 1, 2.25, 10, 1e4, 12345.678])
    s[r.choice(["minimum", "exclusiveMinimum"])] = lo
    if r.random() < .8:
        s[r.choice(["maximum", "exclusiveMaximum"])] = hi
    if kind == "integer":
        s[next(k for k in s if "inimum" in k)] = int(lo)
        for k in [k for k in s if "aximum" in k]:
            s[k] = int(hi) + 2
        if r.random() < .4 and not any("aximum" in k and s[k] - int(lo) < 40 for k in s):
            s["multipleOf"] = r.choice([2, 5, 17])
    return {"type": "object", "properties": {"n": s}, "required": ["n"]}


def texts(r, d):
    """Patterns, formats and lengths together."""
    s = {"type": "string"}
    k = r.randint(0, 5)
    if k == 0:
        s.update(pattern=r.choice(["^[a-c]+$", "[0-9]{3}", "^(ab|cd)*e?$", "^\\D+$", "x.y", "é$"]),
                 minLength=r.randint(0, 3), maxLength=r.randint(6, 30))
    elif k == 1:
        s.update(format=r.choice([f for f, _ in cases.FORMATS]))
    elif k == 2:
        s.update(allOf=[{"pattern": "^[a-z]"}, {"pattern": "[0-9]$"}, {"maxLength": 8}])
    elif k == 3:
        s.update(format="date", pattern="^20[0-9]{2}-0[13]")
    elif k == 4:
        s.update(minLength=40, maxLength=r.choice([40, 41, 200]))
    else:
        s.update(enum=["a\"b", "\\", "\u2028", "", "日本", "a\nb", "\u0001"])
    return {"type": "array", "items": s, "minItems": 1, "maxItems": r.randint(1, 4)}


def wide(r, d):
    """Many properties, most of which may be left out."""
    n = r.randint(10, 60)
    return {"type": "object", "properties": {
        "p%d" % i: cases.schema(0)[0] for i in range(n)}, "additionalProperties": False,
        "required": ["p%d" % i for i in range(n) if r.random() < .1]}


def deep(r, d):
    s = cases.schema(0)[0]
    for i in range(r.randint(5, 40)):
        s = r.choice([lambda s: {"type": "array", "items": s, "minItems": 1, "maxItems": 1},
                      lambda s: {"type": "object", "properties": {"d": s}, "required": ["d"],
                                 "additionalProperties": False},
                      lambda s: {"anyOf": [s, {"type": "null"}]}])(s)
    return s


def merged(r, d):
    """What several schemas say of the same members."""
    a, b = cases.schema(d - 1)[0], cases.schema(0)[0]
    return {"allOf": [{"type": "object", "properties": {"a": a, "n": {"type": "number"}}},
                      {"properties": {"n": {"minimum": 2}, "b": b}, "required": ["n"]},
                      {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}],
            "properties": {"n": {"maximum": 50}}, "unevaluatedProperties": {}}


def can_not(r, d):
    """What the grammar does not hold: refused, but never answered wrongly."""
    inner = cases.schema(0)[0]
    return r.choice([
        {"not": {"type": "string"}},
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        {"type": "array", "contains": inner}, {"type": "object", "propertyNames": {"maxLength": 3}},
        {"type": "object", "properties": {"a": inner}, "dependentRequired": {"a": ["b"]}},
        {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, {"$ref": "#/nowhere"},
        {"$ref": "#"}, {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
        {"type": "string", "pattern": "^(?=a)"}, {"type": "number", "multipleOf": 0.1},
        {"type": "string", "format": "regex"}, {"enum": []}, {"type": "strange"},
        {"type": "string", "minLength": 5, "maxLength": 4},
        {"$dynamicRef": "#x"}, {"unevaluatedProperties": False, "type": "object"}])


def schemas():
    cases.rng.seed(SEED)
    r = random.Random(SEED)
    made = [pydantic, refs, expression, bounds, texts, wide, deep, merged, can_not]
    for i in range(COUNT):
        depth = i * 5 // COUNT
        if i % 2:
            yield made[i // 2 % len(made)](r, depth)
        else:
            yield r.choice(cases.DEEP + cases.ROOTS + cases.SIMPLE)(depth)[0]


def ask(url, schema, i):
    body = {"messages": [{"role": "user", "content": "Answer."}], "n": ANSWERS, "seed": i + 1,
            "temperature": 2, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": TOKENS,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    to = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(to, timeout=600)), None
    except urllib.error.HTTPError as e:
        return None, json.load(e)["error"]["message"]


def checker(s):
    return jsonschema.Draft202012Validator(
        s, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def keep(url):
    """What is kept are the two shortest answers to a schema, and values near to them that are wrong."""
    kept = []
    for i, s in enumerate(schemas()):
        if i % 4 != 1 or len(json.dumps(s)) > 2500:
            continue
        answer, refused = ask(url, s, i)
        if refused:
            why = refused.split(": ", 1)[1].split(": rule", 1)[0].split(", ", 1)[-1]
            kept.append({"schema": s, "refused": why})
            continue
        texts = sorted((c["message"]["content"] for c in answer["choices"]
                        if c["finish_reason"] == "stop"), key=len)[:2]
        texts = [t for t in texts if len(t) < 700]
        check = checker(s)
        assert all(check.is_valid(json.loads(t)) for t in texts)
        near = [cases.spoil(json.loads(t)) for t in texts for _ in range(4)]
        wrong = sorted({json.dumps(v, ensure_ascii=False) for v in near if not check.is_valid(v)})
        if texts:
            kept.append({"schema": s, "valid": texts, "invalid": wrong})
    out = cases.OUT.with_name("nasty.json")
    out.write_text("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in kept) + "\n]\n")
    return 0


def main():
    if sys.argv[1] == "keep":
        return keep(sys.argv[2])
    if sys.argv[1] == "print":
        for s in schemas():
            print(json.dumps(s, ensure_ascii=False))
        return 0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    last = int(sys.argv[3]) if len(sys.argv) > 3 else COUNT
    count = collections.Counter()
    for i, s in enumerate(schemas()):
        if not first <= i < last:
            continue
        answer, refused = ask(sys.argv[1], s, i)
        if refused:
            count["refused"] += 1
            print("%3d refused: %s" % (i, refused))
            continue
        check = checker(s)
        for choice in answer["choices"]:
            text = choice["message"]["content"] or ""
            count[choice["finish_reason"]] += 1
            if choice["finish_reason"] != "stop":
                continue
            try:
                wrong = next(check.iter_errors(json.loads(text)), None)
            except ValueError as e:
                wrong = e
            if wrong:
                count["WRONG"] += 1
                print("%3d WRONG: %s\n    %s\n    %s" % (i, str(wrong).split("\n")[0], text[:400],
                                                       json.dumps(s)[:600]))
        if not any(c["finish_reason"] == "stop" for c in answer["choices"]):
            print("%3d has no finished answer: %s" % (i, json.dumps(s)[:160]))
    print(dict(count))
    return 1 if count["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
