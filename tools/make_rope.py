"""Makes tests/fixtures/rope.json: frequencies as the functions of transformers compute them.
python tools/make_rope.py modeling_rope_utils.py (numpy; that file of the transformers package).
The functions run as they are, over a stand-in for the few torch calls that they make: numpy rounds
F32 arithmetic just as torch does, and a Python number beside an F32 array is F32 in both."""
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np


class Tensor(np.ndarray):
    def to(self, *_, dtype=None, **__):
        return self.astype(dtype).view(Tensor) if dtype else self

    def float(self):
        return self.astype(np.float32).view(Tensor)


def arange(*args, dtype=np.int64, device=None):
    return np.arange(*args).astype(dtype).view(Tensor)


torch = types.ModuleType("torch")
torch.arange, torch.where, torch.int64, torch.float, torch.float32 = arange, np.where, np.int64, np.float32, np.float32
torch.clamp = lambda a, low, high: np.clip(a, np.float32(low), np.float32(high))
torch.Tensor = Tensor
torch.tensor = lambda a, dtype, device: np.array(a, dtype).view(Tensor)
sys.modules["torch"] = torch
package = types.ModuleType("package")
package.__path__ = []
utils = types.ModuleType("package.utils")
utils.is_torch_available = lambda: True
utils.logging = types.SimpleNamespace(get_logger=lambda _: None)
sys.modules.update({"package": package, "package.utils": utils})
spec = importlib.util.spec_from_file_location("package.rope", sys.argv[1])
rope = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rope)

CASES = [
    {"rope_theta": 10000.0},
    {"rope_theta": 500000.0, "head_dim": 80},
    {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_theta": 500000.0, "head_dim": 128, "max_position_embeddings": 131072, "rope_scaling": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
    {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "llama3", "factor": 32, "low_freq_factor": 1,
                         "high_freq_factor": 4, "original_max_position_embeddings": 64}},
    {"rope_theta": 1000000.0, "head_dim": 128, "max_position_embeddings": 131072,
     "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    {"rope_theta": 10000.0, "max_position_embeddings": 256, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "truncate": False}},
    {"rope_theta": 10000.0, "max_position_embeddings": 163840, "rope_scaling": {
        "type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 4096}},
    {"rope_theta": 150000.0, "max_position_embeddings": 131072, "rope_parameters": {
        "rope_theta": 150000.0, "rope_type": "yarn", "factor": None, "beta_fast": 8.0, "beta_slow": 2.0,
        "original_max_position_embeddings": 4096}},
    {"rope_theta": 10000.0, "max_position_embeddings": 128, "rope_scaling": {
        "type": "yarn", "factor": 2.0, "attention_factor": 1.25}},
    {"rope_theta": 10000.0, "partial_rotary_factor": 0.25, "head_dim": 96, "rope_scaling": {"type": "linear", "factor": 3}},
    {"rope_theta": 10000.0, "head_dim": 12, "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.02, 1.3, 1.5, 2.0, 2.5], "long_factor": [1.1, 1.3, 4.0, 9.5, 20.0, 64.25]}},
    {"rope_theta": 500000.0, "head_dim": 16, "partial_rotary_factor": 0.75, "max_position_embeddings": 128, "rope_parameters": {
        "rope_type": "longrope", "original_max_position_embeddings": 32, "factor": 7.0, "attention_factor": 1.19,
        "short_factor": [1, 1, 1, 1.5, 2, 2], "long_factor": [1.1, 1.3, 4, 9.5, 20, 64]}},
]

rows = []
for case in CASES:
    config = types.SimpleNamespace(**{"head_dim": 64, "max_position_embeddings": 2048, "hidden_size": 0,
                                      "num_attention_heads": 1, **case})
    config.standardize_rope_params = lambda: None
    params = dict(case.get("rope_scaling") or case.get("rope_parameters") or {})
    kind = params.get("rope_type", params.get("type", "default"))
    params.setdefault("rope_theta", case.get("rope_theta"))
    params.setdefault("partial_rotary_factor", case.get("partial_rotary_factor", 1.0))
    params.setdefault("original_max_position_embeddings",
                      case.get("original_max_position_embeddings", config.max_position_embeddings))
    if kind == "default":  # the models compute it themselves: the linear kind with factor 1 is the same
        kind, params["factor"] = "linear", 1.0
    config.rope_parameters = params
    inv_freq, scale = rope.ROPE_INIT_FUNCTIONS[kind](config)
    assert np.asarray(inv_freq).dtype == np.float32
    longer = {}
    if kind == "longrope":  # of sequences that are longer than the original context
        v, _ = rope.ROPE_INIT_FUNCTIONS[kind](config, seq_len=params["original_max_position_embeddings"] + 1)
        longer = {"long_inv_freq": [float(f"{x:.9g}") for x in v]}
    rows.append({"config": {"head_dim": config.head_dim, "max_position_embeddings": config.max_position_embeddings, **case},
                 "inv_freq": [float(f"{v:.9g}") for v in inv_freq], "scale": float(scale), **longer})
out = Path(__file__).resolve().parent.parent / "tests/fixtures/rope.json"
out.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
