#!/usr/bin/env python3
"""Writes docs/reference.md: the properties, pads and formats that gst-inspect-1.0 prints for every element.

  scripts/reference.py PLUGIN
  scripts/reference.py --check PLUGIN
      compares the page with what gst-inspect-1.0 prints, and shows the differences

PLUGIN is the built libgstcudafilters.so. Formats and properties depend on GStreamer's version. With another one than
1.22, the page stays as it is, and the check ends with status 77. If the plugin was built without CUDA, the page keeps
its rows about CUDA memory, and the check leaves them out. The rows of a new element then need a build with CUDA.
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GSTREAMER = '1.22'
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / 'docs' / 'reference.md'
PRESETS = ROOT / 'gst' / 'presets'
# Every GstObject has these properties.
INHERITED = ('name', 'parent')
# GstAggregator documents these properties of every aggregator.
OF_AGGREGATORS = ('emit-signals', 'latency', 'min-upstream-latency', 'start-time', 'start-time-selection')
# Every pad of an aggregator has these.
OF_AGGREGATOR_PADS = ('emit-signals', 'direction', 'caps', 'template', 'offset')
TABLE = '| property | values | default | changes | meaning |\n|---|---|---|---|---|'
HEAD = f'''# Reference

This page lists the properties, presets, pads and formats of every element. `scripts/reference.py` makes it from what
`gst-inspect-1.0` prints with GStreamer {GSTREAMER}.

The column *changes* says when a property can be set:

| changes | can be set |
|---|---|
| controllable | at any time, also by a GstController |
| any time | at any time, but not by a GstController |
| in READY | in the states NULL and READY |
| read only | never |

Colours are numbers: 0xAARRGGBB or 0xRRGGBB. GStreamer refuses `#RRGGBB`; write 0xffRRGGBB. Properties that hold
several numbers are text with commas: `mean=0.485,0.456,0.406`.

**Values that cannot be used** never end a stream that plays. The property keeps the value in force, and a warning
message on the bus says what is allowed. Values that only work together may be set one after the other before the next
frame. A controller that moves through values that cannot be used causes one message. Before the first frame has come
out, such a value is an error instead. GObject refuses values outside of a property's range, with a warning on stderr.
The messages have a details structure (`gst_message_parse_warning_details()`, `gst_message_parse_error_details()`):

| field | type | meaning |
|---|---|---|
| `property` | string | name of the property |
| `value` | the property's type; string for enums and flags | value that was refused |
| `allowed` | string | what the value must be |
| `minimum`, `maximum` | the property's type | range, if the property has one |

**Passthrough.** The settings alone decide it: `gst_base_transform_set_passthrough()` and
`gst_base_transform_set_in_place()` have no effect, and an application that calls them gets a warning message.
'''
FORMATS = '''
## Formats

Pads whose formats are "all" take every format of this table. In CUDA memory, GStreamer 1.24 adds P012_LE, I420_12LE,
Y444_10LE, Y444_12LE, GBR_10LE, GBR_12LE and GBR_16LE, and 1.26 adds VUYA.
'''


def inspect(*words):
    return subprocess.run(['gst-inspect-1.0', *words], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def elements_of(plugin):
    return re.findall(r'^  (\w+): ', inspect(plugin), re.M)


def section(text, title):
    """Returns the indented lines below a title."""
    found = re.search(rf'^{title}:\n((?:(?:[ \t].*)?\n)*)', text, re.M)
    return found[1] if found else ''


def number(text):
    """Shortens the largest numbers to "any"."""
    text = text.strip()
    value = float(text)
    if abs(value) > 1e300:
        return '-' * (value < 0) + 'any'
    return text


def property_of(name, blurb, details):
    """Makes the row of a property from the lines below its first one in gst-inspect-1.0."""
    flags = re.search(r'flags: (.*)', details)[1]
    values = default = ''
    rows = []
    kind = re.search(r'^\s+(?:Enum|Flags) "\w+" Default: \S+, "(.*?)"', details, re.M)
    if kind:
        default = '`' + '+'.join(sorted(kind[1].split('+'))) + '`'
        rows = re.findall(r'^ {20,}\(\S+\): (\S+)\s+- (.*?)\s*$', details, re.M)
        values = ', '.join(f'`{nick}`' for nick, _ in rows)
    elif found := re.search(r'(Integer|Unsigned Integer|Double|Float|Integer64|Unsigned Integer64)\. '
                            r'Range:\s*(\S+)\s+-\s+(\S+)\s+Default:\s*(\S+)', details):
        low, high = number(found[2]), number(found[3])
        values = f'{low} to {high}'
        default = found[4]
        if found[1] == 'Double' and high == 'any':
            values = 'any number' if low == '-any' else f'{low} and up'
        if 'Unsigned' in found[1] and name.endswith('color'):
            digits = 6 if int(high) < 1 << 24 else 8
            values = '0xRRGGBB' if digits == 6 else '0xAARRGGBB'
            default = f'0x{int(default):0{digits}x}'
    elif found := re.search(r'Boolean\. Default: (\w+)', details):
        values, default = '`true`, `false`', f'`{found[1]}`'
    elif found := re.search(r'String\. Default: (.*)', details):
        text = found[1].strip()
        values = 'text'
        default = 'empty' if text in ('null', '""') else f'`{text}`'
    elif found := re.search(r'Boxed pointer of type "(\w+)"', details):
        values, default = f'`{found[1]}`', ''
    else:
        raise SystemExit(f'reference.py: property {name} is of a kind that is not known here:\n{details}')
    when = 'controllable' if 'controllable' in flags else (
        'in READY' if 'changeable only' in flags else 'any time')
    if 'writable' not in flags:
        when = 'read only'
    meaning = blurb.replace('|', '\\|').rstrip('.')
    if rows:
        meaning += '.' + ''.join(
            f'<br>`{nick}`: ' + text.replace('|', '\\|') for nick, text in rows)
    return f'| `{name}` | {values} | {default} | {when} | {meaning} |'


def properties_in(block):
    found = {}
    for name, blurb, details in re.findall(
            r'^ +(\S+) *: (.*(?:\n(?! +flags:).*)*)\n((?: {20,}.*\n?)+)', block, re.M):
        if name not in INHERITED:
            found[name] = property_of(name, ' '.join(blurb.split()), details)
    return found


def properties_of(text):
    return properties_in(section(text, 'Element Properties'))


def pad_properties_of(text, known):
    """Makes the lines about the pads with properties of their own. `known` are the element's rows."""
    lines = []
    for pad, block in re.findall(r"^  \w+ template: '(\S+)'\n(?:(?!  \w+ template|    Pad Prop).*\n)*"
                                 r'    Pad Properties:\n((?: {6,}.*\n)+)', text, re.M):
        rows = {name: row for name, row in properties_in(block).items() if name not in OF_AGGREGATOR_PADS}
        same = ', '.join(f'`{name}`' for name, row in rows.items() if known.get(name) == row)
        own = [row for name, row in rows.items() if known.get(name) != row]
        if not rows:
            continue
        lines += ['', f'Each pad `{pad}` has these properties.' +
                  (f' It also has the element\'s {same}, and follows the element until they are set on the pad.'
                   if same else ''), '', TABLE, *own]
    return lines


def pads_of(text):
    """Returns the pads of an element as (names, caps, formats)."""
    rows = {}
    for pad, caps in re.findall(r"^  \w+ template: '(\S+)'\n((?:    .*\n)+)", text, re.M):
        if re.search(r'^      ANY$', caps, re.M):
            rows.setdefault(('any', ('any',)), []).append(pad)
        for media, fields in re.findall(r'^      (\S+)\n((?:        .*\n)+)', caps, re.M):
            formats = re.search(r'^\s+(?:format|types): \{ (.*) \}', fields, re.M)
            if not formats:
                formats = re.search(r'^\s+format: (.*)', fields, re.M)
            words = formats[1].replace('(string)', '').replace(',', '') if formats else 'any'
            rows.setdefault((f'`{media}`', tuple(words.split())), []).append(pad)
    return [(', '.join(names), *row) for row, names in rows.items()]


def formats_of(pads):
    """Returns all formats of each kind of memory, in the order of the element that has most of them."""
    found = {}
    for _, caps, formats in sorted((row for rows in pads.values() for row in rows), key=lambda row: -len(row[2])):
        if caps.startswith('`video/'):
            known = found.setdefault(caps, [])
            known += [name for name in formats if name not in known]
    return found


def pad_table(rows, every):
    """Makes the table of an element's pads. `every` has all formats of each kind of memory."""
    lines = ['', '| pad | caps | formats |', '|---|---|---|']
    for names, caps, formats in rows:
        missing = [name for name in every.get(caps, ()) if name not in formats]
        words = ' '.join(formats) if caps not in every else 'all' if not missing else 'all except ' + ' '.join(missing)
        lines.append(f'| {names} | {caps} | {words} |')
    return lines


def presets_of(text):
    """The rows of a table: the presets that come with an element, from its file."""
    name = re.search(r'^ +\+----(Gst\w+)\n\n', text, re.M)
    path = PRESETS / f'{name[1]}.prs' if name else None
    if not path or not path.exists():
        return []
    rows = []
    for preset, body in re.findall(r'^\[([a-z][\w-]*)\]\n((?:.+\n)*)', path.read_text(encoding='utf-8'), re.M):
        fields = dict(line.split('=', 1) for line in body.splitlines())
        comment = fields.pop('_meta/comment')
        values = ' '.join(f'`{key}={value}`' for key, value in fields.items())
        rows.append(f'| `{preset}` | {comment} | {values} |')
    return ['', '| preset | for | sets |', '|---|---|---|', *rows]


def listed(words):
    return ' and '.join(filter(None, [', '.join(words[:-1]), words[-1]]))


def shared_rows(properties, filters):
    """Finds the rows that several elements have: a dictionary from a title to (their names, the rows)."""
    owners = {}
    for name, rows in properties.items():
        for row in rows.values():
            owners.setdefault(row, []).append(name)
    tables = {'All filters': (filters, [])}
    groups = {}
    for row, names in sorted(owners.items(), key=lambda item: item[0].split('`')[1]):
        if len(names) > 3:
            tables['All filters'][1].append(row)
        elif len(names) > 1:
            groups.setdefault(tuple(names), []).append(row)
    for names, rows in groups.items():
        if len(rows) > 2:
            tables[listed(names)] = names, rows
    return tables, owners


def link_to(title):
    """Makes a link to a heading of the page, as GitHub names headings."""
    anchor = re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-')
    return f'[{title[0].lower()}{title[1:]}](#{anchor})'


def page(plugin):
    texts = {name: inspect(name) for name in elements_of(plugin)}
    properties = {name: properties_of(text) for name, text in texts.items()}
    filters = [name for name, rows in properties.items() if 'backend' in rows]
    tables, owners = shared_rows(properties, filters)
    pads = {name: pads_of(text) for name, text in texts.items()}
    formats = formats_of(pads)
    lines = [HEAD + FORMATS, '| memory | formats |', '|---|---|']
    lines += [f'| {caps} | {" ".join(words)} |' for caps, words in formats.items()]
    for title, (names, rows) in tables.items():
        lines += ['', f'## {title}', '', TABLE]
        for row in rows:
            missing = [name for name in names if name not in owners[row]]
            lines.append(row[:-2] + f'.<br>Not in {listed(missing)} |' if missing else row)
    for name, text in texts.items():
        description = re.search(r'^  Description +(.*)', text, re.M)[1]
        klass = re.search(r'^  Klass +(.*)', text, re.M)[1]
        own = {key: row for key, row in properties[name].items()
               if not any(name in names and row in rows for names, rows in tables.values())}
        also = [link_to(title) for title, (names, _) in tables.items() if name in names]
        aggregator = [f'`{key}`' for key in OF_AGGREGATORS if own.pop(key, None)]
        also += [f'GstAggregator ({", ".join(aggregator)})'] if aggregator else []
        lines += ['', f'## {name}', '', f'{description}. Class: `{klass}`.',
                  *([f'It also has the properties of {listed(also)}.'] if also else []),
                  *(['', TABLE, *own.values()] if own else []),
                  *pad_properties_of(text, properties[name]), *presets_of(text), *pad_table(pads[name], formats)]
    return '\n'.join(lines) + '\n'


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ['--check']
    if check:
        del arguments[0]
    if len(arguments) != 1 or arguments[0].startswith('-'):
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[0]).resolve().parent
    os.environ['GST_PLUGIN_PATH_1_0'] = str(folder)
    # The user's registry must not learn of this plugin.
    with tempfile.TemporaryDirectory() as scratch:
        os.environ['GST_REGISTRY_1_0'] = str(pathlib.Path(scratch) / 'registry.bin')
        run(arguments[0], check)


def about_cuda(row):
    return '(memory:CUDAMemory)`' in row


def with_cuda_rows(made, kept):
    """Returns the lines `made` without CUDA, with the rows about CUDA memory that `kept` has."""
    others = [i for i, row in enumerate(kept) if not about_cuda(row)]
    lines = []
    for _, first, end, first_made, end_made in difflib.SequenceMatcher(
            None, [kept[i] for i in others], made, autojunk=False).get_opcodes():
        rows = [kept[others[i - 1] + 1 if i else 0:others[i]] for i in range(first, end)]
        new = made[first_made:end_made]
        for i in range(max(len(rows), len(new))):
            lines += (rows[i] if i < len(rows) else []) + new[i:i + 1]
    return lines


def run(plugin, check):
    if f'version {GSTREAMER}.' not in inspect('--version'):
        print(f'the page is made with GStreamer {GSTREAMER}')
        sys.exit(77 if check else 1)
    made = page(plugin).splitlines()
    kept = PAGE.read_text(encoding='utf-8').splitlines()
    without_cuda = not any(map(about_cuda, made))
    if not check:
        if without_cuda:
            made = with_cuda_rows(made, kept)
        PAGE.write_text('\n'.join(made) + '\n', encoding='utf-8')
        return
    if without_cuda:
        kept = [row for row in kept if not about_cuda(row)]
    difference = list(difflib.unified_diff(kept, made, str(PAGE), 'gst-inspect-1.0', lineterm='', n=0))
    if difference:
        print(*difference, sep='\n', flush=True)
        sys.exit(f'{PAGE} is stale. Write it again: scripts/reference.py {plugin}')


if __name__ == '__main__':
    main()
