# Completion of stayput for fish. After `--` comes a program: it is completed as fish completes that one.
function __stayput_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l word (commandline --current-token --cut-at-cursor)
    if set -l dashes (contains --index -- -- $words)
        complete --do-complete (string join ' ' -- (string escape -- $words[(math $dashes + 1)..-1]) $word)
    else
        STAYPUT_COMPLETE=1 $words[1] $words $word 2>/dev/null
    end
end
complete --command stayput --no-files --keep-order --arguments '(__stayput_complete)'
