# Completion of millrace for bash 4.4 and later: `millrace __complete` prints the candidates.
_millrace() {
  local cur prefix='' word kind joins='' i words=()
  # Readline splits words at = and replaces only the part after the last one.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ ${#words[@]} -gt 0 && ($joins || $word == =*) ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    [[ $word == *= ]] && joins=1 || joins=
  done
  cur=${words[${#words[@]} - 1]}
  [[ $COMP_WORDBREAKS == *=* ]] && prefix=${cur%"${cur##*=}"}

  COMPREPLY=()
  {
    read -r kind _
    while IFS=$'\t' read -r word _; do
      [[ $word == "$cur"* ]] && COMPREPLY+=("${word#"$prefix"}")
    done
  } < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  # If no word fits, readline completes file names: it knows quotes, ~ and variables.
  case $kind in
  files) compopt -o default 2>/dev/null ;;
  folders) compopt -o dirnames 2>/dev/null ;;
  esac
  return 0
}
complete -F _millrace millrace
