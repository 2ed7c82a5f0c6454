"""Makes tests/fixtures/layouts: a matrix in each published layout (for MLX's affine ones: make_affine.py), with what it
stands for. python tools/make_layouts.py needs mlx (CPU) and numpy; torch, transformers, mlx-lm and compressed-tensors are
second opinions where installed. In each file, under layer. (gpt-oss: mlp.experts.) the tensors as published;
ref.dequantized F32, ref.x, ref.y = x @ dequantized^T summed in F64; of expert stacks ref.experts [n, k] and
ref.y[i, j] = dequantized[experts[i, j]] @ x[i]. layouts.json says which config.json it stands under."""
import importlib.util, json, struct, sys
from pathlib import Path
import numpy as np

here = Path(__file__).resolve().parent
KIND = {np.dtype(k): v for k, v in [("float64", "F64"), ("float32", "F32"), ("float16", "F16"), ("int64", "I64"), ("int32", "I32"), ("int16", "I16"), ("int8", "I8"), ("uint64", "U64"), ("uint32", "U32"), ("uint16", "U16"), ("uint8", "U8"), ("bool", "BOOL")]}
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


class Raw:
    """An array of bytes or words that is stored under another dtype name (BF16, F8_E4M3 ...)."""
    def __init__(self, a, kind):
        self.a, self.kind = np.ascontiguousarray(a), kind


def save(path, tensors, metadata=None):
    head, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, t in tensors.items():
        a, k = (t.a, t.kind) if isinstance(t, Raw) else (np.ascontiguousarray(t), None)
        b = a.tobytes()
        head[name] = {"dtype": k or KIND[a.dtype], "shape": list(t.a.shape if isinstance(t, Raw) else np.shape(t)), "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    h = json.dumps(head, separators=(",", ":")).encode()
    h += b" " * (-len(h) % 8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(struct.pack("<Q", len(h)) + h + data)


def bf16(a):
    """f32 -> (BF16 words, the f32 they stand for), round to nearest even"""
    u = np.asarray(a, np.float32).view(np.uint32)
    w = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return Raw(w, "BF16"), (w.astype(np.uint32) << 16).view(np.float32)


def e4m3(codes):
    c = np.asarray(codes, np.uint8).astype(np.int32)
    s, e, m = c >> 7, (c >> 3) & 15, c & 7
    v = np.where(e == 0, m * 2.0 ** -9, (8 + m) * 2.0 ** (e - 10.0))
    v = np.where((c & 127) == 127, np.nan, v)
    return np.where(s == 1, -v, v).astype(np.float32)


def e5m2(codes):
    return (np.asarray(codes, np.uint8).astype(np.uint16) << 8).view(np.float16).astype(np.float32)


def e8m0(codes):
    c = np.asarray(codes, np.uint8).astype(np.float64)
    return np.where(c == 255, np.nan, 2.0 ** (c - 127)).astype(np.float32)


E4M3 = e4m3(np.arange(256))


def to_e4m3(a):
    """nearest finite code; ties to the even code"""
    a = np.asarray(a, np.float64)
    table = E4M3[:127].astype(np.float64)
    i = np.clip(np.searchsorted(table, np.abs(a)), 1, 126)
    lo, hi = table[i - 1], table[i]
    d = (np.abs(a) - lo) - (hi - np.abs(a))
    i = np.where((d > 0) | ((d == 0) & (i % 2 == 0)), i, i - 1)
    return (i | np.where(np.signbit(a), 128, 0)).astype(np.uint8)


def nibbles(codes):
    """E2M1 or int4 codes [.., n] -> bytes [.., n/2], the first in the low half"""
    c = np.asarray(codes, np.uint8)
    return (c[..., 0::2] | (c[..., 1::2] << 4)).astype(np.uint8)


def halves(b):
    b = np.asarray(b, np.uint8)
    return np.stack([b & 15, b >> 4], -1).reshape(*b.shape[:-1], -1)


def bits_of(words, bits, n):
    """a row's little-endian bit stream -> n unsigned codes"""
    w = np.ascontiguousarray(words)
    stream = np.unpackbits(w.view(np.uint8).reshape(*w.shape[:-1], -1), axis=-1, bitorder="little")[..., :n * bits]
    return (stream.reshape(*w.shape[:-1], n, bits) * (1 << np.arange(bits))).sum(-1).astype(np.uint32)


def pack(codes, bits):
    """unsigned codes [.., n] -> u32 words of a little-endian bit stream"""
    c = np.asarray(codes, np.uint32)
    b = ((c[..., None] >> np.arange(bits, dtype=np.uint32)) & 1).astype(np.uint8).reshape(*c.shape[:-1], -1)
    pad = -b.shape[-1] % 32
    if pad:
        b = np.concatenate([b, np.zeros((*b.shape[:-1], pad), np.uint8)], -1)
    by = np.packbits(b, axis=-1, bitorder="little")
    return by.view(np.uint32) if by.shape[-1] else by.astype(np.uint32)


def product(x, w):
    return (x.astype(np.float64) @ w.astype(np.float64).T).astype(np.float32)


def values(g, shape):
    """weights with outliers, one all-zero group, one constant group and mixed magnitudes between rows"""
    w = g.standard_normal(shape).astype(np.float32) * (2.0 ** g.integers(-6, 2, (*shape[:-1], 1))).astype(np.float32)
    flat = w.reshape(-1, shape[-1])
    flat[0, :32] = 0
    flat[min(1, len(flat) - 1), :32] = 0.37
    flat[-1, 5] = flat[-1].std() * 9
    return w


def reference(w, g, lead=5):
    x = g.standard_normal((lead, w.shape[-1])).astype(np.float32)
    return {"ref.dequantized": w.astype(np.float32), "ref.x": x, "ref.y": product(x, w)}


def numbers(a):
    import mlx.core as mx
    if a.dtype == mx.bfloat16:
        return Raw(np.array(a.view(mx.uint16)), "BF16"), np.array(a.astype(mx.float32))
    return np.array(a), np.array(a.astype(mx.float32))


def mlx_float(path, rows, cols, mode, seed=0, experts=0, global_scale=False):
    import mlx.core as mx
    g = np.random.default_rng([seed, len(mode), cols])
    shape = (experts, rows, cols) if experts else (rows, cols)
    src = values(g, shape)
    bits, group = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}[mode]
    amax = np.float32(np.abs(src).max())
    kw = {"global_scale": mx.array(amax)} if global_scale else {}
    q, s = mx.quantize(mx.array(src), mode=mode, **kw)
    qn, sn = np.array(q), np.array(s)
    v = E4M3[bits_of(qn, 8, cols)] if bits == 8 else E2M1[bits_of(qn, 4, cols)]
    scale = e4m3(sn) if mode == "nvfp4" else e8m0(sn)
    w = (v.reshape(*shape[:-1], -1, group) * scale[..., None]).reshape(shape)
    if global_scale:
        w = w * np.float32(amax / (448.0 * 6.0))
    m = np.array(mx.dequantize(q, s, mode=mode, dtype=mx.float32, **kw))
    assert np.allclose(w, m, rtol=1e-6, atol=1e-7 * np.abs(w).max()), path
    t = {"layer.weight": qn, "layer.scales": sn, **({"layer.global_scale": np.array(amax)} if global_scale else {})}
    info = {"layout": "mlx " + mode, "config": {"quantization": {"group_size": group, "bits": bits, "mode": mode}}, "shape": list(shape), "bits": bits, "group_size": group}
    return finish(path, t, w, g, info, experts)


def finish(path, t, w, g, info, experts=0):
    """adds product, transposed product and lookups; or the expert gather"""
    if experts:
        n, k = 7, 2
        x = g.standard_normal((n, w.shape[-1])).astype(np.float32)
        idx = g.integers(0, experts, (n, k)).astype(np.int32)
        idx[0] = experts - 1
        y = np.stack([[w[e].astype(np.float64) @ x[i].astype(np.float64) for e in idx[i]] for i in range(n)]).astype(np.float32)
        t |= {"ref.dequantized": w.astype(np.float32), "ref.x": x, "ref.experts": idx, "ref.y": y}
        info["experts"] = experts
    else:
        t |= reference(w, g)
    save(path, t)
    return {"file": path.name, **info}


def fp8_block(path, rows, cols, block, seed=0, kind="weight_scale_inv", ue8m0=False, scale_kind=None):
    """DeepSeek-style: scales over blocks of rows and columns, ragged at the edges"""
    g = np.random.default_rng([seed, rows, cols])
    src = values(g, (rows, cols))
    br, bc = block
    nr, nc = -(-rows // br), -(-cols // bc)
    scale = np.zeros((nr, nc), np.float32)
    for i in range(nr):
        for j in range(nc):
            scale[i, j] = max(np.abs(src[i * br:(i + 1) * br, j * bc:(j + 1) * bc]).max() / 448, 1e-8)
    if ue8m0:
        scale = 2.0 ** np.ceil(np.log2(scale)).astype(np.float32)
    stored = scale
    raw = scale
    if scale_kind == "BF16":
        raw, stored = bf16(scale)
    elif scale_kind == "F8_E8M0":
        raw = Raw((np.log2(scale) + 127).astype(np.uint8), "F8_E8M0")
    big = np.repeat(np.repeat(stored, br, 0), bc, 1)[:rows, :cols]
    codes = to_e4m3(src / big)
    w = E4M3[codes] * big
    t = {"layer.weight": Raw(codes, "F8_E4M3"), "layer." + kind: raw, **reference(w, g)}
    save(path, t)
    cfg = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(block), **({"scale_fmt": "ue8m0"} if ue8m0 else {})}
    return {"file": path.name, "layout": "fp8 blocks", "config": {"quantization_config": cfg}, "shape": [rows, cols]}


def fp8_plain(path, rows, cols, per, seed=0):
    """per tensor or per output channel (compressed-tensors float-quantized, ModelOpt FP8, FBGEMM)"""
    g = np.random.default_rng([seed, rows, cols, len(per)])
    src = values(g, (rows, cols))
    amax = np.abs(src).max() if per == "tensor" else np.abs(src).max(1, keepdims=True)
    scale = np.asarray(np.maximum(amax, 1e-8) / 448, np.float32)
    codes = to_e4m3(src / scale)
    w = E4M3[codes] * scale
    act = np.float32(0.0123)
    t = {"layer.weight": Raw(codes, "F8_E4M3"), "layer.weight_scale": scale.reshape(() if per == "tensor" else (rows, 1)).astype(np.float32), "layer.input_scale": np.asarray(act).reshape(())}
    weights = {"num_bits": 8, "type": "float", "strategy": per, "symmetric": True, "dynamic": False}
    cfg = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}}}, "ignore": ["lm_head"]}
    if per == "channel":
        del t["layer.input_scale"]
    save(path, {**t, **reference(w, g)})
    return {"file": path.name, "layout": "fp8 per " + per, "config": {"quantization_config": cfg}, "shape": [rows, cols]}


def fp4_codes(src, scale, group):
    r = src.reshape(*src.shape[:-1], -1, group) / np.maximum(scale[..., None], 1e-30)
    i = np.abs(np.abs(r)[..., None] - E2M1[:8]).argmin(-1)
    return (i | np.where(r < 0, 8, 0)).reshape(src.shape).astype(np.uint8)


def nvfp4(path, rows, cols, style, seed=0):
    """compressed-tensors (weight_packed, weight_scale, weight_global_scale: divide) and ModelOpt (weight, weight_scale, weight_scale_2: multiply)"""
    g = np.random.default_rng([seed, rows, cols, len(style)])
    src = values(g, (rows, cols))
    amax = np.float32(np.abs(src).max())
    glob = np.float32(448 * 6 / amax)
    local = np.abs(src).reshape(rows, -1, 16).max(-1) / 6 * glob
    sc = to_e4m3(local)
    scale = (e4m3(sc) / glob).astype(np.float32)
    codes = fp4_codes(src, scale, 16)
    if style == "modelopt":
        two = np.float32(1) / glob
        w = (E2M1[codes].reshape(rows, -1, 16) * (e4m3(sc) * two)[..., None]).reshape(rows, cols).astype(np.float32)
        t = {"layer.weight": nibbles(codes), "layer.weight_scale": Raw(sc, "F8_E4M3"), "layer.weight_scale_2": np.asarray(two).reshape(()), "layer.input_scale": np.asarray(np.float32(0.02)).reshape(())}
        cfg = {"hf_quant_config.json": {"producer": {"name": "modelopt", "version": "0.33.0"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head", "model.layers.0.mlp.gate"]}}}
    else:
        w = (E2M1[codes].reshape(rows, -1, 16) * scale[..., None]).reshape(rows, cols).astype(np.float32)
        t = {"layer.weight_packed": nibbles(codes), "layer.weight_scale": Raw(sc, "F8_E4M3"), "layer.weight_global_scale": np.asarray([glob], np.float32), "layer.input_global_scale": np.asarray([370.5], np.float32)}
        cfg = {"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": False}, "input_activations": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "dynamic": "local"}}}, "ignore": ["lm_head"]}}
    second_nvfp4(codes, t.get("layer.weight_packed", t.get("layer.weight")))
    save(path, {**t, **reference(w, g)})
    return {"file": path.name, "layout": "nvfp4 " + style, "config": cfg, "shape": [rows, cols]}


def second_nvfp4(codes, packed):
    if importlib.util.find_spec("compressed_tensors"):
        import torch
        from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
        assert np.array_equal(pack_fp4_to_uint8(torch.tensor(E2M1[codes])).numpy(), packed)


def mxfp4_compressed(path, rows, cols, seed=0):
    g = np.random.default_rng([seed, rows, cols, 40])
    src = values(g, (rows, cols))
    e = np.clip(np.floor(np.log2(np.maximum(np.abs(src).reshape(rows, -1, 32).max(-1), 1e-30))) - 2 + 127, 0, 254).astype(np.uint8)
    codes = fp4_codes(src, e8m0(e), 32)
    w = (E2M1[codes].reshape(rows, -1, 32) * e8m0(e)[..., None]).reshape(rows, cols).astype(np.float32)
    second_nvfp4(codes, nibbles(codes))
    save(path, {"layer.weight_packed": nibbles(codes), "layer.weight_scale": e, **reference(w, g)})
    return {"file": path.name, "layout": "mxfp4 compressed-tensors", "config": {"quantization_config": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "symmetric": True, "scale_dtype": "torch.uint8"}}}, "ignore": ["lm_head"]}}, "shape": [rows, cols]}


def compressed_int(path, rows, cols, bits, group, symmetric, seed=0, actorder=False):
    """compressed-tensors pack-quantized: codes stored with an offset of half the range; zero points packed along the rows"""
    g = np.random.default_rng([seed, rows, cols, bits])
    src = values(g, (rows, cols))
    half = 1 << (bits - 1)
    order = np.arange(cols) // group
    if actorder:
        g.shuffle(order)
    n = cols // group
    scale, zero, q = np.zeros((rows, n), np.float32), np.zeros((rows, n), np.int32), np.zeros((rows, cols), np.int32)
    for j in range(n):
        c = src[:, order == j]
        lo, hi = np.minimum(c.min(1), 0), np.maximum(c.max(1), 0)
        scale[:, j] = np.maximum((hi - lo) / (2 ** bits - 1) if not symmetric else 2 * np.abs(c).max(1) / (2 ** bits - 1), 1e-6)
        if not symmetric:
            zero[:, j] = np.clip(np.round(-half - lo / scale[:, j]), -half, half - 1)
    raw, scale = bf16(scale)
    q = np.clip(np.round(src / scale[:, order]) + zero[:, order], -half, half - 1).astype(np.int32)
    w = ((q - zero[:, order]) * scale[:, order]).astype(np.float32)
    packed = pack(q + half, bits).view(np.int32)
    t = {"layer.weight_packed": packed, "layer.weight_scale": raw, "layer.weight_shape": np.array([rows, cols], np.int64)}
    if not symmetric:
        t["layer.weight_zero_point"] = np.ascontiguousarray(pack(zero.T + half, bits).view(np.int32).T)
    if actorder:
        t["layer.weight_g_idx"] = order.astype(np.int32)
    if importlib.util.find_spec("compressed_tensors"):
        import torch
        from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
        assert np.array_equal(pack_to_int32(torch.tensor(q.astype(np.int8)), bits).numpy(), packed), path
        if not symmetric:
            assert np.array_equal(pack_to_int32(torch.tensor(zero.astype(np.int8)), bits, packed_dim=0).numpy(), t["layer.weight_zero_point"]), path
    save(path, {**t, **reference(w, g)})
    return {"file": path.name, "layout": "int compressed-tensors", "config": {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": bits, "type": "int", "strategy": "group", "group_size": group, "symmetric": symmetric, **({"actorder": "group"} if actorder else {})}}}, "ignore": ["lm_head"]}}, "shape": [rows, cols]}


def gpt_oss(path, experts, rows, cols, seed=0):
    """blocks U8 [E, out, in/32, 16], scales U8 [E, out, in/32]; gate and up rows interleaved in gate_up_proj"""
    g = np.random.default_rng([seed, experts, rows])
    codes = g.integers(0, 16, (experts, rows, cols // 32, 32)).astype(np.uint8)
    scales = g.integers(118, 130, (experts, rows, cols // 32)).astype(np.uint8)
    w = (E2M1[codes] * e8m0(scales)[..., None]).reshape(experts, rows, cols)
    blocks = nibbles(codes)
    if importlib.util.find_spec("torch"):
        import torch
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors
        h = convert_moe_packed_tensors(torch.tensor(blocks), torch.tensor(scales), dtype=torch.float32).numpy()
        assert np.array_equal(h, w.transpose(0, 2, 1)), path
    bias, _ = bf16(g.standard_normal((experts, rows)).astype(np.float32))
    t = {"mlp.experts.gate_up_proj_blocks": blocks, "mlp.experts.gate_up_proj_scales": scales, "mlp.experts.gate_up_proj_bias": bias}
    return finish(path, t, w.astype(np.float32), g, {"layout": "gpt-oss mxfp4", "config": {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}, "shape": list(w.shape)}, experts)


def bitnet(path, rows, cols, seed=0, invert=True):
    """U8 [out/4, in]: bit pair i of byte [r, c] is row i*out/4 + r; value = pair - 1"""
    g = np.random.default_rng([seed, rows, cols, 2])
    tern = g.integers(-1, 2, (rows, cols)).astype(np.int32)
    p = (tern + 1).reshape(4, rows // 4, cols).astype(np.uint8)
    packed = (p[0] | p[1] << 2 | p[2] << 4 | p[3] << 6).astype(np.uint8)
    raw, s = bf16(np.array([1.71875], np.float32))
    w = (tern / s[0] if invert else tern * s[0]).astype(np.float32)
    if importlib.util.find_spec("torch"):
        import torch
        from transformers.integrations.bitnet import unpack_weights
        assert np.array_equal(unpack_weights(torch.tensor(packed), torch.float32).numpy(), tern), path
    cfg = {"quant_method": "bitnet", "modules_to_not_convert": None, **({} if invert else {"linear_class": "autobitlinear", "quantization_mode": "offline"})}
    save(path, {"layer.weight": packed, "layer.weight_scale": raw, **reference(w, g)})
    return {"file": path.name, "layout": "bitnet", "config": {"quantization_config": cfg}, "shape": [rows, cols]}


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]      # nibble k of a word is output column 8j + AWQ_ORDER[k]


def awq(path, rows, cols, group, seed=0):
    """qweight I32 [in, out/8], qzeros I32 [in/group, out/8], scales F16 [in/group, out]: w = (q - z) * s"""
    g = np.random.default_rng([seed, rows, cols, 4])
    q = g.integers(0, 16, (cols, rows)).astype(np.uint32)
    z = g.integers(0, 16, (cols // group, rows)).astype(np.uint32)
    s = (0.01 + 0.05 * g.random((cols // group, rows))).astype(np.float16)
    def word(a):
        a = a.reshape(a.shape[0], -1, 8)[:, :, AWQ_ORDER]
        return (a << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)
    big = np.arange(cols) // group
    w = ((q.astype(np.float32) - z[big].astype(np.float32)) * s[big].astype(np.float32)).T
    if importlib.util.find_spec("mlx_lm"):
        import mlx.core as mx
        from mlx_lm.utils import _unpack_awq_weights
        assert np.array_equal(np.array(_unpack_awq_weights(mx.array(word(q)))), q), path
    save(path, {"layer.qweight": word(q), "layer.qzeros": word(z), "layer.scales": s, **reference(np.ascontiguousarray(w), g)})
    return {"file": path.name, "layout": "awq", "config": {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True, "modules_to_not_convert": None}}, "shape": [rows, cols]}


def gptq(path, rows, cols, bits, group, seed=0, desc_act=False, v2=False, sym=False):
    """qweight I32 [in*bits/32, out] packed down the input, qzeros I32 [groups, out*bits/32] holding zero - 1 (v2: zero), g_idx I32 [in]"""
    g = np.random.default_rng([seed, rows, cols, bits, 9])
    q = g.integers(0, 1 << bits, (cols, rows)).astype(np.uint32)
    n = cols // group
    z = np.full((n, rows), 1 << (bits - 1), np.uint32) if sym else g.integers(1, 1 << bits, (n, rows)).astype(np.uint32)
    s = (0.01 + 0.05 * g.random((n, rows))).astype(np.float16)
    idx = np.arange(cols) // group
    if desc_act:
        g.shuffle(idx)
    w = ((q.astype(np.float32) - z[idx].astype(np.float32)) * s[idx].astype(np.float32)).T
    qw = np.ascontiguousarray(pack(q.T, bits).T).view(np.int32)
    qz = pack(z - (0 if v2 else 1), bits).view(np.int32)
    save(path, {"layer.qweight": qw, "layer.qzeros": qz, "layer.scales": s, "layer.g_idx": idx.astype(np.int32), **reference(np.ascontiguousarray(w), g)})
    return {"file": path.name, "layout": "gptq", "config": {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": desc_act, "sym": sym, "checkpoint_format": "gptq_v2" if v2 else "gptq"}}, "shape": [rows, cols]}


def int8(path, rows, cols, seed=0):
    """compressed-tensors int-quantized: signed codes as they are, a scale a row"""
    g = np.random.default_rng([seed, rows, cols, 8])
    src = values(g, (rows, cols))
    raw, scale = bf16(np.maximum(np.abs(src).max(1, keepdims=True), 1e-6) / 127)
    q = np.clip(np.round(src / scale), -128, 127).astype(np.int8)
    w = q.astype(np.float32) * scale
    save(path, {"layer.weight": q, "layer.weight_scale": raw, **reference(w, g)})
    return {"file": path.name, "layout": "int8 compressed-tensors", "config": {"quantization_config": {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True, "dynamic": False}, "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}}}, "ignore": ["lm_head"]}}, "shape": [rows, cols]}


def write_index(out, rows):
    (out / "layouts.json").write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    size = sum(f.stat().st_size for f in out.glob("*.safetensors"))
    print(f"{len(rows)} cases, {size} bytes")


if __name__ == "__main__":
    out = here.parent / "tests/fixtures/layouts"
    out.mkdir(exist_ok=True)
    r = []
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        r.append(mlx_float(out / f"mlx-{mode}.safetensors", 21, 160, mode))
        r.append(mlx_float(out / f"mlx-{mode}-experts.safetensors", 16, 64, mode, experts=3))
    r.append(mlx_float(out / "mlx-nvfp4-global.safetensors", 13, 128, "nvfp4", global_scale=True))
    r += [fp8_block(out / "fp8-block-ragged.safetensors", 131, 136, (128, 128)), fp8_block(out / "fp8-block-bf16.safetensors", 40, 100, (32, 48), scale_kind="BF16"), fp8_block(out / "fp8-block-ue8m0.safetensors", 40, 96, (32, 32), ue8m0=True, scale_kind="F8_E8M0"), fp8_plain(out / "fp8-per-tensor.safetensors", 24, 96, "tensor"), fp8_plain(out / "fp8-per-channel.safetensors", 24, 96, "channel")]
    r += [nvfp4(out / "nvfp4-compressed-tensors.safetensors", 24, 112, "compressed-tensors"), nvfp4(out / "nvfp4-modelopt.safetensors", 24, 96, "modelopt"), mxfp4_compressed(out / "mxfp4-compressed-tensors.safetensors", 24, 96)]
    r += [compressed_int(out / "int4-compressed-tensors.safetensors", 24, 160, 4, 32, True), compressed_int(out / "int4-compressed-tensors-asymmetric.safetensors", 24, 256, 4, 128, False), compressed_int(out / "int4-compressed-tensors-reordered.safetensors", 24, 192, 4, 64, False, actorder=True), compressed_int(out / "int4-compressed-tensors-channel.safetensors", 16, 96, 4, 96, True), compressed_int(out / "int8-compressed-tensors.safetensors", 24, 128, 8, 64, True), int8(out / "int8-signed-compressed-tensors.safetensors", 24, 96)]
    r += [gpt_oss(out / "gpt-oss-experts.safetensors", 4, 32, 64), bitnet(out / "bitnet.safetensors", 24, 96), bitnet(out / "bitnet-autobitlinear.safetensors", 16, 64, invert=False)]
    r += [awq(out / "awq-g64.safetensors", 72, 128, 64), awq(out / "awq-g32.safetensors", 24, 96, 32), gptq(out / "gptq-b4-g64.safetensors", 72, 128, 4, 64), gptq(out / "gptq-b4-g32-desc-act.safetensors", 24, 128, 4, 32, desc_act=True), gptq(out / "gptq-b8-g64-sym.safetensors", 24, 128, 8, 64, sym=True), gptq(out / "gptq-b3-g32-v2-desc-act.safetensors", 32, 96, 3, 32, v2=True, desc_act=True), gptq(out / "gptq-b2-row.safetensors", 16, 160, 2, 160)]
    write_index(out, r)
