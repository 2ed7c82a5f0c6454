"""Makes the families' reference cases: python make.py [--out DIR] [family ...]      (all families when none is named)
Needs: pip install torch transformers "mlx[cpu]" mlx-lm safetensors

The other files of this folder fill CASES: family -> dict, with
  config     the config.json dict as published (key names, rope style)
  hf         the transformers class that is the reference; without it mlx-lm is
  publish    for mlx-lm references: MLX layout weights -> published Hugging Face names
  hf_args, mlx_args   further arguments of kit.hf_case / kit.mlx_case (gains, dead_ok, seed, n ...)
  quantized  list of dicts for kit.mlx_quantized: name, bits, group_size, mode, predicate, dead_ok (default: one 4-bit, group 32)
  agree      False when mlx-lm has no such family or is known to differ (say why in a comment)
  make       a function(dir, case) that replaces all of this for a family that fits none of it
  variants   further cases of the family: name -> dict of overrides (config keys are merged; None removes a key)
"""

import argparse, importlib.util, os, sys, traceback
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
here = Path(__file__).resolve().parent
sys.path.insert(0, str(here))
import kit


def merge(base, over):
    out = dict(base)
    for k, v in over.items():
        if v is None:
            out.pop(k, None)
        elif isinstance(v, dict) and isinstance(out.get(k), dict) and k in ("config", "text_config", "hf_args", "mlx_args"):
            out[k] = merge(out[k], v)
        else:
            out[k] = v
    return out


def load(folder):
    cases = {}
    for f in sorted(set(Path(folder).glob("*.py")) - {here / "kit.py", here / "make.py"}):
        spec = importlib.util.spec_from_file_location(f.stem, f)
        m = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(m)
        cases.update(m.CASES)
    return cases


def build(root, name, case):
    root = Path(root)
    if "make" in case:
        case["make"](root / name, case)
        return
    origin = root / (name if "hf" in case or case.get("publish") else name + "-mlx")
    if "hf" in case:
        kit.hf_case(origin, case["config"], case["hf"], **case.get("hf_args", {}))
    else:
        kit.mlx_case(origin, case["config"], publish=case.get("publish"), **case.get("mlx_args", {}))
    if case.get("agree", True) and "hf" in case:
        d = kit.agree(origin)
        if d > kit.TOLERANCE:
            raise SystemExit(f"{origin}: transformers and mlx-lm differ by {d:.1e}")
    for q in case.get("quantized", [dict(bits=4, group_size=32)]) if case.get("agree", True) else []:
        q = dict(q)
        tag = q.pop("name", f"{q.get('mode', 'affine').replace('affine', 'q')}{q.get('bits', 4)}")
        kit.mlx_quantized(root / f"{name}-{tag}", origin, **q)


def main(cases, out, names):
    bad = []
    for family in names or cases:
        case = dict(cases[family])
        variants = {"base": {}, **case.pop("variants", {})} if case.pop("base", True) else case.pop("variants", {})
        for name, over in variants.items():
            try:
                build(Path(out) / family, name, merge(case, over))
            except (Exception, SystemExit) as e:
                bad.append(f"{family}/{name}: {e}")
                if os.environ.get("TRACE"):
                    traceback.print_exc()
                print(f"FAILED {bad[-1]}", flush=True)
    print(f"{len(bad)} failed")
    return bool(bad)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", default=here.parents[1] / "tests" / "fixtures")
    p.add_argument("family", nargs="*")
    a = p.parse_args()
    sys.exit(main(load(here), a.out, a.family))
