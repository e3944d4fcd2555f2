// The chat template of stand-in checkpoints: the prompt rules of GLM-5.3 as Jinja, written for this project.
// The server recognises it by its marks and renders natively; it is here for Python programs that load the
// same folder.
#include "text/standin_tokenizer.h"

namespace glint {

std::string_view standin_chat_template() {
  return R"jinja({#- Chat template of a Glint stand-in checkpoint: the prompt rules of GLM-5.3. -#}
{%- macro json(value) -%}
{{- value | tojson(ensure_ascii=False) -}}
{%- endmacro -%}

{%- macro tool_line(tool) -%}
{%- set line = namespace(text='') -%}
{%- for key, value in (tool.function or tool).items() if key not in ['defer_loading', 'strict'] -%}
{%- set line.text = line.text ~ (', ' if line.text else '') ~ json(key) ~ ': ' ~ json(value) -%}
{%- endfor -%}
{{- '{' ~ line.text ~ '}\n' -}}
{%- endmacro -%}

{%- macro text_of(content) -%}
{%- if content is string -%}
{{- content -}}
{%- elif content -%}
{%- for part in content if part.type == 'text' -%}{{- part.text -}}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}

{%- macro assistant_turn(message, keep_reasoning) -%}
{%- set content = text_of(message.content) -%}
{%- set reasoning = '' -%}
{%- if message.reasoning_content is string -%}
{%- set reasoning = message.reasoning_content -%}
{%- elif '</think>' in content -%}
{%- set reasoning = content.split('</think>')[0].split('<think>')[-1] -%}
{%- set content = content.split('</think>')[-1] -%}
{%- endif -%}
{{- '<|assistant|><think>' ~ (reasoning if keep_reasoning else '') ~ '</think>' ~ content.strip() -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>' ~ (call.function or call).name -}}
{%- for key, value in (call.function or call).arguments.items() -%}
{{- '<arg_key>' ~ key ~ '</arg_key><arg_value>' ~ (value if value is string else json(value)) ~ '</arg_value>' -}}
{%- endfor -%}
{{- '</tool_call>' -}}
{%- endfor -%}
{%- endmacro -%}

{%- macro tool_result(message) -%}
{%- set first = message.content[0] if message.content else '' -%}
{%- if first.type == 'tool_reference' -%}
{{- '<tool_response><tools>\n' -}}
{%- for part in message.content -%}
{%- for tool in tools if (tool.function or tool).name == part.name -%}{{- tool_line(tool) -}}{%- endfor -%}
{%- endfor -%}
{{- '</tools></tool_response>' -}}
{%- elif first.output is defined -%}
{%- for part in message.content -%}{{- '<tool_response>' ~ part.output ~ '</tool_response>' -}}{%- endfor -%}
{%- else -%}
{{- '<tool_response>' ~ text_of(message.content) ~ '</tool_response>' -}}
{%- endif -%}
{%- endmacro -%}

{#- The results of one run, in the order of the calls if the ids say without doubt which belongs to which. -#}
{%- macro tool_run(results, calls) -%}
{%- set names = results | map(attribute='tool_call_id') | list -%}
{%- set call_ids = calls | map(attribute='id') | list -%}
{%- set sure = namespace(yes=names | unique | list | length == names | length and call_ids | unique | list | length == call_ids | length) -%}
{%- for name in names if not name or name not in call_ids -%}{%- set sure.yes = false -%}{%- endfor -%}
{%- for id in call_ids if not id -%}{%- set sure.yes = false -%}{%- endfor -%}
{{- '<|observation|>' -}}
{%- if sure.yes -%}
{%- for id in call_ids -%}
{%- for message in results if message.tool_call_id == id -%}{{- tool_result(message) -}}{%- endfor -%}
{%- endfor -%}
{%- else -%}
{%- for message in results -%}{{- tool_result(message) -}}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}

{{- '[gMASK]<sop><|system|>Reasoning Effort: ' ~ {'low': 'Low', 'high': 'High'}.get(reasoning_effort, 'Max') -}}
{%- if tools -%}
{{- '<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n' -}}
{{- 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n' -}}
{%- for tool in tools if not (tool.function or tool).defer_loading -%}{{- tool_line(tool) -}}{%- endfor -%}
{{- '</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n' -}}
{{- '<tool_call>{function-name}' -}}
{{- '<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>' -}}
{{- '<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>' -}}
{%- endif -%}

{%- set state = namespace(last_user=-1, results=[]) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set state.last_user = loop.index0 -%}{%- endif -%}
{%- endfor -%}

{%- for message in messages -%}
{%- if message.role in ['system', 'user'] -%}
{{- '<|' ~ message.role ~ '|>' ~ text_of(message.content) -}}
{%- elif message.role == 'assistant' -%}
{{- assistant_turn(message, not clear_thinking or loop.index0 > state.last_user) -}}
{%- elif message.role == 'tool' -%}
{%- set state.results = state.results + [message] -%}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}
{%- set before = loop.index0 - state.results | length -%}
{%- set calls = messages[before].tool_calls if before >= 0 and messages[before].role == 'assistant' else [] -%}
{{- tool_run(state.results, calls or []) -}}
{%- set state.results = [] -%}
{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|><think>' -}}{%- endif -%}
)jinja";
}

}  // namespace glint
