"""pixels_cases.py FOLDER: writes PNG and WebP files of many kinds, and Pillow's decoding of each as `NAME.rgb` (upright RGB).

This script has its own PNG writer, because Pillow neither interlaces nor writes every depth. Prints a line `NAME width height`
(upright) per file, then `! NAME` for files that must be refused."""
import pathlib
import random
import struct
import sys
import zlib

from PIL import Image, ImageOps, features

folder = pathlib.Path(sys.argv[1])
random.seed(20240917)

ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pack_row(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    bits = "".join(format(s, f"0{depth}b") for s in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def scan(image, channels, depth):
    return b"".join(b"\0" + pack_row([v for pixel in row for v in pixel[:channels]], depth) for row in image if row)


def png(width, height, color, depth, interlaced=False, before=b"", trns=None, palette=None):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    most = len(palette) - 1 if palette else (1 << depth) - 1
    image = [[[(x * 7 + y * 3 + c * 50 + random.randrange(3)) * (4 if depth > 4 else 1) % (most + 1) for c in range(channels)] for x in range(width)]
             for y in range(height)]
    data = b"".join(scan([row[x0::dx] for row in image[y0::dy]] if width > x0 else [], channels, depth)
                    for x0, y0, dx, dy in ADAM7) if interlaced else scan(image, channels, depth)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)) + before
    if palette:
        out += chunk(b"PLTE", b"".join(bytes(entry) for entry in palette))
    if trns:
        out += chunk(b"tRNS", trns)
    return out + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""), image


def exif(orientation):
    return struct.pack("<2sHIHHHIIHI", b"II", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)[:26]


def put(name, data, rgb=None):
    (folder / name).write_bytes(data)
    image = Image.open(folder / name)
    image.load()
    seen = ImageOps.exif_transpose(image).convert("RGB")
    (folder / (name + ".rgb")).write_bytes(rgb or seen.tobytes())
    print(name, *seen.size)


palette = [[random.randrange(256) for _ in range(3)] for _ in range(200)]
for color, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
    for depth in depths:
        for interlaced in (False, True):
            entries = palette[:min(200, 1 << depth)] if color == 3 else None
            trns = {0: b"\0\1", 2: b"\0\1\0\2\0\3", 3: b"\0\x80"}.get(color)
            data, image = png(37, 23, color, depth, interlaced, trns=trns, palette=entries)
            wide = None
            if depth == 16:  # Pillow clips 16-bit gray
                wide = bytes(pixel[c if color in (2, 6) else 0] >> 8 for row in image for pixel in row for c in range(3))
            name = f"png-{color}-{depth}-{'adam7' if interlaced else 'rows'}.png"
            put(name, data, wide)
            (folder / (name + ".u16")).write_bytes(b"".join(struct.pack("<H", pixel[0]) for row in image for pixel in row))
put("png-1x1.png", png(1, 1, 2, 8)[0])
put("png-tall.png", png(1, 300, 6, 8)[0])
for orientation in range(1, 9):
    put(f"png-exif-{orientation}.png", png(31, 19, 2, 8, before=chunk(b"eXIf", exif(orientation)))[0])
put("png-text.png", png(9, 9, 2, 8, before=chunk(b"tEXt", b"Comment\0hello"))[0])

photo = Image.new("RGB", (93, 71))
photo.putdata([((x * 5 + y) % 256, (y * 3) % 256, (x * y) // 9 % 256) for y in range(71) for x in range(93)])
glass = photo.copy()
glass.putalpha(Image.linear_gradient("L").resize(photo.size))
if features.check("webp"):
    import io

    def webp(image, **options):
        out = io.BytesIO()
        image.save(out, "WEBP", **options)
        return out.getvalue()

    put("webp-lossy.webp", webp(photo, quality=80))
    put("webp-lossless.webp", webp(photo, lossless=True))
    put("webp-alpha.webp", webp(glass, quality=80))
    put("webp-alpha-lossless.webp", webp(glass, lossless=True, exact=True))
    put("webp-1x1.webp", webp(photo.resize((1, 1))))
    for orientation in range(1, 9):
        put(f"webp-exif-{orientation}.webp", webp(photo, lossless=True, exif=exif(orientation)))
        put(f"webp-exif-jpeg-{orientation}.webp", webp(photo, lossless=True, exif=b"Exif\0\0" + exif(orientation)))
    (folder / "animation.webp").write_bytes(webp(photo, save_all=True, append_images=[photo.rotate(90)]))
    whole = webp(photo, quality=80)
    (folder / "cut.webp").write_bytes(whole[:len(whole) // 2])
    print("! animation.webp\n! cut.webp")
whole = png(37, 23, 2, 8)[0]
hostile = {
    "cut.png": whole[:len(whole) // 2],
    "without-end.png": whole[:-12],
    "flipped.png": whole[:60] + bytes([whole[60] ^ 1]) + whole[61:],
    "huge.png": whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 65500, 65500, 8, 2, 0, 0, 0)) + whole[33:],
    "wide.png": whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 1 << 30, 1, 8, 2, 0, 0, 0)) + whole[33:],
    "empty-size.png": whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 5, 8, 2, 0, 0, 0)) + whole[33:],
    "short-data.png": whole[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", 37, 24, 8, 2, 0, 0, 0)) + whole[33:],
}
for name, data in hostile.items():
    (folder / name).write_bytes(data)
    print("!", name)
