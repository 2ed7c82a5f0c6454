"""Replies as models write them that no published template renders: by the models' cards and
documented formats. make_reply_cases.py checks them with mlx-lm's parsers where it has one.

A row: template file or "source:" and the text that tells the format, name, flags, reply,
reasoning, content, calls, and mlx-lm's parser with the calls' marks where there is one. Flags:
"o" the prompt opened the reasoning; "n" the request has no tools.
"""
WEATHER = ("weather", {"city": "Z\u00fcrich", "days": 2})
NOW = ("now", {})
NOTE = ("note", {"title": "A \"b\" <c>", "tags": ["x, y", "z"], "meta": {"k": [1, True, None], "s": {}}})
JSON = '{"name": "weather", "arguments": {"city": "Z\u00fcrich", "days": 2}}'
ARGS = '{"city": "Z\u00fcrich", "days": 2}'
BARE = '{"name": "now", "arguments": {}}'
WHY = "The user asks."
TEXT = "Let me look."

LLAMA = "meta-llama-Llama-3.1-8B-Instruct.jinja"
LLAMA4 = "tool_chat_template_llama4_pythonic.jinja"
GEMMA = "tool_chat_template_functiongemma.jinja"
HERMES = "Qwen-Qwen2.5-7B-Instruct.jinja"
QWEN3 = "Qwen-Qwen3-0.6B.jinja"
CODER = "Qwen3-Coder.jinja"
GPT = "openai-gpt-oss-120b.jinja"
NEMO = "mistralai-Mistral-Nemo-Instruct-2407.jinja"
SMALL = "Mistral-Small-3.2-24B-Instruct-2506.jinja"
COMMAND = "CohereForAI-c4ai-command-r-plus-tool_use.jinja"
COMMAND7 = "CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja"
GRANITE = "ibm-granite-granite-3.3-2B-Instruct.jinja"
LFM = "LFM2-8B-A1B.jinja"
SMOL = ("source:For each function call, return a json object with function name and arguments within <tool_call></tool_call> "
        "XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"
        "{{ '<think>\n\n</think>\n' }}")
GLM = "GLM-4.6.jinja"
APRIEL = "unsloth-Apriel-1.5.jinja"
APRIEL6 = "Apriel-1.6-15b-Thinker-fixed.jinja"
FUNCTIONARY = "meetkai-functionary-medium-v3.2.jinja"
SEED = "ByteDance-Seed-OSS.jinja"
M2 = "MiniMax-M2.jinja"
KIMI = "moonshotai-Kimi-K2.jinja"
PLAIN = "source:{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
LONGCAT = ("source:{{ '<longcat_tool_call>' ~ tool_call.function.name ~ '\n' }}{% for k, v in args %}"
           "<longcat_arg_key>{{ k }}</longcat_arg_key>\n<longcat_arg_value>{{ v }}</longcat_arg_value>\n"
           "{% endfor %}</longcat_tool_call>{% if thinking %}<longcat_think></longcat_think>{% endif %}")
PHI4 = ("source:{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message %}"
        "{{ '<|system|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}"
        "{% endif %}{% endfor %}<|assistant|>")
OLMO = ("source:<|im_start|>system\nYou are a helpful function-calling AI assistant. <functions>{{ functions }}"
        "</functions><|im_end|>\n{% if message.get('function_calls') %}{{ '<function_calls>' + "
        "message['function_calls'] + '</function_calls>' }}{% endif %}")
JAMBA = ("source:{{ '<tool_calls>[' }}{% for c in message.tool_calls %}{{ '{\"name\": ' }}{{ c.function.name | tojson }}"
         "{{ ', \"arguments\": ' }}{{ c.function.arguments }}{{ '}' }}{% endfor %}{{ ']</tool_calls>' }}")
INTERN = "tool_chat_template_internlm2_tool.jinja"
ERNIE = ("source:{{ '<think>\n' + reasoning + '\n</think>\n\n' }}{{ '<response>\n' + content + '\n</response>\n' }}"
         "{{ '\n<tool_call>\n' + tool_call.function | tojson + '\n</tool_call>\n' }}")
EXAONE = ("source:[|assistant|]{{ '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}"
          "{{ '<tool_call>{\"name\": \"' + name + '\", \"arguments\": ' + args + '}</tool_call>' }}[|endofturn|]")
STEP3 = ("source:<\uff5ctool_calls_begin\uff5c>{% for c in calls %}<\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c>"
         "<steptml:invoke name=\"{{ c.name }}\"><steptml:parameter name=\"{{ k }}\">{{ v }}</steptml:parameter>"
         "</steptml:invoke><\uff5ctool_call_end\uff5c>{% endfor %}<\uff5ctool_calls_end\uff5c>")
DOTS = "source:<dots_function_call>\n<invoke name=\"{{ name }}\">\n{{ parameters }}</invoke>\n</dots_function_call>"
GCML = ("source:<\uff5cGCML\uff5ctool_calls>\n<\uff5cGCML\uff5cinvoke name=\"{{ name }}\">\n{{ parameters }}"
        "</\uff5cGCML\uff5cinvoke>\n</\uff5cGCML\uff5ctool_calls><|role_sep|>")
IQUEST = "source:<iquest_tool_call>{{ name }}<arg_key>{{ key }}</arg_key><arg_value>{{ value }}</arg_value></iquest_tool_call>"
HORIZON = ("source:<ifm|think>{{ reasoning }}</ifm|think><ifm|tool_calls><ifm|tool_call>{{ name }}<ifm|arg_key>{{ key }}"
           "</ifm|arg_key><ifm|arg_value>{{ value }}</ifm|arg_value></ifm|tool_call></ifm|tool_calls>")
G20B = "tool_chat_template_granite_20b_fc.jinja"
V3 = "tokenizer-deepseek_v3.jinja"


def hermes(json):
    return f"<tool_call>\n{json}\n</tool_call>"


def channel(head, text):
    return f"<|start|>assistant{head}<|message|>{text}<|end|>"


BY_HAND = [
    # Llama 3: JSON alone, after a python tag, several with semicolons.
    (LLAMA, "python tag", "", '<|python_tag|>{"name": "weather", "parameters": ' + ARGS + "}", "", "", [WEATHER]),
    (LLAMA, "type", "", '{"type": "function", "name": "weather", "parameters": ' + ARGS + "}", "", "", [WEATHER]),
    (LLAMA, "arguments", "", JSON, "", "", [WEATHER]),
    (LLAMA, "semicolon", "", '{"name": "weather", "parameters": ' + ARGS + '}; {"name": "now", "parameters": {}}',
     "", "", [WEATHER, NOW]),
    (LLAMA, "no call", "", '{"a": 1}', "", '{"a": 1}', []),
    (LLAMA, "brace", "", "{ is a brace", "", "{ is a brace", []),
    (LLAMA, "no tools", "n", '{"name": "weather", "parameters": ' + ARGS + "}", "",
     '{"name": "weather", "parameters": ' + ARGS + "}", []),
    # Llama 4, OLMo 3, LFM2: Python calls.
    (LLAMA4, "one", "", '[weather(city="Z\u00fcrich", days=2)]', "", "", [WEATHER], "pythonic"),
    (LLAMA4, "two", "", '[weather(city="Z\u00fcrich", days=2), now()]', "", "", [WEATHER, NOW], "pythonic"),
    (LLAMA4, "nested", "", "[note(title='A \"b\" <c>', tags=['x, y', \"z\"], meta={'k': [1, True, None], 's': {}})]",
     "", "", [NOTE], "pythonic"),
    (LLAMA4, "escapes", "", r"""[note(title="a\n\"b\" 'c' \\ \u00e9", text='it\'s')]""", "", "",
     [("note", {"title": "a\n\"b\" 'c' \\ \u00e9", "text": "it's"})], "pythonic"),
    (LLAMA4, "types", "", "[note(id=-7, score=1.5e3, pinned=False, parent=None, rank=3)]", "", "",
     [("note", {"id": -7, "score": 1500.0, "pinned": False, "parent": None, "rank": 3})], "pythonic"),
    (LLAMA4, "python tags", "", '<|python_start|>[weather(city="Z\u00fcrich", days=2)]<|python_end|>', "", "", [WEATHER]),
    (LLAMA4, "space", "", '[weather (city = "Z\u00fcrich" , days=2 ) , now( )]', "", "", [WEATHER, NOW], "pythonic"),
    (LLAMA4, "list", "", "[1] is a source.", "", "[1] is a source.", []),
    (LLAMA4, "words", "", "[note to self] (x)", "", "[note to self] (x)", []),
    ("tool_chat_template_gemma3_pythonic.jinja", "one", "", '[weather(city="Z\u00fcrich", days=2)]', "", "", [WEATHER], "pythonic"),
    (LFM, "one", "", '<|tool_call_start|>[weather(city="Z\u00fcrich", days=2)]<|tool_call_end|>', "", "", [WEATHER],
     "pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    (LFM, "two", "", '<|tool_call_start|>[weather(city="Z\u00fcrich", days=2), now()]<|tool_call_end|>', "", "",
     [WEATHER, NOW], "pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    (LFM, "then text", "", '<|tool_call_start|>[weather(city="Z\u00fcrich", days=2)]<|tool_call_end|>Checking.', "",
     "Checking.", [WEATHER], "pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    (LFM, "json inside", "", '<|tool_call_start|>[note(meta={"k": [1, true, null], "s": {}}, tags=["x"])]<|tool_call_end|>',
     "", "", [("note", {"meta": {"k": [1, True, None], "s": {}}, "tags": ["x"]})],
     "pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    (LFM, "text first", "", TEXT + '\n<|tool_call_start|>[now()]<|tool_call_end|>', "", TEXT, [NOW]),
    (OLMO, "two", "", '<function_calls>weather(city="Z\u00fcrich", days=2)\nnow()</function_calls>', "", "", [WEATHER, NOW]),
    (OLMO, "text, call", "", TEXT + '\n<function_calls>\nweather(city="Z\u00fcrich", days=2)\n</function_calls>', "", TEXT, [WEATHER]),
    # FunctionGemma.
    (GEMMA, "one", "", "<start_function_call>call:weather{city:<escape>Z\u00fcrich<escape>,days:2}<end_function_call>", "", "",
     [WEATHER], "function_gemma", "<start_function_call>", "<end_function_call>"),
    (GEMMA, "two", "", "<start_function_call>call:weather{city:<escape>Z\u00fcrich<escape>,days:2}<end_function_call>"
     "<start_function_call>call:now{}<end_function_call>", "", "", [WEATHER, NOW],
     "function_gemma", "<start_function_call>", "<end_function_call>"),
    (GEMMA, "odd", "", "<start_function_call>call:note{title:<escape>a, b:{c}<escape>,pinned:true,score:1.5}<end_function_call>",
     "", "", [("note", {"title": "a, b:{c}", "pinned": True, "score": 1.5})]),
    (GEMMA, "nested", "", "<start_function_call>call:note{meta:{a:<escape>b<escape>,c:[1,<escape>d<escape>]},tags:[<escape>x<escape>]}"
     "<end_function_call>", "", "", [("note", {"meta": {"a": "b", "c": [1, "d"]}, "tags": ["x"]})]),
    # Hermes: text around, no line ends, arguments first, arguments in a string.
    (HERMES, "tight", "", f"<tool_call>{JSON}</tool_call>", "", "", [WEATHER], "json_tools", "<tool_call>", "</tool_call>"),
    (HERMES, "spread", "", '<tool_call>\n{\n  "name" : "weather" ,\n  "arguments" : {\n    "city": "Z\\u00fcrich",\n    "days": 2\n  }\n}\n</tool_call>\n',
     "", "", [WEATHER], "json_tools", "<tool_call>", "</tool_call>"),
    (HERMES, "arguments first", "", hermes('{"arguments": ' + ARGS + ', "name": "weather"}'), "", "", [WEATHER],
     "json_tools", "<tool_call>", "</tool_call>"),
    (HERMES, "escapes", "", hermes('{"name": "note", "arguments": {"title": "\\ud83d\\ude00 \\/ \\t", "id": 12345678901234567}}'),
     "", "", [("note", {"title": "\U0001f600 / \t", "id": 12345678901234567})], "json_tools", "<tool_call>", "</tool_call>"),
    (HERMES, "mark inside", "", hermes('{"name": "note", "arguments": {"text": "a </tool_call> b <tool_call>"}}'), "", "",
     [("note", {"text": "a </tool_call> b <tool_call>"})]),
    (HERMES, "then text", "", hermes(JSON) + "\nDone.", "", "Done.", [WEATHER]),
    (HERMES, "text between", "", hermes(JSON) + "\nAnd:\n" + hermes(BARE), "", "And:", [WEATHER, NOW]),
    (HERMES, "no JSON", "", "<tool_call>\nweather\n</tool_call>", "", "<tool_call>\nweather\n</tool_call>", []),
    (HERMES, "broken JSON", "", hermes('{"name": "weather", "arguments": {"city": }}'), "",
     hermes('{"name": "weather", "arguments": {"city": }}'), []),
    (HERMES, "cut", "", '<tool_call>\n{"name": "weather", "arguments": {"city": "Z', "",
     '<tool_call>\n{"name": "weather", "arguments": {"city": "Z', []),
    (HERMES, "cut mark", "", "a <tool_c", "", "a <tool_c", []),
    (HERMES, "like a mark", "", "a <tool_calls> b <tool <<tool_ca", "", "a <tool_calls> b <tool <<tool_ca", []),
    (HERMES, "no tools", "n", hermes(JSON), "", hermes(JSON), []),
    (HERMES, "bad then good", "", hermes("{]") + "\n" + hermes(BARE), "", hermes("{]"), [NOW]),
    (QWEN3, "unopened end", "o", WHY + "\n</think>\n\n" + hermes(JSON), WHY, "", [WEATHER]),
    (QWEN3, "never ends", "", "<think>\n" + WHY, WHY, "", []),
    (QWEN3, "call in thought", "", "<think>\nMaybe " + hermes(BARE) + "\n</think>\n\n" + TEXT, "Maybe " + hermes(BARE), TEXT, []),
    (QWEN3, "like an end", "", "<think>\n</thin> < </thinks>\n</think>\n\nx </thin", "</thin> < </thinks>", "x </thin", []),
    (QWEN3, "spaces", "", "<think>\n\n</think>\n\n  a \n", "", "a \n", []),
    (QWEN3, "no tools", "n", "<think>\n" + WHY + "\n</think>\n\n" + hermes(JSON), WHY, hermes(JSON), []),
    (EXAONE, "all", "", "<think>\n" + WHY + "\n</think>\n\n" + TEXT + f"\n<tool_call>{JSON}</tool_call>\n<tool_call>{BARE}</tool_call>",
     WHY, TEXT, [WEATHER, NOW]),
    (EXAONE, "opened", "o", WHY + "\n</think>\n\n" + TEXT, WHY, TEXT, []),
    (SMOL, "one", "", hermes(JSON), "", "", [WEATHER], "json_tools", "<tool_call>", "</tool_call>"),
    (SMOL, "all", "", "<think>\n" + WHY + "\n</think>\n" + TEXT + "\n" + hermes(JSON), WHY, TEXT, [WEATHER]),
    (ERNIE, "text", "o", WHY + "\n</think>\n\n<response>\n" + TEXT + "\n</response>\n", WHY, TEXT, []),
    (ERNIE, "call", "o", WHY + "\n</think>\n\n\n" + hermes(JSON) + "\n", WHY, "", [WEATHER]),
    # Qwen3-Coder: what models get wrong and its own parser takes.
    (CODER, "tight", "", "<tool_call>\n<function=weather>\n<parameter=city>Z\u00fcrich</parameter>\n<parameter=days>2</parameter>\n"
     "</function>\n</tool_call>", "", "", [WEATHER], "qwen3_coder", "<tool_call>\n", "\n</tool_call>"),
    (CODER, "no tool_call", "", "<function=weather>\n<parameter=city>\nZ\u00fcrich\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "</function>\n</tool_call>", "", "", [WEATHER]),
    (CODER, "call after text", "", TEXT + "\n<function=now>\n</function>\n</tool_call>", "", TEXT, [NOW]),
    (CODER, "not a tool", "", "Use <function=f>.", "", "Use <function=f>.", []),
    (CODER, "text", "", "I use <function> and <parameter=x>.", "", "I use <function> and <parameter=x>.", []),
    (CODER, "cut", "", "<tool_call>\n<function=weather>\n<parameter=city>\nZ", "", "<tool_call>\n<function=weather>\n<parameter=city>\nZ", []),
    # GPT-OSS.
    (GPT, "preamble", "", "<|channel|>analysis<|message|>" + WHY + "<|end|>" + channel("<|channel|>commentary", TEXT)
     + "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + ARGS, WHY, TEXT, [WEATHER]),
    (GPT, "role", "", "<|channel|>analysis<|message|>" + WHY + "<|end|>"
     "<|start|>assistant to=functions.weather<|channel|>commentary <|constrain|>json<|message|>" + ARGS, WHY, "", [WEATHER]),
    (GPT, "two", "", "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + ARGS + "<|call|>"
     "<|start|>assistant<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>", "", "", [WEATHER, NOW]),
    (GPT, "twice thought", "", "<|channel|>analysis<|message|>" + WHY + "<|end|>" + channel("<|channel|>analysis", "And more.")
     + "<|start|>assistant<|channel|>final<|message|>" + TEXT + "<|return|>", WHY + "\nAnd more.", TEXT, []),
    (GPT, "analysis call", "", "<|channel|>analysis to=functions.weather code<|message|>" + ARGS, "", "", [WEATHER]),
    (GPT, "final", "", "<|channel|>final<|message|> a <|b ", "", " a <|b ", []),
    # Mistral.
    (NEMO, "spaced", "", "[TOOL_CALLS] [" + JSON + "]", "", "", [WEATHER], "mistral", "[TOOL_CALLS]", None),
    (NEMO, "text first", "", TEXT + "[TOOL_CALLS][" + JSON + ", " + BARE + "]", "", TEXT, [WEATHER, NOW]),
    (NEMO, "string", "", '[TOOL_CALLS][{"name": "weather", "arguments": "{\\"city\\": \\"Z\u00fcrich\\", \\"days\\": 2}"}]', "", "",
     [WEATHER], "mistral", "[TOOL_CALLS]", None),
    (NEMO, "new", "", "[TOOL_CALLS]weather[ARGS]" + ARGS + "[TOOL_CALLS]now[ARGS]{}", "", "", [WEATHER, NOW]),
    (SMALL, "new", "", "[TOOL_CALLS]weather[ARGS]" + ARGS, "", "", [WEATHER], "mistral", "[TOOL_CALLS]", None),
    (SMALL, "old", "", "[TOOL_CALLS][" + JSON + "]", "", "", [WEATHER], "mistral", "[TOOL_CALLS]", None),
    (SMALL, "text", "", "[tool] [x] [TOOL_CALL", "", "[tool] [x] [TOOL_CALL", []),
    # Cohere.
    (COMMAND, "action", "", 'Action:\n```json\n[\n    {\n        "tool_name": "weather",\n        "parameters": {\n            "city": "Z\u00fcrich",\n'
     '            "days": 2\n        }\n    }\n]```', "", "", [WEATHER]),
    (COMMAND, "two", "", 'Action: ```json\n[\n    {"tool_name": "weather", "parameters": ' + ARGS + '},\n    {"tool_name": "now", "parameters": {}}\n]\n```',
     "", "", [WEATHER, NOW]),
    (COMMAND, "text", "", "Actions: none.", "", "Actions: none.", []),
    (COMMAND7, "response", "", "<|START_THINKING|>" + WHY + "<|END_THINKING|><|START_RESPONSE|>" + TEXT + "<|END_RESPONSE|>", WHY, TEXT, []),
    (COMMAND7, "tight", "", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", "parameters": ' + ARGS + "}]<|END_ACTION|>",
     "", "", [WEATHER]),
    # Granite 3.
    (GRANITE, "one", "", "<|tool_call|>[" + JSON + "]", "", "", [WEATHER]),
    (GRANITE, "two", "", "<|tool_call|>[" + JSON + ", " + BARE + "]", "", "", [WEATHER, NOW]),
    (GRANITE, "thought", "", "<think>" + WHY + "</think>\n\n<response>" + TEXT + "</response>", WHY, TEXT, []),
    (G20B, "two", "", "<function_call> " + JSON + "\n<function_call> " + BARE, "", "", [WEATHER, NOW]),
    # Phi-4-mini.
    (PHI4, "one", "", "<|tool_call|>[" + JSON + "]<|/tool_call|>", "", "", [WEATHER]),
    (PHI4, "functools", "", "functools[" + JSON + ", " + BARE + "]", "", "", [WEATHER, NOW]),
    (PHI4, "word", "", "functools is a module.", "", "functools is a module.", []),
    # Lists in marks.
    (JAMBA, "one", "", "<tool_calls>[\n    " + JSON + "\n]</tool_calls>", "", "", [WEATHER]),
    (JAMBA, "two", "", TEXT + "\n<tool_calls>[" + JSON + ",\n" + BARE + "]</tool_calls>", "", TEXT, [WEATHER, NOW]),
    (INTERN, "parameters", "", TEXT + '<|action_start|><|plugin|>\n{"name": "weather", "parameters": ' + ARGS + "}<|action_end|>\n",
     "", TEXT, [WEATHER]),
    (APRIEL6, "thought", "o", WHY + "\n[BEGIN FINAL RESPONSE]\n" + TEXT + "\n", WHY, TEXT + "\n", []),
    (APRIEL6, "call", "o", WHY + "\n[BEGIN FINAL RESPONSE]\n<tool_calls>[" + JSON + "]</tool_calls>", WHY, "", [WEATHER]),
    (FUNCTIONARY, "all", "", "all\n" + TEXT + ">>>weather\n" + ARGS, "", TEXT, [WEATHER]),
    # Keys and values.
    (LONGCAT, "one", "", "<longcat_tool_call>weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Z\u00fcrich"
     "</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n<longcat_arg_value>2</longcat_arg_value>\n</longcat_tool_call>",
     "", "", [WEATHER], "longcat", "<longcat_tool_call>", "</longcat_tool_call>"),
    (LONGCAT, "types", "", "<longcat_tool_call>note\n<longcat_arg_key>title</longcat_arg_key>\n<longcat_arg_value>123</longcat_arg_value>\n"
     "<longcat_arg_key>tags</longcat_arg_key>\n<longcat_arg_value>[\"x\"]</longcat_arg_value>\n<longcat_arg_key>pinned</longcat_arg_key>\n"
     "<longcat_arg_value>true</longcat_arg_value>\n</longcat_tool_call>", "", "",
     [("note", {"title": "123", "tags": ["x"], "pinned": True})], "longcat", "<longcat_tool_call>", "</longcat_tool_call>"),
    (LONGCAT, "thought", "", "<longcat_think>\n" + WHY + "\n</longcat_think>\n" + TEXT, WHY, TEXT, []),
    (DOTS, "two", "", TEXT + "\n<dots_function_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Z\u00fcrich</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</dots_function_call>", "", TEXT, [WEATHER, NOW]),
    (GCML, "one", "", "<\uff5cGCML\uff5ctool_calls>\n<\uff5cGCML\uff5cinvoke name=\"weather\">\n<\uff5cGCML\uff5cparameter name=\"city\" "
     "string=\"true\">Z\u00fcrich</\uff5cGCML\uff5cparameter>\n<\uff5cGCML\uff5cparameter name=\"days\" string=\"false\">2"
     "</\uff5cGCML\uff5cparameter>\n</\uff5cGCML\uff5cinvoke>\n</\uff5cGCML\uff5ctool_calls>", "", "", [WEATHER]),
    (IQUEST, "one", "o", WHY + "</think><iquest_tool_call>weather<arg_key>city</arg_key><arg_value>Z\u00fcrich</arg_value>"
     "<arg_key>days</arg_key><arg_value>2</arg_value></iquest_tool_call>", WHY, "", [WEATHER]),
    (HORIZON, "two", "", "<ifm|think>" + WHY + "</ifm|think><ifm|tool_calls><ifm|tool_call>weather\n<ifm|arg_key>city</ifm|arg_key>\n"
     "<ifm|arg_value>Z\u00fcrich</ifm|arg_value>\n<ifm|arg_key>days</ifm|arg_key>\n<ifm|arg_value>2</ifm|arg_value>\n</ifm|tool_call>"
     "<ifm|tool_call>" + BARE + "</ifm|tool_call></ifm|tool_calls>", WHY, "", [WEATHER, NOW]),
    (STEP3, "two", "", "<\uff5ctool_calls_begin\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c><steptml:invoke name=\"weather\">"
     "<steptml:parameter name=\"city\">Z\u00fcrich</steptml:parameter><steptml:parameter name=\"days\">2</steptml:parameter></steptml:invoke>"
     "<\uff5ctool_call_end\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c><steptml:invoke name=\"now\"></steptml:invoke>"
     "<\uff5ctool_call_end\uff5c><\uff5ctool_calls_end\uff5c>", "", "", [WEATHER, NOW]),
    (GLM, "glm", "", "\n<think>" + WHY + "</think>\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Z\u00fcrich</arg_value>\n"
     "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>", WHY, "", [WEATHER], "glm47", "<tool_call>", "</tool_call>"),
    (GLM, "cut", "", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Z", "", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Z", []),
    (SEED, "budget", "", "<seed:think>" + WHY + "<seed:cot_budget_reflect>I have used 10 tokens.</seed:cot_budget_reflect></seed:think>" + TEXT,
     WHY + "<seed:cot_budget_reflect>I have used 10 tokens.</seed:cot_budget_reflect>", TEXT, []),
    (M2, "broken name", "", "<minimax:tool_call>\n<invoke name=\"weather\"\n<minimax:tool_call>\n<invoke name=\"now\">\n</invoke>\n"
     "</minimax:tool_call>", "", "<minimax:tool_call>\n<invoke name=\"weather\"", [NOW]),
    (KIMI, "ids", "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" + ARGS
     + "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
     "", "", [WEATHER, NOW], "kimi_k2", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    # Templates without tools: nothing is a call, thoughts are.
    (PLAIN, "no format", "", hermes(JSON), "", hermes(JSON), []),
    (PLAIN, "thought", "", "<think>" + WHY + "</think>" + TEXT, WHY, TEXT, []),
    (PLAIN, "no thought", "", "a <think> b </think> c", "", "a <think> b </think> c", []),
    (PLAIN, "only the end", "", "</think>\n\n" + TEXT, "", TEXT, []),
    (PLAIN, "empty", "", "", "", "", []),
    (PLAIN, "space", "n", " \n", "", " \n", []),
    (V3, "one", "", "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>weather\n```json\n"
     + ARGS + "\n```<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>", "", "", [WEATHER]),
]
