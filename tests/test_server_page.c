// The chat page, as a person uses it, in a headless Chromium over a server with a model whose
// answer is known. Where there is no Chromium the test is skipped. With MLXCEL_PICTURES=FOLDER it
// leaves pictures to look at.
#include "server_client.h"
#include "browser.h"

enum { SKIPPED = 77 }; // CMake knows it

#define MODEL_PAGE (FIXTURES "/page")
#define SHIFT      8

static struct server s;
static struct browser b;

// The page of a server, with an empty store.
static void open_page(const struct server *of, const char *path) {
    char url[80];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", of->port, path);
    page_load(&b, url);
}

static void open_new(const struct server *of) {
    open_page(of, "/");
    page_run(&b, "localStorage.clear()");
    browser_do(&b, "Page.reload", "{}");
    page_wait(&b, "typeof runs !== 'undefined' && document.readyState === 'complete'");
}

static void open_ready(void) {
    open_new(&s);
    page_wait(&b, "$('model').textContent === 'page'");
}

static void check_happy(void) {
    if (b.complaints.n) fail_msg("the page complains: %s", b.complaints.p);
}

#define ANSWERED "runs.size === 0 && chat.messages.at(-1)?.role === 'assistant'"
#define LAST     "document.querySelector('article:last-child')"
#define BUTTON(at, text)                                                                           \
    "[..." at ".querySelectorAll('button')].find(b => b.textContent === '" text "')"

static void say(const char *text) {
    page_click(&b, "box");
    page_type(&b, text);
    page_key(&b, "Enter", 0);
    page_wait(&b, ANSWERED);
}

static void set_field(const char *name, const char *value) {
    struct str e = {0};
    str_printf(&e, "fields['%s']", name);
    page_click(&b, "$('open-settings')");
    page_click(&b, e.p);
    page_run(&b, "document.activeElement.select?.()");
    page_type(&b, value);
    page_key(&b, "Escape", 0);
    page_check(&b, "$('settings').open", "false");
    str_free(&e);
}

// --- the document --------------------------------------------------------------------------------

static void headers(void **state) {
    struct answer a, c;
    (void)state;
    get(&s, &a, "/");
    get(&s, &c, "/index.html");
    assert_int_equal(a.status, 200);
    assert_true(has_header(&a, "Content-Type: text/html; charset=utf-8"));
    assert_true(has_header(&a, "X-Content-Type-Options: nosniff"));
    assert_true(sv_find(str_sv(&a.head), sv("Content-Security-Policy: default-src 'none'; "), 0) >
                0);
    assert_true(sv_eq(str_sv(&a.body), str_sv(&c.body)));
    // Nothing is fetched from elsewhere, and no string becomes HTML.
    static const char *const never[] = {"src=",           "@import",        "url(", "innerHTML",
                                        "insertAdjacent", "document.write", "eval("};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        assert_true(sv_find(str_sv(&a.body), sv(never[i]), 0) < 0);
    answer_free(&a);
    answer_free(&c);
}

static void no_page(void **state) {
    struct server other;
    struct answer a;
    (void)state;
    server_start(&other, ARGS("-m", MODEL_PAGE, "--no-webui"));
    get(&other, &a, "/");
    expect_refusal(&a, 404, NULL, "--no-webui");
    answer_free(&a);
    assert_int_equal(server_stop(&other), 0);
}

// The policy holds: what could make HTML of a string is refused by the browser itself.
static void policy(void **state) {
    (void)state;
    open_ready();
    page_check(&b,
               "(() => { try { document.createElement('p').innerHTML = '<b>x</b>'; }"
               " catch (e) { return e.name; } })()",
               "TypeError");
    page_check(&b,
               "(() => { const s = document.createElement('style'); s.append('body{color:red}');"
               " document.head.append(s); return getComputedStyle(document.body).color; })()",
               "rgb(28, 30, 33)");
    page_check(&b, "fetch('data:,x').then(() => 'got', () => 'refused')", "refused");
    assert_true(b.complaints.n > 0);
    str_clear(&b.complaints);
}

// --- answers -------------------------------------------------------------------------------------

static void answer_shown(void **state) {
    (void)state;
    open_ready();
    page_check(&b, "document.activeElement === box", "true"); // one may begin to type
    say("What is 1 + 2?");
    page_check(&b, "chat.messages.length", "2");
    page_check(&b, "document.querySelector('article.user .text').textContent", "What is 1 + 2?");
    // Reasoning is folded.
    page_check(&b, LAST ".querySelector('details').open", "false");
    page_check(&b, LAST ".querySelector('details p').textContent", "Two numbers in, one out.");
    page_check(&b, LAST ".querySelector('summary').textContent.startsWith('Thought')", "true");
    page_click(&b, LAST ".querySelector('summary')");
    page_check(&b, LAST ".querySelector('details').open", "true");
    page_check(&b, LAST ".querySelector('strong').textContent", "sum");
    page_check(&b, LAST ".querySelector('pre').textContent",
               "int sum(int a, int b) {\n    return a + b; // a < 2^30\n}");
    page_check(&b, LAST ".querySelector('figcaption span').textContent", "c");
    page_check(&b, LAST ".querySelector('figure').ariaLabel", "Code in c");
    page_check(&b, LAST ".querySelector('.copy').ariaLabel", "Copy the code");
    page_check(&b,
               "[...document.querySelectorAll('.actions button')].map(b => b.textContent).join()",
               "Copy,Edit,Copy,Edit,Regenerate");
    page_check(&b, "[..." LAST ".querySelectorAll('td')].map(c => c.textContent).join()", "1,2,3");
    // What looks like HTML is text, and links lead to the web alone.
    page_check(&b, LAST ".querySelector('li').textContent",
               "<img src=x onerror=\"document.title='mine'\">");
    page_check(&b, "document.images.length + document.title", "0page");
    page_check(&b, "[..." LAST ".querySelectorAll('a')].map(a => a.href).join()",
               "https://example.org/a?b=c");
    page_check(&b,
               "/^\\d+ tokens, \\d+\\.\\d tokens\\/s$/.test(" LAST
               ".querySelector('.stats').textContent)",
               "true");
    page_click(&b, BUTTON(LAST, "Copy"));
    page_wait(&b, "$('notice').textContent === 'Copied.'");
    page_check(&b, "$('spoken').textContent.includes('Done, w\xc3\xb6rld')", "true");
    check_happy();
}

static void kept(void **state) {
    (void)state;
    open_ready();
    say("Keep this");
    browser_do(&b, "Page.reload", "{}");
    page_wait(
        &b,
        "document.readyState === 'complete' && document.querySelectorAll('article').length === 2");
    page_check(&b, LAST ".querySelector('strong').textContent", "sum");
    page_check(&b, "document.querySelector('#chats [aria-current]').textContent", "Keep this");
    check_happy();
}

static void again(void **state) {
    (void)state;
    open_ready();
    say("One");
    say("Two");
    page_click(&b, BUTTON(LAST, "Regenerate"));
    page_wait(&b, ANSWERED " && chat.messages.length === 4");
    // A question that was changed is asked again; what came after it is gone.
    page_click(&b, BUTTON("document.querySelector('article')", "Edit"));
    page_check(&b, "document.activeElement.value", "One");
    page_run(&b, "document.activeElement.select()");
    page_type(&b, "Three");
    page_key(&b, "Enter", 0);
    page_wait(&b, ANSWERED " && chat.messages.length === 2");
    assert_true(sv_find(str_sv(&b.posted), sv("\"Three\""), 0) > 0);
    assert_true(sv_find(str_sv(&b.posted), sv("\"Two\""), 0) < 0);
    page_click(&b, BUTTON("$('notice')", "Undo"));
    page_check(&b, "chat.messages.map(m => m.role === 'user' ? m.content : '').join()",
               "One,,Two,");
    page_click(&b, BUTTON("document.querySelector('article')", "Edit"));
    page_run(&b, "document.activeElement.select()");
    page_type(&b, "Three");
    page_click(&b, BUTTON("document.querySelector('article')", "Send"));
    page_wait(&b, ANSWERED " && chat.messages.length === 2");
    // An answer that was changed is what the model is told.
    page_click(&b, BUTTON(LAST, "Edit"));
    page_run(&b, "document.activeElement.select()");
    page_type(&b, "It is *four*.");
    page_click(&b, BUTTON(LAST, "Save"));
    page_check(&b, LAST ".querySelector('em').textContent", "four");
    say("Why?");
    assert_true(sv_find(str_sv(&b.posted), sv("\"It is *four*.\""), 0) > 0);
    page_click(&b, BUTTON("document.querySelector('article')", "Edit"));
    page_key(&b, "Escape", 0);
    page_check(&b, "chat.messages.length + document.activeElement.textContent", "4Edit");
    check_happy();
}

static void stopping(void **state) {
    (void)state;
    open_ready();
    set_field("more", "{\"ignore_eos\": true}");
    for (int escape = 0; escape < 2; escape++) {
        page_click(&b, "$('new')"); // the model is fast, and its context not endless
        page_type(&b, "Go on");
        page_click(&b, "$('send')");
        page_wait(&b, "chat.messages.at(-1).tokens > 1");
        page_check(&b, "$('send').ariaLabel", "Stop");
        if (escape)
            page_key(&b, "Escape", 0);
        else
            page_click(&b, "$('send')");
        page_wait(&b, ANSWERED);
        page_check(&b, LAST ".querySelector('.stats').textContent.endsWith('stopped')", "true");
    }
    server_wait_for(&s, "cancelled"); // the server is told
    check_happy();
}

static void settings(void **state) {
    static const char *const want[] = {
        "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"},",
        "\"temperature\":0.5",
        "\"top_k\":3",
        "\"seed\":7",
        "\"stop\":[\"Done\"]",
        "\"stream\":true"};
    (void)state;
    open_ready();
    set_field("system", "Be brief");
    set_field("temperature", "0.5");
    set_field("top_k", "3");
    set_field("seed", "7");
    set_field("more", "{\"stop\": [\"Done\"]}");
    browser_do(&b, "Page.reload", "{}"); // they are kept
    page_wait(&b, "typeof runs !== 'undefined' && document.readyState === 'complete'");
    say("Hi");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (sv_find(str_sv(&b.posted), sv(want[i]), 0) < 0) fail_msg("%s: %s", want[i], b.posted.p);
    assert_true(sv_find(str_sv(&b.posted), sv("top_p"), 0) < 0);
    page_check(&b, LAST ".textContent.includes('Done')", "false");
    set_field("max_tokens", "9");
    say("Hi");
    page_check(&b,
               LAST ".querySelector('.stats').textContent.endsWith('cut at the limit of tokens')",
               "true");
    set_field("more", "  ");
    say("Hi");
    page_check(&b, LAST ".querySelector('.wrong').textContent", "");
    set_field("more", "[1");
    say("Hi");
    page_check(&b, LAST ".querySelector('.wrong').textContent",
               "A setting is wrong. More fields of the request, as JSON: This is no JSON object.");
    set_field("more", "{\"top_p\": 7}");
    page_click(&b, BUTTON(LAST, "Try again"));
    page_wait(&b, ANSWERED " && chat.messages.at(-1).error?.includes('top_p')");
    check_happy();
}

// The fields show what the server does where they are empty, and the dialog whether they are in
// use.
static void settings_shown(void **state) {
    (void)state;
    open_ready();
    page_wait(&b, "fields.top_k.placeholder !== ''");
    page_check(
        &b,
        "['temperature', 'top_k', 'top_p', 'min_p', 'repetition_penalty', 'max_tokens', 'seed']"
        ".map(name => fields[name].placeholder).join()",
        "0.7,40,0.95,0.05,1,no limit,random");
    page_check(&b, "$('saved').textContent", "All values are the server's.");
    page_check(&b, "$('open-settings').ariaLabel", "Settings");
    page_click(&b, "$('open-settings')");
    page_click(&b, "fields.top_p");
    page_type(&b, "7");
    page_check(&b, "$('saved').textContent.startsWith('Not in use. Top-p: ')", "true");
    page_run(&b, "fields.top_p.select()");
    page_type(&b, "0.5");
    page_check(&b, "$('saved').textContent", "Saved, and in use from the next answer on.");
    page_picture(&b, "settings-saved");
    page_click(&b, "fields.more");
    page_type(&b, "[1");
    page_click(&b, BUTTON("$('settings')", "Done"));
    page_click(&b, "$('close-settings')");
    page_check(&b, "$('settings').open + $('saved').textContent",
               "trueNot in use. More fields of the request, as JSON: This is no JSON object.");
    page_run(&b, "fields.more.select()");
    page_type(&b, "  ");
    page_click(&b, BUTTON("$('settings')", "Done"));
    page_check(&b, "$('settings').open + $('open-settings').ariaLabel",
               "falseSettings, some of them yours");
    check_happy();
}

static void conversations(void **state) {
    (void)state;
    open_ready();
    say("First");
    page_click(&b, "$('new')");
    page_check(&b, "document.querySelectorAll('article').length", "0");
    say("Second");
    page_check(&b, "[...document.querySelectorAll('#chats .open')].map(b => b.textContent).join()",
               "Second,First");
    page_click(&b, "document.querySelectorAll('#chats .open')[1]");
    page_check(&b, "document.querySelector('article .text').textContent", "First");
    page_run(&b, "history.back()");
    page_wait(&b, "document.querySelector('article .text').textContent === 'Second'");
    page_click(&b, "document.querySelector('[aria-label=\"Rename Second\"]')");
    page_type(&b, "Other");
    page_key(&b, "Enter", 0);
    page_check(&b, "chat.title", "Other");
    page_click(&b, "document.querySelector('[aria-label=\"Rename Other\"]')");
    page_type(&b, "No");
    page_key(&b, "Escape", 0);
    page_check(&b, "chat.title + allChats()[0].title", "OtherOther");
    page_click(&b, "document.querySelector('[aria-label=\"Delete Other\"]')");
    page_check(&b, "allChats().map(c => c.title).join()", "First");
    page_check(&b, "document.querySelectorAll('article').length", "0");
    page_click(&b, BUTTON("$('notice')", "Undo"));
    page_check(&b, "allChats().map(c => c.title).join()", "Other,First");
    page_check(&b, "document.querySelector('article .text').textContent", "Second");
    check_happy();
}

// An answer goes on while another conversation is looked at.
static void two_at_once(void **state) {
    (void)state;
    open_ready();
    set_field("more", "{\"ignore_eos\": true, \"max_tokens\": 3000}");
    page_click(&b, "box");
    page_type(&b, "Long");
    page_key(&b, "Enter", 0);
    page_wait(&b, "chat.messages.at(-1).tokens > 1");
    page_click(&b, "$('new')");
    page_check(&b, "$('send').ariaLabel", "Send");
    page_wait(&b, "runs.size === 0");
    page_check(&b, "chat.messages.length", "0");
    page_click(&b, "document.querySelector('#chats .open')");
    page_check(&b, "chat.messages.at(-1).tokens", "3000");
    check_happy();
}

// The server ends while it answers: what came stays, and one may try again.
static void server_gone(void **state) {
    struct server other;
    (void)state;
    server_start(&other, ARGS("-m", MODEL_PAGE));
    open_new(&other);
    page_wait(&b, "$('model').textContent === 'page'");
    set_field("more", "{\"ignore_eos\": true}");
    page_click(&b, "box");
    page_type(&b, "Go on");
    page_key(&b, "Enter", 0);
    page_wait(&b, "chat.messages.at(-1).tokens > 1");
    page_type(&b, "And then");
    page_key(&b, "Enter", 0); // not now
    page_check(&b, "$('notice').firstChild.data", "The answer is still being written.");
    page_check(&b, "box.value + chat.messages.length", "And then2");
    kill(other.pid, SIGKILL);
    page_wait(&b, ANSWERED);
    page_check(&b, LAST ".querySelector('.wrong').textContent",
               "The connection to the server was lost before the answer's end.");
    page_check(&b, "chat.messages.at(-1).content.length > 0", "true");
    page_check(&b, "$('notice').textContent", ""); // nothing is being written
    page_check(&b, "log.scrollHeight - log.scrollTop - log.clientHeight < 2", "true");
    page_picture(&b, "lost");
    page_click(&b, BUTTON(LAST, "Try again"));
    page_wait(&b, ANSWERED " && chat.messages.at(-1).error === \"The server can't be reached.\"");
    assert_int_equal(server_end(&other), 128 + SIGKILL);
}

// A conversation that the context can't hold, and an answer that fills it.
static void too_long(void **state) {
    struct server other;
    (void)state;
    server_start(&other, ARGS("-m", MODEL_PAGE, "-c", "256", "-np", "1"));
    open_new(&other);
    page_wait(&b, "$('model').textContent === 'page'");
    set_field("more", "{\"ignore_eos\": true}");
    say("Go on");
    page_check(&b, LAST ".querySelector('.stats').textContent.endsWith('cut: the context is full')",
               "true");
    page_run(&b, "box.value = '12'.repeat(600)");
    page_click(&b, "$('send')");
    page_wait(&b, ANSWERED " && chat.messages.length === 4");
    page_check(&b,
               "/^The conversation is too long: .*--ctx-size.*\\. Begin a new one, edit/.test(" LAST
               ".querySelector('.wrong').textContent)",
               "true");
    page_picture(&b, "too-long");
    check_happy();
    assert_int_equal(server_stop(&other), 0);
}

static void keys(void **state) {
    struct server other;
    (void)state;
    server_start(&other, ARGS("-m", MODEL_PAGE, "--api-key", "sesame"));
    open_new(&other);
    page_wait(&b, "$('ask-key').open && document.activeElement === $('key')");
    page_wait(&b, "$('model').textContent === 'The server wants a key.'");
    page_check(&b, "$('key-wrong').textContent", "");
    page_picture(&b, "key");
    page_type(&b, "wrong");
    page_key(&b, "Enter", 0);
    page_wait(&b, "$('ask-key').open && document.activeElement === $('key') &&"
                  " $('key-wrong').textContent === 'The server does not know this key.'");
    // Who has none now may have one later.
    page_key(&b, "Escape", 0);
    page_wait(&b, BUTTON("$('notice')", "Enter it") " !== undefined");
    page_click(&b, BUTTON("$('notice')", "Enter it"));
    page_wait(&b, "$('ask-key').open && document.activeElement === $('key')");
    page_run(&b, "$('key').select()");
    page_type(&b, "sesame");
    page_key(&b, "Enter", 0);
    page_wait(&b, "$('model').textContent === 'page'");
    page_check(&b, "$('ask-key').open + fields.key.value", "falsesesame");
    say("Hi");
    page_check(&b, LAST ".querySelector('strong').textContent", "sum");
    check_happy();
    assert_int_equal(server_stop(&other), 0);
    page_click(&b, BUTTON(LAST, "Regenerate"));
    page_wait(&b, ANSWERED " && chat.messages.at(-1).error === \"The server can't be reached.\"");
}

// --- for everybody -------------------------------------------------------------------------------

static void themes(void **state) {
    static const char ink[] = "getComputedStyle(document.body).color";
    static const char light[] = "rgb(28, 30, 33)", dark[] = "rgb(228, 231, 235)";
    (void)state;
    open_ready();
    say("Show me");
    for (int i = 0; i < 2; i++) {
        browser_do(&b, "Emulation.setEmulatedMedia",
                   i ? "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"dark\"}]}"
                     : "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"light\"}]}");
        page_wait(&b,
                  i ? "$('theme').ariaPressed === 'true'" : "$('theme').ariaPressed === 'false'");
        page_check(&b, ink, i ? dark : light);
        page_picture(&b, i ? "dark" : "light");
    }
    page_click(&b, "$('theme')");
    page_check(&b, ink, light);
    browser_do(&b, "Page.reload", "{}");
    page_wait(&b, "typeof runs !== 'undefined' && document.readyState === 'complete'");
    page_check(&b, ink, light);
    page_click(&b, "$('theme')");
    page_check(&b, ink, dark);
    page_click(&b, "$('open-settings')");
    page_picture(&b, "settings");
    page_key(&b, "Escape", 0);
    page_click(&b, LAST ".querySelector('summary')");
    page_run(&b, "log.scrollTop = 0");
    page_picture(&b, "reasoning");
    browser_do(&b, "Emulation.setEmulatedMedia", "{\"features\":[]}");
    check_happy();
}

static void phone(void **state) {
    (void)state;
    browser_do(&b, "Emulation.setDeviceMetricsOverride",
               "{\"width\":320,\"height\":640,\"deviceScaleFactor\":2,\"mobile\":true}");
    open_ready();
    page_check(&b, "$('side').checkVisibility()", "false");
    page_click(&b, "box");
    page_type(&b, "A question that is rather long, longer than the narrow window is wide");
    page_click(&b, "$('send')");
    page_wait(&b, ANSWERED);
    // Nothing is wider than the page, and nothing too small for a finger.
    page_check(&b, "document.documentElement.scrollWidth + ' ' + log.scrollWidth", "320 320");
    page_check(&b,
               "[...document.querySelectorAll('button')].filter(b => b.checkVisibility() &&"
               " b.getBoundingClientRect().height < 24).map(b => b.textContent).join()",
               "");
    page_picture(&b, "phone");
    page_click(&b, "$('menu')");
    page_check(&b, "$('side').checkVisibility() + $('menu').ariaExpanded", "truetrue");
    page_picture(&b, "phone-menu");
    page_key(&b, "Escape", 0);
    page_check(&b, "$('side').checkVisibility()", "false");
    page_click(&b, "$('menu')");
    page_click(&b, "$('send')"); // beside it
    page_check(&b, "$('side').checkVisibility()", "false");
    page_click(&b, "$('open-settings')");
    page_check(&b, "$('settings').scrollWidth <= 320", "true");
    // However far it is scrolled, it says whether it is saved.
    page_check(&b,
               "(r => r.top >= 0 && r.bottom <= innerHeight)($('saved').getBoundingClientRect())",
               "true");
    page_picture(&b, "phone-settings");
    page_key(&b, "Escape", 0);
    browser_do(&b, "Emulation.clearDeviceMetricsOverride", "{}");
    check_happy();
}

// Everything can be reached and worked by the keyboard.
static void keyboard(void **state) {
    static const char *const want[] = {"Skip to the message box",
                                       "New conversation",
                                       "First",
                                       "Rename First",
                                       "Delete First",
                                       "Dark",
                                       "Settings",
                                       "Messages"};
    (void)state;
    open_ready();
    say("First");
    page_run(&b, "$('skip').focus()");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        if (i) page_key(&b, "Tab", 0);
        page_check(&b, "document.activeElement.ariaLabel ?? document.activeElement.textContent",
                   want[i]);
    }
    page_key(&b, "Tab", SHIFT);
    page_key(&b, "Enter", 0);
    page_check(&b, "$('settings').open", "true");
    page_key(&b, "Escape", 0);
    page_check(&b, "document.activeElement.id", "open-settings");
    page_click(&b, "box");
    page_type(&b, "two");
    page_key(&b, "Enter", SHIFT);
    page_check(&b, "box.value", "two\n");
    check_happy();
}

// Whatever can be worked has a name, for who can't see it.
static void names(void **state) {
    static const char *const roles[] = {"button",     "textbox", "spinbutton",
                                        "combobox",   "dialog",  "log",
                                        "navigation", "article", "DisclosureTriangle"};
    size_t seen = 0;
    (void)state;
    open_ready();
    say("First");
    page_click(&b, "$('open-settings')");
    for (int round = 0; round < 2; round++) {
        struct json_object *tree = browser_call(&b, "Accessibility.getFullAXTree", "{}");
        struct json_object *nodes = json_at(tree, "nodes");
        for (size_t i = 0; i < json_object_array_length(nodes); i++) {
            struct json_object *node = json_object_array_get_idx(nodes, i);
            struct sv role = json_text_at(json_at(node, "role"), "value");
            struct sv name = json_text_at(json_at(node, "name"), "value");
            bool wanted = false;
            for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
                wanted |= sv_is(role, roles[k]);
            if (wanted && !name.n) fail_msg("%s", json_object_to_json_string(node));
            seen += wanted;
        }
        json_object_put(tree);
        page_key(&b, "Escape", 0); // the second round is without the settings
    }
    assert_true(seen > 25);
}

// --- Markdown ------------------------------------------------------------------------------------

static void markdown(void **state) {
    static const struct {
        const char *text, *html;
    } cases[] = {
        {"a\nb\n\nc", "<p>a<br>b</p><p>c</p>"},
        {"# One\n### Three ##\nC#", "<h3>One</h3><h5>Three</h5><p>C#</p>"},
        {"**a *b* c** ***d*** _e_ __f__ ~~g~~",
         "<p><strong>a <em>b</em> c</strong> <strong><em>d</em></strong> <em>e</em> "
         "<strong>f</strong> <del>g</del></p>"},
        {"snake_case_name 2 * 3 * 4 **open * \\*not\\*",
         "<p>snake_case_name 2 * 3 * 4 **open * *not*</p>"},
        {"`a` ``b ` c`` `open", "<p><code>a</code> <code>b ` c</code> `open</p>"},
        {"- a\n- b\n  - c\n\n    d\n3. e",
         "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p><p>d</p></li></ul></li></ul>"
         "<ol start=\"3\"><li><span>e</span></li></ol>"},
        {"Born in\n1986. Yes\n1. a\n2. b",
         "<p>Born in<br>1986. Yes</p>"
         "<ol start=\"1\"><li><span>a</span></li><li><span>b</span></li></ol>"},
        {"> a\n> > b\n\nc",
         "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>"},
        {"***\na\n---", "<hr><p>a</p><hr>"},
        {"|a|b|\n|-|-|\n|`1`|x\\|y|\n|2|\nend",
         "<div class=\"table\" role=\"group\" aria-label=\"Table\"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>"
         "<tr><td><code>1</code></td><td>x|y</td></tr><tr><td>2</td></tr></tbody></table></div><p>end</p>"},
        {"<b>no</b> &amp; <br>x", "<p>&lt;b&gt;no&lt;/b&gt; &amp;amp; <br>x</p>"},
        {"[a](https://e.org/x_(y)) see https://e.org/z. [b](data:x) ![c](http://e.org/i.png \"t\")",
         "<p><a href=\"https://e.org/x_(y)\">a</a> see <a href=\"https://e.org/z\">https://e.org/z</a>. "
         "[b](data:x) <a href=\"http://e.org/i.png\">c</a></p>"},
    };
    (void)state;
    open_page(&s, "/");
    page_run(
        &b,
        "globalThis.html = text => { const node = document.createElement('div');"
        " new MarkdownView(node).show(text);"
        " return node.innerHTML.replaceAll(' target=\"_blank\" rel=\"noopener noreferrer\"', '')"
        "     .replaceAll(' tabindex=\"0\"', '').replaceAll(' style=\"\"', ''); };");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str e = {0};
        str_puts(&e, "html(");
        json_quote(&e, sv(cases[i].text));
        str_addc(&e, ')');
        page_check(&b, e.p, cases[i].html);
        str_free(&e);
    }
    // A code block keeps its white space, also in a list, and while it is being written.
    page_check(
        &b,
        "(() => { const node = document.createElement('div');"
        " new MarkdownView(node).show('1. a\\n   ```make\\n   all:\\n   \\tcc <x>\\n\\n   end');"
        " return node.querySelector('code').textContent; })()",
        "all:\n\tcc <x>\n\nend");
}

// Whatever way a text is cut, what is shown in the end is the same, and what stays keeps its nodes.
static void growing(void **state) {
    (void)state;
    open_ready();
    say("Hi");
    page_check(&b,
               "(() => { const text = chat.messages[1].content, a = document.createElement('div'),"
               " c = document.createElement('div'), view = new MarkdownView(a);"
               " let first = null;"
               " for (let n = 1; n <= text.length; n++) {"
               "   view.show(text.slice(0, n));"
               "   if (n === 40) first = a.firstChild; }"
               " new MarkdownView(c).show(text);"
               " return a.innerHTML === c.innerHTML && first === a.firstChild; })()",
               "true");
}

// Texts that are made to take long do not.
static void hostile(void **state) {
    static const char *const parts[] = {"*a ",      "**a ", "_a ",    "`",    "``a` ",
                                        "[",        "[a](", "![a](b", "> ",   "- ",
                                        "1. a\\n ", "|",    "\\\\",   "~~a ", "http://",
                                        "<br",      "#",    "``` ",   "*_",   "[a](http://e.org/(",
                                        "  - a\\n"};
    (void)state;
    open_page(&s, "/");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct str e = {0};
        str_printf(&e,
                   "(() => { const from = performance.now();"
                   " new MarkdownView(document.createElement('div')).show('%s'.repeat(20000));"
                   " return performance.now() - from < 5000; })()",
                   parts[i]);
        page_check(&b, e.p, "true");
        str_free(&e);
    }
}

// Whatever marks stand in a text, it becomes elements of these kinds, and links to the web.
static void injection(void **state) {
    (void)state;
    open_page(&s, "/");
    page_check(
        &b,
        "(() => { const parts = ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<svg/onload=',"
        "   '[a](javascript:alert(1))', '[b](java\\tscript:x)', '[c](data:text/html,<b>)', '[d](//e.org)',"
        "   '[', '](', ')', '!', '\"onclick=\"x', \"'style='y\", '```', '```\"><b>\\n', '`', '|', '|-|-|', '\\n',"
        "   '\\n\\n', '- ', '1. ', '> ', '# ', '**', '_', '~~', '&lt;b&gt;', '&#60;i&#62;', '\\\\', '<br>',"
        "   'http://e.org/<b>', 'https://e.org/\"onclick=x', '[e](https://e.org/\"><b>)', '\\0', '\\u202e',"
        "   '<a href=\"vbscript:x\">', '<!--', ']]>', ' '];"
        " const tags = new Set('P BR H3 H4 H5 H6 STRONG EM DEL CODE UL OL LI SPAN BLOCKQUOTE HR DIV TABLE THEAD"
        "   TBODY TR TH TD A FIGURE FIGCAPTION BUTTON PRE'.split(/ +/));"
        " const names = new Set('class tabindex role aria-label type start href target rel style'.split(' '));"
        " let seed = 1;"
        " const pick = n => (seed = seed * 48271 % 2147483647) % n;"
        " for (let i = 0; i < 4000; i++) {"
        "   const node = document.createElement('div');"
        "   let text = '';"
        "   for (let k = pick(12); k >= 0; k--) text += parts[pick(parts.length)];"
        "   new MarkdownView(node).show(text);"
        "   for (const e of node.querySelectorAll('*')) {"
        "     const bad = !tags.has(e.tagName) || [...e.attributes].some(a => !names.has(a.name)) ||"
        "       (e.href !== undefined && !/^(https?|mailto):/.test(e.href)) ||"
        "       (e.hasAttribute('style') && !/^(text-align: (center|right);)?$/.test(e.getAttribute('style')));"
        "     if (bad) return text + ' gives ' + e.outerHTML; } }"
        " return 'fine'; })()",
        "fine");
    check_happy();
}

static int start(void **state) {
    (void)state;
    server_start(&s, ARGS("-m", MODEL_PAGE));
    browser_open(&b);
    return 0;
}

static int stop(void **state) {
    (void)state;
    browser_close(&b);
    return server_stop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),        cmocka_unit_test(no_page),
        cmocka_unit_test(policy),         cmocka_unit_test(answer_shown),
        cmocka_unit_test(kept),           cmocka_unit_test(again),
        cmocka_unit_test(stopping),       cmocka_unit_test(settings),
        cmocka_unit_test(conversations),  cmocka_unit_test(two_at_once),
        cmocka_unit_test(settings_shown), cmocka_unit_test(server_gone),
        cmocka_unit_test(too_long),       cmocka_unit_test(keys),
        cmocka_unit_test(themes),         cmocka_unit_test(phone),
        cmocka_unit_test(keyboard),       cmocka_unit_test(names),
        cmocka_unit_test(markdown),       cmocka_unit_test(growing),
        cmocka_unit_test(hostile),        cmocka_unit_test(injection),
    };
    if (!browser_program()) {
        print_message("skipped: no Chromium here (make deps installs it)\n");
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("server page", tests, start, stop);
}
