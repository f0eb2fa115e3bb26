"""completion_check SHELL PROGRAM SCRIPT: checks that TAB in that shell offers what `millrace VERB --help` and `help config` list."""
import os, re, subprocess, sys

import help_text

shell, program, script = sys.argv[1:4]
here = os.path.dirname(os.path.abspath(__file__))


def press_tab(lines):
    """Returns (the command line after TAB, the words shown) for each line; for fish, (None, its
    completions)."""
    if shell == 'fish':
        return [(None, ask_fish(line)) for line in lines]
    output_lines = subprocess.run([sys.executable, f'{here}/press_tab.py', shell, script], input='\n'.join(lines), check=True,
                          capture_output=True, text=True).stdout.splitlines()
    assert len(output_lines) == len(lines), output_lines
    return [tuple(line.split('\t')[1:3]) for line in output_lines]


def ask_fish(line):
    return subprocess.run(['fish', '--no-config', '-c', 'source $argv[1]; complete -C $argv[2]', script, line], check=True,
                          capture_output=True, text=True).stdout


def offers(shown, word):
    return re.search(rf'(?<![\w-]){re.escape(word)}(?![\w-])', shown) is not None


verbs = help_text.verbs(program)
groups = sorted({verb.split()[0] for verb in verbs if ' ' in verb})
lines, expected_words = ['millrace '], [sorted({verb.split()[0] for verb in verbs})]
for group in groups:
    lines.append(f'millrace {group} ')
    expected_words.append([verb.split()[1] for verb in verbs if verb.startswith(group + ' ')])
for verb in verbs:
    lines.append(f'millrace {verb} -')
    options = help_text.options(program, verb)
    # zsh lists a long option and its short form as one entry
    expected_words.append([word for option in options for word in (option.words[:1] if shell == 'zsh' else option.words)])
    for option in options:
        if re.fullmatch(r'[a-z0-9]{2,}(\|[a-z0-9]{2,})+', option.value):
            for separator in (' ', '='):
                lines.append(f'millrace {verb} --{option.name}{separator}')
                expected_words.append(option.value.split('|'))
settings = help_text.settings(program)
lines.append('millrace train --set ')
# zsh lists only the key and appends the = when it is chosen
expected_words.append([key + ('' if shell == 'zsh' else '=') for key in settings])
for key, value in settings.items():
    choices = value.split('|')
    if len(choices) > 1 and choices[0] not in ('number', 'size'):
        lines.append(f'millrace train train.yaml --set {key}=')
        expected_words.append(choices)
assert len(lines) > 40, lines

for line, words, (buffer, shown) in zip(lines, expected_words, press_tab(lines)):
    assert len(words) > 1 or buffer is None or buffer.strip() == line + words[0], (line, buffer)
    for word in words if len(words) > 1 else []:
        assert offers(shown, word), f'{shell}: `{line}` does not offer {word}: {shown}'
