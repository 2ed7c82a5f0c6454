"""Makes tests/fixtures/tokenizer: small tokenizer files of every kind, trained here, with the ids and texts that the
libraries which own the formats give.   python make_tokenizer_fixtures.py [out]     (tokenizers 0.23, sentencepiece)"""
import base64, io, json, random, sys, tempfile
from pathlib import Path
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]

TRAIN = """The quick brown fox jumps over the lazy dog. It's John's book; they'd've said we'll see, I'm sure you're right.
def fib(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
The HTTPServer camelCase and PascalCase words, 12345 numbers 3.14 in 2026. https://example.com/a/b?c=d
Привет, мир! Как дела сегодня? Γειά σου Κόσμε. 你好，世界！今天天气很好。東京都に行きました。안녕하세요 세계.
नमस्ते दुनिया สวัสดีชาวโลก مرحبا بالعالم שלום עולם café naïve résumé über Straße
😀 😀😁 👋🏽 there; ( [ { } ] ) == != <= >= && || :: -> // /* */ #include <stdio.h>

""" * 4

TEXTS = ["", " ", "  ", "\n", "\n\n\n", "\r\n\r\n", " \t \n \r\n ", "a", " a ", "Hello, world!", "Hello   world", "   leading", "trailing   ",
         "It's John's; they'd've said we'll, I'm, DON'T, IT'S", "'s 't 're 've 'm 'll 'd 'S 'LL x'\u017fy", "1234567890 3.14 1st v1.2.3-rc4", "\u0661\u0662\u0663 \u00bd\u00b2\u2163",
         "def f(x):\n    return x\n\n\tif (a&&b||!c) { y->z[0]; } // done", "HTMLParser ABCdefGHI camelCase iOS", "http://example.com/a/b?c=d#e", "a/b/c\n/d\n//\n",
         "caf\u00e9 cafe\u0301 \u212b \ufb01 \u1e69 s\u0323\u0307 e\u0301\u0302\u0323", "\u4f60\u597d\uff0cworld\u4f60\u597d 123", "\u6771\u4eac\u90fd\u306b\u30ab\u30bf\u30ab\u30ca \uff76\uff80", "\uc548\ub155 \u1112\u1161\u11ab",
         "\u0e2a\u0e27\u0e31\u0e2a \u0928\u092e\u0938\u094d\u0924\u0947 \u05e9\u05b8\u05c1\u05dc\u05d5 \u0627\u0644\u0633\u0651\u064e", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44b\U0001f3fd \u2764\ufe0f", "a\u00a0b\u3000c\u2028d\x85e\u180ef\u200bg",
         "\x01\x02\x7f\x1b[31m\ufffd\ue000\U0010ffff", "new: \U00011f02\u1c8a\U0001e5d0\u0870", "a\u0300\u0301 \u0301x", "\uc73c\u11a7 1\u08cf\u08ce a\u08cf\u0323 \U00011935\U00011930 a\u0327\u0301\u0323", "\u01c5\u02b0a \u02b0\u02b0 A\u0301b \u0301\u0301",
         "<|bos|>Hi<|eos|>", "x <|bos|>  y<|eos|>\n<|bos|", " <mask>  a<mask>", "a word wordy sword word", "<|BOS|>", "zqxj" * 40, "ab " * 30, "=" * 70, "\u00c3\u00a9 \u0120a\u010a"]


def added(content, id, special=True, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special, **flags}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(**k):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False, **k}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def trained(size, **k):
    tok = Tokenizer(models.BPE(**k))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator(TRAIN.splitlines(True), trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tok.to_str())["model"]


def whole(model, pre, normalizer=None, post=None, decoder=byte_level(), tokens=()):
    n = len(model["vocab"])
    tokens = [added(t, n + i, s, **f) for i, (t, s, f) in enumerate(tokens)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def bos_template(n):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [n], "tokens": ["<|bos|>"]}}}


def spm():
    """Llama 2's kind: characters, a mark for a space, bytes for what is unknown."""
    first = ["<unk>", "<|bos|>", "<|eos|>"] + [f"<0x{b:02X}>" for b in range(256)]
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    text = TRAIN.replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tok.train_from_iterator([l for l in text.splitlines() if l.isascii() or "\u0440" in l or "\u00e9" in l], trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=first))
    m = json.loads(tok.to_str())["model"]
    m |= {"byte_fallback": True, "fuse_unk": True}
    spec = whole(m, None, sequence("normalizers", {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}),
                 bos_template(1), sequence("decoders", {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}))
    spec["added_tokens"] = [added(t, i) for i, t in enumerate(first[:3])]
    return spec


def charsmap():
    """A small compiled normalization, as sentencepiece makes it from rules."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb
    rules = {"\u00c5": "A\u030a", "A\u030a": "\u00c5", "\ufb01": "fi", "\u2126": "\u03a9", "\u3000": " ", "\u00a0": " ", "A": "a", "B": "b", "\u00ad": "", "\r\n": "\n", "\ufb03": "ffi", "\u00bd": "1\u20442", "\uff21": "a", "\u304b\u3099": "\u304c", "xyz": "w"}
    with tempfile.TemporaryDirectory() as d:
        (Path(d) / "rules.tsv").write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
        (Path(d) / "text").write_text(TRAIN)
        sentencepiece.SentencePieceTrainer.train(input=f"{d}/text", model_prefix=f"{d}/m", vocab_size=300, minloglevel=2, num_threads=1, hard_vocab_limit=False, normalization_rule_tsv=f"{d}/rules.tsv")
        m = pb.ModelProto()
        m.ParseFromString((Path(d) / "m.model").read_bytes())
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(m.normalizer_spec.precompiled_charsmap).decode()}


def bert_normalizer(**k):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **k}


def word_piece():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    tok.normalizer, tok.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(TRAIN.splitlines(True), trainers.WordPieceTrainer(vocab_size=400, show_progress=False, limit_alphabet=90, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"]))
    model = json.loads(tok.to_str())["model"]
    spec = whole(model, {"type": "BertPreTokenizer"}, bert_normalizer(), {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, {"type": "WordPiece", "prefix": "##", "cleanup": True})
    spec["added_tokens"] = [added(t, i) for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])]
    return spec


def word_level():
    words = dict.fromkeys(["[UNK]"] + TRAIN.split())
    spec = whole({"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "[UNK]"}, {"type": "WhitespaceSplit"}, None, None, None)
    spec["added_tokens"] = [added("[UNK]", 0)]
    return spec


def unigram(bytes_too):
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] * bytes_too
    tok = Tokenizer(models.Unigram())
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.train_from_iterator([l for l in TRAIN.splitlines() if l.isascii() or "\u0440" in l], trainers.UnigramTrainer(vocab_size=len(first) + 200, show_progress=False, special_tokens=first, unk_token="<unk>"))
    model = json.loads(tok.to_str())["model"] | {"byte_fallback": bytes_too}
    model["vocab"].append(["the", -1.5])              # a second time: the last one counts
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": not bytes_too}
    steps = [] if bytes_too else [charsmap(), {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    spec = whole(model, meta, sequence("normalizers", *steps), bos_template(1) if bytes_too else None, sequence("decoders", {"type": "ByteFallback"}, meta))
    spec["added_tokens"] = [added(t, i) for i, t in enumerate(first[:3])]
    return json.loads(json.dumps(spec).replace("<|bos|>", "<s>"))


STAGE_TEXTS = [" a", "  \n a1 ", "a\u030ab A\u030a \u212b\u0301 \u2126\u0301 \ufb01\u0301\u0302 \u00bd\u00ad-", "A\u0301B\u200d\ufe0f \u0600A\u0301", "xyzxy\r\n\r x\ny", "\u304b\u3099\u30ab\u3099 \u30fc\u30a2\u30fcx\u30fc", "\u4f60\u597d\U0002b820\U0002b920 \uf900", "x\x00\x01\x08\x0b\x0e\x85\x8f\x9f\x7f\xady\u0378\ue000\U0010fffd\ufffd\u110cd", "a\u200b\u200f\ufeff\u2028\u2581b\u1680", "\u00c9\u0116e\u0302\u07fd\u1734\u0903\u20dd \u0130\u01c5", "Hello, w\u00f6rld! (\u00bfq?) \u2026$\u20ac", "\u041f\u0440\u0438 \u05d0\u05d1 12 \u0661 abc\u0e01", "\u0301 \u0301a", "!a! \u4f60!", "1\u00b9\u2460", "\u11aa7\U00010400\U0001f600"]
TOKENS = ["", " ", "a", "##b", "##", "</w>", "lo</w>", "x</w>y</w>", "|", "<pad>", "<pad>", "h", "h", "e", "do", "not", "n't", ".", " .", "'", " ' ", "'s", "\u2581", "\u2581a", "<0xC3>", "<0xA9>", "<0xFF>", "<0x20>", "\u00e9", " do not", "we've"]


def stages():
    """Single stages: what they make of texts and of tokens."""
    norm = {"nmt": {"type": "Nmt"}, "precompiled": charsmap(), "bert": bert_normalizer(), "cased": bert_normalizer(lowercase=False), "accents": bert_normalizer(strip_accents=False), "clean": bert_normalizer(lowercase=False, handle_chinese_chars=False, strip_accents=False), "strip": bert_normalizer(lowercase=False, handle_chinese_chars=False, clean_text=False, strip_accents=True)}
    pre = {"bert": {"type": "BertPreTokenizer"}, "scripts": {"type": "UnicodeScripts"}, "script words": sequence("pretokenizers", {"type": "UnicodeScripts"}, {"type": "WhitespaceSplit"})}
    word = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    ctc = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
    dec = {"wordpiece": word, "no cleanup": {**word, "cleanup": False}, "prefix": {**word, "prefix": "\u2581"}, "bpe": {"type": "BPEDecoder", "suffix": "</w>"}, "ctc": ctc, "ctc raw": {**ctc, "cleanup": False}, "bytes": {"type": "ByteFallback"}, "bytes of words": sequence("decoders", {"type": "ByteFallback"}, word)}
    texts = [t for t in TEXTS if t and len(t) < 80] + STAGE_TEXTS
    out = {"normalizers": [], "pre_tokenizers": [], "decoders": []}
    one = lambda **k: Tokenizer.from_str(json.dumps({**whole({"type": "BPE", "vocab": {}, "merges": []}, None), **k}))
    for spec in norm.values():
        stage = one(normalizer=spec).normalizer
        out["normalizers"].append({"spec": spec, "cases": [[t, stage.normalize_str(t)] for t in texts]})
    for spec in pre.values():
        stage = one(pre_tokenizer=spec).pre_tokenizer
        out["pre_tokenizers"].append({"spec": spec, "cases": [[t, [p for p, _ in stage.pre_tokenize_str(t)]] for t in texts]})
    g = random.Random(3)
    for spec in dec.values():
        stage, rows = one(decoder=spec).decoder, []
        for n in [1, 2, 3, 5, 8] * 12:
            tokens = [g.choice(TOKENS) for _ in range(n)]
            rows.append([tokens, stage.decode(tokens)])
        out["decoders"].append({"spec": spec, "cases": rows})
    return out


def specs():
    special = [("<|bos|>", True, {}), ("<|eos|>", True, {})]
    flags = special + [("<mask>", True, {"lstrip": True}), ("word", False, {"single_word": True}), ("  y", False, {"rstrip": True, "normalized": False})]
    m = trained(900)
    n = len(m["vocab"])
    old = {**m, "merges": [" ".join(p) for p in m["merges"]], "continuing_subword_prefix": "", "end_of_word_suffix": ""}
    orphan = {**m, "vocab": {**m["vocab"], "Hello,": n}, "ignore_merges": True}
    return {
        "gpt2": whole(old, sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level(use_regex=True)), tokens=flags),
        "llama3": whole(orphan, sequence("pretokenizers", split(LLAMA3), byte_level()), post=sequence("processors", byte_level(), bos_template(n + 1)), tokens=special),
        "qwen2": whole(m, sequence("pretokenizers", split(QWEN2), byte_level()), normalizer={"type": "NFC"}, post=byte_level(), tokens=flags),
        "o200k": whole(m, sequence("pretokenizers", split(O200K, "Removed", True), byte_level()), tokens=special),
        "deepseek": whole(m, sequence("pretokenizers", *map(split, DEEPSEEK), byte_level()), normalizer=sequence("normalizers"), tokens=flags),
        "spm": spm(),
        "wordpiece": word_piece(),
        "wordlevel": word_level(),
        "unigram": unigram(False),
        "unigram_bytes": unigram(True),
    }


def is_stream(tok, ids, whole):
    """Whether no later id changes text that was certain: bytes in a row that turn out bad change what they made before."""
    sent = ""
    for i in range(len(ids)):
        text = tok.decode(ids[:i + 1], skip_special_tokens=False).rstrip("\ufffd")
        sent = text if text.startswith(sent) else sent
    return whole.startswith(sent)


def cases(tok, seed):
    g, out, size = random.Random(seed), [], tok.get_vocab_size()
    for t in TEXTS:
        plain = tok.encode(t, add_special_tokens=False).ids
        out.append({"text": t, "ids": tok.encode(t).ids, "plain": plain})
    for n in [1, 2, 3, 5, 8, 13] * 3:
        out.append({"plain": [g.randrange(size) for _ in range(n)]})
        out.append({"plain": [g.randrange(300) for _ in range(n)]})
    for c in out:
        c["decoded"] = tok.decode(c["plain"], skip_special_tokens=False)
        c["skipped"] = tok.decode(c["plain"], skip_special_tokens=True)
        if not is_stream(tok, c["plain"], c["decoded"]):
            c["bad_run"] = True
    return out


def write(folder, rows, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data if isinstance(data, bytes) else data.encode())
    (folder / "cases.json").write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")


def piece_model(folder, config, **train):
    """A tokenizer.model, by the library that owns it."""
    import sentencepiece
    data, config = io.BytesIO(), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **config}
    lines = [l for l in TRAIN.splitlines() if l and (l.isascii() or "\u0440" in l)]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=data, minloglevel=2, num_threads=1, hard_vocab_limit=train["model_type"] == "bpe", character_coverage=0.98, **train)
    sp, rows, g = sentencepiece.SentencePieceProcessor(model_proto=data.getvalue()), [], random.Random(4)
    for t in TEXTS + ["<x>", "a<x> b", "<x>  <x>\u3000x", "\u2581a \u2581"]:
        ids = sp.encode(t)
        around = [[sp.bos_id()] * config["add_bos_token"], [sp.eos_id()] * config["add_eos_token"]]
        rows.append({"text": t, "ids": around[0] + ids + around[1], "plain": ids})
    for n in [1, 2, 3, 5, 8] * 6:
        rows.append({"plain": [g.randrange(3, sp.get_piece_size()) for _ in range(n)]})
    for r in rows:
        r["decoded"] = r["skipped"] = sp.decode(r["plain"])
    write(folder, rows, tokenizer__model=data.getvalue(), tokenizer_config__json=json.dumps(config) + "\n")


def rank_file(folder):
    """A tiktoken file of Qwen's kind."""
    import tiktoken
    back = {c: b for b, c in zip(*alphabet())}
    vocab = sorted(trained(700)["vocab"].items(), key=lambda x: x[1])
    ranks = {bytes(back[c] for c in t): i for i, (t, _) in enumerate(vocab)}
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)]
    special = {t: len(ranks) + i for i, t in enumerate(names)}
    e, rows = tiktoken.Encoding("qwen", pat_str=QWEN2, mergeable_ranks=ranks, special_tokens=special), []
    for t in TEXTS + ["<|im_start|>user\nhi<|im_end|>\n<|extra_204|>x"]:
        ids = e.encode(t, allowed_special="all")
        rows.append({"text": t, "ids": ids, "plain": ids, "decoded": e.decode(ids), "skipped": e.decode([i for i in ids if i < len(ranks)])})
    g = random.Random(6)
    for n in [1, 2, 3, 5, 8] * 5:
        ids = [g.randrange(len(ranks)) for _ in range(n)]
        rows.append({"plain": ids, "decoded": e.decode(ids), "skipped": e.decode(ids)})
    write(folder, rows, qwen__tiktoken="".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()), tokenizer_config__json=json.dumps({"tokenizer_class": "QWenTokenizer"}) + "\n")


def alphabet():
    """The 256 bytes and the characters of GPT-2 that stand for them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return plain + other, [chr(b) for b in plain] + [chr(256 + i) for i in range(len(other))]


def old_files(out):
    """vocab.json with merges.txt, and vocab.txt."""
    m = trained(600)
    eot, start = ("<|endoftext|>", len(m["vocab"])), ("<|im_start|>", len(m["vocab"]) + 1)
    spec = whole(m, sequence("pretokenizers", split(QWEN2), byte_level()), normalizer={"type": "NFC"})
    spec["added_tokens"] = [added(t, i) for t, i in (eot, start)]
    rows = cases(Tokenizer.from_str(json.dumps(spec)), "vocab_json")
    write(out / "vocab_json", rows, vocab__json=json.dumps(m["vocab"]), merges__txt="#version: 0.2\n" + "".join(" ".join(p) + "\n" for p in m["merges"]), added_tokens__json=json.dumps(dict([eot, start])), tokenizer_config__json=json.dumps({"tokenizer_class": "Qwen2Tokenizer", "eos_token": eot[0]}) + "\n")
    spec = word_piece()
    spec["model"]["max_input_chars_per_word"] = 100
    spec["normalizer"] = bert_normalizer(lowercase=False)
    rows = cases(Tokenizer.from_str(json.dumps(spec)), "vocab_txt")
    words = sorted(spec["model"]["vocab"], key=spec["model"]["vocab"].get)
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]"}
    write(out / "vocab_txt", rows, vocab__txt="".join(w + "\n" for w in words), tokenizer_config__json=json.dumps(config) + "\n")


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/fixtures/tokenizer")
    for name, spec in specs().items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False, separators=(",", ":")))
        rows = cases(Tokenizer.from_str(json.dumps(spec)), name)
        (folder / "cases.json").write_text("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
    (out / "stages.json").write_text(json.dumps(stages(), separators=(",", ":")))
    plain = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
    llama = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}
    piece_model(out / "spm_bpe", llama, model_type="bpe", vocab_size=500, byte_fallback=True, user_defined_symbols=["<x>"], **plain)
    piece_model(out / "spm_unk", {**llama, "add_eos_token": True}, model_type="bpe", vocab_size=260, add_dummy_prefix=False, **plain)
    piece_model(out / "spm_unigram", {"tokenizer_class": "T5Tokenizer", "add_bos_token": False, "add_eos_token": True}, model_type="unigram", vocab_size=300, user_defined_symbols=["<x>"], normalization_rule_name="identity")
    rank_file(out / "tiktoken")
    old_files(out)
    config = {"bos_token": {"__type": "AddedToken", "content": "<|bos|>"}, "eos_token": "<|eos|>", "add_bos_token": False}
    (out / "llama3/tokenizer_config.json").write_text(json.dumps(config) + "\n")
