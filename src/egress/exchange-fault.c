/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/exchange-fault.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "basic/time-util.h"
#include "egress/address.h"

#define DETAIL_MAX 120U

void exchange_fault_set(ExchangeFault *fault, const ExchangeSubject *subject, int status,
                        const char *reason, const char *format, ...) {
        const CredentialUpstream *upstream = &subject->credential->upstream;
        va_list args;
        int n;

        if (fault->reason)
                return;
        fault->status = status;
        fault->reason = reason;
        n = snprintf(fault->text, sizeof(fault->text), "upstream %s:%u: ", upstream->host,
                     (unsigned) upstream->port);
        if (n < 0 || (size_t) n >= sizeof(fault->text))
                return;
        va_start(args, format);
        (void) vsnprintf(fault->text + n, sizeof(fault->text) - (size_t) n, format, args);
        va_end(args);
}

void exchange_fault_broken(ExchangeFault *fault, const ExchangeSubject *subject, const char *text) {
        exchange_fault_set(fault, subject, 502, "upstream.broken", "%s", text);
}

void exchange_fault_memory(ExchangeFault *fault, const ExchangeSubject *subject) {
        exchange_fault_set(fault, subject, 503, "endpoint.memory",
                           "there is no memory for the request");
}

void exchange_fault_size(ExchangeFault *fault, const ExchangeSubject *subject) {
        exchange_fault_set(fault, subject, 502, "response.size",
                           "the answer is longer than response.max_bytes, %" PRIu64
                           ": ask for less, or raise it for %s in credentials.d/%s.json",
                           subject->operation->response_max, subject->operation->name,
                           subject->credential->name);
}

void exchange_fault_time(ExchangeFault *fault, const ExchangeSubject *subject, const char *until) {
        exchange_fault_set(fault, subject, 504, "response.timeout",
                           "%s within response.timeout, %" PRIu64
                           " ms: ask for less, or raise it for %s in credentials.d/%s.json",
                           until, (uint64_t) (subject->operation->response_usec / USEC_PER_MSEC),
                           subject->operation->name, subject->credential->name);
}

void exchange_fault_unresolved(ExchangeFault *fault, const ExchangeSubject *subject,
                               const ResolverAnswer *answer) {
        exchange_fault_set(fault, subject, 502, "upstream.unresolved",
                           "its name is not known (%s): mend upstream in credentials.d/%s.json, or "
                           "the host's resolver",
                           answer->error ?: "it has no address", subject->credential->name);
}

void exchange_fault_address(ExchangeFault *fault, const ExchangeSubject *subject,
                            const Address *address, AddressClass class) {
        char text[ADDRESS_TEXT_MAX];

        (void) address_format(address, text);
        if (class == ADDRESS_POLICY)
                exchange_fault_set(fault, subject, 502, "upstream.address",
                                   "egress.deny in agentcrated.json forbids its name, or the "
                                   "address %s that it leads to",
                                   text);
        else if (address_class_can_open(class))
                exchange_fault_set(fault, subject, 502, "upstream.address",
                                   "its name leads to %s (%s), which is not dialled unless "
                                   "addresses in credentials.d/%s.json has it",
                                   text, address_class_to_string(class), subject->credential->name);
        else
                exchange_fault_set(fault, subject, 502, "upstream.address",
                                   "its name leads to %s (%s), which is never dialled: mend "
                                   "upstream in credentials.d/%s.json, or what its name leads to",
                                   text, address_class_to_string(class), subject->credential->name);
}

/* --- what libcurl says --- */

/* Of a certificate's name, or an alert, the upstream is the author. */
static void take_detail(char ret_detail[static DETAIL_MAX], const char *text, Redactor *redactor) {
        _cleanup_(strbuf_done) StrBuf clean = STRBUF_NULL;
        size_t size = 0;

        if (redactor_add(redactor, text, strlen(text), &clean) == 0 &&
            redactor_finish(redactor, &clean) == 0)
                size = size_min(clean.size, DETAIL_MAX - 1);
        for (size_t i = 0; i < size; i++) {
                char c = clean.data[i];

                ret_detail[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
        }
        ret_detail[size] = 0;
}

static void name_trust(ExchangeFault *fault, const ExchangeSubject *subject, const char *detail) {
        exchange_fault_set(fault, subject, 502, "upstream.certificate",
                           "its certificate is not to be trusted (%s): mend it there, or name its "
                           "authority by ca in credentials.d/%s.json",
                           detail, subject->credential->name);
}

static void name_connection(ExchangeFault *fault, const ExchangeSubject *subject, long error) {
        exchange_fault_set(fault, subject, 502, "upstream.unreachable",
                           "it takes no connection (%s): see that it runs, that this host reaches "
                           "it, and upstream in credentials.d/%s.json",
                           error > 0 ? strerrordesc_np((int) error) ?: "?" : "no address is left",
                           subject->credential->name);
}

void exchange_fault_curl(ExchangeFault *fault, const ExchangeSubject *subject, CURL *curl,
                         CURLcode code, const char *text, bool sent, Redactor *redactor) {
        const char *code_text = curl_easy_strerror(code);
        char detail[DETAIL_MAX];
        long error = 0;

        take_detail(detail, *text ? text : code_text, redactor);
        switch (code) {
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_ISSUER_ERROR:
        case CURLE_SSL_INVALIDCERTSTATUS:
                name_trust(fault, subject, detail);
                break;
        case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
                exchange_fault_set(fault, subject, 502, "upstream.pin",
                                   "its public key is none of pin in credentials.d/%s.json: add it "
                                   "there if its owner has changed it",
                                   subject->credential->name);
                break;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_SSL_CIPHER:
                exchange_fault_set(fault, subject, 502, "upstream.tls",
                                   "it agrees to no TLS 1.2 or 1.3 (%s): it must speak one of them",
                                   detail);
                break;
        case CURLE_COULDNT_CONNECT:
                (void) curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
                name_connection(fault, subject, error);
                break;
        case CURLE_OPERATION_TIMEDOUT:
                if (sent || subject->operation->response_usec <= EXCHANGE_CONNECT_USEC)
                        exchange_fault_time(fault, subject,
                                            sent ? "it did not answer" : "it was not connected to");
                else
                        name_connection(fault, subject, ETIMEDOUT);
                break;
        default:
                /* Not the text, which may have more than a name of the upstream's. */
                exchange_fault_set(fault, subject, 502, "upstream.broken",
                                   "the answer broke off or is malformed (%s)", code_text);
        }
}
