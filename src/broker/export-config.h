/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where traces go, and whether they go anywhere: by the standard variables of OpenTelemetry's
 * exporters, else by telemetry.otlp of the configuration. */

#include <stdint.h>

#include "basic/string-util.h"

typedef struct ExportConfig {
        char *url;          /* of the traces; NULL: there is no collector */
        char *certificates; /* a file; NULL: the system's */
        StrV headers;       /* "Name: value"; they may be secrets, and are never told to anybody */
        uint32_t timeout_msec;
} ExportConfig;

void export_config_done(ExportConfig *config);

enum {
        _EXPORT_CONFIG_E_SUCCESS,
        EXPORT_CONFIG_E_INVALID, /* ret_text tells which, never its value */
};

/* What a variable holds; NULL: it is not set. */
typedef const char *(*ExportGetenv)(const char *name);

/* base is the configuration's URL, or NULL. 0, EXPORT_CONFIG_E_INVALID or -ENOMEM. */
int export_config_read(ExportGetenv get, const char *base, ExportConfig *ret_config,
                       char **ret_text);
/* The text of EGRESS_COLLECTOR. */
int export_config_append(StrBuf *out, const ExportConfig *config);
