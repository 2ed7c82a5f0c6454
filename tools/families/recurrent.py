"""Families whose layers carry state on: Mamba 2, LFM2, Jamba, RecurrentGemma, Mamba, Falcon Mamba.
The comment above a family says what is easily got wrong."""

from blocks import Q4, make

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
