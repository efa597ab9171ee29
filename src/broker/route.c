/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/route.h"

#include "broker/execute.h"

static const Executor *const executors[] = {
        &execute_sandbox_exec,
};

const Executor *route_find(const char *tool) {
        for (size_t i = 0; i < ELEMENTSOF(executors); i++)
                if (string_equal(executors[i]->tool, tool))
                        return executors[i];
        return NULL;
}
