#!/usr/bin/env python3
"""Turns what `tmux capture-pane -pe` prints into an SVG: screenshot.py COLS < capture > screen.svg

`PICTURES=1 cargo test --test screen pictures::` paints all pictures of the README with it."""
import re
import sys
import unicodedata
from html import escape

COLS = int(sys.argv[1])
W, H = 8.4, 18
BASE = ["#1b1f27", "#e06c75", "#98c379", "#d7b56d", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
        "#6b7280", "#ff7b86", "#b5e08d", "#f0cf84", "#82c4ff", "#d99bff", "#7fd6df", "#ffffff"]
GROUND, TEXT = "#14171d", "#c8ccd4"


def indexed(n):
    if n < 16:
        return BASE[n]
    if n >= 232:
        v = 8 + (n - 232) * 10
        return f"#{v:02x}{v:02x}{v:02x}"
    n -= 16
    return "#" + "".join(f"{0 if c == 0 else 55 + 40 * c:02x}" for c in (n // 36, n // 6 % 6, n % 6))


def colour(codes, i):
    if codes[i] == 5:
        return indexed(codes[i + 1]), i + 2
    return "#" + "".join(f"{c:02x}" for c in codes[i + 1:i + 4]), i + 4


def style(state, codes):
    i = 0
    while i < len(codes):
        c = codes[i]
        i += 1
        if c == 0:
            state.clear()
        elif c in (1, 2, 3, 4, 7):
            state[{1: "bold", 2: "dim", 3: "italic", 4: "under", 7: "inverse"}[c]] = True
        elif c in (22, 23, 24, 27):
            for k in {22: ("bold", "dim"), 23: ("italic",), 24: ("under",), 27: ("inverse",)}[c]:
                state.pop(k, None)
        elif 30 <= c <= 37 or 90 <= c <= 97:
            state["fg"] = BASE[c - 30 if c < 90 else c - 82]
        elif 40 <= c <= 47 or 100 <= c <= 107:
            state["bg"] = BASE[c - 40 if c < 100 else c - 92]
        elif c in (38, 48):
            state["fg" if c == 38 else "bg"], i = colour(codes, i)
        elif c in (39, 49):
            state.pop("fg" if c == 39 else "bg", None)


lines = sys.stdin.read().rstrip("\n").split("\n")
grounds, glyphs, state = [], [], {}
for row, line in enumerate(lines):
    col = 0
    for part in re.split(r"(\x1b\[[0-9;:]*m)", line):
        m = re.fullmatch(r"\x1b\[([0-9;:]*)m", part)
        if m:
            style(state, [int(c or 0) for c in re.split("[;:]", m[1])])
            continue
        for char in part:
            if unicodedata.combining(char) and glyphs:
                glyphs[-1] = glyphs[-1].replace("</text>", char + "</text>")
                continue
            wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            fg, bg = state.get("fg", TEXT), state.get("bg")
            if state.get("inverse"):
                fg, bg = bg or GROUND, fg
            x, y = col * W, row * H
            if bg:
                grounds.append(f'<rect x="{x:.1f}" y="{y}" width="{W * wide + .3:.1f}" height="{H}" fill="{bg}"/>')
            if char != " ":
                extra = ' font-weight="700"' if state.get("bold") else ""
                extra += ' opacity=".6"' if state.get("dim") else ""
                extra += ' font-style="italic"' if state.get("italic") else ""
                extra += ' text-decoration="underline"' if state.get("under") else ""
                glyphs.append(f'<text x="{x:.1f}" y="{y + 13.5}" fill="{fg}"{extra}>{escape(char)}</text>')
            col += wide
width, height = COLS * W + 24, len(lines) * H + 24
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
      f'font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="14">')
print(f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/><g transform="translate(12 12)">')
print("\n".join(grounds + glyphs))
print("</g></svg>")
