# Runs a program on what looks like an old kernel, or like a host with a filter: the named calls answer with the
# given error, here and in everybody that comes of it. Arguments: the error, the calls with commas, the program.
import ctypes, os, struct, sys

ARCH = {'x86_64': 0xC000003E, 'aarch64': 0xC00000B7}[os.uname().machine]
# These numbers are the same on both.
NUMBERS = {'pidfd_send_signal': 424, 'pidfd_open': 434, 'clone3': 435}
LD, JEQ, RET = 0x20, 0x15, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2

errno, calls = int(sys.argv[1]), [NUMBERS[name] for name in sys.argv[2].split(',')]
# struct seccomp_data: the number of the call at 0, the architecture at 4.
program = [(LD, 0, 0, 4), (JEQ, 1, 0, ARCH), (RET, 0, 0, KILL), (LD, 0, 0, 0)]
program += [(JEQ, len(calls) - place, 0, number) for place, number in enumerate(calls)]
program += [(RET, 0, 0, ALLOW), (RET, 0, 0, ERRNO | errno)]
code = b''.join(struct.pack('HBBI', *step) for step in program)
held = ctypes.create_string_buffer(code)


class Program(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('filter', ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
whole = Program(len(program), ctypes.cast(held, ctypes.c_void_p))
zeros = [ctypes.c_ulong(0)] * 3
for call in [(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), *zeros), (PR_SET_SECCOMP, ctypes.c_ulong(FILTER), ctypes.byref(whole), *zeros[:2])]:
    if libc.prctl(*call) != 0:
        sys.exit(f'prctl: {os.strerror(ctypes.get_errno())}')
try:
    os.pidfd_open(os.getpid())
    refused = 0
except OSError as error:
    refused = error.errno
if 434 in calls and refused != errno:
    sys.exit(f'the filter does not hold: {refused}')
os.execvp(sys.argv[3], sys.argv[3:])
