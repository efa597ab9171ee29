/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/dump.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>

#include "basic/error.h"
#include "basic/time-util.h"

/* The first failure stays, so that it is asked for once. */
typedef struct Writer {
        StrBuf *out;
        unsigned depth;
        bool first; /* nothing stands before in this object or list */
        int error;
} Writer;

static void put(Writer *w, const char *s, size_t size) {
        if (w->error == 0)
                w->error = strbuf_append(w->out, s, size);
}

static void put_text(Writer *w, const char *s) {
        put(w, s, strlen(s));
}

static void put_string(Writer *w, const char *s) {
        put_text(w, "\"");
        for (const char *p = s; *p; p++) {
                char escape[8];

                if (*p == '"' || *p == '\\') {
                        put(w, "\\", 1);
                        put(w, p, 1);
                } else if ((unsigned char) *p < ' ' || *p == 0x7f) {
                        (void) snprintf(escape, sizeof(escape), "\\u%04x", (unsigned) *p);
                        put_text(w, escape);
                } else
                        put(w, p, 1);
        }
        put_text(w, "\"");
}

static void put_uint(Writer *w, uint64_t value) {
        char text[24];

        (void) snprintf(text, sizeof(text), "%" PRIu64, value);
        put_text(w, text);
}

static void put_line(Writer *w) {
        put_text(w, "\n");
        for (unsigned i = 0; i < w->depth; i++)
                put_text(w, "  ");
}

/* A value follows. */
static void begin_member(Writer *w, const char *key) {
        if (!w->first)
                put_text(w, ",");
        w->first = false;
        put_line(w);
        put_string(w, key);
        put_text(w, ": ");
}

static void begin_object(Writer *w) {
        put_text(w, "{");
        w->depth++;
        w->first = true;
}

static void end_object(Writer *w) {
        w->depth--;
        if (!w->first)
                put_line(w);
        put_text(w, "}");
        w->first = false;
}

static void begin_item(Writer *w) {
        if (!w->first)
                put_text(w, ", ");
        w->first = false;
}

static void begin_list(Writer *w, const char *key) {
        begin_member(w, key);
        put_text(w, "[");
        w->first = true;
}

static void end_list(Writer *w) {
        put_text(w, "]");
        w->first = false;
}

static void member_string(Writer *w, const char *key, const char *value) {
        begin_member(w, key);
        put_string(w, value);
}

static void member_uint(Writer *w, const char *key, uint64_t value) {
        begin_member(w, key);
        put_uint(w, value);
}

static void member_strings(Writer *w, const char *key, const StrV *values) {
        begin_list(w, key);
        for (size_t i = 0; i < values->n_items; i++) {
                begin_item(w);
                put_string(w, values->items[i]);
        }
        end_list(w);
}

/* --- limits --- */

/* Milliseconds where they are whole, as everywhere in a file. */
static void put_time(Writer *w, uint64_t usec) {
        char text[40];

        if (usec % USEC_PER_MSEC == 0) {
                put_uint(w, usec / USEC_PER_MSEC);
                return;
        }
        (void) snprintf(text, sizeof(text), "\"%llu.%03llums\"",
                        (unsigned long long) (usec / USEC_PER_MSEC),
                        (unsigned long long) (usec % USEC_PER_MSEC));
        put_text(w, text);
}

static void put_limit(Writer *w, LimitName name, uint64_t value) {
        char text[40];

        switch (limit_unit(name)) {
        case LIMIT_UNIT_USEC:
                put_time(w, value);
                break;
        case LIMIT_UNIT_MILLI:
                (void) snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64, value / 1000,
                                value % 1000);
                put_text(w, text);
                break;
        case LIMIT_UNIT_BYTES:
        case LIMIT_UNIT_COUNT:
                put_uint(w, value);
                break;
        }
}

static void member_limits(Writer *w, const Limits *limits) {
        for (LimitName name = 0; name < _LIMIT_MAX; name++) {
                if ((limits->given & 1U << name) == 0)
                        continue;
                begin_member(w, limit_to_string(name));
                put_limit(w, name, limits->max[name]);
        }
}

static void member_on_excess(Writer *w, CeilingsExcess on_excess) {
        member_string(w, "on_excess", on_excess == CEILINGS_CLAMP ? "clamp" : "refuse");
}

/* --- destinations --- */

static void put_destination(Writer *w, const Destination *d) {
        char text[CIDR_TEXT_SIZE];

        put_text(w, "{\"name\": ");
        put_string(w, d->name);
        put_text(w, ", \"port\": ");
        put_uint(w, d->port);
        put_text(w, ", \"type\": ");
        put_string(w, destination_type_to_string(d->type));
        for (size_t i = 0; i < d->n_addresses; i++) {
                cidr_format(&d->addresses[i], text);
                put_text(w, i > 0 ? ", " : ", \"addresses\": [");
                put_string(w, text);
        }
        put_text(w, d->n_addresses > 0 ? "]}" : "}");
}

static void member_egress(Writer *w, const DestinationList *list, bool templates) {
        begin_list(w, "egress");
        if (templates) {
                begin_item(w);
                put_string(w, TENANT_TEMPLATES);
        }
        for (size_t i = 0; i < list->n_items; i++) {
                begin_item(w);
                put_destination(w, &list->items[i]);
        }
        end_list(w);
}

/* --- agentcrated.json --- */

static void write_config(Writer *w, const Config *c) {
        char listen[LISTEN_ADDRESS_SIZE];

        begin_object(w);
        if (c->enforce_given)
                member_string(w, "enforce", enforce_to_string(c->enforce));
        if (c->listen_metrics.port > 0) {
                listen_address_format(&c->listen_metrics, listen);
                begin_member(w, "listen");
                begin_object(w);
                member_string(w, "metrics", listen);
                end_object(w);
        }
        begin_member(w, "instance");
        begin_object(w);
        member_limits(w, &c->instance.limits);
        member_uint(w, "crates", c->crates_max);
        member_on_excess(w, c->instance.on_excess);
        end_object(w);
        begin_member(w, "egress");
        begin_object(w);
        member_strings(w, "deny", &c->egress.deny);
        member_strings(w, "resolver", &c->egress.resolver);
        member_uint(w, "connections", c->egress.connections);
        begin_member(w, "idle");
        put_time(w, c->egress.idle_usec);
        if (c->egress.bytes > 0)
                member_uint(w, "bytes", c->egress.bytes);
        end_object(w);
        begin_list(w, "subuid_range");
        begin_item(w);
        put_uint(w, c->subuid_base);
        begin_item(w);
        put_uint(w, c->subuid_count);
        end_list(w);
        begin_member(w, "audit");
        begin_object(w);
        if (c->audit_path)
                member_string(w, "path", c->audit_path);
        member_string(w, "on_failure", c->audit_fail_open ? "continue" : "refuse");
        begin_member(w, "payloads");
        put_text(w, c->audit_payloads ? "true" : "false");
        end_object(w);
        if (c->otlp) {
                begin_member(w, "telemetry");
                begin_object(w);
                member_string(w, "otlp", c->otlp);
                end_object(w);
        }
        member_uint(w, "message_max", c->message_max);
        begin_member(w, "idle_exit");
        put_time(w, c->idle_usec);
        end_object(w);
}

/* --- templates --- */

static void member_binds(Writer *w, const char *key, const TemplateBind *binds, size_t n_binds) {
        begin_list(w, key);
        for (size_t i = 0; i < n_binds; i++) {
                begin_item(w);
                if (string_equal(binds[i].from, binds[i].to)) {
                        put_string(w, binds[i].to);
                        continue;
                }
                put_text(w, "{\"from\": ");
                put_string(w, binds[i].from);
                put_text(w, ", \"to\": ");
                put_string(w, binds[i].to);
                put_text(w, "}");
        }
        end_list(w);
}

static void member_env(Writer *w, const StrV *env) {
        begin_member(w, "env");
        begin_object(w);
        for (size_t i = 0; i < env->n_items; i++) {
                const char *equals = strchr(env->items[i], '=');
                _cleanup_(freep) char *name = NULL;

                name = strndup(env->items[i], (size_t) (equals - env->items[i]));
                if (!name) {
                        w->error = error_origin(-ENOMEM);
                        return;
                }
                member_string(w, name, equals + 1);
        }
        end_object(w);
}

static void write_template(Writer *w, const Template *t) {
        begin_object(w);
        member_string(w, "description", t->description);
        member_string(w, "root", t->root ?: "host");
        member_binds(w, "ro", t->ro, t->n_ro);
        member_binds(w, "rw", t->rw, t->n_rw);
        member_strings(w, "hide", &t->hide);
        member_strings(w, "tmpfs", &t->tmpfs);
        member_string(w, "etc", t->etc_minimal ? "minimal" : "root");
        member_env(w, &t->env);
        member_strings(w, "pass_env", &t->pass_env);
        member_string(w, "seccomp", t->seccomp);
        begin_member(w, "limits");
        begin_object(w);
        member_limits(w, &t->limits);
        end_object(w);
        member_string(w, "on_hit", on_hit_to_string(t->on_hit));
        member_egress(w, &t->egress, false);
        member_strings(w, "operations", &t->operations);
        begin_member(w, "pool");
        begin_object(w);
        member_uint(w, "min", t->pool_min);
        member_uint(w, "max", t->pool_max);
        end_object(w);
        end_object(w);
}

/* --- tenants --- */

static void member_ids(Writer *w, const char *key, const TenantIds *ids) {
        if (ids->n_items == 0)
                return;
        begin_list(w, key);
        for (size_t i = 0; i < ids->n_items; i++) {
                begin_item(w);
                put_uint(w, ids->items[i].id);
        }
        end_list(w);
}

/* In the order in which they were written: their places are the names of rules. */
static void member_rules(Writer *w, const char *key, const Rules *rules) {
        begin_list(w, key);
        for (size_t i = 0; i < rules->n_items; i++) {
                begin_item(w);
                put_string(w, rules_at(rules, i)->text);
        }
        end_list(w);
}

static void member_arguments(Writer *w, const Tenant *t) {
        begin_member(w, "arguments");
        begin_object(w);
        for (size_t i = 0; i < t->n_arguments; i++) {
                begin_member(w, t->arguments[i].tool);
                put_text(w, t->arguments[i].text);
        }
        end_object(w);
}

static void member_workspaces(Writer *w, const Tenant *t) {
        begin_list(w, "workspaces");
        for (size_t i = 0; i < t->workspaces.n_items; i++) {
                begin_item(w);
                put_string(w, t->workspaces.items[i]);
        }
        if (t->workspace_connection) {
                begin_item(w);
                put_string(w, TENANT_CONNECTION);
        }
        end_list(w);
}

static void write_tenant(Writer *w, const Tenant *t) {
        begin_object(w);
        member_string(w, "description", t->description);
        begin_member(w, "match");
        begin_object(w);
        member_ids(w, "uid", &t->uids);
        member_ids(w, "gid", &t->gids);
        end_object(w);
        member_strings(w, "scopes", &t->scopes);
        begin_member(w, "tools");
        begin_object(w);
        member_rules(w, "allow", &t->allow);
        member_rules(w, "deny", &t->deny);
        end_object(w);
        member_arguments(w, t);
        member_workspaces(w, t);
        member_rules(w, "templates", &t->templates);
        member_egress(w, &t->egress, t->egress_templates);
        member_strings(w, "operations", &t->operations);
        begin_member(w, "ceilings");
        begin_object(w);
        member_limits(w, &t->ceilings.limits);
        if (t->sandboxes_max != SIZE_MAX)
                member_uint(w, "sandboxes", t->sandboxes_max);
        member_on_excess(w, t->ceilings.on_excess);
        end_object(w);
        end_object(w);
}

/* --- files, and all of them --- */

int policy_dump_config(const Config *config, StrBuf *out) {
        Writer w = {.out = out};

        write_config(&w, config);
        put_text(&w, "\n");
        return error_trace(w.error);
}

int policy_dump_template(const Template *template, StrBuf *out) {
        Writer w = {.out = out};

        write_template(&w, template);
        put_text(&w, "\n");
        return error_trace(w.error);
}

int policy_dump_tenant(const Tenant *tenant, StrBuf *out) {
        Writer w = {.out = out};

        write_tenant(&w, tenant);
        put_text(&w, "\n");
        return error_trace(w.error);
}

static void begin_file(Writer *w, const char *folder, const char *name) {
        _cleanup_(freep) char *key = NULL;

        if (asprintf(&key, "%s/%s.json", folder, name) < 0) {
                key = NULL;
                w->error = error_origin(-ENOMEM);
        } else
                begin_member(w, key);
}

static void write_sources(Writer *w, const Policy *policy) {
        begin_member(w, "sources");
        begin_object(w);
        member_string(w, "agentcrated.json", policy->config.file ?: TENANT_BUILT_IN);
        for (size_t i = 0; i < policy->n_templates; i++) {
                begin_file(w, source_templates.name, policy->templates[i]->name);
                put_string(w, policy->templates[i]->file);
        }
        for (size_t i = 0; i < policy->n_tenants; i++) {
                begin_file(w, source_tenants.name, policy->tenants[i]->name);
                put_string(w, policy->tenants[i]->file);
        }
        for (size_t i = 0; i < policy->n_credentials; i++) {
                begin_file(w, source_credentials.name, policy->credentials[i]->name);
                put_string(w, policy->credentials[i]->file);
        }
        end_object(w);
}

/* One line: it is written by what tells agentcrate-egress of it, so that nothing is forgotten here
 * that counts there. */
static void write_credential(Writer *w, const Credential *credential) {
        char all[] = "*", *rules[] = {all, NULL};
        const StrV every = {.items = rules, .n_items = 1};

        if (w->error == 0)
                w->error = credential_write(credential, &every, w->out);
}

int policy_dump(const Policy *policy, bool sources, StrBuf *out) {
        Writer w = {.out = out};

        begin_object(&w);
        if (sources)
                write_sources(&w, policy);
        begin_member(&w, "agentcrated.json");
        write_config(&w, &policy->config);
        for (size_t i = 0; i < policy->n_templates; i++) {
                begin_file(&w, source_templates.name, policy->templates[i]->name);
                write_template(&w, policy->templates[i]);
        }
        for (size_t i = 0; i < policy->n_tenants; i++) {
                begin_file(&w, source_tenants.name, policy->tenants[i]->name);
                write_tenant(&w, policy->tenants[i]);
        }
        for (size_t i = 0; i < policy->n_credentials; i++) {
                begin_file(&w, source_credentials.name, policy->credentials[i]->name);
                write_credential(&w, policy->credentials[i]);
        }
        end_object(&w);
        put_text(&w, "\n");
        return error_trace(w.error);
}

int policy_digest(const Policy *policy, char ret_digest[static POLICY_DIGEST_SIZE]) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx context;
        int r;

        r = policy_dump(policy, false, &text);
        if (r < 0)
                return error_trace(r);
        sha256_init(&context);
        sha256_update(&context, text.size, (const uint8_t *) text.data);
        /* What was read beside the files is in force as they are, with its NUL as its end. */
        for (size_t i = 0; i < policy->n_credentials; i++)
                if (policy->credentials[i]->ca_text)
                        sha256_update(&context, strlen(policy->credentials[i]->ca_text) + 1,
                                      (const uint8_t *) policy->credentials[i]->ca_text);
        sha256_digest(&context, sizeof(digest), digest);
        (void) snprintf(ret_digest, POLICY_DIGEST_SIZE, "sha256:");
        for (size_t i = 0; i < sizeof(digest); i++)
                (void) snprintf(ret_digest + 7 + 2 * i, 3, "%02x", digest[i]);
        return 0;
}
