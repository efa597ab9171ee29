/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Included before everything else, by the compiler's command line: the configuration, and the
 * functions that this project does not use. A banned name fails to compile, with the name to use
 * instead in the message.
 */

#include "config.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef strcpy
#define strcpy(...) strcpy_is_banned_use_a_StrBuf
#undef strcat
#define strcat(...) strcat_is_banned_use_a_StrBuf
#undef sprintf
#define sprintf(...) sprintf_is_banned_use_snprintf_or_a_StrBuf
#undef strtok
#define strtok(...) strtok_is_banned_use_strsep_or_strchr
#undef atoi
#define atoi(...) atoi_is_banned_use_parse_util
#undef system
#define system(...) system_is_banned_use_process_spawn
#undef popen
#define popen(...) popen_is_banned_use_process_spawn
#undef getenv
#define getenv(...) getenv_is_banned_use_secure_getenv
#undef signal
#define signal(...) signal_is_banned_use_sigaction
