#!/usr/bin/env python3
"""Writes chat_templates.json, which tests/text/chat_template_test.cc compares with.

What Jinja makes of templates with the words of those that SmolLM2, Qwen 2.5, Qwen 3,
Llama 2, Llama 3, Llama 3.2 and Mistral come with (the parts about tools left out), for a
few conversations. As with transformers, blocks are trimmed, and there is no clock. Qwen 3
is told not to think; its template is the one in PyPI's trl 1.16.0,
chat_templates/qwen3.jinja.

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
}
SYSTEM = {"role": "system", "content": " Be brief.\n"}
TALK = [{"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "  Hi there\n"},
        {"role": "user", "content": "\tWho <|are|> you? "}]

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
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    rows = []
    for name, text in TEMPLATES.items():
        template = environment.from_string(text)
        bos = "<|begin_of_text|>" if name.startswith("llama3") else "<s>"
        more = THINKING if name == "qwen3" else []
        for messages in [TALK, TALK[:2], [SYSTEM] + TALK] + more:
            for opened in (False, True):
                try:
                    wanted = template.render(messages=messages, bos_token=bos, eos_token="</s>",
                                             add_generation_prompt=opened,
                                             enable_thinking=False)
                except jinja2.TemplateError:
                    wanted = None
                rows.append({"name": name, "template": text, "messages": messages,
                             "open_answer": opened, "text": wanted})
    path = pathlib.Path(__file__).resolve().parent / "chat_templates.json"
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
