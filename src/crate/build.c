/* SPDX-License-Identifier: Apache-2.0 */

#include "crate/build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "basic/error.h"
#include "crate/build-root.h"
#include "crate/host-sockets.h"
#include "crate/mount-table.h"
#include "crate/own-guard.h"
#include "seccomp/profile.h"

#define CRATE_HOME "/home/agent"
#define CRATE_WORKSPACE "/workspace"
/* No template and no option can put something else here. */
#define CRATE_SHM "/dev/shm"
#define CRATE_HOSTNAME "crate"
/* Of the 128 and the 8192 to a million that a user commonly has. */
#define CRATE_INOTIFY_INSTANCES 16U
#define CRATE_INOTIFY_WATCHES 65536U
/* The kernel counts these for the user outside as well, whose limits are some ten times as high. */
#define CRATE_PENDING_SIGNALS 4096U
#define CRATE_QUEUE_BYTES (192U << 10) /* two queues as they are by default */

/* Where every crate is writable: folders of its one private tmpfs. A root folder need not have
 * /var/tmp: nothing can be made there, and programs take /tmp. */
static const struct {
        const char *path;
        uint32_t mode;
        bool required;
} privates[] = {
        {"/tmp", 01777, true},    {"/var/tmp", 01777, false}, {"/run", 0755, true},
        {CRATE_SHM, 01777, true}, {CRATE_HOME, 0700, true},
};

static const char *const home_folders[] = {
        CRATE_HOME "/.cache",
        CRATE_HOME "/.config",
        CRATE_HOME "/.local/share",
        CRATE_HOME "/.local/state",
};

/*
 * Entries of /proc that tell of the host rather than of the crate. Only what others than their
 * owner may read is covered: the owner, root of the host, is nobody's id in a crate.
 */
static const struct {
        const char *path;
        bool directory;
} proc_masks[] = {
        {"/proc/acpi", true},
        {"/proc/asound", true},
        {"/proc/bus", true},
        {"/proc/cmdline", false},
        {"/proc/fs", true},
        {"/proc/interrupts", false},
        {"/proc/irq", true},
        {"/proc/kcore", false},
        {"/proc/key-users", false},
        {"/proc/keys", false},
        {"/proc/latency_stats", false},
        {"/proc/modules", false},
        {"/proc/pressure", true},
        {"/proc/sched_debug", false},
        {"/proc/scsi", true},
        {"/proc/sysrq-trigger", false},
        {"/proc/timer_list", false},
};

void crate_plans_done(CratePlans *plans) {
        plans->tree = plan_free(plans->tree);
        plans->crate = plan_free(plans->crate);
        plans->egress = egress_plan_free(plans->egress);
        strv_done(&plans->notes);
}

static int add_template_binds(MountTable *table, MountKind kind, const TemplateBind *binds,
                              size_t n, CrateError *ret_error) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = mount_table_add(table, kind, binds[i].to, binds[i].from, 0, false, ret_error);
        return r;
}

static int add_template_mounts(MountTable *table, const Template *template, CrateError *ret_error) {
        int r;

        r = add_template_binds(table, MOUNT_RO, template->ro, template->n_ro, ret_error);
        if (r == 0)
                r = add_template_binds(table, MOUNT_RW, template->rw, template->n_rw, ret_error);
        for (size_t i = 0; r == 0 && i < template->tmpfs.n_items; i++)
                r = mount_table_add(table, MOUNT_PRIVATE, template->tmpfs.items[i], NULL, 0755,
                                    true, ret_error);
        for (size_t i = 0; r == 0 && i < template->hide.n_items; i++)
                r = mount_table_add(table, MOUNT_HIDE, template->hide.items[i], NULL, 0, false,
                                    ret_error);
        return r;
}

static int add_request_mounts(MountTable *table, const CrateRequest *request,
                              CrateError *ret_error) {
        int r;

        if (request->workspace)
                r = mount_table_add(table, request->workspace_ro ? MOUNT_RO : MOUNT_RW,
                                    CRATE_WORKSPACE, request->workspace, 0, true, ret_error);
        else
                r = mount_table_add(table, MOUNT_PRIVATE, CRATE_WORKSPACE, NULL, 0755, true,
                                    ret_error);
        for (size_t i = 0; r == 0 && i < request->n_binds; i++) {
                const CrateBind *bind = &request->binds[i];

                r = mount_table_add(table, bind->writable ? MOUNT_RW : MOUNT_RO,
                                    bind->to ?: bind->from, bind->from, 0, true, ret_error);
        }
        return r;
}

static int fill_table(const CrateRequest *request, bool reaches_names, MountTable *table,
                      CratePlan *tree, CrateError *ret_error) {
        int r;

        r = build_root(request->template, table, tree, ret_error);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(privates); i++)
                r = mount_table_add(table, MOUNT_PRIVATE, privates[i].path, NULL, privates[i].mode,
                                    privates[i].required, ret_error);
        if (r == 0)
                r = add_template_mounts(table, request->template, ret_error);
        if (r == 0)
                r = add_request_mounts(table, request, ret_error);
        if (r == 0 && reaches_names)
                r = build_cover_mounts(request->template, table, ret_error);
        if (r == 0) {
                mount_table_force_late(table, request->workspace ? CRATE_WORKSPACE : "");
                r = host_sockets_hide(table, ret_error);
        }
        if (r == 0)
                r = own_folders_guard(table, ret_error);
        if (r == 0)
                r = mount_table_arrange(table, ret_error);
        return r;
}

static int build_tree(const CrateRequest *request, const MountTable *table, CratePlan *tree) {
        int r;

        r = build_skeleton(tree);
        if (r == 0)
                r = build_etc(request->template, tree);
        if (r == 0)
                r = build_covers(request->template, table, tree);
        if (r == 0)
                r = mount_table_plan_tree(table, tree);
        return r;
}

static int add_path_op(CratePlan *crate, PlanOpType type, const char *path, uint32_t flags) {
        return plan_add(crate, &(PlanOp){.type = type, .path = path, .flags = flags});
}

static int build_proc(const SeccompProfile *profile, CratePlan *crate) {
        struct stat st;
        int r;

        r = add_path_op(crate, PLAN_OP_PROC, "/proc", profile->proc_subset ? PLAN_SUBSET_PID : 0);
        if (r < 0 || profile->proc_subset)
                return r;
        r = add_path_op(crate, PLAN_OP_PROC_RDONLY, "/proc/sys", 0);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(proc_masks); i++)
                if (stat(proc_masks[i].path, &st) == 0 && (st.st_mode & 0006))
                        r = add_path_op(crate, PLAN_OP_PROC_MASK, proc_masks[i].path,
                                        proc_masks[i].directory ? PLAN_DIRECTORY : 0);
        return r;
}

static int add_rlimit(CratePlan *crate, int resource, uint64_t value) {
        return plan_add(crate,
                        &(PlanOp){.type = PLAN_OP_RLIMIT, .a = (uint64_t) resource, .b = value});
}

/* What we may not have ourselves, a crate cannot be given. */
static int add_rlimit_below(CratePlan *crate, int resource, uint64_t value) {
        struct rlimit own;

        if (getrlimit((__rlimit_resource_t) resource, &own) == 0 && own.rlim_max < value)
                value = own.rlim_max;
        return add_rlimit(crate, resource, value);
}

void crate_limits_lower(Limits *limits) {
        struct rlimit own;

        if (getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max < limits->max[LIMIT_OPEN_FILES])
                limits->max[LIMIT_OPEN_FILES] = own.rlim_max;
}

/* No core files. 1 keeps them out as 0 does, being less than a page, and keeps the job from a
 * core_pattern that is a pipe as well: the kernel starts its program, as root, at any limit but 1.
 */
static int add_core_rlimit(CratePlan *crate) {
        struct rlimit own = {};

        (void) getrlimit(RLIMIT_CORE, &own);
        return add_rlimit(crate, RLIMIT_CORE, own.rlim_max < 1 ? own.rlim_max : 1);
}

static int build_rlimits(const Limits *limits, CratePlan *crate) {
        int r;

        r = add_core_rlimit(crate);
        if (r == 0)
                r = add_rlimit(crate, RLIMIT_NICE, 0);
        if (r == 0)
                r = add_rlimit(crate, RLIMIT_RTPRIO, 0);
        if (r == 0)
                r = add_rlimit_below(crate, RLIMIT_SIGPENDING, CRATE_PENDING_SIGNALS);
        if (r == 0)
                r = add_rlimit_below(crate, RLIMIT_MSGQUEUE, CRATE_QUEUE_BYTES);
        if (r == 0 && limits->max[LIMIT_OPEN_FILES] != LIMIT_UNLIMITED)
                r = add_rlimit(crate, RLIMIT_NOFILE, limits->max[LIMIT_OPEN_FILES]);
        if (r == 0 && limits->max[LIMIT_FILE_SIZE] != LIMIT_UNLIMITED)
                r = add_rlimit(crate, RLIMIT_FSIZE, limits->max[LIMIT_FILE_SIZE]);
        return r;
}

/* Everything readable and executable, what is private or bound for writing writable; /dev and /proc
 * have masters of their own. */
static int build_landlock(const MountTable *table, CratePlan *crate) {
        int r;

        r = add_path_op(crate, PLAN_OP_LANDLOCK_PATH, "/", PLAN_RDONLY);
        if (r == 0)
                r = add_path_op(crate, PLAN_OP_LANDLOCK_PATH, "/dev", 0);
        if (r == 0)
                r = add_path_op(crate, PLAN_OP_LANDLOCK_PATH, "/proc", 0);
        for (size_t i = 0; r == 0 && i < table->n_entries; i++) {
                MountKind kind = table->entries[i].kind;

                if (kind == MOUNT_PRIVATE || kind == MOUNT_RW)
                        r = add_path_op(crate, PLAN_OP_LANDLOCK_PATH, table->entries[i].path, 0);
        }
        return r;
}

/* Whether home is ours to furnish; it may as well be a folder of the host's. */
static bool home_is_private(const MountTable *table) {
        for (size_t i = 0; i < table->n_entries; i++)
                if (string_equal(table->entries[i].path, CRATE_HOME))
                        return table->entries[i].kind == MOUNT_PRIVATE;
        return false;
}

static int build_private(const Limits *limits, const MountTable *table, CratePlan *crate) {
        int r;

        r = plan_add(crate, &(PlanOp){.type = PLAN_OP_TMPFS,
                                      .path = CRATE_SHM,
                                      .a = limits->max[LIMIT_DISK],
                                      .b = limits->max[LIMIT_INODES]});
        if (r == 0)
                r = mount_table_plan_crate(table, crate);
        if (r < 0 || !home_is_private(table))
                return r;
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(home_folders); i++)
                r = add_path_op(crate, PLAN_OP_MOUNTPOINT, home_folders[i], PLAN_DIRECTORY);
        return r;
}

static int build_crate(const CrateRequest *request, const SeccompProfile *profile,
                       const MountTable *table, CratePlan *crate) {
        int r;

        r = plan_add(crate, &(PlanOp){.type = PLAN_OP_HOSTNAME, .source = CRATE_HOSTNAME});
        if (r == 0)
                r = plan_add(crate, &(PlanOp){.type = PLAN_OP_USERNS_MAX});
        if (r == 0)
                r = plan_add(crate, &(PlanOp){.type = PLAN_OP_INOTIFY_MAX,
                                              .a = CRATE_INOTIFY_INSTANCES,
                                              .b = CRATE_INOTIFY_WATCHES});
        if (r == 0)
                r = build_private(request->limits, table, crate);
        if (r == 0)
                r = build_proc(profile, crate);
        if (r == 0)
                r = add_path_op(crate, PLAN_OP_DEVPTS, "/dev/pts", 0);
        if (r == 0)
                r = add_path_op(crate, PLAN_OP_MQUEUE, "/dev/mqueue", 0);
        if (r == 0)
                r = build_rlimits(request->limits, crate);
        if (r == 0 && profile->landlock)
                r = build_landlock(table, crate);
        if (r == 0)
                r = plan_add(crate, &(PlanOp){.type = PLAN_OP_LANDLOCK_SCOPE});
        if (r == 0)
                r = plan_add(crate,
                             &(PlanOp){.type = PLAN_OP_SECCOMP,
                                       .source = profile->name,
                                       .data = profile->filter,
                                       .data_size = profile->n_filter * sizeof(*profile->filter)});
        return r;
}

static bool has_grants(const EgressGrants *grants) {
        for (size_t i = 0; i < grants->n_credentials; i++)
                if (credential_n_covered(grants->credentials[i], grants->rules) > 0)
                        return true;
        return false;
}

static int build_egress(const CrateRequest *request, CratePlans *plans, CrateError *ret_error) {
        const DestinationList none = DESTINATION_LIST_NULL;
        int r;

        if ((!request->egress || request->egress->n_items == 0) && !has_grants(&request->grants))
                return 0;
        r = egress_plan_new(request->egress ?: &none, &request->grants, &request->egress_settings,
                            &plans->egress, ret_error);
        if (r == 0)
                r = egress_plan_add(plans->egress, plans->crate);
        return r == EGRESS_PLAN_E_INVALID ? CRATE_BUILD_E_INVALID : error_trace(r);
}

static int check_limits(const Limits *limits, CrateError *ret_error) {
        uint64_t open_files = limits->max[LIMIT_OPEN_FILES];
        char given[LIMIT_TEXT_SIZE], least[LIMIT_TEXT_SIZE];
        struct rlimit own;

        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                if (limits->max[name] < limit_minimum(name)) {
                        limit_format(name, limits->max[name], given, sizeof(given));
                        limit_format(name, limit_minimum(name), least, sizeof(least));
                        (void) crate_error_set(ret_error, "limits", EINVAL, NULL, "give more",
                                               "limit %s: %s is less than the %s that a crate "
                                               "itself needs",
                                               limit_to_string(name), given, least);
                        return CRATE_BUILD_E_INVALID;
                }
        if (open_files != LIMIT_UNLIMITED && getrlimit(RLIMIT_NOFILE, &own) == 0 &&
            own.rlim_max < open_files) {
                (void) crate_error_set(ret_error, "limits", EINVAL, NULL,
                                       "ask for less, or raise that limit (ulimit -Hn)",
                                       "limit open_files: %" PRIu64
                                       " is above this program's own hard limit of %" PRIu64,
                                       open_files, (uint64_t) own.rlim_max);
                return CRATE_BUILD_E_INVALID;
        }
        return 0;
}

static int unknown_profile(const char *name, CrateError *ret_error) {
        _cleanup_(strbuf_done) StrBuf known = STRBUF_NULL;
        const SeccompProfile *profiles;
        size_t n;

        profiles = seccomp_profiles(&n);
        for (size_t i = 0; i < n; i++)
                if (strbuf_appendf(&known, "%s%s", i > 0 ? ", " : "", profiles[i].name) < 0)
                        return error_origin(-ENOMEM);
        (void) crate_error_set(ret_error, "profile", ENOENT, NULL, "use one of those",
                               "there is no profile \"%s\"; known are: %s", name, known.data ?: "");
        return CRATE_BUILD_E_INVALID;
}

static bool table_has_rw(const MountTable *table) {
        for (size_t i = 0; i < table->n_entries; i++)
                if (table->entries[i].kind == MOUNT_RW)
                        return true;
        return false;
}

int crate_build_plans(const CrateRequest *request, CratePlans *ret_plans, CrateError *ret_error) {
        const char *profile_name = request->profile ?: request->template->seccomp ?: "default";
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(crate_plans_done) CratePlans plans = {};
        const SeccompProfile *profile;
        int r;

        profile = seccomp_profile_find(profile_name);
        if (!profile)
                return unknown_profile(profile_name, ret_error);
        r = check_limits(request->limits, ret_error);
        if (r != 0)
                return r;

        r = plan_new(&plans.tree);
        if (r == 0)
                r = plan_new(&plans.crate);
        if (r == 0)
                r = build_egress(request, &plans, ret_error);
        if (r == 0)
                r = fill_table(request, plans.egress, &table, plans.tree, ret_error);
        if (r > 0)
                return CRATE_BUILD_E_INVALID;
        if (r == 0)
                r = build_tree(request, &table, plans.tree);
        if (r == 0)
                r = build_crate(request, profile, &table, plans.crate);
        if (r < 0)
                return error_trace(r);

        plan_digest((const CratePlan *const[]){plans.tree, plans.crate}, 2, plans.digest);
        plans.notes = table.notes;
        table.notes = STRV_NULL;
        plans.workspace_rw = table_has_rw(&table);
        *ret_plans = plans;
        plans = (CratePlans){};
        return 0;
}

int crate_build_env(const Template *template, const StrV *extra, StrV *ret_env) {
        static const char *const defaults[][2] = {
                {"PATH", "/usr/local/bin:/usr/bin:/bin"},
                {"LANG", "C.UTF-8"},
                {"HOME", CRATE_HOME},
                {"USER", "agent"},
                {"LOGNAME", "agent"},
                {"SHELL", "/bin/sh"},
                {"TMPDIR", "/tmp"},
                {"XDG_CACHE_HOME", CRATE_HOME "/.cache"},
                {"XDG_CONFIG_HOME", CRATE_HOME "/.config"},
                {"XDG_DATA_HOME", CRATE_HOME "/.local/share"},
                {"XDG_STATE_HOME", CRATE_HOME "/.local/state"},
        };
        _cleanup_(strv_done) StrV env = STRV_NULL;
        const StrV *sets[] = {&template->env, extra};
        int r = 0;

        for (size_t i = 0; r == 0 && i < ELEMENTSOF(defaults); i++)
                r = strv_env_set(&env, defaults[i][0], defaults[i][1]);
        for (size_t i = 0; r == 0 && i < template->pass_env.n_items; i++) {
                const char *value = secure_getenv(template->pass_env.items[i]);

                if (value)
                        r = strv_env_set(&env, template->pass_env.items[i], value);
        }
        for (size_t k = 0; k < ELEMENTSOF(sets); k++)
                for (size_t i = 0; r == 0 && sets[k] && i < sets[k]->n_items; i++) {
                        _cleanup_(freep) char *name = strdup(sets[k]->items[i]);
                        char *equals = name ? strchr(name, '=') : NULL;

                        if (!equals)
                                return error_origin(name ? -EINVAL : -ENOMEM);
                        *equals = 0;
                        r = strv_env_set(&env, name, equals + 1);
                }
        if (r < 0)
                return error_trace(r);

        *ret_env = env;
        env = STRV_NULL;
        return 0;
}
