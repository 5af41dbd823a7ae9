#!/usr/bin/env python3
"""Writes chat_templates.json, which tests/text/chat_template_test.cc compares with.

What Jinja makes of templates with the words of those that SmolLM2, Qwen 2.5, Qwen 3,
Llama 2, Llama 3, Llama 3.2, Mistral, Phi-3, Phi-4, Gemma 2 and 3 and OLMo 2 come with (the parts about tools left out),
of some that are nearly ChatML, and of pieces that show the language, for a few
conversations. As with transformers, blocks are trimmed, loops have break and continue,
and tools and documents are none; there is no clock. Thinking is switched off; Qwen 3's
template is the one in PyPI's trl 1.16.0, chat_templates/qwen3.jinja.

    python3 tests/goldens/make_chat_goldens.py
"""

import json
import pathlib

import jinja2

TURNS = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
         "{{ raise_exception('Conversation roles must alternate') }}{% endif %}")
PROMPT = ("{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
TEMPLATES = {
    "smollm2": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
        "Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}" + PROMPT),
    "chatml": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}" + PROMPT),
    "qwen2.5": (
        "{%- if messages[0]['role'] == 'system' %}\n"
        "    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
        "{%- else %}\n"
        "    {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a "
        "helpful assistant.<|im_end|>\\n' }}\n{%- endif %}\n"
        "{%- for message in messages %}\n"
        "    {%- if (message.role == \"user\") or (message.role == \"system\" and not "
        "loop.first) or message.role == \"assistant\" %}\n"
        "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + "
        "'\\n' }}\n    {%- endif %}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n"),
    "qwen3": r"""{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string
           and not(message.content.startswith('<tool_response>')
                   and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\n')
                    .split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n')
                    + '\n</think>\n\n' + content.lstrip('\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    "llama2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = "
        "messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
        + TURNS +
        "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + "
        "system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
        "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + "
        "'[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
    "llama3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
        "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
        "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
        "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"),
    "llama3.2": (
        "{{- bos_token }}\n{%- if not date_string is defined %}\n"
        "    {%- set date_string = \"26 Jul 2024\" %}\n{%- endif %}\n"
        "{%- if messages[0]['role'] == 'system' %}\n"
        "    {%- set system_message = messages[0]['content']|trim %}\n"
        "    {%- set messages = messages[1:] %}\n{%- else %}\n"
        "    {%- set system_message = \"\" %}\n{%- endif %}\n"
        "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
        "{{- \"Cutting Knowledge Date: December 2023\\n\" }}\n"
        "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}\n"
        "{{- system_message }}\n{{- \"<|eot_id|>\" }}\n"
        "{%- for message in messages %}\n"
        "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ "
        "message['content'] | trim + '<|eot_id|>' }}\n{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n"),
    "mistral0.2": (
        "{{ bos_token }}{% for message in messages %}" + TURNS +
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
        "{% else %}{{ raise_exception('Only user and assistant roles!') }}{% endif %}{% endfor %}"),
    "mistral0.1": (
        "{{ bos_token }}{% for message in messages %}" + TURNS +
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
        "{% endif %}{% endfor %}"),
    "phi4": (
        "{% for message in messages %}{% if (message['role'] == 'system') %}"
        "{{ '<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>' }}"
        "{% elif (message['role'] == 'user') %}"
        "{{ '<|im_start|>user<|im_sep|>' + message['content'] + '<|im_end|>' }}"
        "{% elif (message['role'] == 'assistant') %}"
        "{{ '<|im_start|>assistant<|im_sep|>' + message['content'] + '<|im_end|>' }}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"),
    "phi3": (
        "{% for message in messages %}{% if message['role'] == 'system' %}"
        "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'user' %}"
        "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}"
        "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}"
        "{% endif %}"),
    "gemma2": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for message in messages %}" + TURNS +
        "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
        "{% set role = message['role'] %}{% endif %}"
        "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
        "'<end_of_turn>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"),
    "gemma3": r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "olmo2": (
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
        "{{ '<|system|>\n' + message['content'] + '\n' }}"
        "{% elif message['role'] == 'user' %}"
        "{{ '<|user|>\n' + message['content'] + '\n' }}"
        "{% elif message['role'] == 'assistant' %}{% if not loop.last %}"
        "{{ '<|assistant|>\n'  + message['content'] + eos_token + '\n' }}{% else %}"
        "{{ '<|assistant|>\n'  + message['content'] + eos_token }}{% endif %}{% endif %}"
        "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
        "{% endfor %}"),
    "chatml without line ends": (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}"
        "{% endfor %}" + PROMPT),
    "chatml of a default by a variable": (
        "{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] %}"
        "{% set rest = messages[1:] %}{% else %}{% set s = 'You answer kindly.' %}"
        "{% set rest = messages %}{% endif %}{{ '<|im_start|>system\n' + s + '<|im_end|>\n' }}"
        "{% for m in rest %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + "
        "'<|im_end|>\n' }}{% endfor %}" + PROMPT),
    "chatml of a default with an apostrophe": (
        "{% for m in messages %}{% if loop.first and m[\"role\"] != \"system\" %}"
        "{{ \"<|im_start|>system\\nYou don't lie.<|im_end|>\\n\" }}{% endif %}"
        "{{ \"<|im_start|>\" + m[\"role\"] + \"\\n\" + m[\"content\"] + \"<|im_end|>\\n\" }}"
        "{% endfor %}" + PROMPT),
    "chatml of a bot": (
        "{% for m in messages %}{{ '<|im_start|>' + ('bot' if m['role'] == 'assistant' else "
        "m['role']) + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>bot\n' }}{% endif %}"),
    "chatml in lines of Windows": (
        "{%- if messages[0].role != 'system' %}\r\n"
        "    {{- '<|im_start|>system\nBe kind<|im_end|>\n' }}\r\n{%- endif %}\r\n"
        "{% for m in messages %}\r\n<|im_start|>{{ m.role }}\r\n{{ m.content }}<|im_end|>\r\n"
        "{% endfor %}\r\n{% if add_generation_prompt %}\r\n<|im_start|>assistant\r\n{% endif %}\r\n"),
    "white space": (
        " {% if true %} \n a\n  {%+ if 1 %} b {% endif %}\n\t{# c #}\n d {#- e -#} \n f {{- 'g' -}} \n"
        " h\n{% endif %}\n{% for m in messages -%}\n  {{ m.role }}  \n{%- endfor +%}\nend\n\n"),
    "strings": (
        "{{ '\\x41\\u00e9\\n\\'\\q' \"ab\" 'c' }}{{ messages[-1].content.strip() }}|"
        "{{ messages[0]['content'].split(' ')[-1] }}|{{ messages[-1].content.split()|join('.') }}|"
        "{{ messages[-1].content.lstrip('\\t W') }}|{{ 'Ab' | upper }}{{ 'Ab'.lower() }}|"
        "{{ 'abcb'.replace('b', '_') }}{{ 'a b c'.split(' ', 1)[1] }}{{ 'abc'[-2:] }}{{ 'abc'[1] }}"
        "{{ 'abc'[::-1] }}|{{ messages[-1].content | trim }}|{{ 'x\"\n' | tojson }}"
        "{{ messages[0] | tojson }}{{ 'hello' | capitalize }}{{ 'abc'.endswith('bc') }}"),
    "values": (
        "{{ none }}{{ true }}{{ nothing }}{{ 3 // -2 }}{{ -3 % 2 }}{{ 1 + 2 * 3 - 4 }}{{ -1 }}"
        "{{ 'a' ~ 1 ~ none ~ nothing ~ 'b' }}{{ 'x' if messages|length > 9 }}"
        "{{ 'y' if false else 'z' }}{{ not 1 == 2 and 'a' not in 'bc' or false }}"
        "{{ nothing is defined }}{{ nothing is not defined }}{{ '' or 'y' }}{{ none is none }}"
        "{{ messages[0].get('x', 'q') }}{{ 'role' in messages[0] }}{{ messages[0].x is defined }}"
        "{{ messages[9] is defined }}{{ ['a', 'b', 'c'][1:]|join('-') }}{{ [1, 2, 3][::-2]|join }}"
        "{{ {'a': {'b': 'c'}}['a'].b }}{{ tools is none }}{{ nothing | default('d') }}"
        "{{ '' | default('e', true) }}{{ messages is iterable and messages is not mapping }}"
        "{{ 'user' in ('user', 'tool') }}{{ bos_token + eos_token }}{{ messages | last is mapping }}"),
    "blocks": (
        "{% macro show(x, y='d') %}[{{ x }}{{ y }}{{ bos_token }}]{% endmacro %}{{ show(1) }}"
        "{{ show(y=2, x=3) }}{% set ns = namespace(n=1, r='') %}{% set n = 0 %}"
        "{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.r = ns.r ~ m.role %}"
        "{% set n = n + 1 %}{{ n }}{% endfor %}{{ ns.n }}{{ ns.r }}{{ n }}"
        "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}"
        "{% endif %}{{ i }}{% endfor %}{% for m in messages if m.role != 'user' %}{{ loop.first }}"
        "{{ loop.last }}{{ loop.index }}{{ loop.length }}{% else %}none{% endfor %}"
        "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}>"
        "{{ loop.nextitem.role if not loop.last }}{{ loop.revindex0 }}{% endfor %}"
        "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}"
        "{% set t %}a{{ 1 }}{% endset %}{{ t }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
        "{{ messages | map(attribute='role') | join(', ') }}"),
}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
TALK = [{"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "  Hi there\n"},
        {"role": "user", "content": "\tWho <|are|> you? "}]
SPACES = [{"role": "user", "content": "\u3000a  b\x1c"},
          {"role": "assistant", "content": "\u00a0\u00e9\U0001f600\u2003"}]

# Answers with thoughts before and behind the last question, two in a row, none to ask, a
# tool's result, and marks of thoughts that stand alone or twice.
THINKING = [
    [{"role": "user", "content": "2 + 2?"},
     {"role": "assistant", "content": "<think>\n\nTwo and two.\n</think>\n\n4"},
     {"role": "user", "content": "</think> Sure?"},
     {"role": "assistant", "content": "\n<think>Yes.</think>\nYes\n"}],
    [SYSTEM,
     {"role": "user", "content": "2 + 2?"},
     {"role": "assistant", "content": "\nLet me see."},
     {"role": "assistant", "content": "<think>\nAdd.\n</think>\nI add."},
     {"role": "user", "content": "<tool_response>\n4\n</tool_response>"},
     {"role": "system", "content": "Be exact."},
     {"role": "assistant", "content": "\n\n4"}],
    [{"role": "assistant", "content": "Hello"}, {"role": "assistant", "content": "You?"}],
    [{"role": "user", "content": "<tool_response>"},
     {"role": "assistant", "content": "a<think>b</think>c<think>d</think>\n\n</think>e"}],
    [{"role": "user", "content": "Go"},
     {"role": "assistant", "content": "</think>\n"}],
    [{"role": "user", "content": "Go"},
     {"role": "assistant", "content": "<think> \n open"}],
]


def refuse(message):
    raise jinja2.TemplateError(message)


def main():
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True,
                                     extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    rows = []
    for name, text in TEMPLATES.items():
        template = environment.from_string(text)
        tokens = {"bos_token": "<|begin_of_text|>" if name.startswith("llama3") else "<s>",
                  "eos_token": "</s>"}
        more = THINKING if name == "qwen3" else []
        for messages in [TALK, TALK[:2], [SYSTEM] + TALK, SPACES] + more:
            for opened in (False, True):
                try:
                    wanted = template.render(messages=messages, add_generation_prompt=opened,
                                             tools=None, documents=None,
                                             enable_thinking=False, **tokens)
                except jinja2.TemplateError:
                    wanted = None
                rows.append({"name": name, "messages": messages, "open_answer": opened,
                             "bos_token": tokens["bos_token"], "text": wanted})
    path = pathlib.Path(__file__).resolve().parent / "chat_templates.json"
    path.write_text(json.dumps({"templates": TEMPLATES, "rows": rows}, indent=1) + "\n",
                    encoding="utf-8")


if __name__ == "__main__":
    main()
