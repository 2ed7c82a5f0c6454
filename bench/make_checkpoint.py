"""A checkpoint folder with random weights in a shape of bench/shapes, for timing how models load.

  python3 bench/make_checkpoint.py CONFIG_DIR FOLDER [TOKENIZER_DIR]

CONFIG_DIR holds the config.json of a Llama in bf16, or in the affine layout that its
"quantization" gives. The files of TOKENIZER_DIR, a published tokenizer's, are put beside the
weights. All is in one model.safetensors, as mlx-community publishes what is below 5 GB.
"""
import json
import math
import pathlib
import shutil
import sys

from random_weights import SPREAD, bf16, codes, normal_bf16, write_repeated


def matrices(c):
    """(name, rows, columns) of each."""
    hidden, mlp, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    width = c.get("head_dim", hidden // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * width, c["num_key_value_heads"] * width
    yield "model.embed_tokens", vocab, hidden
    for i in range(c["num_hidden_layers"]):
        b = f"model.layers.{i}."
        yield b + "self_attn.q_proj", q, hidden
        yield b + "self_attn.k_proj", kv, hidden
        yield b + "self_attn.v_proj", kv, hidden
        yield b + "self_attn.o_proj", hidden, q
        yield b + "mlp.gate_proj", mlp, hidden
        yield b + "mlp.up_proj", mlp, hidden
        yield b + "mlp.down_proj", hidden, mlp
    if not c["tie_word_embeddings"]:
        yield "lm_head", vocab, hidden


def parts(c):
    """(name, type, shape, the bytes that are repeated) of each tensor."""
    quantized = c.get("quantization")
    dense, code = normal_bf16(), codes()
    for name, rows, columns in matrices(c):
        if not quantized:
            yield name + ".weight", "BF16", [rows, columns], dense
            continue
        bits, group = quantized["bits"], quantized["group_size"]
        scale = SPREAD * 12**0.5 / 2**bits
        groups = [rows, columns // group]
        yield name + ".weight", "U32", [rows, columns * bits // 32], code
        for kind, value in (("scales", scale), ("biases", -scale * (2**bits - 1) / 2)):
            yield name + "." + kind, "BF16", groups, bf16([value]) * 4096
    norms = [f"model.layers.{i}.{n}_layernorm" for i in range(c["num_hidden_layers"])
             for n in ("input", "post_attention")]
    for name in norms + ["model.norm"]:
        yield name + ".weight", "BF16", [c["hidden_size"]], bf16([1.0]) * 4096


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    config, folder = pathlib.Path(sys.argv[1]) / "config.json", pathlib.Path(sys.argv[2])
    c = json.loads(config.read_text())
    if c["model_type"] != "llama":
        sys.exit(f"{config}: model_type is {c['model_type']}; only llama can be made")
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 4:
        for file in pathlib.Path(sys.argv[3]).iterdir():
            shutil.copyfile(file, folder / file.name)
    header, at, blocks = {}, 0, []
    for name, kind, shape, block in parts(c):
        size = math.prod(shape) * {"BF16": 2, "U32": 4}[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        blocks.append((block, size))
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for block, size in blocks:
            write_repeated(f, block, size)
    shutil.copyfile(config, folder / "config.json")  # last: with it the folder is complete


main()
