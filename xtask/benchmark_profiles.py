"""Where the time of work goes, in words: the share of the system with its two largest functions, and the four largest of ours.

Work that a child does, a command or an interpreter, is described by the samples of children alone: the process itself then
only waits, and looks at what the child holds."""

import re

SHARE_OF_CHILDREN = 0.2  # of all samples, when they do the work: others who wait to be asked wake up now and then


def parse(line):
    """A line of `perf report`: a share such as `12.34%`, a process such as `123:zvf`, and a function such as `[k] clear_page`."""
    found = re.match(r"\s*([\d.]+)%\s*\t\s*(\d+):[^\t]*\t\s*(\S+) ([^\t]+)", line)
    return found and (float(found[1]), int(found[2]), found[3] != "[.]", shorten(found[4].strip()))

def shorten(name):
    """The last three parts of a path, without what the compiler adds to tell instances apart and without parameters."""
    name, depth, bare = re.sub(r"::h[^:]{16}$", "", name), 0, ""
    for at, letter in enumerate(name):
        if letter == "<": depth += 1
        elif letter == ">" and name[at - 1 : at] != "-": depth = max(depth - 1, 0)
        # A path that begins with a type in angles keeps that type.
        elif depth == 0 or (depth == 1 and name[0] == "<"): bare += letter
    return "::".join([part for part in bare.split("::") if part][-3:])

def of_work(shares, process):
    """The samples of those who worked, the same functions of several processes together, as shares of all of these."""
    children, itself = (sum(s[0] for s in shares if (s[1] != process) == of_children) for of_children in (True, False))
    of_children = children >= SHARE_OF_CHILDREN * (children + itself)
    work = {}
    for percent, number, in_system, name in shares:
        if (number != process) == of_children:
            work[in_system, name] = work.get((in_system, name), 0) + percent * 100 / (children if of_children else itself)
    return work

def describe(work):
    def largest(in_system, count):
        some = sorted((-percent, name) for (of_system, name), percent in work.items() if of_system == in_system)
        return ", ".join(f"`{name}` {-percent:.0f} %" for percent, name in some[:count] if -percent >= 1)
    system = sum(percent for (of_system, _), percent in work.items() if of_system)
    within, ours = largest(True, 2), largest(False, 4)
    return f"the system {system:.0f} %" + (f" ({within})" if within else "") + (f"; {ours}" if ours else "")

def words(profile):
    if profile is None: return "not sampled: quick runs sample nothing"
    if "Err" in profile: return profile["Err"]
    shares = [share for share in map(parse, profile["Ok"]["report"]) if share]
    return describe(of_work(shares, profile["Ok"]["process"])) if shares else "no samples"
