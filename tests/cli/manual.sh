#!/usr/bin/env bash
# The manual pages as man and mandoc show them.
. "$(dirname "$0")/lib.sh"

millrace manual --out share >out && [[ ! -s out ]] || exit 1
export MANWIDTH=80 MANROFFOPT='' MANOPT='' LC_ALL=C.UTF-8

manual_pages_match_help() {
  need_python
  command -v man >/dev/null || skip "man is not installed"
  mkdir text
  for page in share/man?/*; do
    man -l -Tascii -P cat "$page" 2>/dev/null | col -bx >"text/$(basename "$page").txt"
  done
  PYTHONPATH=$here "$python" "$here/manual_check.py" "$MILLRACE" text
}

man_renders_them_at_80_columns_without_a_warning() {
  command -v man >/dev/null || skip "man is not installed"
  for page in share/man?/*; do
    man -l --warnings=w -Tutf8 -P cat "$page" >rendered 2>warnings
    same "$(cat warnings)" "" "warnings of $page"
    same "$(col -bx <rendered | awk 'length($0) > 80')" "" "wide lines of $page"
  done
}

mandoc_warns_only_of_missing_dates() {
  command -v mandoc >/dev/null || skip "mandoc is not installed"
  for page in share/man?/*; do
    same "$(mandoc -Tlint -W warning "$page" | grep -v 'missing date' || true)" "" "mandoc warnings for $page"
  done
}

each_page_has_a_whatis_line() {
  command -v lexgrog >/dev/null || skip "lexgrog is not installed"
  for page in share/man?/*; do
    name=$(basename "${page%.*}")
    contains "$(lexgrog "$page")" "\"$name - "
  done
}

a_page_is_the_same_alone_or_with_all() {
  millrace manual | cmp - share/man1/millrace.1
  millrace manual convert dataset | cmp - share/man1/millrace-convert-dataset.1
  millrace manual config | cmp - share/man5/millrace-config.5
  same "$(find share -type f | wc -l)" "$(($(millrace --help | sed -n '/^verbs:/,/^$/p' | grep -c '^  [a-z]') + 3))" "pages"
}

existing_pages_are_kept_unless_forced() {
  echo mine >share/man1/millrace-read.1
  same "$(status_of millrace manual --out share)" 1
  one_line errors
  same "$(cat share/man1/millrace-read.1)" mine
  mkdir -p other/man1
  echo mine >other/man1/millrace-read.1
  same "$(status_of millrace manual --out other)" 1
  contains "$(cat errors)" "other/man1/millrace-read.1; "
  same "$(find other -type f)" other/man1/millrace-read.1 "what is there: all pages or none"
  millrace manual --out share --force
  millrace manual read | cmp - share/man1/millrace-read.1
}

run_cases manual_pages_match_help man_renders_them_at_80_columns_without_a_warning \
  mandoc_warns_only_of_missing_dates each_page_has_a_whatis_line \
  a_page_is_the_same_alone_or_with_all existing_pages_are_kept_unless_forced
