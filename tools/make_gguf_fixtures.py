"""Makes tests/fixtures/gguf: tiny GGUF files by the gguf package (PyPI), and what their tensors mean
by the same package's dequantization, in the names and row order of the Hugging Face layout.

    python tools/make_gguf_fixtures.py        needs gguf, numpy, safetensors

X.gguf goes with X.safetensors, which holds each tensor that a checkpoint would, in f32."""

import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from safetensors.numpy import save_file

OUT = os.path.join(os.path.dirname(__file__), "..", "tests", "fixtures", "gguf")
rng = np.random.default_rng(3)

PLAIN = (Q.F32, Q.F16, Q.BF16)
K_BLOCKS = {  # bytes of a block of 256, and where its f16 scales are
    Q.Q2_K: (84, (80, 82)),
    Q.Q3_K: (110, (108,)),
    Q.Q4_K: (144, (0, 2)),
    Q.Q5_K: (176, (0, 2)),
    Q.Q6_K: (210, (208,)),
}
NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hf_name(name):
    part = name.split(".")
    if part[0] == "blk":
        return f"model.layers.{part[1]}.{NAMES[part[2]]}.{part[3]}"
    return f"{OUTER[part[0]]}.{part[1]}"


def k_blocks(rows, cols, kind):
    """Random bytes: every code and every packed scale. Only the f16 scales are sensible; one block
    has zero scales, one negative, one subnormal."""
    size, scales = K_BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * cols // 256, size), dtype=np.uint8)
    for at in scales:
        d = (rng.uniform(0.5, 2, len(blocks)) * 1e-3).astype(np.float16)
        d[0], d[1], d[2] = 0, -d[1], np.float16(3e-7)
        blocks[:, at:at + 2] = d.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, cols // 256 * size)


class Model:
    def __init__(self, name, arch, hidden, inter, heads, kv_heads, head_dim, layers, context=512):
        self.name, self.arch, self.want = name, arch, {}
        self.hidden, self.inter, self.head_dim = hidden, inter, head_dim
        self.q, self.kv, self.layers = heads * head_dim, kv_heads * head_dim, layers
        self.w = w = gguf.GGUFWriter(os.path.join(OUT, name + ".gguf"), arch)
        w.add_block_count(layers)
        w.add_context_length(context)
        w.add_embedding_length(hidden)
        w.add_feed_forward_length(inter)
        w.add_head_count(heads)
        w.add_head_count_kv(kv_heads)
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
        w.add_layer_norm_rms_eps(1e-5)

    def add(self, name, rows, cols, kind, scale=0.05):
        """cols 0: a vector. llama's query and key rows are written with pairs side by side, and
        expected where they were."""
        shape = (rows, cols) if cols else (rows,)
        x = (rng.standard_normal(shape) * scale).astype(np.float32)
        if not cols:
            x += 1
        if kind in K_BLOCKS:
            data = k_blocks(rows, cols, kind)
        elif kind == Q.F16:
            data = x.astype(np.float16)
        elif kind == Q.F32:
            data = x
        else:
            data = gguf.quantize(x, kind)
        value = gguf.dequantize(data, kind).reshape(shape)
        if self.arch == "llama" and name.split(".")[-2] in ("attn_q", "attn_k"):
            half = self.head_dim // 2
            order = np.arange(rows).reshape(-1, 2, half).swapaxes(1, 2).reshape(-1)
            data = data[order] if kind not in K_BLOCKS else data
            if kind in K_BLOCKS:  # the blocks are in the file's order already
                value = value[np.argsort(order)]
        if kind in PLAIN and kind != Q.BF16:
            self.w.add_tensor(name, data)
        else:
            self.w.add_tensor(name, data, raw_dtype=kind)
        self.want[hf_name(name)] = np.ascontiguousarray(value)

    def layer(self, n, q, k, v, gate, up, down, out, bias=False, norms=False, scale=0.05):
        p = f"blk.{n}."
        self.add(p + "attn_norm.weight", self.hidden, 0, Q.F32)
        self.add(p + "ffn_norm.weight", self.hidden, 0, Q.F32)
        self.add(p + "attn_q.weight", self.q, self.hidden, q)
        self.add(p + "attn_k.weight", self.kv, self.hidden, k)
        self.add(p + "attn_v.weight", self.kv, self.hidden, v)
        self.add(p + "attn_output.weight", self.hidden, self.q, out)
        self.add(p + "ffn_gate.weight", self.inter, self.hidden, gate)
        self.add(p + "ffn_up.weight", self.inter, self.hidden, up)
        self.add(p + "ffn_down.weight", self.hidden, self.inter, down, scale)
        if bias:
            self.add(p + "attn_q.bias", self.q, 0, Q.F32)
            self.add(p + "attn_k.bias", self.kv, 0, Q.F32)
            self.add(p + "attn_v.bias", self.kv, 0, Q.F32)
        if norms:
            self.add(p + "attn_q_norm.weight", self.head_dim, 0, Q.F32)
            self.add(p + "attn_k_norm.weight", self.head_dim, 0, Q.F32)

    def byte_level(self, pre, specials):
        """A few letters, three merges, then the special tokens: (text, type)."""
        tokens = list("abehlor") + ["\u0120", "he", "ll", "hell"]
        kinds = [1] * len(tokens)
        for text, kind in specials:
            tokens.append(text)
            kinds.append(kind)
        self.w.add_tokenizer_model("gpt2")
        self.w.add_tokenizer_pre(pre)
        self.w.add_token_list(tokens)
        self.w.add_token_types(kinds)
        self.w.add_token_merges(["h e", "l l", "he ll"])
        return len(tokens)

    def done(self):
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()
        path = os.path.join(OUT, self.name + ".safetensors")
        save_file(self.want, path)
        os.chmod(path, 0o644)


def blocks():
    """Every block type, llama's turned rows, and scales whose bias overflows f16."""
    m = Model("blocks", "llama", hidden=256, inter=32, heads=2, kv_heads=1, head_dim=4, layers=2)
    m.w.add_rope_freq_base(100000.0)
    n = m.byte_level("smollm", [("<|endoftext|>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3),
                                ("<note>", 4), ("[PAD15]", 5)])
    m.w.add_bos_token_id(n - 4)
    m.w.add_eos_token_id(n - 3)
    m.w.add_pad_token_id(99)
    m.w.add_add_bos_token(False)
    m.w.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    m.add("token_embd.weight", n, 256, Q.Q8_0)
    m.add("output_norm.weight", 256, 0, Q.F32)
    m.layer(0, q=Q.Q2_K, k=Q.Q4_0, v=Q.Q4_1, gate=Q.Q4_K, up=Q.Q6_K, down=Q.Q5_1, out=Q.F16)
    m.layer(1, q=Q.Q5_K, k=Q.Q3_K, v=Q.Q8_0, gate=Q.Q3_K, up=Q.Q5_0, down=Q.Q8_0, out=Q.BF16,
            scale=60000)
    m.done()


def llama3():
    """Llama 3's tokenizer and rope factors, an output matrix."""
    m = Model("llama3", "llama", hidden=32, inter=32, heads=1, kv_heads=1, head_dim=32, layers=1,
              context=131072)
    m.w.add_rope_freq_base(500000.0)
    n = m.byte_level("llama-bpe", [("<|begin_of_text|>", 3), ("<|eot_id|>", 3),
                                   ("<|end_of_text|>", 3)])
    m.w.add_bos_token_id(n - 3)
    m.w.add_eos_token_id(n - 1)
    m.w.add_eot_token_id(n - 2)
    m.add("token_embd.weight", n, 32, Q.F16)
    m.add("output_norm.weight", 32, 0, Q.F32)
    m.add("output.weight", n, 32, Q.F16)
    freqs = (np.float32(1) / np.float32(500000) ** (np.arange(0, 32, 2, dtype=np.float32) / 32))
    factors = []
    for wavelength in 2 * np.pi / freqs:
        smooth = (8192 / wavelength - 1) / 3
        factors.append(1 if smooth > 1 else 8 if smooth < 0 else 1 / ((1 - smooth) / 8 + smooth))
    m.w.add_tensor("rope_freqs.weight", np.array(factors, dtype=np.float32))
    m.layer(0, *[Q.F16] * 7)
    m.done()


def qwen2():
    m = Model("qwen2", "qwen2", hidden=32, inter=32, heads=2, kv_heads=1, head_dim=16, layers=1)
    m.w.add_rope_freq_base(1000000.0)
    n = m.byte_level("qwen2", [("<|endoftext|>", 3), ("<|im_start|>", 3), ("<|im_end|>", 3),
                               ("<tool_call>", 4), ("[PAD15]", 5)])
    m.w.add_eos_token_id(n - 3)
    m.add("token_embd.weight", n, 32, Q.F32)
    m.add("output_norm.weight", 32, 0, Q.F32)
    m.layer(0, *[Q.F32] * 7, bias=True)
    m.done()


def qwen3():
    m = Model("qwen3", "qwen3", hidden=32, inter=64, heads=2, kv_heads=1, head_dim=32, layers=1,
              context=131072)
    m.w.add_rope_freq_base(1000000.0)
    m.w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    m.w.add_rope_scaling_factor(4.0)
    m.w.add_rope_scaling_orig_ctx_len(32768)
    n = m.byte_level("qwen2", [("<|endoftext|>", 3), ("<|im_end|>", 3)])
    m.w.add_eos_token_id(n - 1)
    m.w.add_string("tokenizer.chat_template.tools", "T")
    m.w.add_chat_template("D")
    m.add("token_embd.weight", n, 32, Q.BF16)
    m.add("output_norm.weight", 32, 0, Q.F32)
    m.layer(0, *[Q.BF16] * 7, norms=True)
    m.done()


def pieces():
    """SentencePiece, scored as Llama 2's: each piece one less than the one before."""
    m = Model("pieces", "llama", hidden=32, inter=32, heads=2, kv_heads=2, head_dim=16, layers=1)
    tokens, kinds, scores = ["<unk>", "<s>", "</s>"], [2, 3, 3], [0.0, 0.0, 0.0]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        kinds.append(6)
        scores.append(0.0)
    for i, piece in enumerate(["he", "ll", "hell", "\u2581h", "\u2581hell", "\u2581", "e", "l", "h",
                               "o", "\u2581he"]):
        tokens.append(piece)
        kinds.append(1)
        scores.append(-float(i))
    m.w.add_tokenizer_model("llama")
    m.w.add_token_list(tokens)
    m.w.add_token_types(kinds)
    m.w.add_token_scores(scores)
    m.w.add_bos_token_id(1)
    m.w.add_eos_token_id(2)
    m.w.add_unk_token_id(0)
    m.add("token_embd.weight", len(tokens), 32, Q.Q4_0)
    m.add("output_norm.weight", 32, 0, Q.F32)
    m.layer(0, *[Q.Q4_0] * 7)
    m.done()


os.makedirs(OUT, exist_ok=True)
for make in (blocks, llama3, qwen2, qwen3, pieces):
    make()
