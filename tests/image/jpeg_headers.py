"""jpeg_headers.py FOLDER: prints for each file, in name order, djpeg's trace of its headers and Pillow's profile and orientation:

    SOF WIDTH HEIGHT RESTART FACTORS JFIF ADOBE ICC_BYTES ORIENTATION
"""
import os, re, subprocess, sys, warnings
from PIL import Image

warnings.simplefilter("ignore")  # Pillow warns about odd EXIF
for name in sorted(os.listdir(sys.argv[1]), key=os.fsencode):
    path = os.path.join(sys.argv[1], name)
    trace = subprocess.run(["djpeg", "-verbose", "-verbose", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    trace = trace.stderr.decode("latin-1").split("Start Of Scan")[0]

    def found(pattern, absent="-"):
        matches = re.findall(pattern, trace)
        return matches[-1] if matches else absent

    sof, width, height = found(r"Start Of Frame (0x..): width=(\d+), height=(\d+)")
    factors = ",".join("x".join(f) for f in re.findall(r"Component \d+: (\d+)hx(\d+)v", trace))
    jfif = "%d.%d" % tuple(map(int, found(r"JFIF APP0 marker: version (\d+)\.(\d+)", (0, 0))))
    image = Image.open(path)
    try:
        orientation = image.getexif().get(0x112, 1)
    except Exception:
        orientation = 1
    print(sof, width, height, found(r"Define Restart Interval (\d+)", "0"), factors, jfif,
          found(r"Adobe APP14 marker: .* transform (\d+)"), len(image.info.get("icc_profile") or b""),
          orientation if orientation in range(1, 9) else 1)
