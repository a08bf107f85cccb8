# Completion for bash and zsh. What it offers comes from --help.   SPDX-License-Identifier: MIT
_dumpulse_fleet()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [[ $COMP_CWORD == 1 ]]; then
        words=$(dumpulse-fleet --help | sed -n 's/^  dumpulse-fleet \([a-z]*\) .*/\1/p')
    elif [[ $word == -* ]]; then
        words=$(dumpulse-fleet "${COMP_WORDS[1]}" --help | grep -o -e '--[a-z.-]*[a-z]' | sort -u)
    elif [[ $before == *file ]]; then
        # shellcheck disable=SC2207 # zsh has no mapfile
        COMPREPLY=($(compgen -f -- "$word"))
        return
    fi
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o filenames -F _dumpulse_fleet dumpulse-fleet
