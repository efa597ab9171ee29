/* SPDX-License-Identifier: Apache-2.0 */

/* What agentcrate-egress does with secrets: reads them, attaches them, takes them out of replies.
 */

#include <check.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <sys/stat.h>

#include "egress/attach.h"
#include "egress/redact.h"
#include "egress/secret.h"
#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

static void secret_of(const char *text, Secret *ret_secret) {
        ck_assert_int_eq(secret_new(strlen(text), ret_secret), 0);
        memcpy(ret_secret->data, text, strlen(text));
        ret_secret->size = strlen(text);
}

/* --- loading --- */

static void write_secret(const char *folder, const char *name, const char *text, mode_t mode) {
        _cleanup_(freep) char *path = NULL;
        int fd;

        ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t) strlen(text));
        ck_assert_int_eq(fchmod(fd, mode), 0);
        close(fd);
}

static void expect(const SecretFolders *folders, const char *name, const char *secret,
                   const char *text) {
        _cleanup_(secret_done) Secret loaded = SECRET_NULL;
        _cleanup_(freep) char *why = NULL;
        int r;

        r = secret_load(folders, name, &loaded, &why);
        ck_assert_msg((r == 0) == (secret != NULL), "%s: %d, %s", name, r, why);
        if (secret)
                ck_assert_str_eq(loaded.data, secret);
        else {
                ck_assert_int_eq(r, SECRET_E_UNUSABLE);
                ck_assert_msg(strstr(why, text), "%s: %s", name, why);
                ck_assert_ptr_nonnull(strstr(why, name));
                ck_assert_ptr_nonnull(strstr(why, ": "));
                if (!strstr(text, "is missing")) {
                        _cleanup_(freep) char *file = NULL;

                        ck_assert_int_gt(
                                asprintf(&file, "its file is %s/%s", folders->folder, name), 0);
                        ck_assert_msg(strstr(why, file), "%s: %s", name, why);
                }
        }
}

START_TEST(test_load) {
        _cleanup_(secret_folders_done) SecretFolders folders = SECRET_FOLDERS_NULL;
        _cleanup_(freep) char *big = malloc(SECRET_SIZE_MAX + 2), *link_path = NULL;
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        const char *folder;

        scratch_init(&scratch);
        folder = scratch.path;
        memset(big, 'x', SECRET_SIZE_MAX + 1);
        big[SECRET_SIZE_MAX + 1] = 0;
        write_secret(folder, "too-long", big, 0600);
        big[SECRET_SIZE_MAX] = 0;
        write_secret(folder, "longest", big, 0600);
        write_secret(folder, "plain", "a good secret", 0400);
        write_secret(folder, "with-newline", "a good secret\n", 0600);
        write_secret(folder, "empty", "", 0600);
        write_secret(folder, "newline-only", "\n", 0600);
        write_secret(folder, "two-lines", "a good secret\nand another\n", 0600);
        write_secret(folder, "two-newlines", "a good secret\n\n", 0600);
        write_secret(folder, "carriage-return", "a good secret\r\n", 0600);
        write_secret(folder, "header", "a good\r\nX-Evil: secret", 0600);
        write_secret(folder, "short", "1234567", 0600);
        write_secret(folder, "eight", "12345678", 0600);
        write_secret(folder, "control", "a good \x01 secret", 0600);
        write_secret(folder, "utf8", "a good secr\xc3\xa9t", 0600);
        write_secret(folder, "space", "a good secret ", 0600);
        write_secret(folder, "world", "a good secret", 0604);
        write_secret(folder, "group", "a good secret", 0640);
        ck_assert_int_gt(asprintf(&link_path, "%s/link", folder), 0);
        ck_assert_int_eq(symlink("plain", link_path), 0);

        ck_assert_int_eq(secret_folders_open(NULL, folder, &folders), 0);
        expect(&folders, "plain", "a good secret", NULL);
        expect(&folders, "with-newline", "a good secret", NULL);
        expect(&folders, "longest", big, NULL);
        expect(&folders, "eight", "12345678", NULL);
        expect(&folders, "missing", NULL, "is missing: write it to /");
        expect(&folders, "empty", NULL, "is empty");
        expect(&folders, "newline-only", NULL, "is empty");
        expect(&folders, "two-lines", NULL, "more than one line");
        expect(&folders, "two-newlines", NULL, "more than one line");
        expect(&folders, "carriage-return", NULL, "more than one line");
        expect(&folders, "header", NULL, "more than one line");
        expect(&folders, "short", NULL, "shorter than 8");
        expect(&folders, "too-long", NULL, "longer than 4096");
        expect(&folders, "control", NULL, "not printable ASCII");
        expect(&folders, "utf8", NULL, "not printable ASCII");
        expect(&folders, "space", NULL, "space");
        expect(&folders, "world", NULL, "can be read by everybody");
        expect(&folders, "group", NULL, "can be read by its group");
        expect(&folders, "link", NULL, "is a link");
}
END_TEST

/* systemd's comes first; a name can lead nowhere else. */
START_TEST(test_folders) {
        _cleanup_(secret_folders_done) SecretFolders folders = SECRET_FOLDERS_NULL;
        _cleanup_(freep) char *systemd = NULL, *own = NULL;
        _cleanup_(scratch_done) Scratch scratch = SCRATCH_NULL;
        const char *folder;
        static const char *const names[] = {"", ".", "..", "../own/b", "/etc/passwd", ".b", "a b"};

        scratch_init(&scratch);
        folder = scratch.path;
        ck_assert_int_gt(asprintf(&systemd, "%s/systemd", folder), 0);
        ck_assert_int_gt(asprintf(&own, "%s/own", folder), 0);
        ck_assert_int_eq(mkdir(systemd, 0700), 0);
        ck_assert_int_eq(mkdir(own, 0700), 0);
        write_secret(systemd, "a", "that of systemd", 0440);
        write_secret(own, "a", "that of the folder", 0600);
        write_secret(own, "b", "that of the folder", 0600);
        ck_assert_int_eq(secret_folders_open(systemd, own, &folders), 0);
        expect(&folders, "a", "that of systemd", NULL);
        expect(&folders, "b", "that of the folder", NULL);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(secret_done) Secret secret = SECRET_NULL;
                _cleanup_(freep) char *why = NULL;

                ck_assert_int_eq(secret_load(&folders, names[i], &secret, &why), SECRET_E_UNUSABLE);
        }
        secret_folders_done(&folders);
        ck_assert_int_eq(secret_folders_open(NULL, "/nonexistent", &folders), 0);
        expect(&folders, "a", NULL, "is missing");
}
END_TEST

/* --- attaching --- */

static const struct {
        const char *attach, *secret, *header, *query;
} attachings[] = {
        {"{\"as\": \"bearer\"}", "mF_9.B5f-4.1JqM", "Authorization: Bearer mF_9.B5f-4.1JqM", NULL},
        /* RFC 7617 */
        {"{\"as\": \"basic\", \"user\": \"Aladdin\"}", "open sesame",
         "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", NULL},
        {"{\"as\": \"header\", \"name\": \"X-Api-Key\"}", "12345678", "X-Api-Key: 12345678", NULL},
        {"{\"as\": \"header\", \"name\": \"Authorization\", \"prefix\": \"token \"}", "12345678",
         "Authorization: token 12345678", NULL},
        {"{\"as\": \"query\", \"name\": \"key\"}", "a b&c=d%", NULL, "key=a%20b%26c%3Dd%25"},
        /* RFC 4231, test cases 2 (key "Jefe") */
        {"{\"as\": \"hmac\", \"algorithm\": \"sha256\", \"header\": \"X-Sig\", \"over\": \"body\"}",
         "Jefe", "X-Sig: 5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", NULL},
        {"{\"as\": \"hmac\", \"algorithm\": \"sha512\", \"header\": \"X-Sig\", \"over\": \"body\"}",
         "Jefe",
         "X-Sig: 164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d"
         "034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
         NULL},
        /* RFC 2202, test case 2 */
        {"{\"as\": \"hmac\", \"algorithm\": \"sha1\", \"header\": \"X-Hub-Signature\","
         " \"prefix\": \"sha1=\", \"over\": \"body\"}",
         "Jefe", "X-Hub-Signature: sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79", NULL},
        /* python3: hmac.new(b"Jefe", b"POST/x?a=1what do ya want for nothing?", "sha256") */
        {"{\"as\": \"hmac\", \"algorithm\": \"sha256\", \"header\": \"X-Sig\","
         " \"over\": \"method+path+body\"}",
         "Jefe", "X-Sig: eb51a42cecd4ff0fc0ff6dacd12b0452bba66262080decfc1bc4c55f4a5590b7", NULL},
};

static void attach_of(const char *text, Attach *ret_attach) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;
        Reader reader = {.file = "x", .diags = &diags};

        ck_assert_int_eq(json_scan(text, strlen(text), &doc, &error), 0);
        reader.doc = doc;
        ck_assert_int_eq(attach_read(&reader, json_doc_root(doc), ret_attach), 0);
        ck_assert_uint_eq(diags.n_items, 0);
}

START_TEST(test_attach) {
        static const char body[] = "what do ya want for nothing?";
        const AttachRequest request = {.method = "POST",
                                       .host = "a.example",
                                       .path = "/x",
                                       .query = "a=1",
                                       .body = body,
                                       .body_size = strlen(body)};
        _cleanup_(attached_done) Attached attached = {};
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(attach_done) Attach attach = {};

        attach_of(attachings[_i].attach, &attach);
        secret_of(attachings[_i].secret, &secret);
        ck_assert_int_eq(attach_apply(&attach, &secret, &request, &attached), 0);
        ck_assert_uint_eq(attached.n_headers, attachings[_i].header ? 1 : 0);
        if (attachings[_i].header) {
                ck_assert_str_eq(attached.headers[0], attachings[_i].header);
                ck_assert(attached_has_header(&attached, attached.headers[0],
                                              strcspn(attached.headers[0], ":")));
        }
        ck_assert(string_equal(attached.query, attachings[_i].query));
        ck_assert(!attached_has_header(&attached, "Host", 4));
}
END_TEST

/* Of the test suite that Amazon published for this signature, and of the guide to S3. */
static const struct {
        const char *service, *key_id, *secret, *method, *host, *query, *signature;
        time_t now;
} signatures[] = {
        {"service", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "GET",
         "example.amazonaws.com", "",
         "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31", 1440938160},
        {"service", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "POST",
         "example.amazonaws.com", "",
         "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", 1440938160},
        {"service", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "GET",
         "example.amazonaws.com", "Param2=value2&Param1=value1",
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", 1440938160},
        {"s3", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "GET",
         "examplebucket.s3.amazonaws.com", "prefix=J&max-keys=2",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", 1369353600},
        {"s3", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "GET",
         "examplebucket.s3.amazonaws.com", "lifecycle",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", 1369353600},
};

START_TEST(test_sigv4) {
        const AttachRequest request = {.method = signatures[_i].method,
                                       .host = signatures[_i].host,
                                       .path = "/",
                                       .query = signatures[_i].query,
                                       .body = "",
                                       .now = signatures[_i].now};
        _cleanup_(freep) char *text = NULL;
        _cleanup_(attached_done) Attached attached = {};
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(attach_done) Attach attach = {};
        const char *header;

        ck_assert_int_gt(asprintf(&text,
                                  "{\"as\": \"aws-sigv4\", \"region\": \"us-east-1\", \"service\":"
                                  " \"%s\", \"access_key_id\": \"%s\"}",
                                  signatures[_i].service, signatures[_i].key_id),
                         0);
        attach_of(text, &attach);
        secret_of(signatures[_i].secret, &secret);
        ck_assert_int_eq(attach_apply(&attach, &secret, &request, &attached), 0);
        header = attached.headers[attached.n_headers - 1];
        ck_assert_ptr_nonnull(strstr(header, "Authorization: AWS4-HMAC-SHA256 Credential="));
        ck_assert_msg(strstr(header, signatures[_i].signature), "%s", header);
        ck_assert_str_eq(strrchr(header, '=') + 1, signatures[_i].signature);
}
END_TEST

/* --- redaction --- */

/* SECRET stands for the secret in the text of the case, in the form that its name says. */
static const struct {
        const char *secret, *in, *out;
} redactions[] = {
        {"tok/en+1\"2\\3", "plain tok/en+1\"2\\3 end", "plain ******** end"},
        {"tok/en+1\"2\\3", "Bearer tok/en+1\"2\\3", "Bearer ********"},
        {"tok/en+1\"2\\3", "{\"a\":\"tok/en+1\\\"2\\\\3\"}", "{\"a\":\"********\"}"},
        {"tok/en+1\"2\\3", "{\"a\":\"tok\\/en\\u002b1\\u00222\\u005C3\"}", "{\"a\":\"********\"}"},
        {"tok/en+1\"2\\3", "?a=tok%2Fen%2B1%222%5C3&b", "?a=********&b"},
        {"tok/en+1\"2\\3", "?a=%74%6f%6B%2f%65%6e%2b%31%22%32%5c%33", "?a=********"},
        {"tok/en+1\"2\\3", "dG9rL2VuKzEiMlwz", "********"},
        {"tok/en+1\"2\\3", "x dG9rL2VuKzEiMlwz.", "x ********."},
        {"tok/en+1\"2\\3", "dTp0b2svZW4rMSIyXDM=", "dTp********M="},
        {"tok/en+1\"2\\3", "YTp1OnRvay9lbisxIjJcMw==", "YTp1On********w=="},
        {"secret%41b", "secret%41b secret%2541b", "******** ********"},
        {"secret%41b", "secretAb", "secretAb"},
        {"two words", "two words two+words two%20words", "******** ******** ********"},
        {"aaaaaaaa", "aaaaaaaaaaaa b", "******** b"},
        {"aaaaaaaa", "aaaaaaa", "aaaaaaa"},
        {"abcabcab", "abcabcabcabd", "********d"},
        {"12345678", "1234567123456781234567", "1234567********1234567"},
        {"********", "a ******** b", "a ######## b"},
        {"?>?>?>?>", "Pz4/Pj8+Pz4 Pz4_Pj8-Pz4", "********4 ********4"},
        {"?>?>?>?>", "Pz4%2FPj8%2bPz4= Pz4\\/Pj8+Pz4=", "********4= ********4="},
        {"12345678", "MTIz\r\nNDU2\r\nNzg=\r\n", "********g=\r\n"},
        {"12345678", "M\nT\nI\nz\nN\nD\nU\n2\nN\nz\ng=", "********\ng="},
        {"12345678", "\"MTIz\\nNDU2\\r\\nNzg=\\n\"", "\"********g=\\n\""},
        {"12345678", "\"MTIz\\u000aNDU2\\u000D\\u000ANzg=\"", "\"********g=\""},
        {"12345678", "MTIz%0d%0ANDU2%0aNzg%3d", "********g%3d"},
        {"12345678", "MTIz\r\n\r\nNDU2Nzg=", "********g="},
        {"12345678", "MTIz nNDU2Nzg=\n", "MTIz nNDU2Nzg=\n"},
        {"12345678", "1234\n5678", "1234\n5678"},
        {"12345678", "", ""},
        {"12345678", "no secret at all, 1234567", "no secret at all, 1234567"},
};

static void redact_in_pieces(const Secret *secret, const char *in, size_t piece, StrBuf *out) {
        _cleanup_(redactor_freep) Redactor *redactor = NULL;

        ck_assert_int_eq(redactor_new(secret, NULL, &redactor), 0);
        for (size_t at = 0; at < strlen(in); at += piece)
                ck_assert_int_eq(
                        redactor_add(redactor, in + at, size_min(piece, strlen(in) - at), out), 0);
        ck_assert_int_eq(redactor_finish(redactor, out), 0);
        ck_assert_int_eq(strbuf_append_string(out, ""), 0);
}

START_TEST(test_redact) {
        _cleanup_(secret_done) Secret secret = SECRET_NULL;

        secret_of(redactions[_i].secret, &secret);
        for (size_t piece = 1; piece <= strlen(redactions[_i].in) + 1; piece++) {
                _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

                redact_in_pieces(&secret, redactions[_i].in, piece, &out);
                ck_assert_msg(string_equal(out.data ?: "", redactions[_i].out),
                              "%s in pieces of %zu: %s", redactions[_i].in, piece, out.data);
        }
}
END_TEST

/* What may stand in base64 wherever it is broken. */
static const char *const breaks[] = {
        "\n",
        "\n    ",
        "\r\n\t",
        " \t \r\n\r\n\t ",
        " ",
        "\\\n",
        "\\\r\n  ",
        "\\  \n",
        "\\n",
        "\\n    ",
        "\\r\\n\\t",
        "\\\\\\n  ",
        "\\u000a\\u0020\\u0009",
        "\\u005c\\u000D\\u000A",
        "%0A%20%20",
        "%0d%0a%09",
        "%5C%0a",
        "%0A++++",
        "\n                                                               ",
        "\\u000a\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\"
        "n\\n\\n\\n"
        "\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n"
        "\\n\\n",
};

/* The base64 of a text that holds the secret, broken every so many characters. The secret's own
 * characters are those from from to end. */
static void append_broken(const char *base64, size_t from, size_t end, size_t every,
                          const char *at_break, StrBuf *in, StrBuf *out) {
        bool is_form = strchr(at_break, '+');

        for (size_t i = 0; base64[i]; i++) {
                const char *before = i > 0 && i % every == 0 ? at_break : "";
                char byte[] = {base64[i], 0};
                const char *c = is_form && *byte == '+' ? "%2B" : byte;

                ck_assert_int_eq(strbuf_appendf(in, "%s%s", before, c), 0);
                if (i == from)
                        ck_assert_int_eq(strbuf_appendf(out, "%s********", before), 0);
                if (i < from || i >= end)
                        ck_assert_int_eq(strbuf_appendf(out, "%s%s", before, c), 0);
        }
}

START_TEST(test_redact_breaks) {
        static const struct {
                const char *base64;
                size_t from, end;
        } texts[] = {
                /* With nothing, u and u: before it, and ! behind it. */
                {"Pz4/Pj8+Pz5+MTIzIQ==", 0, 16},
                {"dT8+Pz4/Pj8+fjEyMyE=", 2, 17},
                {"dTo/Pj8+Pz4/Pn4xMjMh", 3, 18},
        };
        _cleanup_(secret_done) Secret secret = SECRET_NULL;

        secret_of("?>?>?>?>~123", &secret);
        for (size_t i = 0; i < ELEMENTSOF(texts) * 5; i++) {
                size_t text = i / 5, every = i % 5 + 1;
                _cleanup_(strbuf_done) StrBuf in = STRBUF_NULL, expected = STRBUF_NULL;

                append_broken(texts[text].base64, texts[text].from, texts[text].end, every,
                              breaks[_i], &in, &expected);
                for (size_t piece = 1; piece <= in.size; piece = piece * 3) {
                        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

                        redact_in_pieces(&secret, in.data, piece, &out);
                        ck_assert_msg(string_equal(out.data, expected.data),
                                      "%s in pieces of %zu: %s", in.data, piece, out.data);
                }
        }
}
END_TEST

/* One more than there may be. */
START_TEST(test_redact_break_too_long) {
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(strbuf_done) StrBuf in = STRBUF_NULL, out = STRBUF_NULL;

        secret_of("12345678", &secret);
        ck_assert_int_eq(strbuf_appendf(&in, "MTIz%65sNDU2Nzg=", ""), 0);
        redact_in_pieces(&secret, in.data, 1, &out);
        ck_assert_str_eq(out.data, in.data);
}
END_TEST

/* What holds back most: all of the secret but the end, in a form that is long. */
static const struct {
        size_t size;
        bool is_base64;
        const char *behind_each; /* character, so many times */
        size_t times;
} slow[] = {
        {200, true, "\\u000a", 4},  {1000, true, "\\u000a", 4}, {4096, true, "\\u000a", 4},
        {200, true, "\\u0020", 64}, {4096, true, "", 0},        {4096, false, "", 0},
        {4096, true, "\n    ", 1},
};

/* Reading a character again for each byte that it is short of is all that pieces may add. */
#define READ_PER_BYTE_MAX 4U

static void make_slow(size_t row, Secret *ret_secret, StrBuf *in) {
        static const char letters[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz01234567";
        _cleanup_(freep) char *text = calloc(1, slow[row].size + 1), *base64 = NULL;
        uint32_t random = 1;

        ck_assert_ptr_nonnull(text);
        for (size_t i = 0; i < slow[row].size; i++) {
                random = random * 1664525U + 1013904223U;
                text[i] = letters[(random >> 16) % (sizeof(letters) - 1)];
        }
        secret_of(text, ret_secret);
        base64 = calloc(1, BASE64_ENCODE_RAW_LENGTH(slow[row].size) + 1);
        ck_assert_ptr_nonnull(base64);
        base64_encode_raw(base64, slow[row].size, (const uint8_t *) text);
        for (const char *c = slow[row].is_base64 ? base64 : text; c[4]; c++) {
                ck_assert_int_eq(strbuf_append_byte(in, *c), 0);
                for (size_t i = 0; i < slow[row].times; i++)
                        ck_assert_int_eq(strbuf_append_string(in, slow[row].behind_each), 0);
        }
}

START_TEST(test_redact_cost) {
        static const size_t pieces[] = {1, 7, SIZE_MAX};
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(strbuf_done) StrBuf in = STRBUF_NULL;

        make_slow((size_t) _i, &secret, &in);
        for (size_t i = 0; i < ELEMENTSOF(pieces); i++) {
                _cleanup_(redactor_freep) Redactor *redactor = NULL;
                _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
                size_t piece = size_min(pieces[i], in.size);

                ck_assert_int_eq(redactor_new(&secret, NULL, &redactor), 0);
                for (size_t at = 0; at < in.size; at += piece)
                        ck_assert_int_eq(redactor_add(redactor, in.data + at,
                                                      size_min(piece, in.size - at), &out),
                                         0);
                /* It was held back, and is no occurrence. */
                ck_assert_uint_eq(out.size, 0);
                ck_assert_int_eq(redactor_finish(redactor, &out), 0);
                ck_assert_str_eq(out.data, in.data);
                ck_assert_uint_ge(redactor_n_read(redactor), slow[_i].size);
                ck_assert_msg(redactor_n_read(redactor) <= in.size * READ_PER_BYTE_MAX,
                              "%zu bytes in pieces of %zu: %ju", in.size, piece,
                              (uintmax_t) redactor_n_read(redactor));
        }
}
END_TEST

/* What an event stream sends is passed on at once, unless it may be the beginning of the secret. */
START_TEST(test_redact_stream) {
        _cleanup_(redactor_freep) Redactor *redactor = NULL;
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;

        secret_of("0123456789", &secret);
        ck_assert_int_eq(redactor_new(&secret, "dTowMTIz", &redactor), 0);
        ck_assert_int_eq(redactor_add(redactor, "data: a\n\n", 9, &out), 0);
        ck_assert_str_eq(out.data, "data: a\n\n");
        ck_assert_int_eq(redactor_add(redactor, "x0123", 5, &out), 0);
        ck_assert_str_eq(out.data, "data: a\n\nx");
        ck_assert_int_eq(redactor_add(redactor, "4x", 2, &out), 0);
        ck_assert_str_eq(out.data, "data: a\n\nx01234x");
        ck_assert_int_eq(redactor_add(redactor, " dTowMTIz.", 10, &out), 0);
        ck_assert_str_eq(out.data, "data: a\n\nx01234x ********.");
        ck_assert_uint_eq(redactor_n_found(redactor), 1);
        ck_assert(redactor_finds(redactor, "a0123456789", 11));
        ck_assert(!redactor_finds(redactor, "a012345678", 10));
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("vault");

        tcase_add_test(tcase, test_load);
        tcase_add_test(tcase, test_folders);
        tcase_add_loop_test(tcase, test_attach, 0, ELEMENTSOF(attachings));
        tcase_add_loop_test(tcase, test_sigv4, 0, ELEMENTSOF(signatures));
        tcase_add_loop_test(tcase, test_redact, 0, ELEMENTSOF(redactions));
        tcase_add_loop_test(tcase, test_redact_breaks, 0, ELEMENTSOF(breaks));
        tcase_add_test(tcase, test_redact_break_too_long);
        tcase_add_loop_test(tcase, test_redact_cost, 0, ELEMENTSOF(slow));
        tcase_add_test(tcase, test_redact_stream);
        return suite_run("vault", tcase);
}
