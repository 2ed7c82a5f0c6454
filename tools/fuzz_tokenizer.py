"""Compares `mlxcel tokenize` and `detokenize` with the tokenizers library on random tokenizer.json files: random chains of
every kind of stage, tiny vocabularies with holes and oddities, added tokens with all flags, hostile texts.
python fuzz_tokenizer.py MLXCEL [--runs 500] [--seed 0] [--keep FOLDER] [--fixture FILE]     (tokenizers 0.23)
--keep saves the tokenizers that differ; --fixture writes all of them with some of what the library gave
(tests/fixtures/tokenizer/random.json: --runs 26)."""
import argparse, json, os, random, subprocess, sys, tempfile
from pathlib import Path
from tokenizers import Tokenizer, pre_tokenizers
from make_tokenizer_fixtures import DEEPSEEK, GPT2, LLAMA3, O200K, QWEN2

CHARS = list("abcABCst  ..,'!-_12\n\t") + list("éßİſ\u0301\u0323中文あア한각\u1112\u1161ёЖΣςअ\u0915\u094dกا\u0651אı\u212a\u212b½²ⅣǅʰK") + \
    ["\u2581", "\u00a0", "\u3000", "\u200b", "\u200d", "\ufeff", "\u00ad", "\x00", "\x01", "\x7f", "\x85", "\u2028", "\ufffd", "\ufb01", "\ufb03", "\uff21", "😀", "👍🏽", "👨\u200d👩\u200d👧", "🇩🇪", "\U0001d400", "\ue000", "\U0010ffff", "\u0345", "\u1e69", "\u0130", "\u0149", "\u1f80", "Ġ", "Ċ", "Ã", "©", "\uac00", "\u11a8", "\u304b\u3099", "\uff76"]
WORDS = ["it's", "I'M", "don't", "hello", "Hello", "world", " the", "the", "ab", "abc", "aab", "<s>", "</s>", "<unk>", "[CLS]", "##a", "##b", "</w>", "<0x41>", "<0xE4>", "<0xFF>", "<0xzz>", "|", "||", "..", "...", " .", " ,", " n't", " 's", " do not", "a b", "  ", "   ", "\r\n", "\n\n", "123", "3.14", "中文中文", "한국어", "\u2581a", "\u2581\u2581", "a\u2581", "camelCase", "HTMLParser", "http://a.b/c?d=1", "e\u0301", "e\u0323\u0301"]
REGEXES = [GPT2, LLAMA3, QWEN2, O200K, *DEEPSEEK, r"\s+", r"\w+", r"\w+|[^\w\s]+", r"\d", r"\d{1,3}", r"\p{N}", r"[a-z]+", r"(?i)[a-c]", r"(?i:ss|k)", "a", "", "a*", "(?=b)", "(?<=a)", r"\b", "^", "$", r"\z", r"[^\S\n]+", r"\p{Han}+", r"[\p{L}&&[^\p{Lu}]]+", r"[[:punct:]]", r"[[:alpha:]]+", r"\h+", r".", r"(?m).", r"(a|b)+", r"\p{Lu}?\p{Ll}+", r" ?[^\s]+", r"[\r\n]", r"\X", r"(?<!\p{L})\p{L}", r"\p{M}+", r"[^\x00-\x7F]+", r"\u0041", r"\x{4e2d}", r"['’](?i:s|t|re)", r" {2,}", r"\R", r"[0-9](?=(?:[0-9]{3})+(?![0-9]))"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
BYTES = pre_tokenizers.ByteLevel.alphabet()


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.charsmaps = json.loads((Path(__file__).parent.parent / "tests/fixtures/tokenizer/stages.json").read_text())["normalizers"]
        self.charsmaps = [n["spec"]["precompiled_charsmap"] for n in self.charsmaps if n["spec"].get("precompiled_charsmap")]

    def flip(self, p=0.5):
        return self.r.random() < p

    def text(self, most=12):
        r = self.r
        parts = []
        for _ in range(r.randrange(most)):
            kind = r.random()
            parts.append(r.choice(CHARS) if kind < 0.5 else r.choice(WORDS) if kind < 0.9 else r.choice(CHARS) * r.randrange(1, 9))
        return "".join(parts)

    def long_text(self):
        return self.r.choice(["".join(self.r.choice(CHARS + WORDS) for _ in range(300)), self.r.choice(CHARS) * 200, self.r.choice(WORDS) * 80])

    def token(self):
        r = self.r
        return "".join(r.choice(CHARS) if r.random() < 0.7 else r.choice(WORDS) for _ in range(r.randrange(1, 4)))

    def pattern(self):
        return {"Regex": self.r.choice(REGEXES)} if self.flip(0.6) else {"String": self.r.choice(CHARS + WORDS)}

    # --- stages: each returns its object, optional keys left out at times ---

    def chain(self, one, key, p):
        """null, one stage, or a Sequence of some, perhaps nested."""
        if self.flip(p):
            return None
        if self.flip(0.5):
            return one()
        def sequence(depth):
            return {"type": "Sequence", key: [sequence(depth - 1) if depth and self.flip(0.15) else one() for _ in range(self.r.randrange(4))]}
        return sequence(2)

    def normalizer(self):
        r = self.r
        t = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Replace", "Prepend", "Nmt", "Precompiled", "BertNormalizer", "ByteLevel"])
        n = {"type": t}
        if t == "Strip":
            n |= {"strip_left": self.flip(), "strip_right": self.flip()}
        elif t == "Replace":
            n |= {"pattern": self.pattern(), "content": r.choice(["", " ", "\u2581", "x", self.token()])}
        elif t == "Prepend":
            n |= {"prepend": r.choice(["\u2581", " ", "x"])}
        elif t == "Precompiled":
            n |= {"precompiled_charsmap": r.choice(self.charsmaps)}
        elif t == "BertNormalizer":
            n |= {"clean_text": self.flip(), "handle_chinese_chars": self.flip(), "strip_accents": r.choice([True, False, None]), "lowercase": self.flip()}
        return n

    def pretokenizer(self):
        r = self.r
        t = r.choice(["ByteLevel", "ByteLevel", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "Split", "Split", "Split", "Metaspace", "Metaspace", "BertPreTokenizer", "UnicodeScripts", "CharDelimiterSplit", "FixedLength"])
        n = {"type": t}
        if t == "ByteLevel":
            n |= {"add_prefix_space": self.flip(), "trim_offsets": self.flip(), "use_regex": self.flip()}
        elif t == "Punctuation":
            n |= {"behavior": r.choice(BEHAVIORS)}
        elif t == "Digits":
            n |= {"individual_digits": self.flip()}
        elif t == "Split":
            n |= {"pattern": self.pattern(), "behavior": r.choice(BEHAVIORS), "invert": self.flip(0.3)}
        elif t == "Metaspace":
            n |= {"replacement": r.choice(["\u2581", "\u2581", "_", "a", "é"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": self.flip(0.7)}
        elif t == "CharDelimiterSplit":
            n |= {"delimiter": r.choice([" ", "a", "\u2581", "é"])}
        elif t == "FixedLength":
            n |= {"length": r.randrange(1, 6)}
        return n

    def decoder(self):
        r = self.r
        t = r.choice(["ByteLevel", "Metaspace", "WordPiece", "BPEDecoder", "ByteFallback", "Fuse", "Strip", "Replace", "CTC"])
        n = {"type": t}
        if t == "Metaspace":
            n |= {"replacement": r.choice(["\u2581", "_", "a"]), "prepend_scheme": r.choice(["always", "first", "never"]), "split": self.flip()}
        elif t == "WordPiece":
            n |= {"prefix": r.choice(["##", "@", ""]), "cleanup": self.flip()}
        elif t == "BPEDecoder":
            n |= {"suffix": r.choice(["</w>", "a", "b"])}
        elif t == "Strip":
            n |= {"content": r.choice([" ", "a", "\u2581", "é"]), "start": r.randrange(3), "stop": r.randrange(3)}
        elif t == "Replace":
            n |= {"pattern": self.pattern(), "content": r.choice(["", " ", "x"])}
        elif t == "CTC":
            n |= {"pad_token": r.choice(["<pad>", "a", "</s>"]), "word_delimiter_token": r.choice(["|", " ", "b"]), "cleanup": self.flip()}
        return n

    def processor(self, vocab):
        r = self.r
        t = r.choice(["TemplateProcessing", "TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"])
        n = {"type": t}
        pick = lambda: r.choice(sorted(vocab.items()))
        if t == "ByteLevel":
            return n | {"add_prefix_space": self.flip(), "trim_offsets": self.flip(), "use_regex": self.flip()}
        if t != "TemplateProcessing":
            n |= {"sep": list(pick()), "cls": list(pick())}
            return n if t == "BertProcessing" else n | {"trim_offsets": self.flip(), "add_prefix_space": self.flip()}
        names = [f"t{i}" for i in range(r.randrange(1, 4))]
        def template(sequences):
            parts = [{"Sequence": {"id": s, "type_id": 0}} for s in sequences]
            for _ in range(r.randrange(3)):
                parts.insert(r.randrange(len(parts) + 1), {"SpecialToken": {"id": r.choice(names), "type_id": 0}})
            return parts
        special = {}
        for name in names:
            some = [pick() for _ in range(r.randrange(1, 3))]
            special[name] = {"id": name, "ids": [i for _, i in some], "tokens": [t for t, _ in some]}
        return n | {"single": template(r.choice([["A"], ["A"], ["A", "A"], []])), "pair": template(["A", "B"]), "special_tokens": special}

    # --- models ---

    def pieces(self, n):
        out = {}
        for c in self.r.sample(CHARS, self.r.randrange(5, len(CHARS))):
            out.setdefault(c)
        for c in "abc":
            out.setdefault(c)
        if self.flip(0.4):
            out |= dict.fromkeys(BYTES)
        for w in self.r.sample(WORDS, self.r.randrange(len(WORDS))):
            out.setdefault(w)
        for _ in range(n):
            out.setdefault(self.token())
        if self.flip(0.4):
            some = range(256) if self.flip(0.6) else self.r.sample(range(256), 200)
            out |= dict.fromkeys(f"<0x{b:02X}>" for b in some)
        return list(out)

    def numbered(self, tokens):
        ids = list(range(len(tokens)))
        if self.flip(0.2):  # holes
            ids = sorted(self.r.sample(range(len(tokens) * 2), len(tokens)))
        if self.flip(0.3):
            self.r.shuffle(ids)
        return dict(zip(tokens, ids))

    def bpe(self):
        r = self.r
        prefix, suffix = r.choice([None, None, None, "", "##", "@"]), r.choice([None, None, None, "", "</w>"])
        tokens = dict.fromkeys(self.pieces(20))
        if prefix:
            tokens |= dict.fromkeys(prefix + t for t in list(tokens) if len(t) == 1)
        if suffix:
            tokens |= dict.fromkeys(t + suffix for t in list(tokens))
        merges = {}
        for _ in range(r.randrange(120)):
            names = list(tokens)
            a, b = r.choice(names), r.choice(names)
            joint = a + (b[len(prefix):] if prefix and b.startswith(prefix) else b)
            if len(joint) > 24 or " " in a + b and self.flip(0.9) or prefix and not b.startswith(prefix):
                continue
            tokens.setdefault(joint)
            merges[a, b] = None
        if self.flip(0.7):  # pairs that texts are likely to have
            for w in WORDS:
                w = w.replace(" ", r.choice(["\u2581", "Ġ"]))
                for k in range(1, len(w)):
                    a, b = w[:k], w[k:]
                    if prefix or a not in tokens or b not in tokens or self.flip(0.3):
                        continue
                    tokens.setdefault(w)
                    merges[a, b] = None
        unk = r.choice([None, None, "<unk>", "a", "nowhere"])
        if unk == "<unk>":
            tokens.setdefault(unk)
        as_text = self.flip() and not any(" " in a + b for a, b in merges)
        return {"type": "BPE", "dropout": None, "unk_token": unk, "continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "fuse_unk": self.flip(), "byte_fallback": self.flip(), "ignore_merges": self.flip(0.3),
                "vocab": self.numbered(list(tokens)), "merges": [f"{a} {b}" if as_text else [a, b] for a, b in merges]}

    def unigram(self):
        r = self.r
        tokens = self.pieces(60)
        scores = [round(-r.random() * 12, 3) for _ in tokens] if self.flip(0.8) else [-float(r.randrange(4)) for _ in tokens]
        return {"type": "Unigram", "unk_id": r.choice([None, 0, 0, 0, r.randrange(len(tokens))]), "byte_fallback": self.flip(), "vocab": [list(x) for x in zip(tokens, scores)]}

    def wordpiece(self):
        r = self.r
        prefix = r.choice(["##", "##", "@", ""])
        tokens = dict.fromkeys(self.pieces(40))
        tokens |= dict.fromkeys(prefix + t for t in list(tokens) if self.flip())
        tokens |= dict.fromkeys(["[UNK]"] if self.flip(0.9) else [])
        return {"type": "WordPiece", "unk_token": r.choice(["[UNK]", "[UNK]", "[UNK]", "a"]), "continuing_subword_prefix": prefix, "max_input_chars_per_word": r.choice([100, 100, 3, 10]), "vocab": self.numbered(list(tokens))}

    def wordlevel(self):
        return {"type": "WordLevel", "vocab": self.numbered(self.pieces(60)), "unk_token": self.r.choice(["a", "b", "<unk>"])}

    def added(self, vocab):
        r = self.r
        out, names = [], {}
        size = max(vocab.values()) + 1
        for _ in range(r.choice([0, 0, 1, 3, 6])):
            content = r.choice(list(vocab)) if self.flip(0.3) else r.choice(["<s>", "</s>", "<pad>", "<mask>", "<|im_start|>", "A", "ab", " x", "x ", "HELLO", "É", "e\u0301", "\u2581", "<s", "<s>a", "İ", "ss", self.token()])
            if content in names:
                continue
            id = vocab.get(content, size)
            size += id == size
            names[content] = None
            special = self.flip()
            out.append({"id": id, "content": content, "single_word": self.flip(0.3), "lstrip": self.flip(0.3), "rstrip": self.flip(0.3), "normalized": self.flip(), "special": special})
        return out

    def pretokenizers(self, normalizer):
        """Metaspace's "first" looks at the offset in the raw text. Where a normalizer drops that text, or another
        step has put something before it, what comes out depends on the library's bookkeeping: left out."""
        chain = json.dumps(self.chain(self.pretokenizer, "pretokenizers", 0.2))
        if normalizer or chain.count("Metaspace") > 1 or "ByteLevel" in chain:
            chain = chain.replace('"first"', '"always"')
        return json.loads(chain)

    def file(self):
        model = self.r.choice([self.bpe, self.bpe, self.bpe, self.unigram, self.unigram, self.wordpiece, self.wordlevel])()
        vocab = {t: i for i, (t, _) in enumerate(model["vocab"])} if model["type"] == "Unigram" else model["vocab"]
        normalizer = self.chain(self.normalizer, "normalizers", 0.4)
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": self.added(vocab),
                "normalizer": normalizer, "pre_tokenizer": self.pretokenizers(normalizer),
                "post_processor": self.chain(lambda: self.processor(vocab), "processors", 0.4),
                "decoder": self.chain(self.decoder, "decoders", 0.25), "model": model}


def attempt(f):
    """f(), or the error that it raises; None when the library panics, which tells nothing."""
    try:
        return f()
    except Exception as e:
        return {"error": str(e)[:200]}
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        return None


def ambiguous(tok):
    """Added tokens that normalize to nothing cut texts into characters; of those that normalize to the same text, the
    library takes either."""
    texts = [tok.normalizer.normalize_str(t.content) for t in tok.get_added_tokens_decoder().values() if t.normalized and tok.normalizer]
    return "" in texts or len(set(texts)) < len(texts)


def reference(tok, maker):
    r = maker.r
    size = max(tok.get_vocab(with_added_tokens=True).values()) + 3
    texts = [maker.text(r.choice([3, 8, 20])) for _ in range(14)] + [maker.long_text()]
    for a in tok.get_added_tokens_decoder().values():
        texts += [a.content, "a" + a.content + "b", f" {a.content}  {a.content}\n"]
    encoded = [{"text": t, "add_special": s, "ids": attempt(lambda: tok.encode(t, add_special_tokens=s).ids)} for t in texts for s in (True, False)]
    lists = [e["ids"] for e in encoded if isinstance(e["ids"], list) and not e["add_special"]] + [[r.randrange(size) for _ in range(r.randrange(1, 9))] for _ in range(12)]
    decoded = [{"ids": i, "skip_special": s, "text": attempt(lambda: tok.decode(i, skip_special_tokens=s))} for i in lists for s in (True, False)]
    return encoded, decoded


def sample(cases, key, step):
    """Some of the cases that the library has an answer to."""
    return [c for c in cases if isinstance(c[key], (list, str)) and len(json.dumps(c)) < 1500][::step]


def batch(mlxcel, command, folder, lines):
    p = subprocess.run([mlxcel, command, "-m", str(folder), "--jsonl"], input="".join(json.dumps(l) + "\n" for l in lines).encode(), capture_output=True, timeout=60)
    return [json.loads(x) for x in p.stdout.split(b"\n") if x], p.stderr.decode(errors="replace").strip(), p.returncode


def differences(mlxcel, path, encoded, decoded):
    """What mlxcel gives otherwise than the library: (what, input, theirs, ours)."""
    out = []
    for command, cases, want, ask in [("tokenize", encoded, "ids", ("text", "add_special")), ("detokenize", decoded, "text", ("ids", "skip_special"))]:
        got, said, code = batch(mlxcel, command, path, [{k: c[k] for k in ask} for c in cases])
        if code or len(got) != len(cases):
            out.append((command, None, "opens", said or f"exit code {code}"))
            continue
        for c, g in zip(cases, got):
            failed = isinstance(c[want], dict)
            if c[want] is None:
                continue
            if failed != ("error" in g) or not failed and g[want] != c[want]:
                out.append((command, {k: c[k] for k in ask}, c[want], g.get(want, g)))
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("mlxcel")
    a.add_argument("--runs", type=int, default=500)
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--keep", type=Path)
    a.add_argument("--fixture", type=Path)
    a = a.parse_args()
    os.environ["RUST_BACKTRACE"] = "0"
    tried = bad = 0
    fixture = []
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "tokenizer.json"
        for seed in range(a.seed, a.seed + a.runs):
            maker = Maker(seed)
            spec = maker.file()
            path.write_text(json.dumps(spec, ensure_ascii=False))
            tok = attempt(lambda: Tokenizer.from_file(str(path)))
            if not isinstance(tok, Tokenizer) or ambiguous(tok):
                continue
            tried += 1
            encoded, decoded = reference(tok, maker)
            if not any(isinstance(e["ids"], list) for e in encoded if e["add_special"]) or not any(isinstance(e["ids"], list) for e in encoded if not e["add_special"]):
                continue  # panics or fails on every text: such a file may be refused
            found = differences(a.mlxcel, path, encoded, decoded)
            if a.fixture:
                fixture.append({"file": path.read_text(), "encoded": sample(encoded, "ids", 5), "decoded": sample(decoded, "text", 9)})
            if not found:
                continue
            bad += 1
            print(f"seed {seed}: {len(found)} differ", *[f"  {c} {json.dumps(i)}\n    library {json.dumps(w)[:300]}\n    mlxcel  {json.dumps(g)[:300]}" for c, i, w, g in found[:2]], sep="\n", flush=True)
            if a.keep:
                a.keep.mkdir(parents=True, exist_ok=True)
                (a.keep / f"{seed}.json").write_bytes(path.read_bytes())
    if a.fixture:
        a.fixture.write_text(json.dumps(fixture, ensure_ascii=False) + "\n")
    print(f"{tried} tokenizers of {a.runs} that the library reads, {bad} differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
