"""Makes tests/fixtures/tokenizer/classes: checkpoints without a tokenizer.json, one for each way in which a tokenizer class
reads its files, with the ids that transformers gives. With --compare MLXCEL it compares many more texts, and writes nothing.
python make_tokenizer_classes.py [--out FOLDER] [--compare MLXCEL]     (transformers 5.24, sentencepiece, tiktoken)"""
import argparse, base64, io, json, os, random, subprocess, tempfile, unicodedata
from pathlib import Path
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import sentencepiece, tiktoken, transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers.convert_slow_tokenizer import bytes_to_unicode
from fuzz_tokenizer import CHARS, WORDS
from make_tokenizer_fixtures import LLAMA3, QWEN2, TEXTS, TRAIN

KIMI = "|".join([r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def spm(kind="unigram", size=170, rule="identity", unk="<unk>", **options):
    """A small SentencePiece model: its bytes."""
    out = io.BytesIO()
    lines = [l for l in TRAIN.splitlines() if l.isascii() or "\u043f" in l or "\u00e9" in l]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines * 3), model_writer=out, vocab_size=size, model_type=kind, normalization_rule_name=rule, character_coverage=1.0, minloglevel=3,
                                             num_threads=1, hard_vocab_limit=False, unk_piece=unk, **options)
    return out.getvalue()


def byte_bpe(size, suffix=None, specials=()):
    end = {"end_of_word_suffix": suffix} if suffix else {}
    tok = Tokenizer(models.BPE(**end))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator(TRAIN.lower().splitlines(True) if suffix else TRAIN.splitlines(True), trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **end))
    m = json.loads(tok.to_str())["model"]
    for t in specials:
        m["vocab"].setdefault(t, len(m["vocab"]))
    return {"vocab.json": json.dumps(m["vocab"], ensure_ascii=False), "merges.txt": "#version: 0.2\n" + "".join(" ".join(x) + "\n" for x in m["merges"])}


def word_piece(specials, **k):
    tok = Tokenizer(models.WordPiece(unk_token=specials[1]))
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(TRAIN.splitlines(True), trainers.WordPieceTrainer(vocab_size=320, show_progress=False, special_tokens=list(specials)))
    return {"vocab.txt": "".join(t + "\n" for t, _ in sorted(tok.get_vocab().items(), key=lambda x: x[1]))}


def ranks(size):
    back = {c: b for b, c in bytes_to_unicode().items()}
    vocab = json.loads(byte_bpe(size)["vocab.json"])
    return {bytes(back[c] for c in t): r for r, (t, _) in enumerate(sorted(vocab.items(), key=lambda x: x[1]))}


def rank_file(r):
    return "".join(f"{base64.b64encode(t).decode()} {i}\n" for t, i in r.items())


def token(content, special=True, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": special, **flags}


def cases(many):
    """name: (class, its settings, its files). Rules for folding text make a large file: fixtures go without."""
    fold = dict(rule="nmt_nfkc") if many else {}
    unigram, folded = spm(), spm(**fold)
    t5 = spm(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **fold)
    albert = spm(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], **fold)
    deberta = spm(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk="[UNK]")
    mask = json.dumps({"[MASK]": sentencepiece.SentencePieceProcessor(model_proto=deberta).get_piece_size()})
    bird = spm(pad_id=0, eos_id=1, bos_id=2, unk_id=3, control_symbols=["[CLS]", "[SEP]", "[MASK]"])
    xlnet = spm(unk_id=0, bos_id=1, eos_id=2, pad_id=-1, control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"], **fold)
    pegasus = spm(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **fold)
    barthez = spm(bos_id=0, pad_id=1, eos_id=2, unk_id=3, control_symbols=["<mask>"])
    bpe, roberta = byte_bpe(420, specials=["<|endoftext|>"]), byte_bpe(400, specials=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    eot = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
    n = len(json.loads(bpe["vocab.json"]))
    qwen = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None, "unk_token": None, "added_tokens_decoder": {str(n): token("<|im_start|>"), str(n + 1): token("<|im_end|>"), str(n + 2): token("<tool>", False), str(n + 3): token("<wide>", lstrip=True, rstrip=True)}}
    whisper = ["<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return {
        "xlmr": ("XLMRobertaTokenizer", {}, {"sentencepiece.bpe.model": folded}),
        "camembert": ("CamembertTokenizer", {}, {"sentencepiece.bpe.model": folded}),
        "barthez": ("BarthezTokenizer", {}, {"sentencepiece.bpe.model": barthez}),
        "mbart": ("MBartTokenizer", {}, {"sentencepiece.bpe.model": unigram}),
        "mbart50": ("MBart50Tokenizer", {"src_lang": "de_DE"}, {"sentencepiece.bpe.model": unigram}),
        "xglm": ("XGLMTokenizer", {}, {"sentencepiece.bpe.model": unigram}),
        "pegasus": ("PegasusTokenizer", {}, {"spiece.model": pegasus}),
        "big_bird": ("BigBirdTokenizer", {}, {"spiece.model": bird}),
        "t5": ("T5Tokenizer", {}, {"spiece.model": t5}),
        "t5_few": ("T5Tokenizer", {"extra_ids": 3}, {"spiece.model": t5}),
        "albert": ("AlbertTokenizer", {}, {"spiece.model": albert}),
        "albert_cased": ("AlbertTokenizer", {"do_lower_case": False, "keep_accents": True}, {"spiece.model": albert}),
        "xlnet": ("XLNetTokenizer", {}, {"spiece.model": xlnet}),
        "deberta_v2": ("DebertaV2Tokenizer", {}, {"spm.model": deberta, "added_tokens.json": mask}),
        "deberta_v2_lower": ("DebertaV2Tokenizer", {"do_lower_case": True}, {"spm.model": deberta, "added_tokens.json": mask}),
        "siglip": ("SiglipTokenizer", {}, {"spiece.model": spm(eos_id=1, unk_id=2, bos_id=-1, pad_id=-1, **({"rule": "nmt_nfkc"} if many else {}))}),
        "llama": ("LlamaTokenizer", {"add_bos_token": True, "add_eos_token": True, "legacy": False}, {"tokenizer.model": spm("bpe", 500, byte_fallback=True, remove_extra_whitespaces=False)}),
        "gpt2": ("GPT2Tokenizer", eot, bpe),
        "gpt2_bos": ("GPT2Tokenizer", {**eot, "add_bos_token": True, "add_prefix_space": True}, bpe),
        "codegen": ("CodeGenTokenizer", {**eot, "added_tokens_decoder": {str(n): token("    ", False, normalized=True), str(n + 1): token("  ", False, normalized=True)}}, bpe),
        "gpt_neox": ("GPTNeoXTokenizer", eot, byte_bpe(420, specials=["<|endoftext|>", "<|padding|>"])),
        "qwen2": ("Qwen2Tokenizer", qwen, bpe),
        "roberta": ("RobertaTokenizer", {"mask_token": {"__type": "AddedToken", **token("<mask>", lstrip=True)}}, roberta),
        "roberta_prefix": ("RobertaTokenizer", {"add_prefix_space": True}, roberta),
        "deberta": ("DebertaTokenizer", {}, byte_bpe(400, specials=["[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"])),
        "clip": ("CLIPTokenizer", {}, byte_bpe(620, "</w>", ["<|startoftext|>", "<|endoftext|>"])),
        "whisper": ("WhisperTokenizer", {**eot, "added_tokens_decoder": {str(n + i): token(t) for i, t in enumerate(whisper)}}, bpe),
        "bert": ("BertTokenizer", {}, word_piece(bert)),
        "bert_cased": ("BertTokenizer", {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}, word_piece(bert)),
        "bert_accents": ("DistilBertTokenizer", {"strip_accents": False}, word_piece(bert)),
        "mpnet": ("MPNetTokenizer", {}, word_piece(["<s>", "[UNK]", "<pad>", "</s>", "<unk>", "<mask>"])),
        "funnel": ("FunnelTokenizer", {}, word_piece(["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>"])),
    }


def rank_cases():
    """name: (settings, file, pattern, special tokens, whether the first goes before a text)"""
    extras = [f"<|extra_{i}|>" for i in range(205)]
    got = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *extras, "<ref>", "</ref>", "<box>", "</box>", "<quad>", "</quad>", "<img>", "</img>", "<imgpad>"]
    llama = ["<|begin_of_text|>", "<|end_of_text|>", *[f"<|reserved_special_token_{i}|>" for i in range(4)], "<|start_header_id|>", "<|end_header_id|>", "<|reserved_special_token_4|>", "<|eot_id|>", *[f"<|reserved_special_token_{i}|>" for i in range(5, 251)]]
    r = ranks(420)
    kimi = [f"<|reserved_token_{len(r) + i}|>" for i in range(256)]
    kimi[0], kimi[1], kimi[3] = "[BOS]", "[EOS]", "<|im_end|>"
    decoder = {str(len(r) + i): token(t) for i, t in enumerate(kimi) if "reserved" not in t}
    return {
        "got": (r, {"tokenizer_class": "QWenTokenizer"}, "qwen.tiktoken", QWEN2, got, False),
        "hunyuan": (r, {"tokenizer_class": "HYTokenizer"}, "hy.tiktoken", QWEN2, ["<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>", *extras], False),
        "kimi": (r, {"tokenizer_class": "TikTokenTokenizer", "added_tokens_decoder": decoder, "bos_token": "[BOS]", "eos_token": "[EOS]"}, "tiktoken.model", KIMI, kimi, False),
        "llama3": (r, {}, "tokenizer.model", LLAMA3, llama, True),
    }


def texts_for(specials, r, many):
    texts = [t for t in TEXTS if "\0" not in t]
    if many:
        texts += ["".join(r.choice(CHARS + WORDS) for _ in range(r.randrange(1, 25))).replace("\0", "") for _ in range(150)]
    for s in specials[:12]:
        texts += [s, f"a{s}b", f" {s}  {s}\n", f"a {s} b"]
    return texts


# What a class adds to the ids of pieces from 3 on, the id of the unknown piece, and what it puts around a text where
# transformers' conversion of its files does otherwise than the published class (XGLM's pieces, BARThez' template).
SHIFTED = {"xlmr": (1, 3), "camembert": (4, 3), "mbart": (1, 3), "mbart50": (1, 3), "xglm": (1, 3, [2], []), "pegasus": (103, 105), "barthez": (0, 3, [0], [2]), "big_bird": (0, 3), "t5": (0, 2), "t5_few": (0, 2), "deberta_v2": (0, 3), "llama": (0, 0)}


def is_tame(text):
    """Whether SentencePiece and what transformers makes of its files agree: they differ over white space, and over what is
    normalized in a row of marks."""
    return text.strip(" ") == text and "  " not in text and not any(c.isspace() and c != " " or unicodedata.combining(c) or unicodedata.category(c) in ("Cc", "Cf") or c == "\u2581" for c in text)


def pieces(name, data, text, around):
    """The ids of a text without special tokens, by SentencePiece itself."""
    shift, unk, *put = SHIFTED[name]
    sp = sentencepiece.SentencePieceProcessor(model_proto=data)
    ids = [unk if i == sp.unk_id() else i + shift if i >= (1 if name == "camembert" else 2 if name == "pegasus" else 3) else i for i in sp.encode(text)]
    before, after = put or around
    return before + ids + after, ids


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def make_class(folder, case, name, settings, files, r, many):
    write(folder, {**files, "tokenizer_config.json": json.dumps({"tokenizer_class": name, **settings}, ensure_ascii=False, indent=1) + "\n"})
    tok = getattr(transformers, name).from_pretrained(str(folder))
    assert tok.is_fast or case == "siglip"
    model = next((d for f, d in files.items() if f.endswith(".model")), None)
    specials = [t for t in tok.all_special_tokens if "extra_id" not in t and not (len(t) == 5 and t[2] == "_")] + [t for t in ("<extra_id_0>", "en_XX", "<tool>", "    ") if t in tok.get_vocab()]
    a = tok.encode("a", add_special_tokens=False)
    whole = tok.encode("a")
    at = next(i for i in range(len(whole)) if whole[i:i + len(a)] == a)
    out = []
    for t in texts_for(specials, r, many):
        spelt = any(s in t for s in specials)
        if model and case in SHIFTED and not spelt:
            ids, plain = pieces(case, model, t, (whole[:at], whole[at + len(a):]))
        elif case == "siglip" and t.endswith("</s>"):
            continue  # it adds no second one
        elif model and (not is_tame(t) or spelt and " " in t or case in ("xglm", "barthez")):
            continue
        else:
            ids, plain = tok.encode(t), tok.encode(t, add_special_tokens=False)
        out.append({"text": t, "ids": ids, "plain": plain})
    return out


def make_ranks(folder, r, settings, file, pattern, specials, bos, rng, many):
    write(folder, {file: rank_file(r), "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=1) + "\n"})
    e = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=r, special_tokens={t: len(r) + i for i, t in enumerate(specials)})
    out = []
    for t in texts_for(specials[-9:] + specials[:10], rng, many):
        ids = e.encode(t, allowed_special="all")
        out.append({"text": t, "ids": [len(r)] * bos + ids, "plain": ids})
    return out


def compare(mlxcel, name, folder, made):
    lines = [{"text": c["text"], "add_special": s} for c in made for s in (True, False)]
    p = subprocess.run([mlxcel, "tokenize", "-m", str(folder), "--jsonl"], input="".join(json.dumps(l) + "\n" for l in lines).encode(), capture_output=True)
    got = [json.loads(l) for l in p.stdout.split(b"\n") if l]
    if len(got) != len(lines):
        print(f"{name}: {p.stderr.decode().strip()}")
        return
    wrong = [(c["text"], k, c[k], g) for c, pair in zip(made, zip(got[::2], got[1::2])) for k, g in zip(("ids", "plain"), pair) if g.get("ids") != c[k]]
    print(f"{name}: {len(wrong)} of {len(lines)} differ")
    for text, k, want, g in wrong[:int(os.environ.get("SHOW", 3))]:
        print(f"  {k} {json.dumps(text)}\n    reference {want}\n    mlxcel    {g.get('ids', g)}")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/fixtures/tokenizer/classes")
    a.add_argument("--compare")
    a.add_argument("--only")
    a = a.parse_args()
    r = random.Random(5)
    with tempfile.TemporaryDirectory() as d:
        out = Path(d) if a.compare else a.out
        makers = {n: (lambda f, n=n, x=x: make_class(f, n, *x, r, bool(a.compare))) for n, x in cases(bool(a.compare)).items()} | {n: (lambda f, x=x: make_ranks(f, *x, r, bool(a.compare))) for n, x in rank_cases().items()}
        for name, make in makers.items():
            if a.only and a.only not in name:
                continue
            made = make(out / name)
            if a.compare:
                compare(a.compare, name, out / name, made)
            else:
                (out / name / "cases.json").write_text(json.dumps(made[::2], ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
