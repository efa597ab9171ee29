/* SPDX-License-Identifier: Apache-2.0 */

#include "http/reply.h"

#include "basic/error.h"
#include "basic/macros.h"

static const struct {
        int status;
        const char *text;
} statuses[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {203, "Non-Authoritative Information"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
};

const char *http_status_text(int status) {
        for (size_t i = 0; i < ELEMENTSOF(statuses); i++)
                if (statuses[i].status == status)
                        return statuses[i].text;
        return status < 300   ? "Success"
               : status < 400 ? "Redirection"
               : status < 500 ? "Client Error"
                              : "Server Error";
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
                           reply->status, http_status_text(reply->status), date,
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
