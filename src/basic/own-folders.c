/* SPDX-License-Identifier: Apache-2.0 */

#include "basic/own-folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/string-util.h"

#define SYSTEM_STATE "/var/log/agentcrate"

static const char *absolute_env(const char *name) {
        const char *value = secure_getenv(name);

        return value && value[0] == '/' ? value : NULL;
}

/* Below the folder of that variable, else below the home; NULL where there is neither. */
static int user_folder(const char *variable, const char *in_home, char **ret_path) {
        const char *base = absolute_env(variable), *home = absolute_env("HOME");
        char *path = NULL;
        int n = 0;

        if (base)
                n = asprintf(&path, "%s/agentcrate", base);
        else if (home)
                n = asprintf(&path, "%s/%s/agentcrate", home, in_home);
        if (n < 0)
                return error_origin(-ENOMEM);
        *ret_path = path;
        return 0;
}

int own_config_folder(char **ret_path) {
        if (geteuid() != 0)
                return user_folder("XDG_CONFIG_HOME", ".config", ret_path);
        *ret_path = NULL;
        return 0;
}

int own_state_folder(char **ret_path) {
        const char *given = absolute_env("AGENTCRATE_STATE_DIR");

        if (!given && geteuid() != 0)
                return user_folder("XDG_STATE_HOME", ".local/state", ret_path);
        *ret_path = strdup(given ?: SYSTEM_STATE);
        return *ret_path ? 0 : error_origin(-ENOMEM);
}
