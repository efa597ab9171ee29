/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the secrets are there that credentials need, as agentcrate-egress would find them. Each
 * is looked at in a child that ends at once: with the rights of the service's user where it is the
 * machine's. Nothing of a secret comes back but what is wrong with it.
 */

#include "doctor/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "basic/error.h"
#include "doctor/check.h"
#include "doctor/unit-credentials.h"
#include "policy/policy.h"

#define SERVICE "agentcrate-egress.service"
#define SERVICE_USER "agentcrate-egress"
#define SERVICE_SOCKET "/run/agentcrate/egress.sock"
#define SERVICE_CREDENTIALS "/run/credentials/" SERVICE
#define SERVICE_FOLDER SYSCONFDIR "/credentials"

void secret_list_done(SecretList *list) {
        for (size_t i = 0; i < list->n_items; i++) {
                free(list->items[i].name);
                strv_done(&list->items[i].credentials);
                strv_done(&list->items[i].files);
                free(list->items[i].path);
        }
        free(list->items);
        *list = (SecretList){};
}

/* --- looking, in a child --- */

typedef struct Look {
        const char *name;
        const char *systemd, *folder; /* NULL: that of this process */
        bool as_service;
        const char *file; /* instead: a file that systemd gives to the service */
} Look;

static bool become_service(Probe *probe) {
        const struct passwd *entry = getpwnam(SERVICE_USER);

        probe_begin(probe, "user", SERVICE_USER);
        errno = ENOENT;
        return probe_check(probe,
                           entry && initgroups(SERVICE_USER, entry->pw_gid) == 0 &&
                                   setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) == 0 &&
                                   setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) == 0);
}

/* What agentcrate-egress of root's own does before it looks. */
static bool drop_capabilities(Probe *probe) {
        struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
        const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

        probe_begin(probe, "capabilities", "");
        return probe_check(probe, syscall(SYS_capset, &header, none) == 0);
}

static void tell(Probe *probe, int r, SecretPlace place, SecretFault fault) {
        probe->error = r < 0 ? -r : 0;
        probe->value = (int64_t) place << 8 | (int64_t) fault;
}

static void look_at_file(Probe *probe, const char *path) {
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        _cleanup_(freep) char *real = realpath(path, NULL); /* systemd follows links */
        SecretFault fault = SECRET_MISSING;
        int r;

        r = secret_load_file(AT_FDCWD, real ?: path, SECRET_OF_SYSTEMD, &secret, &fault);
        tell(probe, r, SECRET_OF_SYSTEMD, fault);
}

static void look_in_child(Probe *probe, const void *userdata) {
        _cleanup_(secret_folders_done) SecretFolders folders = SECRET_FOLDERS_NULL;
        _cleanup_(secret_done) Secret secret = SECRET_NULL;
        SecretPlace place = SECRET_NOWHERE;
        SecretFault fault = SECRET_MISSING;
        const Look *look = userdata;
        int r;

        if (look->file) {
                look_at_file(probe, look->file);
                return;
        }
        if (look->as_service ? !become_service(probe) : !drop_capabilities(probe))
                return;
        probe_begin(probe, "secret", look->name);
        r = look->folder ? secret_folders_open(look->systemd, look->folder, &folders)
                         : secret_folders_find(false, &folders);
        if (r == 0)
                r = secret_find(&folders, look->name, &secret, &place, &fault);
        tell(probe, r, place, fault);
}

static void look(const Look *what, SecretFacts *facts) {
        Probe probe;

        probe_run(look_in_child, what, &probe);
        facts->place = (SecretPlace) (probe.value >> 8);
        facts->fault = probe.error ? SECRET_BROKEN : (SecretFault) (probe.value & 0xff);
}

/* --- where it lies --- */

static int set_path(SecretFacts *facts, const char *folder, const char *name) {
        free(facts->path);
        if (asprintf(&facts->path, "%s/%s", folder, name) < 0) {
                facts->path = NULL;
                return error_origin(-ENOMEM);
        }
        return 0;
}

static int look_at_own(SecretFacts *facts) {
        _cleanup_(secret_folders_done) SecretFolders folders = SECRET_FOLDERS_NULL;
        const Look own = {.name = facts->name};
        const char *systemd = secure_getenv("CREDENTIALS_DIRECTORY");
        int r;

        look(&own, facts);
        if (facts->place == SECRET_OF_SYSTEMD && systemd)
                return set_path(facts, systemd, facts->name);
        r = secret_folders_find(false, &folders);
        if (r < 0 || !folders.folder)
                return error_trace(r);
        return set_path(facts, folders.folder, facts->name);
}

/* What systemd reads for the service, as root, before it is loaded. */
static void look_at_source(const UnitCredential *credential, SecretFacts *facts) {
        const Look source = {.name = facts->name, .file = facts->path};
        struct stat st;

        if (facts->path && stat(facts->path, &st) < 0) {
                facts->fault = SECRET_MISSING;
                return;
        }
        if (!facts->path || S_ISSOCK(st.st_mode)) {
                facts->sight = SECRET_DISTANT;
                return;
        }
        if (!credential->encrypted)
                look(&source, facts);
        else if (st.st_size == 0)
                facts->fault = SECRET_EMPTY;
        else
                facts->sight = SECRET_SEALED;
}

static int look_at_unit(const UnitCredential *credential, SecretFacts *facts) {
        const Look loaded = {.name = facts->name,
                             .systemd = SERVICE_CREDENTIALS,
                             .folder = SERVICE_FOLDER,
                             .as_service = true};

        facts->place = SECRET_OF_SYSTEMD;
        if (!credential->source && !credential->encrypted) {
                facts->sight = SECRET_IN_UNIT;
                return 0;
        }
        look_at_source(credential, facts);
        if (facts->sight == SECRET_SEEN && facts->fault != SECRET_GOOD)
                return 0;
        if (access(SERVICE_CREDENTIALS, F_OK) < 0)
                return 0;
        facts->sight = SECRET_SEEN;
        look(&loaded, facts);
        if (facts->place != SECRET_OF_SYSTEMD)
                facts->sight = SECRET_STALE;
        facts->place = SECRET_OF_SYSTEMD;
        return 0;
}

static int look_at_machines(const UnitCredentials *unit, SecretFacts *facts) {
        const Look file = {.name = facts->name, .folder = SERVICE_FOLDER, .as_service = true};
        const UnitCredential *credential;
        int r;

        r = unit_credentials_find(unit, facts->name, &credential, &facts->path);
        if (r < 0)
                return error_trace(r);
        if (credential)
                return look_at_unit(credential, facts);
        look(&file, facts);
        return set_path(facts, SERVICE_FOLDER, facts->name);
}

/* --- which there are --- */

static SecretFacts *find(SecretList *list, const char *name) {
        for (size_t i = 0; i < list->n_items; i++)
                if (string_equal(list->items[i].name, name))
                        return &list->items[i];
        return NULL;
}

static int need(SecretList *list, const Credential *credential) {
        SecretFacts *facts = find(list, credential->secret), *items;
        int r;

        if (!facts) {
                items = reallocarray(list->items, list->n_items + 1, sizeof(*items));
                if (!items)
                        return error_origin(-ENOMEM);
                list->items = items;
                facts = &items[list->n_items];
                *facts = (SecretFacts){.name = strdup(credential->secret)};
                if (!facts->name)
                        return error_origin(-ENOMEM);
                list->n_items++;
        }
        r = strv_append(&facts->credentials, credential->name);
        return error_trace(r < 0 ? r : strv_append(&facts->files, credential->file));
}

static int compare_facts(const void *a, const void *b) {
        return strcmp(((const SecretFacts *) a)->name, ((const SecretFacts *) b)->name);
}

/* Faults of the configuration are told by others. */
static int list_needed(PolicyInstance instance, SecretList *list) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        int r;

        r = policy_instance_dirs(instance, &dirs);
        if (r == 0)
                r = policy_load_instance(instance, &dirs, &diags, &policy);
        if (r < 0)
                return error_trace(r);
        for (size_t i = 0; r == 0 && policy && i < policy->n_credentials; i++)
                r = need(list, policy->credentials[i]);
        if (list->n_items > 0)
                qsort(list->items, list->n_items, sizeof(*list->items), compare_facts);
        return r < 0 ? error_trace(r) : 0;
}

static bool is_machines(const SecretFacts *facts) {
        for (size_t i = 0; i < facts->files.n_items; i++)
                if (string_after(facts->files.items[i], SYSCONFDIR "/"))
                        return true;
        return false;
}

/* Where the machine has a broker, what the administrator describes is for it. */
int secrets_gather(DoctorFacts *facts) {
        _cleanup_(unit_credentials_done) UnitCredentials unit = UNIT_CREDENTIALS_NULL;
        bool root = host_is_root(&facts->host), service = access(SERVICE_SOCKET, F_OK) == 0;
        SecretList *list = &facts->secrets;
        int r;

        r = list_needed(root && service ? POLICY_SYSTEM : POLICY_USER, list);
        if (r == 0 && root && service && list->n_items > 0)
                r = unit_credentials_read(SERVICE, &unit);
        for (size_t i = 0; r == 0 && i < list->n_items; i++) {
                SecretFacts *one = &list->items[i];

                one->is_machines = service && (root || is_machines(one));
                if (one->is_machines && root) {
                        r = look_at_machines(&unit, one);
                        continue;
                }
                r = look_at_own(one);
                if (!one->is_machines || one->place != SECRET_NOWHERE) {
                        one->is_machines = false;
                        continue;
                }
                one->sight = SECRET_HIDDEN;
                free(one->path);
                one->path = NULL;
        }
        return error_trace(r);
}
