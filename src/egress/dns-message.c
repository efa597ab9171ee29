/* SPDX-License-Identifier: Apache-2.0 */

#include "egress/dns-message.h"

#include <string.h>

#include "basic/macros.h"

#define HEADER_SIZE 12U
#define LABEL_MAX 63U
#define WIRE_NAME_MAX 255U
#define ADDITIONAL_MAX 8U

#define FLAG_RESPONSE 0x8000U
#define FLAG_OPCODE 0x7800U
#define FLAG_AUTHORITATIVE 0x0400U
#define FLAG_RECURSION_DESIRED 0x0100U
#define FLAG_RECURSION_AVAILABLE 0x0080U
#define FLAG_CHECKING_DISABLED 0x0010U

typedef struct Reader {
        const uint8_t *data;
        size_t size, at;
} Reader;

static bool read_u8(Reader *reader, uint8_t *ret_value) {
        if (reader->size - reader->at < 1)
                return false;
        *ret_value = reader->data[reader->at++];
        return true;
}

static bool read_u16(Reader *reader, uint16_t *ret_value) {
        if (reader->size - reader->at < 2)
                return false;
        *ret_value = (uint16_t) (reader->data[reader->at] << 8 | reader->data[reader->at + 1]);
        reader->at += 2;
        return true;
}

static bool skip(Reader *reader, size_t n) {
        if (reader->size - reader->at < n)
                return false;
        reader->at += n;
        return true;
}

/* --- names --- */

static bool is_host_byte(uint8_t c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t put_byte(char *text, size_t at, uint8_t c, bool *plain) {
        if (c >= 'A' && c <= 'Z')
                c = (uint8_t) (c - 'A' + 'a');
        if (is_host_byte(c)) {
                text[at] = (char) c;
                return at + 1;
        }
        *plain = false;
        text[at] = '\\';
        text[at + 1] = (char) ('0' + c / 100);
        text[at + 2] = (char) ('0' + c / 10 % 10);
        text[at + 3] = (char) ('0' + c % 10);
        return at + 4;
}

/* A question stands at the beginning, so there is nothing that its name could point back to: a
 * pointer is a loop, or a lie. Four characters for each of 255 bytes fit into the text. */
static bool read_question_name(Reader *reader, DnsQuery *query) {
        size_t begin = reader->at, at = 0;
        uint8_t length, c;

        query->is_plain = true;
        for (;;) {
                if (!read_u8(reader, &length) || length > LABEL_MAX)
                        return false;
                if (reader->at - begin + length > WIRE_NAME_MAX)
                        return false;
                if (length == 0)
                        break;
                if (at > 0)
                        query->name[at++] = '.';
                for (uint8_t i = 0; i < length; i++) {
                        if (!read_u8(reader, &c))
                                return false;
                        at = put_byte(query->name, at, c, &query->is_plain);
                }
        }
        if (at == 0) {
                query->name[at++] = '.';
                query->is_plain = false;
        }
        query->name[at] = 0;
        return true;
}

static bool skip_name(Reader *reader) {
        size_t begin = reader->at;
        uint8_t length;

        do {
                if (!read_u8(reader, &length))
                        return false;
                if ((length & 0xc0) == 0xc0)
                        return skip(reader, 1);
                if (length > LABEL_MAX || !skip(reader, length) ||
                    reader->at - begin > WIRE_NAME_MAX)
                        return false;
        } while (length > 0);
        return true;
}

/* --- queries --- */

/* The records behind the question matter only for EDNS, which is said there. */
static bool read_additional(Reader *reader, uint16_t n, DnsQuery *query, bool *ret_version) {
        if (n > ADDITIONAL_MAX)
                return false;
        for (; n > 0; n--) {
                uint16_t type, class, ttl_high, ttl_low, size;

                if (!skip_name(reader) || !read_u16(reader, &type) || !read_u16(reader, &class) ||
                    !read_u16(reader, &ttl_high) || !read_u16(reader, &ttl_low) ||
                    !read_u16(reader, &size) || !skip(reader, size))
                        return false;
                if (type != DNS_TYPE_OPT)
                        continue;
                if (query->has_edns)
                        return false;
                query->has_edns = true;
                *ret_version = (ttl_high & 0xff) == 0;
        }
        return true;
}

static int answer(DnsQuery *query, DnsCode code, DnsCode *ret_code) {
        query->question_size = 0;
        *ret_code = code;
        return DNS_E_CODE;
}

int dns_query_parse(const uint8_t *message, size_t size, DnsQuery *ret_query, DnsCode *ret_code) {
        Reader reader = {.data = message, .size = size};
        uint16_t n_questions, n_answers, n_authorities, n_additional;
        bool version = true;

        /* Not cleared as a whole: the text is large. */
        ret_query->has_edns = false;
        ret_query->question_size = 0;
        ret_query->name[0] = 0;
        if (!read_u16(&reader, &ret_query->id) || !read_u16(&reader, &ret_query->flags) ||
            !read_u16(&reader, &n_questions) || !read_u16(&reader, &n_answers) ||
            !read_u16(&reader, &n_authorities) || !read_u16(&reader, &n_additional) ||
            ret_query->flags & FLAG_RESPONSE)
                return DNS_E_DROP;
        if (ret_query->flags & FLAG_OPCODE)
                return answer(ret_query, DNS_NOTIMP, ret_code);
        if (n_questions != 1 || n_answers != 0 || n_authorities != 0)
                return answer(ret_query, DNS_FORMERR, ret_code);

        ret_query->question = message + reader.at;
        if (!read_question_name(&reader, ret_query) || !read_u16(&reader, &ret_query->type) ||
            !read_u16(&reader, &ret_query->class))
                return answer(ret_query, DNS_FORMERR, ret_code);
        ret_query->question_size = reader.at - HEADER_SIZE;
        if (!read_additional(&reader, n_additional, ret_query, &version))
                return answer(ret_query, DNS_FORMERR, ret_code);
        return version ? 0 : answer(ret_query, DNS_BADVERS, ret_code);
}

/* --- answers --- */

static size_t put_u16(uint8_t *reply, size_t at, unsigned value) {
        reply[at] = (uint8_t) (value >> 8);
        reply[at + 1] = (uint8_t) value;
        return at + 2;
}

static size_t put_u32(uint8_t *reply, size_t at, uint32_t value) {
        return put_u16(reply, put_u16(reply, at, value >> 16), value & 0xffff);
}

static size_t put_address(uint8_t *reply, size_t at, const Address *address, uint32_t ttl_sec) {
        size_t size = address->family == AF_INET ? 4 : 16;

        at = put_u16(reply, at, 0xc000 | HEADER_SIZE); /* the name of the question */
        at = put_u16(reply, at, address->family == AF_INET ? DNS_TYPE_A : DNS_TYPE_AAAA);
        at = put_u16(reply, at, DNS_CLASS_IN);
        at = put_u32(reply, at, ttl_sec);
        at = put_u16(reply, at, (unsigned) size);
        memcpy(reply + at, address->bytes, size);
        return at + size;
}

static size_t put_edns(uint8_t *reply, size_t at, DnsCode code) {
        reply[at++] = 0;
        at = put_u16(reply, at, DNS_TYPE_OPT);
        at = put_u16(reply, at, DNS_QUERY_MAX);
        at = put_u32(reply, at, (uint32_t) code >> 4 << 24);
        return put_u16(reply, at, 0);
}

/* Header, the question of at most 259 bytes, a record of 28 and EDNS of 11 always fit. It is said
 * that recursion is available, since some clients take a server without as a lame one. */
size_t dns_reply_write(const DnsQuery *query, DnsCode code, const Address *address,
                       uint32_t ttl_sec, uint8_t reply[static DNS_REPLY_MAX]) {
        unsigned flags =
                FLAG_RESPONSE | FLAG_AUTHORITATIVE | FLAG_RECURSION_AVAILABLE |
                (query->flags & (FLAG_OPCODE | FLAG_RECURSION_DESIRED | FLAG_CHECKING_DISABLED)) |
                ((unsigned) code & 0xf);
        size_t at = 0;

        at = put_u16(reply, at, query->id);
        at = put_u16(reply, at, flags);
        at = put_u16(reply, at, query->question_size > 0);
        at = put_u16(reply, at, address != NULL);
        at = put_u16(reply, at, 0);
        at = put_u16(reply, at, query->has_edns);
        if (query->question_size > 0) {
                memcpy(reply + at, query->question, query->question_size);
                at += query->question_size;
        }
        if (address)
                at = put_address(reply, at, address, ttl_sec);
        return query->has_edns ? put_edns(reply, at, code) : at;
}
