#!/usr/bin/env python3
"""Makes tests/fixtures/chat/replies*.jsonl: replies of models and what is in them.

    pip install jinja2
    python tools/make_reply_cases.py [--published DIR ...]

The reference is each published template itself. It renders a conversation that ends with the
assistant's message; without the prompt (what the template renders of the messages before, with
add_generation_prompt) and without the tokens that end the turn, that is what the model would have
written, and the message is what a client must get back. BY_HAND adds what models write and no
template renders. With mlx-lm installed, its parsers must agree with those.

replies-N.jsonl   {"name", "template" | "source", "prompt", "opened", "reply", "reasoning",
                  "content", "calls": [{"name", "arguments", "id"?}]}: "source" is a template's
                  text, where no template is kept; "prompt" is the end of the prompt
reply_tools.json  the tools of all of them
templates/        --published DIR copies the templates that give cases from there
"""
import argparse
import functools
import importlib
import itertools
import json
import pathlib
import re
import shutil

import jinja2
import jinja2.ext
import jinja2.sandbox

from make_chat_fixtures import HERE, NOW, TOKENS, Generation, lines, raise_exception, tojson
from reply_cases_by_hand import BY_HAND


def tool(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": []}}}


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": t} for t in ("string", "integer", "number", "boolean"))
TOOLS = [
    tool("weather", "The weather.", city=STRING, days=INTEGER),
    tool("now", "The time."),
    tool("note", "Keeps a note.", title=STRING, text=STRING, tags={"type": "array", "items": STRING},
         meta={"type": "object"}, id=INTEGER, score=NUMBER, pinned=BOOLEAN, any={},
         parent={"anyOf": [STRING, {"type": "null"}]}, rank={"type": ["integer", "null"]},
         kind={"enum": ["a", "b", "1"]}),
]
# What the templates see: some fail at properties without a type or a description.
SIMPLE = [tool("weather", "The weather.", city={**STRING, "description": "Where."})]
WEATHER = ("weather", {"city": "Z\u00fcrich", "days": 2})
THOUGHT = "The user asks.\nSo: look it up."
TEXT = "Let me look."


def note(**arguments):
    return [("note", arguments)]


# name: (reasoning, content, calls)
MESSAGES = {
    "call": ("", "", [WEATHER]),
    "two": ("", "", [WEATHER, ("note", {"title": "Second", "id": 1})]),
    "bare": ("", "", [("now", {})]),
    "nested": ("", "", note(meta={"a": [1, {"b": "c}"}, [], {}], "d": {"e": "f", "g": [True, None]}},
                            tags=["x, y", "[z]", "'q'"])),
    "tree": ("", "", note(meta={"a": [1, {"b": "c}"}], "d": {"e": "f", "g": [True]}})),
    "strings": ("", "", note(title="a \"b\" 'c' \\ \\n", text="<b> & </b> {x} [y] (z), k: v; \u4f60\U0001f600\u00e9")),
    "lines": ("", "", note(text="if a < b:\n\tc()\n\n  d = \"e\"\r\nf")),
    "spaces": ("", "", note(title="  two ", text=" ")),
    "empty": ("", "", note(title="", tags=[], meta={})),
    "types": ("", "", note(title="123", text="true", kind="1", id=-7, score=1.5, pinned=True)),
    "more types": ("", "", note(title="null", text="[1]", score=2, pinned=False, id=9007199254740993)),
    "nulls": ("", "", note(parent=None, rank=None)),
    "not null": ("", "", note(parent="p", rank=3, any="word")),
    "exponent": ("", "", note(score=1e-07, any=[1.0, 2.5e+20])),
    "long": ("", "", note(text="All work and no play makes Jack a dull boy. " * 8 + "End")),
    "text": ("", TEXT, []),
    "odd text": ("", "a < b, [1] {2} <tag> ``` \u00e9", []),
    "text, call": ("", TEXT, [WEATHER]),
    "thought, text": (THOUGHT, TEXT, []),
    "thought, call": (THOUGHT, "", [WEATHER]),
    "all": (THOUGHT, TEXT, [WEATHER, ("now", {})]),
}
ALWAYS = {"two", "call", "thought, text", "all"}  # for templates that reply as another does

# What a template loses is no case.
LOSSY = {
    "tool_chat_template_gemma3_pythonic.jinja": "no comma between arguments",
    "tool_chat_template_llama3.2_pythonic.jinja": "strings without quotes",
    "tool_chat_template_toolace.jinja": "strings without quotes",
    "tool_chat_template_llama4_pythonic.jinja": "all in quotes, which strings may hold as they are",
    "tool_chat_template_functiongemma.jinja": "all as strings",
    "tool_chat_template_phi4_mini.jinja": "no mark, and not what the model writes",
    "CohereForAI-c4ai-command-r-plus-tool_use.jinja": "its instructions follow the call",
}
LOSSY_CASES = {
    "LFM2.5-8B-A1B.jinja": ["strings"],  # quotes in strings as they are
    "MiniMax-M3.jinja": ["nested", "nulls"],  # empty list, object and null are the same, or nothing
    # The text stands in a turn of its own, after or before the call's.
    "NVIDIA-Nemotron-Nano-v2.jinja": ["text, call", "all"],
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": ["text, call", "all"],
    "openai-gpt-oss-120b.jinja": ["text, call"],  # the text is made a thought
    # Nothing tells a call after a text from more of the text.
    "tool_chat_template_llama4_json.jinja": ["text, call"],
    # A speaker's name before each text, which the model's own template has not.
    "tool_chat_template_hunyuan_a13b.jinja": ["text", "odd text"],
}
ENDS = re.compile("(" + "|".join(map(re.escape, """<|im_end|> <|eot_id|> <|eom_id|> <|eot|> <|end|> <|return|>
<|call|> <EOS> <|end_of_text|> <|endoftext|> <|im_assistant_end|> <end_of_turn> <turn|> <|end_of_turn|>
<|END_OF_TURN_TOKEN|> <\uff5cend\u2581of\u2581sentence\uff5c> <|tool_calls_end|><|eot|> <|assistant_end|> <|user|>
<|observation|> <start_function_response> <|message_sep|> <seed:eos> [e~[ <|role_end|> <|end_of_msg|>
<end_of_sentence> <|hy_eos|> <end_of_message> </assistant> <|EOT|> <sep> <\uff5chy_eos:opensource\uff5c> <SPECIAL_12>
<\uff5cAssistant\uff5c> <|assistant|> <|start_header_id|>assistant<|end_header_id|> <|START_THINKING|><|END_THINKING|>
<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|> <|flush|> <|tool_response>
<|eos|> <\uff5chy_eos\uff5c> <eos>""".split())) + r")\s*$")
def message(m, keys, as_text, empty):
    reasoning, content, calls = m
    out = {"role": "assistant", "content": content or empty}
    if keys == PARTS:
        out["content"] = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": content}]
    if reasoning:
        out.update({k: reasoning for k in keys if keys != PARTS})
    if calls:
        ids = [f"call0000{i}" for i in range(len(calls))]
        out["tool_calls"] = [{"type": "function", "id": i, "function": {
            "name": name, "arguments": json.dumps(a, ensure_ascii=False) if as_text else a}}
            for i, (name, a) in zip(ids, calls)]
    return out


def number_ids(m):  # as Kimi K2 wants them
    for i, c in enumerate(m.get("tool_calls", [])):
        c["id"] = f"functions.{c['function']['name']}:{i}"
    return m


@functools.lru_cache
def compiled(source):
    env = jinja2.sandbox.SandboxedEnvironment(  # not the immutable one: some templates append
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters.update(tojson=tojson, from_json=json.loads, fromjson=json.loads)
    env.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)
    return env.from_string(source)


def render(source, context):
    try:
        return compiled(source).render(**context)
    except Exception:  # the template refuses this message, or this way of giving it
        return None


def talk(source, last, settings):
    ask = [{"role": "user", "content": "How is Z\u00fcrich?"}]
    context = {**TOKENS, "tools": SIMPLE, "functions": "", "datetime": "", **settings}
    prompt = render(source, {**context, "messages": ask, "add_generation_prompt": True})
    full = render(source, {**context, "messages": ask + [last], "add_generation_prompt": False})
    return prompt, full


def cut(prompt, full, reasoning):
    """What comes after the prompt, and whether it is exact: many templates leave the thought of
    earlier turns out, though the prompt opened it; then the model wrote it, and its end."""
    if full.startswith(prompt):
        return full[len(prompt):], 0
    if opened := OPENS.search(prompt):
        start = prompt[:opened.start()]
        if full.startswith(start):
            rest = full[len(start):]
            for empty in EMPTY:
                rest = rest.removeprefix(empty)
            close = CLOSE[opened[1]]
            line = "\n" if opened[0].endswith("\n") else ""
            rest = rest if rest.startswith(close) else close + line * 2 + rest.lstrip("\n")
            return (reasoning + line if reasoning else "") + rest, 1
    return None


def marks(reply):
    while True:
        shorter = ENDS.sub("", reply)
        if shorter == reply:
            return reply
        reply = shorter


CLOSE = {"<think>": "</think>", "<seed:think>": "</seed:think>", "[THINK]": "[/THINK]",
         "<|START_THINKING|>": "<|END_THINKING|>", "<|channel>thought": "<channel|>",
         "<|open|>think<|sep|>": "<|close|>think<|sep|>", "<mm:think>": "</mm:think>",
         "<think:opensource>": "</think:opensource>", "<|inner_prefix|>": "<|inner_suffix|>"}
OPENS = re.compile("(" + "|".join(map(re.escape, CLOSE)) + r")\s*$")
EMPTY = ["<think></think>", "<think>\n</think>", "<think>\n\n</think>", "<|START_THINKING|><|END_THINKING|>"]
SETTINGS = [{}, {"enable_thinking": True, "thinking": True}, {"enable_thinking": False, "thinking": False}]
PARTS = ("parts",)
KEYS = [("reasoning_content", "reasoning", "thinking"), ("reasoning_content",), ("thinking",), ("reasoning",), PARTS]


def case(file, source, name, m):
    """The case of a message, or None where the template does not render all of it."""
    best = None
    for settings, keys, as_text, empty in itertools.product(
            SETTINGS, KEYS if m[0] else KEYS[:1], (False, True) if m[2] else (False,), ("", None) if m[2] else ("",)):
        last = message(m, keys, as_text, empty)
        if "tool_call_argument_begin" in source:
            number_ids(last)
        prompt, full = talk(source, last, settings)
        got = prompt and full and cut(prompt, full, m[0])
        if not got:
            continue
        reply = marks(got[0])
        if dropped(m, reply, last):
            continue
        calls = [{"name": c["function"]["name"], "arguments": a, **({"id": c["id"]} if c["id"] in reply else {})}
                 for c, (_, a) in zip(last.get("tool_calls", []), m[2])]
        if not best or got[1] < best[0]:
            opened = OPENS.search(prompt)
            if opened and CLOSE[opened[1]] not in reply:
                continue  # the prompt's thought would never end
            best = got[1], {"name": f"{file}: {name}", "template": file, "prompt": prompt[-60:],
                            "opened": bool(opened), "reply": reply, "reasoning": m[0],
                            "content": spaced(m, reply), "calls": calls}
    return best and best[1]


def spaced(m, reply):
    """The content with the white space that the template puts at an end of the whole reply."""
    reasoning, content, calls = m
    if not content:
        return content
    at = reply.index(content)
    end = "" if calls else reply[at + len(content):]
    return (reply[:at] if reply[:at].isspace() else "") + content + (end if end.isspace() else "")


def dropped(m, reply, last):
    if m[0] not in reply or m[1] not in reply:
        return True
    for (name, a), c in zip(m[2], last.get("tool_calls", [])):
        # A whole dict printed as Python's, or as the text that it was given as.
        given = c["function"]["arguments"]
        if name not in reply or (a and repr(a) in reply and a != {}) or (
                isinstance(given, str) and a and json.dumps(given, ensure_ascii=False) in reply):
            return True
    return len(m[2]) > sum(reply.count(n) for n in {n for n, _ in m[2]})


def by_hand():
    for place, name, flags, reply, reasoning, content, calls, *how in BY_HAND:
        source = place.startswith("source:")
        c = {"name": ("by hand" if source else place) + f": by hand: {name}",
             ("source" if source else "template"): place.removeprefix("source:"), "opened": "o" in flags,
             "reply": reply, "reasoning": reasoning, "content": content,
             "calls": [{"name": n, "arguments": a} for n, a in calls]}
        if "n" in flags:
            c["tools"] = False
        if how:
            check(c, *how)
        yield c


def check(c, parser, begin="", end=""):
    """mlx-lm's parser must see the same in the text between the marks."""
    try:
        parse = importlib.import_module("mlx_lm.tool_parsers." + parser).parse_tool_call
    except ImportError:
        return
    got = []
    for inner in c["reply"].split(begin)[1:] if begin else [c["reply"]]:
        r = parse(inner.split(end)[0] if end else inner, TOOLS)
        got += r if isinstance(r, list) else [r]
    got = [{"name": r["name"], "arguments": r["arguments"]} for r in got]
    if got != c["calls"]:
        raise SystemExit(f"{c['name']}: {parser} sees {got}")


def cases(files):
    seen = set()
    for file, path in sorted(files.items()):
        source = path.read_bytes().decode()
        found = {}
        for name, m in MESSAGES.items() if file not in LOSSY else ():
            if name not in LOSSY_CASES.get(file, ()) and (c := case(file, source, name, m)):
                found[name] = c
        if not any(c["calls"] or c["reasoning"] for c in found.values()):
            continue
        for name, c in found.items():
            if name in ALWAYS or c["reply"] not in seen:
                yield c
            seen.add(c["reply"])


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--published", type=pathlib.Path, nargs="*", default=[], help="folders of templates")
    args = args.parse_args()
    files = {f.name: f for d in [*args.published, HERE / "templates"] for f in sorted(d.glob("*.jinja"))}
    all_cases = [*cases(files), *by_hand()]
    for name in sorted({c["template"] for c in all_cases if "template" in c}):
        if files[name].parent != HERE / "templates":
            shutil.copyfile(files[name], HERE / "templates" / name)
    (HERE / "reply_tools.json").write_text(lines([TOOLS]))
    for old in HERE.glob("replies-*.jsonl"):
        old.unlink()
    parts, size = [[]], 0
    for c in all_cases:
        size += len(lines([c]))
        if size > 280_000:
            parts, size = [*parts, []], 0
        parts[-1].append(c)
    for i, part in enumerate(parts):
        (HERE / f"replies-{i + 1}.jsonl").write_text(lines(part))
    print(f"{len(all_cases)} cases, {sum('by hand' in c['name'] for c in all_cases)} by hand, "
          f"{len({c.get('template') for c in all_cases})} templates")


if __name__ == "__main__":
    main()
