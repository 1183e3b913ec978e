"""Host rows and guest payloads for tests, straight from ipc/messages.def and ipc/guest.def.

encode("call_cancel", call=7) gives a packet, decode(packet) gives ("call_cancel", {"call": 7}).
guest_payload("g_exit", how=1) packs a fixed guest payload. Not the programs' own codec: a second
reading of the same tables.
"""

import os
import re
import struct

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def _text(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)


def _messages():
    rows, numbers = {}, {}
    for kind, rest in re.findall(r"IPC_(MSG|FIELD|END)\(([^)]*)\)", _text("ipc/messages.def")):
        part = [p.strip() for p in rest.split(",")]
        if kind == "MSG":
            numbers[int(part[1], 0)] = part[0]
            rows[part[0]] = (int(part[1], 0), [])
        elif kind == "FIELD":
            rows[part[0]][1].append((part[2], part[1]))
    return rows, numbers


def _guest():
    frames, fields = {}, {}
    for kind, rest in re.findall(r"GUEST_(FRAME|FIELD|END)\(([^)]*)\)", _text("ipc/guest.def")):
        part = [p.strip() for p in rest.split(",")]
        if kind == "FRAME":
            frames[part[0]] = int(part[1], 0)
            fields[part[0]] = []
        elif kind == "FIELD":
            fields[part[0]].append((part[2], part[1], int(part[3], 0)))
    return frames, fields


def _statuses():
    return re.findall(r"STATUS\((\w+),", _text("ipc/status.def"))


ROWS, NUMBERS = _messages()
GUEST, GUEST_FIELDS = _guest()
STATUS = {name: i for i, name in enumerate(n for n in _statuses() if n != "name")}


def pack(value):
    if isinstance(value, int):
        for limit, lead, form in ((0x80, None, "B"), (0x100, 0xCC, "B"), (0x10000, 0xCD, ">H"),
                                  (1 << 32, 0xCE, ">I"), (1 << 64, 0xCF, ">Q")):
            if value < limit:
                return (b"" if lead is None else bytes([lead])) + struct.pack(form, value)
    if isinstance(value, str):
        data = value.encode()
        if len(data) < 32:
            return bytes([0xA0 | len(data)]) + data
        if len(data) < 256:
            return b"\xd9" + bytes([len(data)]) + data
        return b"\xda" + struct.pack(">H", len(data)) + data
    if isinstance(value, (bytes, bytearray)):
        if len(value) < 256:
            return b"\xc4" + bytes([len(value)]) + value
        return b"\xc5" + struct.pack(">H", len(value)) + value
    raise TypeError(repr(value))


def unpack(data, at):
    lead = data[at]
    at += 1
    if lead < 0x80:
        return lead, at
    if 0xA0 <= lead < 0xC0:
        n = lead & 31
        return data[at:at + n].decode(), at + n
    sizes = {0xCC: "B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xC4: "B", 0xC5: ">H", 0xC6: ">I",
             0xD9: "B", 0xDA: ">H", 0xDB: ">I"}
    form = sizes[lead]
    n = struct.calcsize(form)
    value = struct.unpack(form, data[at:at + n])[0]
    at += n
    if lead in (0xCC, 0xCD, 0xCE, 0xCF):
        return value, at
    body = data[at:at + value]
    if len(body) != value:
        raise ValueError("cut")
    return (body.decode() if lead in (0xD9, 0xDA, 0xDB) else body), at + value


def encode(name, **values):
    number, fields = ROWS[name]
    count = len(fields) + 1
    out = bytes([0x90 | count]) if count < 16 else b"\xdc" + struct.pack(">H", count)
    out += pack(number)
    defaults = {"u32": 0, "u64": 0, "str": "", "bin": b""}
    for field, kind in fields:
        out += pack(values.pop(field, defaults[kind]))
    if values:
        raise TypeError(f"{name} has no {sorted(values)}")
    return out


def decode(packet):
    lead = packet[0]
    if 0x90 <= lead < 0xA0:
        count, at = lead & 15, 1
    elif lead == 0xDC:
        count, at = struct.unpack(">H", packet[1:3])[0], 3
    else:
        raise ValueError("not an array")
    number, at = unpack(packet, at)
    name = NUMBERS[number]
    fields = ROWS[name][1]
    if count != len(fields) + 1:
        raise ValueError(f"{name}: {count} elements")
    row = {}
    for field, _ in fields:
        row[field], at = unpack(packet, at)
    if at != len(packet):
        raise ValueError(f"{name}: bytes after its end")
    return name, row


def guest_payload(frame, **values):
    out = b""
    for field, kind, size in GUEST_FIELDS[frame]:
        if kind == "raw":
            out += values.pop(field, bytes(size))
        else:
            out += struct.pack("<I" if kind == "u32" else "<Q", values.pop(field, 0))
    if values:
        raise TypeError(f"{frame} has no {sorted(values)}")
    return out


def guest_read(frame, data):
    at, row = 0, {}
    for field, kind, size in GUEST_FIELDS[frame]:
        n = {"u32": 4, "u64": 8}.get(kind, size)
        row[field] = (data[at:at + n] if kind == "raw" else
                      struct.unpack("<I" if kind == "u32" else "<Q", data[at:at + n])[0])
        at += n
    if at != len(data):
        raise ValueError(f"{frame}: length {len(data)}")
    return row


def spec_read(data):
    """The run specification: as spec.c lays it out, one msgpack array."""
    def value(at):
        lead = data[at]
        if 0x90 <= lead < 0xA0 or lead in (0xDC, 0xDD):
            if lead < 0xA0:
                n, at = lead & 15, at + 1
            elif lead == 0xDC:
                n, at = struct.unpack(">H", data[at + 1:at + 3])[0], at + 3
            else:
                n, at = struct.unpack(">I", data[at + 1:at + 5])[0], at + 5
            items = []
            for _ in range(n):
                item, at = value(at)
                items.append(item)
            return items, at
        return unpack(data, at)
    items, at = value(0)
    if at != len(data):
        raise ValueError("bytes after the specification")
    return items
