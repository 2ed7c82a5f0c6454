"""Makes tests/fixtures/malformed (and the odd but legal): python tools/make_malformed.py. Each entry of verdicts.json is a file or folder with
verdict refuse or accept, and why. `library` is what the safetensors package says, for comparison only."""
import json, shutil, struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "tests/fixtures/malformed"


def st(head, data=b"", length=None, pad=True):
    h = head if isinstance(head, bytes) else json.dumps(head, separators=(",", ":")).encode()
    if pad:
        h += b" " * (-len(h) % 8)
    return struct.pack("<Q", len(h) if length is None else length) + h + data


def t(dtype, shape, a, b):
    return {"dtype": dtype, "shape": shape, "data_offsets": [a, b]}


F = b"\0" * 16
FILES = {
    "empty.safetensors": (b"", "refuse", "no header length"),
    "seven-bytes.safetensors": (b"\x02\0\0\0\0\0\0", "refuse", "shorter than the header length"),
    "eight-bytes.safetensors": (struct.pack("<Q", 0), "refuse", "header of length 0 is not JSON"),
    "eight-bytes-claiming.safetensors": (struct.pack("<Q", 2), "refuse", "header past the end of the file"),
    "only-braces.safetensors": (st(b"{}", pad=False), "accept", "no tensors is legal (the model then misses weights by name)"),
    "length-past-end.safetensors": (st({"a": t("F32", [4], 0, 16)}, F, length=10 ** 6), "refuse", "header past the end of the file"),
    "length-huge.safetensors": (st({"a": t("F32", [4], 0, 16)}, F, length=2 ** 63), "refuse", "header length near 2^63: 8 + length must not wrap"),
    "length-minus-one.safetensors": (st({"a": t("F32", [4], 0, 16)}, F, length=2 ** 64 - 1), "refuse", "8 + length wraps to 7"),
    "length-minus-eight.safetensors": (st({"a": t("F32", [4], 0, 16)}, F, length=2 ** 64 - 8), "refuse", "8 + length wraps to 0"),
    "length-too-short.safetensors": (st({"a": t("F32", [4], 0, 16)}, F, length=20), "refuse", "JSON cut in the middle"),
    "not-json.safetensors": (st(b"hello, world!!!!", F), "refuse", "header is not JSON"),
    "json-array.safetensors": (st(b"[]"), "refuse", "header is not an object"),
    "json-number.safetensors": (st(b"12345678"), "refuse", "header is not an object"),
    "json-trailing.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}} x', F), "refuse", "text after the JSON"),
    "json-leading-space.safetensors": (st(b'  {"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F), "either", "the format says that the header begins with {; the safetensors package lets spaces pass"),
    "json-nul.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}\0\0\0', F, pad=False), "refuse", "NUL after the JSON; only spaces pad"),
    "json-comment.safetensors": (st(b'{"a":{"dtype":"F32",/*c*/"shape":[4],"data_offsets":[0,16]}}', F), "refuse", "not JSON"),
    "not-utf8.safetensors": (st(b'{"\xff\xfe":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F), "refuse", "the name is not UTF-8"),
    "lone-surrogate.safetensors": (st(b'{"\\ud800":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F), "refuse", "the name escapes half a surrogate pair"),
    "nul-in-name.safetensors": (st(b'{"a\\u0000b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F), "either", "a NUL in a name: never to be taken for the name `a`"),
    "duplicate-name.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}', F * 2), "refuse", "the same name twice"),
    "duplicate-field.safetensors": (st(b'{"a":{"dtype":"F32","dtype":"U8","shape":[4],"data_offsets":[0,16]}}', F), "refuse", "a field twice"),
    "deep-nesting.safetensors": (st(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"), "refuse", "nested 100000 deep: no recursion without a limit"),
    "deep-objects.safetensors": (st(b'{"a":' * 50000 + b"1" + b"}" * 50000), "refuse", "nested 50000 deep"),
    "dtype-unknown.safetensors": (st({"a": t("F24", [4], 0, 12)}, F), "refuse", "unknown dtype"),
    "dtype-lower.safetensors": (st({"a": t("f32", [4], 0, 16)}, F), "refuse", "dtypes are upper case"),
    "dtype-number.safetensors": (st({"a": t(7, [4], 0, 16)}, F), "refuse", "dtype is not a string"),
    "dtype-missing.safetensors": (st({"a": {"shape": [4], "data_offsets": [0, 16]}}, F), "refuse", "no dtype"),
    "shape-missing.safetensors": (st({"a": {"dtype": "F32", "data_offsets": [0, 16]}}, F), "refuse", "no shape"),
    "offsets-missing.safetensors": (st({"a": {"dtype": "F32", "shape": [4]}}, F), "refuse", "no data_offsets"),
    "tensor-not-object.safetensors": (st({"a": 5}, F), "refuse", "the entry is not an object"),
    "shape-negative.safetensors": (st({"a": t("F32", [-4], 0, 16)}, F), "refuse", "negative dimension"),
    "shape-two-negatives.safetensors": (st({"a": t("F32", [-2, -2], 0, 16)}, F), "refuse", "negative dimensions whose product fits"),
    "shape-fraction.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4.5],"data_offsets":[0,16]}}', F), "refuse", "dimension is not an integer"),
    "shape-exponent.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4e0],"data_offsets":[0,16]}}', F), "refuse", "dimension written as a float"),
    "shape-string.safetensors": (st({"a": t("F32", ["4"], 0, 16)}, F), "refuse", "dimension is not a number"),
    "shape-not-list.safetensors": (st({"a": t("F32", 4, 0, 16)}, F), "refuse", "shape is not a list"),
    "shape-overflow.safetensors": (st({"a": t("F32", [2 ** 32, 2 ** 32, 4], 0, 16)}, F), "refuse", "product of the shape is 2^66"),
    "shape-overflow-to-fit.safetensors": (st({"a": t("F32", [2 ** 62 + 1, 4], 0, 16)}, F), "refuse", "product wraps to 4, and 4 * 4 bytes would fit"),
    "shape-overflow-bytes.safetensors": (st({"a": t("F64", [2 ** 61 + 2], 0, 16)}, F), "refuse", "count fits, bytes wrap to 16"),
    "shape-overflow-zero.safetensors": (st({"a": t("F32", [2 ** 63, 2 ** 63, 0], 0, 0)}, b""), "either", "0 elements, but the product overflows on the way"),
    "shape-above-2-53.safetensors": (st(b'{"a":{"dtype":"U8","shape":[9007199254740993],"data_offsets":[0,16]}}', F), "refuse", "a dimension that a double can't hold"),
    "shape-too-many.safetensors": (st({"a": t("F32", [1] * 100000 + [4], 0, 16)}, F), "either", "100001 dimensions of one element; refuse, or read it"),
    "offsets-past-end.safetensors": (st({"a": t("F32", [8], 0, 32)}, F), "refuse", "data past the end of the file"),
    "offsets-huge.safetensors": (st({"a": t("F32", [4], 2 ** 64 - 16, 2 ** 64)}, F), "refuse", "offset beyond 64 bits"),
    "offsets-reversed.safetensors": (st({"a": t("F32", [4], 16, 0)}, F), "refuse", "end before begin"),
    "offsets-negative.safetensors": (st({"a": t("F32", [4], -16, 0)}, F), "refuse", "negative offset"),
    "offsets-three.safetensors": (st({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16, 16]}}, F), "refuse", "three offsets"),
    "offsets-size-small.safetensors": (st({"a": t("F32", [4], 0, 12)}, F[:12]), "refuse", "12 bytes for 4 f32"),
    "offsets-size-large.safetensors": (st({"a": t("F32", [4], 0, 20)}, F + F[:4]), "refuse", "20 bytes for 4 f32"),
    "offsets-overlap.safetensors": (st({"a": t("F32", [4], 0, 16), "b": t("F32", [4], 8, 24)}, F + F[:8]), "refuse", "two tensors share bytes"),
    "offsets-same.safetensors": (st({"a": t("F32", [4], 0, 16), "b": t("F32", [4], 0, 16)}, F), "refuse", "two tensors are the same bytes"),
    "offsets-hole.safetensors": (st({"a": t("F32", [4], 0, 16), "b": t("F32", [4], 32, 48)}, F * 3), "refuse", "bytes that belong to no tensor, in the middle"),
    "offsets-not-from-zero.safetensors": (st({"a": t("F32", [4], 16, 32)}, F * 2), "refuse", "bytes that belong to no tensor, in front"),
    "trailing-bytes.safetensors": (st({"a": t("F32", [4], 0, 16)}, F * 2), "refuse", "bytes after the last tensor"),
    "truncated-data.safetensors": (st({"a": t("F32", [4], 0, 16), "b": t("F32", [4], 16, 32)}, F + F[:9]), "refuse", "a download that stopped"),
    "truncated-header.safetensors": (st({"a": t("F32", [4], 0, 16)}, F)[:30], "refuse", "a download that stopped early"),
    "metadata-not-strings.safetensors": (st({"__metadata__": {"format": 1}, "a": t("F32", [4], 0, 16)}, F), "refuse", "metadata maps strings to strings"),
    "metadata-list.safetensors": (st({"__metadata__": ["pt"], "a": t("F32", [4], 0, 16)}, F), "refuse", "metadata is not an object"),
    "fp4-odd.safetensors": (st({"a": t("F4", [3], 0, 2)}, b"\0\0"), "refuse", "3 4-bit elements are not whole bytes"),
    "html.safetensors": (b"<!DOCTYPE html><html><body>404 Not Found</body></html>", "refuse", "an error page saved as a file"),
    "lfs-pointer.safetensors": (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123\n", "refuse", "a git-lfs pointer: say so, and how to get the file"),
    "gguf.safetensors": (b"GGUF\x03\0\0\0" + b"\0" * 16, "refuse", "another format: say which"),
    "zip.safetensors": (b"PK\x03\x04" + b"\0" * 28, "refuse", "a PyTorch pickle archive: say so, never unpickle"),
    "zero-size.safetensors": (st({"a": t("F32", [0], 0, 0), "b": t("F32", [4], 0, 16), "c": t("F32", [3, 0, 5], 16, 16)}, F), "accept", "tensors of 0 elements"),
    "scalar.safetensors": (st({"a": t("F32", [], 0, 4)}, F[:4]), "accept", "shape [] is one element"),
    "unsorted.safetensors": (st({"b": t("F32", [4], 16, 32), "a": t("F32", [4], 0, 16)}, F * 2), "accept", "header order is not data order"),
    "unaligned.safetensors": (st({"a": t("U8", [3], 0, 3), "b": t("F32", [3], 3, 15)}, F[:15]), "accept", "a f32 at an odd address: read it without trapping"),
    "header-unpadded.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]} }', F, pad=False), "accept", "header length not a multiple of 8"),
    "metadata-only.safetensors": (st({"__metadata__": {"format": "pt", "k": "\u00e9"}}), "accept", "metadata and no tensors"),
    "metadata-null.safetensors": (st({"__metadata__": None, "a": t("F32", [4], 0, 16)}, F), "accept", "how MLX writes no metadata"),
    "unicode-name.safetensors": (st({"\u5c42.\u00e9.\U0001f600": t("F32", [4], 0, 16)}, F), "accept", "UTF-8 name"),
    "empty-name.safetensors": (st({"": t("F32", [4], 0, 16)}, F), "accept", "empty name"),
    "escaped-name.safetensors": (st(b'{"a\\u002eb\\/c":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}', F), "accept", "the name is a.b/c"),
    "extra-field.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"note":"x"}}', F), "either", "a field that the format doesn't name"),
    "big-header-spaces.safetensors": (st(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}' + b" " * 5000, F, pad=False), "accept", "padded with many spaces"),
}


def shard(names):
    d = 0
    head = {}
    for n in names:
        head[n] = t("F32", [4], d, d + 16)
        d += 16
    return st(head, F * len(names))


def folders(root):
    """name -> (verdict, why[, links to make: name -> target]); the index is model.safetensors.index.json"""
    def make(name, weight_map, files, raw=None):
        d = root / name
        d.mkdir(parents=True)
        (d / "model.safetensors.index.json").write_bytes(raw if raw is not None else json.dumps({"metadata": {"total_size": 32}, "weight_map": weight_map}).encode())
        for f, b in files.items():
            (d / f).parent.mkdir(parents=True, exist_ok=True)
            (d / f).write_bytes(b)
        return d
    a, b = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    out = {}
    make("index-good", {"a": a, "b": b}, {a: shard(["a"]), b: shard(["b"])}); out["index-good"] = ("accept", "two shards")
    make("index-missing-shard", {"a": a, "b": b}, {a: shard(["a"])}); out["index-missing-shard"] = ("refuse", "names a shard that is not there")
    make("index-missing-tensor", {"a": a, "b": b}, {a: shard(["a"]), b: shard(["c"])}); out["index-missing-tensor"] = ("refuse", "the shard has no tensor b")
    make("index-wrong-shard", {"a": b, "b": a}, {a: shard(["a"]), b: shard(["b"])}); out["index-wrong-shard"] = ("refuse", "a and b are in each other's shard")
    make("index-extra-tensor", {"a": a}, {a: shard(["a", "b"])}); out["index-extra-tensor"] = ("either", "the shard holds a tensor that the index doesn't name")
    make("index-duplicate", {"a": a, "b": b}, {a: shard(["a", "b"]), b: shard(["b"])}); out["index-duplicate"] = ("either", "b is in both shards: the index decides, or refuse; never whichever comes last")
    make("index-traversal", {"a": "../index-good/" + a}, {}); out["index-traversal"] = ("refuse", "leaves the folder")
    make("index-traversal-inside", {"a": "x/../" + a}, {a: shard(["a"]), "x/keep": b""}); out["index-traversal-inside"] = ("refuse", "a .. in the path, though it ends inside")
    make("index-absolute", {"a": "/etc/hostname"}, {}); out["index-absolute"] = ("refuse", "absolute path")
    make("index-backslash", {"a": "..\\index-good\\" + a}, {}); out["index-backslash"] = ("refuse", "backslashes")
    make("index-nul", None, {a: shard(["a"])}, raw=b'{"weight_map":{"a":"' + a.encode() + b'\\u0000.txt"}}'); out["index-nul"] = ("refuse", "a NUL in the file name")
    make("index-subfolder", {"a": "sub/" + a}, {"sub/" + a: shard(["a"])}); out["index-subfolder"] = ("either", "a shard in a folder below")
    make("index-empty-name", {"a": ""}, {}); out["index-empty-name"] = ("refuse", "empty file name")
    make("index-folder", {"a": "sub"}, {"sub/keep": b""}); out["index-folder"] = ("refuse", "names a folder")
    make("index-not-string", {"a": 5}, {}); out["index-not-string"] = ("refuse", "file name is a number")
    make("index-no-map", None, {a: shard(["a"])}, raw=b'{"metadata":{}}'); out["index-no-map"] = ("refuse", "no weight_map")
    make("index-not-json", None, {a: shard(["a"])}, raw=b"<html>"); out["index-not-json"] = ("refuse", "not JSON")
    make("index-deep", None, {a: shard(["a"])}, raw=b'{"weight_map":' + b'{"a":' * 60000 + b"1" + b"}" * 60001); out["index-deep"] = ("refuse", "nested 60000 deep")
    make("index-bad-shard", {"a": a, "b": b}, {a: shard(["a"]), b: shard(["b"])[:40]}); out["index-bad-shard"] = ("refuse", "second shard cut: name it in the error")
    make("index-empty-map", {}, {}); out["index-empty-map"] = ("refuse", "no weights at all")
    make("index-symlink", {"a": a}, {"blobs/5f": shard(["a"])}); out["index-symlink"] = ("accept", "the hub cache's layout: snapshots link to blobs, also outside the folder", {a: "blobs/5f"})
    make("index-symlink-loop", {"a": a}, {}); out["index-symlink-loop"] = ("refuse", "a link to itself", {a: a})
    make("index-symlink-dangling", {"a": a}, {}); out["index-symlink-dangling"] = ("refuse", "a link to nothing (a blob not downloaded): name both", {a: "blobs/none"})
    return out


def library(path):
    try:
        from safetensors import safe_open
    except ImportError:
        return None
    try:
        with safe_open(str(path), framework="np") as f:
            return f"accepts {len(f.keys())}"
    except BaseException as e:
        return f"refuses: {type(e).__name__}: {str(e)[:120]}".replace(str(path.parent), "")


def make(root, files, dirs):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    rows = []
    for name, (data, verdict, why) in files.items():
        (root / name).write_bytes(data)
        rows.append({"name": name, "verdict": verdict, "why": why, "library": library(root / name)})
    for name, (verdict, why, *links) in dirs(root).items():
        rows.append({"name": name, "verdict": verdict, "why": why, **({"links": links[0]} if links else {})})
    (root / "verdicts.json").write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print(f"{len(rows)} malformed and odd, {sum(f.stat().st_size for f in root.rglob('*') if f.is_file())} bytes")
    for r in rows:
        lib = r.get("library") or ""
        if (r["verdict"] == "refuse" and lib.startswith("accepts")) or (r["verdict"] == "accept" and lib.startswith("refuses")):
            print("  library differs:", r["name"], "|", lib)


if __name__ == "__main__":
    make(ROOT, FILES, folders)
