/* SPDX-License-Identifier: Apache-2.0 */
#include "crate/result.h"

#include <inttypes.h>
#include <stdarg.h>
#include <sys/random.h>

#include "basic/error.h"
#include "basic/string-util.h"
#include "basic/time-util.h"
#include "basic/utf8-cut.h"
#include "crate/denied.h"

#define EXIT_RUNNER_FAILED 125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_WALL_TIME 124
#define EXIT_OTHER_LIMIT 137
#define EXIT_SIGNAL_BASE 128

static const char *const outcome_names[] = {
        [CRATE_EXITED] = "exited",       [CRATE_SIGNALED] = "signaled",
        [CRATE_LIMIT] = "limit",         [CRATE_EXEC_FAILED] = "exec_failed",
        [CRATE_CANCELLED] = "cancelled", [CRATE_LOST] = "lost",
};

static const char *const level_names[] = {
        [CRATE_LEVEL_JOB] = "job",
        [CRATE_LEVEL_SANDBOX] = "sandbox",
        [CRATE_LEVEL_TENANT] = "tenant",
        [CRATE_LEVEL_INSTANCE] = "instance",
};

const char *crate_level_to_string(CrateLevel level) {
        return level_names[level];
}

const char *crate_outcome_to_string(CrateOutcome outcome) {
        return (size_t) outcome < ELEMENTSOF(outcome_names) ? outcome_names[outcome] : NULL;
}

void crate_error_done(CrateError *error) {
        free(error->step);
        free(error->path);
        free(error->text);
        free(error->remedy);
        *error = CRATE_ERROR_NULL;
}

static int string_copy(const char *s, char **ret_copy) {
        char *copy;

        if (!s)
                return 0;
        copy = strdup(s);
        if (!copy)
                return error_origin(-ENOMEM);
        *ret_copy = copy;
        return 0;
}

int crate_error_set(CrateError *error, const char *step, int errno_value, const char *path,
                    const char *remedy, const char *format, ...) {
        _cleanup_(crate_error_done) CrateError fresh = CRATE_ERROR_NULL;
        va_list ap;
        int r;

        fresh.error = errno_value;
        r = string_copy(step, &fresh.step);
        if (r >= 0)
                r = string_copy(path, &fresh.path);
        if (r >= 0)
                r = string_copy(remedy, &fresh.remedy);
        if (r < 0)
                return error_trace(r);

        va_start(ap, format);
        r = vasprintf(&fresh.text, format, ap);
        va_end(ap);
        if (r < 0) {
                fresh.text = NULL;
                return error_origin(-ENOMEM);
        }

        crate_error_done(error);
        *error = fresh;
        fresh = CRATE_ERROR_NULL;
        return 0;
}

void crate_result_init(CrateResult *result) {
        uint64_t id = 0;

        *result = (CrateResult){
                .outcome = CRATE_LOST,
                .exit_code = -1,
                .limit = {.name = _LIMIT_INVALID},
                .pids_peak = LIMIT_UNLIMITED,
                .io_read_bytes = LIMIT_UNLIMITED,
                .io_write_bytes = LIMIT_UNLIMITED,
        };
        /* Only a name: should the kernel's pool not be ready, the clock is good enough. */
        if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t) sizeof(id))
                id = now_usec();
        (void) snprintf(result->job, sizeof(result->job), "j-%016" PRIx64, id);
}

void crate_result_done(CrateResult *result) {
        free(result->tenant);
        free(result->template);
        json_decref(result->denied);
        json_decref(result->reached);
        json_decref(result->called);
        crate_error_done(&result->error);
        capture_done(&result->out);
        capture_done(&result->err);
        for (size_t i = 0; i < result->n_evidence; i++)
                free(result->evidence[i].text);
        *result = (CrateResult){.exit_code = -1, .limit = {.name = _LIMIT_INVALID}};
}

int crate_result_add_evidence(CrateResult *result, uint64_t usec, const char *kind,
                              const char *format, ...) {
        va_list ap;
        char *text;
        int r;

        if (result->n_evidence >= CRATE_EVIDENCE_MAX)
                return 0;
        va_start(ap, format);
        r = vasprintf(&text, format, ap);
        va_end(ap);
        if (r < 0)
                return error_origin(-ENOMEM);
        result->evidence[result->n_evidence++] =
                (CrateEvidence){.usec = usec, .kind = kind, .text = text};
        return 0;
}

/* "SIGKILL", "SIGRTMIN+3" */
static void signal_format(int signal, char *ret, size_t size) {
        const char *name = sigabbrev_np(signal);

        if (name)
                (void) snprintf(ret, size, "SIG%s", name);
        else if (signal >= SIGRTMIN && signal <= SIGRTMAX)
                (void) snprintf(ret, size, "SIGRTMIN+%d", signal - SIGRTMIN);
        else
                (void) snprintf(ret, size, "signal %d", signal);
}

/* --- the record --- */

/* Sets a member and says whether that worked; the value is consumed also on failure, as jansson has
 * it, and may be NULL for "out of memory". */
static bool member(json_t *object, const char *name, json_t *value) {
        return json_object_set_new(object, name, value) == 0;
}

/* A text of whatever origin; NULL becomes null. */
static json_t *json_text(const char *s) {
        _cleanup_(freep) char *valid = NULL;

        if (!s)
                return json_null();
        valid = utf8_replace_invalid(s);
        return valid ? json_string(valid) : NULL;
}

static json_t *json_count(uint64_t value) {
        return json_integer((json_int_t) (value > INT64_MAX ? INT64_MAX : value));
}

static json_t *json_known(uint64_t value) {
        return value == LIMIT_UNLIMITED ? json_null() : json_count(value);
}

/* A value of a limit in the unit that JSON has for it. */
static json_t *json_limit_value(LimitName name, uint64_t value) {
        if (value == LIMIT_UNLIMITED)
                return json_null();

        switch (limit_unit(name)) {
        case LIMIT_UNIT_USEC:
                return json_count(value / USEC_PER_MSEC);
        case LIMIT_UNIT_MILLI:
                return json_real((double) value / 1000);
        case LIMIT_UNIT_BYTES:
        case LIMIT_UNIT_COUNT:
                break;
        }
        return json_count(value);
}

static json_t *error_to_json(const CrateError *error) {
        const char *name = error->error > 0 ? strerrorname_np(error->error) : NULL;
        json_t *object;

        if (!error->text)
                return json_null();
        object = json_object();
        if (member(object, "step", json_text(error->step)) &&
            member(object, "errno", json_text(name)) &&
            member(object, "path", json_text(error->path)) &&
            member(object, "text", json_text(error->text)) &&
            member(object, "remedy", json_text(error->remedy)))
                return object;
        json_decref(object);
        return NULL;
}

static json_t *limit_to_json(const CrateResult *result) {
        const CrateBreach *limit = &result->limit;
        json_t *object;

        if (limit->name == _LIMIT_INVALID)
                return json_null();
        object = json_object();
        if (member(object, "name", json_text(limit_to_string(limit->name))) &&
            member(object, "max", json_limit_value(limit->name, limit->max)) &&
            member(object, "observed", json_limit_value(limit->name, limit->observed)) &&
            member(object, "level", json_text(crate_level_to_string(limit->level))) &&
            member(object, "enforced_by", json_text(limit->enforced_by)))
                return object;
        json_decref(object);
        return NULL;
}

static json_t *limit_state_to_json(const char *called, LimitName name,
                                   const CrateLimitState *state) {
        json_t *object = json_object();

        if (member(object, "name", json_text(called)) &&
            member(object, "max", json_limit_value(name, state->max)) &&
            member(object, "peak", json_limit_value(name, state->peak)) &&
            member(object, "hits", json_count(state->hits)) &&
            member(object, "enforced_by", json_text(state->enforced_by)))
                return object;
        json_decref(object);
        return NULL;
}

static json_t *limits_to_json(const CrateResult *result) {
        static const CrateLimitState workspace = {
                .max = LIMIT_UNLIMITED,
                .peak = LIMIT_UNLIMITED,
                .enforced_by = "none",
        };
        json_t *array = json_array();

        for (int i = 0; result->limits_known && i < _LIMIT_MAX; i++)
                if (json_array_append_new(array, limit_state_to_json(limit_to_string((LimitName) i),
                                                                     (LimitName) i,
                                                                     &result->limits[i])) < 0)
                        goto fail;

        /* A host folder that the job may write to lies outside of every limit of ours: say so. */
        if (result->workspace_rw &&
            json_array_append_new(
                    array, limit_state_to_json("workspace_disk", LIMIT_DISK, &workspace)) < 0)
                goto fail;
        return array;

fail:
        json_decref(array);
        return NULL;
}

static bool egress_to_usage(json_t *object, const CrateEgressUse *use) {
        return !use->known || (member(object, "egress_connections", json_count(use->connections)) &&
                               member(object, "egress_bytes_in", json_count(use->bytes_in)) &&
                               member(object, "egress_bytes_out", json_count(use->bytes_out)));
}

static json_t *usage_to_json(const CrateResult *result) {
        json_t *object = json_object();

        /* What nobody could tell is null rather than a made-up number. */
        if (member(object, "wall_ms", json_count(result->wall_usec / USEC_PER_MSEC)) &&
            member(object, "cpu_ms", json_count(result->cpu_usec / USEC_PER_MSEC)) &&
            member(object, "memory_peak_bytes", json_count(result->memory_peak_bytes)) &&
            member(object, "pids_peak", json_known(result->pids_peak)) &&
            member(object, "io_read_bytes", json_known(result->io_read_bytes)) &&
            member(object, "io_write_bytes", json_known(result->io_write_bytes)) &&
            egress_to_usage(object, &result->egress))
                return object;
        json_decref(object);
        return NULL;
}

static json_t *evidence_to_json(const CrateResult *result) {
        json_t *array = json_array();

        for (size_t i = 0; i < result->n_evidence; i++) {
                const CrateEvidence *evidence = &result->evidence[i];
                json_t *object = json_object();

                if (!member(object, "ms", json_count(evidence->usec / USEC_PER_MSEC)) ||
                    !member(object, "kind", json_text(evidence->kind)) ||
                    !member(object, "text", json_text(evidence->text))) {
                        json_decref(object);
                        object = NULL;
                }
                if (json_array_append_new(array, object) < 0) {
                        json_decref(array);
                        return NULL;
                }
        }
        return array;
}

static json_t *signal_to_json(int signal) {
        char name[32];

        if (signal == 0)
                return json_null();
        signal_format(signal, name, sizeof(name));
        return json_string(name);
}

static bool stream_to_json(json_t *record, const char *name, const Capture *capture,
                           bool with_output) {
        _cleanup_(freep) char *text = NULL;
        const char *encoding = "utf-8";
        bool truncated = with_output ? capture_truncated(capture) : capture->total > 0;
        char key[32];
        size_t size = 0;

        if (with_output && capture_text(capture, &text, &size, &encoding) < 0)
                return false;
        if (!member(record, name, json_stringn(text ?: "", size)))
                return false;
        (void) snprintf(key, sizeof(key), "%s_bytes", name);
        if (!member(record, key, json_count(capture->total)))
                return false;
        (void) snprintf(key, sizeof(key), "%s_truncated", name);
        if (!member(record, key, json_boolean(truncated)))
                return false;
        (void) snprintf(key, sizeof(key), "%s_encoding", name);
        return member(record, key, json_string(encoding));
}

json_t *crate_result_to_json(const CrateResult *result, bool with_output) {
        json_t *exit_code = result->exit_code >= 0 ? json_integer(result->exit_code) : json_null();
        json_t *record = json_object();

        if (member(record, "job", json_text(result->job)) &&
            member(record, "sandbox", json_null()) &&
            member(record, "tenant", json_text(result->tenant ?: "owner")) &&
            member(record, "template", json_text(result->template)) &&
            member(record, "outcome", json_text(crate_outcome_to_string(result->outcome))) &&
            member(record, "exit_code", json_incref(exit_code)) &&
            member(record, "signal", signal_to_json(result->signal)) &&
            member(record, "error", error_to_json(&result->error)) &&
            member(record, "limit", limit_to_json(result)) &&
            member(record, "limits", limits_to_json(result)) &&
            stream_to_json(record, "stdout", &result->out, with_output) &&
            stream_to_json(record, "stderr", &result->err, with_output) &&
            member(record, "denied", denied_to_json(result)) &&
            member(record, "operations",
                   result->called ? json_incref(result->called) : json_array()) &&
            member(record, "usage", usage_to_json(result)) &&
            member(record, "evidence", evidence_to_json(result)) &&
            member(record, "plan_digest", json_text(result->plan_digest))) {
                json_decref(exit_code);
                return record;
        }
        json_decref(exit_code);
        json_decref(record);
        return NULL;
}

/* --- the verdict --- */

/* What a limit's breach was, and what to change. */
typedef struct LimitWords {
        const char *breach;
        const char *change;
} LimitWords;

static const LimitWords limit_words[_LIMIT_MAX] = {
        [LIMIT_MEMORY] = {"of memory were not enough", "raise it or use less memory"},
        [LIMIT_PIDS] = {"processes and threads were reached", "raise it or start fewer"},
        [LIMIT_CPUS] = {"CPUs were used up", "raise it"},
        [LIMIT_CPU_TIME] = {"of CPU time were used up", "raise it or split the work"},
        [LIMIT_WALL_TIME] = {"passed before the command ended", "raise it or split the work"},
        [LIMIT_DISK] = {"of private files were reached",
                        "raise it, or write big files to a workspace"},
        [LIMIT_INODES] = {"private files were reached", "raise it or make fewer files"},
        [LIMIT_OPEN_FILES] = {"open files were reached", "raise it or close files"},
        [LIMIT_FILE_SIZE] = {"in one file were reached", "raise it or write smaller files"},
        [LIMIT_OUTPUT] = {"of output were reached", "raise it, or write to a file"},
        [LIMIT_IO_READ_BPS] = {"per second were read", "raise it"},
        [LIMIT_IO_WRITE_BPS] = {"per second were written", "raise it"},
};

static char *verdict_limit(const CrateResult *result) {
        const CrateBreach *limit = &result->limit;
        char max[LIMIT_TEXT_SIZE], end[64] = "the job was ended", *line;

        if (limit->name == _LIMIT_INVALID)
                return NULL;
        limit_format(limit->name, limit->max, max, sizeof(max));
        if (result->ended_itself)
                (void) snprintf(end, sizeof(end), "the job ended with status %d",
                                result->exit_code);
        if (limit->level <= CRATE_LEVEL_SANDBOX) {
                if (asprintf(&line, "limit %s: %s %s, %s; %s", limit_to_string(limit->name), max,
                             limit_words[limit->name].breach, end,
                             limit_words[limit->name].change) < 0)
                        return NULL;
        } else if (asprintf(&line,
                            "limit %s: %s %s by all that share the ceiling of the %s, %s; run less "
                            "at a time, or have the ceiling raised",
                            limit_to_string(limit->name), max, limit_words[limit->name].breach,
                            crate_level_to_string(limit->level), end) < 0)
                return NULL;
        return line;
}

static char *verdict_error(const CrateResult *result) {
        const CrateError *error = &result->error;
        const char *name = error->error > 0 ? strerrorname_np(error->error) : NULL;
        /* What agentcrate-egress refuses was never begun, and is not lost: its words say all. */
        bool says_all = error->text && string_equal(error->step, "egress");
        char *line;

        if (asprintf(&line, "%s%s%s%s%s%s%s%s",
                     says_all ? "" : crate_outcome_to_string(result->outcome), says_all ? "" : ": ",
                     error->text ?: "the crate ended without an answer", name ? " (" : "",
                     name ?: "", name ? ")" : "", error->remedy ? "; " : "",
                     error->remedy ?: "") < 0)
                return NULL;
        return line;
}

static char *verdict_signal(const char *how, int signal) {
        char name[32], *line;

        if (signal == 0)
                return strdup(how);
        signal_format(signal, name, sizeof(name));
        if (asprintf(&line, "%s by %s", how, name) < 0)
                return NULL;
        return line;
}

char *crate_result_verdict(const CrateResult *result) {
        char *line;

        switch (result->outcome) {
        case CRATE_EXITED:
                if (result->exit_code == 0 ||
                    asprintf(&line, "exited with status %d", result->exit_code) < 0)
                        return NULL;
                return line;
        case CRATE_SIGNALED:
                return verdict_signal("signaled: the command was ended", result->signal);
        case CRATE_LIMIT:
                return verdict_limit(result);
        case CRATE_CANCELLED:
                return verdict_signal("cancelled: the job was ended", result->signal);
        case CRATE_EXEC_FAILED:
        case CRATE_LOST:
                return verdict_error(result);
        }
        return NULL;
}

static int exec_failed_status(const CrateError *error) {
        /* A step before exec is no fault of the command: its folder, its files, its limits. */
        if (!string_equal(error->step, "exec"))
                return EXIT_RUNNER_FAILED;
        return error->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

int crate_result_exit_status(const CrateResult *result) {
        switch (result->outcome) {
        case CRATE_EXITED:
                return result->exit_code;
        case CRATE_SIGNALED:
                return EXIT_SIGNAL_BASE + result->signal;
        case CRATE_LIMIT:
                return result->limit.name == LIMIT_WALL_TIME ? EXIT_WALL_TIME : EXIT_OTHER_LIMIT;
        case CRATE_EXEC_FAILED:
                return exec_failed_status(&result->error);
        case CRATE_CANCELLED:
                return EXIT_SIGNAL_BASE + (result->signal > 0 ? result->signal : SIGTERM);
        case CRATE_LOST:
                break;
        }
        return EXIT_RUNNER_FAILED;
}
