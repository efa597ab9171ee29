/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/route.h"

#include "broker/execute.h"
#include "broker/operation.h"
#include "broker/operations-list.h"

static const Executor *const executors[] = {
        &execute_sandbox_exec,
        &execute_operations_list,
};

const Executor *route_find(const Policy *policy, const char *tool) {
        for (size_t i = 0; i < ELEMENTSOF(executors); i++)
                if (string_equal(executors[i]->tool, tool))
                        return executors[i];
        return exposed_tools_find(&policy->exposed, tool) ? &execute_operation : NULL;
}
