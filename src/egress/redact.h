/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Takes a secret out of a stream, however it is cut into pieces. Found are the secret as it is;
 * percent-encoded and JSON-escaped, each byte of it in any of the ways in which it can be, also
 * mixed; in base64, wherever in a longer text the secret stands, in either alphabet, in one line or
 * broken anywhere by up to 64 spaces, tabs, line ends and backslashes before those; and that in
 * turn percent-encoded or JSON-escaped. What else one can make of a secret (reversed, compressed,
 * in halves) is not, and no operation should lead to something that echoes.
 *
 * Each occurrence is replaced by eight characters that no form of the secret has in it, so that
 * what stands around it cannot join to another one. Bytes are held back only while they could be
 * the beginning of an occurrence, and what is done for a byte does not depend on how many came with
 * it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/string-util.h"
#include "egress/secret.h"

typedef struct Redactor Redactor;

/* also: what else must not be seen, such as the base64 of USER:SECRET; NULL: nothing. 0 or a
 * negative errno. */
int redactor_new(const Secret *secret, const char *also, Redactor **ret_redactor);
Redactor *redactor_free(Redactor *redactor);
DEFINE_CLEANUP(Redactor, redactor_free);

/* Appends to out what is sure of the stream. 0 or -ENOMEM. */
int redactor_add(Redactor *redactor, const char *data, size_t size, StrBuf *out);
/* The end: appends the rest, and is ready for another stream. */
int redactor_finish(Redactor *redactor, StrBuf *out);
size_t redactor_n_found(const Redactor *redactor);
/* How many characters were read, each time that they were: what the streams cost. */
uint64_t redactor_n_read(const Redactor *redactor);
/* Whether a whole text has the secret in it. */
bool redactor_finds(const Redactor *redactor, const char *data, size_t size);
