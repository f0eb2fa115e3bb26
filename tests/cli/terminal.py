"""terminal PROGRAM CASE: runs `millrace train train.yaml` on a terminal of a given width and checks
what it draws.

It interprets the output like a terminal. Besides text and colors, only carriage return, line feed and "erase to the end of the line"
may occur. Every line that is drawn must fit.
"""
import fcntl, os, pty, re, signal, struct, subprocess, sys, termios

program, case = sys.argv[1:3]
BAR = re.compile(r'((training|evaluating)  )?\d+/\d+( |$)')  # the narrowest bars omit the label
WHOLE_BAR = re.compile(r'/\d+ steps  \d+%  \[=*>? *\]  [\d.]+/s  ')


class Run:
    """The program on a terminal of that many columns, from its start."""

    def __init__(self, columns, *words, **environment):
        self.drawn, self.lines, self.line, self.at, self.raw = [], [], '', 0, ''
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self.fd = 0
            self.resize(columns)
            os.environ.pop('NO_COLOR', None)
            os.environ.update({'TERM': 'xterm', **environment})
            os.execv(program, [program, *words])
        self.columns = columns

    def resize(self, columns):
        self.columns = columns
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))

    def feed(self, text):
        for piece in re.findall(r'\x1b\[[0-9;]*[A-Za-z]|[\s\S]', text):
            if piece in ('\r', '\n', '\x1b[K') and BAR.match(self.line):
                self.drawn.append(self.line)
            if piece == '\r':
                self.at = 0
            elif piece == '\n':
                self.lines.append(self.line)
                self.line, self.at = '', 0
            elif piece == '\x1b[K':
                self.line = self.line[:self.at]
            elif not re.fullmatch(r'\x1b\[\d*m', piece):
                assert piece.isprintable(), f'a control character: {piece!r} in {text!r}'
                self.line = self.line[:self.at] + piece + self.line[self.at + 1:]
                self.at += 1

    def read(self):
        """Returns False at the end of the output."""
        try:
            text = os.read(self.fd, 65536).decode()
        except OSError:
            text = ''
        self.raw += text
        self.feed(text)
        return text != ''

    def read_until(self, condition):
        while not condition():
            assert self.read(), f'the program ended early: {self.lines} {self.line}'

    def wait_for_draws(self, count):
        target = len(self.drawn) + count
        self.read_until(lambda: len(self.drawn) >= target)

    def interrupt(self):
        os.write(self.fd, b'\x03')
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def check_fit(run, lines):
    for line in lines:
        assert len(line) < run.columns, f'{len(line)} of {run.columns} columns: {line}'


def check_end(run):
    """Only complete lines remain, none of them a bar, and the cursor is at the start of a new
    line."""
    assert run.line == '' and run.at == 0, run.line
    assert not any(BAR.match(line) for line in run.lines), run.lines
    assert run.lines[-1].startswith('stopped on request after step'), run.lines[-3:]


def widths():
    for columns in (20, 30, 40, 80, 200):
        run = Run(columns, 'train', 'train.yaml', '--set', f'run.dir=runs/{columns}')
        run.wait_for_draws(4)
        run.read_until(lambda: any(line.startswith('step ') for line in run.lines))
        run.wait_for_draws(4)
        if columns >= 80:  # evaluations draw their own bars in between
            run.read_until(lambda: any(WHOLE_BAR.search(line) for line in run.drawn))
            check_fit(run, [line for line in run.lines if line.startswith('step ')])
        check_fit(run, run.drawn)
        assert all(re.search(r'\d+/\d+', line) for line in run.drawn), run.drawn
        assert run.interrupt() == 75
        check_end(run)


def resized():
    run = Run(120, 'train', 'train.yaml', '--set', 'run.dir=runs/resized')
    run.wait_for_draws(3)
    for columns in (30, 60, 100, 40):
        begin = len(run.drawn)
        run.resize(columns)
        # Bars of the old width may still be in progress: as many as fit the terminal's buffer.
        run.read_until(lambda: len(run.drawn) > begin and (len(run.drawn[-1]) < columns or len(run.drawn) > begin + 100))
        begin = len(run.drawn)
        run.wait_for_draws(3)
        check_fit(run, run.drawn[begin:])
    assert run.interrupt() == 75
    check_end(run)


def plain():
    """NO_COLOR: a bar without colors; TERM=dumb, --quiet: no bar and no control character."""
    run = Run(80, 'train', 'train.yaml', '--set', 'run.dir=runs/plain', NO_COLOR='1', LC_ALL='C')
    run.wait_for_draws(3)
    assert run.interrupt() == 75
    assert not re.search(r'\x1b\[\d*m', run.raw), 'colors'
    for name, words, environment in (('dumb', [], {'TERM': 'dumb'}), ('quiet', ['--quiet'], {})):
        run = Run(80, 'train', 'train.yaml', '--set', f'run.dir=runs/{name}', '--set', 'run.steps=400', *words, **environment)
        while run.read():
            pass
        assert os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1]) == 0
        assert '\x1b' not in run.raw and not run.drawn, (name, run.raw)
        assert ('step 100/400' in run.raw) == (name == 'dumb'), run.raw


def results():
    """Long texts are wrapped and wide tables printed row by row, without losing anything."""
    for words in (['read', 'shards', '--count', '8', '--batch', '8', '--micro', '8'], ['read', 'shards', '--quality'], ['train', '--help']):
        run = Run(60, *words)
        while run.read():
            pass
        assert os.waitstatus_to_exitcode(os.waitpid(run.pid, 0)[1]) == 0
        lines = [line for line in run.lines if not BAR.match(line)]
        assert all(len(line) <= run.columns for line in lines), lines
        piped = subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout
        for key in ('limited by', 'better lanes', '--profile A:B'):
            assert (key in piped) == any(key in line for line in lines), (key, lines)


def give_up(signal_number, frame):
    raise TimeoutError('the expected output was not drawn')


signal.signal(signal.SIGALRM, give_up)
signal.alarm(280)  # the endless run must not outlive its test
{'widths': widths, 'resized': resized, 'plain': plain, 'results': results}[case]()
