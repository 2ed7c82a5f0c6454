#!/usr/bin/env python3
"""Makes C++ of preprocessed CUDA (g++ -E on standard input): in text of the files under a folder
given as argument, inline PTX becomes calls of functions in ptx.h, named for the instruction;
variables in shared memory become references into the running block's; launches become calls."""
import re
import sys

labels = 0


def scan(text, at):
    """Places from `at` on that are in no string, each with its character and how many brackets are
    open behind it."""
    depth = 0
    while at < len(text):
        c = text[at]
        if c == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == '\\' else 1
        else:
            depth += (c in '([{') - (c in ')]}')
            yield at, c, depth
        at += 1


def end_of(text, at):
    """Just behind the parenthesis that closes the one at `at`."""
    return next(i for i, c, depth in scan(text, at) if c in ')]}' and depth == 0) + 1


def split(text, at_char):
    """Parts between a character that is in no brackets and no string."""
    parts, start = [], 0
    for at, c, depth in scan(text, 0):
        if c == at_char and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [p.strip() for p in parts]


def operand(text, operands, names):
    """An operand of an instruction as an expression; {a, b} as an array, of pointers if written."""
    text = text.strip()
    if text.startswith('[') and text.endswith(']'):
        return ', '.join(operand(t, operands, names) for t in split(text[1:-1], ','))
    if text.startswith('{') and text.endswith('}'):
        items = split(text[1:-1], ',')
        written = all(re.fullmatch(r'%\d+', i) and operands[int(i[1:])][0] for i in items)
        made = [operand(i, operands, names) for i in items]
        return f"ptx::{'places' if written else 'values'}({', '.join(made)})"
    if re.fullmatch(r'%\d+', text):
        return f'({operands[int(text[1:])][1]})'
    if text.startswith('%%'):
        return f'ptx::{text[2:]}()'
    if text == '_':
        return 'ptx::nowhere()'
    return names.get(text, text)


def instruction(text, operands, names):
    text = text.strip()
    if not text:
        return ''
    m = re.match(r'(\w+):\s*(.*)', text, re.S)
    if m and not m.group(2).startswith(':'):
        return f'{names[m.group(1)]}:; ' + instruction(m.group(2), operands, names)
    m = re.match(r'@(!?)(\w+)\s+(.*)', text, re.S)
    if m:
        return f'if ({m.group(1)}{names[m.group(2)]}) {{ {instruction(m.group(3), operands, names)} }}'
    m = re.match(r'bra\s+(\w+)', text)
    if m:
        return f'goto {names[m.group(1)]};'
    m = re.match(r'\.reg\s+\.(\w+)\s+(.*)', text, re.S)
    if m:
        types = {'pred': 'bool', 'b64': 'uint64_t', 'b32': 'uint32_t', 'u32': 'uint32_t',
                 'f32': 'float', 'b16': 'uint16_t'}
        own = ', '.join(names[n] for n in split(m.group(2), ','))
        return f'{types[m.group(1)]} {own};'
    m = re.match(r'(\S+)\s*(.*)', text, re.S)
    name, rest = m.group(1), m.group(2)
    name = re.sub(r'\.(L1::no_allocate|L2::(64B|128B|256B|cache_hint))', '', name)
    name = re.sub(r'\.m64n\d+k', '.m64k', name)
    name = re.sub(r'(::|\.)', '_', name)
    return f"ptx::{name}({', '.join(operand(o, operands, names) for o in split(rest, ',') if o)});"


def assembly(inside):
    global labels
    inside = re.sub(r'^# \d+ .*$', '', inside, flags=re.M)
    inside = inside.replace('::', ': :') if '"' in inside else inside
    parts = split(inside, ':')
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', parts[0])
    code = ''.join(strings).replace('\\n', '\n').replace('\\t', ' ').replace(': :', '::')
    operands = []
    for which, part in enumerate(parts[1:3]):
        for o in split(part, ','):
            m = re.match(r'"([^"]*)"\s*\((.*)\)$', o, re.S)
            if m:
                operands.append((which == 0, m.group(2).replace(': :', '::')))
    code = code.strip()
    if code.startswith('{'):
        code = code[1:code.rindex('}')]
    labels += 1
    own = re.findall(r'(?:^|[;\s])(\w+):(?!:)', code)  # labels, and registers
    for r in re.findall(r'\.reg\s+\.\w+\s+([^;]*);', code):
        own += split(r, ',')
    names = {n: f'{n}_{labels}' for n in own}
    lines = re.split(r';', code)
    return '{ ' + ' '.join(instruction(l, operands, names) for l in lines) + ' }'


def shared(text):
    """Declarations of variables in shared memory."""
    text = re.sub(r'__attribute__\s*\(\(.*?\)\)', '', text).strip()
    parts = split(text, ',')
    m = re.match(r'(.*?)(\w+)\s*((?:\[.*\])?)$', parts[0], re.S)
    kind, out = m.group(1).strip(), ''
    for p in [m.group(2) + m.group(3)] + parts[1:]:
        name, dims = re.match(r'(\w+)\s*(.*)', p, re.S).groups()
        out += (f'static emu::slot slot_of_{name}; '
                f'auto &{name} = *({kind} (*){dims})emu::shared(slot_of_{name}, '
                f'sizeof({kind}{dims})); ')
    return out


def translate(text):
    out, at = '', 0
    pattern = re.compile(r'\basm\s*(?:volatile)?\s*\(|\bextern\s+EMU_SHARED\s+(\w+)\s+(\w+)\s*\[\s*\]'
                         r'\s*;|\bEMU_SHARED\b|\b(\w+)<<<(.*?)>>>', re.S)
    while True:
        m = pattern.search(text, at)
        if not m:
            return out + text[at:]
        out += text[at:m.start()]
        if m.group(1):
            at, made = m.end(), f'{m.group(1)} *{m.group(2)} = ({m.group(1)} *)emu::dynamic();'
        elif m.group(3):
            at, made = m.end(), f'emu::chevrons({m.group(3)}, {m.group(4)})'
        elif m.group().startswith('EMU_SHARED'):
            at = text.index(';', m.end())
            made = shared(text[m.end():at])
        else:
            open_at = m.end() - 1
            at = end_of(text, open_at)
            made = assembly(text[open_at + 1:at - 1])
            at = text.index(';', at) + 1
        out += made + '\n' * text[m.start():at].count('\n')


def main():
    folder, own, chunk = sys.argv[1], False, []
    out = []

    def flush():
        text = ''.join(chunk)
        out.append(translate(text) if own else text)
        chunk.clear()

    for line in sys.stdin:
        m = re.match(r'# \d+ "(.*?)"', line)
        if m and own != (folder in m.group(1)):
            flush()
            own = not own
            out.append(line)
        elif line.startswith('#pragma unroll'):
            chunk.append('\n')
        else:
            chunk.append(line)
    flush()
    sys.stdout.write(''.join(out))


main()
