/* SPDX-License-Identifier: Apache-2.0 */

/* The pages and the tables that they describe must name the same things, neither more nor less. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "plan/plan.h"
#include "policy/config.h"
#include "policy/limits.h"
#include "policy/template.h"
#include "policy/tenant.h"
#include "seccomp/profile.h"

/* The words of all lines of the page that begin with the prefix, from the heading to the next one
 * of its kind. Punctuation that mdoc sets apart is left out. */
static StrV page_words(const char *page, const char *heading, const char *prefix) {
        const char *top = secure_getenv("AGENTCRATE_SOURCE_DIR");
        char path[4096], line[1024];
        StrV words = STRV_NULL;
        bool inside = false;
        FILE *file;

        (void) snprintf(path, sizeof(path), "%s/man/%s", top ?: ".", page);
        file = fopen(path, "re");
        ck_assert_msg(file, "%s cannot be read", path);
        while (fgets(line, sizeof(line), file)) {
                char *save = NULL;

                line[strcspn(line, "\n")] = 0;
                if (strncmp(line, heading, 3) == 0)
                        inside = string_equal(line, heading);
                if (!inside || strncmp(line, prefix, strlen(prefix)) != 0)
                        continue;
                for (char *word = strtok_r(line + strlen(prefix), " ", &save); word;
                     word = strtok_r(NULL, " ", &save)) {
                        if (strlen(word) < 3 && strchr(",.():;", word[0]))
                                continue;
                        /* What follows another macro is no name of ours. */
                        if (word[0] >= 'A' && word[0] <= 'Z' && word[1] && !word[2])
                                break;
                        ck_assert_int_eq(strv_append(&words, word), 0);
                }
        }
        (void) fclose(file);
        return words;
}

static bool has(const StrV *words, const char *word) {
        for (size_t i = 0; i < words->n_items; i++)
                if (string_equal(words->items[i], word))
                        return true;
        return false;
}

static void same(const char *page, const StrV *documented, const StrV *known) {
        ck_assert_uint_gt(known->n_items, 0);
        for (size_t i = 0; i < known->n_items; i++)
                ck_assert_msg(has(documented, known->items[i]), "%s does not describe %s", page,
                              known->items[i]);
        for (size_t i = 0; i < documented->n_items; i++)
                ck_assert_msg(has(known, documented->items[i]), "%s describes %s, which is unknown",
                              page, documented->items[i]);
}

START_TEST(test_operations) {
        _cleanup_(strv_done) StrV known = STRV_NULL;
        _cleanup_(strv_done) StrV documented =
                page_words("agentcrate-plan.7", ".Ss Operations", ".It Cm ");

        for (PlanOpType type = _PLAN_OP_INVALID + 1; type < _PLAN_OP_MAX; type++)
                ck_assert_int_eq(strv_append(&known, plan_op_type_to_string(type)), 0);
        same("agentcrate-plan.7", &documented, &known);
}
END_TEST

START_TEST(test_limits) {
        _cleanup_(strv_done) StrV known = STRV_NULL;
        _cleanup_(strv_done) StrV documented =
                page_words("agentcrate-run.1", ".Sh LIMITS", ".It Cm ");
        _cleanup_(strv_done) StrV named = page_words("agentcrate-run.1", ".Sh LIMITS", ".Cm ");

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                ck_assert_int_eq(strv_append(&known, limit_to_string(name)), 0);
        same("agentcrate-run.1", &documented, &known);
        for (size_t i = 0; i < named.n_items; i++)
                ck_assert_msg(limit_from_string(named.items[i]) != _LIMIT_INVALID,
                              "agentcrate-run.1 names %s, which is no limit", named.items[i]);
}
END_TEST

/* The last part of a key path, which is what the page has. */
static void strip_paths(StrV *names) {
        for (size_t i = 0; i < names->n_items; i++) {
                const char *dot = strrchr(names->items[i], '.');

                if (dot)
                        memmove(names->items[i], dot + 1, strlen(dot));
        }
}

START_TEST(test_template_keys) {
        _cleanup_(strv_done) StrV known = STRV_NULL;
        _cleanup_(strv_done) StrV documented =
                page_words("agentcrate-templates.5", ".Sh TEMPLATES", ".It Va ");

        ck_assert_int_eq(template_key_names(&known), 0);
        strip_paths(&known);
        for (size_t i = 0; i < known.n_items; i++)
                ck_assert_msg(has(&documented, known.items[i]) ||
                                      string_equal(known.items[i], "min") ||
                                      string_equal(known.items[i], "max"),
                              "agentcrate-templates.5 does not describe %s", known.items[i]);
        for (size_t i = 0; i < documented.n_items; i++)
                ck_assert_msg(has(&known, documented.items[i]), "%s is no key of a template",
                              documented.items[i]);
}
END_TEST

START_TEST(test_config_keys) {
        static const char heading[] = ".Sh AGENTCRATED.JSON";
        _cleanup_(strv_done) StrV known = STRV_NULL;
        _cleanup_(strv_done) StrV tags = page_words("agentcrate-templates.5", heading, ".It Va ");
        _cleanup_(strv_done) StrV named = page_words("agentcrate-templates.5", heading, ".Va ");

        ck_assert_int_eq(config_key_names(&known), 0);
        strip_paths(&known);
        for (size_t i = 0; i < known.n_items; i++)
                ck_assert_msg(has(&tags, known.items[i]) || has(&named, known.items[i]),
                              "agentcrate-templates.5 does not describe %s", known.items[i]);
        for (size_t i = 0; i < tags.n_items; i++)
                ck_assert_msg(has(&known, tags.items[i]), "%s is no key of agentcrated.json",
                              tags.items[i]);
}
END_TEST

START_TEST(test_profiles) {
        const SeccompProfile *profiles;
        size_t n;

        profiles = seccomp_profiles(&n);
        ck_assert_uint_gt(n, 0);
        for (size_t i = 0; i < n; i++) {
                _cleanup_(strv_done) StrV words =
                        page_words("agentcrate-templates.5", ".Sh TEMPLATES", ".Li ");

                ck_assert_msg(has(&words, profiles[i].name),
                              "agentcrate-templates.5 does not describe the profile %s",
                              profiles[i].name);
        }
}
END_TEST

START_TEST(test_tenant_keys) {
        _cleanup_(strv_done) StrV known = STRV_NULL;
        _cleanup_(strv_done) StrV documented =
                page_words("agentcrate-tenant.5", ".Sh KEYS", ".It Va ");
        static const char *const groups[] = {"match", "tools", "ceilings"};

        ck_assert_int_eq(tenant_key_names(&known), 0);
        strip_paths(&known);
        for (size_t i = 0; i < known.n_items; i++)
                ck_assert_msg(has(&documented, known.items[i]) ||
                                      limit_from_string(known.items[i]) != _LIMIT_INVALID,
                              "agentcrate-tenant.5 does not describe %s", known.items[i]);
        for (size_t i = 0; i < documented.n_items; i++) {
                bool group = false;

                for (size_t k = 0; k < ELEMENTSOF(groups); k++)
                        group |= string_equal(documented.items[i], groups[k]);
                ck_assert_msg(group || has(&known, documented.items[i]),
                              "agentcrate-tenant.5 describes %s, which is unknown",
                              documented.items[i]);
        }
}
END_TEST

int main(void) {
        Suite *suite = suite_create("manpages");
        TCase *tcase = tcase_create("manpages");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_operations);
        tcase_add_test(tcase, test_limits);
        tcase_add_test(tcase, test_template_keys);
        tcase_add_test(tcase, test_tenant_keys);
        tcase_add_test(tcase, test_config_keys);
        tcase_add_test(tcase, test_profiles);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
