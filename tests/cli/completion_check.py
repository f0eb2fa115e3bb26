"""completion_check SHELL PROGRAM SCRIPT: pressing TAB offers what `millrace VERB --help` and `help config` list, in that shell."""
import os, re, subprocess, sys

import help_text

shell, program, script = sys.argv[1:4]
here = os.path.dirname(os.path.abspath(__file__))


def press_tab(lines):
    """For each line, [(the command line after TAB, the words shown)]; fish prints its completions
    instead."""
    if shell == 'fish':
        return [(None, ask_fish(line)) for line in lines]
    told = subprocess.run([sys.executable, f'{here}/press_tab.py', shell, script], input='\n'.join(lines), check=True,
                          capture_output=True, text=True).stdout.splitlines()
    assert len(told) == len(lines), told
    return [tuple(line.split('\t')[1:3]) for line in told]


def ask_fish(line):
    return subprocess.run(['fish', '--no-config', '-c', 'source $argv[1]; complete -C $argv[2]', script, line], check=True,
                          capture_output=True, text=True).stdout


def offers(shown, word):
    return re.search(rf'(?<![\w-]){re.escape(word)}(?![\w-])', shown) is not None


verbs = help_text.verbs(program)
groups = sorted({verb.split()[0] for verb in verbs if ' ' in verb})
lines, wanted = ['millrace '], [sorted({verb.split()[0] for verb in verbs})]
for group in groups:
    lines.append(f'millrace {group} ')
    wanted.append([verb.split()[1] for verb in verbs if verb.startswith(group + ' ')])
for verb in verbs:
    lines.append(f'millrace {verb} -')
    options = help_text.options(program, verb)
    # zsh lists a long option and its short form as one entry
    wanted.append([word for option in options for word in (option.words[:1] if shell == 'zsh' else option.words)])
    for option in options:
        if re.fullmatch(r'[a-z0-9]{2,}(\|[a-z0-9]{2,})+', option.value):
            for join in (' ', '='):
                lines.append(f'millrace {verb} --{option.name}{join}')
                wanted.append(option.value.split('|'))
settings = help_text.settings(program)
lines.append('millrace train --set ')
# zsh lists only the key and appends the = when it is chosen
wanted.append([key + ('' if shell == 'zsh' else '=') for key in settings])
for key, takes in settings.items():
    choices = takes.split('|')
    if len(choices) > 1 and choices[0] not in ('number', 'size'):
        lines.append(f'millrace train train.yaml --set {key}=')
        wanted.append(choices)
assert len(lines) > 40, lines

for line, words, (buffer, shown) in zip(lines, wanted, press_tab(lines)):
    assert len(words) > 1 or buffer is None or buffer.strip() == line + words[0], (line, buffer)
    for word in words if len(words) > 1 else []:
        assert offers(shown, word), f'{shell}: `{line}` does not offer {word}: {shown}'
