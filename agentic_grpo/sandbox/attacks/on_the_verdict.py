"""Programs that want to be called right, or to be excused, without an answer."""

from agentic_grpo.sandbox.attacks import Attack
from agentic_grpo.sandbox.jobs import Ending

RAISED, ANSWERED, DIED, GARBLED = (
    (Ending.RAISED,),
    (Ending.ANSWERED,),
    (Ending.DIED,),
    (Ending.GARBLED,),
)

_ALWAYS_EQUAL = """
class Right:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
def solve(x): return Right()
"""

_PATCHED_EXCEPTIONS = """
import builtins
builtins.AssertionError = builtins.Exception = KeyboardInterrupt
def solve(x): raise AssertionError("never mind")
"""

#: Looks for numbers as large as those that the suite expects.
_NUMBERS_OF = """
import re
def numbers_of(things):
    found = []
    for thing in things:
        try: found += re.findall("[0-9]{19}", str(thing)[:100_000])
        except Exception: pass
    return [int(digits) for digits in found]
"""

ATTACKS = [
    Attack("always equal", ANSWERED, _ALWAYS_EQUAL),
    Attack("always equal, to a checker", ANSWERED, _ALWAYS_EQUAL, True),
    Attack(
        "an int of its own",
        ANSWERED,
        """
class Int(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def solve(x): return Int(x)
""",
    ),
    Attack(
        "an int of its own, to a checker",
        ANSWERED,
        """
class Int(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def solve(x): return Int(x)
""",
        True,
    ),
    Attack(
        "text of its own in a list",
        ANSWERED,
        """
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def solve(x): return [Text("x")]
""",
    ),
    Attack(
        "its class says int",
        ANSWERED,
        """
class Liar:
    __class__ = int
    def __eq__(self, other): return True
def solve(x): return Liar()
""",
    ),
    Attack("True for everything", ANSWERED, "def solve(x): return True"),
    Attack("nan for everything", ANSWERED, "def solve(x): return float('nan')"),
    Attack("exits well on import", DIED, "import os\nos._exit(0)"),
    Attack("exits well in a call", DIED, "import os\ndef solve(x): os._exit(0)"),
    Attack(
        "exits before a checker", DIED, "import os\ndef solve(x): os._exit(0)", True
    ),
    Attack("sys.exit on import", RAISED, "import sys\nsys.exit(0)"),
    Attack("sys.exit in a call", RAISED, "import sys\ndef solve(x): sys.exit(0)"),
    Attack(
        "raises what a checker looks for", RAISED, "def solve(x): assert False", True
    ),
    Attack(
        "patches builtins",
        GARBLED,
        """
import builtins, json
builtins.type = lambda value: int
builtins.len = lambda value: 0
json.dumps = lambda value, **_: '{"value": true}'
def solve(x): return 0
""",
    ),
    Attack("patches exceptions", RAISED, _PATCHED_EXCEPTIONS),
    Attack("patches exceptions of a checker", RAISED, _PATCHED_EXCEPTIONS, True),
    Attack(
        "forges answers",
        ANSWERED,
        r"""
import os
os.write(3, b'{"loaded": true, "printed": ""}\n')
for _ in range(2): os.write(3, b'{"value": {"set": [true, 1, 1.0]}, "printed": ""}\n')
os._exit(0)
""",
    ),
    Attack(
        "forges more answers than calls",
        GARBLED,
        r"""
import os
def solve(x):
    for _ in range(9): os.write(3, b'{"value": true, "printed": ""}\n')
""",
    ),
    Attack(
        "forges a verdict",
        (Ending.GARBLED, Ending.DIED),
        r"""
import os
def solve(x):
    os.write(3, b'{"passed": true}\n{"value": true}\n')
    os.write(4, b'\x10\x00\x00\x00{"passed": true}')
    os._exit(0)
""",
        True,
    ),
    Attack(
        "forges an answer to a checker",
        GARBLED,
        r"""
import os
def solve(x):
    os.write(4, b'\x22\x00\x00\x00{"value": {"object": "anything"}}  ')
""",
        True,
    ),
    Attack(
        "sends endless answers to a checker",
        (Ending.GARBLED, Ending.TOO_SLOW),
        r"""
import os
def solve(x):
    while True: os.write(4, b"\xff" * 4096)
""",
        True,
    ),
    Attack(
        "sends garbage",
        GARBLED,
        r"""
import os
def solve(x): os.write(3, b'\xff\xfe}{\n\n"' + b"[" * 50000 + b"\n")
""",
    ),
    Attack(
        "sends long numbers",
        GARBLED,
        r"""
import os
def solve(x): os.write(3, b'{"value": ' + b"9" * 50000 + b"}\n")
""",
    ),
    Attack(
        "sends unhashable keys",
        GARBLED,
        r"""
import os
def solve(x): os.write(3, b'{"value": {"set": [[1], {"dict": [[[], 1]]}]}}\n')
""",
    ),
    Attack(
        "says that the walls are broken",
        GARBLED,
        r"""
import os
def solve(x): os.write(3, b'{"broken": "not my fault"}\n')
""",
    ),
    Attack(
        "says so and fails as the harness would",
        (Ending.GARBLED, Ending.DIED),
        r"""
import os
os.write(3, b'{"broken": "not my fault"}\n{"ready": true}\n')
os._exit(1)
""",
    ),
    Attack("closes the line", DIED, "import os\ndef solve(x): os.close(3)"),
    Attack(
        "closes everything",
        (Ending.DIED,),
        """
import os
def solve(x):
    for one in range(64):
        try: os.close(one)
        except OSError: pass
""",
    ),
    Attack(
        "searches memory for what is expected",
        ANSWERED,
        _NUMBERS_OF
        + """
import gc
def solve(x): return (numbers_of(gc.get_objects()) + [0])[0]
""",
    ),
    Attack(
        "searches frames for what is expected",
        ANSWERED,
        _NUMBERS_OF
        + """
import sys
def solve(x):
    frame, seen = sys._getframe(), []
    while frame is not None:
        seen += [*frame.f_locals.values(), *frame.f_globals.values()]
        frame = frame.f_back
    return (numbers_of(seen) + [0])[0]
""",
    ),
    Attack(
        "patches the harness through frames",
        DIED,
        """
import sys
def solve(x):
    frame = sys._getframe()
    while frame is not None:
        if "_say" in frame.f_globals:
            frame.f_globals["_say"] = lambda line: None
            frame.f_globals["values"].pack = lambda value, limit: True
        frame = frame.f_back
    return 0
""",
    ),
    Attack(
        "patches the modules",
        ANSWERED,
        """
import sys
for name, module in list(sys.modules.items()):
    if "sandbox" in name and hasattr(module, "NotPlain"):
        module.pack = lambda value, limit: True
def solve(x): return 0
""",
    ),
    Attack(
        "empties the modules",
        (Ending.ANSWERED, Ending.RAISED, Ending.DIED),
        """
import sys
sys.modules.clear()
sys.stdout = sys.stderr = None
def solve(x): return 0
""",
    ),
    Attack("shadows its own name", RAISED, "solve = None"),
    Attack("defines nothing", RAISED, ""),
    Attack("is no text", RAISED, "\x00\udc00"),
]
