/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fixtures of configuration files in tests/unit/policy: good/KIND/NAME.json must be accepted;
 * bad/KIND/NAME.json must be refused with exactly the diagnostics of NAME.txt beside it, one a
 * line. "(N more)" as the last line stands for those beyond DIAG_MAX.
 */

#include "basic/diag.h"
#include "basic/string-util.h"

/* Parses one fixture's text: 0 or positive, never negative. */
typedef int (*FixtureParse)(const char *name, const char *file, const char *text, size_t size,
                            DiagList *diags);

void fixtures_check_good(const char *kind, FixtureParse parse);
void fixtures_check_bad(const char *kind, FixtureParse parse);

/* The source tree's file of that name, owned by the caller. */
char *fixtures_source_file(const char *name);
/* A whole file; *ret_size may be NULL. */
char *fixtures_read(const char *file, size_t *ret_size);

/* The names below "properties" of a JSON Schema, those of an object's properties as
 * "outer.inner", must be exactly these. */
void fixtures_check_schema(const char *name, const StrV *keys);
/* The same of the schema "$defs" has under that name. */
void fixtures_check_schema_def(const char *name, const char *def, const StrV *keys);
