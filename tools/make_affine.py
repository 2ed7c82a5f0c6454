"""Makes tests/fixtures/weights/affine-*.safetensors: matrices quantized by MLX, with what they mean.
python tools/make_affine.py (mlx[cpu], numpy). In each: p.weight, p.scales, p.biases as mlx writes
them, dequantized [out, in] F32 by mlx, x [in] and y = dequantized x summed in F64 [out]."""
import json
from pathlib import Path

import mlx.core as mx
import numpy as np

ROOT = Path(__file__).resolve().parent.parent / "tests/fixtures/weights"
CASES = [  # bits, group, out, in, dtype of scales
    (4, 32, 24, 256, mx.bfloat16), (4, 64, 24, 256, mx.float32), (4, 128, 24, 256, mx.float16),
    (8, 32, 24, 256, mx.float32), (8, 64, 24, 256, mx.bfloat16), (8, 128, 24, 256, mx.float16),
    (4, 32, 13, 96, mx.bfloat16), (4, 64, 1, 64, mx.float16), (8, 128, 9, 384, mx.bfloat16),
    (3, 32, 7, 32, mx.float32), (6, 64, 17, 192, mx.bfloat16),
]

rows = []
for i, (bits, group, out, cols, dtype) in enumerate(CASES):
    rng = np.random.default_rng(i)
    w = rng.standard_normal((out, cols)) * 0.1 + rng.standard_normal((out, 1)) * 0.05
    codes, scales, biases = mx.quantize(mx.array(w.astype(np.float32)).astype(dtype), group, bits)
    wide = [a.astype(mx.float32) for a in (scales, biases)]
    dense = mx.dequantize(codes, *wide, group, bits)
    x = rng.standard_normal(cols).astype(np.float32)
    y = (np.array(dense).astype(np.float64) @ x.astype(np.float64)).astype(np.float32)
    name = f"affine-b{bits}-g{group}-{out}x{cols}.safetensors"
    mx.save_safetensors(str(ROOT / name), {
        "p.weight": codes, "p.scales": scales, "p.biases": biases, "dequantized": dense,
        "x": mx.array(x), "y": mx.array(y)})
    rows.append({"file": name, "bits": bits, "group": group, "out": out, "in": cols})
(ROOT / "affine.json").write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
