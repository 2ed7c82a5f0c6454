// The chat page. A conversation is {id, title, used, messages}, a message {role, content, reasoning,
// note, error, tokens, rate, thought}; each conversation is an item of its own in localStorage,
// so that tabs which show different ones do not write over each other.

const $ = id => document.getElementById(id);
const log = $("log"), box = $("prompt"), fields = $("fields").elements;
const CHAT = "mlxcel.chat.", SETTINGS = "mlxcel.settings", THEME = "mlxcel.theme";
const TITLE_MOST = 60;

let chat = null;           // the conversation on the page
let mostTokens = Infinity; // of an answer, where the settings say nothing
const runs = new Map();    // answers that are being written: id of the conversation -> run
const views = new Map();   // message on the page -> its view

// --- storage -------------------------------------------------------------------------------------

// Where a browser is told to keep nothing, nothing is kept longer than the page.
const store = (() => { try { return localStorage; } catch { return {}; } })();

function read(key) {
    try { return JSON.parse(store[key]); } catch { return null; }
}

function write(key, value) {
    try {
        store[key] = JSON.stringify(value);
    } catch {
        notice("This browser has no room left to keep conversations: delete some.");
    }
}

const newChat = () => ({id: Math.random().toString(36).slice(2), title: "", used: 0, messages: []});
const loadChat = id => runs.get(id)?.chat ?? read(CHAT + id);

function saveChat(c) {
    if (c.messages.length && !c.deleted) write(CHAT + c.id, c);
}

// The newest first.
function allChats() {
    const keys = Object.keys(store).filter(key => key.startsWith(CHAT));
    return keys.map(read).filter(c => Array.isArray(c?.messages)).sort((a, b) => b.used - a.used);
}

// --- small things --------------------------------------------------------------------------------

function button(text, action, properties) {
    const node = make("button", {type: "button", textContent: text, ...properties});
    node.addEventListener("click", action);
    return node;
}

function icon(name, label, action) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", "#icon-" + name);
    svg.setAttribute("aria-hidden", "true");
    svg.append(use);
    const node = button("", action, {className: "icon", title: label, ariaLabel: label});
    node.append(svg);
    return node;
}

// Stays until the next one, or until it is closed: nobody has to hurry. Returns what closes it.
function notice(text, label, action) {
    const node = document.createTextNode(text);
    const close = () => { if (node.isConnected) $("notice").replaceChildren(); };
    $("notice").replaceChildren(node);
    if (action) $("notice").append(button(label, () => { close(); action(); }));
    $("notice").append(icon("close", "Close", close));
    return close;
}

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch { // only pages by https and of this machine have a clipboard
        const area = make("textarea", {value: text, className: "unseen"});
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
    notice("Copied.");
}

// Enter sends; on a phone, which has no Shift-Enter, it makes a line.
function isEnter(event) {
    return event.key === "Enter" && !event.shiftKey && !event.isComposing &&
        !matchMedia("(pointer: coarse)").matches;
}

// --- settings ------------------------------------------------------------------------------------

function loadSettings() {
    const settings = read(SETTINGS) ?? {};
    for (const field of fields) if (field.name) field.value = settings[field.name] ?? "";
    showSettings();
}

function saveSettings() {
    const settings = {};
    for (const field of fields) if (field.name && field.value) settings[field.name] = field.value;
    write(SETTINGS, settings);
    showSettings();
}

// What is wrong with a field, or "".
function wrongField() {
    fields.more.setCustomValidity(moreFields() ? "" : "This is no JSON object.");
    const field = [...fields].find(f => !f.checkValidity());
    return field ? `${field.labels[0].firstChild.data.trim()}: ${field.validationMessage}` : "";
}

// Whether they are in use, and a mark where they are not the server's.
function showSettings() {
    const wrong = wrongField();
    const own = wrong !== "" || [...fields].some(f => f.name && f.name !== "key" && f.value.trim());
    const label = own ? "Settings, some of them yours" : "Settings";
    $("saved").textContent = wrong ? "Not in use. " + wrong
        : own ? "Saved, and in use from the next answer on." : "All values are the server's.";
    $("saved").classList.toggle("wrong", wrong !== "");
    $("open-settings").classList.toggle("changed", own);
    $("open-settings").ariaLabel = $("open-settings").title = label;
}

// The server's values, where a field is empty.
function showDefaults(params) {
    const text = n => Number.isFinite(n) ? String(Number(n.toPrecision(4))) : "";
    for (const name of ["temperature", "top_k", "top_p", "min_p"])
        fields[name].placeholder = text(params[name]);
    fields.repetition_penalty.placeholder = text(params.repeat_penalty);
    fields.max_tokens.placeholder = params.max_tokens < 0 ? "no limit" : text(params.max_tokens);
    mostTokens = params.max_tokens < 0 ? Infinity : params.max_tokens;
    fields.seed.placeholder = params.seed === 2 ** 32 - 1 ? "random" : text(params.seed);
}

// The object in the field for more of them; null when it is none.
function moreFields() {
    let more = null;
    try { more = JSON.parse(fields.more.value.trim() || "{}"); } catch { return null; }
    return typeof more === "object" && !Array.isArray(more) ? more : null;
}

function showTheme() {
    const theme = store[THEME];
    const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.style.colorScheme = theme ?? "";
    $("theme").ariaPressed = String(dark);
    return dark;
}

// The other of light and dark; where the system has that too, from now on whatever the system has.
function switchTheme() {
    const next = showTheme() ? "light" : "dark";
    if (matchMedia(`(prefers-color-scheme: ${next})`).matches) delete store[THEME];
    else store[THEME] = next;
    showTheme();
}

// --- the server ----------------------------------------------------------------------------------

const wait = ms => new Promise(done => setTimeout(done, ms));
let looking = false; // for the model

// Paths are relative, so that the page may stand behind a proxy, under a path.
async function request(path, options) {
    const headers = {"Content-Type": "application/json"};
    if (fields.key.value) headers.Authorization = "Bearer " + fields.key.value;
    let response = null;
    try {
        response = await fetch(path, {...options, headers});
    } catch (e) {
        if (e.name === "AbortError") throw e;
        throw new Error("The server can't be reached.");
    }
    if (response.ok) return response;
    const error = (await response.json().catch(() => null))?.error;
    let text = error?.message ?? "The server says " + response.status;
    if (response.status === 401) {
        text = "The server wants a key.";
        askKey();
    }
    if (error?.code === "context_length_exceeded") text = "The conversation is too long: " + text +
        ". Begin a new one, edit an earlier message (what follows it goes), or have the server"
        + " started with a larger context.";
    throw Object.assign(new Error(text), {status: response.status});
}

function askKey() {
    if ($("ask-key").open) return;
    $("key-wrong").textContent = fields.key.value ? "The server does not know this key." : "";
    $("key").value = fields.key.value;
    $("ask-key").returnValue = "";
    $("ask-key").showModal();
    $("key").select();
}

function takeKey() {
    if ($("ask-key").returnValue !== "use" || !$("key").value)
        return notice("The server wants a key.", "Enter it", askKey);
    fields.key.value = $("key").value;
    saveSettings();
    showModel();
}

// Where a proxy hides them, the fields stay without.
async function loadDefaults() {
    try {
        showDefaults((await (await request("props")).json()).default_generation_settings.params);
    } catch { return; }
}

// Shows the model's name, once it is loaded.
async function showModel() {
    if (looking) return;
    for (looking = true; looking; await wait(1000)) {
        try {
            const models = await (await request("v1/models")).json();
            $("model").textContent = document.title = models.data[0].id;
            looking = false;
            loadDefaults();
        } catch (e) {
            $("model").textContent = e.status === 503 ? "The model is being loaded…" : e.message;
            looking = e.status !== 401; // with another key it is looked for again
        }
    }
}

// The objects of a stream of server-sent events, which ends with [DONE].
async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
        const {value, done} = await reader.read().catch(e => {
            if (e.name === "AbortError") throw e;
            return {done: true};
        });
        if (done) throw new Error("The connection to the server was lost before the answer's end.");
        const lines = (text + value).split("\n");
        text = lines.pop();
        for (const line of lines) {
            if (line === "data: [DONE]") return;
            if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
        }
    }
}

function requestBody(run) {
    const messages = run.chat.messages.filter(m => m !== run.message && m.content)
        .map(({role, content}) => ({role, content}));
    if (fields.system.value) messages.unshift({role: "system", content: fields.system.value});
    const body = {messages, stream: true, timings_per_token: true};
    const wrong = wrongField();
    if (wrong) throw new Error("A setting is wrong. " + wrong);
    for (const field of fields)
        if (field.value && field.type === "number") body[field.name] = Number(field.value);
    if (fields.enable_thinking.value) body.enable_thinking = fields.enable_thinking.value === "true";
    return Object.assign(body, moreFields());
}

// Adds what an event says to the answer.
function take(run, event) {
    const m = run.message, choice = event.choices?.[0], delta = choice?.delta ?? {};
    if (event.error) throw new Error(event.error.message);
    if (event.timings) {
        m.tokens = event.timings.predicted_n;
        m.rate = event.timings.predicted_per_second;
    }
    if (choice?.finish_reason === "length")
        m.note = m.tokens >= run.most ? "cut at the limit of tokens" : "cut: the context is full";
    m.content += delta.content ?? "";
    m.reasoning += delta.reasoning_content ?? "";
    if (delta.reasoning_content) m.thought = (performance.now() - run.began) / 1000;
}

// Has the conversation answered, and shows the answer as it comes.
async function answer(c) {
    const message = {role: "assistant", content: "", reasoning: "", tokens: 0};
    const run = {chat: c, message, abort: new AbortController(), began: performance.now()};
    let drawn = 0;
    c.messages.push(message);
    c.used = Date.now();
    runs.set(c.id, run);
    saveChat(c);
    draw();
    log.scrollTop = log.scrollHeight;
    try {
        const body = requestBody(run);
        run.most = body.max_completion_tokens ?? body.max_tokens ?? mostTokens;
        const response = await request("v1/chat/completions",
            {method: "POST", body: JSON.stringify(body), signal: run.abort.signal});
        for await (const event of events(response)) {
            take(run, event);
            drawn ||= requestAnimationFrame(() => {
                drawn = 0;
                follow(() => views.get(message)?.update());
            });
        }
    } catch (e) {
        if (e.name === "AbortError") message.note = "stopped";
        else message.error = e.message;
    }
    runs.delete(c.id);
    run.said?.();
    saveChat(c);
    if (c !== chat) return;
    follow(draw);
    $("spoken").textContent = message.error ?? message.note ?? views.get(message).text.textContent;
}

// --- messages ------------------------------------------------------------------------------------

function stats(m) {
    const parts = [];
    if (m.tokens) parts.push(`${m.tokens} token${m.tokens > 1 ? "s" : ""}`);
    if (m.rate) parts.push(`${m.rate.toFixed(1)} tokens/s`);
    if (m.note) parts.push(m.note);
    return parts.join(", ");
}

// The nodes of a message. `update` brings them to what the message says now.
class View {
    constructor(m) {
        this.message = m;
        this.text = make("div", {className: "text"});
        this.markdown = new MarkdownView(this.text);
        this.thoughts = make("p");
        this.summary = make("summary");
        this.details = make("details", {hidden: true}, this.summary, this.thoughts);
        this.error = make("p", {className: "wrong"});
        this.stats = make("span", {className: "stats"});
        this.actions = make("div", {className: "actions"});
        this.node = make("article", {className: m.role, ariaLabel: m.role === "user" ? "You" : "Answer"},
            this.details, this.text, this.error, make("footer", {}, this.actions, this.stats));
        this.update();
    }

    update() {
        const m = this.message, run = runs.get(chat.id), running = run?.message === m;
        if (m.role === "user") this.text.textContent = m.content;
        else this.markdown.show(m.content);
        this.node.classList.toggle("running", running);
        this.details.hidden = !m.reasoning;
        this.thoughts.textContent = m.reasoning;
        this.summary.textContent = running && !m.content ? "Thinking…"
            : m.thought >= 0.1 ? `Thought for ${m.thought.toFixed(1)} s` : "Thought";
        this.error.textContent = m.error ?? "";
        this.stats.textContent = stats(m);
        if (run) this.actions.replaceChildren();
        else if (!this.actions.children.length) this.actions.append(...this.buttons());
    }

    buttons() {
        const m = this.message, edit = button("Edit", () => this.edit(), {className: "edit"});
        const copying = button("Copy", () => copy(m.content));
        if (m.role === "user") return [copying, edit];
        const again = button(m.error ? "Try again" : "Regenerate", () => answerFrom(m));
        return m.content ? [copying, edit, again] : [again];
    }

    // A question that was changed is asked again, and what came after it is gone; an answer that was
    // changed is what the model is told that it said.
    edit() {
        const m = this.message, user = m.role === "user";
        const area = make("textarea", {value: m.content, rows: 4, ariaLabel: "Edit the message"});
        const end = () => {
            draw();
            views.get(m)?.actions.querySelector(".edit")?.focus();
        };
        const save = () => {
            if (!area.value.trim()) return;
            if (user) return answerFrom(m, area.value);
            m.content = area.value;
            saveChat(chat);
            end();
        };
        area.addEventListener("keydown", event => {
            if (event.key === "Escape") end();
            else if (isEnter(event) && user) save();
            else return;
            event.preventDefault();
        });
        this.text.replaceChildren(area);
        this.actions.replaceChildren(button(user ? "Send" : "Save", save), button("Cancel", end));
        area.focus();
    }
}

// Who is at the end stays there; who scrolled up stays where they are.
function follow(change) {
    const below = log.scrollHeight - log.scrollTop - log.clientHeight;
    change();
    if (below < 48) log.scrollTop = log.scrollHeight;
}

// Makes an answer again, or asks what a question was changed to; what came after it goes.
function answerFrom(m, question) {
    const c = chat, at = c.messages.indexOf(m), gone = c.messages.splice(at);
    if (question) c.messages.push({role: "user", content: question});
    log.focus();
    answer(c);
    if (gone.length < 2) return;
    notice("The messages from there on are gone.", "Undo", () => {
        runs.get(c.id)?.abort.abort();
        c.messages.splice(at, Infinity, ...gone);
        saveChat(c);
        show(c.id);
    });
}

// --- the page ------------------------------------------------------------------------------------

function draw() {
    const running = runs.has(chat.id);
    views.clear();
    for (const m of chat.messages) views.set(m, new View(m));
    log.replaceChildren(...[...views.values()].map(view => view.node));
    if (!chat.messages.length) log.append(make("p", {className: "empty", textContent: "Ask something."}));
    $("send").ariaLabel = $("send").title = running ? "Stop" : "Send";
    $("send").querySelector("use").setAttribute("href", running ? "#icon-stop" : "#icon-send");
    drawChats();
}

function drawChats() {
    $("chats").replaceChildren(...allChats().map(c => {
        const open = button(c.title, () => show(c.id), {className: "open"});
        const item = make("li", {}, open, icon("rename", "Rename " + c.title, () => rename(c, item)),
            icon("delete", "Delete " + c.title, () => remove(c)));
        if (c.id === chat.id) open.ariaCurrent = "page";
        return item;
    }));
}

function rename(c, item) {
    const input = make("input", {value: c.title, ariaLabel: "Title", maxLength: 200});
    let over = false;
    const end = save => {
        if (over) return; // the field also loses the focus when it goes
        over = true;
        const now = loadChat(c.id), title = input.value.trim();
        if (save && title && now) {
            now.title = title;
            if (now.id === chat.id) chat.title = title;
            saveChat(now);
        }
        drawChats();
    };
    input.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault();  // the button that gets the focus is not pressed
        event.stopPropagation(); // Escape stops no answer here
        end(event.key === "Enter");
        $("new").focus();
    });
    input.addEventListener("blur", () => end(true));
    item.replaceChildren(input);
    input.focus();
    input.select();
}

function remove(c) {
    const gone = loadChat(c.id) ?? c;
    runs.get(c.id)?.abort.abort();
    gone.deleted = true;
    delete store[CHAT + c.id];
    if (c.id === chat.id) show(""); else drawChats();
    $("new").focus();
    notice("The conversation is deleted.", "Undo", () => {
        delete gone.deleted;
        saveChat(gone);
        show(gone.id);
    });
}

function showSide(shown) {
    document.body.classList.toggle("side", shown);
    $("menu").ariaExpanded = String(shown);
}

// The address names the conversation, so that a reload and the browser's way back lead to it.
function show(id) {
    const found = id ? loadChat(id) : null;
    chat = found ?? newChat();
    history[id === location.hash.slice(1) ? "replaceState" : "pushState"](null, "", found ? "#" + id : "#");
    showSide(false);
    draw();
    log.scrollTop = log.scrollHeight;
}

function send() {
    const text = box.value.trim();
    if (!text) return;
    chat.title ||= text.replace(/\s+/g, " ").slice(0, TITLE_MOST);
    chat.messages.push({role: "user", content: text});
    box.value = "";
    answer(chat);
    history.replaceState(null, "", "#" + chat.id);
}

function sayRunning(run) {
    run.said = notice("The answer is still being written.", "Stop it", () => run.abort.abort());
}

function stopOrSend() {
    const run = runs.get(chat.id);
    if (run) run.abort.abort(); else send();
}

$("composer").addEventListener("submit", event => {
    event.preventDefault();
    stopOrSend();
});
box.addEventListener("keydown", event => {
    if (!isEnter(event)) return;
    event.preventDefault();
    if (!runs.has(chat.id)) send();
    else if (box.value.trim()) sayRunning(runs.get(chat.id));
});
document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (document.body.classList.contains("side")) showSide(false);
    else runs.get(chat.id)?.abort.abort();
});
log.addEventListener("click", event => {
    const figure = event.target.closest(".copy")?.closest("figure");
    if (figure) copy(figure.querySelector("code").textContent);
});
document.addEventListener("click", event => {
    if (!event.target.closest("#side, #menu")) showSide(false);
});
$("skip").addEventListener("click", () => box.focus());
$("menu").addEventListener("click", () => showSide(!document.body.classList.contains("side")));
$("new").addEventListener("click", () => {
    show("");
    box.focus();
});
$("theme").addEventListener("click", switchTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
$("open-settings").addEventListener("click", () => $("settings").showModal());
// What is wrong keeps them open, with its message; Escape leaves them all the same.
$("close-settings").addEventListener("click", () => {
    if ($("fields").reportValidity()) $("settings").close();
});
$("settings").addEventListener("close", showModel);
$("fields").addEventListener("input", saveSettings);
$("no-key").addEventListener("click", () => $("ask-key").close());
$("ask-key").addEventListener("close", takeKey);
window.addEventListener("hashchange", () => show(location.hash.slice(1)));
window.addEventListener("storage", event => {
    if (event.key === SETTINGS) loadSettings();
    drawChats();
});
window.addEventListener("pagehide", () => runs.forEach(run => saveChat(run.chat)));

loadSettings();
showTheme();
show(location.hash.slice(1));
showModel();
