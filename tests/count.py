#!/usr/bin/env python3
"""Counts the test cases of Meson's logs, and says which failed.

  count.py LABEL=testlog.json ...   prints the failed cases, why cases were skipped, which tests took
                                    longest, and as the last line "N passed, N failed, N skipped";
                                    the exit status is 0 only if something passed and nothing failed
  count.py --self-test

A test counts as its TAP lines or its gst-check total where it prints either, and as one otherwise.
A test that dies, times out or ends early counts one failure more than its cases show.
"""
import json
import re
import sys

TAP = re.compile(r'(not )?ok\b\s*(?:\d+)?\s*(?:- )?([^#]*)(?:#\s*(SKIP|TODO)\b\S*\s*(.*))?$', re.I)
PLAN = re.compile(r'1\.\.(\d+)(?:\s*#\s*SKIP\S*\s*(.*))?$', re.I)
SHOWN = 20  # maximum number of failed cases shown per test
SAID = 200  # maximum number of characters shown of each of three lines of a failed case
SLOW, SLOWEST = 30, 15  # tests that take so many seconds are listed, and at most so many of them
CHECK = re.compile(r'^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$', re.M)


def cases(test):
    """Returns the cases of one test as (outcome, name, reason). The outcome is passed, failed or
    skipped."""
    found = []
    plan = None
    skip_all = None
    bail = None
    out = test.get('stdout') or ''
    said = None  # text that the failed case printed after its line
    for line in out.splitlines():
        if line.startswith('#'):
            if said is not None:
                said.append(line[1:].strip())
                # A kernel's test says first how many components differ; a script says last what is wrong.
                shown = said[:1] + said[1:][-2:]
                found[-1] = ('failed', found[-1][1], ' | '.join(text[:SAID] for text in shown))
            continue
        said = None
        if m := TAP.match(line):
            bad, name, directive, reason = m.groups()
            directive = (directive or '').upper()
            if directive == 'SKIP':
                found.append(('skipped', name.strip(), reason or 'no reason given'))
            elif bad and directive != 'TODO':
                found.append(('failed', name.strip(), ''))
                said = []
            else:
                found.append(('passed', name.strip(), ''))
        elif m := PLAN.match(line):
            plan = int(m.group(1))
            skip_all = m.group(2)
        elif line.startswith('Bail out!'):
            bail = line[9:].strip() or 'bailed out'
    if plan is not None or found or bail:
        if plan == 0:
            return [('skipped', '', skip_all or 'no reason given')]
        if bail:
            found.append(('failed', '', bail))
        elif plan is None:
            found.append(('failed', '', f'ended after {len(found)} cases without a plan'))
        elif plan != len(found):
            found.append(('failed', '', f'planned {plan} cases and ran {len(found)}'))
    else:
        for total, failures, errors in CHECK.findall(out):
            bad = int(failures) + int(errors)
            found += [('passed', '', '')] * (int(total) - bad)
            # The lines that name the failed cases follow the total, as file:line:kind:case:...
            names = re.findall(r'^\S+?:\d+:[FE]:([^:]*:[^:]*):', out, re.M)
            found += [('failed', names[i] if i < len(names) else '', '') for i in range(bad)]

    result = test['result']
    bad = any(c[0] == 'failed' for c in found)
    if result in ('OK', 'EXPECTEDFAIL'):
        return found or [('passed', '', '')]
    if result == 'SKIP':
        return found or [('skipped', '', 'the test says so')]
    # If the cases, or a failure added above, explain these exit statuses, no failure is added.
    explained = bail or (plan is None and found) or test.get('returncode', 0) in (0, 1, 255)
    if bad and explained and result in ('FAIL', 'ERROR'):
        return found
    return found + [('failed', '', f'{result}, exit status {test.get("returncode")}')]


def count(logs):
    totals = {'passed': 0, 'failed': 0, 'skipped': 0}
    reasons = {}
    slow = []
    for label, path in logs:
        tests = []
        try:
            with open(path, encoding='utf-8') as log:
                tests = [json.loads(line) for line in log if line.strip()]
        except OSError as error:
            print(f'FAILED {label}: no results: {error}')
        if not tests:
            print(f'FAILED {label}: no test ran')
            totals['failed'] += 1
        for test in tests:
            if test.get('duration', 0) >= SLOW:
                slow.append((test['duration'], f'{label}: {test["name"]}'))
            failures = 0
            for outcome, name, reason in cases(test):
                totals[outcome] += 1
                if outcome == 'failed':
                    failures += 1
                    if failures <= SHOWN:
                        print('FAILED', f'{label}: {test["name"]}:', name, reason)
                elif outcome == 'skipped':
                    key = f'{label}: {test["name"]}: {reason}'
                    reasons[key] = reasons.get(key, 0) + 1
            if failures > SHOWN:
                print(f'FAILED {label}: {test["name"]}: {failures - SHOWN} more')
    for key, number in reasons.items():
        print(f'skipped {number}: {key}')
    for seconds, name in sorted(slow, reverse=True)[:SLOWEST]:
        print(f'{seconds:.0f} s: {name}')
    print('{passed} passed, {failed} failed, {skipped} skipped'.format(**totals))
    return 0 if totals['passed'] and not totals['failed'] else 1


def self_test():
    def check(want, result, out, code=0):
        got = [c[0][0] for c in cases({'name': 't', 'stdout': out, 'result': result,
                                       'returncode': code})]
        if ''.join(sorted(got)) != want:
            sys.exit(f'count.py: {out!r} with {result} gave {got}, want {want}')

    check('pps', 'OK', 'ok 1 - a\nok 2 - b # SKIP none\n# text\nok 3\n1..3\n')
    check('fp', 'ERROR', '1..2\nok 1 - a\nnot ok 2 - b\n', 1)
    check('ffp', 'ERROR', 'ok 1 - a\nnot ok 2 - b\n', 1)  # no plan: the test died
    check('ffp', 'ERROR', '1..2\nok 1 - a\nnot ok 2 - b\n', -11)
    check('fp', 'OK', '1..2\nok 1 - a\n')  # one case is missing
    check('s', 'SKIP', '1..0 # SKIP no GPU\n')
    check('fp', 'ERROR', 'ok 1 - a\nBail out! no memory\n', 99)
    check('p', 'OK', '1..1\nok 1 - a\n    ok 1 - inner\n    ok 2 - inner\n')
    check('p', 'OK', '1..1\nnot ok 1 - a # TODO later\n')
    check('ppp', 'OK', 'Running\n100%: Checks: 3, Failures: 0, Errors: 0\n')
    check('fpp', 'FAIL', '66%: Checks: 3, Failures: 1, Errors: 0\na.c:5:F:general:x:0: no\n', 1)
    check('p', 'OK', 'nothing to count')
    failed = cases({'name': 't', 'stdout': 'not ok 1 - a\n# wrong\n# seed 7\nok 2 - b\n# well\n1..2\n', 'result': 'ERROR',
                    'returncode': 1})[0]
    if failed != ('failed', 'a', 'wrong | seed 7'):
        sys.exit(f'count.py: {failed}')
    failed = cases({'name': 't', 'stdout': 'not ok 1 - a\n# wrong\n# 1\n# 2\n# 3\n1..1\n', 'result': 'ERROR',
                    'returncode': 1})[0]
    if failed != ('failed', 'a', 'wrong | 2 | 3'):
        sys.exit(f'count.py: {failed}')
    check('f', 'FAIL', 'nothing to count', 1)
    check('s', 'SKIP', '', 77)
    check('f', 'TIMEOUT', '', -9)
    check('fp', 'TIMEOUT', '1..1\nok 1 - a\n', -9)
    print('1..1\nok 1 - count.py counts as it says')


if __name__ == '__main__':
    if sys.argv[1:] == ['--self-test']:
        self_test()
    else:
        sys.exit(count([argument.partition('=')[::2] for argument in sys.argv[1:]]))
