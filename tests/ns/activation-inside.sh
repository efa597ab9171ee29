#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The part of activation.sh that runs under systemd, as root. Everything written here vanishes.
set -uo pipefail

unset AGENTCRATE_LIBEXEC_DIR AGENTCRATE_DATA_DIR
count=0 failures=0
system_socket=/run/agentcrate/agentcrate.sock

# check NAME COMMAND…: its output is shown if it fails.
check() {
        local name=$1 output
        shift
        count=$((count + 1))
        if output=$("$@" 2>&1); then
                echo "ok $count - $name"
        else
                failures=$((failures + 1))
                echo "not ok $count - $name"
                sed 's/^/# /' <<<"$output"
        fi
}

# wait_for COMMAND…: up to 20 s.
wait_for() {
        for _ in {1..200}; do
                ! "$@" >/dev/null 2>&1 || return 0
                sleep 0.1
        done
        echo "not within 20 s: $*"
        return 1
}

as_user() {
        setpriv --reuid=1000 --regid="$(id -g "$NS_USER")" --init-groups \
                env -i HOME=/tmp USER="$NS_USER" PATH=/usr/local/bin:/usr/bin:/bin \
                XDG_RUNTIME_DIR=/run/user/1000 \
                DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus "$@"
}

# The manager and the caller of each half of the test.
as_root() {
        "$@"
}

install_tree() {
        tar -C "$AGENTCRATE_ROOT" -c . | tar -C / -x --keep-directory-symlink --no-overwrite-dir &&
                link_units system "$AGENTCRATE_SYSTEM_UNIT_DIR" &&
                link_units user "$AGENTCRATE_USER_UNIT_DIR" &&
                mkdir -p /etc/agentcrate "$config_dir/tenants.d" &&
                # The system's broker serves whom it is told to; a user's serves its user.
                echo '{"match": {"uid": [0]}, "scopes": ["exec"], "tools": {"allow": ["*"]},
                       "templates": ["*"], "workspaces": ["/tmp", "/var", "/srv", "/home", "/root"]}' \
                        >"$config_dir/tenants.d/root.json" &&
                echo '{"idle_exit": "6s", "enforce": "sampled"}' >"$config_dir/agentcrated.json" &&
                systemctl daemon-reload && as_user systemctl --user daemon-reload
}

# A prefix of its own, as in distcheck, is not where systemd looks.
link_units() {
        local kind=$1 folder=$2
        case $folder in
        /lib/* | /usr/lib/* | /etc/*) return 0 ;;
        esac
        mkdir -p "/etc/systemd/$kind"
        ln -sf "$folder"/agentcrate* "/etc/systemd/$kind/"
}

# call WHO COMMAND…: prints the result of the job.
call() {
        local who=$1 request
        shift
        request=$(python3 -c 'import json, sys; print(json.dumps({"command": sys.argv[1]}))' "$*")
        "$who" "$bin/agentcrate" call --json sandbox_exec "$request"
}

# expect PATTERN COMMAND…: the output has it.
expect() {
        local pattern=$1 output
        shift
        output=$("$@") || { echo "status $?: $output"; return 1; }
        grep -qE -e "$pattern" <<<"$output" || { echo "no $pattern in: $output"; return 1; }
}

refused() {
        ! "$@"
}

unit_is() {
        [[ $(show ActiveState agentcrated.service) == "$1" ]] || { show ActiveState agentcrated.service; return 1; }
}

show() {
        "${manager[@]}" show -P "$1" "$2"
}

no_process() {
        ! pgrep -f -- "$1"
}

has_process() {
        pgrep -f -- "$1"
}

# The unit's own group is empty, since processes sit in groups below it.
own_groups() {
        local group
        group=/sys/fs/cgroup$(show ControlGroup "$launcher_unit")
        find "$group" -name cgroup.procs -exec grep -H . {} +
        ! grep -q . "$group/cgroup.procs" && grep -q . "$group/launcher/cgroup.procs" &&
                [[ -d $group/jobs ]] || return 1
        [[ $launcher_unit != agentcrated.service ]] || grep -q . "$group/broker/cgroup.procs"
}

group_is_gone() {
        [[ ! -e /sys/fs/cgroup$1 ]] || { find "/sys/fs/cgroup$1"; return 1; }
}

# A job outlives neither the stop of the service nor its caller.
stop_with_job() {
        local who=$1 group caller status=0
        group=$(show ControlGroup "$launcher_unit")
        call "$who" "exec sleep 4242" >/tmp/answer 2>&1 &
        caller=$!
        wait_for has_process '^sleep 4242' || return 1
        "${manager[@]}" stop agentcrated.service || return 1
        wait "$caller" || status=$?
        no_process agentcrated && wait_for no_process '^sleep 4242' &&
                wait_for no_process agentcrate-launcher && wait_for group_is_gone "$group" || return 1
        ((status != 0)) || { echo "the caller was told that all is well:"; cat /tmp/answer; return 1; }
}

# The broker of the system cannot see what is in its crates: without a cgroup that limits memory it
# runs nothing. A user's broker looks at its own.
can_run() {
        [[ $launcher_unit == agentcrated.service ]] ||
                grep -qw memory "/sys/fs/cgroup$(show ControlGroup "$launcher_unit")/cgroup.controllers"
}

# What a call says that is not run.
not_run() {
        local who=$1 answer
        answer=$(call "$who" echo hello 2>&1) && { echo "it was run: $answer"; return 1; }
        grep -q "limit memory: nothing can enforce it here, only a cgroup could" <<<"$answer" &&
                grep -q "agentcrate doctor tells" <<<"$answer" || { echo "$answer"; return 1; }
}

tests_of_jobs() {
        local label=$1 who=$2
        check "$label: the job has a group below jobs/" expect '0::/jobs/([^/]+/)+exec-' \
                call "$who" cat /proc/self/cgroup
        check "$label: the job is agent, not the caller" expect 'uid=1000\(agent\)' call "$who" id
        check "$label: stop with a job running leaves nothing" stop_with_job "$who"
        check "$label: the stop was clean" expect '^success$' show Result agentcrated.service
        check "$label: it is started again after a stop" expect '"back\\n"' call "$who" echo back
}

# doctor_says WHO ID=ANSWER…
doctor_says() {
        local who=$1
        shift
        "$who" "$bin/agentcrate" doctor --json >/tmp/doctor
        python3 - "$@" <<'PYTHON'
import json
import sys
with open("/tmp/doctor", encoding="utf-8") as file:
    checks = {check["id"]: check for check in json.load(file)["checks"]}
wrong = [checks[name] for name, answer in (pair.split("=") for pair in sys.argv[1:])
         if checks[name]["answer"] != answer]
sys.exit("\n".join(map(str, wrong)) if wrong else 0)
PYTHON
}

tests_of() {
        local label=$1 who=$2 socket=$3 mode=$4
        check "$label: the socket unit starts" "${manager[@]}" start agentcrated.socket
        check "$label: nothing but the socket is there" unit_is inactive
        check "$label: the socket has mode $mode" expect "^$mode\$" stat -c %a "$socket"
        check "$label: the first call starts the broker" expect sandbox_exec "$who" "$bin/agentcrate" tools
        check "$label: the service is active" unit_is active
        check "$label: doctor sees the manager and the socket" doctor_says "$who" \
                "${label%% *}-manager=yes" broker=yes trial=yes
        check "$label: broker and launcher sit in groups of their own" own_groups
        if can_run; then
                check "$label: a job is run" expect '"stdout":"hello\\n"' call "$who" echo hello
                tests_of_jobs "$label" "$who"
        else
                check "$label: what cannot be limited is refused by name" not_run "$who"
        fi
        check "$label: it ends when nobody calls" wait_for unit_is inactive
        check "$label: without failure" expect '^success$' show Result agentcrated.service
        check "$label: the next call starts it again" expect sandbox_exec "$who" "$bin/agentcrate" tools
        "${manager[@]}" stop agentcrated.socket agentcrated.service
        check "$label: stopping the socket removes it" refused test -e "$socket"
        check "$label: the client says what is missing" expect "agentcrated" no_broker "$who"
}

# In /tmp, since the overlay that is / here cannot be id-mapped.
workspace_call() {
        local folder
        folder=$(mktemp -d /tmp/workspace.XXXXXX)
        echo "from outside" >"$folder/file"
        "$bin/agentcrate" call -w "$folder" sandbox_exec '{"command": "cat file; touch new"}' &&
                [[ $(stat -c %u "$folder/new") == 0 ]]
}

# What the broker of the system may do: nothing.
has_no_rights() {
        local pid
        pid=$(show MainPID agentcrated.service)
        grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp):?' "/proc/$pid/status"
        [[ $(stat -c %U "/proc/$pid") == agentcrate ]] || { echo "it is another user"; return 1; }
        ! grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):.*[1-9a-f]' "/proc/$pid/status" &&
                grep -qE '^NoNewPrivs:\s*1' "/proc/$pid/status"
}

# The cgroup of the jobs is the broker's, what holds it and bounds it from above is not.
jobs_are_given() {
        local group
        group=/sys/fs/cgroup$(show ControlGroup "$launcher_unit")
        stat -c '%U %a %n' "$group" "$group"/cgroup.procs "$group"/jobs "$group"/jobs/cgroup.*
        [[ $(stat -c %U "$group") == root && $(stat -c %U "$group/jobs") == agentcrate &&
        $(stat -c %U "$group/jobs/cgroup.procs") == agentcrate &&
        $(stat -c %U "$group/cgroup.procs") == root ]]
}

# An id of the launcher's own range, which is no user's.
job_uid() {
        local pid
        call as_root "exec sleep 4243" >/dev/null 2>&1 &
        wait_for has_process '^sleep 4243' || return 1
        pid=$(pgrep -f '^sleep 4243')
        stat -c %u "/proc/$pid"
        [[ $(stat -c %u "/proc/$pid") -ge 1879048192 ]]
        local status=$?
        kill "$pid"
        wait
        return "$status"
}

# The launcher alone knows what of the host may be shown: the broker does not look there.
bind_roots_hold() {
        local folder answer
        folder=$(mktemp -d /srv/closed.XXXXXX)
        chmod 755 "$folder"
        answer=$("$bin/agentcrate" call -w "$folder" sandbox_exec '{"command": "true"}' 2>&1) &&
                { echo "it was shown: $answer"; return 1; }
        grep -q "bind roots" <<<"$answer" || { echo "$answer"; return 1; }
}

# A file of the bind roots that others may write to counts as none.
bad_roots() {
        chmod 666 "$config_dir/bind-roots"
        systemctl start agentcrated.socket
        ! "$bin/agentcrate" tools >/dev/null 2>&1 || { echo "it was served"; return 1; }
        doctor_says as_root bind-roots=no || return 1
        journalctl -u agentcrate-launcher.service -n 20 --no-pager 2>/dev/null
        chmod 644 "$config_dir/bind-roots"
        systemctl stop agentcrated.socket agentcrated.service agentcrate-launcher.socket \
                agentcrate-launcher.service
        systemctl reset-failed
}

# By a socket of a family that the broker itself may not make.
metrics_by_tcp() {
        systemctl stop agentcrated.socket agentcrated.service
        systemctl start agentcrated-metrics.socket || return 1
        python3 - <<'PYTHON' || { journalctl -u agentcrated.service -n 20 --no-pager; return 1; }
import urllib.request
with urllib.request.urlopen("http://127.0.0.1:7718/metrics", timeout=20) as answer:
    print(answer.read().decode())
PYTHON
        unit_is active && expect '^AF_UNIX$' show RestrictAddressFamilies agentcrated.service
}

# Nobody else's is asked for, and without it there is none.
metrics_are_off() {
        expect '^inactive$' show ActiveState agentcrated-metrics.socket &&
                ! grep -q '0100007F:1E26 00000000:0000 0A' /proc/net/tcp
}

# A policy that is read within the confines of the service.
reload_takes() {
        local tenant=$config_dir/tenants.d/nobody.json
        "$bin/agentcrate" tools >/dev/null || return 1
        echo '{"match": {"uid": [65534]}}' >"$tenant"
        systemctl reload agentcrated.service || return 1
        rm -f "$tenant"
        wait_for expect 'is in force: sha256:[0-9a-f]+, 2 tenants' journalctl -u agentcrated.service --no-pager
}

# By the files that tmpfiles has put in their place, as cron or a timer does it.
rotated() {
        local log=/var/log/agentcrate/audit.jsonl
        "$bin/agentcrate" call sandbox_exec '{"argv": []}' >/dev/null 2>&1
        logrotate -f /etc/logrotate.d/agentcrate || return 1
        [[ -s $log.1 ]] || { ls -l /var/log/agentcrate; return 1; }
        "$bin/agentcrate" call sandbox_exec '{"argv": []}' >/dev/null 2>&1
        wait_for test -s "$log" && [[ $(stat -c '%U %a' "$log" "$log.1" | sort -u) == "agentcrate 600" ]] &&
                "$bin/agentcrate" audit verify "$log.1" "$log"
}

no_broker() {
        ! "$1" "$bin/agentcrate" tools 2>&1
}

bin=${AGENTCRATE_BINDIR#"$AGENTCRATE_ROOT"}
prefix=${bin%/bin}
config_dir=$prefix/etc/agentcrate
[[ $prefix != /usr ]] || config_dir=/etc/agentcrate

check "make install's tree can be copied over /" install_tree
check "sysusers make the user" systemd-sysusers "$AGENTCRATE_SYSUSERS_DIR/agentcrate.conf"
for unit in agentcrate-launcher.socket agentcrate-launcher.service agentcrated-metrics.socket \
        agentcrate.slice; do
        check "systemd-analyze verify $unit" systemd-analyze verify --man=no "$unit"
done
for unit in agentcrated.socket agentcrated.service; do
        check "systemd-analyze verify $unit" systemd-analyze verify --man=no "$unit"
        check "systemd-analyze --user verify $unit" as_user systemd-analyze --user verify --man=no "$unit"
done
check "tmpfiles make the folder" systemd-tmpfiles --create "$AGENTCRATE_TMPFILES_DIR/agentcrate.conf"
check "the folder is root's" expect '^755 root$' stat -c '%a %U' /run/agentcrate
check "the locks are for both" expect '^660 root agentcrate$' stat -c '%a %U %G' /run/agentcrate/subuids
check "the bind roots are in their place" expect '^644 root$' stat -c '%a %U' "$config_dir/bind-roots"
# Where the tests' workspaces lie.
echo "rw /tmp" >>"$config_dir/bind-roots"

manager=(systemctl)
launcher_unit=agentcrate-launcher.service
# Whoever may be a tenant connects, and is judged by the broker.
tests_of system as_root "$system_socket" 666

check "system: metrics are not served by TCP unless asked for" metrics_are_off
check "system: metrics are served at their socket" expect \
        '^agentcrate_build_info\{version=' metrics_by_tcp
systemctl stop agentcrated-metrics.socket agentcrated.socket agentcrated.service
systemctl start agentcrated.socket
check "system: a plain user may not connect" refused as_user env AGENTCRATE_SOCKET="$system_socket" \
        "$bin/agentcrate" tools
check "system: the tools are root's" expect sandbox_exec "$bin/agentcrate" tools
check "system: a reload takes a new tenant in" reload_takes
! command -v logrotate >/dev/null || check "system: logrotate renames the audit log" rotated
check "system: the broker has no rights" has_no_rights
check "system: it sits in its slice" expect '^agentcrate.slice$' show Slice agentcrated.service
check "system: jobs/ is the broker's" jobs_are_given
if can_run; then
        check "system: root may mount a workspace of root's" expect 'from outside' workspace_call
        check "system: a job is a uid of its own" job_uid
        check "system: a workspace below no bind root is refused by name" bind_roots_hold
fi
check "system: a plain user cannot reach the launcher" refused as_user \
        python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect("/run/agentcrate/launcher.sock")'
systemctl stop agentcrated.socket agentcrated.service agentcrate-launcher.socket agentcrate-launcher.service
check "system: bind roots that others may change are none" bad_roots

manager=(as_user systemctl --user)
wait_for as_user systemctl --user show -P Version
launcher_unit=agentcrated.service
tests_of user as_user /run/user/1000/agentcrate/agentcrate.sock 600

echo "1..$count"
((failures == 0))
