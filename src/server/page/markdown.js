// Markdown as models write it, made into nodes. What it says only ever becomes the text of a node,
// or a link to the web; no string is read as HTML.
//
// However long the text, and whatever is in it, the time is about linear: a mark whose end is not
// found is not looked for again, and what may nest does so MARKDOWN_DEPTH times.
"use strict"; // page.js too, which follows in the same script

const MARKDOWN_DEPTH = 8, LINK_MOST = 2000;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: +(.*))?$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^[ \t]*(?:[-*+]|\d{1,9}[.)])(?: +|$)/;
const COLUMNS = /^\|?(?: *:?-+:? *\|)* *:?-+:? *\|?$/;

function make(tag, properties, ...children) {
    const node = document.createElement(tag);
    Object.assign(node, properties);
    node.append(...children);
    return node;
}

// --- blocks --------------------------------------------------------------------------------------

const empty = line => !line.trim();
const isItem = line => ITEM.test(line) && !RULE.test(line);
const isOrdered = line => /^[ \t]*\d/.test(line);
const columns = space => space === "\t" ? 4 : 1;

function indent(line) {
    let n = 0;
    for (let i = 0; line[i] === " " || line[i] === "\t"; i++) n += columns(line[i]);
    return n;
}

// The line without so much of the white space that it begins with.
function outdent(line, n) {
    let i = 0;
    while (n > 0 && (line[i] === " " || line[i] === "\t")) n -= columns(line[i++]);
    return line.slice(i);
}

function isTable(lines, at) {
    return lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") &&
        COLUMNS.test(lines[at + 1].trim());
}

// Whether a block begins at a line that follows a paragraph's. A number does not, unless it is 1:
// it may be the year that a sentence ends with.
function begins(lines, at) {
    const line = lines[at];
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
        (isItem(line) && (!isOrdered(line) || /^\s*1[.)]/.test(line))) || isTable(lines, at);
}

function fenceEnd(lines, at) {
    const mark = lines[at].match(FENCE)[1];
    for (let i = at + 1; i < lines.length; i++) {
        const line = lines[i].trim();
        if (line.startsWith(mark) && line === mark[0].repeat(line.length)) return i + 1;
    }
    return lines.length; // it is still being written
}

// A list goes on with items of its kind, with indented lines, and with the text of a paragraph.
function listEnd(lines, at) {
    const own = indent(lines[at]);
    let end = at + 1;
    for (let i = at + 1; i < lines.length; i++) {
        if (empty(lines[i])) continue;
        const deeper = indent(lines[i]) >= own + 2;
        const sibling = isItem(lines[i]) && isOrdered(lines[i]) === isOrdered(lines[at]);
        const lazy = end === i && !begins(lines, i) && !isItem(lines[i]);
        if (!deeper && !sibling && !lazy) break;
        end = i + 1;
    }
    return end;
}

function blockEnd(lines, at) {
    const line = lines[at];
    let end = at + 1;
    if (FENCE.test(line)) return fenceEnd(lines, at);
    if (HEADING.test(line) || RULE.test(line)) return end;
    if (isItem(line)) return listEnd(lines, at);
    const table = isTable(lines, at), quote = QUOTE.test(line);
    const inside = i => table ? lines[i].includes("|")
        : (quote && QUOTE.test(lines[i])) || !begins(lines, i);
    while (end < lines.length && !empty(lines[end]) && inside(end)) end++;
    return end;
}

// The lines of each block.
function blocksOf(lines) {
    const blocks = [];
    for (let at = 0; at < lines.length;) {
        const end = empty(lines[at]) ? at + 1 : blockEnd(lines, at);
        if (!empty(lines[at])) blocks.push(lines.slice(at, end));
        at = end;
    }
    return blocks;
}

function codeBlock(lines) {
    const [, mark, info] = lines[0].match(FENCE);
    const closed = lines.length > 1 && lines.at(-1).trim().startsWith(mark);
    const own = indent(lines[0]);
    const code = lines.slice(1, closed ? -1 : undefined)
        .map(line => outdent(line, own)).join("\n");
    const language = info.trim().split(/\s/)[0].slice(0, 40);
    const name = language ? "Code in " + language : "Code";
    // What can be scrolled can be reached, and so needs a name.
    return make("figure", {className: "code", ariaLabel: name},
        make("figcaption", {}, make("span", {textContent: language || "code"}),
            make("button", {type: "button", className: "copy", textContent: "Copy",
                ariaLabel: "Copy the code"})),
        make("pre", {tabIndex: 0, role: "group", ariaLabel: name}, make("code", {textContent: code})));
}

function listBlock(lines, depth) {
    const own = indent(lines[0]), ordered = isOrdered(lines[0]);
    const tight = !lines.some(empty);
    const list = make(ordered ? "ol" : "ul");
    if (ordered) list.start = parseInt(lines[0], 10);
    for (let at = 0; at < lines.length;) {
        const head = lines[at].match(ITEM)[0].length;
        let end = at + 1;
        while (end < lines.length && !(isItem(lines[end]) && indent(lines[end]) < own + 2)) end++;
        const rest = lines.slice(at + 1, end).map(line => outdent(line, head));
        const item = make("li");
        appendBlocks(item, [lines[at].slice(head), ...rest], depth + 1, tight);
        list.append(item);
        at = end;
    }
    return list;
}

function cells(line) {
    return line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/)
        .map(cell => cell.trim().replaceAll("\\|", "|"));
}

function tableBlock(lines) {
    const align = cells(lines[1]).map(rule =>
        rule.endsWith(":") ? rule.startsWith(":") ? "center" : "right" : "");
    const row = (line, tag) => {
        const node = make("tr");
        for (const [i, text] of cells(line).slice(0, align.length).entries()) {
            const cell = make(tag, {}, ...inline(text, 0));
            cell.style.textAlign = align[i];
            node.append(cell);
        }
        return node;
    };
    const body = lines.slice(2).map(line => row(line, "td"));
    return make("div", {className: "table", tabIndex: 0, role: "group", ariaLabel: "Table"},
        make("table", {}, make("thead", {}, row(lines[0], "th")), make("tbody", {}, ...body)));
}

// One node. In a tight list a paragraph has no box of its own.
function blockNode(lines, depth, tight) {
    const line = lines[0], heading = line.match(HEADING);
    if (FENCE.test(line)) return codeBlock(lines);
    if (heading) {
        // The page has a heading of its own above these.
        const level = Math.min(heading[1].length + 2, 6);
        return make("h" + level, {}, ...inline((heading[2] ?? "").trim().replace(/ #+$/, ""), 0));
    }
    if (RULE.test(line)) return make("hr");
    if (isItem(line) && depth < MARKDOWN_DEPTH) return listBlock(lines, depth);
    if (QUOTE.test(line) && depth < MARKDOWN_DEPTH) {
        const quote = make("blockquote");
        appendBlocks(quote, lines.map(l => l.replace(QUOTE, "")), depth + 1, false);
        return quote;
    }
    if (isTable(lines, 0)) return tableBlock(lines);
    return make(tight ? "span" : "p", {}, ...inline(lines.map(l => l.trim()).join("\n"), 0));
}

function appendBlocks(node, lines, depth, tight) {
    for (const block of blocksOf(lines)) node.append(blockNode(block, depth, tight));
}

// --- within a line -------------------------------------------------------------------------------

const URL_HERE = /https?:\/\/[^\s<>"`]+/y, BREAK_HERE = /<br ?\/?>/iy;
const isSpace = c => c === undefined || /\s/.test(c);
const isWord = c => c !== undefined && /[\p{L}\p{N}_]/u.test(c);

// A link, if it leads to the web or to a mailbox; else null.
function link(address) {
    if (!URL.canParse(address)) return null;
    const url = new URL(address);
    if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
    return make("a", {href: url.href, target: "_blank", rel: "noopener noreferrer"});
}

// A text with its marks, from one position to the next.
class Inline {
    constructor(text, depth) {
        this.text = text;
        this.depth = depth;
        this.at = 0;
        this.nodes = [];
        this.plain = "";
        this.missing = new Set(); // marks that no longer end anything
    }

    run(at) { // how often the character at `at` follows itself
        let n = 1;
        while (this.text[at + n] === this.text[at]) n++;
        return n;
    }

    // Where the mark of an emphasis ends it, from `from` on; -1: nowhere.
    close(mark, from) {
        const c = mark[0];
        if (this.missing.has(mark)) return -1;
        for (let i = this.text.indexOf(c, from); i >= 0; i = this.text.indexOf(c, i)) {
            const n = this.run(i);
            const fits = n === mark.length || (n > 2 && c !== "~");
            if (fits && !isSpace(this.text[i - 1]) && (c !== "_" || !isWord(this.text[i + n])))
                return i + n - mark.length;
            i += n;
        }
        this.missing.add(mark);
        return -1;
    }

    add(node, end) {
        if (this.plain) this.nodes.push(this.plain);
        this.plain = "";
        this.nodes.push(node);
        this.at = end;
        return true;
    }

    code() {
        const n = this.run(this.at), mark = "`".repeat(n), from = this.at + n;
        let end = this.missing.has(mark) ? -1 : this.text.indexOf(mark, from);
        while (end >= 0 && this.run(end) !== n) end = this.text.indexOf(mark, end + this.run(end));
        if (end < 0) {
            this.missing.add(mark);
            this.plain += mark;
            this.at = from;
            return true;
        }
        const code = this.text.slice(from, end).replaceAll("\n", " ");
        return this.add(make("code", {textContent: code.trim() ? code.trim() : code}), end + n);
    }

    emphasis() {
        const c = this.text[this.at], n = Math.min(this.run(this.at), 2), from = this.at + n;
        if (this.depth >= MARKDOWN_DEPTH || isSpace(this.text[from])) return false;
        if (c === "~" && n < 2) return false;
        if (c === "_" && isWord(this.text[this.at - 1])) return false;
        const end = this.close(c.repeat(n), from + 1);
        if (end < 0) return false;
        const inner = inline(this.text.slice(from, end), this.depth + 1);
        return this.add(make(c === "~" ? "del" : n === 2 ? "strong" : "em", {}, ...inner), end + n);
    }

    // [label](address "title"); an image is a link too, as the page loads nothing from elsewhere.
    linked() {
        const text = this.text.slice(this.at, this.at + LINK_MOST), middle = text.indexOf("](");
        if (middle < 0 || this.depth >= MARKDOWN_DEPTH) return false;
        const found = /^<?((?:[^\s()<>]|\([^\s()]*\))+)>?(?:\s+["'(][^"')]*["')])?\)/
            .exec(text.slice(middle + 2));
        if (!found) return false;
        const node = link(found[1]), label = text.slice(text[0] === "!" ? 2 : 1, middle);
        if (!node) return false;
        node.append(...inline(label, this.depth + 1));
        return this.add(node, this.at + middle + 2 + found[0].length);
    }

    address() {
        URL_HERE.lastIndex = this.at;
        const found = URL_HERE.exec(this.text);
        if (!found || isWord(this.text[this.at - 1])) return false;
        let url = found[0].replace(/[.,:;!?'*_~]+$/, "");
        while (url.endsWith(")") && !url.includes("(")) url = url.slice(0, -1);
        const node = link(url);
        if (!node) return false;
        node.append(url);
        return this.add(node, this.at + url.length);
    }

    escape() {
        const next = this.text[this.at + 1];
        if (!next || !/[!-/:-@[-`{-~]/.test(next)) return false;
        this.plain += next;
        this.at += 2;
        return true;
    }

    lineBreak() {
        BREAK_HERE.lastIndex = this.at;
        const found = this.text[this.at] === "\n" ? ["\n"] : BREAK_HERE.exec(this.text);
        return found !== null && this.add(make("br"), this.at + found[0].length);
    }

    step() {
        switch (this.text[this.at]) {
        case "\\": return this.escape();
        case "`": return this.code();
        case "*": case "_": case "~": return this.emphasis();
        case "[": return this.linked();
        case "!": return this.text[this.at + 1] === "[" && this.linked();
        case "h": return this.address();
        case "\n": case "<": return this.lineBreak();
        default: return false;
        }
    }

    all() {
        while (this.at < this.text.length) {
            if (this.step()) continue;
            // An opening mark that ends nothing stands for itself, all of it.
            const n = "*_~".includes(this.text[this.at]) ? this.run(this.at) : 1;
            this.plain += this.text.slice(this.at, this.at + n);
            this.at += n;
        }
        if (this.plain) this.nodes.push(this.plain);
        return this.nodes;
    }
}

function inline(text, depth) { return new Inline(text, depth).all(); }

// --- a text that grows ---------------------------------------------------------------------------

// Shows a text in a node. While it grows, blocks that stay the same keep their nodes, and with them
// what is selected in them and where they are scrolled to.
class MarkdownView {
    constructor(node) {
        this.node = node;
        this.shown = [];
    }

    show(text) {
        const blocks = blocksOf(text.split(/\r?\n/));
        const sources = blocks.map(lines => lines.join("\n"));
        let same = 0;
        while (same < this.shown.length && sources[same] === this.shown[same]) same++;
        while (this.node.childNodes.length > same) this.node.lastChild.remove();
        for (const lines of blocks.slice(same)) this.node.append(blockNode(lines, 0, false));
        this.shown = sources;
    }
}
