"""manual_check PROGRAM FOLDER: checks that the rendered pages in FOLDER (NAME.txt) match `millrace VERB --help` and `help config`."""
import pathlib, re, sys

import help_text

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def page(name):
    return (folder / f'{name}.txt').read_text()


def check(expected, text, where):
    flat = ' '.join(text.split())
    assert expected in flat, f'{where}: lacks "{expected}"'


verb_names = help_text.verbs(program)
assert 'convert dataset' in verb_names and len(verb_names) > 10, verb_names
overview = page('millrace.1')
for verb in verb_names:
    name = 'millrace-' + verb.replace(' ', '-')
    text = page(name + '.1')
    check(name + '(1)', overview, 'millrace.1')
    for option in help_text.options(program, verb):
        check(str(option), text, name)
    example_section = text.split('\nEXAMPLES\n')[1].split('\nSEE ALSO\n')[0]
    examples = [' '.join(line.split()) for line in re.sub(r'\\\n', ' ', example_section).strip().splitlines()]
    assert examples == help_text.examples(program, verb), (name, examples)
for status in ('0 done', '1 ', '2 ', '75 ', '130 '):
    check(status, overview.split('\nEXIT STATUS\n')[1], 'millrace.1')
config = page('millrace-config.5')
settings = help_text.settings(program)
assert len(settings) > 40, settings
for key, value in settings.items():
    assert re.search(rf'^ +{re.escape(key)} (\* )?{re.escape(value)}( |$)', config, re.M), f'{key} {value} is not in the page'
check('index_crc32c', page('millrace-formats.5'), 'millrace-formats.5')
assert len(list(folder.glob('*.txt'))) == len(verb_names) + 3, 'pages of no verb'
