"""Llama, Mistral, Qwen2, Qwen3, IQuest-Coder. The comment above a family says what is easily got wrong."""

import copy

CASES = {}


class Given(dict):
    """A config that hands out copies of its values: transformers adds keys to nested dicts in place."""
    def __iter__(self):
        return iter(list(super().keys()))

    def keys(self):
        return list(super().keys())

    def __getitem__(self, k):
        return copy.deepcopy(super().__getitem__(k))


def standard(dir, case):
    """make.py's build with the config kept as given. Fresh biases are seeded."""
    import make, mlx.core as mx, torch
    mx.random.seed(0)
    torch.manual_seed(0)
    case = {k: v for k, v in case.items() if k != "make"}
    case["config"] = Given(case["config"])
    make.build(dir.parent, dir.name, case)


def as_llama(config_cls):
    """A family that transformers would run with its Llama class and a config class of its own."""
    def build(dir, case):
        import transformers
        config = getattr(transformers, config_cls, transformers.LlamaConfig)
        name = config_cls.replace("Config", "AsLlama")
        setattr(transformers, name, type(name, (transformers.LlamaForCausalLM,), {"config_class": config}))
        try:
            standard(dir, {**case, "hf": name})
        finally:
            delattr(transformers, name)
    return build


# Tied embeddings kept small in the residual stream: else every position just predicts its own token.
TIED = {r"embed_tokens": 2.5}

COMMON = dict(attention_dropout=0.0, bos_token_id=1, eos_token_id=2, hidden_act="silu", hidden_size=64,
              initializer_range=0.02, intermediate_size=96, max_position_embeddings=256, num_attention_heads=4,
              num_hidden_layers=2, num_key_value_heads=2, torch_dtype="bfloat16", use_cache=True, vocab_size=128)

# Sizes with nothing in common: heads that do not fill a vector, three queries a key head, groups of 32 that do not fill
# 64, a vocabulary that is no multiple of anything.
ODD = dict(hidden_size=96, intermediate_size=160, num_attention_heads=6, num_key_value_heads=2, vocab_size=131)

LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=96,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=128,
             max_position_embeddings=128, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
             attention_bias=False, mlp_bias=False, hidden_act="silu", torch_dtype="bfloat16",
             bos_token_id=1, eos_token_id=2)

# llama: llama3 rope rescales the low frequencies at every length; attention_bias puts one on o_proj too.
# Codes of 3 and 6 bits cross the words that hold them.
CASES["llama"] = dict(hf="LlamaForCausalLM", config=LLAMA, quantized=[dict(bits=b, group_size=32) for b in (4, 3, 6)], variants={
    "rope-llama3": dict(config=dict(rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                  "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
                                    tie_word_embeddings=True), quantized=[dict(bits=4, group_size=32)]),
    "rope-linear": dict(config=dict(rope_scaling={"type": "linear", "factor": 4.0}, head_dim=32, attention_bias=True), quantized=[]),
    # F32 storage, in shards; both biases; a mix of 8 and 4 bits, which mlx-lm writes into config.json layer by layer
    "odd": dict(config=dict(ODD, head_dim=24, intermediate_size=64, attention_bias=True, mlp_bias=True, torch_dtype="float32"),
                hf_args=dict(dtype="float32", shard="200KB", n=70),
                quantized=[dict(name="q8-q4", bits=4, group_size=32, predicate=lambda path, module: (
                    {"bits": 8, "group_size": 32} if "embed" in path or "head" in path else hasattr(module, "to_quantized") and
                    module.weight.shape[-1] % 32 == 0))]),
})

# mistral: Llama; head_dim may differ from hidden/heads (Nemo); sliding_window (when not null) on EVERY layer.
# mlx-lm maps it to llama and has no window.
CASES["mistral"] = dict(make=standard, hf="MistralForCausalLM", hf_args=dict(gains=TIED, seed=8), quantized=[dict(bits=4, group_size=32, seed=8)],
    config=dict(COMMON, architectures=["MistralForCausalLM"], model_type="mistral", head_dim=32, rms_norm_eps=1e-5,
                rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False), variants={
    "window": dict(config={"sliding_window": 16, "rope_theta": 10000.0}, agree=False, hf_args=dict(seed=2)),
})

# qwen2: bias on q, k, v only, none on o. sliding_window is present but IGNORED unless use_sliding_window; then layers
# i >= max_window_layers slide, the ones below are full. A window of W lets a query see W keys, itself included. YaRN:
# cos and sin are multiplied by 0.1 ln(factor) + 1, its ramp bounds are floored/ceiled; it applies at every length.
CASES["qwen2"] = dict(make=standard, hf="Qwen2ForCausalLM", hf_args=dict(gains=TIED, seed=7), quantized=[dict(bits=4, group_size=32, seed=7)],
    config=dict(COMMON, architectures=["Qwen2ForCausalLM"], model_type="qwen2", max_window_layers=1, rms_norm_eps=1e-6,
                rope_theta=1000000.0, sliding_window=16, tie_word_embeddings=True, use_sliding_window=False), variants={
    "yarn": dict(config=dict(rope_theta=10000.0, tie_word_embeddings=False,
                             rope_scaling={"factor": 4.0, "original_max_position_embeddings": 32, "type": "yarn"}),
                 hf_args=dict(seed=3), quantized=[]),
    "window": dict(config=dict(use_sliding_window=True, num_hidden_layers=3, tie_word_embeddings=False), agree=False, hf_args=dict(seed=1)),
    # F16 storage and scales, 8 bits
    "odd": dict(config=dict(ODD, num_attention_heads=3, num_key_value_heads=1, intermediate_size=96, torch_dtype="float16"),
                hf_args=dict(seed=5, dtype="float16"), quantized=[dict(bits=8, group_size=32, seed=5)]),
})

# qwen3: no bias, RMSNorm over head_dim on q and k of each head BEFORE rope, head_dim is its own key (not hidden/heads).
CASES["qwen3"] = dict(make=standard, hf="Qwen3ForCausalLM", hf_args=dict(gains=TIED, seed=4), quantized=[dict(bits=4, group_size=32, seed=4)],
    config=dict(COMMON, architectures=["Qwen3ForCausalLM"], model_type="qwen3", attention_bias=False, head_dim=32,
                max_window_layers=2, rms_norm_eps=1e-6, rope_theta=1000000, sliding_window=None, tie_word_embeddings=True,
                use_sliding_window=False), variants={
    "yarn": dict(config=dict(tie_word_embeddings=False, rope_theta=10000,
                             rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
                 hf_args=dict(seed=1), quantized=[]),
    # The newer config style (rope_parameters, dtype, layer_types), windows layer by layer, groups of 64
    "odd": dict(config=dict(ODD, intermediate_size=96, num_key_value_heads=3, head_dim=20, num_hidden_layers=3, use_sliding_window=True,
                            sliding_window=11, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                            rope_parameters={"rope_theta": 5000.0, "rope_type": "default"}, rope_theta=None, dtype="bfloat16", torch_dtype=None),
                agree=False, hf_args=dict(seed=6, n=80)),
    # (only its quantized case is kept in the project: the other is large)
    "g64": dict(config=dict(hidden_size=128, intermediate_size=192, head_dim=64), hf_args=dict(seed=9),
                quantized=[dict(name="q4-g64", bits=4, group_size=64, seed=9)]),
})

# iquestcoder: Llama with head_dim given (its clip_qkv and sliding-window keys are null or false in all published).
CASES["iquestcoder"] = dict(make=as_llama("IQuestCoderConfig"), hf_args=dict(config_cls="IQuestCoderConfig", gains=TIED, seed=5),
    quantized=[dict(bits=4, group_size=32, seed=5)], config=dict(
        COMMON, architectures=["IQuestCoderForCausalLM"], model_type="iquestcoder", attention_bias=False, clip_qkv=None,
        eos_token_id=[2, 3, 4], head_dim=32, mlp_bias=False, rms_norm_eps=1e-5, rope_scaling=None, rope_theta=500000.0,
        tie_word_embeddings=False, use_sliding_window=False))
