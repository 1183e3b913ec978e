#!/usr/bin/env python3
"""Every row of messages.def has a sender and, in each room that receives it, exactly one route;
no room routes a row that the table does not let it receive, and a handler is named for both."""

import re

import tree

ROOMS = {"IPC_SUPERVISOR": "supervisor", "IPC_FRONTEND": "frontend", "IPC_BROKER": "broker",
         "IPC_REAPER": "reaper"}
CHILDREN = ["frontend", "broker", "reaper"]
ROW = re.compile(r"^IPC_MSG\((\w+),\s*0x[0-9a-fA-F]+,\s*([^,]+),\s*([^,]+),", re.MULTILINE)


def rooms(words):
    if words.strip() == "IPC_CHILDREN":
        return CHILDREN
    return [ROOMS[word.strip()] for word in words.split("|")]


def main():
    lint = tree.Lint()
    rows = {name: (rooms(sent), rooms(received))
            for name, sent, received in ROW.findall(tree.read("ipc/messages.def"))}
    code = {room: [(name, tree.strip_c(tree.read(name))) for name in tree.c_files()
                   if tree.room_of(name) == room] for room in ROOMS.values()}

    wrong, names = [], []
    for room, sources in code.items():
        seen = {}
        for name, text in sources:
            # a route is a braced initialiser: {.num = IPC_NUM_x, .handler = f …} or {IPC_NUM_x, f …}
            for row, handler in re.findall(r"\{\s*(?:\.num\s*=\s*)?IPC_NUM_(\w+),\s*(?:\.handler\s*=\s*)?(\w+)\s*[,}]", text):
                seen.setdefault(row, []).append(name)
                if handler not in (f"{room}_on_{row}", f"{room}_on_row"):
                    names.append(f"{name}: {handler} for {row}, not {room}_on_{row}")
        for row, places in sorted(seen.items()):
            if room not in rows.get(row, ([], []))[1]:
                wrong.append(f"{places[0]}: a route for {row}, which {room} never receives")
            if len(places) > 1:
                wrong.append(f"{room}: {len(places)} routes for {row}: {', '.join(places)}")
        for row, (_, received) in rows.items():
            if room in received and row not in seen:
                wrong.append(f"{room}: no route for {row}")
    lint.check(f"each of {len(rows)} rows has one route at each receiver", wrong)
    lint.check("a handler is called <room>_on_<row>, or _on_row where one takes several", names)

    # ipc/report.c speaks for broker and reaper, which call it
    report = [("ipc/report.c", tree.strip_c(tree.read("ipc/report.c")))]
    for room in ("broker", "reaper"):
        if any("report_changes(" in text for _, text in code[room]):
            code[room] += report
    unsent = []
    for row, (sent, _) in rows.items():
        # built in place, or as a struct filled in by parts
        pattern = re.compile(rf"\bIPC_ROW\(\s*{row}\b|\.num\s*=\s*IPC_NUM_{row}\s*[}};]")
        senders = {room for room in sent for _, text in code[room] if pattern.search(text)}
        unsent += [f"{room}: {row} is never sent" for room in sent if room not in senders]
    lint.check("each row is sent by whom the table names", unsent)
    lint.done()


if __name__ == "__main__":
    main()
