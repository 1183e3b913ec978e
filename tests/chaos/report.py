"""What a history amounts to: faults by kind, violations, worst times. Markdown."""

import collections

import checker

# p99 in milliseconds of what timing.py takes.
LIMITS = {"deadline to tree dead, engine healthy": 150, "deadline to tree dead, engine stopped": 2000,
          "cancel to tree dead": 250, "client gone to tree dead": 250}  # fmt: skip


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * part))] if values else None


def latencies(events):
    """{name: [milliseconds]} of the timing part, and what was seen under faults."""
    found = collections.defaultdict(list)
    dead = {e["word"]: e["t"] for e in events if e["e"] == "dead"}
    for e in events:
        if e["e"] == "begun" and e["word"] in dead and dead[e["word"]] >= e["due"] - 0.01:
            found["deadline to tree dead, under faults"].append(1000 * (dead[e["word"]] - e["due"]))
        if e["e"] == "timed" and e["word"] in dead:
            found[e["what"]].append(1000 * (dead[e["word"]] - e["since"]))
        if e["e"] == "recovered" and e["n"] >= 0:
            found["fault over to next call served"].append(1000 * e["after"])
    return found


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def text(events, violations, seconds):
    plan = events[0]
    tried = collections.Counter((e["target"], e["how"]) for e in events if e["e"] == "fault" and e["n"] >= 0)
    missed = collections.Counter(e["target"] for e in events if e["e"] == "missed")
    steps = collections.Counter(e["step"] for e in events if e["e"] == "fault" and e["tree"] and e["n"] >= 0)
    endings = collections.Counter(e["status"] for e in events if e["e"] == "answered")
    seeds = ", ".join(str(e["seed"]) for e in events if e["e"] == "plan")
    lines = [f"# Faults: {sum(tried.values())} of seed {seeds}", ""]
    lines += [f"{seconds:.0f} s, {sum(e['e'] == 'tree' for e in events)} trees, "
              f"{sum(e['e'] == 'box' and e['what'] == 'start' for e in events)} containers, {sum(endings.values())} answers.", ""]
    lines += table(("hit", "how", "times"), ((*kind, count) for kind, count in sorted(tried.items())))
    lines += ["", f"Nobody there to hit: {sum(missed.values())} {dict(missed)}", ""]
    lines += table(("step", "times"), sorted(steps.items()))
    lines += ["", *table(("ending", "calls"), sorted(endings.items(), key=str)), ""]
    lines += table(("time, ms", "samples", "p50", "p99", "worst"),
                   ((name, len(v), *(f"{percentile(v, p):.0f}" for p in (0.5, 0.99)), f"{max(v):.0f}")
                    for name, v in sorted(latencies(events).items())))
    runc = [row for e in events if e["e"] == "leftover" for row in e["pids"] if checker.engines_own(row)]
    ghosts = {e["box"] for e in events if e["e"] == "ghost"}
    lines += ["", f"Left by an engine that was hurt, and nothing of ours: {len(runc)} processes of runc itself, "
                  f"{len(ghosts)} containers that are only listed.", ""]
    mass = [e for e in events if e["e"] == "mass"]
    if mass:
        lines += [f"Killed all at once: {sum(e['trees'] for e in mass)} trees in {len(mass)} batches; running 10 s later: "
                  f"{sum(e['running'] for e in mass)}; created only: {sum(e['created'] for e in mass)}, creates under way "
                  f"{sum(e['creating'] for e in mass)}; left after the next trees' first call: {sum(len(e['left']) for e in mass)}.", ""]
    lines += ["", *violated(events, violations)]
    return "\n".join(lines) + "\n"


def held(events):
    """(whose, what, first, last) of every figure that has to come back."""
    for kind, name in (("host", "engine"), ("quiet", "tree")):
        rows = [e for e in events if e["e"] == kind]
        for which in sorted({row[name] for row in rows}):
            of = [row["figures"] if kind == "host" else row["procs"] for row in rows if row[name] == which]
            for part, first in of[0].items():
                yield which, part, first, of[-1].get(part)


def figures(value):
    names = {"fds": "files", "threads": "threads", "kb": "KB", "given_up": "given up"}
    return ", ".join(f"{value[key]} {words}" for key, words in names.items() if key in value) if isinstance(value, dict) else value


def violated(events, violations):
    yield f"Violations: {len(violations)}"
    yield ""
    for name, at, words in violations:
        yield f"- {name} at {at - events[0]['t']:.3f}: {words}"


def soaked(events, violations, seconds):
    lines = [f"# Soak: {seconds:.0f} s", ""]
    lines += table(("what", "ending", "calls"), (row for e in events if e["e"] == "soaked" for row in e["endings"]))
    lines += ["", *table(("whose", "what", "at its first rest", "at its last"),
                         ((which, part, figures(first), figures(last)) for which, part, first, last in held(events)))]
    lines += ["", "Memory is PSS without what is shared; \"given up\" are dockerd's connections whose client is gone and which only Go's "
              "collector closes, two minutes later at most.", "", *violated(events, violations)]
    return "\n".join(lines) + "\n"
