/* SPDX-License-Identifier: Apache-2.0 */

/* What is told of each secret, and of all. */

#include <errno.h>
#include <string.h>

#include "basic/error.h"
#include "doctor/check.h"

#define SERVICE "agentcrate-egress.service"
#define SERVICE_USER "agentcrate-egress"

void doctor_secret_done(DoctorSecret *secret) {
        free(secret->name);
        free(secret->path);
        strv_done(&secret->credentials);
        free(secret->cause);
        free(secret->remedy);
        *secret = (DoctorSecret){};
}

static const struct {
        DoctorAnswer answer;
        const char *text, *remedy;
} sights[] = {
        [SECRET_HIDDEN] = {DOCTOR_LIMITED,
                           "is root's to see: whether " SERVICE " has it is not "
                           "known to this user",
                           "run agentcrate doctor as root"},
        [SECRET_SEALED] = {DOCTOR_LIMITED,
                           "is encrypted, and not loaded now: what is in it cannot be seen",
                           "systemctl restart " SERVICE ", and ask again"},
        [SECRET_DISTANT] = {DOCTOR_LIMITED, "comes from no plain file, and is not loaded now",
                            "systemctl restart " SERVICE ", and ask again"},
        [SECRET_STALE] = {DOCTOR_NO, "is given by the unit, but not to the service that runs",
                          "systemctl daemon-reload; systemctl restart " SERVICE},
        [SECRET_IN_UNIT] = {DOCTOR_NO, "stands in a file of " SERVICE ", which everybody can read",
                            "give it by LoadCredential= or LoadCredentialEncrypted=, and replace "
                            "it where it is used, for it is known now"},
};

static DoctorAnswer answer_of(const SecretFacts *facts) {
        if (facts->sight != SECRET_SEEN)
                return sights[facts->sight].answer;
        return facts->fault == SECRET_GOOD ? DOCTOR_YES : DOCTOR_NO;
}

static int append_remedy(const SecretFacts *facts, StrBuf *out) {
        const char *remedy = secret_fault_remedy(facts->fault);
        const char *path = facts->path ?: "its file";

        switch (facts->fault) {
        case SECRET_MISSING:
                if (facts->place == SECRET_OF_SYSTEMD)
                        return strbuf_appendf(out, "put it to %s, or take it out of the unit",
                                              path);
                return strbuf_appendf(out, "%swrite it to %s with mode 0400",
                                      facts->is_machines ? "give it by LoadCredential= or "
                                                           "LoadCredentialEncrypted= of " SERVICE
                                                           ", or "
                                                         : "",
                                      path);
        case SECRET_UNREADABLE:
                return strbuf_appendf(out, "%s%s, and let that user into its folder",
                                      facts->is_machines ? "chown " SERVICE_USER " "
                                                         : "chown it to who uses it: ",
                                      path);
        case SECRET_FOREIGN:
                return strbuf_appendf(out, "chown it to who uses it: %s", path);
        case SECRET_WORLD:
                return strbuf_appendf(out,
                                      "chmod 0400 %s, and replace it where it is used, for it is "
                                      "known now",
                                      path);
        case SECRET_GROUP:
                return strbuf_appendf(out, "chmod 0400 %s", path);
        case SECRET_EMPTY:
                return strbuf_appendf(out, "write it to %s", path);
        default:
                return strbuf_appendf(out, "%s: mend %s", remedy ?: "write a whole one", path);
        }
}

static int append_who(const SecretFacts *facts, StrBuf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < facts->credentials.n_items; i++)
                r = strbuf_appendf(out, "%s%s (%s)", i > 0 ? ", " : "", facts->credentials.items[i],
                                   facts->files.items[i]);
        return r;
}

static int judge_one(const SecretFacts *facts, DoctorSecret *secret) {
        _cleanup_(strbuf_done) StrBuf cause = STRBUF_NULL, remedy = STRBUF_NULL;
        bool seen = facts->sight == SECRET_SEEN;
        int r;

        secret->name = strdup(facts->name);
        secret->path = facts->path ? strdup(facts->path) : NULL;
        secret->is_machines = facts->is_machines;
        if (!secret->name || (facts->path && !secret->path) ||
            strv_copy(&secret->credentials, &facts->credentials) < 0)
                return error_origin(-ENOMEM);
        secret->answer = answer_of(facts);
        if (secret->answer == DOCTOR_YES)
                return 0;
        r = strbuf_appendf(&cause, "the secret %s ", facts->name);
        if (r == 0 && facts->path)
                r = strbuf_appendf(&cause, "in %s ", facts->path);
        if (r == 0)
                r = strbuf_appendf(&cause, "%s; it is needed by ",
                                   seen ? secret_fault_text(facts->fault)
                                        : sights[facts->sight].text);
        if (r == 0)
                r = append_who(facts, &cause);
        if (r == 0)
                r = seen ? append_remedy(facts, &remedy)
                         : strbuf_append_string(&remedy, sights[facts->sight].remedy);
        if (r < 0)
                return error_trace(r);
        secret->cause = strbuf_steal(&cause);
        secret->remedy = strbuf_steal(&remedy);
        return secret->cause && secret->remedy ? 0 : error_origin(-ENOMEM);
}

int secrets_judge(const DoctorFacts *facts, DoctorSecret **ret_secrets, size_t *ret_n) {
        size_t n = facts->secrets.n_items;
        int r = 0;

        *ret_secrets = calloc(n + 1, sizeof(**ret_secrets));
        if (!*ret_secrets)
                return error_origin(-ENOMEM);
        *ret_n = n;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = judge_one(&facts->secrets.items[i], &(*ret_secrets)[i]);
        return error_trace(r);
}

int judge_secrets(DoctorCheck *check, const DoctorFacts *facts) {
        _cleanup_(strbuf_done) StrBuf names = STRBUF_NULL;
        const SecretList *list = &facts->secrets;
        DoctorAnswer answer = DOCTOR_YES;
        size_t n = 0;

        for (size_t i = 0; i < list->n_items; i++) {
                DoctorAnswer one = answer_of(&list->items[i]);

                if (one == DOCTOR_YES)
                        continue;
                answer = one > answer ? one : answer;
                if (strbuf_appendf(&names, "%s%s", n++ > 0 ? ", " : "", list->items[i].name) < 0)
                        return error_origin(-ENOMEM);
        }
        if (list->n_items == 0)
                return check_found(check, "no credential needs one");
        if (n == 0)
                return check_found(check, "%zu, all usable", list->n_items);
        return check_answer(check, answer, "see what is told of each secret",
                            "of %zu secrets %zu %s: %s", list->n_items, n,
                            answer == DOCTOR_NO ? "cannot be used, and jobs that need them are "
                                                  "refused"
                                                : "cannot be seen from here",
                            names.data);
}
