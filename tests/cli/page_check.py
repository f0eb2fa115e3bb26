"""page_check.py PAGE: checks a page of `millrace inspect --html` and prints its content as one JSON
document. "figures" has what belongs to each picture of `--field`: the paths of its boxes, the labels
of the boxes, its points, its masks as base64, and the text below it. Its "views" are the pictures,
with the number of masks over each.

Fails if the page is not well-formed (as XML, and as HTML with every element closed), or contains a
script, an event handler, a link, a remote resource, or a picture without alternative
text.
"""
import base64
import html.parser
import json
import sys
import xml.dom.minidom

VOID = {"meta", "img", "br", "input"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.text, self.headings, self.alts = [], [], [], []
        self.pictures, self.charts, self.rows = [], [], []
        self.box, self.label = None, None
        self.figures, self.overlay = [], None

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        assert tag not in {"script", "iframe", "object", "embed", "link", "base", "form", "a"}, tag
        for name in values:
            assert not name.startswith("on") and name not in {"href", "srcset", "action"}, name
        if tag == "img":
            assert values["src"].startswith("data:image/"), values["src"][:60]
            kind, data = values["src"].split(";base64,")
            picture = base64.b64decode(data, validate=True)
            assert values["alt"]
            if values.get("class") == "mask":
                assert kind == "data:image/png" and picture.startswith(b"\x89PNG\r\n"), kind
                self.figures[-1]["masks"].append(data)
                self.figures[-1]["views"][-1][1] += 1
            else:
                self.pictures.append(picture)
                self.alts.append(values["alt"])
                if self.figures:
                    self.figures[-1].update(picture=data, key=values["alt"].split("picture of ")[-1])
                    self.figures[-1]["views"].append([data, 0])
        if tag == "figure":
            self.figures.append({"boxes": [], "labels": [], "points": [], "masks": [], "views": [], "text": ""})
        if tag == "svg":
            self.overlay = values.get("class") if values.get("class") in {"boxes", "points"} else None
        if self.overlay and tag == "path":
            self.figures[-1]["boxes"].append(
                [float(number) for number in values["d"][1:-1].replace("H", " ").replace("V", " ").split()]
            )
        if self.overlay and tag == "circle":
            self.figures[-1]["points"].append([float(values["cx"]), float(values["cy"])])
        if tag == "svg" and not self.overlay and values.get("aria-hidden") != "true":
            assert values["role"] == "img"
            self.charts.append(values["aria-label"])
            self.box = [float(number) for number in values["viewbox"].split()]
        if tag == "text":
            self.label = (float(values["x"]), float(values["y"]), values["text-anchor"])
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def check_label(self, words):
        """Checks that a label lies within its chart, taking 12-pixel letters as 7 wide."""
        x, y, anchor = self.label
        left = x - 7 * len(words) * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        assert 0 <= left and left + 7 * len(words) <= self.box[2] and 12 <= y <= self.box[3], (words, x, y, anchor)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            assert "url(" not in data and "@import" not in data
            return
        self.text.append(data)
        if self.open and self.open[-1] == "text" and self.overlay:
            self.figures[-1]["labels"].append(data)
        elif self.open and self.open[-1] == "text":
            self.check_label(data)
        elif "figure" in self.open:
            self.figures[-1]["text"] += data
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data


text = open(sys.argv[1], encoding="utf-8").read()
xml.dom.minidom.parseString(text.encode())
page = Page()
page.feed(text)
page.close()
assert not page.open, page.open
assert "default-src 'none'" in text
assert all(picture[:2] == b"\xff\xd8" and picture[-2:] == b"\xff\xd9" for picture in page.pictures)
json.dump(
    {
        "headings": page.headings,
        "text": "".join(page.text),
        "alts": page.alts,
        "charts": page.charts,
        "rows": page.rows,
        "figures": page.figures,
        "pictures": len(page.pictures),
        "size": len(text.encode()),
    },
    sys.stdout,
)
