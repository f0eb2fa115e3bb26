# Completion of millrace for fish 3: `millrace __complete` prints the candidates.
function __millrace_complete
    set -l typed (commandline -opc)
    set -l token (commandline -ct)
    $typed[1] __complete $typed[2..-1] "$token" 2>/dev/null
end

function __millrace_takes_names
    __millrace_complete | string match -qr '^(files|folders)\t'
end

complete -c millrace -f -a '(__millrace_complete | tail -n +2)'
complete -c millrace -n __millrace_takes_names -F
