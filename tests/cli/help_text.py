"""help_text — parses `millrace VERB --help`, for comparison with manual pages and completions."""
import re, subprocess


def run(program, *words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def verbs(program):
    """The names of all verbs, such as "convert dataset"."""
    listed = run(program, '--help').split('\nverbs:\n')[1].split('\n\n')[0]
    return re.findall(r'^  (\S+(?: \S+)?)  +\S', listed, re.M)


class Option:
    def __init__(self, letter, name, value, phrase):
        self.letter, self.name, self.value, self.phrase = letter, name, value, phrase

    @property
    def words(self):
        return ['--' + self.name] + (['-' + self.letter] if self.letter else [])

    def __str__(self):
        letter = f'-{self.letter}, ' if self.letter else ''
        value = f' {self.value}' if self.value else ''
        return f'{letter}--{self.name}{value} {self.phrase}'


def options(program, verb):
    listed = run(program, *verb.split(), '--help').split('\noptions:\n')[1].split('\n\nexamples:\n')[0]
    found = []
    for item in re.split(r'\n(?=  (?:-\w, |    )--)', listed):
        match = re.match(r'\s*(?:-(\w), )?--([a-z-]+)(?: (\S+))?(?:  +|\n +)(.*)', item, re.S)
        assert match, item
        found.append(Option(match[1], match[2], match[3] or '', ' '.join(match[4].split())))
    assert len(found) >= 4, listed
    return found


def examples(program, verb):
    listed = run(program, *verb.split(), '--help').split('\nexamples:\n')[1].replace(' \\\n     ', '')
    return [line.strip() for line in listed.splitlines()]


def settings(program):
    """The keys of a configuration and the values they take."""
    return dict(re.findall(r'^[* ] ([a-z_.0-9]+) +(\S+|\[real, real\])\s+\(default ', run(program, 'help', 'config'), re.M))
