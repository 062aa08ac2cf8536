#!/usr/bin/env python3
"""Compares two runs of bench-kernels row by row and prints the changes in per cent.

    bench/compare.py [--limit PERCENT] BEFORE AFTER

Both files are CSV from bench-kernels --csv, or any text that contains its printed table. The output
is a Markdown table. Its last line says how many rows became slower by more than the limit (default:
2 %); if any did, the exit status is 1.
"""
import argparse
import csv
import pathlib
import re
import sys


def rows_of_text(text):
    """Returns the tables in a text. Below the titles is a line of dashes, two spaces or more
    separate the cells, and "-" means not measured."""
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
    """Returns the rows with correct results by filter, frame and parameters. If a row occurs twice,
    the later one counts."""
    table = {}
    for path in paths:
        text = path.read_text()
        if text.startswith('filter,'):
            rows = csv.DictReader(text.splitlines())
        else:
            rows = rows_of_text(text)
        for row in rows:
            # Older results have no such column and are all from the GPU.
            if (row.get('filter') and row.get('check', 'ok') == 'ok' and
                    row.get('backend', 'cuda') == backend):
                # Older results have another name for rows of the tile sort.
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
