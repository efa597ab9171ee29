/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The folders of AgentCrate's own files that are chosen by who runs it. What is not absolute in the
 * environment is ignored, as the XDG specification says.
 */

/* A user's configuration, policy and secrets; NULL for root, whose is the machine's alone, and
 * where there is no home. 0 or -ENOMEM. */
int own_config_folder(char **ret_path);
/* Where logs lie by default: AGENTCRATE_STATE_DIR, the machine's for root, else below
 * XDG_STATE_HOME; NULL where there is no home. 0 or -ENOMEM. */
int own_state_folder(char **ret_path);
