"""Makes tests/fixtures/text, tools and page: checkpoints of some 270 tokens whose answers
are known, for tests of what is around a model. python tools/make_text_fixture.py (numpy,
safetensors, tokenizers)

The tokenizer is byte-level BPE with three merges. The model is a Llama that only looks at the last
token: attention and MLP give zero, so the logits after token t are 8 for the one token that follows
it and 0 for the others. After a token that is none of the answer's comes the answer, then
<|im_end|>, and after that the answer again. The answer of text is "Hello, wörld! 😀"; that of tools
thinks, says something and calls a function. Its <tool_call> is a special token."""
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

def byte_chars():
    """The printable character that stands for each byte, as GPT-2 has it."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


char = byte_chars()
merges = [("i", "n"), ("t", "h"), ("th", "e")]
end = "<|im_end|>"


def written(word):
    """A word, or a part of a character as bytes, as the vocabulary has it."""
    return "".join(char[b] for b in (word if isinstance(word, bytes) else word.encode()))


def make(name, words, said, template, special=(), plain=()):
    out = Path(__file__).resolve().parent.parent / "tests/fixtures" / name
    out.mkdir(parents=True, exist_ok=True)
    added = {"<|im_start|>", end, *special, *plain}
    words = [w if w in added else written(w) for w in words]
    assert len({*words}) == len(words)
    vocab = {}
    for p in [*(c for _, c in sorted(char.items())), *(a + b for a, b in merges),
              *(w for w in words if w not in added)]:
        vocab.setdefault(p, len(vocab))
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(["<|im_start|>", end, *special])
    tok.add_tokens([*plain])
    tok.save(str(out / "tokenizer.json"))
    chain = [tok.token_to_id(w) for w in [*words, end]]
    assert tok.decode(chain, skip_special_tokens=False) == said + end
    write_model(out, tok.get_vocab_size(), chain)

    def write(file, value):
        (out / file).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": 1, "num_attention_heads": heads,
        "num_key_value_heads": 1, "head_dim": width, "vocab_size": tok.get_vocab_size(),
        "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "float16",
        "eos_token_id": chain[-1]})
    write("generation_config.json", {"eos_token_id": [chain[-1]], "temperature": 0.7})
    write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end,
                                    "chat_template": template})
    print(name, chain, tok.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n").ids)


hidden, heads, width, inner = 64, 2, 8, 16


def write_model(out, n, chain):
    own = {t: i + 1 for i, t in enumerate(chain)}  # its own element of the hidden state; 0: any other
    follows = {0: chain[0], **{own[a]: b for a, b in zip(chain, [*chain[1:], chain[0]])}}
    embed, head = np.zeros((n, hidden), np.float16), np.zeros((n, hidden), np.float16)
    for t in range(n):
        embed[t, own.get(t, 0)] = 1
    for element, t in follows.items():
        head[t, element] = 1  # the norm makes the 1 an 8
    rng = np.random.default_rng(7)

    def random(*shape):
        return rng.standard_normal(shape).astype(np.float16) / 8

    at = "model.layers.0."
    save_file({
        "model.embed_tokens.weight": embed,
        "lm_head.weight": head,
        "model.norm.weight": np.ones(hidden, np.float16),
        at + "input_layernorm.weight": np.ones(hidden, np.float16),
        at + "post_attention_layernorm.weight": np.ones(hidden, np.float16),
        at + "self_attn.q_proj.weight": random(heads * width, hidden),
        at + "self_attn.k_proj.weight": random(width, hidden),
        at + "self_attn.v_proj.weight": random(width, hidden),
        at + "self_attn.o_proj.weight": np.zeros((hidden, heads * width), np.float16),
        at + "mlp.gate_proj.weight": random(inner, hidden),
        at + "mlp.up_proj.weight": random(inner, hidden),
        at + "mlp.down_proj.weight": np.zeros((hidden, inner), np.float16),
    }, out / "model.safetensors", metadata={"format": "pt"})


turns = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
         "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|im_start|>assistant\n' }}{% endif %}")
make("text", ["Hello", ",", " w", b"\xc3", b"\xb6", "rld", "!", " ", b"\xf0", b"\x9f", b"\x98", b"\x80"],
     "Hello, wörld! 😀", turns)

# A call may have been made, and thinking may be off, or begun by the prompt.
tools = ("{% if tools %}{{ '<|im_start|>system\n<tools>' + tools | tojson + '</tools> for each call: "
         "<tool_call>{...}</tool_call><|im_end|>\n' }}{% endif %}"
         "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
         "{% if message.content %}{{ message.content }}{% endif %}"
         "{% for call in message.tool_calls or [] %}{{ '<tool_call>' + call.function | tojson + "
         "'</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
         "{% if reasoning_effort is defined %}{{ 'effort ' + reasoning_effort + '\n' }}{% endif %}"
         "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}"
         "{% endif %}{% endif %}")
make("tools",
     ["<think>", "\nZurich", "?\n", "</think>", "\n\n", "I", " look", ".", " \n", "<tool_call>",
      "\n{", '"name": ', '"weather", ', '"arguments": {', '"city": "Z', b"\xc3", b"\xbc", "rich", '"}', "}\n",
      "</tool_call>"],
     '<think>\nZurich?\n</think>\n\nI look. \n<tool_call>\n{"name": "weather", "arguments": '
     '{"city": "Zürich"}}\n</tool_call>', tools, special=["<tool_call>", "</tool_call>"],
     plain=["<think>", "</think>"])

# What a page has to show: reasoning, Markdown of every kind, and what would be a script in HTML.
page = ["<think>", "\nTwo numbers in,", " one out.\n", "</think>", "\n\n", "Their **sum**", " in `C`:\n\n```c\n",
        "int sum(int a, int b) {\n", "    return a + b; // a < 2^30\n", "}\n```\n\n", "| a | b | sum |\n",
        "|---|--:|:-:|\n", "| 1 | 2 | *3* |\n\n", "1. <img src=x", " onerror=\"document.title='mine'\">\n",
        "2. [no](javascript:alert(1)),", " [yes](https://example.org/a?b=c)\n", "   - deeper\n\n",
        "> It is said:", " 5 < 6 && 7 > 6\n\n", "---\n\nDone, ", "wörld 😀."]
make("page", page, "".join(page), turns, plain=["<think>", "</think>"])
