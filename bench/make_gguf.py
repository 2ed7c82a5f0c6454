"""GGUF files with random weights in the shapes of bench/shapes, for timing llama.cpp beside mlxcel.

  python3 bench/make_gguf.py CONFIG_DIR TYPE FILE.gguf

CONFIG_DIR holds the config.json of a Llama or a Qwen 3 MoE; TYPE is q4_0, q8_0, bf16 or f16. Such a
file says that it has no vocabulary: it can be timed but not talked to.
"""
import json
import math
import struct
import sys

from random_weights import (normal_bf16, normal_f16, normal_f32, scaled_codes, write_repeated)

ARCHITECTURES = {"llama": "llama", "qwen3_moe": "qwen3moe"}
# GGML's number of a type, that of a file of it, elements a block, its bytes, how such bytes are made
TYPES = {
    "f32": (0, 0, 1, 4, normal_f32),
    "f16": (1, 1, 1, 2, normal_f16),
    "q4_0": (2, 2, 32, 18, lambda: scaled_codes(18, 16)),
    "q8_0": (8, 7, 32, 34, lambda: scaled_codes(34, 256)),
    "bf16": (30, 32, 1, 2, normal_bf16),
}
ALIGN = 32
U32, F32, STRING = 4, 6, 8  # GGUF's numbers of what a key's value is


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", STRING) + text(v)
    return struct.pack("<If", F32, v) if isinstance(v, float) else struct.pack("<II", U32, v)


def keys(c, kind):
    architecture = ARCHITECTURES[c["model_type"]]
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    width = c.get("head_dim", hidden // heads)
    yield "general.architecture", architecture
    yield "general.file_type", TYPES[kind][1]
    yield "tokenizer.ggml.model", "no_vocab"
    own = {
        "block_count": c["num_hidden_layers"],
        "context_length": c["max_position_embeddings"],
        "embedding_length": hidden,
        "feed_forward_length": c["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": c["num_key_value_heads"],
        "attention.key_length": width,
        "attention.value_length": width,
        "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"]),
        "rope.dimension_count": width,
        "rope.freq_base": float(c["rope_theta"]),
        "vocab_size": c["vocab_size"],
    }
    if "num_experts" in c:
        own["expert_count"] = c["num_experts"]
        own["expert_used_count"] = c["num_experts_per_tok"]
        own["expert_feed_forward_length"] = c["moe_intermediate_size"]
    for name, v in own.items():
        yield f"{architecture}.{name}", v


def tensors(c, kind):
    """(name, shape, kind) of each; "f32" is a norm, all ones, or a router, random."""
    hidden, mlp, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    width = c.get("head_dim", hidden // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * width, c["num_key_value_heads"] * width
    experts = c.get("num_experts")
    yield "token_embd", (vocab, hidden), kind
    for i in range(c["num_hidden_layers"]):
        b = f"blk.{i}."
        yield b + "attn_norm", (hidden,), "f32"
        yield b + "attn_q", (q, hidden), kind
        yield b + "attn_k", (kv, hidden), kind
        yield b + "attn_v", (kv, hidden), kind
        yield b + "attn_output", (hidden, q), kind
        yield b + "ffn_norm", (hidden,), "f32"
        if not experts:
            yield b + "ffn_gate", (mlp, hidden), kind
            yield b + "ffn_up", (mlp, hidden), kind
            yield b + "ffn_down", (hidden, mlp), kind
            continue
        each = c["moe_intermediate_size"]
        yield b + "attn_q_norm", (width,), "f32"
        yield b + "attn_k_norm", (width,), "f32"
        yield b + "ffn_gate_inp", (experts, hidden), "f32"
        yield b + "ffn_gate_exps", (experts, each, hidden), kind
        yield b + "ffn_up_exps", (experts, each, hidden), kind
        yield b + "ffn_down_exps", (experts, hidden, each), kind
    yield "output_norm", (hidden,), "f32"
    if not c["tie_word_embeddings"]:
        yield "output", (vocab, hidden), kind


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in TYPES:
        sys.exit(__doc__)
    folder, kind, path = sys.argv[1:]
    with open(folder + "/config.json") as f:
        config = json.load(f)
    if config["model_type"] not in ARCHITECTURES:
        sys.exit(f"{folder}: model_type is {config['model_type']}; known: {', '.join(ARCHITECTURES)}")
    pairs, infos, parts, at = list(keys(config, kind)), [], [], 0
    blocks = {k: TYPES[k][4]() for k in {kind, "f32"}}
    ones = struct.pack("<f", 1) * 4096
    for name, shape, type_ in tensors(config, kind):
        number, _, elements, bytes_, _ = TYPES[type_]
        size = math.prod(shape) // elements * bytes_
        infos.append(text(name + ".weight") + struct.pack("<I", len(shape)) +
                     b"".join(struct.pack("<Q", n) for n in reversed(shape)) +
                     struct.pack("<IQ", number, at))
        parts.append((ones if len(shape) == 1 else blocks[type_], size))
        at += size + -size % ALIGN
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(pairs))
    header += b"".join(text(name) + value(v) for name, v in pairs) + b"".join(infos)
    with open(path, "wb") as f:
        f.write(header + bytes(-len(header) % ALIGN))
        for block, size in parts:
            write_repeated(f, block, size)
            f.write(bytes(-size % ALIGN))


main()
