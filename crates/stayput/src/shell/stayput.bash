# Completion of stayput for bash. After `--` comes a program: it is completed as bash completes that one.
_stayput() {
    local -a words
    local word before prefix value i
    # Bash takes words apart at colons, and subjects such as npb:cg.W have them.
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if [[ ${words[i]} == -- ]]; then
            if declare -F _command_offset > /dev/null; then
                _command_offset $((i + 1))
            elif ((i == ${#words[@]} - 2)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word")
            else
                mapfile -t COMPREPLY < <(compgen -f -- "$word")
            fi
            return
        fi
    done
    before=
    [[ $COMP_WORDBREAKS == *:* && $word == *:* ]] && before=${word%"${word##*:}"}
    [[ $COMP_WORDBREAKS == *=* && $word == *=* && ${#before} -eq 0 ]] && before=${word%"${word##*=}"}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        COMPREPLY+=("${value#"$before"}")
    done < <(STAYPUT_COMPLETE=1 "${words[0]}" "${words[@]}" 2> /dev/null)
    # A folder, an option's `=` and a program's `.` want more to be typed.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=.:] ]] && compopt -o nospace
}
complete -o nosort -F _stayput stayput 2> /dev/null || complete -F _stayput stayput
