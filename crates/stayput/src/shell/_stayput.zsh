#compdef stayput
# Completion of stayput for zsh. After `--` comes a program: it is completed as zsh completes that one.
_stayput() {
    local -a lines values shown
    local line dashes=${words[(i)--]}
    if ((dashes < CURRENT)); then
        shift $dashes words
        ((CURRENT -= dashes))
        _normal
        return
    fi
    lines=("${(@f)$(STAYPUT_COMPLETE=1 ${words[1]} "${(@)words[1,CURRENT]}" 2> /dev/null)}")
    for line in $lines; do
        values+=("${line%%$'\t'*}")
        shown+=("${line%%$'\t'*}${${line#*$'\t'}:+  ${line#*$'\t'}}")
    done
    local -a open
    # A folder, an option's `=` and a program's `.` want more to be typed.
    open=(${(M)values:#*[/=.:]})
    ((${#values} == ${#open})) && open=(-S '') || open=()
    compadd -Q $open -l -d shown -a values
}
if [[ $funcstack[1] == _stayput ]]; then
    _stayput "$@"
else
    compdef _stayput stayput
fi
