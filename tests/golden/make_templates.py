#!/usr/bin/env python3
"""Makes templates/expressions.json and templates/chats.json: what transformers' Jinja writes.

    make_templates.py          (in an environment with requirements.txt)

expressions.json: [template, text] for templates of a line, or [template, null] where Jinja refuses it.
chats.json: for each template of templates/*.jinja, conversations with tools, documents and the text that
apply_chat_template renders, and the characters of {% generation %} blocks.
"""
import json, random
from pathlib import Path
import transformers.utils.chat_template_utils as hf

HERE = Path(__file__).parent / "templates"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
MESSAGES = [{"role": "user", "content": "Hi you"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "So: bye"}]

EXPRESSIONS = r"""
{{ 1 }} {{ 1.0 }} {{ 1e3 }} {{ 1e-05 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ -0.0 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [0] * 2 }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ true + true }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 }}
{{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == false }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': true} }} {{ (1,) == [1] }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 < 2 < 3 }} {{ 3 > 2 != 1 }}
{{ 'x' in 'xy' }} {{ 'x' not in ['y'] }} {{ 1 in (1, 2) }} {{ 'a' in {'a': 1} }} {{ not 1 in [1] }} {{ 1 and 'yes' }} {{ '' or 'other' }} {{ none and x }} {{ not '' }} {{ 0 or [] }}
{{ 'a' if true }} {{ 'b' if false }}| {{ 'c' if 0 else 'd' if '' else 'e' }} {{ (x is defined) if true }} {{ none }} {{ True }} {{ [none, True, 1.0, 'it\'s', "say \"x\"", 'b\\c'] }} {{ (1,) }} {{ () }} {{ {} }} {{ {'a': (1, 'b')} }}
{{ 'x\ty\n' }} {{ ['x\ty\n\x01\x7fé\u200b😀'] }} {{ 'a' 'b' }} {{ '\u20ac\101\x41\d' }} {{ "it's" }}
{{ missing }}| {{ missing is defined }} {{ messages[9] }}| {{ messages[0].nokey }}| {{ missing | length }} {{ missing | list }} {{ missing == other }} {{ not missing }} {{ 'x' in missing }} {{ none.x }}|
{{ missing.x }}
{{ missing + 1 }}
{{ missing['x'] }}
{{ messages[9].role }}
{{ missing() }}
{{ messages.__class__ }}|
{{ messages.__class__.__mro__ }}
{{ messages['__class__'] }}|
{{ 'a'.__len__() }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ [3, 1] < 2 }}
{{ messages[0].items() | list }}
{{ {'items': 1}['items'] }} {{ {'a': {'b': 2}}.a.b }} {{ {'a': {'b': 2}}['a']['b'] }} {{ {1: 'x'}[1] }} {{ {1: 'x'}[true] }} {{ {'1': 'y'}.1 }}| {{ [5, 6].1 }} {{ [5, 6][-1] }} {{ 'abc'[1] }} {{ 'añb'[-2] }} {{ (1, 2)[0] }}
{{ 'slices'[1:4] }} {{ 'slices'[:-2] }} {{ 'slices'[::-1] }} {{ 'slices'[10:] }}| {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3, 4][-1:0:-1] }} {{ (1, 2, 3)[1:] }} {{ messages[1:] | length }} {{ messages[::-1][0].content }} {{ 'añb'[1:] }} {{ [1, 2, 3][none:2] }}
{{ range(5) }} {{ range(2, 9, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(3)[1] }} {{ range(0) | list }}
{{ range(100001) | length }}
{{ dict(a=1, b='x') }} {{ dict([['k', 1], ['l', 2]]) }} {{ dict({'a': 1}, b=2) }} {{ namespace(a=1) }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }} {{ {'a': 1}.items() }}
{{ [1, 2].append(3) }}
{{ {'a': 1}.update({'b': 2}) }}
{{ {'a': 1}.pop('a') }}
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'c') }} {{ [1, 1, 2].count(1) }} {{ [1, 2].index(2) }} {{ (1, 2).index(2) }} {{ 'banana'.count('an') }} {{ 'banana'.index('n') }}
{{ '  x '.strip() }}|{{ '  x '.lstrip() }}|{{ '  x '.rstrip() }}|{{ 'xxyaxx'.strip('xy') }}|{{ 'abcab'.lstrip('ab') }}|{{ 'a\n\n'.rstrip('\n') }}|{{ ' x '.strip(none) }}|{{ ' x '.strip('') }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ ' a  b  c '.split(none, 1) }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b  c '.rsplit(none, 1) }} {{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('') if false }}
{{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('c') }} {{ 'abc'.startswith('b', 1) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ 'one two'.title() }} {{ "it's o'clock".title() }} {{ 'oNE tWO'.capitalize() }} {{ 'aB'.swapcase() }} {{ 'ÀÉ'.lower() }} {{ 'àé'.upper() }}
{{ 'añb'.find('b') }} {{ 'banana'.rfind('an') }} {{ 'banana'.find('an', 2) }} {{ 'banana'.find('x') }} {{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isspace() }} {{ 'ab1'.islower() }} {{ 'A B'.isupper() }} {{ '1'.isupper() }} {{ '-'.join(['a', 'b']) }} {{ '-7'.zfill(4) }} {{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '.') }}|{{ 'ab'.center(5, '*') }}|{{ 'abc'.center(6, '*') }}|{{ 'a-b'.removeprefix('a-') }} {{ 'a-b'.removesuffix('-b') }}
{{ '{} and {}'.format(1, 'b') }} {{ '{1}{0}{x}'.format(1, 2, x=3) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:%}|{!r}'.format(1, 'a', 'b', -42, 1.5, 1234567, 255, 0.5, 'q') }} {{ '{0.role} {0[content]}'.format(messages[0]) }} {{ '{{}}{}'.format(1) }}
{{ '%s has %d, %.2f, %5s|%-5s|%05d|%x|%r|%%' % ('it', 3, 1.5, 'a', 'b', 42, 255, 'q') }} {{ '%(a)s' % {'a': 1} }} {{ '%s' % 'one' }} {{ '%s' % [1] }} {{ '%d' % 3.7 }} {{ '%e' % 12345.678 }} {{ '%g' % 0.0001 }} {{ '%+d' % 5 }}
{{ '%s %s' % 'one' }}
{{ '%d' % 'x' }}
{{ 'x' % 1 }}
{{ [3, 1, 2] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ messages | sort(attribute='content') | map(attribute='content') | list }} {{ messages | sort(attribute='role,content') | map(attribute='content') | list }} {{ [[2, 'a'], [1, 'b']] | sort }}
{{ messages | map(attribute='role') | join('/') }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('length') | join(',') }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='content') | map('upper') | first }} {{ messages | selectattr('nokey') | list }} {{ messages | map(attribute='x', default='-') | join }} {{ [[1, [2]], [3, [4]]] | map(attribute='1.0') | list }}
{{ messages | map(attribute='role') | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ ['a', 'A'] | unique(case_sensitive=true) | list }} {{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 2, 3, 4] | reject('divisibleby', 2) | join(',') }} {{ [none, 1, '', 'x', 0, []] | select | list }} {{ [1, 2] | map('string') | list }} {{ ['a b'] | map('replace', ' ', '_') | list }}
{{ [1, 2, 3, 4, 5, 6, 7] | batch(3, 0) | list }} {{ [1, 2, 3, 4, 5, 6, 7] | batch(3) | list }} {{ [1, 2, 3, 4, 5, 6, 7] | slice(3) | list }} {{ [1, 2, 3, 4, 5, 6, 7] | slice(3, 'x') | list }}
{{ [1, 2.5] | sum }} {{ [] | sum }} {{ [{'a': 1}, {'a': 2}] | sum('a') }} {{ [[1], [2]] | sum(start=[]) }} {{ [4, 9, 2] | max }} {{ [4, 9, 2] | min }} {{ ['b', 'A'] | min }} {{ [] | max }}| {{ -3 | abs }} {{ 7.456 | round(1) }} {{ 2.5 | round }} {{ 3 | round }} {{ 7.2 | round(0, 'ceil') }} {{ 1234 | round(-2, 'floor') }} {{ 7.9 | int }} {{ -7.9 | int }} {{ '12' | int + 1 }} {{ 'x' | int(5) }} {{ '0x1F' | int(0, 16) }} {{ '1.9' | int }} {{ '1.5' | float * 2 }} {{ 'x' | float }} {{ true | int }} {{ none | int }}
{{ 'a word-or two' | title }}|{{ 'aBC dEF' | capitalize }}|{{ 'x' | upper }}|{{ 'QQ' | lower }}|{{ '  in  ' | trim }}|{{ '--a--' | trim('-') }}|{{ 'a-b-c' | replace('-', '+') }}|{{ 'a-b-c' | replace('-', '+', 1) }}|{{ 12 | replace(1, 3) }}|{{ 5 | string + '!' }}
{{ 'one two, three' | wordcount }} {{ 'abc' | reverse }} {{ [1, 2, 3] | reverse | list }} {{ 'abc' | list }} {{ 'abc' | first }}{{ 'abc' | last }} {{ [] | first }}| {{ 'line\nnext\n\nmore' | indent(2) }}|{{ 'line\nnext' | indent(2, true) }}|{{ 'a\n\nb' | indent('>>', blank=true) }}|{{ 'too long to keep' | truncate(9) }}|{{ 'too long to keep' | truncate(9, true) }}|{{ 'short' | truncate(3) }}|{{ 'too long to keep' | truncate(9, end='', leeway=0) }}|{{ 'mid' | center(9) }}|
{{ nothing | default('unset') }} {{ '' | default('empty') }}|{{ '' | default('empty', true) }} {{ none | default('none') }} {{ nothing | d('d') }} {{ nothing | default }}| {{ 0 | d(5, boolean=true) }}
{% for k, v in {'b': 2, 'a': 1, 'C': 3} | dictsort %}{{ k }}={{ v }} {% endfor %}{% for k, v in {'b': 2, 'a': 1} | items %}{{ k }}={{ v }} {% endfor %}{{ {'b': 2, 'a': 3} | dictsort(by='value', reverse=true) }} {{ {'b': 1, 'A': 1} | dictsort(true) }}
{% for g in messages | groupby('role') %}{{ g.grouper }}:{{ g.list | length }} {% endfor %}{% for role, some in messages | groupby('role') %}{{ role[0] }}{{ some | count }} {% endfor %}{{ [{'a': 'X'}, {'a': 'x'}, {}] | groupby('a', default='none') | map('first') | list }}
{{ {'a': [1, none, true], 'é': "<&>'"} | tojson }} {{ [1.0, 1e-05, 1e16, 0.1] | tojson }} {{ "tab\tquote\" \\ \u2028 \x01 \x7f" | tojson }} {{ {'z': 1, 'a': 2} | tojson(sort_keys=true) }} {{ {'z': ['ü😀\x7f']} | tojson(ensure_ascii=true) }} {{ {'a': [1, {}], 'b': []} | tojson(indent=2) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ {'a': [1]} | tojson(indent='\t') }} {{ (1, 'x') | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ [1] | tojson(indent=0) }} {{ {'a': 1, 'b': {'c': 2}} | tojson(indent=4, separators=(', ', '= ')) }}
{{ missing | tojson }}
{{ range(2) | tojson }}
{{ '<a> & "b" \'c\'' | e }} {{ 'a b/c&é' | urlencode }} {{ {'a b': 'c&d', 'e': 1} | urlencode }} {{ 1000000 | filesizeformat }} {{ 2048 | filesizeformat(true) }} {{ 1 | filesizeformat }} {{ 'x' | safe }} {{ "%s-%d" | format('a', 2) }} {{ messages[0] | attr('role') }}| {{ 'a' | attr('upper') is callable }}
{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 1 is lt 2 }}{{ 2 is ge 2 }}{{ 'a' is in 'cat' }}{{ none is sameas none }}{{ 'ABC' is upper }}{{ 'abc' is lower }}{{ '1' is lower }}{{ 'trim' is filter }}{{ 'odd' is test }}{{ 'nope' is filter }}{{ 5 is greaterthan 4 }}{{ 5 is not none }}{{ 1 is boolean }}{{ 1 is integer }}{{ true is integer }}{{ true is number }}{{ 1.0 is float }}
{{ 'x' is string and 'x' is iterable and 'x' is sequence }} {{ {} is mapping }} {{ {} is sequence }} {{ 1 is iterable }} {{ missing is iterable }} {{ missing is string }} {{ range is callable }} {{ [] is sequence }} {{ (1, 2) is sequence }} {{ [1] | map('abs') is iterable }} {{ [1] | map('abs') is sequence }} {{ 1 is true }} {{ true is true }} {{ messages is not string }}
{{ 1 | nofilter }}
{{ 1 is notest }}
{% if false %}{{ 1 | nofilter }}{{ 1 is notest }}{% endif %}ok{{ 1 | nofilter if false }}
{% if true %}{{ 1 | nofilter }}{% endif %}
{% for x in [] %}{{ 1 | nofilter }}{% endfor %}
{{ x is defined if true }}
{{ 1 is odd is even }}
{{ [1] | map('nofilter') | list }}
{{ messages | length(1) }}
{{ (messages | map('length')) | length }}
{{ [1, 2] | map('abs') | last }}
{% set g = [1, 2] | map('abs') %}{{ g | list }}{{ g | list }}
{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{{ 'F' if loop.first }}{{ 'L' if loop.last }}{{ loop.cycle('a', 'b') }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem is defined }}{{ loop.nextitem }}{{ loop.changed(x // 2) }}; {% endfor %}{{ loop is defined }}
{% for x in [] %}never{% else %}empty{% endfor %} {% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for a, (b, c) in [[1, [2, 3]], [4, [5, 6]]] %}{{ a + b * c }} {% endfor %}{% for k in {'x': 1, 'y': 2} %}{{ k }}{% endfor %}{% for c in 'añb' %}.{{ c }}{% endfor %}{% for x in missing %}x{% endfor %}{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}
{% for node in [{'n': 'a', 'c': [{'n': 'b', 'c': []}, {'n': 'c', 'c': [{'n': 'd', 'c': []}]}]}] recursive %} {{ loop.depth }}{{ node.n }}{% if node.c %}({{ loop(node.c) }}){% endif %}{% endfor %}
{% for x in [1] %}{{ loop([2]) }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% set n = 0 %}{% for i in range(3) %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}{% if true %}{% set n = 9 %}{% endif %}{{ n }}{% with n = 1, m = 2 %}{{ n + m }}{% set n = 5 %}{{ n }}{% endwith %}{{ n }}{{ m is defined }}
{% set ns = namespace(count=0, seen=[]) %}{% for i in range(2, 9, 3) %}{% set ns.count = ns.count + i %}{% set ns.seen = ns.seen + [i] %}{% endfor %}{{ ns.count }} {{ ns.seen }} {{ ns.nokey is defined }} {{ ns['count'] }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, %}{{ c }}{% set (d, e) = [3, 4] %}{{ d + e }}
{% set x.y = 1 %}
{% set d = {} %}{% set d.y = 1 %}
{% set true = 1 %}
{% set t %}a {{ 1 + 1 }}{% endset %}{{ t }}|{{ t is string }}{% set u | upper | trim %}  q {% endset %}{{ u }}|{% filter upper %}x{{ 'y' }}{% endfilter %}
{% macro m(a, b=2, c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(1, 3) }}{{ m() }}{{ m(a=7) }}{{ m.name }} {{ m.arguments }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k='v') }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro m() %}{{ x }}{{ y }}{% endmacro %}{% set x = 1 %}{% for y in [2] %}{{ m() }}{% endfor %}{% set x = 3 %}{{ m() }}
{% macro m(f) %}<{{ caller() }}|{{ caller() }}>{% endmacro %}{% call m(1) %}in{{ messages | length }}{% endcall %}
{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}{{ m(*['y']) }}{{ m(**{'a': 'z'}) }}
{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{{ raise_exception('No: ' ~ 1) }}
{{ strftime_now('%%') }}{{ strftime_now('%Y') | length }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}{% set j = joiner('; ') %}{{ j() }}1{{ j() }}2{{ j() }}3
{% include 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% extends 'x' %}
{% if false %}{% include 'x' %}{% endif %}fine
{% do x %}
{% nonsense %}
{% for x in [1] %}
{% if x %}
{{ x
{{ (1 }}
{{ 1) }}
{{ 'x }}
{{ }}
{{ 1 2 }}
{{ a. }}
{{ [1, }}
{{ {1} }}
{% endfor %}
{% if %}{% endif %}
{# never closed
{% raw %}{{ x }}
{{ 1 ? 2 }}
{% break %}
{{ '{{' }} {% raw %}{{ not run }} {% nor %}{% endraw %} {# gone #}x{#- gone -#} y
{{ {'a': {'b': {}}}}}|{{ {'a': 1}['a'] }}|{{ [[1, 2], [3]] | map('length') | list }}|{%- set x = 1 -%} {{ x }} {%- if x -%} yes {%- endif -%} !
{% generation %}a{{ 1 }}{% endgeneration %}b
{% with %}x{% endwith %}{% autoescape false %}<{% endautoescape %}{% print 1, 2 %}
{{ lower }}{{ loop }}|{{ true }}
{{ messages | selectattr('role', 'in', ['user', 'tool']) | list | length }} {{ messages | map('tojson') | join(';') }} {{ messages | selectattr('content', 'string') | list | length }} {{ (messages | first).role }} {{ messages[-1]['content'] | length }} {{ messages | selectattr('role', '==', 'user') | list | count }}
{{ 10 is lessthan(5) }} {{ [1, 2] is in [[1, 2]] }} {{ 'a' is not in ['b'] }} {{ -1 | abs }}
{{ '<b>' | safe + "it's" }} {{ "a'" + ('<i>' | e) }} {{ ('<' | safe) * 2 + '<' }} {{ ('<a' | safe)[0] + '<' }} {{ ('<a' | safe)[:1] + '<' }} {{ (' <' | safe | trim) + '>' }} {{ ('<a' | safe).upper() + '<' }} {{ ('<a' | safe | upper) + '<' }} {{ ('<' | safe) ~ '<' }} {{ '<' | e | e }} {{ '<' | e | forceescape }} {{ '<' | e is escaped }} {{ '<' is escaped }} {{ ('a<b' | safe).split('<')[1] + '&' }} {{ [('<' | safe), '>'] | join }} {{ 5 | safe + '<' }} {{ (('<' | safe) + {'a': "'"} | tojson) }} {{ ('<' | safe) == '<' }} {{ ('<a' | safe | title) + '<' }} {{ ('<a' | safe | replace('a', '<')) + '<' }}
{{ [none, none] | sort }} {{ messages | sort(attribute='nokey') | length }} {{ [messages[0]] | max == messages[0] }} {{ 'x' % [1] }}|{{ 'x' % messages[0] }}|{{ [1, 2] | truncate(9) }} {{ messages[0] | truncate(9) }} {{ [('<' | safe)] }}
{{ [none, 1] | sort }}
{{ messages[0] | indent }}
{{ messages | length | truncate(9) }}
{{ messages | truncate(3, leeway=0, end='') }}
{{ (messages | length)[1:] }}
{{ messages[0][1:] }}
{{ 1 if 2 is even else 3 }} {{ 'x' ~ ('y' if missing else 'z') }} {{ 2 * 3 ~ 'x' }} {{ not true and false }} {{ 1 if true else 2 if true else 3 }} {{ (1, 2, 3) | join('-') }} {{ 'ab' 'cd' | upper }}
""".strip("\n").split("\n")
SPACES = [
    "{% if true %}\n  in\n  {% endif %}\n\t{%- if true -%}   left\n   {%- endif %}   right {# c #}  \n  {# alone #}\n  {%+ if true %}kept{%+ endif %}\n  {{ 'e' }}  \n {{- 'eaten' -}} \n\n  after",
    "a\r\nb\rc\n{{ 'x\r\ny' }}\n\n", "{% set x = 1 %}\n\n  {% set y = 2 +%}\n{{ x }}{{ y }}\n", "  {% raw %}\n {{ x }} \n  {% endraw %}\nend", "\n{%- raw -%}  x  {%- endraw -%}  \ny",
    "x {#- a -#} y {#+ b +#}\nz  {# c #}\nw\n  {#- d #}\n", "{% for i in [1, 2] %}\n  - {{ i }}\n{% endfor %}\n{% for i in [1, 2] -%}\n  - {{ i }}\n{%- endfor +%}\n\t \n{#- eats #}\n tail", "{{ 1 }}\n  {{ 2 }}\n  {%- if true %}\n3{% endif %}\n",
    "  {% if true %}a{% endif %}  \n  b {% if true %}\nc{% endif %}", "{{ '{%' }}{%+ set x = 1 %}\n\n{{- x }}\u00a0 {%- set y = 2 %} \u2003{%- set z %}\n", "{%if true%}x{%endif%}{{1}}{{-1}}{{+1}}", "", "\n", "\n\n", " {# only #}\n", "{% raw %}{% endraw %}\n",
]

TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds \u00e9 & <b>.", "parameters": {"type": "object", "properties": {
    "a": {"type": "number"}, "b": {"type": ["number", "null"], "default": 1.0}, "items": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]}}},
    {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}]
WORDS = ["Two.", "  spaces  ", "line\nline\n", "\u00e7a \U0001f44d", "{{ x }}", "", "a <b> \"c\" 'd' \\ \t", "<think>\nhm\n</think>\n\nYes", "10% of 7"]


def chat(r):
    """A conversation of the kinds that templates look at: system, parts, calls and their results, thoughts."""
    m = [{"role": "system", "content": r.choice(WORDS)}] if r.random() < 0.4 else []
    for _ in range(r.randint(1, 3)):
        text = r.choice(WORDS)
        m.append({"role": "user", "content": [{"type": "text", "text": text}] if r.random() < 0.1 else text})
        if r.random() < 0.3:
            call = {"id": f"c{r.randint(1, 99)}", "type": "function", "function": {"name": "add", "arguments": r.choice([{"a": 1, "b": 2.5, "s": ["\u00e9"]}, {}])}}
            m.append({"role": "assistant", "content": r.choice([None, "", "Let me see."]), "tool_calls": [call] * r.randint(1, 2)})
            m.append({"role": "tool", "name": "add", "tool_call_id": call["id"], "content": r.choice(["42", "{\"x\": [1]}"])})
        m.append({"role": "assistant", "content": r.choice(WORDS), **({"reasoning_content": "hm"} if r.random() < 0.2 else {})})
    return m[:-1] if r.random() < 0.3 else m


def render(template, **variables):
    try:
        return hf._compile_jinja_template(template).render(**variables)
    except Exception:
        return None


def main():
    base = dict(messages=MESSAGES, tools=None, documents=None, add_generation_prompt=True, **SPECIAL)
    pairs = [[t, render(t, **base)] for t in EXPRESSIONS + SPACES]
    (HERE / "expressions.json").write_text("[\n" + ",\n".join(json.dumps(p) for p in pairs) + "\n]\n")
    chats, refused = [], 0
    for file in sorted(HERE.glob("*.jinja")):
        template, r, rows = file.read_bytes().decode(), random.Random(file.name), []
        for i in range(10):
            row = {"messages": chat(r), "tools": r.choice([None, TOOLS, TOOLS[:1]]), "documents": r.choice([None, [{"title": "T", "text": "x"}]]), "add_generation_prompt": r.random() < 0.5}
            try:
                (text,), spans = hf.render_jinja_template([row["messages"]], tools=row["tools"], documents=row["documents"], chat_template=template,
                                                          add_generation_prompt=row["add_generation_prompt"], return_assistant_tokens_mask=True, **SPECIAL)
            except Exception:
                text, spans, refused = None, [[]], refused + 1
            rows.append({**row, "text": text, "spans": spans[0]})
        chats.append({"template": file.name, "rows": rows})
    (HERE / "chats.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in chats) + "\n]\n")
    print(len(pairs), "expressions,", sum(p[1] is None for p in pairs), "refused;", len(chats), "templates,", refused, "rows refused")


if __name__ == "__main__":
    main()
