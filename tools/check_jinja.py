#!/usr/bin/env python3
"""Compares our template interpreter with Python's jinja2 under the settings of the transformers library.

    tools/check_jinja.py --tool build/release/tests/text/jinja_tool [--random 3000] [--seed 1] [--templates FOLDER]

Hand-written templates for each feature, then random ones; --templates adds a folder of published templates, each rendered
on random conversations. Both sides must print the same text, or both must refuse.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from make_chat_prompts import Maker

X = {"d": {"a": 1, "b": [1, 2, {"c": None}], "items": "own"}, "l": [3, 1, 2], "s": "aBc é😀", "n": None, "f": 1.5,
     "t": True, "e": [], "u": [{"k": 1, "v": "x"}, {"k": 2}, {"k": 1, "v": "y"}], "big": 123456789012345678901234567890}

HAND = r"""
{{ 'a' if s is string else 'c' }}|{{ 'x' if false }}|{{ 1 if n else 2 if t else 3 }}
{{ 1 is divisibleby 3 }} {{ 9 is divisibleby(3) }} {{ not x is defined }} {{ x is not defined }} {{ n is none }}
{{ 2 + 3 is string }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -1|abs }} {{ (-1)|abs }} {{ +f }} {{ - f }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 }} {{ 'a' ~ (1 + 2) }} {{ 'a' ~ 1 + 2 }}
{{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ 1 < 'a' }}
{{ d['items'] }} {{ d.a }} {{ d['b'][2].c }} {{ d.b.0 }} {{ d.b.2.c is none }} {{ d.zz }} {{ d.zz is defined }}
{{ d.zz.y }}
{{ zz.y }}
{{ n.y }}|{{ n.y is defined }}|{{ s.zz }}|{{ s.0 }}|{{ e.0 }}|{{ e.0 is defined }}
{% for a in zz %}{{a}}{% else %}E{% endfor %} {{ 'a' in zz }} {{ zz + 'a' }}
{{ zz ~ 'a' }} {{ zz|length }} {{ zz|default('d') }} {{ ''|default('d') }} {{ ''|default('d', true) }} {{ zz or 'd' }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1,'a',none,true,1.5,{'k':'v\n'}] }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }} {{ {'a':(1,2),3:4} }}
{{ ['it\'s', 'q"', "both'\"", 'é\u200b\x01\\'] }}
{% set x = 1 %}{% for i in [1,2] %}{{x}}{% set x = 5 %}{{x}}{% endfor %}{{x}}
{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{x}}
{% for i in l %}{% for i in [7] %}{{i}}{% endfor %}{{i}}{% endfor %}
{% macro m(a, b=a) %}{{a}}{{b}}{% endmacro %}{{ m(1) }}{{ m(1,2) }}{{ m(b=3,a=4) }}
{% macro m(a) %}{{a}}{{varargs}}{{kwargs}}{% endmacro %}{{ m(1,2,z=3) }}
{% macro m(a) %}{{a}}{% endmacro %}{{ m(1,2) }}
{% macro m(a) %}{{a}}{% endmacro %}{{ m(z=2) }}
{% macro m(a) %}{{a is defined}}{% endmacro %}{{ m() }}
{% macro m() %}[{{ caller(3) }}]{% endmacro %}{% call(x) m() %}<{{x}}>{% endcall %}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ y }}{% endmacro %}{% set y = 1 %}{{ a() }}
{% if t %}{% macro q() %}Q{% endmacro %}{% endif %}{{ q() }}{{ q() == 'Q' }}{{ 'yes' if q() else 'no' }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ x }}{% endmacro %}{% for x in [1,2] %}{{ m() }}{% endfor %}|{% set x = 9 %}{{ m() }}
{{ 10 // 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2**-1 }} {{ 1e3 }} {{ 1_000 }} {{0x1f}} {{0b11}} {{0o17}} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ '%s-%d' % ('a', 3) }} {{ '%s' % l }} {{ '%5s|%-5s|%05d|%.2f|%r' % ('a','b',3,1.005,'q') }} {{ 'a%%' % () }}
{{ s[1] }}{{ s[-1] }}{{ s[9] }}|{{ s[::-1] }}{{ l[1:] }}{{ s[1:4] }}{{ l[-2:] }}{{ l[:-1] }}{{ l[::2] }}{{ s[4:1:-1] }}{{ l[5:] }}
{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns }}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}
{% set x %}a{{1}}{% endset %}{{x}}{% set y|upper|replace('B','-') %}abc{% endset %}{{y}}
{% set a, b = 1, 2 %}{{a}}{{b}}{{ 1, 2 }}{% set (c, g) = [3, 4] %}{{ c }}{{ g }}
{% for k, v in d.items() %}{{loop.index}}{{k}}{{v}}{% if loop.last %}.{% endif %}{% endfor %}
{% for x in [1,2,3,4] if x is even %}{{loop.index}}/{{loop.length}}:{{x}} {{loop.previtem}} {{loop.nextitem}} {{loop.revindex}}{{loop.revindex0}}{{loop.first}}{{loop.index0}}{% endfor %}
{% for x in l %}{{ loop.cycle('a','b') }}{{ loop.changed(x > 1) }}{% endfor %}
{{ range(3)|list }} {{ range(1,5,2)|list }} {{ range(5,1,-2)|list }} {% for i in range(2) %}{{i}}{% endfor %}
{{ d|length }} {{ s|length }} {{ l|count }} {{ l|first }} {{ l|last }} {{ e|first }}|{{ s|first }}{{ s|last }}
{{ l|sort }} {{ ['b','A','a']|sort }} {{ ['b','A']|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ u|sort(attribute='k') }}
{{ {'b':1,'A':2}|dictsort }} {{ {'b':1,'A':2}|dictsort(by='value', reverse=true) }} {{ l|join(', ') }} {{ u|join('-', attribute='k') }} {{ [1,1,2,'a','A']|unique|list }}
{{ 'a b-c d'|title }} {{ "it's"|title }} {{ "it's".title() }} {{ 'ÀB'|capitalize }} {{ s|upper }} {{ s|lower }} {{ 'straße'|upper }}
{{ u|selectattr('v')|list }} {{ u|selectattr('k','equalto',2)|list }} {{ u|map(attribute='k')|list }} {{ u|map(attribute='v', default='-')|list }} {{ ['a']|map('upper')|join }} {{ u|rejectattr('v', 'defined')|list }} {{ l|select('odd')|list }} {{ l|reject('gt', 1)|list }} {{ [0,1]|select|list }}
{{ '3'|int + 1 }} {{ 'x'|int }} {{ '3.7'|int }} {{ ' 5 '|int(9) }} {{ 'x'|int(9) }} {{ '1.5'|float }} {{ 'x'|float }} {{ 2.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(0,'ceil') }} {{ 3|string + 'a' }} {{ 3.9|int }} {{ true|int }}
{{ zz() }}
{{ d.foo() }}
{{ 'a\nb\n\nc'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(1, blank=true) }}
{{ t and 3 }} {{ 0 or 'x' }} {{ not 1 }} {{ true == 1 }} {{ none == false }} {{ n and zz }} {{ zz and 1 }}
{{ {'a':1,}|tojson }} {{ d|tojson }} {{ {'b':[1,2],'a':'é"<&'}|tojson(indent=2) }} {{ {'b':1,'a':2}|tojson(sort_keys=true) }} {{ [1,{}]|tojson(separators=(',',':')) }} {{ {1:2,none:3,true:4}|tojson }} {{ 'é😀'|tojson(ensure_ascii=true) }} {{ []|tojson(indent=1) }} {{ f|tojson }} {{ big|tojson }}
{{ zz|tojson }}
{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 'a' is sequence }} {{ {} is sequence }} {{ {} is iterable }} {{ zz is iterable }} {{ 1 is iterable }} {{ true is boolean}} {{ f is float }} {{ d is mapping }} {{ l is mapping }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is true }} {{ t is true }} {{ s is in ['x', s] }} {{ 3 is eq 3 }} {{ 3 is ne(3) }} {{ l is sameas l }}
{% for x in 'ab' %}{{x}},{% endfor %}{% for k in d %}{{k}}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1,2],[3,4]] %}{{a}}{{b}}{% endfor %}
{% for a, b in [[1,2,3]] %}{{a}}{% endfor %}
{{ 'a'*3 }}{{ [1]*2 }}{{ [1]+[2] }}{{ (1,)+(2,) }}{{ 2*'b' }}
{{ 'ab'.startswith(('a','c')) }} {{ 'a,b,c'.split(',',1) }} {{ ' a  b '.split() }} {{ 'a b c'.split(none, 1) }} {{ 'a,b,c'.rsplit(',',1) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'xaxb'.strip('xb') }} {{ 'xax'.lstrip('x') }} {{ 'xax'.rstrip('x') }} {{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'aXbX'.replace('X','y',1) }} {{ 'abc'.replace('','-') }} {{ 'a\nb\r\nc'.splitlines() }} {{ '-'.join(['a','b']) }} {{ 'aaa'.count('a') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ '12'.isdigit() }} {{ ' '.isspace() }} {{ 'abc'.index('b') }} {{ 'aB'.upper() }}{{ 'aB'.lower() }}{{ 'aB'.capitalize() }} {{ 'a'.endswith('a') }}
{{ ''.split(',') }} {{ ''.split() }} {{ 'a'.split('') }}
{{ [1,2].append(3) }}
{{ d.get('zz') }} {{ d.get('zz', 3) }} {{ d.get('a') }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items()|list }} {{ d|items|list }} {{ {'x':1}.update({'y':2}) }}
{{ l.index(1) }} {{ l.count(1) }} {{ l|reverse|list }} {{ 'abc'|reverse }} {{ [1,[2,3]]|string }} {{ l|sum }} {{ l|max }} {{ l|min }} {{ u|sum(attribute='k') }} {{ e|max }}|
{% if x %}a{% elif y is defined %}b{% elif t %}d{% else %}c{% endif %}
{% filter upper %}ab{{ s }}{% endfilter %}{% with a=1, b=2 %}{{a}}{{b}}{% endwith %}{{a}}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ big }} {{ big == big }} {{ -0.0 }} {{ 100000000000000000000 }}
{{ 'a' 'b' }} {{ "\"" }} {{ '\'' }} {{ '\\n' }} {{ '\t|\x41|\u00e9|\101|\q' }}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{i}}{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{{ x.__class__ }}|{{ ''.__class__ }}|{{ ''.__class__.__mro__ }}
{{ 'x'|list }} {{ d|list }} {{ [[1,2],[3]]|map('length')|list }} {{ l|batch(2)|list }} {{ [1,2,3]|batch(2,'-')|list }} {{ '<a&"\'>'|e }} {{ '%s!'|format('x') }} {{ d|attr('a') }}
{{ raise_exception('no') }}
{% raw %}{{ x }}{% endraw %}{# c #}{#- d -#}  y
{{ dict(a=1, b=2) }}
{% set d2 = dict(d, z=1) %}{{ d2.z }}{{ d2.a }} {{ 'a' in d2 }} {{ 'zz' not in d2 }} {{ not 'a' in d2 }} {{ 1 in [1.0] }} {{ 'b' in 'abc' }} {{ 3 in l and 4 not in l }}
{{ (l|length) > 2 and (s|length) }} {{ l|length > 2 }} {{ [l|length] }} {{ (1, 2)[0] }} {{ {'a': {'b': [1]}}['a'].b[0] }} {{ [d.a, d['a']] }}
{{ loop }}|{{ varargs }}
{% foo %}
{{ 1 +  }}
{{ 'a' | nosuch }}
{{ 1 is nosuch }}
{% if t %}
{% endif %}{% endfor %}
{{ (1 }}
{% break %}
{% set x = 3 %}{{ x if x > 2 else 0 }}{{ -x }}{{ x - 1 }}{{ x-1 }}{{ x -1 }}
{%- set a = 'x' -%}{{- a -}}{%- if a -%} y {%- endif -%}
"""

SPACE = ["  {% if true %}\n  a\n  {% endif %}\nb\n", "a {{- ' b ' -}} c\n\n", "a {%+ if true %} b{% endif +%}\n c",
         "{# c #}\nx{#- d -#}  y", "{%- if true -%}\n\n x \n\n{%- endif -%}\n y", "a\n{% if true %}\nb\n{% endif %}\nc",
         "\t{% set x = 1 %}\n  {{ x }}\n  {# c #}\n  {#- e #}\n z", "x\r\n{% if true %}\r\ny\r{% endif %}\r\n", "\n\n{{ 1 }}\n\n",
         "  {%- raw %}\n {{ }} {% endraw %}\n  q", "  {% raw -%}\n {{ }} {%- endraw %}\n  q", "a{{ 1 }}{% if true %}  {% endif %} b",
         "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n", "{% for i in [1,2] %}\n  {{ i }} {% if i == 1 %}\n x\n {% endif %}\n{% endfor %}\nend"]


def environment():
    out = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def refuse(message):
        raise TemplateError(message)

    out.filters["tojson"] = tojson
    out.globals["raise_exception"] = refuse
    return out


class RandomTemplates:
    """Well-formed templates whose value may still be an error."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def atom(self):
        return self.r.choice(["1", "0", "-3", "2.5", "'ab'", "''", "' x '", "none", "true", "false", "d", "l", "s", "n", "f",
                              "e", "u", "zz", "d.a", "d.b", "u[0]", "u[1].v", "l[0]", "s[1]", "[1, 'a']", "{'k': 1}", "(1, 2)"])

    def expression(self, depth=0):
        if depth > 3 or self.r.random() < 0.25:
            return self.atom()
        sub = lambda: self.expression(depth + 1)
        kind = self.r.randrange(11)
        if kind == 0:
            return f"({sub()} {self.r.choice(['+', '-', '*', '//', '%', '~', '/'])} {sub()})"
        if kind == 1:
            return f"({sub()} {self.r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()})"
        if kind == 2:
            return f"({sub()} {self.r.choice(['and', 'or'])} {sub()})"
        if kind == 3:
            return f"(not {sub()})"
        if kind == 4:
            return f"({sub()} if {sub()} else {sub()})"
        if kind == 5:
            test = self.r.choice(["defined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean", "integer",
                                  "float", "undefined", "true", "false", "odd", "even"])
            return f"({sub()} is {self.r.choice(['', 'not '])}{test})"
        if kind == 6:
            name = self.r.choice(["length", "first", "last", "upper", "lower", "capitalize", "title", "trim", "string", "int", "float", "list",
                                  "tojson", "sort", "unique", "reverse", "join('-')", "default('q')", "sum", "max", "min", "abs", "items",
                                  "map('string')", "select", "selectattr('k')", "map(attribute='k')", "replace('a', 'b')", "dictsort",
                                  "tojson(indent=2)", "e", "round", "batch(2)", "indent(2)"])
            tail = "|list" if name.split("(")[0] in ("unique", "map", "select", "selectattr", "batch", "items") else ""
            return f"({sub()}|{name}{tail})" if name != "reverse" else f"({sub()}|reverse|string|length > 0)"
        if kind == 7:
            return f"{self.atom()}[{sub()}]"
        if kind == 8:
            name = self.r.choice(["split()", "split('a')", "strip()", "upper()", "startswith('a')", "endswith('b')", "get('a')",
                                  "replace('b', 'c')", "title()", "find('b')", "zz", "a", "k", "0", "join(['p', 'q'])", "count('a')",
                                  "lstrip('a')", "splitlines()", "index(1)"])
            return f"{self.atom()}.{name}"
        if kind == 9:
            part = lambda: self.r.choice(["", "1", "-1", "2", "0"])
            # Of what cannot be sliced jinja2 makes an error or undefined, depending on how it compiled it.
            base = self.r.choice(["'ab'", "' x '", "l", "s", "e", "u", "d.b", "[1, 'a']", "(1, 2)", "''"])
            return f"{base}[{part()}:{part()}{self.r.choice(['', ':', ':-1', ':2'])}]"
        return self.atom()

    def statement(self, depth=0):
        kind = self.r.randrange(7)
        body = lambda: "".join(self.statement(depth + 1) for _ in range(self.r.randrange(3))) if depth < 2 else "."
        sign = lambda: self.r.choice(["", "", "", "-"])
        space = self.r.choice(["", " ", "\n", "\n  ", " \n"])
        if kind == 0:
            return f"{space}{{%{sign()} if {self.expression()} {sign()}%}}{body()}{{%{sign()} else {sign()}%}}{body()}{space}{{%{sign()} endif {sign()}%}}"
        if kind == 1:
            return f"{space}{{%{sign()} for x in {self.atom()} %}}{{{{ loop.index }}}}{{{{ x }}}}{body()}{{% else %}}none{{%{sign()} endfor {sign()}%}}"
        if kind == 2:
            return f"{space}{{%{sign()} set {self.r.choice(['zz', 'y', 'x'])} = {self.expression()} {sign()}%}}"
        if kind == 3:
            return space + self.r.choice(["text", " a b ", "\n", "{# c #}", "é"])
        return f"{space}{{{{{sign()} {self.expression()} {sign()}}}}}"

    def template(self):
        return "".join(self.statement() for _ in range(self.r.randrange(1, 4)))


def conversations(seed, count):
    """Variables as a chat template is given them."""
    maker = Maker(seed)
    r = random.Random(seed)
    for _ in range(count):
        messages = []
        for turn in range(r.randrange(1, 6)):
            role = r.choice(["system", "user", "user", "assistant", "assistant", "tool"]) if turn else "user"
            message = {"role": role, "content": maker.text()}
            if role == "assistant" and r.random() < 0.5:
                message["reasoning_content"] = maker.text()
            if role == "assistant" and r.random() < 0.4:
                message["tool_calls"] = [{"id": f"c{i}", "type": "function", "function": {
                    "name": "f", "arguments": {"a": maker.value(), "b": maker.text()}}} for i in range(r.randrange(1, 3))]
            messages.append(message)
        tools = [{"type": "function", "function": {"name": "f", "description": maker.text(), "parameters": {
            "type": "object", "properties": {"a": {"type": "string", "default": maker.value()}}}}}] if r.random() < 0.5 else None
        yield {"messages": messages, "tools": tools, "documents": None, "add_generation_prompt": r.random() < 0.7,
               "bos_token": "<s>", "eos_token": "</s>", **({"enable_thinking": r.random() < 0.5} if r.random() < 0.5 else {}),
               **({"reasoning_effort": r.choice(["low", "high"])} if r.random() < 0.3 else {})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, help="tests/text/jinja_tool")
    parser.add_argument("--random", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", type=Path)
    options = parser.parse_args()

    cases = [(line, X) for line in HAND.strip("\n").split("\n")] + [(text, {}) for text in SPACE]
    maker = RandomTemplates(options.seed)
    cases += [(maker.template(), X) for _ in range(options.random)]
    if options.templates:
        for path in sorted(options.templates.glob("*.jinja")):
            cases += [(path.read_text(encoding="utf-8"), variables) for variables in conversations(options.seed, 40)]

    lines = "".join(json.dumps({"template": text, "variables": variables}) + "\n" for text, variables in cases)
    run = subprocess.run([options.tool], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    jinja = environment()
    warnings.simplefilter("ignore", SyntaxWarning)
    different = refused = 0
    for (text, variables), answer in zip(cases, answers, strict=True):
        try:
            # A copy: jinja2's `+` can change the variables' lists.
            expected = {"text": jinja.from_string(text).render(**json.loads(json.dumps(variables)))}
        except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, SyntaxError) as error:
            expected = {"error": f"{type(error).__name__}: {error}"}
            refused += 1
        if answer.get("text") != expected.get("text"):
            different += 1
            if different <= 30:
                print(f"DIFFERENT {text[:300]!r}\n  jinja2 {str(expected)[:300]}\n  ours   {str(answer)[:300]}")
    print(f"{len(cases)} templates, {refused} refused by both or one, {different} different")
    return 1 if different or refused == len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
