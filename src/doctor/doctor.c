/* SPDX-License-Identifier: Apache-2.0 */

#include "doctor/doctor.h"

#include <errno.h>
#include <string.h>

#include "basic/error.h"

void doctor_facts_done(DoctorFacts *facts) {
        InstallFacts *install = &facts->install;
        CgroupFacts *cgroup = &facts->cgroup;

        free(install->launcher);
        free(install->egress);
        strv_done(&install->overrides);
        free(install->broker_socket);
        free(install->config_fault);
        free(install->config_file);
        config_done(&install->config);
        free(cgroup->point);
        free(cgroup->own);
        free(cgroup->host_reason);
        for (size_t i = 0; i < _DOCTOR_CONTROLLER_MAX; i++) {
                free(cgroup->controllers[i].v1);
                free(facts->trial.cgroup_lacks[i]);
        }
        for (size_t i = 0; i < _DOCTOR_FOLDER_MAX; i++) {
                free(facts->folders[i].path);
                free(facts->folders[i].type);
        }
        free(facts->bus_reason);
        free(facts->trial.text);
        free(facts->trial.remedy);
        free(facts->trial.cgroup_reason);
        free(facts->trial.enforce_text);
        free(facts->trial.enforce_remedy);
        for (size_t i = 0; i < _LIMIT_MAX; i++)
                free(facts->trial.limits[i].text);
        secret_list_done(&facts->secrets);
        *facts = (DoctorFacts){};
}

void doctor_report_done(DoctorReport *report) {
        for (size_t i = 0; i < report->n_checks; i++)
                doctor_check_done(&report->checks[i]);
        free(report->checks);
        for (size_t i = 0; i < _LIMIT_MAX; i++)
                free(report->limits[i].reason);
        for (size_t i = 0; i < report->n_secrets; i++)
                doctor_secret_done(&report->secrets[i]);
        free(report->secrets);
        *report = (DoctorReport){};
}

/* In this order: what comes later may look at what was found out before. */
static int gather(DoctorFacts *facts) {
        static int (*const gatherers[])(DoctorFacts * facts) = {
                host_gather,    install_gather, namespaces_gather, mounts_gather, filters_gather,
                cgroups_gather, bus_gather,     secrets_gather,    trial_gather,
        };

        for (size_t i = 0; i < ELEMENTSOF(gatherers); i++) {
                int r = gatherers[i](facts);

                if (r < 0)
                        return error_trace(r);
        }
        return 0;
}

static int judge_one(const DoctorCheckInfo *info, const DoctorFacts *facts, DoctorCheck *check) {
        *check = (DoctorCheck){.id = info->id, .title = info->title, .need = info->need};
        return error_trace(info->judge(check, facts));
}

int doctor_judge(const DoctorFacts *facts, DoctorReport *ret_report) {
        _cleanup_(doctor_report_done) DoctorReport report = {};
        const DoctorCheckInfo *infos;
        size_t n;
        int r;

        infos = doctor_checks(&n);
        report.checks = calloc(n, sizeof(*report.checks));
        if (!report.checks)
                return error_origin(-ENOMEM);
        for (; report.n_checks < n; report.n_checks++) {
                r = judge_one(&infos[report.n_checks], facts, &report.checks[report.n_checks]);
                if (r < 0)
                        return error_trace(r);
        }
        r = limits_judge(facts, report.checks, report.n_checks, report.limits);
        if (r < 0)
                return error_trace(r);
        r = secrets_judge(facts, &report.secrets, &report.n_secrets);
        if (r < 0)
                return error_trace(r);
        /* A check may be wrong about what it tries by itself; the trial is not. */
        report.can_run = facts->trial.passed;
        memcpy(report.user, facts->host.user, sizeof(report.user));
        memcpy(report.kernel, facts->host.kernel, sizeof(report.kernel));
        *ret_report = report;
        report = (DoctorReport){};
        return 0;
}

int doctor_run(DoctorReport *ret_report) {
        _cleanup_(doctor_facts_done) DoctorFacts facts = {};
        int r;

        r = gather(&facts);
        return error_trace(r < 0 ? r : doctor_judge(&facts, ret_report));
}

int doctor_exit_status(const DoctorReport *report) {
        if (!report->can_run)
                return DOCTOR_EXIT_NO_CRATES;
        for (size_t i = 0; i < _LIMIT_MAX; i++)
                if (report->limits[i].has_default &&
                    (string_equal(report->limits[i].enforced_by, "sampler") ||
                     string_equal(report->limits[i].enforced_by, "refused")))
                        return DOCTOR_EXIT_LIMITED;
        return DOCTOR_EXIT_GOOD;
}
