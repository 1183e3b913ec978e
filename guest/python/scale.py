"""An image made small enough to be shown: to standard output, in at most so many bytes.

    python3 -I scale.py PATH BYTES

Exit code 3: there is no Pillow in this image. The file is whatever a program left: its size in
pixels is looked at before anything is decoded, and memory and processor time are bounded.
"""

import io
import os
import resource
import sys

NO_PILLOW = 3
PIXELS_MAX = 24_000_000  # decoded: 96 MB at four bytes each
MEMORY_MAX = 384 << 20
SIDE_MAX = 2048  # more is scaled down by those who look at it
SIDE_MIN = 16
FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def bounded():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (4, 4))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        # Where the sandbox has less memory than that, nothing of the caller's is to go for this.
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as adjust:
            adjust.write("1000")
    except OSError:
        pass


def encoded(image, form):
    out = io.BytesIO()
    if form == "JPEG":
        image.save(out, form, quality=80)
    else:
        image.save(out, form, optimize=True)
    return out.getvalue()


def scaled(image, limit):
    """The bytes of the largest version tried that fits; None: none did."""
    form = "JPEG" if image.format == "JPEG" else "PNG"
    if image.width * image.height > PIXELS_MAX:
        return None
    image.draft(None, (SIDE_MAX, SIDE_MAX))
    modes = ("L", "RGB") if form == "JPEG" else ("1", "L", "LA", "RGB", "RGBA")
    if image.mode not in modes:
        image = image.convert("RGBA" if form == "PNG" else "RGB")
    side = min(SIDE_MAX, max(image.size))
    while side >= SIDE_MIN:
        image.thumbnail((side, side))
        data = encoded(image, form)
        if len(data) <= limit:
            return data
        side = int(side * min(0.8, (limit / len(data)) ** 0.5))
    return None


def main(path, limit):
    bounded()
    try:
        from PIL import Image
    except ImportError:
        return NO_PILLOW
    Image.MAX_IMAGE_PIXELS = PIXELS_MAX
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file, Image.open(file, formats=FORMATS) as image:
            data = scaled(image, limit)
    except Exception:  # whatever a broken file makes of a decoder
        return 1
    if data is None:
        return 1
    sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
