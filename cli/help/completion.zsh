#compdef millrace
# Completion of millrace for zsh 5: `millrace __complete` prints the candidates.
_millrace() {
  local line word kind prefix
  local -a candidates words_found keys_found
  candidates=("${(@f)$($words[1] __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  kind=${candidates[1]%%$'\t'*} prefix=${candidates[1]#*$'\t'}
  for line in "${(@)candidates[2,-1]}"; do
    word=${line%%$'\t'*}
    line="${word//:/\\:}:${line#*$'\t'}"
    if [[ $word == *= ]]; then
      keys_found+=("$line")
    else
      words_found+=("$line")
    fi
  done
  _describe -t words word words_found
  _describe -t keys 'key of the configuration' keys_found -S ''
  [[ $kind == (files|folders) ]] || return
  PREFIX=${PREFIX#"$prefix"} IPREFIX+=$prefix
  if [[ $kind == files ]]; then
    _files
  else
    _files -/
  fi
}

if [[ $funcstack[1] == _millrace ]]; then
  _millrace "$@"
else
  compdef _millrace millrace
fi
