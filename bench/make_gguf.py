"""GGUF files with random weights in the shapes of bench/shapes, for timing llama.cpp beside mlxcel.

  python3 bench/make_gguf.py CONFIG_DIR TYPE FILE.gguf     (needs: pip install gguf numpy)

CONFIG_DIR holds the config.json of a Llama; TYPE is q4_0, q8_0, bf16 or f16. Such a file says that
it has no vocabulary: it can be timed but not talked to.
"""
import json
import sys

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType
FILE_TYPES = {"q4_0": 2, "q8_0": 7, "bf16": 32, "f16": 1}
SPREAD = 0.02  # of the weights, as in mlxcel's dummies
random = np.random.default_rng(1)


def random_bytes(rows, width, kind):
    """Rows of a [rows, width] matrix as the type stores them: [rows, bytes] U8."""
    count = rows * width
    if kind in ("bf16", "f16"):
        some = random.standard_normal(min(count, 1048583), dtype=np.float32) * SPREAD
        half = some.view(np.uint16)[1::2]  # the upper half of an f32 is a bf16
        if kind == "f16":
            half = some.astype(np.float16).view(np.uint16)
        return np.resize(half, (rows, width)).view(np.uint8)
    # Blocks of 32 weights: an f16 scale, then the codes.
    block, levels = {"q4_0": (18, 16), "q8_0": (34, 256)}[kind]
    data = np.frombuffer(random.bytes(count // 32 * block), np.uint8).reshape(-1, block).copy()
    data[:, :2] = np.frombuffer(np.float16(SPREAD * 12**0.5 / levels).tobytes(), np.uint8)
    return data.reshape(rows, -1)


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


def add_tensors(w, c, kind):
    hidden, mlp, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    width = c.get("head_dim", hidden // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * width, c["num_key_value_heads"] * width

    def matrix(name, out, into):
        data = random_bytes(out, into, kind)
        w.add_tensor(name + ".weight", data, raw_dtype=TYPES[kind.upper()])

    def norm(name):
        w.add_tensor(name + ".weight", np.ones(hidden, np.float32))

    matrix("token_embd", vocab, hidden)
    for i in range(c["num_hidden_layers"]):
        b = f"blk.{i}."
        norm(b + "attn_norm")
        matrix(b + "attn_q", q, hidden)
        matrix(b + "attn_k", kv, hidden)
        matrix(b + "attn_v", kv, hidden)
        matrix(b + "attn_output", hidden, q)
        norm(b + "ffn_norm")
        matrix(b + "ffn_gate", mlp, hidden)
        matrix(b + "ffn_up", mlp, hidden)
        matrix(b + "ffn_down", hidden, mlp)
    norm("output_norm")
    if not c["tie_word_embeddings"]:
        matrix("output", vocab, hidden)


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in FILE_TYPES:
        sys.exit(__doc__)
    folder, kind, path = sys.argv[1:]
    with open(folder + "/config.json") as f:
        config = json.load(f)
    if config["model_type"] != "llama":
        sys.exit(f"{folder}: model_type is {config['model_type']}; only llama can be made")
    w = gguf.GGUFWriter(path, "llama", use_temp_file=False)
    describe(w, config, kind)
    add_tensors(w, config, kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
