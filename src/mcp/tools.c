/* SPDX-License-Identifier: Apache-2.0 */

#include "mcp/tools.h"

#include <inttypes.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "mcp/operation-tool.h"
#include "mcp/schema.h"
#include "policy/limits.h"

static const char *const on_hit_choices[] = {"end", "refuse", NULL};
static const char *const encoding_choices[] = {"utf-8", "base64", NULL};
static const char *const workspace_mode_choices[] = {"ro", "rw", NULL};
static const char *const outcome_choices[] = {
        "exited", "signaled", "limit", "exec_failed", "cancelled", "lost", NULL,
};

static const SchemaMember workspace_members[] = {
        {.name = "path",
         .type = "string",
         .required = true,
         .description = "absolute path of a host directory that this connection may use"},
        {.name = "mode",
         .type = "string",
         .choices = workspace_mode_choices,
         .description = "ro: read-only; rw: changes are made on the host (default)"},
        {},
};

static const char *const destination_type_choices[] = {"tls", "http", "tcp", NULL};

static const SchemaMember destination_members[] = {
        {.name = "name",
         .type = "string",
         .required = true,
         .description = "host name, or *.NAME for all names below it"},
        {.name = "port", .type = "integer", .required = true},
        {.name = "type",
         .type = "string",
         .choices = destination_type_choices,
         .description = "what is spoken there; default: tls for port 443, http for 80, else tcp, "
                        "which is anything"},
        {.name = "addresses",
         .type = "array",
         .items = "string",
         .description = "private addresses or networks that the name may lead to"},
        {},
};

static const SchemaMember exec_arguments[] = {
        {.name = "argv",
         .type = "array",
         .items = "string",
         .description = "program and arguments, run without a shell; give this or command"},
        {.name = "command",
         .type = "string",
         .description = "shell text, run by /bin/sh; give this or argv"},
        {.name = "stdin",
         .type = "string",
         .description = "what the command reads from standard input; default: nothing"},
        {.name = "stdin_encoding",
         .type = "string",
         .choices = encoding_choices,
         .description = "how stdin is written: utf-8 (default) or base64"},
        {.name = "cwd",
         .type = "string",
         .description = "absolute working directory inside; default: /workspace"},
        {.name = "env",
         .type = "object",
         .values = "string",
         .description = "environment variables to set"},
        {.name = "timeout_ms",
         .type = "integer",
         .description = "ends the job after so many milliseconds; default: 120000"},
        {.name = "capture",
         .type = "integer",
         .description = "bytes of each output stream to give back, first half and last half; "
                        "default: 262144, at most 8388608"},
        {.name = "on_hit",
         .type = "string",
         .choices = on_hit_choices,
         .description = "what happens when the limit pids, disk or inodes is met: end the job "
                        "(default), or refuse the operation and go on"},
        {.name = "template",
         .type = "string",
         .description = "name of the template that says what the sandbox contains; default: host"},
        {.name = "workspace",
         .type = "object",
         .members = workspace_members,
         .description =
                 "object {path, mode}: the host directory path is shown at /workspace, read-only "
                 "with mode ro, writable with rw (default); without it the connection's "
                 "directory is, else an empty private one"},
        {.name = "egress",
         .type = "array",
         .members = destination_members,
         .or_text = true,
         .description =
                 "what the command may reach in the network, beside what the template names: "
                 "objects, or texts such as pypi.org:443; everything else fails at once. "
                 "Default: nothing"},
        {.name = "operations",
         .type = "string[]",
         .description =
                 "operations that the command may call, CREDENTIAL.OPERATION or CREDENTIAL.* each, "
                 "at http://CREDENTIAL.crate.internal/, beside those of the template"},
        {},
};

static const SchemaMember error_members[] = {
        {.name = "step", .type = "string?"},   {.name = "errno", .type = "string?"},
        {.name = "path", .type = "string?"},   {.name = "text", .type = "string?"},
        {.name = "remedy", .type = "string?"}, {},
};

static const SchemaMember limit_members[] = {
        {.name = "name", .type = "string", .required = true},
        {.name = "max", .type = "number?"},
        {.name = "observed", .type = "number?"},
        {.name = "level", .type = "string"},
        {.name = "enforced_by", .type = "string?"},
        {},
};

static const SchemaMember limits_members[] = {
        {.name = "name", .type = "string", .required = true},
        {.name = "max", .type = "number?"},
        {.name = "peak", .type = "number?"},
        {.name = "hits", .type = "integer?"},
        {.name = "enforced_by", .type = "string?"},
        {},
};

static const SchemaMember denied_members[] = {
        {.name = "kind", .type = "string", .required = true},
        {.name = "what", .type = "string"},
        {.name = "rule", .type = "string"},
        {.name = "count", .type = "integer"},
        {},
};

static const SchemaMember called_members[] = {
        {.name = "operation",
         .type = "string?",
         .required = true,
         .description = "CREDENTIAL.OPERATION; the credential alone: none of the job's"},
        {.name = "status", .type = "integer?", .required = true},
        {.name = "reason", .type = "string?"},
        {.name = "count", .type = "integer"},
        {},
};

static const SchemaMember usage_members[] = {
        {.name = "wall_ms", .type = "number"},
        {.name = "cpu_ms", .type = "number"},
        {.name = "memory_peak_bytes", .type = "integer?"},
        {.name = "pids_peak", .type = "integer?"},
        {.name = "io_read_bytes", .type = "integer?"},
        {.name = "io_write_bytes", .type = "integer?"},
        {.name = "egress_connections", .type = "integer"},
        {.name = "egress_bytes_in", .type = "integer"},
        {.name = "egress_bytes_out", .type = "integer"},
        {},
};

static const SchemaMember evidence_members[] = {
        {.name = "ms", .type = "number"},
        {.name = "kind", .type = "string"},
        {.name = "text", .type = "string"},
        {},
};

static const SchemaMember exec_record[] = {
        {.name = "job", .type = "string", .required = true, .description = "id of this run"},
        {.name = "sandbox", .type = "string?"},
        {.name = "tenant", .type = "string"},
        {.name = "template", .type = "string?"},
        {.name = "outcome",
         .type = "string",
         .choices = outcome_choices,
         .required = true,
         .description = "how the job ended"},
        {.name = "exit_code", .type = "integer?", .required = true},
        {.name = "signal", .type = "string?", .required = true},
        {.name = "error",
         .type = "object?",
         .members = error_members,
         .open = true,
         .description = "why the command could not be run"},
        {.name = "limit",
         .type = "object?",
         .members = limit_members,
         .open = true,
         .description = "the limit that ended the job"},
        {.name = "limits",
         .type = "array",
         .members = limits_members,
         .open = true,
         .description = "the limits in force and how near they were"},
        {.name = "stdout", .type = "string", .required = true},
        {.name = "stdout_bytes", .type = "integer", .description = "all that was written"},
        {.name = "stdout_truncated", .type = "boolean"},
        {.name = "stdout_encoding", .type = "string", .choices = encoding_choices},
        {.name = "stderr", .type = "string", .required = true},
        {.name = "stderr_bytes", .type = "integer"},
        {.name = "stderr_truncated", .type = "boolean"},
        {.name = "stderr_encoding", .type = "string", .choices = encoding_choices},
        {.name = "denied", .type = "array", .members = denied_members, .open = true},
        {.name = "operations", .type = "array", .members = called_members, .open = true},
        {.name = "usage", .type = "object", .members = usage_members, .open = true},
        {.name = "evidence", .type = "array", .members = evidence_members, .open = true},
        {.name = "plan_digest", .type = "string?"},
        {},
};

Tools *tools_free(Tools *tools) {
        if (!tools)
                return NULL;

        for (size_t i = 0; i < ELEMENTSOF(tools->json); i++)
                free(tools->json[i]);
        strv_done(&tools->names);
        free(tools);
        return NULL;
}

bool tools_equal(const Tools *a, const Tools *b) {
        for (McpRevision revision = 0; revision < _MCP_REVISION_MAX; revision++)
                if (!string_equal(a->json[revision], b->json[revision]))
                        return false;
        return true;
}

static const ToolRights rights[] = {
        {
                .name = TOOL_SANDBOX_EXEC,
                .scopes = {.items = (char *[]){(char[]){"exec"}, NULL}, .n_items = 1},
                .template_default = TOOL_TEMPLATE_DEFAULT,
        },
        {.name = TOOL_OPERATIONS_LIST},
};

const ToolRights *tools_rights_at(const Policy *policy, size_t i) {
        if (i < ELEMENTSOF(rights))
                return &rights[i];
        i -= ELEMENTSOF(rights);
        return policy && i < policy->exposed.n_items ? &policy->exposed.items[i].rights : NULL;
}

const ToolRights *tools_rights(const Policy *policy, const char *name) {
        const ToolRights *tool;

        for (size_t i = 0; (tool = tools_rights_at(policy, i)); i++)
                if (string_equal(tool->name, name))
                        return tool;
        return NULL;
}

bool tools_have(const Tools *tools, const char *name) {
        for (size_t i = 0; i < tools->names.n_items; i++)
                if (string_equal(tools->names.items[i], name))
                        return true;
        return false;
}

static json_t *limit_schema(LimitName name) {
        switch (limit_unit(name)) {
        case LIMIT_UNIT_BYTES:
                return schema_value(&(SchemaMember){
                        .type = "integer,string",
                        .description = "bytes; a string may have one of the suffixes K, M, G"});
        case LIMIT_UNIT_USEC:
                return schema_value(&(SchemaMember){
                        .type = "integer,string",
                        .description =
                                "milliseconds; a string may have one of the suffixes ms, s, m, h"});
        case LIMIT_UNIT_MILLI:
                return schema_value(&(SchemaMember){.type = "number"});
        default:
                return schema_value(&(SchemaMember){.type = "integer", .description = "count"});
        }
}

static json_t *limits_schema(void) {
        static const SchemaMember none[] = {{}};
        json_t *schema;

        schema = schema_object(none, false);
        if (!schema ||
            json_object_set_new(schema, "description",
                                json_string("limits of this job; see also timeout_ms")) < 0)
                goto fail;

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (schema_add(schema, limit_to_string(name), limit_schema(name)) < 0)
                        goto fail;
        return schema;

fail:
        json_decref(schema);
        return NULL;
}

static json_t *exec_input_schema(void) {
        json_t *schema;

        schema = schema_object(exec_arguments, false);
        if (schema && schema_add(schema, "limits", limits_schema()) < 0) {
                json_decref(schema);
                return NULL;
        }
        return schema;
}

/* What every tool has; the schemas are taken. */
typedef struct ToolFace {
        const char *name, *title;
        json_t *description, *input, *output;
        bool reads, destroys, repeats, open; /* hints */
} ToolFace;

static json_t *make_tool(const ToolFace *face, McpRevision revision) {
        json_t *tool;
        bool good;

        tool = json_pack("{s:s, s:o, s:o}", "name", face->name, "description", face->description,
                         "inputSchema", face->input);
        good = tool;
        if (good && mcp_revision_has_structured(revision))
                good = json_object_set_new(tool, "title", json_string(face->title)) == 0 &&
                       json_object_set(tool, "outputSchema", face->output) == 0;
        json_decref(face->output);
        if (good && mcp_revision_has_annotations(revision))
                good = json_object_set_new(tool, "annotations",
                                           json_pack("{s:s, s:b, s:b, s:b, s:b}", "title",
                                                     face->title, "readOnlyHint", (int) face->reads,
                                                     "destructiveHint", (int) face->destroys,
                                                     "idempotentHint", (int) face->repeats,
                                                     "openWorldHint", (int) face->open)) == 0;
        if (good)
                return tool;
        json_decref(tool);
        return NULL;
}

static json_t *exec_tool(McpRevision revision) {
        return make_tool(
                &(ToolFace){
                        .name = TOOL_SANDBOX_EXEC,
                        .title = "Run a command in a sandbox",
                        .description = json_string(
                                "Runs one command in a fresh Linux sandbox that is made for this "
                                "call and destroyed after it. Inside there are the system's "
                                "programs (read-only), a private home and /tmp, and /workspace as "
                                "working directory; there is no network and nothing of the user's "
                                "home or environment. Give either argv or command. The result has "
                                "standard output and error, the exit status, the limit that was "
                                "met if any, and what was used."),
                        .input = exec_input_schema(),
                        .output = schema_object(exec_record, true),
                        .destroys = true,
                },
                revision);
}

static json_t *operations_tool(McpRevision revision) {
        static const SchemaMember none[] = {{}};

        return make_tool(
                &(ToolFace){
                        .name = TOOL_OPERATIONS_LIST,
                        .title = "List the operations that jobs may call",
                        .description = json_string(
                                "Lists the requests to HTTP APIs that may be made with "
                                "credentials, which themselves stay outside: what each takes, its "
                                "limits, its URL in the sandbox of a job that names it in the "
                                "argument operations of sandbox_exec, and the tool that it is, if "
                                "it is one."),
                        .input = schema_object(none, false),
                        .output = operation_menu_output(),
                        .reads = true,
                        .repeats = true,
                },
                revision);
}

static json_t *exposed_tool(const ExposedTool *tool, McpRevision revision) {
        _cleanup_(freep) char *title = NULL;
        OperationMethod method = tool->operation->method;
        bool reads = method == OPERATION_GET || method == OPERATION_HEAD;

        if (asprintf(&title, "%s.%s", tool->credential->name, tool->operation->name) < 0) {
                title = NULL;
                return NULL;
        }
        return make_tool(
                &(ToolFace){
                        .name = tool->rights.name,
                        .title = title,
                        .description = operation_tool_description(tool),
                        .input = operation_tool_input(tool->operation),
                        .output = operation_tool_output(),
                        .reads = reads,
                        .destroys = !reads,
                        .repeats = reads || method == OPERATION_PUT || method == OPERATION_DELETE,
                        .open = true,
                },
                revision);
}

static json_t *all_tools(const Policy *policy, McpRevision revision) {
        json_t *list = json_pack("[o,o]", exec_tool(revision), operations_tool(revision));

        for (size_t i = 0; policy && i < policy->exposed.n_items; i++)
                if (json_array_append_new(list, exposed_tool(&policy->exposed.items[i], revision)) <
                    0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

int tools_new(const Policy *policy, Tools **ret_tools) {
        _cleanup_(tools_freep) Tools *tools = NULL;
        const ToolRights *tool;
        int r = 0;

        tools = calloc(1, sizeof(Tools));
        if (!tools)
                return error_origin(-ENOMEM);
        for (size_t i = 0; r == 0 && (tool = tools_rights_at(policy, i)); i++)
                r = strv_append(&tools->names, tool->name);
        if (r < 0)
                return error_trace(r);

        for (McpRevision revision = 0; revision < _MCP_REVISION_MAX; revision++) {
                json_t *list = all_tools(policy, revision);

                tools->json[revision] = json_dumps(list, JSON_COMPACT);
                json_decref(list);
                if (!tools->json[revision])
                        return error_origin(-ENOMEM);
        }

        *ret_tools = TAKE_PTR(tools);
        return 0;
}
