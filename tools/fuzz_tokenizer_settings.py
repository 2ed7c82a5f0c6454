"""Compares mlxcel with transformers on a tokenizer.json with random settings beside it: tokenizer_config.json and
special_tokens_map.json that name roles, added tokens and flags, in agreement with the file or not.
python fuzz_tokenizer_settings.py MLXCEL [--runs 200] [--seed 0] [--fixture FILE]     (transformers 5.24)
--fixture writes the folders and what transformers gave (tests/fixtures/tokenizer/settings.json: --runs 40)."""
import argparse, json, os, random, tempfile
from pathlib import Path
os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"}
import transformers
from fuzz_tokenizer import differences

POOL = ["<s>", "</s>", "<pad>", "<mask>", "<|im_end|>", "<tool>", " x", "Hello", "<image>", "[X]"]
ROLES = ["bos", "eos", "pad", "unk", "mask", "sep", "cls"]
TEXTS = [t for c in POOL for t in (c, f"a{c}b", f"Hello {c} x {c}\n")]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def some(self, p):
        return self.r.random() < p

    def token(self, content):
        return {"content": content} | {f: self.some(0.3) for f in ("lstrip", "rstrip", "normalized", "single_word")} | {"special": self.some(0.6)}

    def file(self):
        vocab = {c: i for i, c in enumerate("?" + "".join(chr(i) for i in range(32, 127) if chr(i) != "?") + "\n")}
        for c in self.r.sample(POOL, 3):
            vocab[c] = len(vocab)
        added, n = [], len(vocab)
        for c in self.r.sample(POOL, self.r.randrange(5)):
            added.append({"id": vocab.get(c, n), **self.token(c)})
            n += c not in vocab
        around = None
        if added and self.some(0.5):
            a = added[0]
            around = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": a["content"], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                      "special_tokens": {a["content"]: {"id": a["content"], "ids": [a["id"]], "tokens": [a["content"]]}}}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": False}, "post_processor": around, "decoder": {"type": "Fuse"},
                "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "?"}}

    def config(self, spec):
        r, vocab = self.r, spec["model"]["vocab"]
        c = {"tokenizer_class": r.choice(["PreTrainedTokenizerFast", "TokenizersBackend"])}
        for role, content in zip(ROLES, r.sample(POOL, len(ROLES))):  # one content in two roles is not defined by what the files say
            if self.some(0.4):
                c[role + "_token"] = r.choice([content, content, {"__type": "AddedToken", **self.token(content)}, None])
        for key in ("add_bos_token", "add_eos_token", "split_special_tokens", "clean_up_tokenization_spaces", "add_prefix_space"):
            if self.some(0.3):
                c[key] = self.some(0.5)
        if self.some(0.3):
            c["additional_special_tokens"] = r.sample(POOL, r.randrange(4))
        elif self.some(0.3):
            c["extra_special_tokens"] = r.choice([r.sample(POOL, 2), {"image_token": "<image>", "x_token": "[X]"}])
        if self.some(0.2):
            c["image_token"] = r.choice(POOL)
        if self.some(0.4):
            have = {a["content"]: a["id"] for a in spec["added_tokens"]}
            n = max([*vocab.values(), *have.values()]) + 1
            table = {}
            for content in r.sample([p for p in POOL if p not in have], 2) + [h for h in have if self.some(0.8)]:
                id = have.get(content, vocab.get(content, n))
                n += id == n
                table[str(id)] = next(a for a in spec["added_tokens"] if a["content"] == content).copy() if content in have and self.some(0.5) else self.token(content)
                table[str(id)].pop("id", None)
            c["added_tokens_decoder"] = table
        return c

    def map(self):
        if self.some(0.7):
            return None
        return {role + "_token": self.r.choice([content, {k: v for k, v in self.token(content).items() if k != "special"}]) for role, content in zip(ROLES, self.r.sample(POOL, 3)) if self.some(0.5)}


def reference(folder):
    tok = transformers.AutoTokenizer.from_pretrained(str(folder))
    encoded = [{"text": t, "add_special": s, "ids": tok.encode(t, add_special_tokens=s)} for t in TEXTS for s in (True, False)]
    decoded = [{"ids": e["ids"], "skip_special": s, "text": tok.decode(e["ids"], skip_special_tokens=s, clean_up_tokenization_spaces=False)} for e in encoded[1::2] for s in (True, False)]
    return encoded, decoded


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("mlxcel")
    a.add_argument("--runs", type=int, default=200)
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--fixture", type=Path)
    a = a.parse_args()
    bad, fixture = 0, []
    for seed in range(a.seed, a.seed + a.runs):
        maker = Maker(seed)
        spec = maker.file()
        files = {"tokenizer.json": spec, "tokenizer_config.json": maker.config(spec), "special_tokens_map.json": maker.map()}
        with tempfile.TemporaryDirectory() as d:
            for name, value in files.items():
                if value is not None:
                    (Path(d) / name).write_text(json.dumps(value))
            encoded, decoded = reference(d)
            found = differences(a.mlxcel, d, encoded, decoded)
        r = random.Random(seed)
        fixture.append({"files": {n: json.dumps(v) for n, v in files.items() if v is not None}, "encoded": r.sample(encoded, 10), "decoded": r.sample(decoded, 6)})
        if found:
            bad += 1
            print(f"seed {seed}: {len(found)} differ", *[f"  {n} {json.dumps(v if n != 'tokenizer.json' else v['added_tokens'])}" for n, v in files.items()], sep="\n")
            print(*[f"  {c} {json.dumps(i)}\n    transformers {json.dumps(w)}\n    mlxcel       {json.dumps(g)}" for c, i, w, g in found[:2]], sep="\n", flush=True)
    if a.fixture:
        a.fixture.write_text(json.dumps(fixture) + "\n")
    print(f"{bad} of {a.runs} differ")


if __name__ == "__main__":
    main()
