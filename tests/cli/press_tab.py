#!/usr/bin/env python3
"""press_tab — types lines into an interactive shell on its own terminal, presses TAB after each, and prints the result.

    press_tab.py bash|zsh SCRIPT <lines

SCRIPT is sourced first. Prints `LINE<TAB>BUFFER<TAB>SHOWN` for each line: BUFFER is the resulting command line, SHOWN the words that the
shell displayed. The shell reads its input in order, so no delays are needed.
"""
import fcntl, os, pty, re, struct, sys, termios

SHELLS = {
    'bash': (['bash', '--norc', '--noprofile', '-i'], r"""
PS1='> ' HISTFILE=; bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; bind 'set page-completions off'
bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; bind 'set completion-display-width 0'
print_line() { printf '\n<<%s>>\n' "$READLINE_LINE"; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\C-xt": print_line'
source SCRIPT
"""),
    'zsh': (['zsh', '-f', '-i'], r"""
PS1='> ' HISTFILE=; unset zle_bracketed_paste; setopt no_beep no_list_ambiguous; LISTMAX=100000
autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-grouped no
print_line() { printf '\n<<%s>>\n' "$BUFFER"; BUFFER=; }
zle -N print_line; bindkey '^Xt' print_line
source SCRIPT
"""),
}


class Shell:
    def __init__(self, name, script):
        command, setup = SHELLS[name]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ['TERM'] = 'xterm'
            os.execvp(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', 400, 240, 0, 0))
        self.output = b''
        with open('press_tab.rc', 'w') as rc:
            rc.write(setup.replace('SCRIPT', script))
        self.send(b'. ./press_tab.rc; printf "rea%s\\n" dy\n')
        self.read_until(rb'ready\r?\n')

    def send(self, data):
        while data:
            data = data[os.write(self.fd, data):]

    def read_until(self, pattern):
        while not (found := re.search(pattern, self.output)):
            self.output += os.read(self.fd, 65536)  # the test's time limit ends a shell that hangs
        before, self.output = self.output[:found.end()], self.output[found.end():]
        return before.decode(errors='replace'), found

    def press(self, line):
        self.send(line.encode() + b'\t' + b'\x18t')
        text, found = self.read_until(rb'<<(.*?)>>\r?\n')
        text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x00-\x08\x0e-\x1f]', '', text)
        return found[1].decode(), ' '.join(text.split())


def main():
    shell = Shell(sys.argv[1], sys.argv[2])
    for line in sys.stdin.read().splitlines():
        print(line, *shell.press(line), sep='\t', flush=True)
    os.close(shell.fd)


main()
