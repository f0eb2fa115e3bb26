#!/usr/bin/env python3
"""press_tab — types lines into an interactive shell on a terminal of its own, presses TAB after each, and tells what came.

    press_tab.py bash|zsh SCRIPT <lines

SCRIPT is sourced first. For each line: `LINE<TAB>BUFFER<TAB>SHOWN`, where BUFFER is what then stands on the command line and SHOWN the
words that the shell displayed meanwhile. The shell reads its input in order, so nothing here waits for a time.
"""
import fcntl, os, pty, re, struct, sys, termios

SHELLS = {
    'bash': (['bash', '--norc', '--noprofile', '-i'], r"""
PS1='> ' HISTFILE=; bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'; bind 'set page-completions off'
bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; bind 'set completion-display-width 0'
tell() { printf '\n<<%s>>\n' "$READLINE_LINE"; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\C-xt": tell'
source SCRIPT
"""),
    'zsh': (['zsh', '-f', '-i'], r"""
PS1='> ' HISTFILE=; unset zle_bracketed_paste; setopt no_beep no_list_ambiguous; LISTMAX=100000
autoload -U compinit; compinit -u -D; zstyle ':completion:*' list-grouped no
tell() { printf '\n<<%s>>\n' "$BUFFER"; BUFFER=; }
zle -N tell; bindkey '^Xt' tell
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
        self.seen = b''
        with open('press_tab.rc', 'w') as rc:
            rc.write(setup.replace('SCRIPT', script))
        self.send(b'. ./press_tab.rc; printf "rea%s\\n" dy\n')
        self.until(rb'ready\r?\n')

    def send(self, data):
        while data:
            data = data[os.write(self.fd, data):]

    def until(self, pattern):
        while not (found := re.search(pattern, self.seen)):
            self.seen += os.read(self.fd, 65536)  # the test's time limit ends a shell that hangs
        before, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return before.decode(errors='replace'), found

    def press(self, line):
        self.send(line.encode() + b'\t' + b'\x18t')
        text, found = self.until(rb'<<(.*?)>>\r?\n')
        text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x00-\x08\x0e-\x1f]', '', text)
        return found[1].decode(), ' '.join(text.split())


def main():
    shell = Shell(sys.argv[1], sys.argv[2])
    for line in sys.stdin.read().splitlines():
        print(line, *shell.press(line), sep='\t', flush=True)
    os.close(shell.fd)


main()
