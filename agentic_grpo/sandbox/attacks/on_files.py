"""Programs that want to see or change files of the host."""

from agentic_grpo.sandbox.attacks import LIBC, Attack
from agentic_grpo.sandbox.jobs import Ending

RAISED, ANSWERED = (Ending.RAISED,), (Ending.ANSWERED,)

ATTACKS = [
    Attack("deletes a file", RAISED, "import os\nos.remove('@FOLDER@/canary')"),
    Attack(
        "deletes by the shell",
        ANSWERED,
        """
import os
def solve(x): return "ESCAPED" if os.system("rm -r @FOLDER@") == 0 else 0
""",
    ),
    Attack(
        "deletes by subprocess",
        RAISED,
        """
import subprocess
subprocess.run(["rm", "-r", "@FOLDER@"])
""",
    ),
    Attack(
        "deletes by posix_spawn",
        RAISED,
        """
import os
os.posix_spawn("/bin/rm", ["rm", "-r", "@FOLDER@"], {})
""",
    ),
    Attack(
        "becomes a shell",
        RAISED,
        """
import os
os.execv("/bin/sh", ["sh", "-c", "rm -r @FOLDER@; echo ESCAPED"])
""",
    ),
    Attack(
        "renames a file",
        RAISED,
        """
import os
os.rename("@FOLDER@/canary", "@FOLDER@/renamed")
""",
    ),
    Attack("truncates a file", RAISED, "import os\nos.truncate('@FOLDER@/canary', 0)"),
    Attack("writes a file", RAISED, "open('@FOLDER@/new', 'w').write('x')"),
    Attack(
        "writes a file by libc",
        ANSWERED,
        LIBC
        + """
def solve(x): return told(libc.open(b"@FOLDER@/new", os.O_CREAT | os.O_RDWR, 0o600))
""",
    ),
    Attack("makes a folder", RAISED, "import os\nos.mkdir('@FOLDER@/new')"),
    Attack(
        "makes a symlink",
        RAISED,
        """
import os
os.symlink("/etc/passwd", "@FOLDER@/link")
""",
    ),
    Attack("changes permissions", RAISED, "import os\nos.chmod('@FOLDER@/canary', 0)"),
    Attack(
        "reads a file",
        RAISED,
        """
def solve(x): return "ESCAPED" + open("@FOLDER@/canary").read()
""",
    ),
    Attack(
        "reads the passwords",
        RAISED,
        """
def solve(x): return "ESCAPED" + open("/etc/passwd").read()
""",
    ),
    Attack(
        "lists the root",
        RAISED,
        """
import os
def solve(x): return "ESCAPED" + str(os.listdir("/"))
""",
    ),
    Attack(
        "imports from the disk",
        RAISED,
        """
import sys
sys.path.append("/usr/lib/python3/dist-packages")
from importlib.machinery import SourceFileLoader
SourceFileLoader("canary", "@FOLDER@/canary").load_module()
def solve(x): return "ESCAPED"
""",
    ),
    Attack(
        "reads the environment",
        ANSWERED,
        """
import os
def solve(x): return "ESCAPED" if "SANDBOX_CANARY" in os.environ else 0
""",
    ),
]
