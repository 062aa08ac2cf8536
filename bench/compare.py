#!/usr/bin/env python3
"""Puts two runs of bench-kernels side by side, with the change of each row in per cent.

    bench/compare.py [--limit PERCENT] BEFORE AFTER

Both are what bench-kernels wrote with --csv, or anything that holds the table it printed. The table
is Markdown; the last line says how many rows got slower by more than the limit (2 %), and the exit
status is 1 if any did.
"""
import argparse
import csv
import pathlib
import re
import sys


def rows_of_text(text):
    """The tables that the benchmark printed: a line of dashes below the titles, cells apart by two
    spaces or more, "-" for what was not measured."""
    titles, before = None, ''
    for line in text.splitlines():
        cells = re.split(r' {2,}', line.strip())
        if re.fullmatch(r'-+( +-+)+', line):
            titles = re.split(r' {2,}', before.strip())
        elif titles and len(cells) < 4:
            titles = None if not line.startswith('#') else titles
        elif titles and not line.startswith('#'):
            yield {t: c for t, c in zip(titles, cells) if c != '-'}
        before = line


def read(paths, backend='cuda'):
    """Rows that were right, by filter, frame and parameters. Where one comes twice, the later counts."""
    table = {}
    for path in paths:
        text = path.read_text()
        if text.startswith('filter,'):
            rows = csv.DictReader(text.splitlines())
        else:
            rows = rows_of_text(text)
        for row in rows:
            # Older results are of the GPU alone.
            if (row.get('filter') and row.get('check', 'ok') == 'ok' and
                    row.get('backend', 'cuda') == backend):
                # What the rows of the tile sort were once called.
                parameters = row['parameters'].replace('by ranks', 'tile sort')
                table[row['filter'], row['frame'], parameters] = row
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--limit', type=float, default=2)
    parser.add_argument('before', type=pathlib.Path)
    parser.add_argument('after', type=pathlib.Path)
    options = parser.parse_args()
    slower, changes = 0, []
    print('| filter | frame | parameters | backend | before (µs) | after (µs) | change (%) |')
    print('|---|---|---|---|---:|---:|---:|')
    for backend in ('cuda', 'cpu'):
        before, after = read([options.before], backend), read([options.after], backend)
        for key, row in after.items():
            if not row.get('us') or not before.get(key, {}).get('us'):
                continue
            was, now = float(before[key]['us']), float(row['us'])
            change = 100 * (now / was - 1)
            mark = '**' if change > options.limit else ''
            slower += change > options.limit
            changes.append((change, ' '.join(key)))
            print(f'| {" | ".join(key)} | {backend} | {was:.2f} | {now:.2f} '
                  f'| {mark}{change:+.1f}{mark} |')
    if not changes:
        sys.exit('compare.py: no row is in both')
    worst, name = max(changes)
    print(f'\n{len(changes)} rows, {slower} slower by more than {options.limit:g} %; '
          f'at the most {worst:+.1f} % ({name})')
    return 1 if slower else 0


if __name__ == '__main__':
    sys.exit(main())
