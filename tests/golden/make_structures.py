#!/usr/bin/env python3
"""Makes templates/structures.json: 50 chat templates built of the pieces that public models' templates are built of, 200
conversations, and for each pair a hash of what transformers' apply_chat_template writes.

    make_structures.py          (in an environment with requirements.txt)

templates: texts of ours. chats: messages, documents, add_generation_prompt, and how many of the tools (null: none is
given). hashes: for each template a text of four hexadecimal digits for each chat: the lower half of FNV-1a (32 bits)
over the UTF-8 of the rendering and then of the characters of its {% generation %} blocks ("3:17 20:21 "); "----" where
the template refuses the chat.
"""
import itertools, json, random
from pathlib import Path
import transformers.utils.chat_template_utils as hf

HERE = Path(__file__).parent / "templates"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}

# What stands before a message and behind it, where `role` is set; and what opens an answer.
FRAMES = {
    "chatml": ("'<|im_start|>' + role + '\\n'", "'<|im_end|>\\n'", "'<|im_start|>assistant\\n'"),
    "header": ("'<|start_header_id|>' ~ role ~ '<|end_header_id|>\\n\\n'", "'<|eot_id|>'", "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'"),
    "bars": ("'<|' ~ role ~ '|>\\n'", "'<|end|>\\n' if not loop.last else '<|end|>' ~ eos_token", "'<|assistant|>\\n'"),
    "turns": ("'<start_of_turn>' + ('model' if role == 'assistant' else role) + '\\n'", "'<end_of_turn>\\n'", "'<start_of_turn>model\\n'"),
    "inst": ("'' if role == 'assistant' else '[INST] '", "eos_token if role == 'assistant' else ' [/INST]'", "' '"),
    "role": ("'<|start_of_role|>%s<|end_of_role|>' % role", "eos_token + '\\n'", "'<|start_of_role|>assistant<|end_of_role|>'"),
    "wide": ("'<\uff5c{}\uff5c>'.format(role | capitalize)", "'<\uff5cend\u2581of\u2581turn\uff5c>'", "'<\uff5cAssistant\uff5c>'"),
    "words": ("{'user': '### Human: ', 'assistant': '### Assistant: '}.get(role, '### ' ~ role | title ~ ': ')", "'\\n\\n' if role != 'assistant' else eos_token ~ '\\n'", "'### Assistant:'"),
    "channel": ("'<|start|>' ~ role ~ ('<|channel|>final' if role == 'assistant') ~ '<|message|>'", "('<|return|>' if loop.last and role == 'assistant' else '<|end|>')", "'<|start|>assistant'"),
    "letters": ("role[0] | upper ~ '> '", "['\\n', '\\n\\n'][loop.index0 % 2]", "'A> '"),
}
SYSTEM = {
    "turn": "",
    "slice": "{%- if messages[0]['role'] == 'system' %}{%- set opening = messages[0]['content'] %}{%- set messages = messages[1:] %}{{- 'SYS: ' ~ opening ~ '\\n' }}{%- endif %}",
    "usual": "{%- if messages[0].role != 'system' %}{%- set opening %}\nYou are {{ model_name | default('a quarry', true) }}{% if tools and documents %}, with both{% elif tools %}, with tools{% endif %}.\n{%- endset %}{{- opening | trim ~ '\\n' }}{%- endif %}",
    "refused": "{%- if messages | selectattr('role', 'equalto', 'system') | list | length > 0 %}{{- raise_exception('no system message') }}{%- endif %}",
    "gathered": "{%- set ns = namespace(text='', first=true) %}{%- for m in messages %}{%- if m['role'] == 'system' %}{%- if ns.first %}{%- set ns.text = ns.text + m['content'] %}{%- set ns.first = false %}{%- else %}{%- set ns.text = ns.text + '\\n\\n' + m['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{- ns.text }}{%- set messages = messages | rejectattr('role', 'equalto', 'system') | list %}",
    "bos": "{{- bos_token }}{%- if not tools is defined %}{%- set tools = none %}{%- endif %}",
}
TOOLS = {
    "none": "",
    "lines": "{%- if tools %}{{- '# Tools\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- '\\n</tools>\\n' }}{%- endif %}",
    "indent": "{%- if tools is not none %}{{- 'Tools:\\n' }}{%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}{%- endif %}",
    "whole": "{%- if tools %}{{- '[TOOLS]' ~ tools | map(attribute='function') | list | tojson(separators=(',', ':'), sort_keys=true) ~ '[/TOOLS]' }}{%- endif %}",
    "python": "{%- macro type_of(spec) %}{%- set basic = {'string': 'str', 'number': 'float', 'integer': 'int', 'boolean': 'bool'} %}{%- if spec.type is string and basic[spec.type] is defined %}{{- basic[spec.type] }}{%- elif spec.type == 'array' %}{{- 'list[' + type_of(spec['items']) + ']' }}{%- elif spec.type == 'object' %}{{- 'dict' }}{%- elif spec.type is iterable and spec.type is not mapping %}{{- 'Union[' }}{%- for t in spec.type %}{{- type_of({'type': t}) }}{{- ',' if not loop.last }}{%- endfor %}{{- ']' }}{%- else %}{{- 'Any' }}{%- endif %}{%- endmacro %}{%- for tool in tools or [] %}{%- set tool = tool.function %}{{- 'def ' + tool.name + '(' }}{%- for name, spec in tool.parameters.properties | items %}{{- name + ': ' + type_of(spec) }}{{- ' = ' ~ spec.default if spec.default is defined }}{{- ', ' if not loop.last }}{%- endfor %}{{- '):\\n    ' + tool.description | default('?') | trim | indent(4) + '\\n' }}{%- endfor %}",
    "typescript": "{%- macro render(spec, depth=0) %}{%- if spec.type == 'array' %}{{- render(spec['items'], depth + 1) ~ '[]' }}{%- elif spec.type == 'object' %}{{- '{' }}{%- for name, inner in spec.properties.items() %}{{- '\\n' ~ '  ' * (depth + 1) ~ name ~ ('' if name in (spec.required or []) else '?') ~ ': ' ~ render(inner, depth + 1) ~ ',' }}{%- endfor %}{{- '\\n' ~ '  ' * depth ~ '}' }}{%- elif spec.type is string %}{{- spec.type }}{%- else %}{{- spec.type | join(' | ') }}{%- endif %}{%- endmacro %}{%- if tools %}{{- 'namespace functions {\\n' }}{%- for tool in tools %}{{- '// ' ~ tool.function.description | replace('\\n', ' ') ~ '\\ntype ' ~ tool.function.name ~ ' = (_: ' ~ render(tool.function.parameters) ~ ') => any;\\n' }}{%- endfor %}{{- '}\\n' }}{%- endif %}",
    "keys": "{%- for tool in tools or [] %}{%- set tool = tool.function %}{{- '{' }}{%- for key, val in tool.items() if key != 'parameters' %}{{- '\"' + key + '\": ' + (val | tojson) }}{{- ', ' if not loop.last else '}' }}{%- endfor %}{%- endfor %}",
    "documents": "{%- for d in documents or [] %}{{- 'Document ' ~ loop.index ~ ' of ' ~ loop.length ~ ': ' ~ d['title'] | upper ~ '\\n' ~ d.text | wordcount ~ ' words: ' ~ d.text ~ '\\n' }}{%- else %}{{- 'no documents\\n' }}{%- endfor %}",
}
CALLS = {
    "none": "",
    "json": "{%- for call in message.tool_calls or [] %}{%- if call.function is defined %}{%- set call = call.function %}{%- endif %}{{- '<tool_call>\\n{\"name\": \"' + call.name + '\", \"arguments\": ' }}{%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}{{- '}\\n</tool_call>' }}{{- '\\n' if not loop.last else '' }}{%- endfor %}",
    "xml": "{%- for call in message.tool_calls or [] %}{%- set f = call.function %}{{- '<function=' ~ f.name ~ '>' }}{%- if f.arguments is mapping %}{%- for name, value in f.arguments | items %}{{- '\\n<' ~ name ~ '>' ~ (value if value is string else value | tojson) ~ '</' ~ name ~ '>' }}{%- endfor %}{%- endif %}{{- '</function>' }}{%- endfor %}",
    "list": "{%- if message.tool_calls is defined and message.tool_calls is not none %}{{- '[CALLS] ' ~ message.tool_calls | map(attribute='function') | list | tojson }}{%- endif %}",
    "one": "{%- if message.tool_calls is defined and message.tool_calls %}{%- if message.tool_calls | length != 1 %}{{- raise_exception('one call a turn, not ' ~ message.tool_calls | length) }}{%- endif %}{%- set f = message.tool_calls[0].function %}{{- '{\"name\": \"' + f.name + '\", \"parameters\": ' }}{{- f.arguments | tojson }}{{- '}' }}{%- endif %}",
    "ids": "{%- for call in message['tool_calls'] or [] %}{%- set out = call.function | tojson %}{{- out[:-1] }}{%- if not call.id is defined or call.id | length > 3 %}{{- raise_exception('an id has three letters') }}{%- endif %}{{- ', \"id\": \"' + call.id + '\"}' }}{{- ', ' if not loop.last else ']' }}{%- endfor %}",
}
CONTENT = {
    "plain": "{%- set content = message.content if message.content is string else '' %}",
    "parts": "{%- set content = message['content'] if message['content'] is string else message['content'] | map(attribute='text') | join if message['content'] else '' %}",
    "macro": "{%- set content = write(message.content) | trim %}",
    "block": "{%- set content %}\n{%- if message.content is string %}{{ message.content }}{% elif message.content is iterable and message.content %}{% for p in message.content %}{{ p['text'] if p.type == 'text' else '?' }}{% endfor %}{% endif %}\n{%- endset %}",
    "strict": "{%- if message.content is not none and message.content is not string %}{{- raise_exception('text only') }}{%- endif %}{%- set content = (message.content or '').strip() %}",
}
THOUGHTS = {
    "kept": "",
    "cut": "{%- if role == 'assistant' and '</think>' in content %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}",
    "field": "{%- if role == 'assistant' %}{%- set thought = '' %}{%- if message.reasoning_content is string %}{%- set thought = message.reasoning_content %}{%- elif '</think>' in content %}{%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{%- if loop.index0 > last.query and (loop.last or thought) %}{%- set content = '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content %}{%- endif %}{%- endif %}",
}
BEFORE = {
    "macro": "{%- macro write(content) -%}{%- if content is string -%}{{ content }}{%- else -%}{%- for p in content or [] -%}{%- if p.type == 'text' -%}{{ p.text }}{%- else -%}<{{ p.type }}>{%- endif -%}{%- endfor -%}{%- endif -%}{%- endmacro -%}",
    "field": "{%- set last = namespace(query=messages | length - 1, open=true) %}{%- for m in messages[::-1] %}{%- set index = (messages | length - 1) - loop.index0 %}{%- if last.open and m.role == 'user' and m.content is string and not (m.content.startswith('<r>') and m.content.endswith('</r>')) %}{%- set last.open = false %}{%- set last.query = index %}{%- endif %}{%- endfor %}",
}
RESULTS = {
    "turn": "",
    "joined": "{%- if role == 'tool' %}{{- '<results>\\n' if loop.first or loop.previtem.role != 'tool' else '' }}{{- '<r>' ~ content ~ '</r>\\n' }}{{- '</results>\\n' if loop.last or loop.nextitem.role != 'tool' else '' }}{%- continue %}{%- endif %}",
    "user": "{%- if role == 'tool' %}{%- set role = 'user' %}{%- set content = {'output': content, 'of': message.name | default(none)} | tojson %}{%- endif %}",
}
CHECKS = {
    "none": "",
    "order": "{%- for m in messages %}{%- if m.role not in ['system', 'tool'] and not m.tool_calls %}{%- if loop.index0 > 40 %}{{- raise_exception('too long') }}{%- endif %}{%- endif %}{%- endfor %}",
    "first": "{%- if (messages | rejectattr('role', 'in', ['system', 'developer']) | first).role != 'user' %}{{- raise_exception('a user begins') }}{%- endif %}",
}
MARKS = {"none": ("", ""), "block": ("{%- generation %}", "{%- endgeneration %}")}


def template(frame, system, tools, calls, content, thoughts, results, check, mark, layout):
    open_, close, prompt = FRAMES[frame]
    begin, end = MARKS[mark]
    before = (BEFORE["macro"] if content == "macro" else "") + CHECKS[check] + SYSTEM[system] + TOOLS[tools] + (BEFORE["field"] if thoughts == "field" else "")
    body = "{%- set role = message['role'] %}" + CONTENT[content] + THOUGHTS[thoughts] + RESULTS[results] + "{{- " + open_ + " }}"
    answer = "{{- content }}" + CALLS[calls] + "{{- " + close + " }}"
    if mark == "block":
        answer = "{%- if role == 'assistant' %}" + begin + answer + end + "{%- else %}" + answer + "{%- endif %}"
    text = before + "{%- for message in messages %}" + body + answer + "{%- endfor %}{%- if add_generation_prompt %}{{- " + prompt + " }}{%- endif %}"
    if layout == "lines":  # every tag on its own line, indented by its depth
        text = text.replace("{%-", "\n    {%-").replace("{{-", "\n        {{-").lstrip("\n") + "\n"
    elif layout == "trimmed":  # what trim_blocks and lstrip_blocks take away
        text = text.replace("{%-", "  {%").replace("%}", "%}\n")
    return text


WORDS = ["Two.", "  a b ", "one\ntwo\n", "\u00e7a \U0001f44d", "{{ x }}", "", "<b> \"c\" 'd' \\ \t", "<think>\nhm\n</think>\n\nYes", "10% of 7", "\u3000\u00a0x"]
SPECS = [{"a": {"type": "number"}, "b": {"type": ["number", "null"], "default": 1.0}, "items": {"type": "array", "items": {"type": "string"}}},
         {"where": {"type": "object", "properties": {"x": {"type": "integer", "description": "\u00e9 & <b>"}}, "required": ["x"]}}, {}]


def tool(i):
    return {"type": "function", "function": {"name": f"f{i}", "description": ["Adds.", "Two\nlines \u00e9", ""][i], "parameters": {"type": "object", "properties": SPECS[i], "required": list(SPECS[i])[:1]}}}


ALL_TOOLS = [tool(i) for i in range(3)]
REFUSED = "----"


def chat(r):
    """A system message, questions in parts, calls and their results, thoughts."""
    m = [{"role": "system", "content": r.choice(WORDS)}] if r.random() < 0.4 else []
    for _ in range(r.randint(1, 2)):
        text = r.choice(WORDS)
        m.append({"role": "user", "content": [{"type": "text", "text": text}, *([{"type": "image"}] if r.random() < 0.3 else [])] if r.random() < 0.1 else text})
        if r.random() < 0.3:
            arguments = r.choice([{"a": 1, "b": 2.5, "s": ["\u00e9"]}, {}, {"n": None, "t": True, "d": {"x": [1, {}]}}, "{\"a\": 1}"])
            calls = [{"id": f"c{r.randint(1, 99)}", "type": "function", "function": {"name": "f0", "arguments": arguments}} for _ in range(r.choice([1, 1, 2]))]
            m.append({"role": "assistant", "content": r.choice([None, "", "Let me see."]), "tool_calls": calls})
            m += [{"role": "tool", "name": "f0", "tool_call_id": c["id"], "content": r.choice(["42", "{\"x\": [1]}"])} for c in calls]
        m.append({"role": "assistant", "content": r.choice(WORDS), **({"reasoning_content": "hm\n"} if r.random() < 0.2 else {})})
    return {"messages": m[:-1] if r.random() < 0.2 else m, "tools": r.choice([None, 1, 3, 0]),
            "documents": r.choice([None, None, [{"title": "t\u00e9", "text": "x y"}]]), "add_generation_prompt": r.random() < 0.5}


def digits(text, spans):
    h = 0x811C9DC5
    for byte in (text + "".join(f"{a}:{b} " for a, b in spans)).encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{h & 0xFFFF:04x}"


def written(source, row):
    try:
        (text,), spans = hf.render_jinja_template([row["messages"]], tools=row["tools"] if row["tools"] is None else ALL_TOOLS[:row["tools"]], documents=row["documents"], chat_template=source,
                                                  add_generation_prompt=row["add_generation_prompt"], return_assistant_tokens_mask=True, **SPECIAL)
        return digits(text, spans[0])
    except Exception:
        return REFUSED


def main():
    r = random.Random(7)
    parts = [FRAMES, SYSTEM, TOOLS, CALLS, CONTENT, THOUGHTS, RESULTS, CHECKS, MARKS, {"one": 0, "lines": 0, "trimmed": 0}]
    columns = [list(itertools.islice(itertools.cycle(p), 50)) for p in parts]
    for column in columns[1:]:
        r.shuffle(column)
    templates = [template(*choice) for choice in zip(*columns)]
    chats = [chat(r) for _ in range(200)]
    hashes = ["".join(written(t, c) for c in chats) for t in templates]
    lines = lambda items: "[\n" + ",\n".join(json.dumps(i, ensure_ascii=False) for i in items) + "\n]"
    (HERE / "structures.json").write_text('{"templates": ' + lines(templates) + ',\n"tools": ' + lines(ALL_TOOLS) + ',\n"chats": ' + lines(chats) + ',\n"hashes": ' + lines(hashes) + "}\n")
    print(len(templates), "templates,", len(chats), "chats,", sum(h.count(REFUSED) for h in hashes), "refused")


if __name__ == "__main__":
    main()
