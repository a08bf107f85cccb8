# Completion for bash.   Made by `make completion` from the parser of client.py.   SPDX-License-Identifier: MIT
_dumpulse()
{
    local command= options= hosts= files= values= first= more= at=2
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $word == "=" ]]; then # bash makes three words of --names=FILE
        word=
    elif [[ $before == "=" ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case ${COMP_WORDS[1]} in
    get | set | watch | check | simulate | key) command=${COMP_WORDS[1]} ;;
    *) at=1 ;;
    esac
    case $command in
    get)
        options="-h --help -V --version --tick --now-from --names --key -t --timeout --accept-bad-sum --json"
        files="--names --key"
        values="--tick --now-from -t --timeout"
        ;;
    set)
        options="-h --help -V --version --sender --confirm --names --key -t --timeout"
        files="--names --key"
        values="--sender -t --timeout"
        ;;
    watch)
        options="-h --help -V --version -w --warn -c --crit --interval --count --tick --now-from --names --key -t --timeout --accept-bad-sum --json"
        files="--names --key"
        values="-w --warn -c --crit --interval --count --tick --now-from -t --timeout"
        ;;
    check)
        options="-h --help -V --version -H --expect --value --value-warn -w --warn -c --crit --tick --now-from --names --key -t --timeout --memory --accept-bad-sum --json"
        hosts="-H"
        files="--names --key --memory"
        values="--expect --value --value-warn -w --warn -c --crit --tick --now-from -t --timeout"
        ;;
    simulate)
        options="-h --help -V --version -w --warn -c --crit --nodes --die --late --corrupt --seconds --seed --names --key"
        files="--names --key"
        values="-w --warn -c --crit --nodes --die --late --corrupt --seconds --seed"
        ;;
    key)
        options="-h --help -V --version --secret --out --variable --alone --readers --agent --text --epoch"
        files="--out"
        values="--variable --alone --epoch"
        first="new show list renew split"
        more="files"
        ;;
    *)
        options="-h --help -V --version -v --value -n --variable -s --sender --tick --now-from --names --key -t --timeout --accept-bad-sum --json"
        files="--names --key"
        values="-v --value -n --variable -s --sender --tick --now-from -t --timeout"
        ;;
    esac
    COMPREPLY=()
    if [[ " $files " == *" $before "* ]]; then
        compopt -o filenames 2>/dev/null # not there when a script calls this function
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    elif [[ " $hosts " == *" $before "* ]]; then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    elif [[ " $values " == *" $before "* ]]; then
        : # a value that nobody but the user knows
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "get set watch check simulate key" -A hostname -- "$word")
    elif ((COMP_CWORD == at)) && [[ $first ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$first" -- "$word")
    elif ((COMP_CWORD == at)); then
        mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    elif [[ $more ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}
complete -F _dumpulse dumpulse client.py
