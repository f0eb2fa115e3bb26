"""help_text — parses `millrace VERB --help`, for comparison with manual pages and completions."""
import re, subprocess


def run(program, *words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def verbs(program):
    """The names of all verbs, such as "convert dataset"."""
    section = run(program, '--help').split('\nverbs:\n')[1].split('\n\n')[0]
    return re.findall(r'^  (\S+(?: \S+)?)  +\S', section, re.M)


class Option:
    def __init__(self, letter, name, value, phrase):
        self.letter, self.name, self.value, self.phrase = letter, name, value, phrase

    @property
    def words(self):
        return ['--' + self.name] + (['-' + self.letter] if self.letter else [])

    def __str__(self):
        letter = f'-{self.letter}, ' if self.letter else ''
        value = f' {self.value}' if self.value and not self.value.startswith('[') else self.value
        return f'{letter}--{self.name}{value} {self.phrase}'


def options(program, verb):
    section = run(program, *verb.split(), '--help').split('\noptions:\n')[1].split('\n\nexamples:\n')[0]
    options_found = []
    for item in re.split(r'\n(?=  (?:-\w, |    )--)', section):
        match = re.match(r'\s*(?:-(\w), )?--([a-z-]+)(?: (\S+)|(\[=\S+\]))?(?:  +|\n +)(.*)', item, re.S)
        assert match, item
        options_found.append(Option(match[1], match[2], match[3] or match[4] or '', ' '.join(match[5].split())))
    assert len(options_found) >= 4, section
    return options_found


def examples(program, verb):
    section = run(program, *verb.split(), '--help').split('\nexamples:\n')[1].replace(' \\\n     ', '')
    return [line.strip() for line in section.splitlines()]


def settings(program):
    """The keys of a configuration and the values they take."""
    return dict(re.findall(r'^[* ] ([a-z_.0-9]+) +(\S+|\[real, real\])\s+\(default ', run(program, 'help', 'config'), re.M))
