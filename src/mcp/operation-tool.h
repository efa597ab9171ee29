/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An operation as its callers see it: as a tool of its own, with an argument for each parameter of
 * its path, each key of its query and its content; and as an entry of the menu.
 */

#include <jansson.h>

#include "policy/exposed.h"

/* The arguments for its content. */
#define OPERATION_ARGUMENT_BODY "body"
#define OPERATION_ARGUMENT_ENCODING "body_encoding"
#define OPERATION_ARGUMENT_TYPE "content_type"

/* These return NULL if out of memory. */
json_t *operation_tool_description(const ExposedTool *tool);
json_t *operation_tool_input(const Operation *operation);
/* What is the same for all: the schema of an answer. */
json_t *operation_tool_output(void);

/* An entry of the menu without what depends on who asks. */
json_t *operation_menu_entry(const Credential *credential, const Operation *operation);
/* Its schema, and that of the whole answer of operations_list. */
json_t *operation_menu_output(void);
/* What a value must be, as the end of "… must be"; owned by the caller. */
char *operation_parameter_text(const OperationParameter *parameter);
