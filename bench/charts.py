"""Charts of benchmarks as SVG files: bars of several contenders, and curves on logarithmic axes."""
import math
from xml.sax.saxutils import escape

COLORS = ["#2563eb", "#f59e0b", "#10b981", "#a855f7", "#64748b"]
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" '
        'font-family="sans-serif" font-size="12"><rect width="{w}" height="{h}" fill="white"/>')


def text(x, y, words, anchor="start", color="#1f2937"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(words)}</text>'


def legend(names, x, y):
    parts = []
    for i, name in enumerate(names):
        parts += [f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLORS[i % len(COLORS)]}"/>',
                  text(x + 15, y, name)]
        x += 35 + 7 * len(name)
    return parts


def bars(path, title, groups):
    """Writes horizontal bars. `groups`: {label: {contender: value}}. The value is at the end of each bar."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    most = max(value for values in groups.values() for value in values.values())
    left, width, bar = 250, 430, 13
    parts, y = [text(10, 22, title), *legend(names, 10, 44)], 62
    for label, values in groups.items():
        parts.append(text(left - 10, y + len(values) * bar / 2 + 4, label, "end"))
        for name, value in values.items():
            long = value / most * width
            parts += [f'<rect x="{left}" y="{y}" width="{long:.1f}" height="{bar - 2}" '
                      f'fill="{COLORS[names.index(name) % len(COLORS)]}"/>', text(left + long + 5, y + 10, f"{value:.2f}")]
            y += bar
        y += 9
    write(path, left + width + 60, y + 10, parts)


def curves(path, title, x_label, series):
    """Writes curves on logarithmic axes. `series`: {name: [(x, y), …]}."""
    points = [point for curve in series.values() for point in curve]
    xs, ys = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    left, top, width, height = 70, 60, 480, 260
    def place(x, y):
        across = (math.log(x) - min(xs)) / max(max(xs) - min(xs), 1e-9)
        up = (math.log(y) - min(ys)) / max(max(ys) - min(ys), 1e-9)
        return left + across * width, top + (1 - up) * height
    parts = [text(10, 22, title), *legend(list(series), 10, 44), text(left + width / 2, top + height + 38, x_label, "middle"),
             f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" stroke="#9ca3af"/>']
    for x in sorted({point[0] for point in points}):
        parts.append(text(place(x, points[0][1])[0], top + height + 17, f"{x:g}", "middle"))
    for y in (math.exp(min(ys)), math.exp(max(ys))):
        parts.append(text(left - 6, place(points[0][0], y)[1] + 4, f"{y:.3g}", "end"))
    for i, curve in enumerate(series.values()):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curve))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[i % len(COLORS)]}" stroke-width="2"/>')
    write(path, left + width + 40, top + height + 50, parts)


def write(path, width, height, parts):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([HEAD.format(w=width, h=height), *parts, "</svg>"]) + "\n")
