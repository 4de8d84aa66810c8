# Process 1 of a pid namespace. It makes the trees that are stopped there, and gives their pids to others: at a word
# of the driver, which it starts, the process of a pid is ended, reaped, and another one has that pid within a
# millisecond or two. That one is held here, has a handler for every signal that can be caught, and writes down each
# that it hears. Arguments: the path of the socket, the file in which they write, the driver.
import json, os, select, signal, socket, sys

HEARD = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
NUMBERS = [number for number in range(1, 65) if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33)]
ours, victims = {}, {}


def stay():
    while True:
        signal.pause()


def forked(run, *arguments):
    child = os.fork()
    if child == 0:
        try:
            run(*arguments)
        finally:
            os._exit(1)
    return child


def alive(pidfd):
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def state(pid):
    with open(f'/proc/{pid}/stat') as stat:
        return stat.read().rpartition(')')[2].split()[0]


def await_reaped(pid):
    while True:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass  # its parent, or the kernel, reaps it
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return


def tree(is_deaf):
    told, tell = os.pipe()

    def child():
        # Not in its parent's group or session: their number would not be free.
        os.setsid()
        os.write(tell, b'%d\n' % os.getpid())
        stay()

    def root():
        os.setsid()
        # The kernel reaps its child.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if is_deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        forked(child)
        stay()
    first = forked(root)
    second = int(os.read(told, 32))
    os.close(told)
    os.close(tell)
    for pid in (first, second):
        ours[pid] = os.pidfd_open(pid)
    return [first, second]


def victim(ready):
    os.setsid()

    def hear(number, frame):
        os.write(HEARD, b'%d heard %d\n' % (os.getpid(), number))
    for number in NUMBERS:
        signal.signal(number, hear)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    os.write(ready, b'.')
    stay()


def swap(pid):
    # The pid is another one's afterwards; tells whether it is, and how many tries that took.
    signal.pidfd_send_signal(ours[pid], signal.SIGKILL)
    await_reaped(pid)
    os.close(ours.pop(pid))
    told, ready = os.pipe()
    # Blocked before the fork: nothing that comes early is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    for _ in range(100):
        with open('/proc/sys/kernel/ns_last_pid', 'w') as last:
            last.write(str(pid - 1))
        made = os.fork()
        if made == 0:
            if os.getpid() == pid:
                victim(ready)
            os._exit(0)
        if made == pid:
            victims[pid] = os.pidfd_open(pid)
            os.read(told, 1)
            break
        os.waitpid(made, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    os.close(told)
    os.close(ready)
    return pid in victims


def verdict():
    # Tells how the victims fared, and who of the tree lives; ends everybody.
    os.lseek(HEARD, 0, os.SEEK_SET)
    told = {
        'heard': os.read(HEARD, 65536).decode().splitlines(),
        'dead': [pid for pid, held in victims.items() if not alive(held)],
        'stopped': [pid for pid, held in victims.items() if alive(held) and state(pid) in 'Tt'],
        'left': [pid for pid, held in ours.items() if alive(held)],
    }
    for all in (ours, victims):
        for pid, held in all.items():
            signal.pidfd_send_signal(held, signal.SIGKILL) if alive(held) else None
            await_reaped(pid)
            os.close(held)
        all.clear()
    return told


def answer(word, *arguments):
    if word == 'tree':
        return tree(arguments[0] == 'deaf')
    return swap(int(arguments[0])) if word == 'swap' else verdict()


listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(1)
driver = os.fork()
if driver == 0:
    os.setsid()
    os.execvp(sys.argv[3], sys.argv[3:])
# A driver that never comes has failed, and said so.
poll = select.poll()
poll.register(listener, select.POLLIN)
while not poll.poll(100):
    ended, status = os.waitpid(driver, os.WNOHANG)
    if ended:
        sys.exit(os.waitstatus_to_exitcode(status) or 1)
stream = listener.accept()[0].makefile('rw')
for line in stream:
    stream.write(json.dumps(answer(*line.split())) + '\n')
    stream.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1]))
