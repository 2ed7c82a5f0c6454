"""GGUF files with random weights in the shapes of bench/shapes, for timing llama.cpp beside mlxcel.

  python3 bench/make_gguf.py CONFIG_DIR TYPE FILE.gguf     (needs: pip install gguf numpy)

CONFIG_DIR holds the config.json of a Llama or a Qwen 3 MoE; TYPE is q4_0, q8_0, bf16 or f16. Such a
file says that it has no vocabulary: it can be timed but not talked to.
"""
import json
import sys

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType
FILE_TYPES = {"q4_0": 2, "q8_0": 7, "bf16": 32, "f16": 1}
ARCHITECTURES = {"llama": "llama", "qwen3_moe": "qwen3moe"}
SPREAD = 0.02  # of the weights, as in mlxcel's dummies
random = np.random.default_rng(1)


def random_bytes(shape, kind):
    """A matrix [..., width] as the type stores it: [..., bytes] U8."""
    count = int(np.prod(shape))
    if kind in ("bf16", "f16"):
        some = random.standard_normal(min(count, 1048583), dtype=np.float32) * SPREAD
        half = some.view(np.uint16)[1::2]  # the upper half of an f32 is a bf16
        if kind == "f16":
            half = some.astype(np.float16).view(np.uint16)
        return np.resize(half, shape).view(np.uint8)
    # Blocks of 32 weights: an f16 scale, then the codes.
    block, levels = {"q4_0": (18, 16), "q8_0": (34, 256)}[kind]
    data = np.frombuffer(random.bytes(count // 32 * block), np.uint8).reshape(-1, block).copy()
    data[:, :2] = np.frombuffer(np.float16(SPREAD * 12**0.5 / levels).tobytes(), np.uint8)
    return data.reshape(*shape[:-1], -1)


def describe(w, c, kind):
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    width = c.get("head_dim", hidden // heads)
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(width)
    w.add_value_length(width)
    w.add_rope_dimension_count(width)
    w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("no_vocab")
    w.add_file_type(FILE_TYPES[kind])
    if "num_experts" in c:
        w.add_expert_count(c["num_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])


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


def data_of(shape, kind):
    if kind != "f32":
        return random_bytes(shape, kind)
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    return random.standard_normal(shape, dtype=np.float32) * SPREAD


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in FILE_TYPES:
        sys.exit(__doc__)
    folder, kind, path = sys.argv[1:]
    with open(folder + "/config.json") as f:
        config = json.load(f)
    if config["model_type"] not in ARCHITECTURES:
        sys.exit(f"{folder}: model_type is {config['model_type']}; known: {', '.join(ARCHITECTURES)}")
    w = gguf.GGUFWriter(path, ARCHITECTURES[config["model_type"]])
    describe(w, config, kind)
    # One tensor at a time is in memory: the files can be as large as that.
    for name, shape, type_ in tensors(config, kind):
        if type_ == "f32":
            w.add_tensor_info(name + ".weight", shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
            continue
        raw = TYPES[kind.upper()]
        block, size = gguf.GGML_QUANT_SIZES[raw]
        stored = (*shape[:-1], shape[-1] // block * size)
        w.add_tensor_info(name + ".weight", stored, np.dtype(np.uint8), int(np.prod(stored)), raw)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for name, shape, type_ in tensors(config, kind):
        w.write_tensor_data(data_of(shape, type_))
    w.close()


main()
