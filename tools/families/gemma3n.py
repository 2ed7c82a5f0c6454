"""Gemma 3n's text model. The comment above it says what is easily got wrong."""

import json, shutil

import kit

CASES = {}
S, F = "sliding_attention", "full_attention"
PREFIX = "model.language_model."


def publish(dir, text):
    """The text model's checkpoint as part of one that sees and hears: other names, a nested config, towers, and in the
    layers that share keys and values some of their own, which nobody reads."""
    import torch
    from safetensors.torch import load_file, save_file
    g = torch.Generator().manual_seed(5)
    w = {k.replace("model.", PREFIX, 1): v for k, v in load_file(dir / "model.safetensors").items()}
    first = text["num_hidden_layers"] - text["num_kv_shared_layers"]
    for i in range(first, text["num_hidden_layers"]):
        for leaf in ("k_proj.weight", "v_proj.weight", "k_norm.weight"):
            like = w[f"{PREFIX}layers.0.self_attn.{leaf}"]
            w[f"{PREFIX}layers.{i}.self_attn.{leaf}"] = torch.randn(like.shape, generator=g).to(like.dtype)
    for name in ("vision_tower.timm_model.conv_stem.conv.weight", "audio_tower.conformer.0.norm.weight",
                 "embed_vision.embedding.weight", "embed_audio.embedding_projection.weight"):
        w["model." + name] = torch.randn((4, 4), generator=g).bfloat16()
    save_file(w, dir / "model.safetensors", metadata={"format": "pt"})
    config = dict(architectures=["Gemma3nForConditionalGeneration"], model_type="gemma3n", text_config=text,
                  vision_config={"model_type": "gemma3n_vision"}, audio_config={"model_type": "gemma3n_audio"},
                  torch_dtype="bfloat16", eos_token_id=[1, 106])
    (dir / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def cached(model, ids):
    """mlx-lm shares keys and values through its cache only."""
    import mlx.core as mx
    return kit.np.array(model(mx.array([ids]), cache=model.make_cache())[0].astype(mx.float32))


def make(dir, case):
    config = case["config"]
    kit.hf_case(dir, config, "Gemma3nForCausalLM", **case["hf_args"])
    if not case.get("nested", True):
        return
    publish(dir, config)
    if case.get("quantized"):      # of which only that is kept: the other is large
        kit._mlx_logits = cached
        assert kit.agree(dir) < kit.TOLERANCE
        kit.mlx_quantized(dir.parent / f"{dir.name}-q4", dir, **case["quantized"])
        shutil.rmtree(dir)


# Norms multiply by w, not 1 + w; scores are not scaled (query_pre_attn_scalar is not read); each head's value is normed
# without a weight. The per-layer table is times sqrt(its width), ids at or over its size are as id 0.
# A layer computes the stream altup_active_idx, but per-layer embeddings go to the streams 1.., and at both ends the others
# are brought to the size of stream 0. The predicting matrix has a row for each new stream.
# Laurel's residual is the normed input of attention. Cut gates: the deviation is the biased one.
# A layer that shares reads the last layer of its type before the sharing ones, not the one before it.
GAINS = {"modality_router": 40.0, "prediction_coefs": 0.5, "correction_coefs": 0.5, "altup_.*projections": 1.0,
         "correct_output_scale": lambda n, i, g: 1 + 0.3 * n, "embed_tokens_per_layer": 0.6}
CASES["gemma3n"] = dict(make=make, hf_args=dict(gains=GAINS, seed=31), config=dict(
    model_type="gemma3n_text", hidden_size=24, intermediate_size=[36, 20, 28, 40], num_hidden_layers=4, num_attention_heads=3,
    num_key_value_heads=1, head_dim=10, vocab_size=60, vocab_size_per_layer_input=49, hidden_size_per_layer_input=7,
    altup_active_idx=1, altup_coef_clip=120.0, altup_correct_scale=True, altup_lr_multiplier=1.0, altup_num_inputs=3,
    attention_bias=False, attention_dropout=0.0, activation_sparsity_pattern=[0.9, 0.5, 0.0, 0.3],
    final_logit_softcapping=30.0, hidden_activation="gelu_pytorch_tanh", initializer_range=0.02, laurel_rank=9,
    layer_types=[S, S, F, S], max_position_embeddings=256, num_kv_shared_layers=1, query_pre_attn_scalar=256,
    rms_norm_eps=1e-6, rope_local_base_freq=100.0, rope_scaling=None, rope_theta=50000.0, sliding_window=11,
    torch_dtype="bfloat16", use_cache=True), variants={
    # The text model alone: one size for all layers, nothing shared, cut or scaled, windows by the default pattern
    "text": dict(nested=False, hf_args=dict(seed=51, dead_ok=["correct_output_scale"]), config=dict(
        architectures=["Gemma3nForCausalLM"], intermediate_size=22, activation_sparsity_pattern=None, layer_types=None,
        num_hidden_layers=5, hidden_size=15, num_kv_shared_layers=0, altup_num_inputs=2, altup_active_idx=0,
        altup_correct_scale=False, attention_bias=True, final_logit_softcapping=1.5, rope_theta=None, rope_scaling=None,
        rope_local_base_freq=None, rope_parameters={F: {"rope_type": "default", "rope_theta": 5000.0},
                                                    S: {"rope_type": "default", "rope_theta": 100.0}})),
    "even": dict(quantized=dict(bits=4, group_size=32, seed=50, avoid=range(49, 60), dead_ok=[r"layers\.3\.self_attn\.(k_proj|v_proj|k_norm)"]),
                 hf_args=dict(seed=50), config=dict(
        hidden_size=32, intermediate_size=[32, 64, 32, 32], num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        hidden_size_per_layer_input=32, laurel_rank=32, altup_active_idx=0)),
})
