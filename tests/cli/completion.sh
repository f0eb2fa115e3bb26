#!/usr/bin/env bash
# Completions in interactive shells on a terminal, tested by pressing TAB.
. "$(dirname "$0")/lib.sh"

PATH=$(dirname "$MILLRACE"):$PATH # the scripts run the program
mkdir scripts "a folder" && touch train.yaml
for shell in bash zsh fish; do millrace completion $shell >scripts/$shell || exit 1; done
need_shell() {
  need_python
  command -v "$1" >/dev/null || skip "$1 is not installed"
  # bash and zsh complete only on a terminal; fish can print its completions
  [[ $1 == fish ]] || "$python" -c 'import pty; pty.openpty()' 2>/dev/null || skip "no terminal is available"
}
# tab SHELL LINE: prints the command line after TAB.
tab() { printf '%s\n' "$2" | "$python" "$here/press_tab.py" "$1" "$scratch/scripts/$1" | cut -f 2; }

check_all_offers() {
  need_shell "$1"
  "$python" "$here/completion_check.py" "$1" "$MILLRACE" "$scratch/scripts/$1"
}
bash_offers_every_verb_option_choice_and_key() { check_all_offers bash; }
zsh_offers_every_verb_option_choice_and_key() { check_all_offers zsh; }
fish_offers_every_verb_option_choice_and_key() { check_all_offers fish; }

# Lines with exactly one completion.
cat >continuations <<'LINES'
millrace rea|millrace read 
millrace convert d|millrace convert dataset 
millrace help convert d|millrace help convert dataset 
millrace manual form|millrace manual formats 
millrace completion z|millrace completion zsh 
millrace read shards --order=f|millrace read shards --order=full 
millrace read shards --order f|millrace read shards --order full 
millrace read -j 2 shards --print k|millrace read -j 2 shards --print keys 
millrace train --set data.ord|millrace train --set data.order=
millrace train --set=data.ord|millrace train --set=data.order=
millrace train --set data.order=f|millrace train --set data.order=full 
millrace train --set=batch.sync_each=t|millrace train --set=batch.sync_each=true 
millrace train --set data.train=tra|millrace train --set data.train=train.yaml 
millrace train tra|millrace train train.yaml 
millrace train train.yaml --resume nev|millrace train train.yaml --resume never 
millrace verify a|millrace verify a\ folder/
millrace read shards -o a|millrace read shards -o a\ folder/
LINES
completes() {
  need_shell "$1"
  cut -d '|' -f 1 continuations | "$python" "$here/press_tab.py" "$1" "$scratch/scripts/$1" | cut -f 1,2 --output-delimiter='|' | diff continuations -
}
bash_completes_words_choices_keys_and_names() { completes bash; }
zsh_completes_words_choices_keys_and_names() { completes zsh; }

fish_completes_files_folders_and_described_keys() {
  need_shell fish
  ask() { fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$scratch/scripts/fish" "$1"; }
  contains "$(ask 'millrace train tra')" train.yaml
  contains "$(ask 'millrace verify a')" "a folder/"
  contains "$(ask 'millrace read shards -o a')" "a folder/"
  contains "$(ask 'millrace train --set data.train=tra')" data.train=train.yaml
  contains "$(ask 'millrace train --set run.se')" "$(printf 'run.seed=\tseed of every random choice')"
  contains "$(ask 'millrace train train.yaml --resume nev')" never
  same "$(ask 'millrace read shards --seed tra')" "" "files where a number is expected"
  same "$(ask 'millrace completion tra')" "" "files where a shell is expected"
}

options_end_at_two_dashes_and_numbers_are_not_completed_as_files() {
  need_shell bash
  same "$(tab bash 'millrace read -- --ord')" 'millrace read -- --ord'
  same "$(tab bash 'millrace read --seed tra')" 'millrace read --seed tra'
  same "$(tab bash 'millrace nothing tra')" 'millrace nothing tra'
}

# Tests only bash: in zsh, TAB expands such words by design, for any command.
pressing_tab_never_runs_a_hostile_word() {
  need_shell bash
  for line in 'millrace read --order=$(touch pwned)`touch pwned`' 'millrace train --set $(touch pwned)=' 'millrace $(touch pwned)'; do
    tab bash "$line" >/dev/null
  done
  [[ ! -e pwned ]] || fail "a command on the line was run"
}

zsh_finds_the_installed_completion() {
  need_shell zsh
  mkdir functions && cp scripts/zsh functions/_millrace
  zsh -f -c 'fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; print -r -- $_comps[millrace]' >found
  same "$(cat found)" _millrace
  # press_tab sources a script when the completion system is ready; this script only adds the folder
  # to fpath, as for an installed completion.
  printf 'fpath=(%q $fpath); compinit -u -D\n' "$PWD/functions" >scripts/zsh
  same "$(tab zsh 'millrace convert d')" 'millrace convert dataset '
}

run_cases bash_offers_every_verb_option_choice_and_key zsh_offers_every_verb_option_choice_and_key \
  fish_offers_every_verb_option_choice_and_key bash_completes_words_choices_keys_and_names \
  zsh_completes_words_choices_keys_and_names fish_completes_files_folders_and_described_keys \
  options_end_at_two_dashes_and_numbers_are_not_completed_as_files pressing_tab_never_runs_a_hostile_word zsh_finds_the_installed_completion
