"""Makes tests/fixtures/weights/tiny.safetensors: the header of a small Llama as the safetensors
package writes it, over random data. python tools/make_tiny_weights.py (numpy, safetensors)."""
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

out = Path(__file__).resolve().parent.parent / "tests/fixtures/weights/tiny.safetensors"
rng = np.random.default_rng(1)


def random(*shape):
    return rng.standard_normal(shape).astype(np.float16)


tensors = {"model.embed_tokens.weight": random(16, 8), "model.norm.weight": random(8),
           "lm_head.weight": random(16, 8)}
for layer in range(2):
    at = f"model.layers.{layer}."
    for name, n, k in [("self_attn.q_proj", 8, 8), ("self_attn.k_proj", 4, 8), ("self_attn.v_proj", 4, 8),
                       ("self_attn.o_proj", 8, 8), ("mlp.gate_proj", 12, 8), ("mlp.up_proj", 12, 8),
                       ("mlp.down_proj", 8, 12)]:
        tensors[at + name + ".weight"] = random(n, k)
    for name in ["input_layernorm", "post_attention_layernorm"]:
        tensors[at + name + ".weight"] = random(8)
save_file(tensors, out, metadata={"format": "pt"})
