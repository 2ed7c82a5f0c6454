#!/usr/bin/env python3
"""Makes tests/fixtures/sampling.json: what each sampler leaves of given logits, with what chance.

    tools/make_sampling.py tests/fixtures/sampling.json

The samplers are written here from the papers and pages that define them, in float64 and without
regard to speed. Where transformers has the same sampler, its logits processor must agree. Needs
numpy, torch and transformers.
"""
import json
import sys

import numpy as np
import torch
from transformers.generation import logits_process as hf

VOCAB = 40
DEFAULT = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc",
           "temperature"]


class Uniform:
    """splitmix64 (Steele, Lea, Flood 2014): the top 53 bits as a number in [0, 1)."""

    def __init__(self, seed):
        self.state = seed

    def __call__(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2.0**53


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def order(x):
    """Best first; of equals the lowest id first."""
    return np.lexsort((np.arange(len(x)), -x))


def keep(x, ids):
    out = np.full_like(x, -np.inf)
    out[ids] = x[ids]
    return out


def left(x):
    return [i for i in order(x) if x[i] > -np.inf]


def penalties(x, p, history):
    n = p.get("repeat_last_n", -1)
    seen = history if n < 0 else history[len(history) - n:] if n else []
    x = x.copy()
    for i in set(seen):
        r = p.get("repeat_penalty", 1.0)
        x[i] = x[i] / r if x[i] > 0 else x[i] * r
        x[i] -= p.get("presence_penalty", 0) + seen.count(i) * p.get("frequency_penalty", 0)
    return x


def dry(x, p, history):
    """As text-generation-webui's pull request 5677 tells it: for each earlier place where the last
    token stood, how much before it is the same as before the last token."""
    n = p.get("dry_penalty_last_n", -1)
    history = history if n < 0 else history[len(history) - n:] if n else []
    breakers = p.get("dry_breakers", [])
    if not p.get("dry_multiplier") or not history or history[-1] in breakers:
        return x
    longest = {}
    for i in range(len(history) - 1):
        if history[i] != history[-1] or history[i + 1] in breakers:
            continue
        length = 1
        while length <= i and history[i - length] == history[-1 - length] \
                and history[i - length] not in breakers:
            length += 1
        longest[history[i + 1]] = max(longest.get(history[i + 1], 0), length)
    x = x.copy()
    for token, length in longest.items():
        over = length - p.get("dry_allowed_length", 2)
        if over >= 0:
            x[token] -= p["dry_multiplier"] * p.get("dry_base", 1.75)**over
    return x


def top_n_sigma(x, p, _):
    n = p.get("top_n_sigma", -1)
    if n <= 0:
        return x
    finite = x[np.isfinite(x)]
    return keep(x, x >= finite.max() - n * finite.std())


def top_k(x, p, _):
    k = p.get("top_k", 0)
    return keep(x, left(x)[:k]) if k > 0 else x


def typ_p(x, p, _):
    mass = p.get("typical_p", 1.0)
    if mass >= 1:
        return x
    probs = softmax(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(probs)
        entropy = np.nansum(probs * surprise)
    ids = sorted(left(x), key=lambda i: abs(surprise[i] - entropy))
    total, out = 0.0, []
    for i in ids:
        out.append(i)
        total += probs[i]
        if total > mass and len(out) >= p.get("min_keep", 0):
            break
    return keep(x, out)


def top_p(x, p, _):
    mass = p.get("top_p", 1.0)
    if mass >= 1:
        return x
    probs, total, out = softmax(x), 0.0, []
    for i in left(x):
        out.append(i)
        total += probs[i]
        if total >= mass and len(out) >= p.get("min_keep", 0):
            break
    return keep(x, out)


def min_p(x, p, _):
    least = p.get("min_p", 0.0)
    if least <= 0:
        return x
    probs = softmax(x)
    out = [i for i in left(x) if probs[i] >= least * probs.max()]
    return keep(x, out if len(out) >= p.get("min_keep", 0) else left(x)[:p["min_keep"]])


def xtc(x, p, _):
    if p.get("xtc_probability", 0.0) < 1 or p["xtc_threshold"] > 0.5:
        return x  # a chance between 0 and 1 is tested by counting
    probs = softmax(x)
    above = [i for i in left(x) if probs[i] >= p["xtc_threshold"]]
    rest = [i for i in left(x) if i not in above[:-1]]
    return keep(x, rest) if len(rest) >= p.get("min_keep", 0) else x


def temperature(x, p, _):
    t, spread = p.get("temperature", 1.0), p.get("dynatemp_range", 0.0)
    n = len(left(x))
    if spread > 0 and n > 1:
        probs = softmax(x)[left(x)]
        low, high = max(0.0, t - spread), t + spread
        entropy = -(probs[probs > 0] * np.log(probs[probs > 0])).sum() / np.log(n)
        t = low + (high - low) * entropy**p.get("dynatemp_exponent", 1.0)
    return x / t if t > 0 else keep(x, left(x)[:1])


FILTERS = {f.__name__: f for f in (penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc,
                                   temperature)}


def begin(x, p):
    x = np.array(x, dtype=np.float64)
    for i, b in p.get("bias", []):
        x[i] = -np.inf if b is False else x[i] + b
    return x


def chain(x, p, history):
    x = begin(x, p)
    for name in p.get("samplers", DEFAULT):
        x = FILTERS[name](x, p, history)
    return x


def mirostat(x, p, mu):
    x = temperature(begin(x, p), p, None)
    probs, ids = softmax(x), left(x)
    if p["mirostat"] == 1:
        t = [np.log((i + 2) / (i + 1)) for i in range(min(99, len(ids) - 1))]
        b = [np.log(probs[ids[i]] / probs[ids[i + 1]]) for i in range(len(t))]
        s = np.dot(t, b) / np.dot(t, t)
        k = ((s - 1) * 2**mu / (1 - len(x)**-(s - 1)))**(1 / s)
        return keep(x, ids[:max(1, int(k))])
    return keep(x, ids[:1] + [i for i in ids[1:] if -np.log2(probs[i]) <= mu])


def mirostat_run(p, rows):
    """Each step's chances and token; the draw goes through the tokens best first."""
    uniform, mu, steps = Uniform(p["seed"]), 2 * p["mirostat_tau"], []
    for x in rows:
        y = mirostat(x, p, mu)
        probs, ids, at = softmax(y), left(y), uniform()
        total, token = 0.0, ids[-1]
        for i in ids:
            total += probs[i]
            if at < total:
                token = i
                break
        mu -= p["mirostat_eta"] * (-np.log2(probs[token]) - p["mirostat_tau"])
        steps.append({"logits": x, "want": chances(y), "token": int(token)})
    return steps


def chances(x):
    probs = softmax(x)
    return [[int(i), float(f"{probs[i]:.6g}")] for i in left(x)]


def check_with_transformers(x, history):
    ids = torch.tensor([history])
    scores = torch.tensor(x, dtype=torch.float64)[None]
    for ours, theirs in (
        (top_k(x, {"top_k": 7}, None), hf.TopKLogitsWarper(7)),
        (top_p(x, {"top_p": 0.8}, None), hf.TopPLogitsWarper(0.8)),
        (min_p(x, {"min_p": 0.1}, None), hf.MinPLogitsWarper(0.1)),
        (typ_p(x, {"typical_p": 0.6}, None), hf.TypicalLogitsWarper(0.6)),
        (temperature(x, {"temperature": 0.7}, None), hf.TemperatureLogitsWarper(0.7)),
        (penalties(x, {"repeat_penalty": 1.3}, history),
         hf.RepetitionPenaltyLogitsProcessor(1.3)),
    ):
        want = theirs(ids, scores.clone())[0].numpy()
        np.testing.assert_allclose(ours, want, rtol=1e-9, err_msg=type(theirs).__name__)


CASES = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.3},
    {"temperature": 2.5},
    {"temperature": 0.8, "dynatemp_range": 0.5},
    {"temperature": 0.4, "dynatemp_range": 0.7, "dynatemp_exponent": 2.0},
    {"temperature": 0.0, "dynatemp_range": 1.5, "dynatemp_exponent": 0.5, "top_k": 5},
    {"top_k": 1},
    {"top_k": 6},
    {"top_p": 0.5},
    {"top_p": 0.9},
    {"top_p": 0.01, "min_keep": 4},
    {"min_p": 0.05},
    {"min_p": 0.4},
    {"min_p": 0.99, "min_keep": 3},
    {"typical_p": 0.2},
    {"typical_p": 0.7},
    {"typical_p": 0.05, "min_keep": 5},
    {"top_n_sigma": 0.5},
    {"top_n_sigma": 1.0},
    {"top_n_sigma": 1.5, "top_k": 30},
    {"xtc_probability": 1.0, "xtc_threshold": 0.1},
    {"xtc_probability": 1.0, "xtc_threshold": 0.05, "min_keep": 39},
    {"xtc_probability": 1.0, "xtc_threshold": 0.02, "temperature": 0.0},
    {"xtc_probability": 1.0, "xtc_threshold": 0.6},
    {"repeat_penalty": 1.5},
    {"repeat_penalty": 1.5, "repeat_last_n": 3},
    {"repeat_penalty": 1.5, "repeat_last_n": 0},
    {"presence_penalty": 1.2},
    {"frequency_penalty": 0.7},
    {"repeat_penalty": 1.2, "presence_penalty": -0.5, "frequency_penalty": 0.3,
     "repeat_last_n": 10},
    {"dry_multiplier": 0.8},
    {"dry_multiplier": 0.8, "dry_base": 1.1, "dry_allowed_length": 1},
    {"dry_multiplier": 2.0, "dry_allowed_length": 4},
    {"dry_multiplier": 2.0, "dry_allowed_length": 5},
    {"dry_multiplier": 0.8, "dry_penalty_last_n": 7},
    {"dry_multiplier": 0.8, "dry_breakers": [4]},
    {"dry_multiplier": 0.8, "dry_breakers": [9]},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_breakers": [7]},
    {"bias": [[3, 2.5], [11, -4.0], [20, False]]},
    {"bias": [[5, 30.0]], "temperature": 0.0},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.1},
    {"temperature": 0.5, "top_p": 0.7, "samplers": ["temperature", "top_p"]},
    {"temperature": 0.5, "top_p": 0.7, "samplers": ["top_p"]},
    {"temperature": 0.5, "top_p": 0.7, "top_k": 3, "samplers": []},
    {"temperature": 1.5, "top_k": 12, "repeat_penalty": 1.8, "dry_multiplier": 1.0,
     "samplers": ["top_k", "temperature", "dry", "penalties", "temperature"]},
    {"temperature": 0.0, "top_k": 5, "samplers": ["top_k"]},
    {"temperature": 1.3, "top_n_sigma": 2.0, "top_k": 25, "typical_p": 0.9, "top_p": 0.9,
     "min_p": 0.03, "xtc_probability": 1.0, "xtc_threshold": 0.08, "presence_penalty": 0.4,
     "dry_multiplier": 0.5},
]
MIROSTAT = [
    {"mirostat": 1, "mirostat_tau": 3.0, "mirostat_eta": 0.1, "seed": 1},
    {"mirostat": 1, "mirostat_tau": 1.5, "mirostat_eta": 0.4, "temperature": 0.7, "seed": 2},
    {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.1, "seed": 3},
    {"mirostat": 2, "mirostat_tau": 1.0, "mirostat_eta": 0.5, "temperature": 1.4, "seed": 4},
]
# It ends with what stood twice before, once after a 7: 9 4 5 6.
HISTORY = [1, 9, 4, 5, 6, 13, 2, 7, 9, 4, 5, 6, 17, 30, 7, 9, 4, 5, 6]


def main():
    rng = np.random.default_rng(8)
    logits = [[float(np.float32(round(v, 3))) for v in rng.normal(0, s, VOCAB)]
              for s in (1.0, 2.5, 5.0)]
    logits.append([float(i % 4) for i in range(VOCAB)])  # ties
    for x in logits[:3]:
        check_with_transformers(np.array(x), HISTORY)
    out = {"history": HISTORY, "logits": logits, "cases": [], "mirostat": []}
    for k, p in enumerate(CASES):
        for i in (k % 3, (k + 1) % 3, 3):
            x = logits[i]
            ties = i == 3 and ("typical_p" in p or p.get("samplers"))
            if not ties:  # whose order is not defined
                out["cases"].append({"logits": i, "params": p,
                                     "want": chances(chain(x, p, HISTORY))})
    for p in MIROSTAT:
        rows = [[float(np.float32(round(v, 3))) for v in rng.normal(0, 2.0, VOCAB)]
                for _ in range(12)]
        out["mirostat"].append({"params": p, "steps": mirostat_run(p, rows)})
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
