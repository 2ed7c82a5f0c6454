// mlxcel-server behind nginx, over a socket that is a file. Skipped where there is no nginx.
#include "server_client.h"

#define NGINX   "/usr/sbin/nginx"
#define ENDLESS "\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":-1"
#define STREAM  "{\"prompt\":\"\\n\",\"stream\":true," ENDLESS "}"

static char dir[] = "/tmp/test_proxy.XXXXXX";
static struct server server, proxy; // proxy: only its pid and port
static bool there;

static int free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void write_config(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "daemon off; master_process off; pid %s/pid; error_log stderr;\n"
            "events {}\n"
            "http {\n"
            "  access_log off; client_body_temp_path %s; proxy_temp_path %s;\n"
            "  fastcgi_temp_path %s; uwsgi_temp_path %s; scgi_temp_path %s;\n"
            "  server {\n"
            "    listen 127.0.0.1:%d;\n"
            "    location / {\n"
            "      proxy_pass http://unix:%s/a.sock:;\n"
            "      proxy_http_version 1.1;\n"
            "      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n"
            "    }\n"
            "  }\n"
            "}\n",
            dir, dir, dir, dir, dir, dir, proxy.port, dir);
    fclose(f);
}

static int start(void **state) {
    char path[64], config[64];
    (void)state;
    there = access(NGINX, X_OK) == 0;
    if (!there) return 0;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.sock", dir);
    snprintf(config, sizeof config, "%s/conf", dir);
    server_start(&server, ARGS("-m", MODEL, "--host", path, "-np", "1", "--log-forwarded",
                               "--sse-ping-interval", "1"));
    proxy.port = free_port();
    write_config(config);
    proxy.pid = fork();
    if (proxy.pid == 0) {
        execl(NGINX, "nginx", "-p", dir, "-c", config, "-e", "stderr", (char *)NULL);
        _exit(127);
    }
    for (int fd; (fd = client_socket(&proxy, 0)) < 0; usleep(5000)) // until it listens
        assert_int_equal(waitpid(proxy.pid, NULL, WNOHANG), 0);
    return 0;
}

static int stop(void **state) {
    static const char *const files[] = {"conf", "pid"};
    char path[64];
    (void)state;
    if (!there) return 0;
    kill(proxy.pid, SIGTERM);
    waitpid(proxy.pid, NULL, 0);
    int code = server_stop(&server);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
    return code;
}

static void whole(void **state) {
    (void)state;
    if (!there) skip();
    expect_text_from(&proxy, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING, "stop");
    server_wait_for(&server, "info: unix(127.0.0.1) req_");
}

// The few bytes of a comment come at once, and a client's leaving is seen behind the proxy.
static void streams(void **state) {
    struct str all = {0};
    (void)state;
    if (!there) skip();
    int first = client_open(&proxy), second = client_open(&proxy);
    client_ask(first, "POST", TEXT, "", sv(STREAM));
    client_take_until(first, &all, "Hello");
    str_clear(&all);
    client_ask(second, "POST", TEXT, "", sv(STREAM));
    client_take_until(second, &all, ":\n\n");
    assert_true(sv_find(str_sv(&all), sv("data:"), 0) < 0);
    close(first);
    client_take_until(second, &all, "Hello"); // the place is free
    close(second);
    expect_text_from(&proxy, TEXT, "{\"prompt\":\"\\n\",\"temperature\":0}", GREETING, "stop");
    str_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(streams),
    };
    return cmocka_run_group_tests_name("server_proxy", tests, start, stop);
}
