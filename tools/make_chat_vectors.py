#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/chat/vectors.json: templates, variables, and what Debian's python3-jinja2 makes
of them when it is set up as Hugging Face's transformers does. Tests read the file and do not need
this script.

    /usr/bin/python3 tools/make_chat_vectors.py            writes the file
    /usr/bin/python3 tools/make_chat_vectors.py --count N --seed S --out FILE    other random cases
"""
import argparse
import copy
import datetime
import functools
import json
import pathlib
import random
import re
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

warnings.simplefilter("ignore")
ROOT = pathlib.Path(__file__).resolve().parent.parent
CHAT = ROOT / "tests" / "golden" / "chat"
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)  # tests/text/jinja_vectors_test.cpp has the same


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


ENVIRONMENT = environment()
# Text that depends on addresses, or on a class of Python's; and integers beyond 64 bits.
UNPORTABLE = re.compile(r"<(generator object|built-in|bound method|function |reversed object|jinja2|dict_)|"
                        r" at 0x|\d{19,}", re.I)


@functools.lru_cache(maxsize=50)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def case(template, variables=None, name=None):
    """None when the result says nothing about us."""
    row = {"template": template}
    if variables:
        row["variables"] = variables
    if name:
        row["name"] = name
    try:
        text = compiled(template).render(**copy.deepcopy(variables or {}))
        text.encode("utf-8")
    except RecursionError:
        return None
    except OverflowError:
        return None  # integers beyond 64 bits are an error here anyway
    except Exception as problem:
        row["error"] = f"{type(problem).__name__}: {problem}"[:200]
        return row
    if UNPORTABLE.search(text) or len(text) > 20000:
        return None
    row["expected"] = text
    return row


# Whole chats through the templates beside the file.

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place, now or on a day to come.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Name of the city"},
        "days": {"type": "integer", "default": 1},
        "units": {"type": "string", "enum": ["metric", "imperial"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
        "note": {"type": ["string", "null"]}}, "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "parameters": {"type": "object", "properties": {}}}}
USER = {"role": "user", "content": "What is the weather in Zürich? "}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
CALL = {"role": "assistant", "content": "", "reasoning_content": "\nI should look it up.\n",
        "tool_calls": [{"type": "function", "function": {
            "name": "get_weather",
            "arguments": {"city": "Zürich", "days": 2, "tags": ["a", "b"], "where": {"lat": 47.37, "lon": 8.5}, "deep": True,
                          "note": None}}}]}
TWO_CALLS = {"role": "assistant", "content": "Let me see.", "tool_calls": [
    CALL["tool_calls"][0], {"function": {"name": "clock", "arguments": {}}}, {"function": {"name": "third", "arguments": {"x": "\"<&>'"}}}]}
TOOL = {"role": "tool", "content": "{\"sky\": \"sunny\", \"degrees\": 21.5}", "tool_call_id": "1"}
ANSWER = {"role": "assistant", "content": "<think>\nSunny it is.\n</think>\n\nIt is sunny, 21.5 °C."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "tomorrow? 🌞"}]}
IMAGE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " What is this? "}]}

CHATS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, {"role": "user", "content": "Thanks"}],
    "no_system": [USER, ANSWER, {"role": "user", "content": "  Thanks\n\n"}],
    "tool_call": [USER, CALL, TOOL],
    "tool_answer": [SYSTEM, USER, CALL, TOOL, ANSWER],
    "two_tools": [USER, TWO_CALLS, TOOL, {"role": "tool", "content": "12:00"}, ANSWER, USER],
    "reasoning": [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "Why not?"}],
    "reasoning_then_user": [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "Why not?"}, USER],
    "parts": [USER, {"role": "assistant", "content": "Hm."}, PARTS],
    "image": [IMAGE],
    "system_parts": [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}, USER],
    "bad_order": [USER, USER],
    "bad_role": [{"role": "wizard", "content": "?"}],
    "empty_text": [{"role": "user", "content": ""}],
    "none_content": [USER, {"role": "assistant", "content": None, "tool_calls": CALL["tool_calls"]}],
    "specials": [{"role": "user", "content": "<|im_end|>\n{{ 1 }} {% if %} \\n \t\u2028 \x00 'q' \"d\""}],
    "no_messages": [],
}


def chat_cases():
    for path in sorted(CHAT.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, messages in CHATS.items():
            seen = set()  # what a template makes of other variables, if it is the same, is left out
            for tools in (None, [WEATHER], [WEATHER, CLOCK]):
                for options in ({}, {"add_generation_prompt": True},
                                {"add_generation_prompt": True, "enable_thinking": False},
                                {"add_generation_prompt": True, "enable_thinking": True,
                                 "tools_in_user_message": False}):
                    variables = {"messages": messages, "tools": tools, "bos_token": "<bos>", "eos_token": "<eos>",
                                 **options}
                    row = case(source, variables, f"{path.name}:{name}")
                    row["file"] = path.name
                    del row["template"]
                    result = json.dumps({key: value for key, value in row.items() if key != "variables"})
                    if result not in seen:
                        seen.add(result)
                        yield row


# One thing at a time. Each line is a template; the variables are those of VARIABLES.

VARIABLES = {
    "i": 7, "n": -3, "z": 0, "big": 4000000000, "f": 2.5, "g": -0.125, "t": True, "no": False, "nil": None,
    "s": "Hello, World", "e": "", "u": "Größe ŉ ǆ ΑΣ, Straße ﬁ 日本 🌞é", "w": "  two  words\n\tthree ", "lines": "a\nb\r\nc\n\nd",
    "num": "42", "fl": "3.5", "q": "it's \"q\" \\ \n\t\x01\u200b",
    "l": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"], "mixed": [1, "a", None, 2.5, [1, 2], {"k": 1}], "nested": [[1, 2], [3, 4]],
    "empty": [], "d": {"b": 2, "a": 1, "C": 3}, "deep": {"x": {"y": [10, {"z": "end"}]}}, "ed": {},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "tags": []}],
    "items": "shadow", "m": {"items": 5, "keys": [1], "get": "g", "update": 1, "role": "user"},
}

HAND = r"""
{{ 1 }}{{ 1.0 }}{{ 1e3 }}{{ 1e16 }}{{ 1e-5 }}{{ 0.1 + 0.2 }}{{ 1_000 }}{{ 0x1f }}{{ 0b101 }}{{ 0o17 }}{{ 1_0.5_0 }}{{ 123456789.123 }}
{{ 1 + 2 * 3 ** 2 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1.0 // 0.1 }} {{ -0.0 }} {{ 0.0 * -1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ +true }} {{ true == 1 }} {{ false == 0 }} {{ true is sameas 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }}
{{ True }}{{ False }}{{ None }}{{ true }}{{ false }}{{ none }}
{{ [1, 'a', none, true, 2.5, [], {}, ()] }} {{ (1,) }} {{ (1, 2) }} {{ () }} {{ {'a': 1, 2: 'b', none: [1]} }}
{{ 1, 2 }} {{ (1) }} {{ 'a' 'b' "c" }}
{{ mixed }} {{ d }} {{ deep }} {{ q }} {{ [q] }} {{ [u] }} {{ people }}
{{ i < 10 < 20 }} {{ 1 < i > 3 }} {{ 1 < 2 < 2 }} {{ 1 == 1 == 1 }} {{ 3 > 2 > 1 > 0 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ 'Z' < 'a' < 'é' }}
{{ 1 < 'a' }}
{{ [1] < (1,) }}
{{ none < 1 }}
{{ 1 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ 'a' in d }} {{ 'zz' in d }} {{ '' in s }} {{ 1.0 in l }} {{ not 1 in l }} {{ 1 in (1, 2) in [true] }}
{{ 1 in s }}
{{ 1 in i }}
{{ undefined_thing in s }}
{{ 'a' in undefined_thing }} {{ undefined_thing in [] }} {{ undefined_thing == other_undefined }} {{ undefined_thing == none }} {{ undefined_thing != 1 }}
{{ i and s }} {{ z and s }} {{ z or s }} {{ not z }} {{ not not s }} {{ e or nil or 'x' }} {{ 1 and 2 or 3 }} {{ 0 or false }} {{ not true == false }} {{ e and undefined_thing.x }}
{{ 'yes' if i else 'no' }} {{ 'yes' if z }} {{ 'a' if z else 'b' if z else 'c' }} {{ ('x' if i > 3 else 'y') ~ '!' }} {{ 1 if 0 else 2 if 1 }} {{ [1 if t] }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ [1] ~ undefined_thing }} {{ 1 ~ 2 + 3 }} {{ 'x' ~ 'y' * 3 }} {{ 1 + 2 ~ 3 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' + none }}
{{ none + 1 }}
{{ 'a' * 3 }} {{ 3 * 'ab' }} {{ 'a' * -1 }} {{ [1, 2] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 2 * (1,) }} {{ 'a' * true }}
{{ [1] + (2,) }}
{{ 'a' - 'b' }}
{{ 'a' * 2.0 }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[:3] }} {{ s[3:] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-3:] }} {{ s[:-3] }} {{ s[5:2] }} {{ s[100:] }} {{ s[-100:3] }} {{ s[4:1:-1] }} {{ s[:] }} {{ s[::] }} {{ s[none:3] }} {{ s[99] }}|
{{ u[0] }} {{ u[2] }} {{ u[-1] }} {{ u[::-1] }} {{ u|length }} {{ u[3:8] }} {{ u|upper }} {{ u|lower }} {{ u|title }} {{ u.title() }} {{ u.capitalize() }} {{ u.swapcase() }} {{ u|list }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5] }}| {{ l[-5] }}| {{ l[:-1] }} {{ (1, 2, 3)[1:] }} {{ nested[1][0] }} {{ l[true] }} {{ mixed[4][1] }} {{ mixed[5].k }} {{ mixed[5]['k'] }}
{{ l['a'] }}| {{ l.a }}| {{ l[1.0] }}|
{{ l['a':] }}
{{ s[::0] }}
{{ d.a }} {{ d['a'] }} {{ d.zz }}| {{ d['zz'] }}| {{ deep.x.y[1].z }} {{ deep['x']['y'].0 }} {{ deep.x.y.1.z }} {{ {1: 'a'}[1] }} {{ {1: 'a'}[true] }} {{ {1: 'a'}[1.0] }} {{ {'a': {'b': 1}}.a.b }} {{ {(1, 2): 3}[(1, 2)] }}
{{ d.zz.y }}
{{ d['zz']['y'] }}
{{ undefined_thing }}|{{ undefined_thing.x }}
{{ undefined_thing[0] }}
{{ undefined_thing() }}
{{ undefined_thing + 1 }}
{{ 1 - undefined_thing }}
{{ undefined_thing < 1 }}
{{ -undefined_thing }}
{{ nil.x }}| {{ nil['x'] }}| {{ i.x }}| {{ i[0] }}| {{ f.zz }}| {{ t.zz }}|
{{ nil.x.y }}
{{ nil() }}
{{ s() }}
{{ i() }}
{{ m.items() | list }} {{ m['items'] }} {{ m.role }} {{ m.keys() }} {{ m['get'] }} {{ m.get('role') }} {{ m.get('zz') }} {{ m.get('zz', 'dflt') }} {{ m.values() }} {{ d.items() }} {{ d.keys() | list }} {{ d.items() | length }}
{{ m.update }}|{{ l.append }}|{{ l.sort }}|{{ s.__class__ }}|{{ d.__init__ }}|{{ m.pop is defined }}|{{ l.append is defined }}|{{ l.index is defined }}|{{ l.nope is defined }}
{{ l.append(1) }}
{{ l.insert(0, 1) }}
{{ l.extend([1]) }}
{{ l.sort() }}
{{ l.reverse() }}
{{ l.remove(1) }}
{{ d.update({'x': 1}) }}
{{ d.pop('a') }}
{{ d.setdefault('a', 1) }}
{{ d.clear() }}
{{ d.popitem() }}
{{ ''.__class__.__mro__ }}
{{ s.nope() }}
{{ d.a() }}
{{ s.upper() }} {{ s.lower() }} {{ w.strip() }}| {{ w.lstrip() }}| {{ w.rstrip() }}| {{ 'xxhixx'.strip('x') }} {{ 'abcba'.strip('ab') }} {{ 'xhix'.lstrip('x') }} {{ 'xhix'.rstrip('x') }} {{ '\u3000a\u2003'.strip() }}| {{ 'a\x1f'.strip() }}| {{ w.strip(none) }}|
{{ s.split() }} {{ s.split(',') }} {{ s.split(', ') }} {{ w.split() }} {{ w.split(' ') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ ' a b  c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('abc') }} {{ 'a,b'.split(sep=',') }} {{ 'a  b'.rsplit() }}
{{ s.split('') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\n'.splitlines() }} {{ 'a\x0bb\x0cc\x1cd\x85e\u2028f'.splitlines() }}
{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith(('x', 'y')) }} {{ s.startswith('ell', 1) }} {{ s.startswith('') }} {{ s.startswith('lo', 3, 5) }} {{ s.endswith('', 100) }} {{ s.startswith(()) }} {{ s.endswith('ell', 0, 4) }}
{{ s.startswith(['H']) }}
{{ s.startswith(1) }}
{{ s.startswith() }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.replace('', '-') }} {{ s.replace('zz', '-') }} {{ 'aaa'.replace('aa', 'b') }} {{ s.replace('l', '') }} {{ u.replace('', '.') }} {{ 'ab'.replace('', '-', 1) }} {{ 'ab'.replace('', '-', 0) }}
{{ s.replace('l') }}
{{ s.replace(1, 2) }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.find('o', 5) }} {{ s.find('o', -4) }} {{ s.find('') }} {{ s.rfind('') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.count('') }} {{ s.count('l', 4) }} {{ u.find('日') }} {{ s.rfind('l', 0, 4) }} {{ s.find('', 12) }} {{ s.find('', 13) }} {{ s.find('H', 2, 1) }} {{ s.count('', 5, 3) }}
{{ s.index('zz') }}
{{ s.rindex('l') }} {{ s.partition(', ') }} {{ s.rpartition('o') }} {{ s.partition('zz') }} {{ s.rpartition('zz') }}
{{ ','.join(['a', 'b']) }} {{ ''.join([]) }} {{ '-'.join('abc') }} {{ ','.join(d) }} {{ ', '.join(names) }} {{ ','.join(names | map('upper')) }}
{{ ','.join([1, 2]) }}
{{ ','.join(1) }}
{{ s.title() }} {{ 'they\'re bill\'s'.title() }} {{ s.swapcase() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'x1y2 a_b'.title() }} {{ 'İ'.lower() | length }} {{ 'ß'.upper() }} {{ 'ΑΣ ΑΣΑ Σ'.lower() }}
{{ '42'.isdigit() }} {{ '4.2'.isdigit() }} {{ ''.isdigit() }} {{ '²'.isdigit() }} {{ '½'.isnumeric() }} {{ '٣'.isdecimal() }} {{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ ' \t'.isspace() }} {{ 'Abc'.istitle() }} {{ 'ABC'.isupper() }} {{ 'abc1'.islower() }} {{ '123'.islower() }} {{ 'é'.isalpha() }} {{ 'é'.isascii() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'a b'.isprintable() }} {{ 'a\n'.isprintable() }} {{ ''.isprintable() }}
{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'a'.center(4, '*') }} {{ 'ab'.center(5, '*') }} {{ 'abc'.center(2) }} {{ 'abcd'.zfill(2) }}
{{ 'a'.ljust(3, 'xy') }}
{{ 'TestHook'.removeprefix('Test') }} {{ 'TestHook'.removesuffix('Hook') }} {{ 'a'.removeprefix('b') }} {{ 'a'.removesuffix('') }}
{{ '{} and {}'.format(1, 'x') }} {{ '{1}{0}{1}'.format('a', 'b') }} {{ '{a}-{b}'.format(a=1, b=[1]) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+d} {:,} {:x} {:#x} {:b} {:o} {:X}'.format(42, 42, 1234567, 255, 255, 5, 8, 255) }} {{ '{:.2f} {:10.3f} {:e} {:g} {:%} {:.1%} {:,.2f}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.5, 0.256, 1234567.891) }} {{ '{{}}'.format() }} {{ '{0[a]} {0[zz]}|'.format(d) }} {{ '{!r} {!s}'.format('a', 'b') }} {{ '{:.3}'.format('abcdef') }} {{ '{:5}|{:5}|'.format(1, 'a') }} {{ '{:{}}|'.format('a', 4) }} {{ '{}'.format(1.5) }} {{ '{:.3}'.format(2.5) }} {{ '{:d}'.format(true) }} {{ '{}'.format(true) }}
{{ '{}'.format() }}
{{ '{a}'.format() }}
{{ '{'.format() }}
{{ '}'.format() }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(1) }}
{{ '%s and %s' % (1, 'x') }} {{ '%d%%' % 5 }} {{ '%5.1f|%-5s|%05d|%x|%X|%o|%e|%g' % (2.25, 'a', 42, 255, 255, 8, 12345.678, 0.5) }} {{ '%(a)s %(b)s' % {'a': 1, 'b': 2} }} {{ '%r' % 'a' }} {{ '%s' % none }} {{ '%s' % [1] }} {{ '%c' % 65 }} {{ '%+d % d' % (1, 2) }} {{ '%s' % undefined_thing }}| {{ '%.2s' % 'abc' }} {{ '%i' % 3.9 }} {{ '%*d' % (5, 42) }} {{ '%5s%%' % 'é' }}
{{ '%d' % 'a' }}
{{ '%s %s' % 1 }}
{{ '%s' % (1, 2) }}
{{ '%q' % 1 }}
{{ '%' % 1 }}
{{ 'x' % 1 }}
{{ 'x' % d }} {{ 'x' % () }} {{ 'x' % l }}
{{ '%s %d' | format('a', 2) }} {{ '%(x)s' | format(x=1) }} {{ 'a' | format }}
{{ s | upper | lower | title }} {{ 'foo bar-baz (qux) [a] {b} <c>' | title }} {{ 'hELLO' | capitalize }} {{ w | trim }}| {{ 'xax' | trim('x') }} {{ 5 | trim }} {{ none | upper }} {{ undefined_thing | upper }}| {{ undefined_thing | trim }}|
{{ s | length }} {{ l | count }} {{ d | length }} {{ undefined_thing | length }} {{ range(3) | length }} {{ '' | length }}
{{ i | length }}
{{ nil | length }}
{{ l | map('string') | length }}
{{ l | join }} {{ l | join(', ') }} {{ names | join('|') }} {{ mixed | join(';') }} {{ people | join(',', attribute='name') }} {{ people | join(',', 'age') }} {{ 'abc' | join('-') }} {{ d | join(',') }} {{ undefined_thing | join(',') }}| {{ [1, none, true] | join(none) }}
{{ i | join }}
{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ 123 | replace(2, 9) }} {{ s | replace('o', '0', count=1) }} {{ s|replace(old='H', new='J') }}
{{ undefined_thing | default('x') }} {{ e | default('x') }}| {{ e | default('x', true) }} {{ nil | default('x') }} {{ nil | d('x', boolean=true) }} {{ d.zz | default }}| {{ d.zz | default(d.zz2) }}| {{ z | default(5, true) }} {{ undefined_thing | default(default_value='k') }}
{{ l | first }} {{ l | last }} {{ empty | first }}| {{ empty | last }}| {{ s | first }} {{ s | last }} {{ d | first }} {{ d | last }} {{ range(5) | last }} {{ l | map('string') | first }} {{ undefined_thing | first }}| {{ undefined_thing | last }}|
{{ l | map('string') | last }}
{{ s | list }} {{ d | list }} {{ (1, 2) | list }} {{ range(3) | list }} {{ undefined_thing | list }} {{ d.items() | list }}
{{ i | list }}
{{ i | string }} {{ l | string }} {{ nil | string }} {{ f | string }} {{ undefined_thing | string }}|
{{ '42' | int }} {{ ' 42 ' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 'ff' | int(base=16) }} {{ '0xff' | int(0, 16) }} {{ '0b11' | int(0, 2) }} {{ '0x1f' | int(base=0) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ none | int }} {{ true | int }} {{ '1_000' | int }} {{ '1e3' | int }} {{ [] | int(9) }} {{ '' | int }} {{ '-5' | int }} {{ '+5' | int }} {{ '- 5' | int }} {{ '012' | int }}
{{ undefined_thing | int }}
{{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ none | float }} {{ '1e3' | float }} {{ 'nan' | float }} {{ 'inf' | float }} {{ '-inf' | float }} {{ ' 1.5 ' | float }} {{ '1_0.5' | float }} {{ '.5' | float }} {{ '5.' | float }} {{ 'infinity' | float }} {{ '' | float }}
{{ undefined_thing | float }}
{{ -5 | abs }} {{ n | abs }} {{ -2.5 | abs }} {{ true | abs }}
{{ 'a' | abs }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 42 | round }} {{ 42.123 | round(2) }} {{ -2.5 | round }} {{ 1234 | round(-2) }} {{ 1250 | round(-2) }} {{ 1234.5 | round(-2) }} {{ 0.5 | round }} {{ 1.5 | round | int }} {{ 5 | round(0, 'floor') }} {{ 42 | round(method='ceil') }}
{{ 'a' | round }}
{{ 1 | round(0, 'x') }}
{{ d | items | list }} {{ undefined_thing | items | list }} {{ ed | items | list }}
{{ l | items | list }}
{{ d | dictsort }} {{ d | dictsort(true) }} {{ d | dictsort(false, 'value') }} {{ d | dictsort(reverse=true) }} {{ d | dictsort(by='value', reverse=true) }}
{{ l | dictsort }}
{{ d | dictsort(by='x') }}
{{ l | sort }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ people | sort(true, attribute='name') | map(attribute='name') | list }} {{ 'hello' | sort }} {{ d | sort }} {{ nested | sort(attribute='1', reverse=true) }} {{ [true, 0, 2] | sort }}
{{ mixed | sort }}
{{ l | reverse | list }} {{ s | reverse }} {{ d | reverse | list }} {{ (1, 2) | reverse | list }} {{ range(3) | reverse | list }} {{ l | map('string') | reverse }} {{ u | reverse }}
{{ i | reverse }}
{{ l | map('string') | list }} {{ names | map('upper') | list }} {{ people | map(attribute='name') | list }} {{ people | map(attribute='tags') | list }} {{ people | map(attribute='tags', default=[]) | list }} {{ people | map(attribute='tags.0', default='none') | list }} {{ nested | map('first') | list }} {{ nested | map('join', '-') | list }} {{ names | map('replace', 'a', 'A') | list }} {{ names | map('default', 'x') | list }} {{ nested | map(attribute=0) | list }} {{ empty | map('upper') | list }} {{ undefined_thing | map('upper') | list }} {{ 'abc' | map('upper') | join }} {{ l | map('float') | map('round', 1) | list }}
{{ l | map | list }}
{{ l | map('nope') | list }}
{{ people | map(attribute='name', zz=1) | list }}
{{ l | select('odd') | list }} {{ l | select('gt', 1) | list }} {{ l | reject('even') | list }} {{ mixed | select | list }} {{ mixed | select('string') | list }} {{ mixed | reject('none') | list }} {{ l | select('in', [1, 2]) | list }} {{ l | select('>', 1) | list }} {{ l | select('==', 1) | list }} {{ l | reject('divisibleby', 3) | list }} {{ empty | select | list }}
{{ l | select('nope') | list }}
{{ people | selectattr('tags') | map(attribute='name') | list }} {{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | list }} {{ people | rejectattr('tags') | map(attribute='name') | list }} {{ people | selectattr('tags', 'defined') | list | length }} {{ people | rejectattr('age', 'lt', 30) | list | length }} {{ people | selectattr('name', 'in', ['Ann']) | list | length }} {{ people | selectattr('tags', 'undefined') | map(attribute='name') | first }}
{{ people | selectattr | list }}
{{ [1, 1.0, true, 2, 'a', 'A', 'a'] | unique | list }} {{ names | unique | list }} {{ names | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ 'hello' | unique | join }}
{{ [[1], [1]] | unique | list }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ empty | batch(2) | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 2, 3] | slice(2, 'x') | list }} {{ [1, 2] | slice(3) | list }}
{{ l | sum }} {{ [1.5, 2] | sum }} {{ people | sum(attribute='age') }} {{ l | sum(start=10) }} {{ [[1], [2]] | sum(start=[]) }} {{ [] | sum }} {{ [0.1, 0.2, 0.3] | sum }} {{ [true, true] | sum }}
{{ ['a'] | sum }}
{{ l | min }} {{ l | max }} {{ names | min }} {{ names | max }} {{ people | max(attribute='age') }} {{ people | min(attribute='name') }} {{ names | max(case_sensitive=true) }} {{ empty | min }}| {{ 'hello' | max }}
{{ [1, 'a'] | min }}
{{ 'a\nb\n\nc' | indent }} {{ 'a\nb\n\nc' | indent(2) }} {{ 'a\nb\n\nc' | indent(2, true) }} {{ 'a\nb\n\nc' | indent(2, first=true, blank=true) }} {{ 'a\nb' | indent('> ') }} {{ '' | indent }}| {{ 'a' | indent(width=3, first=true) }} {{ 'a\n' | indent(2) }}| {{ 'a\r\nb' | indent(1) }}
{{ 5 | indent }}
{{ undefined_thing | indent }}
{{ '<a href="x">\'&' | e }} {{ '<' | escape | escape }} {{ '<' | e | forceescape }} {{ 5 | e }} {{ none | e }} {{ undefined_thing | e }}| {{ ('<' | safe) + '<' }} {{ '<' + ('<' | safe) }} {{ '<' | safe ~ '<' }} {{ ('<' | e) * 2 }} {{ '<' | e | upper }} {{ ['<' | e] }} {{ '<' | safe is escaped }} {{ '<' is escaped }} {{ '<b>' | safe | length }} {{ ('<b>' | safe).upper() + '<' }} {{ ('a<b' | safe)[1:] + '<' }} {{ ('a' | safe) == 'a' }} {{ s | e + '&' }}
{{ 'The quick brown fox jumps' | truncate(15) }} {{ 'The quick brown fox jumps' | truncate(15, true) }} {{ 'The quick brown fox' | truncate(9, false, '!') }} {{ 'short' | truncate(3) }} {{ 'The quick brown fox jumps' | truncate(11, leeway=0) }} {{ 'aaaaaaaaaaaaaaaaaaaaaa' | truncate(10) }}
{{ 'abc' | truncate(2) }}
{{ 'a b  c-d e_f' | wordcount }} {{ '' | wordcount }} {{ 'a' | center(5) }}| {{ 'é' | center(4) }}|
{{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 2048 | filesizeformat(true) }} {{ 'a b/c?&é' | urlencode }} {{ {'a b': 'c&d', 'e': 1} | urlencode }}
{{ people | groupby('age') | list }} {% for k, g in people | groupby('age') %}{{ k }}:{{ g | map(attribute='name') | join(',') }};{% endfor %}
{{ s | attr('upper') is callable }} {{ d | attr('a') }}|
{{ d | tojson }} {{ mixed | tojson }} {{ q | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ d | tojson(indent=2) }} {{ mixed | tojson(indent=1) }} {{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ ed | tojson(indent=2) }} {{ empty | tojson(indent=2) }} {{ deep | tojson(indent=0) }} {{ [1.0, 1e20, 1e-7, 0.1, -0.0] | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }} {{ none | tojson }} {{ 'x' | tojson | tojson }} {{ nested | tojson(indent='--') }} {{ [[], {}] | tojson(indent=2) }} {{ '</script>\x7f' | tojson }} {{ d | tojson(indent=2, separators=(' ,', ' :')) }} {{ d | tojson(false, 2) }} {{ true | tojson }}{{ 1 | tojson }}
{{ undefined_thing | tojson }}
{{ [undefined_thing] | tojson }}
{{ d.items() | tojson }}
{{ range(3) | tojson }}
{{ d | tojson(nope=1) }}
{{ {(1, 2): 3} | tojson }}
{{ s is defined }} {{ zz is defined }} {{ zz is undefined }} {{ zz is not defined }} {{ nil is none }} {{ nil is not none }} {{ s is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ i is sequence }} {{ l is iterable }} {{ i is iterable }} {{ d is iterable }} {{ zz is iterable }} {{ zz is sequence }} {{ i is number }} {{ t is number }} {{ f is number }} {{ i is integer }} {{ t is integer }} {{ f is integer }} {{ f is float }} {{ t is boolean }} {{ t is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }} {{ s is callable }} {{ range is callable }} {{ s.upper is callable }} {{ zz is callable }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is lessthan 2 }} {{ 1 is gt 2 }} {{ 1 is greaterthan(0) }} {{ 1 is le 1 }} {{ 1 is ge 2 }} {{ 1 is in l }} {{ 1 is not in l }} {{ 'a' is in('abc') }} {{ s is sameas s }} {{ l is sameas l }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 1 is lower }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 3.0 is odd }}
{{ 'a' is odd }}
{{ 1 is nope }}
{{ 1 is defined is defined }}
{{ s is string and i is number }} {{ s is string or zz is string }} {{ not s is string }} {{ (s is string) == true }} {{ s is not string }} {{ 'x' if s is string else 'y' }} {{ i is divisibleby 7 and t }} {{ 1 is eq 1 == true }}
{{ l | nope }}
{{ l | firts }}
{% if false %}{{ l | nope }}{% endif %}ok {{ (l | nope) if false else 'ok' }}
{% if true %}{{ l | nope }}{% endif %}
{% if false %}{% for x in l %}{{ x | nope }}{% endfor %}{% endif %}
{{ range(5) | list }} {{ range(1, 5) | list }} {{ range(5, 1, -2) | list }} {{ range(0) | list }} {{ range(3) }} {{ range(1, 9, 2) }} {{ range(3)[1] }} {{ 2 in range(3) }} {{ range(5)[1:3] | list }} {{ range(3) == range(3) }} {{ range(3) | sum }}
{{ range(100001) }}
{{ range() }}
{{ range('a') }}
{{ range(1, 2, 0) }}
{{ range(1.5) }}
{{ dict(a=1, b=2) }} {{ dict() }} {{ dict([('a', 1)]) }} {{ dict(d, z=9) }} {{ dict({'a': 1}, a=2) }} {{ dict(**d) }}
{{ dict(1) }}
{{ range(*[1, 4]) | list }} {{ '{a}{b}'.format(**{'a': 1, 'b': 2}) }} {{ '{}{}'.format(*l) }}
{{ range(**{'a': 1}) }}
{{ namespace(a=1).a }} {{ namespace({'a': 1}).a }} {{ namespace().zz }}| {{ namespace(a=1) }}
{{ namespace(a=1)['a'] }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}c {% set k = joiner() %}{{ k() }}x{{ k() }}y
{{ cycler() }}
{{ raise_exception('bad: ' ~ 1) }}
{{ raise_exception() }}
{% if false %}{{ raise_exception('x') }}{% endif %}fine
{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%H:%M:%S %A %B %j') }} {{ strftime_now is defined }} {{ strftime_now('') }}|
{{ strftime_now() }}
{% for x in l %}{{ x }}{% endfor %} {% for x in d %}{{ x }}{% endfor %} {% for x in s %}{{ x }}.{% endfor %} {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for a, b in nested %}{{ a + b }} {% endfor %} {% for (a, b) in nested %}{{ a }}{% endfor %} {% for x in () %}{% else %}none{% endfor %} {% for x in undefined_thing %}x{% else %}undef{% endfor %}
{% for x in nil %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}|{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.previtem is defined }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %} {% for x in l %}{{ loop.nope }}|{% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ x }}:{{ loop.index }}/{{ loop.length }};{% endfor %} {% for x in l if x > 5 %}{{ x }}{% else %}nothing{% endfor %} {% for k, v in d.items() if v > 1 %}{{ k }}{% endfor %}
{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in [1] %}{% break %}{% else %}E{% endfor %} {% for x in [1, 2] %}{% continue %}{% else %}E{% endfor %} {% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}E{% endfor %}
{% break %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }} {% if y == 3 %}{% continue %}{% endif %}{% break %}{% endfor %}{{ loop.index }};{% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in [[1, [2, [3]]], [4]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }} {% endif %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for loop in l %}{% endfor %}
{% for x in l %}{% endfor %}{{ x }}|{{ loop }}|
{% set x = 0 %}{% for i in [1, 2, 3] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{{ i }}
{% set ns = namespace(x=0) %}{% for i in [1, 2, 3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{% set ns.y = 'new' %}{{ ns.y }}
{% set d.x = 1 %}
{% set undefined_thing.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (a, b) = [3, 4] %}{{ a }}{{ b }} {% set a = 1, 2 %}{{ a }} {% set a, b = 'xy' %}{{ a }}{{ b }} {% set a, = [5] %}{{ a }}
{% set a, b = 1 %}
{% set a, b = [1, 2, 3] %}
{% set true = 1 %}
{% set 1 = 1 %}
{% set x %}a{{ 1 + 1 }}b{% endset %}{{ x }} {% set y | upper | trim %} abc {% endset %}{{ y }}| {% set z2 | replace('a', 'b') %}aaa{% endset %}{{ z2 }}
{% set x %}{% set inner = 5 %}{{ inner }}{% endset %}{{ x }}{{ inner }}|
{% if t %}{% set v = 1 %}{% else %}{% set v = 2 %}{% endif %}{{ v }} {% if z %}{% set w2 = 1 %}{% endif %}{{ w2 }}|
{% if z %}a{% elif i == 7 %}b{% else %}c{% endif %} {% if z %}a{% elif e %}b{% else %}c{% endif %} {% if empty %}1{% endif %}{% if undefined_thing %}2{% endif %}{% if nil %}3{% endif %}{% if f %}4{% endif %}{% if not e %}5{% endif %}
{% if s, e %}tuple{% endif %}
{% if t %}{% if no %}a{% else %}b{% endif %}{% endif %}
{% if %}{% endif %}
{% if t %}
{% endif %}
{% endfor %}
{% for x in l %}{% endif %}{% endfor %}
{% nope %}
{% do l %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}| {% with %}{{ i }}{% endwith %} {% set a = 5 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='y') }}{{ m(a=5, b=6) }}{{ m() }}{{ m(*[1, 2]) }}{{ m(**{'a': 7}) }} {{ m(1) | upper }} {{ m.name }} {{ m is callable }} {{ m(1) is string }} {{ m(none) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, b=a, c=b) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }} {% macro k(a) %}{{ a }}{{ varargs | join('-') }}{{ kwargs.get('z') }}{% endmacro %}{{ k(1, 2, 3, z=4) }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{{ i }}{% endcall %} {% macro list2(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(x, n) list2(l) %}{{ n }}:{{ x }};{% endcall %}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{{ outer() }}
{% macro plain() %}p{% endmacro %}{% call plain() %}x{% endcall %}
{% macro outer() %}{% if caller %}y{% else %}n{% endif %}{% endmacro %}{{ outer() }}{% call outer() %}{% endcall %}
{% call 5 %}{% endcall %}
{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(5) }}
{% macro m() %}{% set inside = 1 %}{{ i }}{{ later }}{% endmacro %}{% set later = 'L' %}{{ m() }}{{ inside }}|
{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m }}|
{% set m = 5 %}{% macro m() %}x{% endmacro %}{{ m() }}
{{ early() }}{% macro early() %}x{% endmacro %}
{% filter upper %}abc{{ s }}{% endfilter %} {% filter replace('a', 'b') | upper %}aaa{% endfilter %} {% filter trim %}  x  {% endfilter %}|
{% filter nope %}{% endfilter %}
{% print 1 + 1 %} {% print 'a', 'b' %}
{% generation %}x{{ i }}{% set g2 = 1 %}{% endgeneration %}{{ g2 }}|
{% raw %}{{ x }}{% if %}{# c #}{% endraw %} {%- raw -%}  a  {%- endraw -%} b {% raw %}
 keep {% endraw %}
end
{% raw %}
{# comment #}a{# multi
line #}b{#- strip -#} c {# x #}
{# no end
a {{- 1 -}} b {{ 2 -}}  c  {{- 3 }}
a  {%- if t -%}  b  {%- endif -%}  c
  {% if t %}
    x
  {% endif %}
y
  {%+ if t %}
    x
  {%+ endif %}
y
{% if t +%}
x
{% endif +%}
y
a {% if t %} b {% endif %} c
   {{ 1 }}
   {# c #}
   {#- c #}
   {#+ c #}
x {# c #}
y
{% for x in l %}
{{ x }}
{% endfor %}
{% for x in l -%}
   {{ x }}
{%- endfor %}
tail

{% if t %}a
{% endif %}
	{% if t %}tab{% endif %}
text	{% if t %}tab{% endif %}
{{ '}}' }}{{ "%}" }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a':{'b':{}}}}}
{{ '{{' }}{{ "{%" }}{{'a'}}{{"b"}}{{-1}}{{ -1}}{{+1}}{{ 1-1 }}
{ { 1 } } {x} % } #} }} %} { {{ 1 }} {
{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F31E\101\0|' }} {{ "a'b" }} {{ 'a"b' }} {{ '\q' }} {{ 'a
b' }} {{ 'x\
y' }}
{{ '\x4' }}
{{ '\u12' }}
{{ 'abc }}
{{ (1 }}
{{ 1) }}
{{ [1, 2 }}
{{ 1 2 }}
{{ }}
{{ a b }}
{{ 1 + }}
{{ * 2 }}
{{ . }}
{{ a. }}
{{ a[ }}
{{ a | }}
{{ a is }}
{{ a ? b }}
{{ a && b }}
{{ !a }}
{{ a = 1 }}
{{ f(a=1, 2) }}
{{ f(**a, *b) }}
{{ dict(a=1, a=2) }}
{{ 'a' if }}
{{ if }}
{{ not }}
{{ 1 if 2 else }}
{% if t else %}{% endif %}
{% for %}{% endfor %}
{% for x %}{% endfor %}
{% for x in %}{% endfor %}
{% for 1 in l %}{% endfor %}
{% for x.y in l %}{% endfor %}
{% set %}
{% set x = %}
{% set x. = 1 %}
{% macro %}{% endmacro %}
{% macro m %}{% endmacro %}
{% macro m( %}{% endmacro %}
{% %}
{% 1 %}
{{ 1
{% if 1
{{ 08 }}
{{ 1.e5 }}
{{ 1e }}
{{ 1..2 }}
{{ é }}{{ ünï }}|
{{ "a" "b" ~ 'c' 'd' }} {{ ('a' 'b').upper() }} {{ 'abc'.upper()[1] }} {{ [1,2,][0] }} {{ {'a':1,}['a'] }} {{ (1,2,)[1] }} {{ [[1,2],[3]][0][1] }} {{ 'a,b'.split(',')[1] | upper }} {{ l|sort|first + 1 }} {{ (l|length) ~ 'x' }} {{ -l|length }}
{{ l.index(1) }} {{ l.count(1) }} {{ (1, 2).index(2) }} {{ l.copy() }} {{ d.copy() }} {{ (3, 3).count(3) }}
{{ l.index(9) }}
{{ d.get() }}
{{ d.get([1]) }}
{{ {[1]: 2} }}
{{ d[[1]] }}|{{ d[l] }}|
{{ d == {'a': 1, 'b': 2, 'C': 3} }} {{ l == [3, 1, 2] }} {{ l == (3, 1, 2) }} {{ [1, [2]] == [1.0, [2]] }} {{ {'a': 1} == {'a': 1.0} }} {{ d.keys() == d.keys() }} {{ none == none }} {{ none == false }} {{ '' == none }} {{ [] == false }}
{{ loop }}|
{{ caller }}|{{ varargs }}|{{ kwargs }}|
{{ lipsum is defined }} {{ cycler is defined }} {{ joiner is callable }} {{ dict is callable }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 9223372036854775807 == 9223372036854775807.0 }} {{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 < 9007199254740994.0 }}
{{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ (1e308 * 10) - (1e308 * 10) }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 1e22 }} {{ 1e21 + 1 }} {{ 123456789012345680.0 }} {{ 0.00001 }} {{ 0.0001 }} {{ 1e15 }} {{ 1.5e-7 }} {{ 100000.0 * 3 }}
{{ x | default(y | default('z')) }} {{ (x or y or 'w') }} {{ people[0].tags[0] }} {{ people[1].tags }}| {{ people[1].tags | default('nt') }} {{ people[-1]['name'][0] }} {{ (people | last).name }} {{ people | map(attribute='name') | join(', ') | upper }} {{ people | selectattr('name', 'equalto', 'Ann') | list | first | attr('name') }}|
{{ [1, 2, 3] | map('multiply', 2) | list }}
{{ people | map('tojson') | join('\n') }} {{ people | map('length') | list }} {{ names | map('first') | join }} {{ [d] | map('items') | map('list') | list }} {{ [[3, 1]] | map('sort') | list }} {{ ['a b'] | map('split') | list }}
{{ names | map('trim') | map('title') | list }} {{ [0, 1] | map('string') | join }} {{ [' a '] | map('trim') | list }} {{ l | map('abs') | sum }} {{ ['x'] | map('format', 1) | list }}
{{ items }} {{ m }} {{ s.upper().lower().title().split(' ')[0].strip('H') }} {{ w.split() | map('upper') | join('_') }} {{ s[::-1] | upper }} {{ s | replace('World', 'x') | replace(',', ';') }} {{ s.split(', ') | last }}
"""


def hand_cases():
    block = []
    # A line that starts with "{" or text is a case; the few with line breaks inside are listed below.
    for line in HAND.strip("\n").split("\n"):
        row = case(line, VARIABLES)
        if row is not None:
            block.append(row)
    for text in MULTILINE:
        row = case(text, VARIABLES)
        if row is not None:
            block.append(row)
    return block


MULTILINE = [
    "{% for x in l %}\n{{ x }}\n{% endfor %}\n", "{% for x in l %}\r\n{{ x }}\r\n{% endfor %}\r\n", "a\rb\r\nc\nd\r", "a\n\n", "a\n", "\n", "", "\n\n\na",
    "  {% if t %}\n    x\n  {% endif %}\ny", "  {%+ if t %}\n    x\n  {%+ endif %}\ny", "{% if t +%}\nx\n{% endif +%}\ny", "a\n   {# c #}\n   b", "a\n   {#- c #}\n   b",
    "a\n   {#+ c #}\n   b", "a\n   {# c -#}\n   b", "a\n   {# c +#}\n   b", "a\n  {{ 1 }}\n  b", "a\n  {{- 1 }}\n  b", "a\n  {{ 1 -}}\n  b", "a\n  {{+ 1 }}\n  b", "a  {%- if t -%}\n\n b {%- endif -%}\n\n c",
    "a\n\t {% if t %}\n\t b\n\t {% endif %}\n c", "x {% if t %}\ny{% endif %}\nz", "{% raw %}\n a\n{% endraw %}\nb", "  {% raw %}\n a\n  {% endraw %}\nb", "{% raw -%}\n a\n{%- endraw %}\nb", "a\n  {%- raw %}\n b {% endraw -%}\n c",
    "{% set x = [\n  1,\n  2\n] %}{{ x }}", "{{ {\n'a': 1\n}['a'] }}", "{%\nif t\n%}x{%\nendif\n%}", "{% if t %}\n{% if no %}\n{% else %}\n  a\n{% endif %}\n{% endif %}\n",
    "a {# c\n c #}\n b", "{#\n#}\n\n{##}x{#-#}y{#- -#} z", "{% macro m() %}\n  a\n{% endmacro %}\n[{{ m() }}]", "{% macro m() -%}\n  a\n{%- endmacro %}\n[{{ m() }}]", "{% set x %}\n a\n{% endset %}\n[{{ x }}]",
    "{% for x in l %}{% if x == 1 %}\n one\n{% else %}\n other {{ x }}\n{% endif %}{% endfor %}", "  a  \n  {% for x in l -%}\n    {{ x }},\n  {%- endfor %}\n  b", "{{ 'a\\\nb' }}", "{{ 'a\r\nb' }}", "\u00a0{% if t %}x{% endif %}", "a\n\u3000{% if t %}x{% endif %}\u3000",
    "{%- if t -%}\u00a0x\u2003{%- endif -%}", "{% if t %}a{% endif %}\n\n{% if t %}b{% endif %}\n\n\nc", "{{ 1 }}\n{{ 2 }}\n", "{% filter upper %}\na\n{% endfilter %}\nb", "{% generation %}\na\n{% endgeneration %}\nb", "{% call(x) m() %}{% endcall %}",
    "{% raw %}{% raw %}{% endraw %}x", "{%raw%}a{%endraw%}", "{%-raw%} a{%endraw-%} b", "{% rawx %}", "{% if t: %}x{% endif %}", "{% for x in l: %}x{% endfor %}", "{{ 1;2 }}", "{% if t %}{% endif %}{% endif %}", "{{ 'é' ~ \"日\" }}日{{ 1 }}é", "{% set é = 1 %}{{ é }}",
    "{{ 1 }} {{ '{{ 1 }}' }} {%raw%}{{ 1 }}{%endraw%}", "{{\"\\\"\"}}{{'\\''}}", "{% set ns = namespace() %}{% set ns.a = [] %}{% for x in l %}{% set ns.a = ns.a + [x * 2] %}{% endfor %}{{ ns.a }}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}{% for i in [1] %}{% set x = 3 %}{{ x }}{% endfor %}{{ x }}", "{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}|", "{% set s = s ~ '!' %}{{ s }}", "{% for s in [s] %}{{ s }}{% endfor %}{{ s }}",
    "{% macro m(s) %}{% set s = s ~ 1 %}{{ s }}{% endmacro %}{{ m(2) }}{{ s }}", "{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(1) }}", "{% for x in l %}{% for y in l if y != x %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% for x in l | sort %}{{ x }}{% endfor %}{% for x in l | select('odd') %}{{ loop.index }}/{{ loop.length }}{% endfor %}",
    "{% set g = l | map('string') %}{{ g | join(',') }}|{{ g | join(',') }}", "{% set g = l | select('odd') %}{% for x in g %}{{ x }}{% endfor %}{% for x in g %}{{ x }}{% else %}gone{% endfor %}{% if g %}truthy{% endif %}", "{% set r = l | reverse %}{{ r | list }}{{ r | list }}",
]


# Templates nobody thought of: random expressions and statements over VARIABLES.

class Maker:
    FILTERS = ["upper", "lower", "title", "trim", "capitalize", "length", "first", "last", "list", "string", "int",
               "float", "abs", "round", "sort", "reverse", "join", "join(', ')", "default('D')", "d('D', true)",
               "tojson", "tojson(indent=2)", "unique | list", "sum", "min", "max", "map('string') | list",
               "map('upper') | join('/')", "select | list", "reject('none') | list", "items | list", "dictsort",
               "replace('a', 'b')", "replace('l', '')", "indent(2)", "e", "safe", "wordcount", "batch(2) | list",
               "select('string') | list", "map(attribute='name') | list", "selectattr('age') | list | length",
               "map('length') | list", "truncate(8)", "center(9)", "count", "slice(2) | list", "urlencode",
               "sort(reverse=true)", "sort(case_sensitive=true)", "map('first') | list", "forceescape"]
    TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
             "boolean", "true", "false", "callable", "odd", "even", "divisibleby 2", "eq 1", "ne 'a'", "lt 3", "gt 0",
             "in [1, 'a']", "upper", "lower", "sameas none"]
    METHODS = ["upper()", "lower()", "strip()", "lstrip()", "rstrip()", "split()", "split(',')", "title()",
               "startswith('H')", "endswith('d')", "replace('l', 'L')", "find('o')", "items()", "keys() | list",
               "get('a')", "get('zz', 1)", "values() | list", "count('a')", "index(1)", "splitlines()", "isdigit()",
               "join(['x', 'y'])", "capitalize()", "zfill(5)", "strip('Hd')", "rsplit('o', 1)", "format(1)",
               "append(1)", "update({})", "isalpha()", "swapcase()", "partition('l')", "islower()"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]
    LITERALS = ["0", "1", "2", "-1", "3.5", "0.5", "'a'", "''", "'Hello'", "true", "false", "none", "[]", "[1, 2]", "{}",
                "{'a': 1}", "(1, 2)", "\"it's\"", "10", "1e3", "['b', 'A']", "'x,y'", "range(3)", "[[1, 2], [3, 4]]"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = [name for name in VARIABLES if name != "big"] + ["zz"]

    def pick(self, choices):
        return self.random.choice(choices)

    def expression(self, depth):
        r = self.random.random()
        if depth <= 0 or r < 0.14:
            return self.pick(self.names) if self.random.random() < 0.6 else self.pick(self.LITERALS)
        a = self.expression(depth - 1)
        if r < 0.34:
            return f"{a} | {self.pick(self.FILTERS)}"
        if r < 0.42:
            return f"({a}) is {self.pick(['', '', 'not '])}{self.pick(self.TESTS)}"
        if r < 0.52:
            return f"({a}).{self.pick(self.METHODS)}"
        if r < 0.60:
            # Of names only: slices of constants are computed while compiling, by other rules.
            a = self.pick(self.names)
            return f"({a})[{self.pick(['0', '-1', '1:', ':2', '::-1', '1', ':-1', '::2', repr('a'), '-2:', repr('name'), '5'])}]"
        if r < 0.64:
            return f"({a}).{self.pick(['a', 'name', 'x', 'b', 'role', 'items', 'zz', 'upper'])}"
        if r < 0.68:
            return f"{self.pick(['not ', '-', '+'])}({a})"
        b = self.expression(depth - 1)
        if r < 0.90:
            form = self.pick(["{} {} {}", "({}) {} ({})"])
            return form.format(a, self.pick(self.BINARY), b)
        if r < 0.95:
            return f"{a} if {b} else {self.expression(depth - 1)}"
        return self.pick([f"[{a}, {b}]", f"({a}, {b})", f"{{'k': {a}, 'l': {b}}}"])

    def space(self):
        return self.pick(["", "", " ", "\n", "  \n", "\n  ", " x ", "\n\n"])

    def tag(self, body):
        return "{%" + self.pick(["", "", "-", "+"]) + " " + body + " " + self.pick(["", "", "-", "+"]) + "%}"

    def block(self, depth):
        return "".join(self.statement(depth) + self.space() for _ in range(self.random.randint(1, 3)))

    def statement(self, depth):
        r = self.random.random()
        e = self.expression(2)
        if depth <= 0 or r < 0.35:
            return "{{" + self.pick(["", "-"]) + " " + e + " " + self.pick(["", "-"]) + "}}"
        if r < 0.5:
            rest = self.tag("else") + self.block(depth - 1) if self.random.random() < 0.5 else ""
            return self.tag("if " + self.expression(2)) + self.space() + self.block(depth - 1) + rest + self.tag("endif")
        if r < 0.68:
            over = self.pick(["l", "names", "d", "people", "s", "mixed", "nested", "range(4)", "d.items()", "e", "zz", "people | map(attribute='name')"])
            cond = " if " + self.expression(1) if self.random.random() < 0.2 else ""
            inner = self.pick(["{{ x }}", "{{ loop.index }}{{ x }}", "{{ loop.last }}", "{% set c = x %}{{ c }}", "{% if loop.first %}{% continue %}{% endif %}{{ x }}", "{% if loop.index > 2 %}{% break %}{% endif %}"])
            return self.tag(f"for x in {over}{cond}") + inner + self.block(depth - 1) + self.tag("endfor")
        if r < 0.8:
            name = self.pick(["v", "s", "l", "i"])
            return self.tag(f"set {name} = {e}") + "{{ " + name + " }}"
        if r < 0.86:
            return self.tag("set v") + self.block(depth - 1) + self.tag("endset") + "[{{ v }}]"
        if r < 0.92:
            return self.tag("macro m(a, b=1)") + self.block(depth - 1) + "{{ a }}{{ b }}" + self.tag("endmacro") + "{{ m(" + e + ") }}"
        if r < 0.96:
            return self.tag("filter upper") + self.block(depth - 1) + self.tag("endfilter")
        return "{#" + self.pick(["", "-"]) + " c " + self.pick(["", "-"]) + "#}"


def random_cases(seed, count):
    maker = Maker(seed)
    rows = []
    while len(rows) < count:
        if maker.random.random() < 0.6:
            text = "{{ " + maker.expression(maker.random.randint(1, 4)) + " }}"
        else:
            text = maker.space() + maker.block(2)
        row = case(text, VARIABLES)
        # Errors teach less: keep a third of them.
        if row is None or ("error" in row and maker.random.random() < 0.67):
            continue
        rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1500, help="random cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=str(CHAT / "vectors.json"))
    options = parser.parse_args()
    hand = hand_cases()
    chats = list(chat_cases())
    rows = hand + random_cases(options.seed, options.count)
    for row in rows:  # the variables are written once
        row.pop("variables", None)
    out = {"about": f"jinja2 {jinja2.__version__}; made by tools/make_chat_vectors.py", "variables": VARIABLES,
           "chats": chats, "cases": rows}
    lines = ["{", f'"about": {json.dumps(out["about"])},', f'"variables": {json.dumps(VARIABLES)},', '"chats": [']
    lines.append(",\n".join(json.dumps(row, ensure_ascii=True) for row in chats))
    lines.append('],\n"cases": [')
    lines.append(",\n".join(json.dumps(row, ensure_ascii=True) for row in rows))
    lines.append("]\n}\n")
    pathlib.Path(options.out).write_text("\n".join(lines), encoding="utf-8")
    print(f"{len(hand)} written cases, {len(rows) - len(hand)} random ones, {len(chats)} chats")


if __name__ == "__main__":
    main()
