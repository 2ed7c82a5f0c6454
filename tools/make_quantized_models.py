"""Makes tests/fixtures/quantized: tiny models as quantizers other than MLX's affine publish them, with the logits of the
weights that their codes stand for. python tools/make_quantized_models.py [CASE ...] needs torch, transformers, safetensors
and numpy, and mlx-lm for MLX's modes. Each case quantizes a random model (tools/families/kit.py says how they are made) by
the quantizer's published definition, here in numpy; stores it under the names and dtypes, and with the config.json, of a
checkpoint of that kind; and runs transformers on the dequantized weights in f32. See kit.py for the files."""
import copy, json, os, re, shutil, sys, tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
here = Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here / "families")]
import numpy as np
import kit
from make_layouts import AWQ_ORDER, E2M1, E4M3, Raw, bf16, e4m3, e8m0, fp4_codes, nibbles, pack, save, to_e4m3

# --- quantizers: a matrix [out, in] f32 -> ({suffix: tensor}, what it stands for) ------------------------------------------


def fp8_block(rows=128, columns=128, kind="F32"):
    """DeepSeek, Qwen: .weight_scale_inv, which is the factor, of each block"""
    def f(w):
        r, c = -(-w.shape[0] // rows), -(-w.shape[1] // columns)
        scale = np.array([[np.abs(w[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448 for j in range(c)]
                          for i in range(r)], np.float32)
        raw, scale = bf16(scale) if kind == "BF16" else (scale, scale)
        big = np.repeat(np.repeat(scale, rows, 0), columns, 1)[:w.shape[0], :w.shape[1]]
        codes = to_e4m3(w / big)
        return {".weight": Raw(codes, "F8_E4M3"), ".weight_scale_inv": raw}, E4M3[codes] * big
    return f


def fp8_block_of(suffix, dims=2):
    """compressed-tensors: .weight_scale; ModelOpt: [rows, 1, columns, 1]"""
    def f(w):
        t, plain = fp8_block()(w)
        scale = t.pop(".weight_scale_inv")
        return {**t, suffix: scale if dims == 2 else scale[:, None, :, None]}, plain
    return f


def fp8_tensor(w):
    """AutoFP8, ModelOpt: one scale, and one of the activations"""
    scale = np.float32(np.abs(w).max() / 448)
    codes = to_e4m3(w / scale)
    return {".weight": Raw(codes, "F8_E4M3"), ".weight_scale": np.asarray(scale), ".input_scale": np.asarray(np.float32(.031))}, E4M3[codes] * scale


def fp8_rows(kind="F32"):
    """compressed-tensors' channels, FBGEMM: a scale [out, 1]"""
    def f(w):
        scale = np.abs(w).max(1, keepdims=True).astype(np.float32) / 448
        raw, scale = bf16(scale) if kind == "BF16" else (scale, scale)
        codes = to_e4m3(w / scale)
        return {".weight": Raw(codes, "F8_E4M3"), ".weight_scale": raw}, E4M3[codes] * scale
    return f


def groups(w, of):
    return w.reshape(w.shape[0], -1, of)


def packed(bits, group=None, symmetric=True, actorder=False):
    """compressed-tensors pack-quantized: q + 2^(bits-1) along the inputs, zero points along the outputs"""
    def f(w):
        out, columns = w.shape
        half, n = 1 << (bits - 1), columns // (group or columns)
        order = np.arange(columns) // (group or columns)
        if actorder:        # the columns that matter most are quantized first
            order[np.argsort(-(w ** 2).sum(0), kind="stable")] = np.arange(columns) // group
        scale, zero = np.zeros((out, n), np.float32), np.zeros((out, n), np.int64)
        for j in range(n):
            c = w[:, order == j]
            low, high = np.minimum(c.min(1), 0), np.maximum(c.max(1), 0)
            scale[:, j] = 2 * np.abs(c).max(1) / (2 ** bits - 1) if symmetric else (high - low) / (2 ** bits - 1)
            if not symmetric:
                zero[:, j] = np.clip(np.round(-half - low / scale[:, j]), -half, half - 1)
        raw, scale = bf16(scale)
        q = np.clip(np.round(w / scale[:, order]) + zero[:, order], -half, half - 1).astype(np.int64)
        t = {".weight_packed": pack(q + half, bits).view(np.int32), ".weight_scale": raw, ".weight_shape": np.array([out, columns], np.int64)}
        if not symmetric:
            t[".weight_zero_point"] = np.ascontiguousarray(pack(zero.T + half, bits).view(np.int32).T)
        if actorder:
            t[".weight_g_idx"] = order.astype(np.int32)
        return t, ((q - zero[:, order]) * scale[:, order]).astype(np.float32)
    return f


def int8(w):
    """compressed-tensors int-quantized"""
    raw, scale = bf16(np.abs(w).max(1, keepdims=True) / 127)
    q = np.clip(np.round(w / scale), -128, 127).astype(np.int8)
    return {".weight": q, ".weight_scale": raw}, q * scale


def asymmetric(w, bits, order, n):
    """(codes, zeros [n, out], scales [n, out] F16) of w = (code - zero) * scale, groups by order"""
    most = 2 ** bits - 1
    low = np.stack([np.minimum(w[:, order == j].min(1), 0) for j in range(n)])
    high = np.stack([np.maximum(w[:, order == j].max(1), 0) for j in range(n)])
    scale = ((high - low) / most).astype(np.float16)
    zero = np.clip(np.round(-low / scale.astype(np.float32)), 0, most).astype(np.int64)
    code = np.clip(np.round(w.T / scale[order].astype(np.float32)) + zero[order], 0, most).astype(np.int64)
    return code, zero, scale


def value(code, zero, scale, order):
    return np.ascontiguousarray(((code - zero[order]) * scale[order].astype(np.float32)).T.astype(np.float32))


def awq(group):
    """words along the outputs, in an order of their own"""
    def word(a):
        a = a.astype(np.uint32).reshape(a.shape[0], -1, 8)[:, :, AWQ_ORDER]
        return (a << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)

    def f(w):
        order = np.arange(w.shape[1]) // group
        code, zero, scale = asymmetric(w, 4, order, w.shape[1] // group)
        return {".qweight": word(code), ".qzeros": word(zero), ".scales": scale}, value(code, zero, scale, order)
    return f


def gptq(bits, group, desc_act=False, symmetric=False, v2=False, bias=False):
    """words along the inputs; zeros less one in v1; AutoGPTQ adds biases of zeros"""
    def f(w):
        n = w.shape[1] // group
        order = np.arange(w.shape[1]) // group
        if desc_act:
            order[np.argsort(-(w ** 2).sum(0), kind="stable")] = np.arange(w.shape[1]) // group
        code, zero, scale = asymmetric(w, bits, order, n)
        if symmetric:
            half = 1 << (bits - 1)
            scale = np.stack([np.abs(w[:, order == j]).max(1) / (half - .5) for j in range(n)]).astype(np.float16)
            zero = np.full_like(zero, half)
            code = np.clip(np.round(w.T / scale[order].astype(np.float32)) + half, 0, 2 * half - 1).astype(np.int64)
        elif not v2:
            zero = np.maximum(zero, 1)
            code = np.clip(np.round(w.T / scale[order].astype(np.float32)) + zero[order], 0, 2 ** bits - 1).astype(np.int64)
        t = {".qweight": np.ascontiguousarray(pack(code.T, bits).T).view(np.int32), ".qzeros": pack(zero - (not v2), bits).view(np.int32),
             ".scales": scale, ".g_idx": order.astype(np.int32)}
        if bias:
            t[".bias"] = np.zeros(w.shape[0], np.float16)
        return t, value(code, zero, scale, order)
    return f


def nvfp4_parts(w):
    """(codes, E4M3 scales [out, in/16], their factor, what it stands for): scales are of the largest of each 16, in
    units in which the largest of all is 448"""
    two = np.float32(np.abs(w).max() / (448 * 6))
    scales = to_e4m3(np.abs(groups(w, 16)).max(-1) / 6 / two)
    codes = fp4_codes(w, e4m3(scales) * two, 16)
    return codes, scales, two, (groups(E2M1[codes], 16) * (e4m3(scales) * two)[..., None]).reshape(w.shape).astype(np.float32)


def nvfp4_modelopt(w):
    codes, scales, two, plain = nvfp4_parts(w)
    return {".weight": nibbles(codes), ".weight_scale": Raw(scales, "F8_E4M3"), ".weight_scale_2": np.asarray(two),
            ".input_scale": np.asarray(np.float32(.0021))}, plain


def nvfp4_compressed(w):
    codes, scales, two, plain = nvfp4_parts(w)
    t = {".weight_packed": nibbles(codes), ".weight_scale": Raw(scales, "F8_E4M3"), ".weight_global_scale": np.array([1 / two], np.float32),
         ".input_global_scale": np.array([381.5], np.float32)}
    return t, (groups(E2M1[codes], 16) * (e4m3(scales) / t[".weight_global_scale"])[..., None]).reshape(w.shape).astype(np.float32)


def mxfp4_compressed(w):
    e = np.clip(np.floor(np.log2(np.abs(groups(w, 32)).max(-1))) - 2 + 127, 0, 254).astype(np.uint8)
    codes = fp4_codes(w, e8m0(e), 32)
    return {".weight_packed": nibbles(codes), ".weight_scale": e}, (groups(E2M1[codes], 32) * e8m0(e)[..., None]).reshape(w.shape).astype(np.float32)


def bitnet(w):
    """bit pair i of byte [r, c] is row i * out / 4 + r, less 1; divided by the scale"""
    raw, scale = bf16(np.array([1 / np.abs(w).mean()], np.float32))
    q = np.clip(np.round(w * scale[0]), -1, 1).astype(np.int64)
    p = (q + 1).reshape(4, -1, w.shape[1]).astype(np.uint8)
    return {".weight": (p[0] | p[1] << 2 | p[2] << 4 | p[3] << 6).astype(np.uint8), ".weight_scale": raw}, (q / scale[0]).astype(np.float32)


# Llama 4's stacks [experts, in, out], which are no module's: the suffixes follow the whole name.
def turned(w):
    return np.ascontiguousarray(w.transpose(0, 2, 1))


def fp8_stack_rows(down):
    """transformers' FBGEMM: a scale of each output of each expert"""
    def f(w):
        scale = np.abs(w).max(1, keepdims=True).astype(np.float32) / 448
        codes = to_e4m3(w / scale)
        return {"": Raw(codes, "F8_E4M3"), "_scale": turned(scale) if down else scale}, E4M3[codes] * scale
    return f


def fp8_stack(w):
    scale = np.float32(np.abs(w).max() / 448)
    codes = to_e4m3(w / scale)
    return {"": Raw(codes, "F8_E4M3"), "_weight_scale": np.asarray(scale), "_input_scale": np.asarray(np.float32(.017))}, E4M3[codes] * scale


def nvfp4_stack(w):
    flat = turned(w)
    codes, scales, two, plain = nvfp4_parts(flat.reshape(-1, flat.shape[-1]))
    by_expert = lambda a: turned(a.reshape(*flat.shape[:2], -1))
    return {"": by_expert(nibbles(codes)), "_weight_scale": Raw(by_expert(scales), "F8_E4M3"), "_weight_scale_2": np.asarray(two),
            "_input_scale": np.asarray(np.float32(.0017))}, by_expert(plain)


# --- what config.json says ------------------------------------------------------------------------------------------------


def compressed(format, weights, ignore=("lm_head",), **more):
    w = {"actorder": None, "block_structure": None, "dynamic": False, "group_size": None, "num_bits": 4, "observer": "minmax", "observer_kwargs": {},
         "symmetric": True, "type": "int", **weights}
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": {"group_0": {
        "input_activations": more.get("activations"), "output_activations": None, "targets": ["Linear"], "weights": w}}, "global_compression_ratio": 1.5,
        "ignore": list(ignore), "kv_cache_scheme": None, "quantization_status": "compressed"}


TOKENS = {"dynamic": True, "num_bits": 8, "strategy": "token", "symmetric": True, "type": "float"}
CHANNEL8 = {"num_bits": 8, "strategy": "channel", "type": "float"}
FP8 = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}


def modelopt(algorithm, ignore=("lm_head",)):
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": list(ignore), "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
            "producer": {"name": "modelopt", "version": "0.33.0"}}


# --- models ---------------------------------------------------------------------------------------------------------------

TINY = dict(attention_bias=False, bos_token_id=1, eos_token_id=2, hidden_act="silu", hidden_size=64, intermediate_size=96,
            max_position_embeddings=128, num_attention_heads=4, num_hidden_layers=2, num_key_value_heads=2, rms_norm_eps=1e-6,
            rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16", vocab_size=64)
LLAMA = dict(TINY, architectures=["LlamaForCausalLM"], model_type="llama", mlp_bias=False)
QWEN2 = {k: v for k, v in dict(TINY, architectures=["Qwen2ForCausalLM"], model_type="qwen2", use_sliding_window=False, sliding_window=None,
                               max_window_layers=2).items() if k != "attention_bias"}
QWEN3 = dict(TINY, architectures=["Qwen3ForCausalLM"], model_type="qwen3", head_dim=32, use_sliding_window=False, sliding_window=None, max_window_layers=2)
PHI3 = dict(TINY, architectures=["Phi3ForCausalLM"], model_type="phi3", pad_token_id=0, original_max_position_embeddings=128, rope_scaling=None,
            sliding_window=None)
MOE = dict(TINY, num_experts_per_tok=2)
MIXTRAL = dict(MOE, architectures=["MixtralForCausalLM"], model_type="mixtral", intermediate_size=64, num_local_experts=4, sliding_window=None)
QWEN3_MOE = dict(MOE, architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", decoder_sparse_step=1, head_dim=16, mlp_only_layers=[],
                 moe_intermediate_size=32, norm_topk_prob=True, num_experts=5, sliding_window=None, use_sliding_window=False, max_window_layers=2)
GLM4_MOE = dict(MOE, architectures=["Glm4MoeForCausalLM"], model_type="glm4_moe", attention_bias=True, first_k_dense_replace=1, head_dim=16,
                moe_intermediate_size=32, n_group=1, n_routed_experts=4, n_shared_experts=1, norm_topk_prob=True, num_nextn_predict_layers=1,
                partial_rotary_factor=0.5, rope_scaling=None, routed_scaling_factor=1.5, topk_group=1, use_qk_norm=True)
DEEPSEEK = {k: v for k, v in dict(
    MOE, architectures=["DeepseekV3ForCausalLM"], model_type="deepseek_v3", first_k_dense_replace=1, kv_lora_rank=32, moe_intermediate_size=32,
    moe_layer_freq=1, n_group=2, n_routed_experts=6, n_shared_experts=1, norm_topk_prob=True, num_key_value_heads=4, num_nextn_predict_layers=1,
    q_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=8, rope_scaling=None, routed_scaling_factor=2.5, scoring_func="sigmoid", topk_group=1,
    topk_method="noaux_tc", v_head_dim=24).items()}
QWEN3_NEXT = dict(MOE, architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", decoder_sparse_step=1, full_attention_interval=2, head_dim=16,
                  linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_value_head_dim=16,
                  mlp_only_layers=[], moe_intermediate_size=32, norm_topk_prob=True, num_experts=4, partial_rotary_factor=0.25,
                  shared_expert_intermediate_size=32, use_sliding_window=False)
LLAMA4 = dict(TINY, architectures=["Llama4ForCausalLM"], model_type="llama4_text", attention_chunk_size=32, attention_dropout=0.0, attn_scale=0.1,
              attn_temperature_tuning=True, floor_scale=8192, head_dim=16, interleave_moe_layer_step=1, intermediate_size=32, intermediate_size_mlp=64,
              no_rope_layers=[1, 0], num_experts_per_tok=1, num_local_experts=3, rope_scaling=None, use_qk_norm=True)
BIAS = {"correction_bias": lambda noise, init, g: 1 + 0.2 * noise}
KIMI_IGNORE = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
ROUTER = r"(mlp|block_sparse_moe)\.gate\.|feed_forward\.router"


def llama4_lists(names):
    return [f"language_model.model.layers.{i}.{n}" for i in range(2) for n in names]


# method: the quantizer of all matrices, or a function of a name that gives it. skip: matrices that stay as they are, beside
# embeddings, heads, norms, routers.
CASES = {
    # Qwen3-8B-FP8
    "fp8-block": dict(config=dict(QWEN3, hidden_size=136, intermediate_size=144, num_hidden_layers=1, tie_word_embeddings=True), method=fp8_block(),
                      quant=dict(FP8, modules_to_not_convert=None), args=dict(gains={"embed_tokens": 2.5})),
    # Meta-Llama-3-8B-Instruct-FP8, by AutoFP8
    "fp8-tensor": dict(config=LLAMA, method=fp8_tensor, quant={"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"},
                       extra={f"model.layers.{i}.self_attn.kv_scale": np.array([.02], np.float32) for i in range(2)}),
    # nvidia/Llama-3.1-8B-Instruct-FP8 (a Qwen2 here, for its biases)
    "fp8-modelopt": dict(config=QWEN2, method=fp8_tensor, quant=modelopt("FP8"),
                         extra={f"model.layers.{i}.self_attn.{k}_proj.{k}_scale": np.asarray(np.float32(.02)) for i in range(2) for k in "kv"}),
    # Qwen2.5-7B-Instruct-FP8-dynamic, by llm-compressor
    "fp8-channel": dict(config=QWEN2, method=fp8_rows("BF16"), quant=compressed("float-quantized", CHANNEL8, activations=TOKENS)),
    # RedHatAI's *-FP8-block, ModelOpt's FP8_PB_WO
    "fp8-block-compressed": dict(config=dict(LLAMA, intermediate_size=136), method=fp8_block_of(".weight_scale"), quant=compressed(
        "float-quantized", {"block_structure": [128, 128], "num_bits": 8, "strategy": "block", "type": "float"}, activations=dict(TOKENS, strategy="group", group_size=128))),
    "fp8-block-modelopt": dict(config=dict(LLAMA, intermediate_size=136), method=fp8_block_of(".weight_scale", 4), quant=modelopt("FP8_PB_WO")),
    # Meta-Llama-3.1-405B-Instruct-FP8: attention is not quantized
    "fp8-fbgemm": dict(config=LLAMA, method=fp8_rows(), skip="self_attn", quant={
        "activation_scale_ub": 1200.0, "quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"] + [
            f"model.layers.{i}.self_attn.{n}_proj" for i in range(2) for n in "qkvo"]}),
    # *-quantized.w4a16, *-W4A16-asym, by llm-compressor
    "int4-group": dict(config=LLAMA, method=packed(4, 32), quant=compressed("pack-quantized", {"group_size": 32, "strategy": "group"})),
    "int4-zeros": dict(config=QWEN2, method=packed(4, 32, symmetric=False), quant=compressed("pack-quantized", {"group_size": 32, "strategy": "group", "symmetric": False})),
    "int4-actorder": dict(config=LLAMA, method=packed(4, 32, actorder=True), quant=compressed("pack-quantized", {"actorder": "group", "group_size": 32, "strategy": "group"})),
    "int4-channel": dict(config=QWEN3, method=packed(4), quant=compressed("pack-quantized", {"strategy": "channel"})),
    # *-quantized.w8a16, *-quantized.w8a8
    "int8-packed": dict(config=LLAMA, method=packed(8), quant=compressed("pack-quantized", {"num_bits": 8, "strategy": "channel"})),
    "int8": dict(config=QWEN2, method=int8, quant=compressed("int-quantized", {"num_bits": 8, "strategy": "channel"}, activations=dict(TOKENS, type="int"))),
    # Qwen2.5-7B-Instruct-AWQ
    "awq": dict(config=dict(QWEN2, torch_dtype="float16"), method=awq(32), quant={
        "bits": 4, "group_size": 32, "modules_to_not_convert": None, "quant_method": "awq", "version": "gemm", "zero_point": True}),
    # TheBloke's, gptq-4bit-32g-actorder_True
    "gptq": dict(config=dict(LLAMA, torch_dtype="float16"), method=gptq(4, 32, desc_act=True, bias=True), quant={
        "bits": 4, "damp_percent": 0.1, "desc_act": True, "group_size": 32, "model_file_base_name": "model", "quant_method": "gptq", "sym": False, "true_sequential": True}),
    "gptq-v2": dict(config=dict(QWEN3, tie_word_embeddings=True), method=gptq(8, 32, v2=True), args=dict(gains={"embed_tokens": 2.5}), quant={
        "bits": 8, "checkpoint_format": "gptq_v2", "desc_act": False, "group_size": 32, "lm_head": False, "quant_method": "gptq", "sym": False}),
    # matrices that a model packs are packed and reordered as one
    "gptq-rows": dict(config=PHI3, method=gptq(4, 32, desc_act=True, symmetric=True), quant={
        "bits": 4, "checkpoint_format": "gptq", "desc_act": True, "group_size": 32, "quant_method": "gptq", "sym": True}),
    # Intel's *-int4-AutoRound
    "auto-round": dict(config=QWEN3, method=gptq(4, 32, symmetric=True), quant={
        "autoround_version": "0.5.1", "bits": 4, "data_type": "int", "group_size": 32, "packing_format": "auto_round:auto_gptq", "quant_method": "auto-round", "sym": True}),
    # nvidia/Llama-3.1-8B-Instruct-FP4, RedHatAI/Qwen3-8B-NVFP4, *-MXFP4
    "nvfp4-modelopt": dict(config=LLAMA, method=nvfp4_modelopt, quant=modelopt("NVFP4")),
    "nvfp4": dict(config=QWEN3, method=nvfp4_compressed, quant=compressed("nvfp4-pack-quantized", {"group_size": 16, "strategy": "tensor_group", "type": "float"})),
    "mxfp4": dict(config=LLAMA, method=mxfp4_compressed, quant=compressed("mxfp4-pack-quantized", {"group_size": 32, "strategy": "group", "type": "float"})),
    # HF1BitLLM/Llama3-8B-1.58-100B-tokens
    "bitnet": dict(config=LLAMA, method=bitnet, quant={"modules_to_not_convert": None, "quant_method": "bitnet"}),
    # mlx-community's *-mxfp8, *-nvfp4
    "mlx-mxfp8": dict(config=LLAMA, mlx=dict(bits=8, group_size=32, mode="mxfp8")),
    "mlx-nvfp4": dict(config=LLAMA, mlx=dict(bits=4, group_size=16, mode="nvfp4")),

    # DeepSeek-V3, -R1, Kimi-K2: blocks that end within a head of kv_b_proj
    "deepseek-fp8": dict(config=dict(DEEPSEEK, hidden_size=136, kv_lora_rank=24, n_routed_experts=4, vocab_size=48), method=fp8_block(), quant=FP8, args=dict(gains=BIAS, seed=2)),
    # Kimi-K2-Thinking: experts alone
    "kimi-int4": dict(config=DEEPSEEK, method=packed(4, 32), model_type="kimi_k2", skip=r"self_attn|shared_experts|mlp\.(gate|up|down)_proj", args=dict(gains=BIAS, seed=4),
                      quant=compressed("pack-quantized", {"group_size": 32, "strategy": "group"}, KIMI_IGNORE)),
    # Mixtral-8x7B-Instruct-v0.1-AWQ, Qwen3-30B-A3B-GPTQ-Int4, nvidia/Qwen3-30B-A3B-FP4, GLM-4.5-Air-FP8, Qwen3-Next-80B-A3B-Instruct-FP8
    "mixtral-awq": dict(config=MIXTRAL, method=awq(32), quant={
        "bits": 4, "group_size": 32, "modules_to_not_convert": ["gate"], "quant_method": "awq", "version": "gemm", "zero_point": True}),
    "qwen-gptq": dict(config=QWEN3_MOE, method=gptq(4, 32, symmetric=True), quant={
        "bits": 4, "checkpoint_format": "gptq", "desc_act": False, "group_size": 32, "lm_head": False, "quant_method": "gptq", "sym": True}),
    "qwen-nvfp4": dict(config=QWEN3_MOE, method=nvfp4_modelopt, quant=modelopt("NVFP4", ["lm_head"] + [f"model.layers.{i}.mlp.gate" for i in range(2)])),
    "glm-fp8": dict(config=GLM4_MOE, method=fp8_rows(), args=dict(gains=BIAS, seed=2), quant=compressed("float-quantized", CHANNEL8, [
        "lm_head", "model.layers.1.mlp.gate"], activations=TOKENS)),
    "next-fp8": dict(config=QWEN3_NEXT, method=fp8_block(kind="BF16"), skip=r"in_proj_ba|conv1d|shared_expert_gate", quant=dict(FP8, modules_to_not_convert=[
        "lm_head"] + [f"model.layers.{i}.{n}" for i in range(2) for n in ("linear_attn.in_proj_ba", "linear_attn.conv1d", "mlp.gate", "mlp.shared_expert_gate")])),
    # Llama 4 as transformers' FBGEMM saves it, nvidia/Llama-4-Scout-17B-16E-Instruct-FP8 and -FP4, RedHatAI's quantized.w4a16
    "llama4-fbgemm": dict(config=LLAMA4, whole=True, skip="self_attn|shared_expert", method=lambda name: fp8_stack_rows("down_proj" in name), by_name=True, quant={
        "activation_scale_ub": 1200.0, "quant_method": "fbgemm_fp8", "modules_to_not_convert": ["language_model.lm_head", *llama4_lists([
            f"self_attn.{n}_proj" for n in "qkvo"] + [f"feed_forward.shared_expert.{n}_proj" for n in ("gate", "up", "down")] + ["feed_forward.router"])]}),
    "llama4-fp8-modelopt": dict(config=LLAMA4, whole=True, by_name=True, method=lambda name: fp8_stack if "experts." in name else fp8_tensor, quant=modelopt("FP8", [
        "language_model.lm_head", "vision_model*", *llama4_lists(["feed_forward.router"])])),
    "llama4-nvfp4": dict(config=LLAMA4, whole=True, skip="self_attn", by_name=True, method=lambda name: nvfp4_stack if "experts." in name else nvfp4_modelopt, quant=modelopt(
        "NVFP4", ["language_model.lm_head", *llama4_lists([f"self_attn.{n}_proj" for n in "qkvo"] + ["feed_forward.router"])])),
    "llama4-int4": dict(config=LLAMA4, whole=True, apart=True, method=packed(4, 32), skip="self_attn", quant=compressed("pack-quantized", {"group_size": 32, "strategy": "group"}, [
        "re:.*lm_head", "re:.*self_attn", "re:.*router", "re:vision_model.*", "re:multi_modal_projector.*"])),
}

# --- making them ----------------------------------------------------------------------------------------------------------


def random_model(config, dtype, seed, gains):
    """name -> f32 of a model whose every tensor matters, as published"""
    import torch, transformers
    from safetensors.torch import load_file
    kind = getattr(transformers, config["architectures"][0])
    torch.manual_seed(seed)
    conf = kind.config_class.from_dict(copy.deepcopy(config))
    model = kind._from_config(conf, attn_implementation="eager").float().eval()
    state = dict(model.named_parameters())
    state.update({k: b for k, b in model.named_buffers() if k in model.state_dict() and b.is_floating_point()})
    with torch.no_grad():
        for k, p in state.items():
            v = kit.spice(k, tuple(p.shape), p.detach().numpy().copy(), seed, gains)
            p.copy_(torch.from_numpy(np.asarray(v, order="C")).to(dtype).float())
    with tempfile.TemporaryDirectory() as dir:
        model.save_pretrained(dir)
        return {k: v.float().numpy() for k, v in load_file(Path(dir) / "model.safetensors").items()}


def split_experts(weights):
    """llm-compressor's Llama 4: the stacks [experts, in, out] as modules"""
    out = {}
    for k, v in weights.items():
        head, _, leaf = k.partition("experts.")
        if leaf == "gate_up_proj":
            half = v.shape[2] // 2
            for e in range(v.shape[0]):
                out[f"{head}experts.{e}.gate_proj.weight"] = np.ascontiguousarray(v[e, :, :half].T)
                out[f"{head}experts.{e}.up_proj.weight"] = np.ascontiguousarray(v[e, :, half:].T)
        elif leaf == "down_proj":
            for e in range(v.shape[0]):
                out[f"{head}experts.{e}.down_proj.weight"] = np.ascontiguousarray(v[e].T)
        else:
            out[k] = v
    return out


def join_experts(weights):
    out, experts = {}, {}
    for k, v in weights.items():
        m = re.fullmatch(r"(.*experts\.)(\d+)\.(gate|up|down)_proj\.weight", k)
        if m:
            experts.setdefault(m[1], {}).setdefault(m[3], {})[int(m[2])] = v.T
        else:
            out[k] = v
    for head, of in experts.items():
        all = {n: np.stack([e[i] for i in range(len(e))]) for n, e in of.items()}
        out[head + "gate_up_proj"] = np.concatenate([all["gate"], all["up"]], 2)
        out[head + "down_proj"] = all["down"]
    return out


def quantize(weights, case):
    """(as stored, what it stands for): matrices that are neither of an embedding, head, norm or router, nor skipped"""
    stored, plain = {}, {}
    keep = "embed_tokens|lm_head|norm|" + ROUTER + ("|" + case["skip"] if "skip" in case else "")
    f16 = case["config"]["torch_dtype"] == "float16"
    for k, w in weights.items():
        stack = w.ndim == 3 and not k.endswith(".weight")
        if w.ndim < 2 or re.search(keep, k) or not (stack or k.endswith(".weight")):
            stored[k], plain[k] = (w.astype(np.float16),) * 2 if f16 else bf16(w)
            continue
        method = case["method"](k) if case.get("by_name") else case["method"]
        parts, plain[k] = method(w)
        head = k if stack else k[:-len(".weight")]
        stored.update({head + suffix: t for suffix, t in parts.items() if suffix != ".bias" or head + suffix not in weights})
    return stored, plain


def logits_case(dir, case, stored, plain, seed, n, steps, gains):
    import torch, transformers
    from safetensors.numpy import save_file
    config, kind = case["config"], getattr(transformers, case["config"]["architectures"][0])
    with tempfile.TemporaryDirectory() as tmp:
        save_file({k: np.ascontiguousarray(v, np.float32) for k, v in plain.items()}, Path(tmp) / "model.safetensors", metadata={"format": "pt"})
        (Path(tmp) / "config.json").write_text(json.dumps(config))
        model, info = kind.from_pretrained(tmp, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    log = [f"{k}: {sorted(v)[:8]}" for k, v in info.items() if v and k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    model.eval()
    state = dict(model.named_parameters())
    ids = kit.prompt(seed, n, config["vocab_size"])

    @torch.no_grad()
    def run(ids):
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().numpy().copy()

    def put(k, v):
        with torch.no_grad():
            state[k].copy_(torch.from_numpy(np.asarray(v, order="C")))

    logits = run(ids)
    cond = kit.check(lambda: run(ids), list(state), put, lambda k: state[k].detach().numpy().copy(), seed, (), log)
    kit.report(dir, log, True)
    published = dict(config, model_type=case.get("model_type", config["model_type"]), quantization_config=case["quant"])
    if case.get("whole"):
        text = {k: v for k, v in config.items() if k != "architectures"}
        published = {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "quantization_config": case["quant"], "text_config": text,
                     "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 32, "model_type": "llama4_vision_model"}}
        stored = {"language_model." + k: v for k, v in stored.items()}
        stored.update({"vision_model.class_embedding": np.zeros(4, np.float32), "multi_modal_projector.linear_1.weight": np.zeros((4, 4), np.float32)})
    dir.mkdir(parents=True)
    save(dir / "model.safetensors", {**stored, **case.get("extra", {})}, {"format": "pt"})
    kit.write(dir, published, ids, logits, kit.greedy(run, ids, steps, logits.std()), {
        "source": f"transformers {transformers.__version__} {config['architectures'][0]} on the dequantized weights", "conditioning": cond, "seed": seed, "warnings": log})


def make(name, case, out):
    import torch, transformers
    transformers.logging.set_verbosity_error()
    args = {"seed": 1, "n": 40, "steps": 8, "gains": {}, **case.get("args", {})}
    dir = out / name
    shutil.rmtree(dir, ignore_errors=True)
    if "mlx" in case:
        with tempfile.TemporaryDirectory() as tmp:
            kit.hf_case(Path(tmp) / "base", case["config"], case["config"]["architectures"][0], **args)
            kit.mlx_quantized(dir, Path(tmp) / "base", seed=args["seed"], n=args["n"], steps=args["steps"], **case["mlx"])
        return
    weights = random_model(case["config"], getattr(torch, case["config"]["torch_dtype"]), args["seed"], args["gains"])
    if case.get("apart"):
        weights = split_experts(weights)
    stored, plain = quantize(weights, case)
    if case.get("apart"):
        plain = join_experts(plain)
    logits_case(dir, case, stored, plain, **args)


if __name__ == "__main__":
    out = here.parent / "tests/fixtures/quantized"
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name], out)
