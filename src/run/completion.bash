# SPDX-License-Identifier: Apache-2.0
# bash completion for agentcrate-run
# shellcheck shell=bash disable=SC2207

_agentcrate_run_templates() {
        local folder
        for folder in /usr/share/agentcrate /usr/local/share/agentcrate /etc/agentcrate \
                "${XDG_CONFIG_HOME:-$HOME/.config}/agentcrate" "${AGENTCRATE_DATA_DIR:-}"; do
                [ -d "$folder/templates.d" ] || continue
                find "$folder/templates.d" -maxdepth 1 -name '*.json' -printf '%f\n' 2>/dev/null
        done | sed 's/\.json$//' | sort -u
}

_agentcrate_run() {
        local cur prev i word
        local options='--workspace --ro --rw --allow --operation -C -e --template --profile --timeout --limit --enforce
                --on-hit
                --capture --result --json --tty --print-plan --help --version'
        local limits='memory= pids= cpus= cpu_time= wall_time= disk= inodes= open_files= file_size=
                output= io_read_bps= io_write_bps='

        COMPREPLY=()
        cur=${COMP_WORDS[COMP_CWORD]}
        prev=${COMP_WORDS[COMP_CWORD - 1]}

        # Behind the first word that is neither an option nor an option's value stands the command.
        for ((i = 1; i < COMP_CWORD; i++)); do
                word=${COMP_WORDS[i]}
                case $word in
                --)
                        ((i++))
                        ;;
                -w | --workspace | --ro | --rw | --allow | --operation | -C | -e | --template | --profile | -t | --timeout | \
                        --limit | --enforce | --on-hit | --capture | --result)
                        ((i++))
                        [ "${COMP_WORDS[i]:-}" = = ] && ((i++))
                        # NAME=VALUE is three words of readline's.
                        [ "${COMP_WORDS[i + 1]:-}" = = ] && ((i += 2))
                        continue
                        ;;
                -*)
                        continue
                        ;;
                esac
                if declare -F _command_offset >/dev/null; then
                        _command_offset "$i"
                fi
                return
        done

        case $prev in
        -w | --workspace | -C)
                COMPREPLY=($(compgen -d -- "$cur"))
                compopt -o filenames
                return
                ;;
        --ro | --rw | --result)
                COMPREPLY=($(compgen -f -- "$cur"))
                compopt -o filenames
                return
                ;;
        -e)
                COMPREPLY=($(compgen -e -- "$cur"))
                return
                ;;
        --template)
                COMPREPLY=($(compgen -W "$(_agentcrate_run_templates)" -- "$cur"))
                return
                ;;
        --profile)
                COMPREPLY=($(compgen -W 'debug default strict' -- "$cur"))
                return
                ;;
        --limit)
                COMPREPLY=($(compgen -W "$limits" -- "$cur"))
                compopt -o nospace
                return
                ;;
        --enforce)
                COMPREPLY=($(compgen -W 'strict sampled' -- "$cur"))
                return
                ;;
        --on-hit)
                COMPREPLY=($(compgen -W 'end refuse' -- "$cur"))
                return
                ;;
        -t | --timeout | --capture | --allow | --operation)
                return
                ;;
        esac

        if [[ $cur == -* ]]; then
                COMPREPLY=($(compgen -W "$options" -- "$cur"))
        else
                COMPREPLY=($(compgen -c -- "$cur"))
        fi
}

complete -F _agentcrate_run agentcrate-run
