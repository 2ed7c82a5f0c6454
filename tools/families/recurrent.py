"""Families whose layers carry state on: Mamba 2, LFM2, Jamba, RecurrentGemma, Mamba, Falcon Mamba, Qwen3-Next, Kimi Linear, RWKV 7.
The comment above a family says what is easily got wrong."""

import shutil

import kit
from blocks import Q4, SMALL, make

CASES = {}
INF = float("inf")

# Fresh step sizes are so small that a prompt leaves states as they were: larger ones make them fade within it.
STEPS = {r"dt_proj\.bias|dt_bias": lambda noise, init, g: 0.8 * noise - 1.5, r"\.D$": lambda noise, init, g: 1 + 0.7 * noise}
COMMON = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, initializer_range=0.1, torch_dtype="bfloat16", use_cache=True, vocab_size=131)
PROMPT = 71  # crosses two chunks of 32

# mamba2: in_proj is z, x, B, C, dt; conv and silu run over x, B and C together; head h has group h // (heads / groups);
# dt = clamp(softplus(dt + dt_bias), time_step_limit); the norm comes after the gate, its mean over each group of channels
# (mlx-lm takes all channels together: the same for one group). Infinity is a bare token in config.json.
CASES["mamba2"] = dict(make=make, hf="Mamba2ForCausalLM", agree=False, hf_args=dict(gains=STEPS, seed=51, n=PROMPT), config=dict(
    COMMON, architectures=["Mamba2ForCausalLM"], model_type="mamba2", chunk_size=16, conv_kernel=3, expand=2, head_dim=12, hidden_act="silu",
    hidden_size=36, intermediate_size=72, layer_norm_epsilon=1e-5, n_groups=3, norm_before_gate=True, num_heads=6, num_hidden_layers=2, residual_in_fp32=True,
    rms_norm=True, state_size=20, tie_word_embeddings=False, time_step_limit=[0.0, INF], time_step_rank="auto", use_bias=True,
    use_conv_bias=False), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=52)], hf_args=dict(seed=52), config=dict(
        hidden_size=64, intermediate_size=128, head_dim=16, num_heads=8, n_groups=1, conv_kernel=4, num_hidden_layers=1, time_step_limit=[0.05, 0.6], tie_word_embeddings=True,
        use_bias=False, use_conv_bias=True)),
})

# lfm2: B, C, x are thirds of in_proj, out(C * conv(B * x)), no activation. The MLP is 2/3 of block_ff_dim, rounded up to
# block_multiple_of, where block_auto_adjust_ff_dim. embedding_norm is the last norm. Tied unless the config says otherwise.
LFM2 = dict(COMMON, architectures=["Lfm2ForCausalLM"], model_type="lfm2", norm_eps=1e-5, conv_bias=False, conv_L_cache=3,
            num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=3, max_position_embeddings=256)
CASES["lfm2"] = dict(make=make, hf="Lfm2ForCausalLM", agree=False, hf_args=dict(seed=53, n=PROMPT), config=dict(
    LFM2, block_auto_adjust_ff_dim=True, block_ff_dim=50, block_ffn_dim_multiplier=1.2, block_multiple_of=8, full_attn_idxs=[1],
    hidden_size=36, rope_theta=1000000.0), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=55)], hf_args=dict(seed=55), config=dict(
        hidden_size=64, block_dim=64, num_hidden_layers=2, block_auto_adjust_ff_dim=False, block_ff_dim=None, intermediate_size=96, conv_L_cache=4, conv_bias=True,
        full_attn_idxs=None, layer_types=["conv", "full_attention"], num_attention_heads=4, num_key_value_heads=2,
        rope_theta=None, rope_parameters={"rope_theta": 5000.0, "rope_type": "default"}, tie_embedding=True)),
})

# recurrent_gemma: embeddings times sqrt(hidden) rounded to bfloat16; norms of 1 + weight; block_types over and over; half of
# a head turns; o_proj and the MLP, whose width is intermediate_size / 2, have biases. Recurrence: gates are blocks,
# x[head] @ W[head]; log a = -8 sigmoid(gate) softplus(param); h = a h + sqrt(1 - a^2) sigmoid(input) x, at position 0 without
# the root. mlx-lm has lru_width = hidden_size always.
CASES["recurrent_gemma"] = dict(make=make, hf="RecurrentGemmaForCausalLM", agree=False, hf_args=dict(gains=SMALL, seed=66, n=PROMPT), config=dict(
    COMMON, architectures=["RecurrentGemmaForCausalLM"], model_type="recurrent_gemma", attention_bias=True, attention_dropout=0.0,
    attention_window_size=11, block_types=["recurrent", "attention"], conv1d_width=3, embeddings_scale_by_sqrt_dim=True, head_dim=12,
    hidden_activation="gelu_pytorch_tanh", hidden_size=36, intermediate_size=70, logits_soft_cap=1.5, lru_width=48,
    num_attention_heads=3, num_hidden_layers=3, num_key_value_heads=1, rms_norm_eps=1e-6, rope_theta=100.0,
    w_init_variance_scale=0.01), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=67)], hf_args=dict(seed=67), config=dict(
        hidden_size=64, head_dim=16, intermediate_size=256, lru_width=64, num_attention_heads=4, num_hidden_layers=2, conv1d_width=4,
        attention_bias=False, partial_rotary_factor=0.5, rope_theta=10000.0)),
})

# jamba: attention without positions at i % attn_layer_period == attn_layer_offset, else Mamba with norms of dt, B and C;
# experts at i % expert_layer_period == expert_layer_offset: the softmax over all of them, then the best, not renormalised
# (mlx-lm renormalises, and adds the offset instead). intermediate_size is also an expert's.
CASES["jamba"] = dict(make=make, hf="JambaForCausalLM", agree=False, hf_args=dict(gains=STEPS, seed=58, n=PROMPT), config=dict(
    COMMON, architectures=["JambaForCausalLM"], model_type="jamba", attn_layer_offset=1, attn_layer_period=3, expert_layer_offset=0,
    expert_layer_period=2, hidden_act="silu", hidden_size=24, intermediate_size=28, mamba_conv_bias=False, mamba_d_conv=3,
    mamba_d_state=5, mamba_dt_rank="auto", mamba_expand=3, mamba_proj_bias=True, max_position_embeddings=256, num_attention_heads=3,
    num_experts=3, num_experts_per_tok=2, num_hidden_layers=3, num_key_value_heads=1, rms_norm_eps=1e-6, sliding_window=None,
    tie_word_embeddings=False, use_mamba_kernels=False), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=59)], hf_args=dict(seed=59), config=dict(
        hidden_size=32, intermediate_size=64, mamba_conv_bias=True, mamba_d_conv=4, mamba_d_state=8, mamba_dt_rank=4, mamba_expand=2,
        mamba_proj_bias=False, num_attention_heads=4, num_key_value_heads=2, num_experts=1, num_experts_per_tok=1, num_hidden_layers=2,
        tie_word_embeddings=True)),
})

# mamba, falcon_mamba: x, z are halves of in_proj; intermediate_size wins over expand * hidden_size; A_log and D are bare
# parameters; tied when the key is absent. Falcon's norms of dt, B and C have no weight, and an eps of their own.
MAMBA = dict(COMMON, conv_kernel=3, expand=2, hidden_act="silu", hidden_size=36, intermediate_size=60, layer_norm_epsilon=1e-5,
             num_hidden_layers=2, residual_in_fp32=True, state_size=5, time_step_rank="auto", use_bias=True, use_conv_bias=False)
EVEN = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=1, conv_kernel=4, time_step_rank=4, use_bias=False, use_conv_bias=True)
CASES["mamba"] = dict(make=make, hf="MambaForCausalLM", agree=False, hf_args=dict(gains=STEPS, seed=60, n=PROMPT), config=dict(
    MAMBA, architectures=["MambaForCausalLM"], model_type="mamba", ssm_cfg={}), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=61)], hf_args=dict(seed=61), config=EVEN),
})
CASES["falcon_mamba"] = dict(make=make, hf="FalconMambaForCausalLM", agree=False, hf_args=dict(gains=STEPS, seed=62, n=PROMPT), config=dict(
    MAMBA, architectures=["FalconMambaForCausalLM"], model_type="falcon_mamba", mixer_rms_eps=1e-3, tie_word_embeddings=False))

# qwen3_next: layer, final, query and key norms are 1 + weight (in MLX's files, whose conv1d is [C, taps, 1], the 1 is in them), that of
# the delta nets' output is plain, and times silu(z) after it. Rows of in_proj_qkvz and in_proj_ba go by key head: its q, k, v, z, and its
# b, a; conv1d runs over all q, then k, then v. q_proj has for each head its query and its gate. mtp.* predicts further tokens.
# mlx-lm adds the 1 to weights in their own type: float32 for comparing.
DECAYS = {r"dt_bias": lambda noise, init, g: 0.7 * noise - 1, r"A_log": lambda noise, init, g: 0.7 * noise - 1}


def with_mtp(w, config):
    import torch
    w["mtp.norm.weight"] = torch.ones(config["hidden_size"], dtype=torch.bfloat16)
    return w


CASES["qwen3_next"] = dict(make=make, hf="Qwen3NextForCausalLM", agree=False, layout=with_mtp, hf_args=dict(gains=DECAYS, seed=71, n=PROMPT), config=dict(
    COMMON, architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", attention_bias=False, attention_dropout=0.0, decoder_sparse_step=2,
    full_attention_interval=2, head_dim=20, hidden_act="silu", hidden_size=28, initializer_range=0.02, intermediate_size=36,
    linear_conv_kernel_dim=3, linear_key_head_dim=10, linear_num_key_heads=2, linear_num_value_heads=6, linear_value_head_dim=7,
    max_position_embeddings=256, mlp_only_layers=[], moe_intermediate_size=12, norm_topk_prob=True, num_attention_heads=3, num_experts=5,
    num_experts_per_tok=2, num_hidden_layers=3, num_key_value_heads=1, output_router_logits=False, partial_rotary_factor=0.3,
    rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000, shared_expert_intermediate_size=20, tie_word_embeddings=False), variants={
    "even": dict(agree=True, layout=False, only="quantized", quantized=[dict(Q4, seed=72)], hf_args=dict(seed=72, dtype="float32"), config=dict(
        torch_dtype="float32", decoder_sparse_step=1, head_dim=16, hidden_size=64, linear_conv_kernel_dim=4, linear_key_head_dim=12, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_value_head_dim=16, moe_intermediate_size=32, shared_expert_intermediate_size=32, num_attention_heads=4,
        num_key_value_heads=2, num_hidden_layers=2, num_experts=3, partial_rotary_factor=0.5, norm_topk_prob=False, intermediate_size=64)),
})

# kimi_linear: the lists of linear_attn_config count from 1. Latent attention has no positions: the qk_rope_head_dim columns are plain; eps of
# its norm is 1e-6. KDA: q, k, v each through a convolution and silu, q and k of length 1, q / sqrt(head_dim); decays by channel of k,
# -exp(A_log[head]) softplus(f_b(f_a x) + dt_bias); the norm of a head's output times sigmoid(g_b(g_a x)). A_log is [1, 1, heads, 1].
# The choice of experts is by sigmoid and bias. transformers writes the dense layers' mlp as block_sparse_moe, which no published file has.
def kimi_hub(w, config):
    moe = {k.split(".block_sparse_moe.")[0] for k in w if ".block_sparse_moe.gate.weight" in k}
    return {k if k.split(".block_sparse_moe.")[0] in moe else k.replace(".block_sparse_moe.", ".mlp."): v for k, v in w.items()}


CHOICE = {r"e_score_correction_bias": lambda noise, init, g: 0.2 * noise}
CASES["kimi_linear"] = dict(make=make, hf="KimiLinearForCausalLM", agree=True, layout=kimi_hub, quantized=[], hf_args=dict(
    gains={**DECAYS, **CHOICE}, seed=73, n=PROMPT), config=dict(
    COMMON, architectures=["KimiLinearForCausalLM"], model_type="kimi_linear", dtype="bfloat16", torch_dtype=None, first_k_dense_replace=1, head_dim=12,
    hidden_act="silu", hidden_size=28, initializer_range=0.02, intermediate_size=36, kv_lora_rank=20,
    linear_attn_config={"full_attn_layers": [3], "head_dim": 10, "kda_layers": [1, 2], "num_heads": 3, "short_conv_kernel_size": 3},
    mla_use_nope=True, model_max_length=256, moe_intermediate_size=12, moe_layer_freq=1, moe_renormalize=True,
    moe_router_activation_func="sigmoid", num_attention_heads=2, num_expert_group=1, num_experts=5, num_experts_per_token=2,
    num_hidden_layers=3, num_key_value_heads=2, num_nextn_predict_layers=0, num_shared_experts=2, q_lora_rank=None, qk_nope_head_dim=14,
    qk_rope_head_dim=6, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0, routed_scaling_factor=1.7, tie_word_embeddings=False,
    topk_group=1, use_grouped_topk=True, v_head_dim=9), variants={
    "even": dict(only="quantized", quantized=[dict(Q4, seed=74)], hf_args=dict(seed=74), config=dict(
        head_dim=16, hidden_size=64, intermediate_size=64, kv_lora_rank=32, num_hidden_layers=2, moe_intermediate_size=32, num_experts=3,
        linear_attn_config={"full_attn_layers": [2], "head_dim": 16, "kda_layers": [1], "num_heads": 4, "short_conv_kernel_size": 4},
        num_shared_experts=1, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, moe_renormalize=False)),
})

# rwkv7: only mlx-lm has it. Every input is x + (previous x - x) * x_r|w|k|v|a|g, of the normed x, 0 before the first. decay =
# exp(-e^-0.5 sigmoid(w_lora)), tanh inside; a = sigmoid(a_lora); g = g_lora, sigmoid inside; v += (the first layer's unmixed v - v)
# sigmoid(v_lora), but not in the first. kk = k * k_k of length 1 per head; k *= 1 + (a - 1) k_a; S = S diag(decay) - (S kk) (kk a)' + v k'.
# Then g_norm per head, eps 64e-5, plus (sum of r k r_k) v, times g. num_heads of published configs is not always right. Published files have
# k_k, k_a and g_norm flat, MLX's by head.
RWKV = {r"\.x_[rwkvag]$": lambda noise, init, g: 0.5 + 0.3 * noise, r"\.(k_k|k_a)$|g_norm\.weight": lambda noise, init, g: 1 + 0.3 * noise,
        r"g_norm\.bias": lambda noise, init, g: 0.2 * noise, r"r_k$": lambda noise, init, g: 0.3 * noise,
        r"w_lora\.lora\.2\.bias": lambda noise, init, g: 1.5 * noise - 1, r"lora\.2\.bias": lambda noise, init, g: 0.5 * noise}


def rwkv7_hub(w):
    return {k: v.reshape(-1) if any(s in k for s in (".k_k", ".k_a", ".g_norm.")) else v for k, v in w.items()}


def rwkv7_make(dir, case):
    kit.mlx_case(dir, case["config"], publish=rwkv7_hub, **case["mlx_args"])
    for q in case.get("quantized", []):
        kit.mlx_quantized(dir.parent / f"{dir.name}-q4", dir, **q)
        shutil.rmtree(dir)


CASES["rwkv7"] = dict(make=rwkv7_make, mlx_args=dict(gains=RWKV, seed=75, n=PROMPT), config=dict(
    COMMON, architectures=["RWKV7ForCausalLM"], model_type="rwkv7", a_low_rank_dim=5, attn=None, attn_mode="chunk", decay_low_rank_dim=7,
    gate_low_rank_dim=9, head_dim=9, hidden_act="sqrelu", hidden_ratio=1.5, hidden_size=27, intermediate_size=40, norm_bias=True, norm_eps=1e-5,
    norm_first=True, num_heads=32, num_hidden_layers=3, tie_word_embeddings=False, v_low_rank_dim=6, value_dim=[27, 27, 27]), variants={
    # with one group a row a bias is the same for all channels, and pre_norm removes it
    "even": dict(quantized=[dict(bits=4, group_size=64, seed=76, dead_ok=[r"^model\.embeddings\.biases"])], mlx_args=dict(seed=76), config=dict(
        a_low_rank_dim=64, decay_low_rank_dim=64, gate_low_rank_dim=64, v_low_rank_dim=64, head_dim=16, hidden_size=64, intermediate_size=64,
        num_hidden_layers=2, tie_word_embeddings=True, value_dim=[64, 64])),
})
