/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "basic/error.h"
#include "basic/time-util.h"
#include "egress/attach.h"

/* How long a connection is kept: unused, and at all. Servers close what is unused, mostly after a
 * minute or more, and a request that meets this half way is lost. */
#define UNUSED_SEC_MAX 30L
#define KEPT_SEC_MAX 300L
#define UPSTREAM_ADDRESSES_MAX 16U

struct Exchange {
        ExchangeHost host;
        const Vault *vault;
        const Operation *operation;
        ExchangeCalls calls;
        void *userdata;
        Redactor *redactor;
        ResolverQuery *query;
        LoopTimer timer; /* response.timeout */
        CURL *curl;
        CurlTransfer transfer;
        struct curl_slist *headers, *pinned;
        char *url;
        char *pins;
        Address addresses[UPSTREAM_ADDRESSES_MAX];
        size_t n_addresses;
        AnswerHead head;
        uint64_t moved_usec; /* when a stream of events had its last byte; 0: it is none */
        uint64_t bytes_out, bytes_in;
        ExchangeSubject subject;
        ExchangeFault fault; /* reason NULL: none found yet */
        char curl_text[CURL_ERROR_SIZE];
        Usage usage;
        bool spoilt;   /* the kept connection that it was about to use; nothing was sent */
        bool sent;     /* as far as is known */
        bool answered; /* on_head was called */
        bool paused;
};

void vault_done(Vault *vault) {
        free(vault->ca);
        free(vault->open.items);
        free(vault->deny.items);
        secret_done(&vault->secret);
        *vault = VAULT_NULL;
}

/* --- its end --- */

static void list_wipe(struct curl_slist *list) {
        for (struct curl_slist *item = list; item; item = item->next)
                secret_wipe(item->data, strlen(item->data));
        curl_slist_free_all(list);
}

Exchange *exchange_free(Exchange *exchange) {
        if (!exchange)
                return NULL;

        resolver_query_cancel(exchange->query);
        loop_timer_stop(&exchange->timer);
        curl_loop_end(&exchange->transfer);
        curl_easy_cleanup(exchange->curl);
        list_wipe(exchange->headers);
        curl_slist_free_all(exchange->pinned);
        if (exchange->url)
                secret_wipe(exchange->url, strlen(exchange->url));
        free(exchange->url);
        free(exchange->pins);
        redactor_free(exchange->redactor);
        answer_head_done(&exchange->head);
        free(exchange);
        return NULL;
}

static void exchange_end(Exchange *exchange) {
        exchange->calls.on_end(exchange->userdata,
                               exchange->fault.reason ? &exchange->fault : NULL);
        exchange_free(exchange);
}

static void set_broken(Exchange *exchange, const char *text) {
        exchange_fault_broken(&exchange->fault, &exchange->subject, text);
}

const Usage *exchange_get_usage(const Exchange *exchange) {
        return &exchange->usage;
}

void exchange_get_bytes(const Exchange *exchange, uint64_t *ret_out, uint64_t *ret_in) {
        *ret_out = exchange->bytes_out;
        *ret_in = exchange->bytes_in;
}

/* --- the answer's head --- */

static bool end_head(Exchange *exchange) {
        long status = 0;

        (void) curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
        /* Behind a 101 nobody asked for, anything may follow. */
        if (status < 100 || status == 101 || status > 599) {
                set_broken(exchange, "the answer has a status that is none of a request's");
                return false;
        }
        if (status < 200)
                return true;
        if (exchange->head.has_length &&
            exchange->head.length > exchange->operation->response_max &&
            exchange->operation->method != OPERATION_HEAD) {
                exchange_fault_size(&exchange->fault, &exchange->subject);
                return false;
        }
        exchange->answered = true;
        if (exchange->head.is_stream)
                exchange->moved_usec = loop_now(exchange->host.loop);
        return exchange->calls.on_head(exchange->userdata, (int) status,
                                       exchange->head.fields.data ?: "");
}

static size_t on_header(char *line, size_t size, size_t n, void *userdata) {
        Exchange *exchange = userdata;
        AnswerHeadFault fault = {};
        int r;

        r = answer_head_line(&exchange->head, exchange->redactor, exchange->answered, line,
                             size * n, &fault);
        if (r == ANSWER_HEAD_E_FAULT)
                exchange_fault_set(&exchange->fault, &exchange->subject, 502, fault.reason, "%s",
                                   fault.text);
        /* Where the answer ends is said in one way, or what comes behind it is not taken for
         * another one. */
        if (exchange->head.n_lengths > 1)
                (void) curl_easy_setopt(exchange->curl, CURLOPT_FORBID_REUSE, 1L);
        if (r == ANSWER_HEAD_E_ENDED)
                return end_head(exchange) ? size * n : 0;
        return r == 0 ? size * n : 0;
}

/* --- its content --- */

static bool pass_on(Exchange *exchange, const StrBuf *out) {
        return out->size == 0 ||
               exchange->calls.on_content(exchange->userdata, out->data, out->size);
}

static size_t on_content(char *data, size_t size, size_t n, void *userdata) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        Exchange *exchange = userdata;
        size_t whole = size * n;

        if (!exchange->answered) {
                set_broken(exchange, "it sent content without an answer");
                return 0;
        }
        if (!exchange->calls.has_room(exchange->userdata)) {
                exchange->paused = true;
                return CURL_WRITEFUNC_PAUSE;
        }
        exchange->bytes_in += whole;
        if (exchange->head.is_stream)
                exchange->moved_usec = loop_now(exchange->host.loop);
        if (exchange->bytes_in > exchange->operation->response_max) {
                exchange_fault_size(&exchange->fault, &exchange->subject);
                return 0;
        }
        if (exchange->head.tells_usage)
                usage_scan(&exchange->usage, data, whole);
        if (redactor_add(exchange->redactor, data, whole, &out) < 0 || !pass_on(exchange, &out))
                return 0;
        return whole;
}

static void on_resume(void *userdata) {
        Exchange *exchange = userdata;

        (void) curl_easy_pause(exchange->curl, CURLPAUSE_CONT);
}

void exchange_resume(Exchange *exchange) {
        if (!exchange->paused)
                return;
        exchange->paused = false;
        on_resume(exchange);
}

/* libcurl has closed the connection, since its transfer was broken off. */
static bool begin_anew(Exchange *exchange) {
        exchange->spoilt = false;
        exchange->curl_text[0] = 0;
        return curl_easy_setopt(exchange->curl, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK &&
               curl_loop_begin(exchange->host.curl, &exchange->transfer) == 0;
}

static void on_transfer(void *userdata, CURLcode code) {
        _cleanup_(strbuf_done) StrBuf out = STRBUF_NULL;
        Exchange *exchange = userdata;

        if (code == CURLE_ABORTED_BY_CALLBACK && exchange->spoilt) {
                if (begin_anew(exchange))
                        return;
                exchange_fault_memory(&exchange->fault, &exchange->subject);
        } else if (code != CURLE_OK)
                exchange_fault_curl(&exchange->fault, &exchange->subject, exchange->curl, code,
                                    exchange->curl_text, exchange->sent, exchange->redactor);
        else if (!exchange->answered)
                set_broken(exchange, "it did not answer");
        else if (redactor_finish(exchange->redactor, &out) < 0 || !pass_on(exchange, &out))
                set_broken(exchange, "there is no memory to pass the answer on");
        exchange_end(exchange);
}

/* --- where to --- */

/* libcurl dials what was pinned; this looks once more at what it dials. */
static curl_socket_t on_socket(void *userdata, curlsocktype purpose _unused_,
                               struct curl_sockaddr *to) {
        const Exchange *exchange = userdata;
        Address address;

        if (!address_from_sockaddr(&to->addr, &address))
                return CURL_SOCKET_BAD;
        for (size_t i = 0; i < exchange->n_addresses; i++)
                if (address_equal(&exchange->addresses[i], &address))
                        return connections_open(exchange->host.connections, to);
        return CURL_SOCKET_BAD;
}

/* A connection that was kept may end as it is used again. libcurl then sends the request anew; one
 * that changes something might be carried out twice. */
static int on_request(void *userdata, char *address _unused_, char *local _unused_,
                      int port _unused_, int local_port) {
        Exchange *exchange = userdata;
        OperationMethod method = exchange->operation->method;

        if (exchange->sent && (method == OPERATION_POST || method == OPERATION_PATCH)) {
                set_broken(exchange,
                           "it closed the connection without an answer, and may have carried "
                           "out the request, which is not sent again");
                return CURL_PREREQFUNC_ABORT;
        }
        if (connections_is_spoilt(exchange->host.connections, exchange->curl, local_port)) {
                exchange->spoilt = true;
                return CURL_PREREQFUNC_ABORT;
        }
        exchange->sent = true;
        return CURL_PREREQFUNC_OK;
}

/* *ret_class: of the first address. */
static size_t judge(Exchange *exchange, const ResolverAnswer *answer, AddressClass *ret_class) {
        const Vault *vault = exchange->vault;
        const AddressRules rules = {.deny = vault->deny.items,
                                    .n_deny = vault->deny.n_items,
                                    .open = vault->open.items,
                                    .n_open = vault->open.n_items,
                                    .is_own = host_addresses_contain,
                                    .userdata = exchange->host.addresses};

        *ret_class = vault->denied ? ADDRESS_POLICY : address_judge(&answer->addresses[0], &rules);
        for (size_t i = 0; !vault->denied && i < answer->n_addresses &&
                           exchange->n_addresses < UPSTREAM_ADDRESSES_MAX;
             i++)
                if (address_judge(&answer->addresses[i], &rules) == ADDRESS_PUBLIC)
                        exchange->addresses[exchange->n_addresses++] = answer->addresses[i];
        return exchange->n_addresses;
}

static int pin_addresses(Exchange *exchange) {
        const CredentialUpstream *upstream = &exchange->vault->credential->upstream;
        _cleanup_(strbuf_done) StrBuf entry = STRBUF_NULL;
        char text[ADDRESS_TEXT_MAX];
        int r;

        r = strbuf_appendf(&entry, "%s:%u:", upstream->host, (unsigned) upstream->port);
        for (size_t i = 0; i < exchange->n_addresses && r == 0; i++) {
                const Address *address = &exchange->addresses[i];

                r = strbuf_appendf(&entry, address->family == AF_INET6 ? "%s[%s]" : "%s%s",
                                   i > 0 ? "," : "", address_format(address, text));
        }
        if (r < 0)
                return error_trace(r);
        exchange->pinned = curl_slist_append(NULL, entry.data);
        if (!exchange->pinned ||
            curl_easy_setopt(exchange->curl, CURLOPT_RESOLVE, exchange->pinned) != CURLE_OK)
                return error_origin(-ENOMEM);
        return 0;
}

static void on_resolved(void *userdata, const ResolverAnswer *answer) {
        Exchange *exchange = userdata;
        AddressClass class;

        exchange->query = NULL;
        if (answer->error || answer->n_addresses == 0)
                exchange_fault_unresolved(&exchange->fault, &exchange->subject, answer);
        else if (judge(exchange, answer, &class) == 0)
                exchange_fault_address(&exchange->fault, &exchange->subject, &answer->addresses[0],
                                       class);
        else if (pin_addresses(exchange) < 0 ||
                 curl_loop_begin(exchange->host.curl, &exchange->transfer) < 0)
                exchange_fault_memory(&exchange->fault, &exchange->subject);
        if (exchange->fault.reason)
                exchange_end(exchange);
}

static void on_time(void *userdata) {
        Exchange *exchange = userdata;
        uint64_t until = exchange->moved_usec + exchange->operation->response_usec;

        /* A stream of events lasts as long as something comes now and then. */
        if (exchange->moved_usec > 0 && until > loop_now(exchange->host.loop) &&
            loop_timer_set(exchange->host.loop, &exchange->timer, until) == 0)
                return;
        if (!exchange->query) {
                on_transfer(exchange, CURLE_OPERATION_TIMEDOUT);
                return;
        }
        exchange_fault_time(&exchange->fault, &exchange->subject, "its name was not resolved");
        exchange_end(exchange);
}

/* --- the request --- */

static int add_header(Exchange *exchange, const char *header) {
        struct curl_slist *list = curl_slist_append(exchange->headers, header);

        if (!list)
                return error_origin(-ENOMEM);
        exchange->headers = list;
        return 0;
}

/* Those of the job first; what comes with the secret is there once, whatever the job said. */
static int add_headers(Exchange *exchange, const ExchangeRequest *request,
                       const Attached *attached) {
        bool has_type = false;
        int r;

        r = add_header(exchange, "Expect:");
        if (r == 0)
                r = add_header(exchange, "Accept-Encoding: identity");
        for (size_t i = 0; i < request->headers.n_items && r == 0; i++) {
                const char *header = request->headers.items[i];
                size_t name = strcspn(header, ":");

                if (attached_has_header(attached, header, name))
                        continue;
                has_type = has_type || (name == 12 && strncasecmp(header, "content-type", 12) == 0);
                r = add_header(exchange, header);
        }
        if (r == 0 && !has_type)
                r = add_header(exchange, "Content-Type:");
        for (size_t i = 0; i < attached->n_headers && r == 0; i++)
                r = add_header(exchange, attached->headers[i]);
        return error_trace(r);
}

static int make_url(Exchange *exchange, const char *path, const char *query,
                    const Attached *attached) {
        const CredentialUpstream *upstream = &exchange->vault->credential->upstream;
        bool both = *query && attached->query;

        if (asprintf(&exchange->url, "https://%s:%u%s%s%s%s%s", upstream->host,
                     (unsigned) upstream->port, path, *query || attached->query ? "?" : "", query,
                     both ? "&" : "", attached->query ?: "") < 0) {
                exchange->url = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

/* sha256//A;sha256//B */
static int make_pins(Exchange *exchange) {
        const StrV *pins = &exchange->vault->credential->pins;
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        int r = 0;

        for (size_t i = 0; i < pins->n_items && r == 0; i++)
                r = strbuf_appendf(&text, "%ssha256//%s", i > 0 ? ";" : "",
                                   pins->items[i] + strlen("sha256/"));
        if (r < 0)
                return error_trace(r);
        if (pins->n_items > 0)
                exchange->pins = strbuf_steal(&text);
        return 0;
}

#define SET(option, value)                                                                         \
        do {                                                                                       \
                if (code == CURLE_OK)                                                              \
                        code = curl_easy_setopt(curl, (option), (value));                          \
        } while (0)

static CURLcode set_trust(Exchange *exchange) {
        const Vault *vault = exchange->vault;
        CURL *curl = exchange->curl;
        CURLcode code = CURLE_OK;

        SET(CURLOPT_SSL_VERIFYPEER, 1L);
        SET(CURLOPT_SSL_VERIFYHOST, 2L);
        SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_SESSIONID_CACHE, 0L);
        if (vault->ca) {
                struct curl_blob blob = {.data = vault->ca, .len = strlen(vault->ca)};

                SET(CURLOPT_CAINFO_BLOB, &blob);
                SET(CURLOPT_CAINFO, (char *) NULL);
                SET(CURLOPT_CAPATH, (char *) NULL);
        }
        if (exchange->pins)
                SET(CURLOPT_PINNEDPUBLICKEY, exchange->pins);
        return code;
}

static CURLcode set_way(Exchange *exchange) {
        CURL *curl = exchange->curl;
        CURLcode code = CURLE_OK;

        SET(CURLOPT_URL, exchange->url);
        SET(CURLOPT_PATH_AS_IS, 1L);
        SET(CURLOPT_PROTOCOLS_STR, "https");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_PROXY, "");
        SET(CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
        SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_MAXAGE_CONN, UNUSED_SEC_MAX);
        SET(CURLOPT_MAXLIFETIME_CONN, KEPT_SEC_MAX);
        SET(CURLOPT_PREREQFUNCTION, on_request);
        SET(CURLOPT_PREREQDATA, exchange);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long) (EXCHANGE_CONNECT_USEC / USEC_PER_MSEC));
        SET(CURLOPT_ERRORBUFFER, exchange->curl_text);
        SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
        SET(CURLOPT_OPENSOCKETDATA, exchange);
        SET(CURLOPT_HEADERFUNCTION, on_header);
        SET(CURLOPT_HEADERDATA, exchange);
        SET(CURLOPT_WRITEFUNCTION, on_content);
        SET(CURLOPT_WRITEDATA, exchange);
        return code == CURLE_OK ? connections_use(exchange->host.connections, curl) : code;
}

static CURLcode set_request(Exchange *exchange, const ExchangeRequest *request) {
        CURL *curl = exchange->curl;
        CURLcode code = CURLE_OK;

        SET(CURLOPT_HTTPHEADER, exchange->headers);
        switch (exchange->operation->method) {
        case OPERATION_GET:
                SET(CURLOPT_HTTPGET, 1L);
                return code;
        case OPERATION_HEAD:
                SET(CURLOPT_NOBODY, 1L);
                return code;
        default:
                break;
        }
        if (request->body_size > 0 || exchange->operation->body != OPERATION_BODY_NONE ||
            exchange->operation->method == OPERATION_POST) {
                SET(CURLOPT_POST, 1L);
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_size);
                SET(CURLOPT_POSTFIELDS, request->body ?: "");
        }
        SET(CURLOPT_CUSTOMREQUEST, operation_methods[exchange->operation->method]);
        return code;
}
#undef SET

static int attach(Exchange *exchange, const ExchangeRequest *request) {
        const CredentialUpstream *upstream = &exchange->vault->credential->upstream;
        _cleanup_(strbuf_done) StrBuf path = STRBUF_NULL, query = STRBUF_NULL, host = STRBUF_NULL;
        _cleanup_(attached_done) Attached attached = {};
        AttachRequest what;
        int r;

        r = strbuf_append_string(&path, upstream->path);
        if (r == 0)
                r = operation_append_path(request->match, &path);
        if (r == 0)
                r = operation_append_query(request->match, &query);
        if (r == 0)
                r = strbuf_append_string(&host, upstream->host);
        if (r == 0 && upstream->port != 443)
                r = strbuf_appendf(&host, ":%u", (unsigned) upstream->port);
        if (r < 0)
                return error_trace(r);
        what = (AttachRequest){.method = operation_methods[exchange->operation->method],
                               .host = host.data,
                               .path = path.data,
                               .query = query.data ?: "",
                               .body = request->body,
                               .body_size = request->body_size,
                               .now = time(NULL)};
        r = attach_apply(&exchange->vault->credential->attach, &exchange->vault->secret, &what,
                         &attached);
        if (r == 0)
                r = redactor_new(&exchange->vault->secret, attached.also, &exchange->redactor);
        if (r == 0)
                r = make_url(exchange, path.data, query.data ?: "", &attached);
        if (r == 0)
                r = add_headers(exchange, request, &attached);
        return error_trace(r);
}

static int exchange_prepare(Exchange *exchange, const ExchangeRequest *request) {
        int r;

        exchange->curl = curl_easy_init();
        if (!exchange->curl)
                return error_origin(-ENOMEM);
        r = attach(exchange, request);
        if (r == 0)
                r = make_pins(exchange);
        if (r < 0)
                return error_trace(r);
        if (set_trust(exchange) != CURLE_OK || set_way(exchange) != CURLE_OK ||
            set_request(exchange, request) != CURLE_OK)
                return error_origin(-EOPNOTSUPP);
        exchange->transfer =
                (CurlTransfer){.curl = exchange->curl, .done = on_transfer, .userdata = exchange};
        r = loop_timer_set(exchange->host.loop, &exchange->timer,
                           now_usec() + exchange->operation->response_usec);
        if (r == 0)
                r = resolver_ask(exchange->host.resolver,
                                 exchange->vault->credential->upstream.host, on_resolved, exchange,
                                 &exchange->query);
        return error_trace(r);
}

int exchange_new(const ExchangeHost *host, const Vault *vault, const ExchangeRequest *request,
                 const ExchangeCalls *calls, void *userdata, Exchange **ret_exchange) {
        Exchange *exchange = calloc(1, sizeof(*exchange));
        int r;

        if (!exchange)
                return error_origin(-ENOMEM);
        *exchange = (Exchange){.host = *host,
                               .vault = vault,
                               .operation = request->match->operation,
                               .subject = {vault->credential, request->match->operation},
                               .calls = *calls,
                               .userdata = userdata,
                               .bytes_out = request->body_size};
        exchange->timer = (LoopTimer){.on_time = on_time, .userdata = exchange};
        r = exchange_prepare(exchange, request);
        if (r < 0) {
                exchange_free(exchange);
                return error_trace(r);
        }
        *ret_exchange = exchange;
        return 0;
}
