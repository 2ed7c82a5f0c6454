"""Mixtures of experts. The comment above a family says what is easily got wrong.

MLX's layout stacks the experts of a layer; Hugging Face publishes most families' one by one, some as a fused stack.
"""

import json
from pathlib import Path

import numpy as np

CASES = {}

COMMON = dict(attention_dropout=0.0, bos_token_id=1, eos_token_id=2, hidden_act="silu", initializer_range=0.02,
              max_position_embeddings=128, output_router_logits=False, router_aux_loss_coef=0.001, torch_dtype="bfloat16",
              use_cache=True)

# Sizes with nothing in common, and no multiple of a vector.
BASE = dict(COMMON, hidden_size=40, num_attention_heads=4, num_key_value_heads=2, vocab_size=67)

# mixtral: the router's weights are the softmax over the chosen logits alone; w1 is gate, w3 up, w2 down.
CASES["mixtral"] = dict(hf="MixtralForCausalLM", quantized=[], config=dict(
    BASE, architectures=["MixtralForCausalLM"], model_type="mixtral", intermediate_size=24, num_experts_per_tok=2,
    num_hidden_layers=2, num_local_experts=5, rms_norm_eps=1e-5, rope_theta=1e6, sliding_window=None,
    tie_word_embeddings=False), variants={
    # mlx-lm has no window
    "window": dict(agree=False, config=dict(sliding_window=13, num_local_experts=3, num_experts_per_tok=1)),
    "groups": dict(quantized=[dict(bits=4, group_size=32, seed=2)], config=dict(
        hidden_size=64, num_attention_heads=4, intermediate_size=32, num_local_experts=3)),
})

# qwen3_moe: softmax over all experts, then top-k, divided by its sum when norm_topk_prob; some layers have an MLP of
# intermediate_size. A quantized checkpoint has routers of 8 bits among codes of 4.
CASES["qwen3_moe"] = dict(hf="Qwen3MoeForCausalLM", hf_args=dict(seed=2), quantized=[], config=dict(
    BASE, architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", attention_bias=False, decoder_sparse_step=1,
    head_dim=12, intermediate_size=56, max_window_layers=2, mlp_only_layers=[], moe_intermediate_size=20,
    norm_topk_prob=True, num_experts=7, num_experts_per_tok=3, num_hidden_layers=2, rms_norm_eps=1e-6, rope_scaling=None,
    rope_theta=1e6, sliding_window=None, tie_word_embeddings=False, use_sliding_window=False), variants={
    # mlx-lm has no windows and no biases
    "sparse-step": dict(agree=False, hf_args=dict(seed=3), config=dict(
        attention_bias=True, decoder_sparse_step=2, mlp_only_layers=[3], norm_topk_prob=False, num_experts=4,
        num_experts_per_tok=2, num_hidden_layers=4, sliding_window=11, use_sliding_window=True)),
    "groups": dict(hf_args=dict(seed=3), config=dict(
        hidden_size=64, head_dim=32, num_attention_heads=2, num_key_value_heads=1, moe_intermediate_size=32, num_experts=4,
        num_experts_per_tok=2),
        quantized=[dict(bits=4, group_size=32), dict(name="mxfp4", mode="mxfp4", bits=4, group_size=32)]),
})

# qwen2_moe: not renormalized; a shared expert times the sigmoid of shared_expert_gate x; biases on q, k and v alone.
# With use_sliding_window the even layers below max_window_layers slide (mlx-lm has no windows).
CASES["qwen2_moe"] = dict(hf="Qwen2MoeForCausalLM", agree=False, hf_args=dict(seed=4), config=dict(
    BASE, architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", decoder_sparse_step=1, intermediate_size=56,
    max_window_layers=2, mlp_only_layers=[1], moe_intermediate_size=20, norm_topk_prob=False, num_experts=5,
    num_experts_per_tok=2, num_hidden_layers=3, rms_norm_eps=1e-6, rope_theta=1e6, shared_expert_intermediate_size=28,
    sliding_window=11, tie_word_embeddings=False, use_sliding_window=True))

# olmoe: norms over the whole query and key, before the heads; softmax over all, then top-k, not renormalized.
CASES["olmoe"] = dict(hf="OlmoeForCausalLM", quantized=[], config=dict(
    BASE, architectures=["OlmoeForCausalLM"], model_type="olmoe", attention_bias=False, clip_qkv=None,
    intermediate_size=24, norm_topk_prob=False, num_experts=6, num_experts_per_tok=3, num_hidden_layers=2, pad_token_id=1,
    rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=False))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def encode_mxfp4(w):
    """Codes, and the exponents of blocks of 32, that are nearest to w along its last axis."""
    blocks = w.reshape(*w.shape[:-1], -1, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1, keepdims=True))) - 2
    codes = np.abs((blocks / np.exp2(exponent))[..., None] - E2M1).argmin(-1)
    return codes.astype(np.uint8), exponent[..., 0]


def exact_mxfp4(gain):
    """Values of [experts, in, out] that MXFP4 holds exactly, in blocks along `in`."""
    def value(noise, init, g):
        codes, exponent = encode_mxfp4(np.swapaxes(noise * gain / np.sqrt(noise.shape[1]), 1, 2).copy())
        w = E2M1[codes] * np.exp2(exponent)[..., None]
        return np.swapaxes(w.reshape(w.shape[0], w.shape[1], -1), 1, 2)
    return value


def published_mxfp4(dir, case):
    """transformers computes with the values in bf16; then the experts' tensors are published as blocks and scales."""
    import kit, torch
    from safetensors.torch import load_file, save_file
    kit.hf_case(dir, case["config"], case["hf"], **case.get("hf_args", {}))
    file, out = Path(dir) / "model.safetensors", {}
    for name, w in load_file(file).items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = w.clone()
            continue
        codes, exponent = encode_mxfp4(np.swapaxes(w.float().numpy(), 1, 2).copy())
        out[name + "_blocks"] = torch.from_numpy(codes[..., ::2] | codes[..., 1::2] << 4)
        out[name + "_scales"] = torch.from_numpy((exponent + 127).astype(np.uint8))
    save_file(out, file, metadata={"format": "pt"})
    config = json.loads((Path(dir) / "config.json").read_text())
    config["quantization_config"] = {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
                                     "quant_method": "mxfp4"}
    (Path(dir) / "config.json").write_text(json.dumps(config, indent=1) + "\n")


# gpt_oss: a sink a head joins the softmax's denominator; every other layer slides; biases everywhere; gate and up are
# rows in turn, gate is at most limit, up within +-limit, and (up + 1) * gate * sigmoid(1.702 gate) is what goes down.
# mlx-lm does not read yarn's truncate.
CASES["gpt_oss"] = dict(hf="GptOssForCausalLM", agree=False, hf_args=dict(gains={
    "sinks": 1.0, r"experts\.gate_up_proj$": exact_mxfp4(4.0), r"experts\.down_proj$": exact_mxfp4(0.5), r"_proj_bias$": 1.0}),
    config=dict(
    architectures=["GptOssForCausalLM"], model_type="gpt_oss", attention_bias=True, attention_dropout=0.0, eos_token_id=2,
    experts_per_token=2, head_dim=12, hidden_act="silu", hidden_size=64, initial_context_length=64, initializer_range=0.02,
    intermediate_size=32, layer_types=["sliding_attention", "full_attention"], max_position_embeddings=2048,
    num_attention_heads=4, num_experts_per_tok=2, num_hidden_layers=2, num_key_value_heads=2, num_local_experts=3,
    output_router_logits=False, pad_token_id=3, rms_norm_eps=1e-5,
    rope_scaling={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 64,
                  "rope_type": "yarn", "truncate": False}, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=11,
    swiglu_limit=7.0, tie_word_embeddings=False, use_cache=True, vocab_size=67), variants={
    "mxfp4": dict(make=published_mxfp4, hf_args=dict(seed=2)),
})


DEEPSEEK = dict(
    COMMON, attention_bias=False, first_k_dense_replace=1, hidden_size=32, intermediate_size=40, kv_lora_rank=24,
    moe_intermediate_size=20, moe_layer_freq=1, n_shared_experts=2, num_attention_heads=3, num_experts_per_tok=3,
    num_hidden_layers=2, num_key_value_heads=3, qk_nope_head_dim=20, qk_rope_head_dim=12, rms_norm_eps=1e-6, rope_theta=10000,
    rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                  "original_max_position_embeddings": 32, "type": "yarn"},
    tie_word_embeddings=False, v_head_dim=28, vocab_size=67)

# deepseek_v2: a query head is [plain | rotary], kv_b gives a head [plain key | value]; rope on neighbouring pairs; yarn
# scales the scores by the square of what mscale_all_dim gives; softmax over all experts, never normalized; a group's
# score is its best expert's.
CASES["deepseek_v2"] = dict(hf="DeepseekV2ForCausalLM", hf_args=dict(seed=3), quantized=[], config=dict(
    DEEPSEEK, architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", n_group=4, n_routed_experts=8,
    norm_topk_prob=False, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=None,
    routed_scaling_factor=2.0, scoring_func="softmax", topk_group=2, topk_method="group_limited_greedy"))

# deepseek_v3: sigmoid scores; choice alone by score + bias; a group's score is the sum of its best two; weights divided
# by their sum, times a factor; queries through a normed vector. MLX has two stacks of matrices in place of kv_b.
CASES["deepseek_v3"] = dict(hf="DeepseekV3ForCausalLM", quantized=[], hf_args=dict(seed=2, gains={
    "correction_bias": lambda noise, init, g: 1 + 0.2 * noise}), config=dict(
    DEEPSEEK, architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", n_group=3, n_routed_experts=9,
    norm_topk_prob=True, num_nextn_predict_layers=1, q_lora_rank=28, routed_scaling_factor=2.5, scoring_func="sigmoid",
    topk_group=2, topk_method="noaux_tc"), variants={
    "groups": dict(hf_args=dict(seed=4), config=dict(kv_lora_rank=32, qk_nope_head_dim=32, q_lora_rank=32, v_head_dim=20,
                                                     moe_intermediate_size=32, n_routed_experts=6, n_shared_experts=1),
                   quantized=[dict(bits=4, group_size=32)]),
})


def apart(weights):
    """MLX's stacks of experts -> one tensor an expert, as published."""
    out = {}
    for name, w in weights.items():
        head, stacked, leaf = name.partition("mlp.switch_mlp.")
        for e in range(w.shape[0] if stacked else 0):
            out[f"{head}mlp.experts.{e}.{leaf}"] = w[e]
        if not stacked:
            out[name] = w
    return out


# What DeepSeek's experts stand under in other families.
ROUTED = dict(BASE, first_k_dense_replace=1, intermediate_size=56, moe_intermediate_size=20, n_routed_experts=5,
              n_shared_experts=1, num_experts_per_tok=2, num_hidden_layers=2, tie_word_embeddings=False)
BIAS = {"correction_bias": lambda noise, init, g: 1 + 0.2 * noise}

# deepseek: the first: softmax over all, not normalized, ordinary attention. Only mlx-lm has it.
CASES["deepseek"] = dict(publish=apart, quantized=[], config=dict(
    ROUTED, architectures=["DeepseekForCausalLM"], model_type="deepseek",
    attention_bias=False, moe_layer_freq=1, norm_topk_prob=False,
    rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000, scoring_func="softmax"))

# dots1: a norm on each head's query and key; "noaux_tc" as its scoring_func is the sigmoid.
CASES["dots1"] = dict(hf="Dots1ForCausalLM", hf_args=dict(gains=BIAS), quantized=[], config=dict(
    ROUTED, architectures=["Dots1ForCausalLM"], model_type="dots1",
    attention_bias=False, head_dim=12, max_window_layers=2, n_group=1,
    norm_topk_prob=True, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000000, routed_scaling_factor=2.5,
    scoring_func="noaux_tc", sliding_window=None, topk_group=1, topk_method="noaux_tc", use_sliding_window=False))

# glm4_moe: half of each head rotates; biases on q, k and v alone; norms of heads with use_qk_norm.
CASES["glm4_moe"] = dict(hf="Glm4MoeForCausalLM", hf_args=dict(gains=BIAS, seed=2), quantized=[], config=dict(
    ROUTED, architectures=["Glm4MoeForCausalLM"], model_type="glm4_moe",
    attention_bias=True, head_dim=24, n_group=1, norm_topk_prob=True,
    num_nextn_predict_layers=1, partial_rotary_factor=0.5, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=1000000,
    routed_scaling_factor=1.5, topk_group=1, use_qk_norm=True))

# glm4_moe_lite: DeepSeek V3's attention and experts, without yarn.
CASES["glm4_moe_lite"] = dict(hf="Glm4MoeLiteForCausalLM", hf_args=dict(gains=BIAS, seed=2), quantized=[], config=dict(
    ROUTED, architectures=["Glm4MoeLiteForCausalLM"], model_type="glm4_moe_lite",
    attention_bias=False, kv_lora_rank=24, n_group=1,
    norm_topk_prob=True, num_key_value_heads=4, num_nextn_predict_layers=1, partial_rotary_factor=1.0, q_lora_rank=28,
    qk_nope_head_dim=20, qk_rope_head_dim=12, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=1000000,
    routed_scaling_factor=1.8, topk_group=1, topk_method="noaux_tc", v_head_dim=28))

# solar_open: yarn, which mlx-lm does not read here.
CASES["solar_open"] = dict(hf="SolarOpenForCausalLM", agree=False, hf_args=dict(gains=BIAS, seed=3), config=dict(
    ROUTED, architectures=["SolarOpenForCausalLM"], model_type="solar_open",
    attention_bias=False, first_k_dense_replace=0, head_dim=12,
    n_group=1, norm_topk_prob=True, partial_rotary_factor=1.0, rms_norm_eps=1e-5,
    rope_scaling={"type": "yarn", "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32},
    rope_theta=1000000, routed_scaling_factor=1.0, topk_group=1, use_qk_norm=False))

# minimax: norms over the whole query and key; rotary_dim of each head rotates; the bias is not the router's own tensor.
CASES["minimax"] = dict(hf="MiniMaxM2ForCausalLM", hf_args=dict(gains=BIAS, seed=4), quantized=[], config=dict(
    BASE, architectures=["MiniMaxM2ForCausalLM"], model_type="minimax_m2", attn_type_list=[1, 1],
    head_dim=20, intermediate_size=24, num_experts_per_tok=2, num_hidden_layers=2, num_local_experts=5,
    qk_norm_type="per_layer", rms_norm_eps=1e-6, rope_theta=5000000, rotary_dim=8, scoring_func="sigmoid", shared_intermediate_size=0, tie_word_embeddings=False,
    use_qk_norm=True, use_routing_bias=True))

# deepseek_v32: V3 with an indexer: its queries come from the normed query vector, its keys through a LayerNorm with a bias;
# its rope turns the first elements of a head, in halves. With few heads many scores are exactly 0, and ties have no order.
CASES["deepseek_v32"] = dict(hf="DeepseekV32ForCausalLM", quantized=[], hf_args=dict(seed=3, gains={
    **BIAS, "weights_proj": 2.0, "indexer.wk": 2.0, "indexer.wq_b": 2.0}), config=dict(
    DEEPSEEK, architectures=["DeepseekV32ForCausalLM"], model_type="deepseek_v32", index_head_dim=20, index_n_heads=12,
    index_topk=11, n_group=3, n_routed_experts=6, n_shared_experts=1, norm_topk_prob=True, num_attention_heads=4,
    num_key_value_heads=4, q_lora_rank=28, routed_scaling_factor=2.5, scoring_func="sigmoid", topk_group=2,
    topk_method="noaux_tc"))

# glm_moe_dsa: V3.2, but the indexers' rope turns neighbours; layers that are not "full" take the choice of the last that
# is, and have no indexer's tensors (which mlx-lm does not know). With this seed no choice is so close that a cache in F16
# makes another.
CASES["glm_moe_dsa"] = dict(hf="GlmMoeDsaForCausalLM", agree=False, hf_args=dict(seed=7, gains={
    **BIAS, "weights_proj": 2.0, "indexer.wk": 2.0, "indexer.wq_b": 2.0}), config=dict(
    {k: v for k, v in DEEPSEEK.items() if k not in ("rope_theta", "rope_scaling")},
    architectures=["GlmMoeDsaForCausalLM"], model_type="glm_moe_dsa", hidden_size=24, index_head_dim=20, index_n_heads=12,
    index_skip_topk_offset=2, index_topk=11, index_topk_freq=2, indexer_rope_interleave=True, n_group=1, n_routed_experts=4,
    n_shared_experts=1, norm_topk_prob=True, num_attention_heads=4, num_experts_per_tok=2, num_hidden_layers=4,
    num_key_value_heads=4, q_lora_rank=28, rms_norm_eps=1e-5, rope_parameters={"rope_theta": 1000000, "rope_type": "default"},
    routed_scaling_factor=2.5, scoring_func="sigmoid", topk_group=1, topk_method="noaux_tc"))
