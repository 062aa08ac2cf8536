#!/usr/bin/env python3
"""Draws docs/images/speed-*.png: device time over kernel and frame size, compared with other
libraries.

    bench/plot.py [--peers FILE] [--out FOLDER] RESULTS...

RESULTS are CSV from bench-kernels --csv, or any text that contains its printed table. If a row
occurs twice, the later one counts. Needs matplotlib (Debian: python3-matplotlib), which nothing
else here needs.
"""
import argparse
import pathlib
import re

import matplotlib

from compare import read

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS, FLOOR, PEER, NPP = '#1f6fb4', '#777777', '#d1495b', '#e29f3c'
WIDTH = {'360p': 640, '720p': 1280, '1080p': 1920, '1440p': 2560, '2160p': 3840, '4320p': 7680}


def value(row, column):
    return float(row[column]) if row and row.get(column) else None


def pairs(points):
    """Returns the measured points as two lists."""
    points = [(x, y) for x, y in points if y is not None]
    return [x for x, _ in points], [y for _, y in points]


def plain_ticks(axis, at):
    # Labels are at least an eleventh of the logarithmic axis apart.
    named, apart = [], (max(at) / min(at)) ** 0.09
    for v in at:
        if not named or v >= named[-1] * apart:
            named.append(v)
    axis.set_major_locator(FixedLocator(named))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda v, _: f'{v:g}'))


def finish(figure, out, name):
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc='lower center', ncol=len(handles),
                  frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    # The file has no date and no version, so that equal figures give equal files.
    figure.savefig(out / f'speed-{name}.png', dpi=110, metadata={'Software': None})
    plt.close(figure)


def over_kernel_size(table, peers, out, name, frames, grid):
    figure, panels = plt.subplots(*grid, figsize=(9, 3.4 * grid[0] + 0.3), squeeze=False)
    for axes, frame in zip(panels.flat, frames):
        sizes = sorted({int(p.split('x')[0]) for f, where, p in table
                        if f == name and where == frame and re.fullmatch(r'(\d+)x\1', p)})
        if not sizes:
            raise SystemExit(f'no {name} of {frame} in the results')
        rows = [(k, table.get((name, frame, f'{k}x{k}'))) for k in sizes]
        best = [(k, peers.get((name, frame, f'{k}x{k}'))) for k in sizes]
        for points, column, style, label in (
                (best, 'npp us', {'ls': ':', 'marker': 'v', 'color': NPP}, 'NPP 13'),
                (best, 'us', {'ls': '--', 'marker': 's', 'color': PEER}, 'best peer'),
                (rows, 'us', {'ls': '-', 'marker': 'o', 'color': OURS}, 'this project'),
                (rows, 'floor us', {'ls': '-', 'color': FLOOR}, 'copy of the frame')):
            sized, us = pairs([(k, value(row, column)) for k, row in points])
            if us:
                axes.plot(sized, us, label=label, **style)
        axes.set(xscale='log', yscale='log', title=frame, xlabel='kernel size',
                 ylabel='device time (µs)')
        plain_ticks(axes.xaxis, sizes)
        axes.tick_params(axis='x', labelsize=8 if len(sizes) > 8 else None)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f'{v:g}'))
        axes.grid(alpha=0.3)
    finish(figure, out, name)


def as_bars(table, peers, out, name, keys, scale):
    """Draws the rows that are not part of a curve."""
    keys = [k for k in keys if (name, *k) in table]
    figure, axes = plt.subplots(figsize=(9, 0.42 * len(keys) + 1.6))
    for series, (label, color, find) in enumerate((
            ('copy of the frame', FLOOR, lambda k: value(table[k], 'floor us')),
            ('this project', OURS, lambda k: value(table[k], 'us')),
            ('best peer', PEER, lambda k: value(peers.get(k), 'us')))):
        at, us = pairs([(i + 0.27 * (series - 1), find((name, *k))) for i, k in enumerate(keys)])
        bars = axes.barh(at, us, 0.26, color=color, label=label)
        axes.bar_label(bars, [f' {v:.0f}' if v >= 100 else f' {v:.1f}' for v in us], fontsize=7)
    axes.set_yticks(range(len(keys)), [f'{frame}, {p}' for frame, p in keys])
    axes.invert_yaxis()
    axes.set(xscale=scale, xlabel='device time (µs)')
    axes.margins(x=0.1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f'{v:g}'))
    axes.grid(axis='x', alpha=0.3)
    finish(figure, out, name)


def over_frame_size(table, out):
    """Draws time relative to a copy over the frame's size, which shows the cost of launches and
    short walks."""
    lines = (('gaussian', 'gray', '15x15'), ('gaussian', 'RGBA', '15x15'),
             ('gaussian', 'RGBA', '59x59'), ('median', 'RGBA', '5x5'), ('guided', 'RGBA', 'r16 s4'),
             ('guided', 'RGBA', 'r60 s8'), ('letterbox', 'BGR', '640 f32 ultra'),
             ('letterbox', 'NV12', '640 f32 ultra'))
    figure, panels = plt.subplots(1, 2, figsize=(9, 4.4))
    for i, (name, kind, parameters) in enumerate(lines):
        at, rows = pairs([(WIDTH[size], table.get((name, f'{size} {kind}', parameters)))
                          for size in WIDTH])
        if len(rows) < 2:
            continue
        for axes, column in zip(panels, ('us', 'x floor')):
            axes.plot(at, [value(r, column) for r in rows], '-', marker='o', color=f'C{i}',
                      label=f'{name} {kind} {parameters}')
    sizes = [w for s, w in WIDTH.items() if any(f.startswith(s + ' ') for _, f, _ in table)]
    for axes, title in zip(panels, ('device time (µs)', 'device time over that of a copy')):
        axes.set(xscale='log', xlabel='width of the frame', title=title)
        plain_ticks(axes.xaxis, sizes)
        axes.set_xlim(sizes[0] * 0.9, sizes[-1] * 1.1)
        axes.grid(alpha=0.3)
    panels[0].set_yscale('log')
    plain_ticks(panels[0].yaxis, (2, 5, 10, 20, 50, 100))
    panels[1].set_ylim(bottom=1)
    figure.legend(*panels[0].get_legend_handles_labels(), loc='lower center', ncol=4, frameon=False,
                  fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(out / 'speed-frames.png', dpi=110, metadata={'Software': None})
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--peers', type=pathlib.Path, default=ROOT / 'lab' / 'peers.csv')
    parser.add_argument('--out', type=pathlib.Path, default=ROOT / 'docs' / 'images')
    parser.add_argument('results', nargs='+', type=pathlib.Path)
    options = parser.parse_args()
    table, peers = read(options.results), read([options.peers])
    over_kernel_size(table, peers, options.out, 'gaussian',
                     ('2160p RGBA', '2160p gray', '1080p RGBA', '2160p gray16'), (2, 2))
    over_kernel_size(table, peers, options.out, 'median',
                     ('1080p gray', '1080p RGBA', '1080p gray16'), (1, 3))
    as_bars(table, peers, options.out, 'guided',
            [(f'{size} RGBA', f'r{r} s{s}') for size in ('1080p', '2160p')
             for s in (1, 4, 8) for r in (16, 60)], 'log')
    as_bars(table, peers, options.out, 'letterbox',
            [(f'{size} {kind}', f'{to} ultra') for kind in ('BGR', 'RGBA', 'NV12', 'I420', 'P010')
             for size in ('1080p', '2160p') for to in ('640 RGBA', '640 f32', '1280 f32')], 'linear')
    over_frame_size(table, options.out)


if __name__ == '__main__':
    main()
