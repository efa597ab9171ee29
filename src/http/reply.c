/* SPDX-License-Identifier: Apache-2.0 */

#include "http/reply.h"

#include "basic/error.h"

static const char *status_text(int status) {
        switch (status) {
        case 200:
                return "OK";
        case 400:
                return "Bad Request";
        case 403:
                return "Forbidden";
        case 404:
                return "Not Found";
        case 405:
                return "Method Not Allowed";
        case 408:
                return "Request Timeout";
        case 413:
                return "Content Too Large";
        case 414:
                return "URI Too Long";
        case 431:
                return "Request Header Fields Too Large";
        case 500:
                return "Internal Server Error";
        case 501:
                return "Not Implemented";
        case 503:
                return "Service Unavailable";
        case 505:
                return "HTTP Version Not Supported";
        default:
                return "Unknown";
        }
}

static int append_head(StrBuf *out, const HttpReply *reply, time_t now) {
        char date[64] = "";
        struct tm tm;
        int r;

        if (!gmtime_r(&now, &tm) ||
            strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
                return error_origin(-EOVERFLOW);
        r = strbuf_appendf(out,
                           "HTTP/1.1 %d %s\r\n"
                           "Date: %s\r\n"
                           "Content-Type: %s\r\n"
                           "Content-Length: %zu\r\n"
                           "Cache-Control: no-store\r\n"
                           "X-Content-Type-Options: nosniff\r\n"
                           "Connection: %s\r\n",
                           reply->status, status_text(reply->status), date,
                           reply->type ?: "text/plain; charset=utf-8", reply->body_size,
                           reply->keep_alive ? "keep-alive" : "close");
        if (r == 0 && reply->allow)
                r = strbuf_appendf(out, "Allow: %s\r\n", reply->allow);
        if (r == 0)
                r = strbuf_append_string(out, "\r\n");
        return error_trace(r);
}

int http_append_reply(StrBuf *out, const HttpReply *reply, time_t now) {
        int r;

        r = append_head(out, reply, now);
        if (r == 0 && !reply->head && reply->body_size > 0)
                r = strbuf_append(out, reply->body, reply->body_size);
        return error_trace(r);
}
