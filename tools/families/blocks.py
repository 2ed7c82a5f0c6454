"""Decoders whose blocks differ from Llama's: Phi-3, GPT-NeoX, GPT-2, Gemma 2 and 3, Cohere 2, OLMo 2.
The comment above a family says what is easily got wrong."""

import json, shutil

import kit
from dense import TIED, standard

CASES = {}
S, F = "sliding_attention", "full_attention"
SMALL = {r"embed_tokens": 0.3}  # embeddings that are multiplied by sqrt(hidden)

# Sizes with nothing in common. Quantized cases have rows that are whole groups of 32.
ODD = dict(hidden_size=48, intermediate_size=56, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2,
           vocab_size=131, max_position_embeddings=256, initializer_range=0.02, torch_dtype="bfloat16", use_cache=True,
           bos_token_id=1, eos_token_id=2, pad_token_id=0)
EVEN = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2)
Q4 = dict(bits=4, group_size=32)


def make(dir, case):
    """standard(), plus: `layout` (tensors as transformers writes them -> as they are published), `tolerance`, and `only`:
    "quantized" drops the case that was quantized, which is large."""
    case = dict(case)
    layout, tolerance, only = case.pop("layout", None), case.pop("tolerance", None), case.pop("only", None)
    standard(dir, dict(case, agree=False) if layout else case)
    if layout:
        from safetensors.torch import load_file, save_file
        w = layout(load_file(dir / "model.safetensors"), case["config"])
        save_file({k: v.contiguous() for k, v in w.items()}, dir / "model.safetensors", metadata={"format": "pt"})
        for q in case["quantized"] if case["agree"] else []:     # mlx-lm reads the published layout only
            assert kit.agree(dir) < kit.TOLERANCE
            kit.mlx_quantized(dir.parent / f"{dir.name}-q4", dir, **q)
    if tolerance:
        meta = json.loads((dir / "meta.json").read_text())
        (dir / "meta.json").write_text(json.dumps({**meta, "tolerance": tolerance}, indent=1) + "\n")
    if only:
        shutil.rmtree(dir)


# phi3: qkv_proj is q|k|v by rows, gate_up_proj gate|up. LongRoPE: a sequence longer than original_max_position_embeddings
# turns by long_factor from its FIRST token on, a shorter one by short_factor; cos and sin are times
# sqrt(1 + ln(max / original) / ln(original)) in both. One that grows past it is computed anew ("grows": the prompt has
# 64 tokens, its continuation passes 70). mlx-lm always takes long_factor and has no window.
LONG = dict(long_factor=[1.0, 1.3, 1.7, 2.2, 3.0, 9.0], short_factor=[1.0, 1.05, 1.1, 1.2, 1.5, 2.1])
CASES["phi3"] = dict(make=make, hf="Phi3ForCausalLM", agree=False, hf_args=dict(gains=TIED, seed=5), config=dict(
    ODD, architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", attention_bias=False, attention_dropout=0.0,
    embd_pdrop=0.0, resid_pdrop=0.0, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling={**LONG, "type": "longrope"},
    original_max_position_embeddings=40, partial_rotary_factor=0.75, sliding_window=13, tie_word_embeddings=True), variants={
    "grows": dict(config=dict(original_max_position_embeddings=70, sliding_window=2047), hf_args=dict(seed=6, steps=14)),
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=3)], hf_args=dict(seed=3), config=dict(
        EVEN, rope_scaling=None, partial_rotary_factor=None, sliding_window=2047, tie_word_embeddings=False,
        original_max_position_embeddings=256)),
})


# gpt_neox: query_key_value rows go head by head, [q, k, v] each; rope on rotary_pct of a head (keys rotary_pct,
# rotary_emb_base); parallel: both norms of the layer's input; LayerNorm with bias; "gelu" is the exact one, "gelu_fast"
# the tanh one: they differ by so little that the tolerance is tight. Files also hold masks and inv_freq.
def neox_hub(w, config):
    import torch
    for i in range(config["num_hidden_layers"]):
        p = f"gpt_neox.layers.{i}.attention."
        w[p + "bias"] = torch.tril(torch.ones(1, 1, 8, 8, dtype=torch.bool))
        w[p + "masked_bias"] = torch.tensor(-1e4, dtype=torch.float16)
        w[p + "rotary_emb.inv_freq"] = torch.ones(3, dtype=torch.float16)
    return w


CASES["gpt_neox"] = dict(make=make, hf="GPTNeoXForCausalLM", agree=False, layout=neox_hub, tolerance=2e-4,
    hf_args=dict(seed=7, dtype="float16"), config=dict(
    ODD, architectures=["GPTNeoXForCausalLM"], model_type="gpt_neox", hidden_act="gelu", layer_norm_eps=1e-5, rotary_emb_base=10000,
    rotary_pct=0.25, tie_word_embeddings=False, torch_dtype="float16", use_parallel_residual=True, num_key_value_heads=None), variants={
    "sequential": dict(agree=True, layout=False, tolerance=None, only="quantized", quantized=[dict(Q4, seed=8)], hf_args=dict(seed=8),
        config=dict(EVEN, intermediate_size=256, num_key_value_heads=None, use_parallel_residual=False, hidden_act="gelu_fast", rotary_pct=1.0)),
})


# gpt2: matrices are [in, out] in the published files and [out, in] in the MLX layout; h.N.attn.bias is the causal mask.
# Some have the prefix "transformer.", some not. Learned positions, tied.
def gpt2_hub(w, config):
    import torch
    out = {k.removeprefix("transformer."): v for k, v in w.items() if k != "lm_head.weight"}
    return {**out, **{f"h.{i}.attn.bias": torch.tril(torch.ones(1, 1, 8, 8)) for i in range(config["n_layer"])}}


CASES["gpt2"] = dict(make=make, hf="GPT2LMHeadModel", agree=False, layout=gpt2_hub, tolerance=2e-4,
    hf_args=dict(seed=9, dtype="float32", gains={"wpe": 2.0}, n=60), config=dict(
    activation_function="gelu_new", architectures=["GPT2LMHeadModel"], attn_pdrop=0.1, bos_token_id=0, embd_pdrop=0.1, eos_token_id=0,
    initializer_range=0.02, layer_norm_epsilon=1e-5, model_type="gpt2", n_ctx=77, n_embd=36, n_head=3, n_layer=2, n_positions=77,
    n_inner=52, resid_pdrop=0.1, torch_dtype="float32", vocab_size=131), variants={
    "prefixed": dict(layout=False, config=dict(torch_dtype="bfloat16", n_inner=None), hf_args=dict(seed=10, dtype="bfloat16")),
    # one group a row of wpe: its bias shifts a whole vector, which every LayerNorm takes out again
    "even": dict(agree=True, only="quantized", tolerance=None, quantized=[dict(Q4, seed=11, dead_ok=(r"wpe\.biases",), n=60)],
                 config=dict(n_embd=32, n_head=4, n_inner=None), hf_args=dict(seed=11)),
})

# gemma2: norms multiply by 1 + weight, before and after both blocks; scores are scaled by query_pre_attn_scalar^-0.5, then
# capped; logits are capped; layers 0, 2, ... slide; embeddings are multiplied by sqrt(hidden).
# mlx-lm has no window.
CASES["gemma2"] = dict(make=make, hf="Gemma2ForCausalLM", agree=False, hf_args=dict(gains=SMALL, seed=12), config=dict(
    ODD, architectures=["Gemma2ForCausalLM"], model_type="gemma2", attention_bias=False, attention_dropout=0.0,
    attn_logit_softcapping=2.0, cache_implementation="hybrid", final_logit_softcapping=1.5, head_dim=20,
    hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=30, rms_norm_eps=1e-6,
    rope_theta=10000.0, sliding_window=11, num_hidden_layers=3, intermediate_size=48), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=13)], hf_args=dict(seed=13), config=dict(
        EVEN, head_dim=32, sliding_window=4096, num_hidden_layers=2)),
})

# gemma3_text: gemma2's layer, norms on q and k, two rotations: layers that slide turn by rope_local_base_freq, unscaled.
# Which slide: layer_types, or else all but every sliding_window_pattern-th. Newer configs nest both in rope_parameters.
CASES["gemma3_text"] = dict(make=make, hf="Gemma3ForCausalLM", agree=False, hf_args=dict(gains=SMALL, seed=14), config=dict(
    ODD, architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", attention_bias=False, attention_dropout=0.0,
    attn_logit_softcapping=None, final_logit_softcapping=None, head_dim=20, hidden_activation="gelu_pytorch_tanh",
    query_pre_attn_scalar=30, rms_norm_eps=1e-6, num_hidden_layers=3, intermediate_size=48, sliding_window=11,
    layer_types=[S, F, S], rope_parameters={F: {"rope_type": "linear", "factor": 4.0, "rope_theta": 50000.0},
                                            S: {"rope_type": "default", "rope_theta": 100.0}}), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=15)], hf_args=dict(seed=15), config=dict(
        EVEN, head_dim=32, intermediate_size=64, sliding_window=11, sliding_window_pattern=2, layer_types=None, rope_parameters=None,
        num_hidden_layers=2, rope_theta=1000000, rope_local_base_freq=100, rope_scaling={"factor": 8.0, "rope_type": "linear"})),
})

# cohere2: one LayerNorm (no bias) a layer, attention and MLP side by side; layers with a window rotate neighbouring pairs,
# the others have no positions at all; logits are multiplied by logit_scale; tied.
CASES["cohere2"] = dict(make=make, hf="Cohere2ForCausalLM", agree=False, hf_args=dict(gains=TIED, seed=16), config=dict(
    ODD, architectures=["Cohere2ForCausalLM"], model_type="cohere2", attention_bias=False, attention_dropout=0.0,
    cache_implementation="hybrid", head_dim=12, hidden_act="silu", layer_norm_eps=1e-5, layer_switch=3, logit_scale=0.3,
    order_of_interleaved_layers="local_attn_first", position_embedding_type="rope_gptj", rope_scaling=None, rope_theta=50000,
    rotary_pct=1.0, sliding_window=11, sliding_window_pattern=3, num_hidden_layers=3, use_embedding_sharing=True,
    use_gated_activation=True, use_parallel_block=True, use_parallel_embedding=False), variants={
    "even": dict(agree=True, only="quantized", quantized=[dict(Q4, seed=17)], hf_args=dict(seed=17), config=dict(
        EVEN, head_dim=16, intermediate_size=64, sliding_window_pattern=2, num_hidden_layers=2)),
})

# olmo2: norms only after attention and MLP; RMSNorm over the whole query and key, before they are split into heads.
CASES["olmo2"] = dict(make=make, hf="Olmo2ForCausalLM", quantized=[], hf_args=dict(seed=18), config=dict(
    ODD, architectures=["Olmo2ForCausalLM"], model_type="olmo2", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
    rms_norm_eps=1e-6, rope_scaling=None, rope_theta=500000, tie_word_embeddings=False), variants={
    "even": dict(only="quantized", quantized=[dict(Q4, seed=19)], hf_args=dict(seed=19), config=dict(EVEN)),
})

# llama4_text: where no_rope_layers is 1 (!) a layer rotates neighbouring pairs, then norms each head's query and key (no
# weight), and sees its own chunk of attention_chunk_size tokens; the others have no positions, no norm, see everything, and
# their queries are multiplied by 1 + attn_scale * ln(1 + floor((position + 1) / floor_scale)). An empty no_rope_layers: all
# but every fourth rotate. low_freq_factor may equal high_freq_factor.
CASES["llama4_text"] = dict(make=make, hf="Llama4ForCausalLM", agree=False, hf_args=dict(seed=20), config=dict(
    ODD, architectures=["Llama4ForCausalLM"], model_type="llama4_text", attention_bias=False, attention_chunk_size=11,
    attention_dropout=0.0, attn_scale=0.3, attn_temperature_tuning=True, floor_scale=5, for_llm_compressor=False, head_dim=20,
    hidden_act="silu", interleave_moe_layer_step=0, intermediate_size=16, intermediate_size_mlp=48, moe_layers=[],
    no_rope_layers=[1, 0, 1], num_experts_per_tok=0, num_hidden_layers=3, num_local_experts=0, output_router_logits=False,
    rms_norm_eps=1e-5, rope_theta=5000.0, rope_scaling={"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0,
                                                        "original_max_position_embeddings": 32, "rope_type": "llama3"},
    router_aux_loss_coef=0.001, router_jitter_noise=0.0, tie_word_embeddings=False, use_qk_norm=True), quantized=[], variants={
    # every second layer has experts: the sigmoid of a token's best router logit multiplies the expert's INPUT; a shared
    # expert beside them; gate_up_proj and down_proj are stacks used as x @ w
    "moe": dict(hf_args=dict(seed=24), config=dict(moe_layers=None, interleave_moe_layer_step=2, num_local_experts=3, num_experts_per_tok=1,
                                                   num_hidden_layers=2, no_rope_layers=[1, 0])),
})


# hunyuan: with use_cla only layers with index % cla_share_factor == 0 have k_proj and v_proj; the next ones take that layer's k
# and v as projected, and rotate and norm them with their own key_layernorm. Norms of q and k come after rope, whose theta is
# multiplied by alpha^(d / (d - 2)) at any length ("dynamic"). fused (Hunyuan 7B): qkv_proj holds for each kv head its
# queries, its key, its value; gate_and_up_proj is up, then gate.
def hunyuan_fused(weights):
    import mlx.core as mx
    out = {}
    for k, v in weights.items():
        if "q_proj" in k:
            q, key, value = (weights[k.replace("q_proj", n)].reshape(1, -1, 16, v.shape[1]) for n in ("q_proj", "k_proj", "v_proj"))
            out[k.replace("q_proj", "qkv_proj")] = mx.concatenate([q, key, value], axis=1).reshape(-1, v.shape[1])
        elif "mlp.up_proj" in k:
            out[k.replace("up_proj", "gate_and_up_proj")] = mx.concatenate([v, weights[k.replace("up_proj", "gate_proj")]])
        elif not any(n in k for n in ("k_proj", "v_proj", "mlp.gate_proj")):
            out[k] = v
    return out


def hunyuan_experts(weights):
    out = {}
    for k, v in weights.items():
        if "switch_mlp." in k:
            out.update({k.replace("switch_mlp.", f"experts.{e}."): v[e] for e in range(v.shape[0])})
        else:
            out[k] = v
    return out


CASES["hunyuan"] = dict(make=make, publish=lambda w: w, quantized=[], mlx_args=dict(seed=22), config=dict(
    ODD, architectures=["HunYuanForCausalLM"], model_type="hunyuan", attention_bias=False, attention_dropout=0.1, cla_share_factor=3,
    hidden_act="silu", mlp_bias=False, moe_topk=1, num_experts=1, num_hidden_layers=4, num_shared_expert=1, intermediate_size=40,
    rms_norm_eps=1e-5, rope_scaling={"alpha": 1000.0, "factor": 1.0, "type": "dynamic"}, rope_theta=10000.0, tie_word_embeddings=True,
    use_cla=True, use_mixed_mlp_moe=False, use_qk_norm=True), variants={
    "fused": dict(publish=hunyuan_fused, mlx_args=dict(seed=23), config=dict(use_cla=False, num_hidden_layers=2)),
    # one expert a token is weighed by its softmax over all; several (moe_topk) are divided by their sum, which mlx-lm
    # leaves out; keys may hold a value for each layer
    "moe": dict(only="quantized", publish=hunyuan_experts, mlx_args=dict(seed=25), quantized=[dict(Q4, seed=25)], config=dict(
        EVEN, intermediate_size=32, cla_share_factor=2, num_hidden_layers=2, num_experts=3, use_mixed_mlp_moe=True)),
    "v1-moe": dict(hf="HunYuanMoEV1ForCausalLM", agree=False, hf_args=dict(seed=26), config=dict(
        architectures=["HunYuanMoEV1ForCausalLM"], model_type="hunyuan_v1_moe", use_cla=False, cla_share_factor=None, moe_topk=[2, 2],
        num_experts=4, num_shared_expert=[1, 1], moe_intermediate_size=[24, 24], intermediate_size=24, head_dim=20, attention_head_dim=20,
        attention_dropout=0.0, num_hidden_layers=2, moe_drop_tokens=False, moe_layer_num_skipped=0, norm_type="rms",
        use_mixed_mlp_moe=True)),
})

# granite: factors on embeddings, on scores (in place of head_dim^-0.5), on what each block adds to the residual stream; logits
# are DIVIDED by logits_scaling. mlx-lm quantizes o_proj, down_proj and lm_head to 8 bits by 64, whatever else is asked for.
CASES["granite"] = dict(make=make, hf="GraniteForCausalLM", quantized=[], hf_args=dict(gains={r"embed_tokens": 0.08}, seed=27), config=dict(
    ODD, architectures=["GraniteForCausalLM"], model_type="granite", attention_bias=False, attention_dropout=0.1,
    attention_multiplier=0.1, embedding_multiplier=10.0, hidden_act="silu", logits_scaling=6.0, mlp_bias=False, residual_multiplier=0.3,
    rms_norm_eps=1e-5, rope_scaling=None, rope_theta=10000.0, tie_word_embeddings=True))

# gemma: norms multiply by 1 + weight; embeddings are multiplied by sqrt(hidden); tied. hidden_act "gelu" means the tanh one
# (hidden_activation null does, too). mlx-lm takes the exact one.
CASES["gemma"] = dict(make=make, hf="GemmaForCausalLM", agree=False, tolerance=2e-4, hf_args=dict(gains=SMALL, seed=28), config=dict(
    ODD, architectures=["GemmaForCausalLM"], model_type="gemma", attention_bias=False, attention_dropout=0.0, head_dim=20,
    hidden_act="gelu", rms_norm_eps=1e-6, rope_scaling=None, rope_theta=10000.0))

# olmo3: olmo2 with windows; rope_scaling is for the layers without one, the others turn unscaled by the same theta.
CASES["olmo3"] = dict(make=make, hf="Olmo3ForCausalLM", quantized=[], hf_args=dict(seed=29), config=dict(
    ODD, architectures=["Olmo3ForCausalLM"], model_type="olmo3", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
    layer_types=[S, F, S], num_hidden_layers=3, intermediate_size=40, rms_norm_eps=1e-6, rope_theta=500000, sliding_window=11,
    rope_scaling={"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
                  "original_max_position_embeddings": 32, "rope_type": "yarn"}, tie_word_embeddings=False))
