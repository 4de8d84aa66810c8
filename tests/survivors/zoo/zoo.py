# One tree of the zoo, or the bystanders. It is started with the same words for every tree, so that a command line
# tells nobody apart: which tree it is stands in the environment. One interpreter; everybody else is forked from it.
import os, select, signal, time

TREE = os.environ.get('ZOO_TREE')
LEDGER = os.open(os.environ['ZOO_LEDGER'], os.O_WRONLY | os.O_APPEND)
ENOUGH = os.environ['ZOO_LEDGER'] + '.enough'
NAP = os.environ['ZOO_NAP']
END = time.monotonic() + 60


def log(role):
    with open('/proc/self/stat') as stat:
        fields = stat.read()
    try:
        pidfd = os.pidfd_open(os.getpid())
        inode = os.fstat(pidfd).st_ino
        os.close(pidfd)
    except OSError:
        inode = ''
    ticks = fields.rpartition(')')[2].split()[19]
    os.write(LEDGER, (' '.join([fields.split()[0], ticks, role, str(inode)]).rstrip() + '\n').encode())


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


def may_go_on():
    return time.monotonic() < END and not os.path.exists(ENOUGH)


def ignore(*signals):
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def born(name, how):
    # Every second newcomer is as deaf as a newcomer can be.
    signal.signal(signal.SIGTERM, signal.SIG_IGN if how % 2 else signal.SIG_DFL)
    log(name + '.born')
    stay()


def on_term(name, how):
    heard = []

    def hear(number, frame):
        if not heard:
            heard.append(number)
            forked(born, name, how)
            if how < 2:
                os._exit(0)
    signal.signal(signal.SIGTERM, hear)


def exec_on_term():
    signal.signal(signal.SIGTERM, lambda number, frame: os.execv('/bin/sleep', ['sleep', NAP]))


def hop(name, how):
    # Each is replaced by its child; nobody is there for long.
    ignore(signal.SIGTERM, signal.SIGHUP)
    log(name)
    while may_go_on():
        time.sleep((0.002, 0.005, 0.01, 0.02)[how])
        if os.fork():
            os._exit(0)
        log(name + '.hop')
    os._exit(0)


SEATS = 4


def ring(name):
    # Whoever sits waits for the end of the one opposite, and has another one in that seat at once.
    import mmap
    ignore(signal.SIGTERM, signal.SIGCHLD)
    seats = memoryview(mmap.mmap(-1, 4096)).cast('i')

    def opposite_is_gone(seat):
        try:
            held = os.pidfd_open(seats[seat])
        except ProcessLookupError:
            return True
        poll = select.poll()
        poll.register(held, select.POLLIN)
        gone = bool(poll.poll(100))
        os.close(held)
        return gone

    def sit(seat, role):
        log(role)
        other = (seat + SEATS // 2) % SEATS
        while may_go_on() and seats[SEATS] < 2000:
            if not seats[other]:
                time.sleep(0.001)
            elif opposite_is_gone(other):
                seats[SEATS] += 1
                seats[other] = forked(sit, other, f'{name}.again')
        stay()
    for seat in range(SEATS):
        seats[seat] = forked(sit, seat, f'{name}.seat{seat}')


def second_thread(name):
    # The first thread ends, so that the process looks like a zombie; this one runs on.
    import _thread, ctypes
    _thread.start_new_thread(stay, ())
    log(name)
    ctypes.CDLL(None).pthread_exit(None)


def lead():
    try:
        os.setsid()
    except PermissionError:
        pass  # it leads a group already


def grow(nodes, number):
    parent, kind, how = nodes[number]
    name = f'n{number}-{kind}'
    if kind == 'group':
        os.setpgid(0, 0)
    elif kind in ('session', 'helper'):
        lead()
    elif kind == 'daemon':
        log(name + '.middle')
        if os.fork():
            os._exit(0)
        lead()
    elif kind == 'deaf':
        ignore(signal.SIGTERM)
    elif kind == 'unhung':
        ignore(signal.SIGHUP)
    for child, (above, _, _) in enumerate(nodes):
        if above == number:
            forked(grow, nodes, child)
    if kind == 'hopper':
        hop(name, how)
    elif kind == 'ring':
        ring(name)
    elif kind == 'zombie':
        second_thread(name)
    elif kind == 'forks':
        on_term(name, how)
    elif kind == 'execs':
        exec_on_term()
    elif kind == 'nobody' and os.getuid() == 0:
        log(name)
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        stay()
    log(name)
    if kind == 'leaves':
        os._exit(0)
    if kind == 'stopped':
        os.kill(os.getpid(), signal.SIGSTOP)
    stay()


if TREE is None:
    def bystander(number):
        os.setsid()
        log(f'bystander{number}')
        stay()
    for number in range(int(os.environ['ZOO_BYSTANDERS'])):
        forked(bystander, number)
    stay()

def planted(word):
    parent, kind, how = word.split(':')
    return int(parent), kind, int(how)


grow([planted(word) for word in TREE.split()], 0)
