#!/usr/bin/env python3
"""Greedy answers beside llama.cpp's, token for token, from the same weights:

  compare_llama_cpp.py LLAMA_SERVER FILE.gguf CHECKPOINT [--mlxcel build/mlxcel] [-n 64]

Starts LLAMA_SERVER with an F32 cache, asks it for greedy tokens with their probabilities, and asks `mlxcel logits
--greedy` (--precision f32) for the same prompts. At the first difference it prints how near the tie was: the gap between
the two candidates in llama.cpp's log probabilities and in mlxcel's logits.

llama.cpp rounds activations to 8 bits before it multiplies them with quantized weights, which alone moves a logit by some
tenths. --dequantize writes FILE's weights as F32 to a temporary GGUF first (needs: pip install gguf numpy), so that both
compute with the same weights in F32. Else this needs Python's standard library only.
Exit code 1 when a difference is more than a near tie: a gap over --tie in either. Its default is what rounding activations
to 8 bits moves SmolLM2-135M's logits by (0.25 rms over 300 tokens of English, mlxcel's native precision beside f32)."""
import argparse, json, socket, subprocess, sys, tempfile, time, urllib.request

PROMPTS = [
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain in two sentences why the sky is blue.",
    "def fibonacci(n):",
    "List three fruits that are red.",
]
CHAT = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def ask(port, path, body):
    r = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(r, timeout=300))


def dequantize(path, to):
    """The same model with every tensor in F32."""
    import gguf
    r = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(to, r.fields["general.architecture"].contents())
    for name, field in r.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        sub = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        w.add_key_value(name, field.contents(), field.types[0], sub_type=sub)
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    for t in r.tensors:
        w.add_tensor(t.name, gguf.dequantize(t.data, t.tensor_type))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def serve(binary, gguf):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen([binary, "-m", gguf, "--port", str(port), "-ctk", "f32", "-ctv", "f32", "-c", "2048", "-np", "1",
                          "-t", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            return p, port
        except OSError:
            time.sleep(0.2)
    p.kill()
    sys.exit("llama-server did not start")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("server"), a.add_argument("gguf"), a.add_argument("checkpoint")
    a.add_argument("--mlxcel", default="build/mlxcel"), a.add_argument("-n", type=int, default=64)
    a.add_argument("--precision", default="f32"), a.add_argument("--tie", type=float, default=0.25)
    a.add_argument("--dequantize", action="store_true")
    a = a.parse_args()
    scratch = tempfile.TemporaryDirectory()
    if a.dequantize:
        a.gguf, packed = f"{scratch.name}/f32.gguf", a.gguf
        dequantize(packed, a.gguf)
    p, port = serve(a.server, a.gguf)
    bad = 0
    try:
        for prompt in PROMPTS:
            text = CHAT.format(prompt) if not prompt.startswith("def") else prompt
            ids = ask(port, "/tokenize", {"content": text, "add_special": False, "parse_special": True})["tokens"]
            theirs = ask(port, "/completion", {"prompt": ids, "n_predict": a.n, "temperature": 0, "n_probs": 10, "cache_prompt": False})
            want = [t["id"] for t in theirs["completion_probabilities"]]
            run = subprocess.run([a.mlxcel, "logits", "-m", a.checkpoint, "--ids", ",".join(map(str, ids)), "--greedy", str(len(want)),
                                  "--precision", a.precision, "--json"], capture_output=True, text=True, check=True)
            got = json.loads(run.stdout)["greedy_ids"]
            same = next((i for i, (x, y) in enumerate(zip(got, want)) if x != y), len(want))
            if same == len(want):
                print(f"same {same:3d} tokens: {prompt}")
                continue
            top = {t["id"]: t["logprob"] for t in theirs["completion_probabilities"][same]["top_logprobs"]}
            gap = top[want[same]] - top.get(got[same], float("-inf"))
            run = subprocess.run([a.mlxcel, "logits", "-m", a.checkpoint, "--ids", ",".join(map(str, ids + want[:same])), "--top", "10",
                                  "--precision", a.precision, "--json"], capture_output=True, text=True, check=True)
            ours = {t["id"]: t["logit"] for t in json.loads(run.stdout)["rows"][-1]["top"]}
            own = ours[got[same]] - ours.get(want[same], float("-inf"))
            near = max(gap, own) < a.tie
            bad += not near
            print(f"same {same:3d} tokens, then {'a near tie' if near else 'A DIFFERENCE'}: ours {got[same]}, theirs {want[same]}; theirs leads by {gap:.3f} there, ours by {own:.3f} here: {prompt}")
    finally:
        p.terminate()
    return bad > 0


sys.exit(main())
