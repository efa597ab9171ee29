# SPDX-License-Identifier: Apache-2.0
# bash completion for agentcrate
# shellcheck shell=bash disable=SC2207

_agentcrate() {
        local cur prev command=
        local i

        COMPREPLY=()
        cur=${COMP_WORDS[COMP_CWORD]}
        prev=${COMP_WORDS[COMP_CWORD - 1]}
        for ((i = 1; i < COMP_CWORD; i++)); do
                case ${COMP_WORDS[i]} in
                stdio | tools | call | audit | policy | doctor)
                        command=${COMP_WORDS[i]}
                        break
                        ;;
                esac
        done

        if [ -z "$command" ]; then
                COMPREPLY=($(compgen -W 'stdio tools call audit policy doctor --help --version' -- "$cur"))
                return
        fi
        case $prev in
        -w | --workspace)
                COMPREPLY=($(compgen -d -- "$cur"))
                compopt -o filenames
                return
                ;;
        --socket)
                COMPREPLY=($(compgen -f -- "$cur"))
                compopt -o filenames
                return
                ;;
        call)
                if [[ $cur != -* ]]; then
                        COMPREPLY=($(compgen -W "$(agentcrate tools 2>/dev/null | grep '^[a-z]')" -- "$cur"))
                        return
                fi
                ;;
        esac
        case $command in
        audit)
                if [[ $cur == -* ]]; then
                        COMPREPLY=($(compgen -W '--lines --follow --tenant --tool --outcome --since --until --head --json --help' -- "$cur"))
                elif [ "$prev" = audit ]; then
                        COMPREPLY=($(compgen -W 'verify query tail' -- "$cur"))
                else
                        COMPREPLY=($(compgen -f -- "$cur"))
                        compopt -o filenames
                fi
                ;;
        policy)
                case $prev in
                policy) COMPREPLY=($(compgen -W 'check dump explain' -- "$cur")) ;;
                --dir | --to)
                        COMPREPLY=($(compgen -d -- "$cur"))
                        compopt -o filenames
                        ;;
                *) COMPREPLY=($(compgen -W '--system --user --dir --to --tenant --tool --args --help' -- "$cur")) ;;
                esac
                ;;
        stdio)
                COMPREPLY=($(compgen -W '--workspace --socket --help' -- "$cur"))
                ;;
        tools)
                COMPREPLY=($(compgen -W '--json --socket --help' -- "$cur"))
                ;;
        doctor)
                COMPREPLY=($(compgen -W '--json --help' -- "$cur"))
                ;;
        call)
                COMPREPLY=($(compgen -W '--workspace --json --progress --socket --help' -- "$cur"))
                ;;
        esac
}

complete -F _agentcrate agentcrate
